//! The memory of a container that is being filled: aligned, so that it can be written past the page
//! cache, and kept for the next one.
//! Room: onefold-pool.

/// Where the first byte lies in memory, and so every page of the file: on a multiple of this.
const ALIGN_BYTES: usize = 4096;

/// Bytes that grow up to a fixed capacity and never move.
#[derive(Default)]
pub struct Buffer {
    memory: Vec<u8>,
    /// Bytes before the first aligned one.
    start: usize,
}

impl Buffer {
    /// An empty buffer, in the memory of `former` if that is large enough.
    pub fn new(capacity: usize, former: Option<Self>) -> Self {
        let mut memory = former.unwrap_or_default().memory;
        memory.clear();
        memory.reserve_exact(capacity + ALIGN_BYTES);
        let start = memory.as_ptr().align_offset(ALIGN_BYTES);
        assert!(start < ALIGN_BYTES, "an address can be aligned");
        memory.resize(start, 0);
        Self { memory, start }
    }

    /// Whether there is any memory in it.
    pub const fn is_allocated(&self) -> bool {
        self.memory.capacity() > 0
    }

    /// The bytes so far.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..]
    }

    /// Add bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        assert!(self.memory.len() + bytes.len() <= self.memory.capacity(), "it does not move");
        self.memory.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_and_stays_where_it_is() {
        let mut buffer = Buffer::new(10_000, None);
        for round in 0..3u8 {
            let at = buffer.bytes().as_ptr();
            assert_eq!(at.align_offset(ALIGN_BYTES), 0);
            buffer.extend(&[round; 6000]);
            buffer.extend(&[round; 4000]);
            assert_eq!(buffer.bytes(), [round; 10_000]);
            assert_eq!(buffer.bytes().as_ptr(), at);
            buffer = Buffer::new(10_000, Some(buffer));
            assert!(buffer.bytes().is_empty());
        }
    }
}
