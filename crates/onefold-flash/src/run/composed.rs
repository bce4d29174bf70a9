//! What a page holds that was written in pieces.
//! Room: onefold-flash.   In: pieces of requests.   Out: the content of whole pages.
//! A page is a list of extents, each a range of bytes of some content: that of a request, or that
//! of the page before. Pages are equal if their lists are, so a piece never makes two pages equal
//! that differ elsewhere. Pages that came to the same bytes by different pieces count as different:
//! identities do not say more.
//! Invariants: extents cover the page, in order, and neighbours that continue each other are one.
//! Cost: some 100 bytes for each page written in pieces since it was last written whole.

use std::collections::BTreeMap;

use crate::dedup::mix64;
use crate::run::request::{Piece, SimPage};

/// Bytes of a page that are bytes of some content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// First byte in the page, and the one after the last.
    from: u32,
    to: u32,
    /// The content.
    identity: u128,
    /// The first byte in the content.
    at: u64,
}

impl Extent {
    /// The part of it that lies within these bytes of the page.
    fn within(self, from: u32, to: u32) -> Option<Self> {
        let (first, last) = (self.from.max(from), self.to.min(to));
        let skipped = u64::from(first.saturating_sub(self.from));
        (first < last).then_some(Self { from: first, to: last, at: self.at + skipped, ..self })
    }

    fn continues(&self, before: &Self) -> bool {
        let length = u64::from(before.to - before.from);
        self.identity == before.identity && self.at == before.at + length
    }
}

/// What never written pages hold.
const ZEROES: u128 = 0;

/// The pages that were written in pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Composed {
    pages: BTreeMap<u32, Vec<Extent>>,
}

impl Composed {
    /// The page has been written whole, or forgotten.
    pub(crate) fn replaced(&mut self, lpn: u32) {
        if !self.pages.is_empty() {
            self.pages.remove(&lpn);
        }
    }

    /// The content of a page of which a piece is written over what was there.
    pub(crate) fn overlay<P: SimPage>(&mut self, lpn: u32, piece: &Piece, old: Option<P>) -> P {
        let page = Extent {
            from: 0,
            to: piece.page_bytes,
            identity: old.map_or(ZEROES, |old| old.key()),
            at: 0,
        };
        let before = self.pages.remove(&lpn).unwrap_or_else(|| vec![page]);
        let new =
            Extent { from: piece.from, to: piece.to, identity: piece.content(), at: piece.at };
        let ahead = before.iter().filter_map(|extent| extent.within(0, piece.from));
        let behind = before.iter().filter_map(|extent| extent.within(piece.to, piece.page_bytes));
        let mut extents: Vec<Extent> = Vec::with_capacity(before.len() + 2);
        for extent in ahead.chain([new]).chain(behind) {
            match extents.last_mut() {
                Some(last) if extent.continues(last) => last.to = extent.to,
                _ => extents.push(extent),
            }
        }
        let key = key(&extents);
        self.pages.insert(lpn, extents);
        P::of_key(key)
    }
}

/// Tells lists of extents apart; a page that is all of one content from its start on is that.
fn key(extents: &[Extent]) -> u128 {
    if let [Extent { at: 0, identity, .. }] = extents {
        return *identity;
    }
    let (mut high, mut low) = (0x0c0_4605_ed00, extents.len() as u64);
    for extent in extents {
        let words = [
            extent.identity as u64,
            (extent.identity >> 64) as u64,
            extent.at,
            u64::from(extent.from) << 32 | u64::from(extent.to),
        ];
        for word in words {
            high = mix64(high ^ word.rotate_left(17));
            low = mix64(low.wrapping_add(word) ^ high);
        }
    }
    u128::from(high) << 64 | u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nand::Identity;
    use onefold_workload::Identity as ContentIdentity;

    fn piece(content: u8, from: u32, to: u32, at: u64) -> Piece {
        let identity = Some(ContentIdentity::from_bytes([content; 16]));
        Piece { from, to, page_bytes: 8192, at, identity, number: 0 }
    }

    #[test]
    fn pages_are_equal_if_all_their_pieces_are() {
        let mut composed = Composed::default();
        let mut write = |lpn, pieces: &[Piece]| {
            let one =
                |old: Option<Identity>, piece: &Piece| Some(composed.overlay(lpn, piece, old));
            pieces.iter().fold(None, one).expect("at least one piece").key()
        };
        let halves = write(0, &[piece(1, 0, 4096, 0), piece(2, 4096, 8192, 0)]);
        let turned = write(1, &[piece(2, 4096, 8192, 0), piece(1, 0, 4096, 0)]);
        assert_eq!(halves, turned, "in whatever order they came");
        let others = [
            write(2, &[piece(1, 0, 4096, 0), piece(3, 4096, 8192, 0)]),
            write(3, &[piece(3, 0, 4096, 0), piece(2, 4096, 8192, 0)]),
            write(4, &[piece(2, 4096, 8192, 0)]),
            write(5, &[piece(2, 0, 4096, 0), piece(1, 4096, 8192, 0)]),
            write(6, &[piece(1, 0, 4096, 512), piece(2, 4096, 8192, 0)]),
            write(7, &[piece(1, 0, 4096, 0), piece(2, 4096, 8192, 0), piece(1, 512, 1024, 0)]),
        ];
        for (at, other) in others.iter().enumerate() {
            assert!(*other != halves && !others[..at].contains(other), "page {}", at + 2);
        }
        let again =
            write(8, &[piece(9, 0, 8192, 0), piece(2, 4096, 8192, 0), piece(1, 0, 4096, 0)]);
        assert_eq!(again, halves, "whatever was there before");
        let joined = write(9, &[piece(1, 0, 4096, 0), piece(1, 4096, 8192, 4096)]);
        assert_eq!(joined, piece(1, 0, 8192, 0).content(), "two pieces of one content are whole");
    }
}
