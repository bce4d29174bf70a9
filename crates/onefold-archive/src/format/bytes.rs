//! A CRC-32 behind fields, and fields before one.
//! Room: onefold-archive.

use onefold_block::bytes::{Reader, Writer};

/// The CRC-32 of everything written so far, at the end.
pub fn checksum(writer: &mut Writer) {
    writer.u32(crc32fast::hash(&writer.0));
}

/// A reader of what comes before a trailing CRC-32, if that is right.
pub fn checked(bytes: &[u8]) -> Option<Reader<'_>> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    (crc32fast::hash(body) == u32::from_le_bytes(*sum)).then(|| Reader::new(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_damaged_anywhere_is_not_read() {
        let mut writer = Writer::default();
        writer.u8(1);
        writer.sized(b"name");
        checksum(&mut writer);
        let mut reader = checked(&writer.0).unwrap();
        assert_eq!((reader.u8(), reader.sized()), (Some(1), Some(&b"name"[..])));
        assert_eq!(reader.remaining(), 0);
        for at in 0..writer.0.len() {
            let mut damaged = writer.0.clone();
            damaged[at] ^= 4;
            assert!(checked(&damaged).is_none(), "byte {at}");
        }
    }
}
