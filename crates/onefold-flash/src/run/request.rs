//! Requests of the host in pages, and what a page holds in a simulation.
//! Room: onefold-flash.   Out: [`HostRequest`]s.

use onefold_workload::composed::{Piece, fresh};
use onefold_workload::{Identity as ContentIdentity, Op};

use crate::nand::Identity;

/// A request in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRequest {
    /// Its number, from 0.
    pub number: u64,
    /// When it came, in ns.
    pub arrival_ns: u64,
    /// What it does.
    pub op: Op,
    /// Its first page.
    pub lpn: u32,
    /// Its pages; 0 for a flush.
    pub pages: u32,
    /// Where in its first page it begins, in bytes.
    pub first_byte: u32,
    /// Where in its last page it ends: the byte after its last one.
    pub end_byte: u32,
    /// The content that it writes, where that is known.
    pub identity: Option<ContentIdentity>,
    /// Whether what it writes is to be deduplicated or to keep its redundancy, where the host says.
    pub deduplicate: Option<bool>,
}

impl HostRequest {
    /// Its pages, on a drive of so many; those beyond it begin again at the first.
    pub fn lpns(self, drive_pages: u32) -> impl Iterator<Item = u32> {
        let wrap = move |lpn: u32| if lpn < drive_pages { lpn } else { lpn - drive_pages };
        (0..self.pages).map(move |index| wrap(self.lpn + index))
    }

    /// A request in codewords of so many bytes, as one in pages that have so many of them each.
    #[inline]
    pub(crate) fn in_pages(self, codewords: u32, bytes: u32) -> Self {
        if codewords == 1 || self.pages == 0 {
            return self;
        }
        let (first, last) = (self.lpn % codewords, (self.lpn + self.pages - 1) % codewords);
        Self {
            lpn: self.lpn / codewords,
            pages: (first + self.pages).div_ceil(codewords),
            first_byte: first * bytes + self.first_byte,
            end_byte: last * bytes + self.end_byte,
            ..self
        }
    }

    /// What it writes of its page number `index`; `number` is fresh for every page.
    pub fn piece(&self, index: u32, page_bytes: u32, number: u64) -> Piece {
        let from = if index == 0 { self.first_byte } else { 0 };
        let to = if index + 1 == self.pages { self.end_byte } else { page_bytes };
        let at =
            u64::from(index) * u64::from(page_bytes) + u64::from(from) - u64::from(self.first_byte);
        Piece { from, to, unit_bytes: page_bytes, at, identity: self.identity, number }
    }
}

/// What a page holds in a simulation.
pub trait SimPage: Clone + PartialEq {
    /// Whether pages can be told apart.
    const HAS_CONTENT: bool;

    /// The content with this key.
    fn of_key(key: u128) -> Self;

    /// Content that only this number has.
    fn fresh(number: u64) -> Self {
        Self::of_key(fresh(number))
    }

    /// What tells it from other content; 0 where there is none.
    fn key(&self) -> u128;
}

impl SimPage for () {
    const HAS_CONTENT: bool = false;

    fn of_key(_key: u128) -> Self {}

    fn key(&self) -> u128 {
        0
    }
}

impl SimPage for Identity {
    const HAS_CONTENT: bool = true;

    fn of_key(key: u128) -> Self {
        Self(key)
    }

    fn key(&self) -> u128 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codewords_are_counted_by_the_pages_that_they_lie_in() {
        let request = |lpn, pages, first_byte, end_byte| HostRequest {
            number: 7,
            arrival_ns: 0,
            op: Op::Write,
            lpn,
            pages,
            first_byte,
            end_byte,
            identity: None,
            deduplicate: None,
        };
        // Codewords of 1 KiB, four to a page: bytes 5100 to 9300 are in pages 1 and 2.
        let found = request(4, 6, 1004, 84).in_pages(4, 1024);
        assert_eq!(found, request(1, 2, 1004, 1108));
        // The last codeword of one page and the first of the next.
        assert_eq!(request(3, 2, 0, 1024).in_pages(4, 1024), request(0, 2, 3072, 1024));
        assert_eq!(request(8, 4, 0, 1024).in_pages(4, 1024), request(2, 1, 0, 4096));
        assert_eq!(request(3, 2, 9, 17).in_pages(1, 4096), request(3, 2, 9, 17));
        assert_eq!(request(0, 0, 0, 0).in_pages(4, 1024), request(0, 0, 0, 0));
    }
}
