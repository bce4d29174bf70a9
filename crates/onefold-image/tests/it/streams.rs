//! What is inside gzip and Zstandard, and how damage to it shows.

use std::io::{Cursor, Read, Write as _};

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

/// What reads one byte at a time must see the same as what reads all.
struct Slow(Cursor<Vec<u8>>);

impl Read for Slow {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let one = buf.len().min(1);
        self.0.read(&mut buf[..one])
    }
}

#[test]
fn what_follows_a_gzip_stream_is_another_one_or_zeros_or_named() {
    let (first, second) = (gzip(b"first"), gzip(b"second"));
    let read = |behind: &[u8]| {
        let stored = [&first, behind].concat();
        let of = |input: Box<dyn Read + Send>| {
            let mut bytes = Vec::new();
            let end = decoder(Format::Gzip, input).unwrap().read_to_end(&mut bytes);
            (bytes, end.map(drop).map_err(|error| error.to_string()))
        };
        let all = of(Box::new(Cursor::new(stored.clone())));
        assert_eq!(all, of(Box::new(Slow(Cursor::new(stored)))));
        all
    };
    for zeros in [0, 1, 511, 70_000] {
        let zeros = vec![0; zeros];
        assert_eq!(read(&zeros), (b"first".to_vec(), Ok(())));
        let more = [&second[..], &zeros].concat();
        assert_eq!(read(&more), (b"firstsecond".to_vec(), Ok(())));
    }
    let strange = "in the gzip stream: what follows its end is neither another one nor zeros alone";
    for behind in [
        b"x".to_vec(),
        b"something longer than a header".to_vec(),
        vec![0, 1],
        [vec![0; 70_000], b"x".to_vec()].concat(),
        [vec![0], second.clone()].concat(),
    ] {
        let named = (b"first".to_vec(), Err(strange.to_owned()));
        assert_eq!(read(&behind), named, "{} bytes", behind.len());
    }
    let cut = "the gzip stream is cut off".to_owned();
    for length in [1, 5, 12, second.len() - 1] {
        assert_eq!(read(&second[..length]).1, Err(cut.clone()), "{length}");
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
