//! A fast 64-bit hash for content-defined chunks, whose odd lengths would leave vector lanes idle.
//! Room: onefold-estimate.   In: bytes.   Out: 64 well-mixed bits.
//! Source: folded multiplication (the upper half of a 128-bit product added onto the lower
//! without carry), as
//! in [wyhash-19]; the arrangement here is our own. Not proof against malice, and not meant to be:
//! it serves counting, and no data is ever shared because of it.
//! Cost: four multiplications per 64 bytes, about the speed of memory.

/// Digits of pi.
const KEYS: [u64; 10] = [
    0x243F_6A88_85A3_08D3,
    0x1319_8A2E_0370_7344,
    0xA409_3822_299F_31D0,
    0x082E_FA98_EC4E_6C89,
    0x4528_21E6_38D0_1377,
    0xBE54_66CF_34E9_0C6C,
    0xC0AC_29B7_C97C_50DD,
    0x3F84_D5B5_B547_0917,
    0x9216_D5D9_8979_FB1B,
    0xD131_0BA6_98DF_B5AC,
];

const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    (product >> 64) as u64 ^ product as u64
}

fn absorb(lanes: &mut [u64; 4], block: &[u8; 64]) {
    let (words, _) = block.as_chunks::<8>();
    for (i, lane) in lanes.iter_mut().enumerate() {
        let (a, b) = (u64::from_le_bytes(words[2 * i]), u64::from_le_bytes(words[2 * i + 1]));
        // Adding the word keeps the lane alive should a factor ever be zero.
        *lane = fold(*lane ^ a, KEYS[4 + i] ^ b).wrapping_add(a);
    }
}

/// The hash of some bytes and their number.
pub(crate) fn quick_hash(data: &[u8]) -> u64 {
    let mut lanes = [KEYS[0], KEYS[1], KEYS[2], KEYS[3]];
    let (blocks, tail) = data.as_chunks::<64>();
    for block in blocks {
        absorb(&mut lanes, block);
    }
    if !tail.is_empty() {
        let mut block = [0; 64];
        block[..tail.len()].copy_from_slice(tail);
        absorb(&mut lanes, &block);
    }
    let left = fold(lanes[0] ^ KEYS[8], lanes[1] ^ data.len() as u64);
    let right = fold(lanes[2] ^ KEYS[9], lanes[3]);
    let both = fold(left ^ KEYS[1], right ^ KEYS[2]) ^ left.rotate_left(32) ^ right;
    let both = (both ^ (both >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let both = (both ^ (both >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    both ^ (both >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn hashes_stay_the_same() {
        let data: Vec<u8> = (0..1000_u32).map(|i| ((i * i) >> 3) as u8).collect();
        let all =
            (0..data.len()).fold(0u64, |all, len| all.rotate_left(5) ^ quick_hash(&data[..len]));
        assert_eq!([quick_hash(b""), quick_hash(&data[..65]), all], HASHES, "{all:#x}");
    }

    const HASHES: [u64; 3] = [0x784c_eac2_75f2_6146, 0x6144_3ab2_da39_fedf, 0x1441_d8fd_37e9_3d0f];

    #[test]
    fn every_changed_bit_every_length_and_every_order_gives_another_hash() {
        let mut known = HashSet::new();
        let mut data: Vec<u8> = (0..700_u32).map(|i| ((i * i) >> 3) as u8).collect();
        for len in 0..=data.len() {
            assert!(known.insert(quick_hash(&data[..len])));
        }
        for bit in 0..data.len() * 8 {
            data[bit / 8] ^= 1 << (bit % 8);
            assert!(known.insert(quick_hash(&data)));
            data[bit / 8] ^= 1 << (bit % 8);
        }
        // Chunks that hold one byte somewhere among zeroes, and pairs of equal blocks swapped.
        let mut sparse = vec![0; 4096];
        for at in 0..sparse.len() {
            for byte in [1, 0x80, 0xFF] {
                sparse[at] = byte;
                assert!(known.insert(quick_hash(&sparse)));
            }
            sparse[at] = 0;
        }
        for i in 0..40_u8 {
            for j in 0..40_u8 {
                let pair = [[i; 64], [j; 64]].concat();
                assert!(known.insert(quick_hash(&pair)));
            }
        }
    }

    #[test]
    fn every_input_bit_flips_every_output_bit_half_the_time() {
        const TRIALS: u32 = 2000;
        for bit in (0..200 * 8).step_by(37) {
            let mut flips = [0_u32; 64];
            for trial in 0..TRIALS {
                let mut data: Vec<u8> = (0..200_u32)
                    .map(|i| (i.wrapping_mul(trial * 2 + 1).wrapping_mul(0x9E37_79B9) >> 24) as u8)
                    .collect();
                let before = quick_hash(&data);
                data[bit / 8] ^= 1 << (bit % 8);
                let changed = before ^ quick_hash(&data);
                (0..64).for_each(|i| flips[i] += (changed >> i & 1) as u32);
            }
            // Six standard deviations of a fair coin.
            let slack = 6 * 23;
            for flips in flips {
                assert!(flips.abs_diff(TRIALS / 2) < slack, "bit {bit}: {flips} of {TRIALS}");
            }
        }
    }

    #[test]
    fn sampled_bits_of_counters_are_uniform() {
        let mut low = [0_u32; 256];
        let mut high = [0_u32; 256];
        for i in 0..64_000_u32 {
            let hash = quick_hash(&i.to_le_bytes());
            low[(hash & 255) as usize] += 1;
            high[(hash >> 56) as usize] += 1;
        }
        for count in low.into_iter().chain(high) {
            assert!(count.abs_diff(250) < 100, "{count}");
        }
    }
}
