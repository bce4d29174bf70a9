//! Damaged images end in an error or in bytes, never in a panic, and within bounds.

use std::fs::{self, File};
use std::path::Path;

use onefold_block::SplitMix64;
use onefold_image::{ImageError, Qcow2};

use crate::images::{disk, image, read_all};

fn read(path: &Path) -> Result<usize, ImageError> {
    let mut image = Qcow2::open(File::open(path)?)?;
    // A damaged size may promise more than is worth looking at.
    if image.size_bytes() > 1 << 24 {
        let (mut at, end) = (0, image.size_bytes());
        for _ in 0..100 {
            let extent = image.extent(at, end)?;
            at += extent.len().max(1);
            image.read_at(at.min(end - 1), &mut [0])?;
        }
        return Ok(0);
    }
    Ok(read_all(&mut image)?.0.len())
}

#[test]
fn no_damage_to_the_tables_panics_or_reads_without_bound() {
    let folder = tempfile::tempdir().unwrap();
    let content = disk(1 << 20, 3);
    let damaged = folder.path().join("damaged");
    let mut random = SplitMix64::new(11);
    let (mut refused, mut tried) = (0, 0);
    for (options, more) in [
        ("compat=1.1,cluster_size=4K", &["-c"][..]),
        ("compat=1.1,cluster_size=4K,compression_type=zstd", &["-c"]),
        ("compat=1.1,extended_l2=on,cluster_size=16K", &[]),
        ("compat=0.10,cluster_size=512", &[]),
    ] {
        let whole = fs::read(image(folder.path(), &content, options, more)).unwrap();
        for _ in 0..60 {
            let mut bytes = whole.clone();
            // The header and the tables, which lie in front, more often than the data.
            for _ in 0..=random.next_u64() % 4 {
                let span = [112, 64 << 10, bytes.len()][random.next_u64() as usize % 3];
                let at = random.next_u64() as usize % span.min(bytes.len());
                bytes[at] = match random.next_u64() % 3 {
                    0 => 0xff,
                    1 => bytes[at] ^ 1 << (random.next_u64() % 8),
                    _ => random.next_u64() as u8,
                };
            }
            if random.next_u64().is_multiple_of(4) {
                bytes.truncate(random.next_u64() as usize % bytes.len());
            }
            fs::write(&damaged, &bytes).unwrap();
            tried += 1;
            refused += u32::from(read(&damaged).is_err());
        }
    }
    assert!(refused > 40 && refused < tried, "{refused} of {tried} were refused");
}

#[test]
fn an_image_that_is_cut_off_is_an_error_and_not_zeroes() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), &vec![7; 1 << 20], "compat=1.1,cluster_size=4K", &[]);
    let whole = fs::read(&path).unwrap();
    for part in [60, 200, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..part]).unwrap();
        let error = read(&path).unwrap_err();
        assert!(matches!(error, ImageError::Damaged(_)), "{part}: {error}");
    }
}
