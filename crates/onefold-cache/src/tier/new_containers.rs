//! The bytes of containers that are being filled, to be kept on the fast device when they are full.
//! Room: onefold-cache.
//! Invariant: what [`NewContainers::end`] gives is all of a container from its first byte, as it
//! was appended; of one that it does not know wholly, it gives nothing.
//! Cost: a container's bytes for each that is being filled, of [`MAX`] at most.

use std::collections::VecDeque;

use onefold_block::ContainerId;

/// Containers at once: a pool fills one with what is new, one with what moves, and a few are full
/// and wait to be written out.
const MAX: usize = 4;

/// The containers that are being filled, the oldest first.
#[derive(Debug, Default)]
pub struct NewContainers {
    on: bool,
    filling: VecDeque<(ContainerId, Vec<u8>)>,
}

impl NewContainers {
    /// None yet. If it is not `on`, there will never be any.
    pub const fn new(on: bool) -> Self {
        Self { on, filling: VecDeque::new() }
    }

    fn place(&self, id: ContainerId) -> Option<usize> {
        self.filling.iter().position(|(filling, _)| *filling == id)
    }

    /// A container was made, and is empty.
    pub fn begin(&mut self, id: ContainerId) {
        self.forget(id);
        if self.on {
            self.filling.push_back((id, Vec::new()));
        }
    }

    /// Bytes were appended at an offset: where the last ended, or the same bytes once more.
    pub fn append(&mut self, id: ContainerId, offset: u64, data: &[u8]) {
        let Some(place) = self.place(id) else { return };
        let bytes = &mut self.filling[place].1;
        match usize::try_from(offset) {
            Ok(offset) if offset <= bytes.len() => {
                bytes.truncate(offset);
                bytes.extend_from_slice(data);
                self.let_go();
            }
            _ => self.forget(id),
        }
    }

    /// Too many have bytes: the one that began first is read when somebody wants it.
    fn let_go(&mut self) {
        let has_bytes = |(_, bytes): &(ContainerId, Vec<u8>)| !bytes.is_empty();
        if self.filling.iter().filter(|new| has_bytes(new)).count() > MAX {
            let oldest = self.filling.iter().position(has_bytes);
            self.filling.remove(oldest.unwrap_or_default());
        }
    }

    /// A container is full and has `len` bytes: these, if they are known.
    pub fn end(&mut self, id: ContainerId, len: u64) -> Option<Vec<u8>> {
        let (_, bytes) = self.filling.remove(self.place(id)?)?;
        (bytes.len() as u64 == len).then_some(bytes)
    }

    /// A container is not to be kept, or goes.
    pub fn forget(&mut self, id: ContainerId) {
        if let Some(place) = self.place(id) {
            self.filling.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> ContainerId {
        ContainerId::new(number)
    }

    #[test]
    fn a_container_is_given_whole_or_not_at_all() {
        let mut new = NewContainers::new(true);
        for number in 0..4 {
            new.begin(id(number));
            new.append(id(number), 0, b"ab");
        }
        new.append(id(0), 2, b"cd");
        new.append(id(0), 2, b"cdef");
        assert_eq!(new.end(id(0), 6), Some(b"abcdef".to_vec()), "bytes that come again replace");
        assert_eq!(new.end(id(0), 6), None, "once");
        new.append(id(1), 3, b"d");
        assert_eq!(new.end(id(1), 4), None, "with a hole");
        assert_eq!(new.end(id(2), 3), None, "of another length");
        new.forget(id(3));
        assert_eq!(new.end(id(3), 2), None, "forgotten");
        new.append(id(9), 0, b"ab");
        assert_eq!(new.end(id(9), 2), None, "never begun here");
        new.begin(id(5));
        new.append(id(5), 0, b"ab");
        new.begin(id(5));
        assert_eq!(new.end(id(5), 0), Some(Vec::new()), "begun once more");
        assert_eq!(new.end(id(5), 2), None, "the first of that number is forgotten");
    }

    #[test]
    fn no_more_than_a_few_are_remembered_and_none_if_it_is_off() {
        let mut new = NewContainers::new(true);
        for number in 0..40 {
            new.begin(id(number));
        }
        for number in 0..40 {
            new.append(id(number), 0, b"ab");
        }
        let known = (0..40).filter(|&number| new.end(id(number), 2).is_some());
        assert_eq!(known.collect::<Vec<_>>(), [36, 37, 38, 39]);
        let mut off = NewContainers::new(false);
        off.begin(id(1));
        off.append(id(1), 0, b"ab");
        assert_eq!(off.end(id(1), 2), None);
    }
}
