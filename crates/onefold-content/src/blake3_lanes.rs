//! BLAKE3 of many equal-length blocks at once.
//! Room: onefold-content.

use crate::fingerprint::Fingerprint;

/// BLAKE3 with an optional key.
#[derive(Clone)]
pub(crate) struct Blake3Lanes {
    key: Option<[u8; 32]>,
}

impl Blake3Lanes {
    pub(crate) fn new(key: Option<&[u8; 32]>) -> Self {
        Self { key: key.copied() }
    }

    pub(crate) fn is_keyed(&self) -> bool {
        self.key.is_some()
    }

    pub(crate) fn hash(&self, data: &[u8]) -> [u8; 32] {
        match &self.key {
            None => blake3::hash(data).into(),
            Some(key) => blake3::keyed_hash(key, data).into(),
        }
    }

    pub(crate) fn hash_equal_lengths(&self, blocks: &[&[u8]], out: &mut [Fingerprint]) {
        for (block, out) in blocks.iter().zip(out) {
            *out = Fingerprint::from_bytes(self.hash(block));
        }
    }
}
