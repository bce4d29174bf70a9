//! `archive.0` and `archive.1`: identity and settings, twice the same; every version's file begins
//! with them too. Of an encrypted archive, they have the wrapped key in the place of the key of the
//! names, and every encrypted file has them in its header.
//! Room: onefold-archive.

use onefold_content::Compression;

use super::bytes::{checked, checksum};
use super::{FORMAT_VERSION, check_version};
use crate::error::ArchiveError;
use crate::seal::Protection;
use crate::seal::protection::PROTECTION_BYTES;
use crate::settings::{ArchiveIdentity, ArchiveSettings, Chunking};
use onefold_block::bytes::{Reader, Writer};

/// The two copies.
pub const SETTINGS_FILES: [&str; 2] = ["archive.0", "archive.1"];
/// Length of each in bytes, and within versions' files.
pub const SETTINGS_BYTES: usize = 86;
/// The same where the archive is encrypted.
pub const SEALED_BYTES: usize = OPEN_BYTES + PROTECTION_BYTES + 4;
/// Format version of the settings of an encrypted archive. All else is in [`FORMAT_VERSION`].
pub const SEALED_VERSION: u32 = 5;
/// The same while every chunk was compressed by itself.
const SEALED_VERSION_BEFORE: u32 = 3;

/// What comes before the protection, and is authenticated by it.
const OPEN_BYTES: usize = 42;
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

fn decode_settings(reader: &mut Reader<'_>) -> Option<ArchiveSettings> {
    let chunking = *Chunking::ALL.get(usize::from(reader.u8()?))?;
    let (chunk_bytes, container_bytes) = (reader.u32()?, reader.u32()?);
    let (codec, level) = (reader.u8()?, i32::from_le_bytes(reader.array()?));
    let compression = Compression::from_numbers(codec, level)?;
    Some(ArchiveSettings { chunking, chunk_bytes, container_bytes, compression })
}

/// Settings, identity and protection.
pub type Found = (ArchiveSettings, ArchiveIdentity, Option<Protection>);

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
        Some((decode_settings(&mut reader)?, identity))
    })();
    let (settings, identity) = fields.ok_or_else(|| corrupt("a field has no meaning"))?;
    settings.check().map_err(|error| corrupt(&error.to_string()))?;
    Ok((settings, identity))
}

/// What the settings of an encrypted archive begin with, and its wrapped key authenticates.
pub fn encode_open(settings: &ArchiveSettings, uuid: &[u8; 16]) -> Vec<u8> {
    let mut out = Writer::default();
    out.bytes(MAGIC);
    out.u32(SEALED_VERSION);
    out.bytes(uuid);
    out.u8(settings.chunking as u8);
    out.u32(settings.chunk_bytes);
    out.u32(settings.container_bytes);
    let (codec, level) = settings.compression.numbers();
    out.u8(codec);
    out.bytes(&level.to_le_bytes());
    out.0
}

/// The settings of an encrypted archive.
pub fn encode_sealed(
    settings: &ArchiveSettings,
    uuid: &[u8; 16],
    protection: &Protection,
) -> Vec<u8> {
    let mut out = Writer(encode_open(settings, uuid));
    protection.encode(&mut out);
    checksum(&mut out);
    out.0
}

