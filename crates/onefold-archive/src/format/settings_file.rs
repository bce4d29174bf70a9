//! `archive.0` and `archive.1`: identity and settings, twice the same; every version's file begins
//! with them too.
//! Room: onefold-archive.

use onefold_content::Compression;

use super::bytes::{checked, checksum};
use super::{FORMAT_VERSION, check_version};
use crate::error::ArchiveError;
use crate::settings::{ArchiveIdentity, ArchiveSettings, Chunking};
use onefold_block::bytes::{Reader, Writer};

/// The two copies.
pub const SETTINGS_FILES: [&str; 2] = ["archive.0", "archive.1"];
/// Length of each in bytes.
pub const SETTINGS_BYTES: usize = 86;

const MAGIC: &[u8; 8] = b"OFARCHV\n";

/// The file's bytes.
pub fn encode(settings: &ArchiveSettings, identity: &ArchiveIdentity) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(MAGIC);
    out.u32(FORMAT_VERSION);
    out.bytes(&identity.uuid);
    out.bytes(&identity.key);
    out.u8(settings.chunking as u8);
    out.u32(settings.chunk_bytes);
    out.u32(settings.container_bytes);
    let (codec, level) = settings.compression.numbers();
    out.u8(codec);
    out.bytes(&level.to_le_bytes());
    // For settings to come.
    out.u32(0);
    out.u32(0);
    checksum(&mut out);
    out.0
}

/// What a file's bytes say; `name` is for the error.
pub fn decode(
    bytes: &[u8],
    name: &str,
) -> Result<(ArchiveSettings, ArchiveIdentity), ArchiveError> {
    let corrupt = |problem: &str| ArchiveError::corrupt(name, 0, problem);
    let mut start = Reader::new(bytes);
    if start.array() != Some(*MAGIC) {
        return Err(corrupt("it does not begin like the settings of an archive"));
    }
    let found = start.u32().ok_or_else(|| corrupt("it ends too early"))?;
    let mut reader = checked(bytes).ok_or_else(|| corrupt("its checksum is wrong"))?;
    check_version(name, found)?;
    let fields = (|| {
        reader.bytes(12)?;
        let identity = ArchiveIdentity { uuid: reader.array()?, key: reader.array()? };
        let chunking = *Chunking::ALL.get(usize::from(reader.u8()?))?;
        let (chunk_bytes, container_bytes) = (reader.u32()?, reader.u32()?);
        let (codec, level) = (reader.u8()?, i32::from_le_bytes(reader.array()?));
        let compression = Compression::from_numbers(codec, level)?;
        let settings = ArchiveSettings { chunking, chunk_bytes, container_bytes, compression };
        Some((settings, identity))
    })();
    let (settings, identity) = fields.ok_or_else(|| corrupt("a field has no meaning"))?;
    settings.check().map_err(|error| corrupt(&error.to_string()))?;
    Ok((settings, identity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_and_damage_is_noticed() {
        let settings =
            ArchiveSettings { compression: Compression::Zstd(-3), ..ArchiveSettings::default() };
        let identity = ArchiveIdentity { uuid: [7; 16], key: [9; 32] };
        let bytes = encode(&settings, &identity);
        assert_eq!(bytes.len(), SETTINGS_BYTES);
        assert_eq!(decode(&bytes, "x").unwrap(), (settings, identity));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(decode(&damaged, "x").is_err(), "byte {at}");
            assert!(decode(&bytes[..at], "x").is_err(), "cut at {at}");
        }
    }

    #[test]
    fn settings_that_no_archive_can_have_are_refused_whatever_their_checksum_says() {
        let identity = ArchiveIdentity { uuid: [7; 16], key: [9; 32] };
        let sound = ArchiveSettings::default();
        for settings in [
            ArchiveSettings { chunk_bytes: 0, ..sound },
            ArchiveSettings { container_bytes: 1, ..sound },
            ArchiveSettings { chunk_bytes: u32::MAX, ..sound },
        ] {
            assert!(settings.check().is_err(), "{settings:?}");
            let error = decode(&encode(&settings, &identity), "archive.0").unwrap_err();
            assert!(error.is_corruption(), "{settings:?}: {error}");
            assert!(error.to_string().contains("archive.0"), "{error}");
        }
    }
}
