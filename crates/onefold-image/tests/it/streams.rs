//! What is inside gzip and Zstandard, and how damage to it shows.

use std::io::{Cursor, Read as _, Write as _};

use onefold_image::{Format, ImageError, decoder};

use crate::images::disk;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

fn inside(format: Format, stored: Vec<u8>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    decoder(format, Cursor::new(stored)).unwrap().read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[test]
fn streams_give_what_went_in_also_one_after_another() {
    let content = disk(1 << 20, 5);
    let zstd = zstd::encode_all(&content[..], 1).unwrap();
    for (format, stored) in [(Format::Gzip, gzip(&content)), (Format::Zstd, zstd)] {
        assert_eq!(Format::detect(&stored), format);
        assert!(inside(format, stored.clone()).unwrap() == content);
        let twice = inside(format, [stored.clone(), stored].concat()).unwrap();
        assert!(twice == [content.clone(), content.clone()].concat());
    }
    for format in [Format::Xz, Format::Bzip2] {
        let refused = decoder(format, Cursor::new(vec![])).err().unwrap();
        assert!(matches!(refused, ImageError::NotRead(_)), "{refused}");
    }
}

#[test]
fn streams_that_are_cut_off_or_damaged_are_errors() {
    let content = disk(1 << 20, 6);
    let zstd = zstd::encode_all(&content[..], 1).unwrap();
    for (format, stored) in [(Format::Gzip, gzip(&content)), (Format::Zstd, zstd)] {
        for part in [20, stored.len() / 2, stored.len() - 1] {
            let error = inside(format, stored[..part].to_vec()).unwrap_err().to_string();
            assert!(error.contains(format.name()), "{error}");
        }
    }
    let mut damaged = gzip(&content);
    let middle = damaged.len() / 2;
    damaged[middle..middle + 8].fill(0x55);
    assert!(inside(Format::Gzip, damaged).is_err());
}