/// What the settings of any archive say that begin with `bytes`: the key of the names, which is
/// zero where it is encrypted, and the protection.
pub fn decode_any(bytes: &[u8], name: &str) -> Result<Found, ArchiveError> {
    let corrupt = |problem: &str| ArchiveError::corrupt(name, 0, problem);
    let mut start = Reader::new(bytes);
    let (magic, found) = (start.array(), start.u32());
    if magic == Some(*MAGIC) && found == Some(SEALED_VERSION_BEFORE) {
        let (what, supported) = (name.to_owned(), SEALED_VERSION);
        return Err(ArchiveError::OlderFormat { what, found: SEALED_VERSION_BEFORE, supported });
    }
    if magic != Some(*MAGIC) || found != Some(SEALED_VERSION) {
        let plain = bytes.get(..SETTINGS_BYTES).unwrap_or(bytes);
        let found = decode(plain, name).map(|(settings, identity)| (settings, identity, None));
        return found.map_err(|error| match error {
            ArchiveError::NewerFormat { what, found, .. } => {
                ArchiveError::NewerFormat { what, found, supported: SEALED_VERSION }
            }
            error => error,
        });
    }
    let bytes = bytes.get(..SEALED_BYTES).ok_or_else(|| corrupt("it ends too early"))?;
    let mut reader = checked(bytes).ok_or_else(|| corrupt("its checksum is wrong"))?;
    let fields = (|| {
        reader.bytes(12)?;
        let identity = ArchiveIdentity { uuid: reader.array()?, key: [0; 32] };
        let settings = decode_settings(&mut reader)?;
        Some((settings, identity, Some(Protection::decode(&mut reader)?)))
    })();
    let found = fields.ok_or_else(|| corrupt("a field has no meaning"))?;
    found.0.check().map_err(|error| corrupt(&error.to_string()))?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::{Argon2Cost, NewKey, Secret};

    #[test]
    fn settings_of_an_encrypted_archive_come_back_and_damage_is_noticed() {
        let settings = ArchiveSettings::default();
        let secret = Secret::KeyFile(vec![4; 40]);
        let cost = Argon2Cost::default();
        let new = NewKey { secret: &secret, cost, salt: [1; 16], master: [2; 32] };
        let open = encode_open(&settings, &[7; 16]);
        assert_eq!(open.len(), OPEN_BYTES);
        let made = Protection::new(&new, &open).unwrap();
        let bytes = encode_sealed(&settings, &[7; 16], &made);
        assert_eq!(bytes.len(), SEALED_BYTES);
        let identity = ArchiveIdentity { uuid: [7; 16], key: [0; 32] };
        assert_eq!(decode_any(&bytes, "x").unwrap(), (settings, identity, Some(made)));
        let error = decode(&bytes[..SETTINGS_BYTES], "x").unwrap_err();
        assert!(error.is_corruption(), "{error}");
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(decode_any(&damaged, "x").is_err(), "byte {at}");
            assert!(decode_any(&bytes[..at], "x").is_err(), "cut at {at}");
        }
        let identity = ArchiveIdentity { uuid: [7; 16], key: [9; 32] };
        let plain = encode(&settings, &identity);
        assert_eq!(decode_any(&plain, "x").unwrap(), (settings, identity, None));
    }

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

    #[test]
    fn what_is_wrong_with_settings_is_named() {
        let settings = ArchiveSettings::default();
        let identity = ArchiveIdentity { uuid: [7; 16], key: [9; 32] };
        let plain = encode(&settings, &identity);
        let with_version = |version: u8| {
            let mut bytes = plain.clone();
            bytes[8] = version;
            let end = bytes.len() - 4;
            let sum = crc32fast::hash(&bytes[..end]);
            bytes[end..].copy_from_slice(&sum.to_le_bytes());
            bytes
        };
        let said = |bytes: &[u8]| decode_any(bytes, "x").unwrap_err().to_string();
        let begin = "it does not begin like the settings of an archive";
        assert_eq!(said(b"OFARCHV"), format!("corrupt x at byte 0: {begin}"));
        assert_eq!(said(&plain[..10]), "corrupt x at byte 0: it ends too early");
        assert_eq!(said(&plain[..80]), "corrupt x at byte 0: its checksum is wrong");
        let newer = "x has format version 6; this onefold reads up to version 5";
        assert_eq!(said(&with_version(6)), newer);
        assert!(
            said(&with_version(2)).contains("version 2, which is not read any more: version 4")
        );
        assert!(
            said(&with_version(3)).contains("version 3, which is not read any more: version 5")
        );
        assert_eq!(said(&with_version(5)), "corrupt x at byte 0: it ends too early");
        // In front of more, as in a version's file or a file's header.
        let longer = [&plain[..], &[1; 100]].concat();
        assert_eq!(decode_any(&longer, "x").unwrap(), (settings, identity, None));
        let said = |bytes: &[u8]| decode(bytes, "x").unwrap_err().to_string();
        assert_eq!(
            said(&with_version(6)),
            "x has format version 6; this onefold reads up to version 4"
        );
        // A chunker that there is none of.
        let mut bytes = plain.clone();
        bytes[60] = 2;
        let sum = crc32fast::hash(&bytes[..82]);
        bytes[82..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(said(&bytes), "corrupt x at byte 0: a field has no meaning");
    }

    #[test]
    fn settings_of_an_encrypted_archive_that_none_can_have_are_refused() {
        let secret = Secret::KeyFile(vec![1; 32]);
        let cost = Argon2Cost::default();
        let key = NewKey { secret: &secret, cost, salt: [3; 16], master: [5; 32] };
        let settings = ArchiveSettings { chunk_bytes: 3000, ..ArchiveSettings::default() };
        let made = Protection::new(&key, &encode_open(&settings, &[7; 16])).unwrap();
        let bytes = encode_sealed(&settings, &[7; 16], &made);
        let error = decode_any(&bytes, "x").unwrap_err().to_string();
        let problem = "chunk size 3000: expected a power of two from 1K to 1M";
        assert_eq!(error, format!("corrupt x at byte 0: {problem}"));
    }
}
