//! Content-defined chunks of a stream that arrives in pieces, each named by its hash.
//! Room: onefold-estimate.   In: pieces of a stream.   Out: one call per chunk with its bytes.

use onefold_content::{ChunkSizes, FastCdc};

/// One content-defined chunker and the bytes of the chunk that is not finished.
pub(crate) struct Stream {
    chunker: FastCdc,
    /// Bytes of the stream pushed so far.
    pushed: u64,
    /// The open chunk's bytes from earlier pieces.
    carry: Vec<u8>,
}

impl Stream {
    pub(crate) fn new(sizes: ChunkSizes) -> Self {
        let carry = Vec::with_capacity(sizes.max());
        Self { chunker: FastCdc::new(sizes), pushed: 0, carry }
    }

    /// The next piece; `found` gets the bytes of every chunk that ends in it.
    pub(crate) fn push(&mut self, piece: &[u8], mut found: impl FnMut(&[u8])) {
        let (pushed, carry) = (self.pushed, &mut self.carry);
        let mut open = 0;
        self.chunker.push(piece, |cut| {
            let end = (cut.offset + cut.len as u64 - pushed) as usize;
            if carry.is_empty() {
                found(&piece[open..end]);
            } else {
                carry.extend_from_slice(&piece[..end]);
                found(carry);
                carry.clear();
            }
            open = end;
        });
        carry.extend_from_slice(&piece[open..]);
        self.pushed += piece.len() as u64;
    }

    /// The end of the stream, and the start of another.
    pub(crate) fn finish(&mut self, found: impl FnOnce(&[u8])) {
        self.chunker.finish();
        if !self.carry.is_empty() {
            found(&self.carry);
        }
        self.carry.clear();
        self.pushed = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chunks(data: &[u8], pieces: &[usize]) -> Vec<Vec<u8>> {
        let mut stream = Stream::new(ChunkSizes::new(64, 256, 2048).unwrap());
        let mut all = Vec::new();
        // Twice, to see that a stream begins afresh.
        for _ in 0..2 {
            all.clear();
            let mut rest = data;
            for &piece in pieces {
                let (head, tail) = rest.split_at(piece.min(rest.len()));
                stream.push(head, |chunk| all.push(chunk.to_vec()));
                rest = tail;
            }
            stream.push(rest, |chunk| all.push(chunk.to_vec()));
            stream.finish(|chunk| all.push(chunk.to_vec()));
        }
        all
    }

    proptest! {
        #[test]
        fn chunks_hold_the_stream_and_do_not_depend_on_its_pieces(
            seed in any::<u64>(),
            len in 0usize..20_000,
            pieces in prop::collection::vec(0usize..3000, 0..12),
        ) {
            let byte = |i: usize| (crate::walk::hash_bytes(seed, &i.to_le_bytes()) >> 40) as u8;
            let data: Vec<u8> = (0..len).map(byte).collect();
            let whole = chunks(&data, &[]);
            prop_assert_eq!(whole.concat(), data.clone());
            prop_assert!(whole.iter().all(|chunk| chunk.len() <= 2048));
            prop_assert_eq!(chunks(&data, &pieces), whole);
        }
    }
}
