//! Fingerprints: the name of a block is a digest of its bytes, computed for many blocks at once.
//! Room: onefold-content.   In: blocks.   Out: one [`Fingerprint`] per block.
//! Invariants: (1) `hash_many` equals `hash` on each block  (2) equal bytes, kind and key give
//! equal fingerprints on every machine, whichever kernel ran.
//! Cost: see `benches/kernels.rs`; batches of 16 equal-length blocks or more are the fast case.

use std::fmt;
use std::str::FromStr;

use onefold_block::SplitMix64;
use sha1::Digest as _;

use crate::blake3_lanes::Blake3Lanes;
use crate::sha256_lanes::Sha256Lanes;

/// A digest of a block's bytes. Digests shorter than 32 bytes are zero-padded on the right.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Length in bytes, of every kind.
    pub const LEN: usize = 32;
    /// All bytes zero: no block is expected to have it, so it can mark an empty slot.
    pub const ZERO: Self = Self([0; 32]);

    /// Wraps raw digest bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw digest bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 evenly spread bits of the fingerprint, for hash tables and for sampling by prefix.
    ///
    /// These are the first 8 bytes, little-endian. A CRC32 has only 32 bits, which would leave
    /// the upper half empty, so a fingerprint whose bytes 4 to 15 are all zero has its first 8
    /// bytes put through a bijective 64-bit mixer first (a strong digest looks like that once
    /// in 2^96, and then the mixed value serves as well as the plain one).
    pub fn prefix64(&self) -> u64 {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&self.0[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let first = word(0);
        if first >> 32 == 0 && word(8) == 0 { SplitMix64::new(first).next_u64() } else { first }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Which digest names a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FingerprintKind {
    /// BLAKE3, 32 bytes: strong and the fastest strong one. The only kind that takes a key.
    #[default]
    Blake3,
    /// SHA-256 (FIPS 180-4), 32 bytes: strong.
    Sha256,
    /// SHA-1 (FIPS 180-4), 20 bytes: collisions can be made on purpose.
    Sha1,
    /// CRC-32 of ISO-HDLC (zlib, gzip), 4 bytes: a hint only.
    Crc32,
}

/// A name that is no fingerprint kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown fingerprint `{0}`: expected blake3, sha256, sha1 or crc32")]
pub struct ParseFingerprintKindError(pub String);

impl FingerprintKind {
    /// Every kind, in the order of their identifiers.
    pub const ALL: [Self; 4] = [Self::Blake3, Self::Sha256, Self::Sha1, Self::Crc32];

    /// The number that stands for this kind on disk.
    pub const fn id(self) -> u8 {
        match self {
            Self::Blake3 => 1,
            Self::Sha256 => 2,
            Self::Sha1 => 3,
            Self::Crc32 => 4,
        }
    }

    /// The kind that a number on disk stands for; `None` if there is none.
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            1 => Some(Self::Blake3),
            2 => Some(Self::Sha256),
            3 => Some(Self::Sha1),
            4 => Some(Self::Crc32),
            _ => None,
        }
    }

    /// Digest length in bytes, before zero-padding to [`Fingerprint::LEN`].
    pub const fn digest_len(self) -> usize {
        match self {
            Self::Blake3 | Self::Sha256 => 32,
            Self::Sha1 => 20,
            Self::Crc32 => 4,
        }
    }

    /// Whether equal fingerprints may be taken for equal bytes without comparing them.
    /// SHA-1 is not strong: collisions have been practical since 2017.
    pub const fn is_strong(self) -> bool {
        matches!(self, Self::Blake3 | Self::Sha256)
    }

    /// The name that [`FromStr`] reads.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Sha256 => "sha256",
            Self::Sha1 => "sha1",
            Self::Crc32 => "crc32",
        }
    }
}

impl fmt::Display for FingerprintKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for FingerprintKind {
    type Err = ParseFingerprintKindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| ParseFingerprintKindError(text.to_owned()))
    }
}

