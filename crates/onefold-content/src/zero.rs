//! The all-zero test: zero blocks are holes and are never hashed or stored.
//! Room: onefold-content.   In: a block.   Out: whether every byte is zero.
//! Cost: one pass at memory speed over zero data; the first words decide almost all other blocks.

/// Bytes folded together between two looks at the result; wide enough for the widest vectors.
const STRIDE: usize = 256;

/// Whether every byte of `data` is zero. An empty slice is zero.
pub fn is_zero(data: &[u8]) -> bool {
    // Most non-zero blocks show it in their first bytes, most zero blocks are long.
    let (head, rest) = data.split_at(data.len().min(16));
    if head.iter().any(|&b| b != 0) {
        return false;
    }
    let mut strides = rest.chunks_exact(STRIDE);
    // The inner fold has no early exit, so that it becomes vector ORs.
    strides.all(|stride| stride.iter().fold(0, |acc, &b| acc | b) == 0)
        && strides_remainder(rest).iter().fold(0, |acc, &b| acc | b) == 0
}

/// The bytes after the last whole stride.
fn strides_remainder(data: &[u8]) -> &[u8] {
    &data[data.len() - data.len() % STRIDE..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_set_byte_is_seen() {
        for len in [1, 7, 16, 17, 255, 256, 257, 271, 272, 273, 600, 4096] {
            let mut data = vec![0_u8; len];
            assert!(is_zero(&data), "{len} zero bytes");
            for at in 0..len {
                data[at] = if at % 2 == 0 { 1 } else { 0x80 };
                assert!(!is_zero(&data), "byte {at} of {len}");
                data[at] = 0;
            }
        }
        assert!(is_zero(&[]));
    }
}
