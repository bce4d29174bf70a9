//! A cheap test for blocks that no compressor will shrink: random, encrypted or packed already.
//! Room: onefold-content.   In: a block.   Out: whether its bytes are spread like random ones.
//! Invariants: says yes only if every 4 KiB of the block looks random by itself.
//! Cost: one sample in 7 bytes; compressible blocks mostly answer after the first 4 KiB. zstd
//! spends several times that on a random block. LZ4 does not: its own step, which grows on
//! misses, crosses random bytes as fast as this test (`benches/kernels`, `skip`), so that only
//! zstd asks.

/// Bytes judged on their own.
const PIECE: usize = 4096;
/// Shortest block judged: fewer samples could not tell text from noise.
const LEN_MIN: usize = 2048;
/// One byte in so many is counted; odd, so that all bytes of wider numbers are seen.
const STRIDE: usize = 7;

/// Whether `data` looks random, so that compressing it would be wasted work. Always false below
/// 2 KiB.
pub fn looks_incompressible(data: &[u8]) -> bool {
    if data.len() < LEN_MIN {
        return false;
    }
    let mut pieces = data.chunks_exact(PIECE);
    if !pieces.all(piece_looks_random) {
        return false;
    }
    // The tail is judged with the bytes before it, so that there are enough samples.
    data.len().is_multiple_of(PIECE)
        || piece_looks_random(&data[data.len().saturating_sub(PIECE)..])
}

/// A look at few samples, which settles most structured pieces, then one at all.
fn piece_looks_random(piece: &[u8]) -> bool {
    spread_evenly(piece, 5 * STRIDE, 8) && spread_evenly(piece, STRIDE, 4)
}

/// Counts one byte in `stride` by value and compares the sum of squared counts with that of
/// evenly spread bytes: n random samples have an expected sum of n + n * (n - 1) / 256 with a
/// standard deviation of n / 11. More than `deviations` above is uneven; four of them let fewer
/// than one random piece in a thousand through to the compressor.
fn spread_evenly(piece: &[u8], stride: usize, deviations: u32) -> bool {
    // Two tables, since the same counter twice in a row waits for its own store.
    let mut counts = [[0_u16; 256]; 2];
    for pair in piece.chunks(2 * stride) {
        counts[0][usize::from(pair[0])] += 1;
        if let Some(&second) = pair.get(stride) {
            counts[1][usize::from(second)] += 1;
        }
    }
    let [first, second] = counts;
    let squares: u32 = first.iter().zip(second).map(|(a, b)| u32::from(a + b).pow(2)).sum();
    let samples = piece.len().div_ceil(stride) as u32;
    squares < samples + samples * (samples - 1) / 256 + samples * deviations / 11
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn noise_is_skipped_and_structure_is_not() {
        for len in [2048, 4096, 5000, 65536, 131_072] {
            let random = noise(len);
            assert!(looks_incompressible(&random), "{len} random bytes");
            let text: Vec<u8> = random.iter().map(|b| b'a' + b % 26).collect();
            assert!(!looks_incompressible(&text), "{len} letters");
            assert!(!looks_incompressible(&vec![0; len]), "{len} zeros");
            // One piece with structure is enough.
            let mut mixed = random.clone();
            mixed[len - 2048..].fill(b' ');
            assert!(!looks_incompressible(&mixed), "{len} bytes, the last 2 KiB blank");
        }
    }

    #[test]
    fn numbers_with_random_low_bytes_are_not_random() {
        let mut numbers = noise(4096);
        for number in numbers.chunks_exact_mut(8) {
            number[2..].fill(0);
        }
        assert!(!looks_incompressible(&numbers));
    }

    #[test]
    fn short_blocks_are_never_skipped() {
        assert!(!looks_incompressible(&noise(LEN_MIN - 1)));
        assert!(!looks_incompressible(&[]));
    }
}