/// Computes fingerprints of one kind. Cheap to clone and free of mutable state.
#[derive(Clone, Debug)]
pub struct Fingerprinter {
    engine: Engine,
}

/// One digest with its settings and the kernel that suits this machine.
#[derive(Clone)]
enum Engine {
    Blake3(Blake3Lanes),
    Sha256(Sha256Lanes),
    Sha1,
    Crc32,
}

impl fmt::Debug for Engine {
    // By hand, because the key must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blake3(lanes) if lanes.is_keyed() => f.write_str("blake3 (keyed)"),
            Self::Blake3(_) => f.write_str("blake3"),
            Self::Sha256(_) => f.write_str("sha256"),
            Self::Sha1 => f.write_str("sha1"),
            Self::Crc32 => f.write_str("crc32"),
        }
    }
}

impl Fingerprinter {
    /// A fingerprinter without a key: its digests equal those of the standard tools.
    pub fn new(kind: FingerprintKind) -> Self {
        Self::build(kind, None)
    }

    /// A fingerprinter with a secret key: BLAKE3 runs in its keyed mode, so that nobody without
    /// the key can design blocks that collide, or tell from fingerprints what a pool holds.
    /// The other kinds have no keyed mode and ignore the key.
    pub fn with_key(kind: FingerprintKind, key: [u8; 32]) -> Self {
        Self::build(kind, Some(&key))
    }

    fn build(kind: FingerprintKind, key: Option<&[u8; 32]>) -> Self {
        let engine = match kind {
            FingerprintKind::Blake3 => Engine::Blake3(Blake3Lanes::new(key)),
            FingerprintKind::Sha256 => Engine::Sha256(Sha256Lanes::detect()),
            FingerprintKind::Sha1 => Engine::Sha1,
            FingerprintKind::Crc32 => Engine::Crc32,
        };
        Self { engine }
    }

    /// Which digest this computes.
    pub fn kind(&self) -> FingerprintKind {
        match self.engine {
            Engine::Blake3(_) => FingerprintKind::Blake3,
            Engine::Sha256(_) => FingerprintKind::Sha256,
            Engine::Sha1 => FingerprintKind::Sha1,
            Engine::Crc32 => FingerprintKind::Crc32,
        }
    }

    /// The fingerprint of one block of any length.
    pub fn hash(&self, data: &[u8]) -> Fingerprint {
        match &self.engine {
            Engine::Blake3(lanes) => Fingerprint(lanes.hash(data)),
            Engine::Sha256(lanes) => Fingerprint(lanes.hash(data)),
            Engine::Sha1 => padded(&sha1::Sha1::digest(data)),
            Engine::Crc32 => padded(&crc32fast::hash(data).to_le_bytes()),
        }
    }

    /// The fingerprints of any number of blocks of any lengths: `out[i]` is that of `blocks[i]`.
    /// Neighbours of equal length are hashed in parallel lanes, so batches of equal blocks, in
    /// multiples of 16, go fastest.
    ///
    /// # Panics
    /// If `blocks` and `out` differ in length.
    pub fn hash_many(&self, blocks: &[&[u8]], out: &mut [Fingerprint]) {
        assert_eq!(blocks.len(), out.len(), "one fingerprint per block");
        let mut done = 0;
        for run in blocks.chunk_by(|a, b| a.len() == b.len()) {
            let out = &mut out[done..done + run.len()];
            done += run.len();
            match &self.engine {
                Engine::Blake3(lanes) => lanes.hash_equal_lengths(run, out),
                Engine::Sha256(lanes) => lanes.hash_equal_lengths(run, out),
                Engine::Sha1 | Engine::Crc32 => {
                    for (block, out) in run.iter().zip(out) {
                        *out = self.hash(block);
                    }
                }
            }
        }
    }
}

/// A digest, zero-padded on the right to the fingerprint's length.
fn padded(digest: &[u8]) -> Fingerprint {
    let mut bytes = [0; 32];
    bytes[..digest.len()].copy_from_slice(digest);
    Fingerprint(bytes)
}
