//! SHA-256 of many equal-length blocks at once, on the fastest kernel of this machine.
//! Room: onefold-content.   In: blocks of one length.   Out: their SHA-256 digests.
//! Source: [fips-180-4] sec. 5.1.1 (padding), 6.2.2 (compression).
//! Invariants: equal to the `sha2` crate on each block, whichever kernel runs.
//! Cost: one SHA-256 is a chain of 64 dependent rounds per 64 bytes, which leaves vectors idle;
//! 16 blocks in the 16 lanes of AVX-512 run the same chain 16 times. On a core with SHA
//! instructions those beat 8 lanes of AVX2 but not 16 of AVX-512 (`benches/kernels.rs`).

use sha2::Digest as _;

use crate::fingerprint::Fingerprint;
#[cfg(target_arch = "x86_64")]
use crate::sha256_x86;

/// Bytes per compression.
#[cfg(target_arch = "x86_64")]
const BLOCK_LEN: usize = 64;

/// SHA-256 with the kernel that suits this machine.
#[derive(Clone, Copy)]
pub(crate) struct Sha256Lanes {
    kernel: Kernel,
}

/// How equal-length blocks are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    /// One after the other through `sha2`, which uses SHA instructions where there are any.
    Single,
    /// 8 lanes of AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2(sha256_x86::Avx2),
    /// 16 lanes of AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx512(sha256_x86::Avx512),
}

impl Kernel {
    /// Every kernel this machine can run, fastest first.
    fn available() -> Vec<Self> {
        let mut kernels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = sha256_x86::Avx2::detect().map(Self::Avx2);
            kernels.extend(sha256_x86::Avx512::detect().map(Self::Avx512));
            if has_sha_instructions() {
                kernels.push(Self::Single);
                kernels.extend(avx2);
            } else {
                kernels.extend(avx2);
                kernels.push(Self::Single);
            }
        }
        if kernels.is_empty() {
            kernels.push(Self::Single);
        }
        kernels
    }
}

/// Whether `sha2` runs on SHA instructions here.
#[cfg(target_arch = "x86_64")]
fn has_sha_instructions() -> bool {
    std::arch::is_x86_feature_detected!("sha")
}

impl Sha256Lanes {
    pub(crate) fn detect() -> Self {
        Self { kernel: Kernel::available()[0] }
    }

    #[expect(clippy::unused_self, reason = "like the other engines")]
    pub(crate) fn hash(self, data: &[u8]) -> [u8; 32] {
        sha2::Sha256::digest(data).into()
    }

    /// `out[i]` becomes the fingerprint of `blocks[i]`; all blocks have one length.
    pub(crate) fn hash_equal_lengths(self, blocks: &[&[u8]], out: &mut [Fingerprint]) {
        match self.kernel {
            Kernel::Single => self.one_by_one(blocks, out),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2(kernel) => {
                self.in_lanes(blocks, out, |inputs, n, state| kernel.compress(inputs, n, state));
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512(kernel) => {
                self.in_lanes(blocks, out, |inputs, n, state| kernel.compress(inputs, n, state));
            }
        }
    }

    fn one_by_one(self, blocks: &[&[u8]], out: &mut [Fingerprint]) {
        for (block, out) in blocks.iter().zip(out) {
            *out = Fingerprint::from_bytes(self.hash(block));
        }
    }

    /// Groups of `LANES` blocks through `compress`, which takes the lanes' inputs, the number of
    /// 64-byte blocks to take from each, and the lanes' states.
    #[cfg(target_arch = "x86_64")]
    fn in_lanes<const LANES: usize>(
        self,
        blocks: &[&[u8]],
        out: &mut [Fingerprint],
        compress: impl Fn(&[&[u8]; LANES], usize, &mut States<LANES>),
    ) {
        for (blocks, out) in blocks.chunks(LANES).zip(out.chunks_mut(LANES)) {
            // Idle lanes cost as much as busy ones. SHA instructions hash one block at half the
            // speed of 16 lanes, plain ones at a tenth.
            let busy_min = if has_sha_instructions() { LANES / 2 } else { LANES / 8 };
            if blocks.len() < busy_min {
                self.one_by_one(blocks, out);
                continue;
            }
            let mut states = INITIAL.map(|word| [word; LANES]);
            let mut inputs = [blocks[0]; LANES];
            inputs[..blocks.len()].copy_from_slice(blocks);
            let len = inputs[0].len();
            compress(&inputs, len / BLOCK_LEN, &mut states);
            let tails: [Tail; LANES] = std::array::from_fn(|lane| Tail::of(inputs[lane]));
            let tail_blocks = Tail::blocks(len);
            compress(&tails.each_ref().map(|tail| &tail.0[..]), tail_blocks, &mut states);
            for (lane, out) in out.iter_mut().enumerate() {
                let mut digest = [0; 32];
                for (bytes, word) in digest.chunks_exact_mut(4).zip(&states) {
                    bytes.copy_from_slice(&word[lane].to_be_bytes());
                }
                *out = Fingerprint::from_bytes(digest);
            }
        }
    }
}

/// The eight state words, each for all lanes.
#[cfg(target_arch = "x86_64")]
pub(crate) type States<const LANES: usize> = [[u32; LANES]; 8];

/// The initial state ([fips-180-4] sec. 5.3.3).
#[cfg(target_arch = "x86_64")]
const INITIAL: [u32; 8] = [
    0x6A09_E667,
    0xBB67_AE85,
    0x3C6E_F372,
    0xA54F_F53A,
    0x510E_527F,
    0x9B05_688C,
    0x1F83_D9AB,
    0x5BE0_CD19,
];

/// The bytes after the last whole 64, with the padding: one 64-byte block or two.
#[cfg(target_arch = "x86_64")]
struct Tail([u8; 2 * BLOCK_LEN]);

#[cfg(target_arch = "x86_64")]
impl Tail {
    /// 64-byte blocks in the tail of a message of `len` bytes: the rest, 0x80, the bit length.
    const fn blocks(len: usize) -> usize {
        (len % BLOCK_LEN + 1 + size_of::<u64>()).div_ceil(BLOCK_LEN)
    }

    fn of(message: &[u8]) -> Self {
        let mut tail = [0; 2 * BLOCK_LEN];
        let rest = &message[message.len() - message.len() % BLOCK_LEN..];
        tail[..rest.len()].copy_from_slice(rest);
        tail[rest.len()] = 0x80;
        let end = Self::blocks(message.len()) * BLOCK_LEN;
        let bits = message.len() as u64 * 8;
        tail[end - size_of::<u64>()..end].copy_from_slice(&bits.to_be_bytes());
        Self(tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_equals_the_crate_for_every_padding_and_batch_size() {
        let data: Vec<u8> = (0..20_000_u32).map(|i| (i.wrapping_mul(i) >> 5) as u8).collect();
        let lens = (0..200).chain([511, 512, 1000, 4096, 8192]);
        for len in lens {
            for count in [1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 40] {
                let blocks: Vec<&[u8]> = (0..count).map(|i| &data[i * 41..][..len]).collect();
                for kernel in Kernel::available() {
                    let mut out = vec![Fingerprint::ZERO; count];
                    Sha256Lanes { kernel }.hash_equal_lengths(&blocks, &mut out);
                    for (block, out) in blocks.iter().zip(&out) {
                        let expected: [u8; 32] = sha2::Sha256::digest(block).into();
                        assert_eq!(out.as_bytes(), &expected, "{kernel:?} {len} x {count}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_single_kernel_is_always_there() {
        assert!(Kernel::available().contains(&Kernel::Single));
    }
}
