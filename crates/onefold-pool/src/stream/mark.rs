//! How far a stream was received, beside what was: in the volume itself, past its end.
//! Room: onefold-pool.
//! Source: docs/stream-format.md, "How a stream is received".
//! Invariant: a volume keeps writes in their order, so a mark that is found is no further than what
//! was received.

use onefold_block::bytes::{Reader, Writer};
use onefold_content::{FingerprintKind, Fingerprinter};

use super::frame::Names;

const MAGIC: &[u8; 8] = b"ONEFMARK";

/// How far a stream was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Whose stream it is.
    pub names: Names,
    /// What comes before this byte of the volume was received.
    pub upto: u64,
}

impl Mark {
    /// Its length in bytes.
    pub const BYTES: usize = 64;

    /// Its bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut writer = Writer::default();
        writer.bytes(MAGIC);
        writer.u64(self.names.base);
        writer.u64(self.names.snapshot);
        writer.u64(self.upto);
        let digest = Fingerprinter::new(FingerprintKind::Blake3).hash(&writer.0);
        writer.bytes(digest.as_bytes());
        let mut bytes = [0; Self::BYTES];
        bytes.copy_from_slice(&writer.0);
        bytes
    }

    /// The mark that these bytes are, if they are one.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        reader.array::<8>()?;
        let names = Names { base: reader.u64()?, snapshot: reader.u64()? };
        let mark = Self { names, upto: reader.u64()? };
        (mark.encode() == *bytes).then_some(mark)
    }
}
