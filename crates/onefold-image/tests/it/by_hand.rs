//! Images made byte by byte: each limit of the format from both sides.
//! Room: onefold-image.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;

use onefold_image::{Choice, Extent, Format, ImageError, Qcow2, decoder};

use crate::images::read_all;

/// An image with one L1 table at cluster 1, one L2 table at cluster 2, and data from cluster 3 on.
struct Hand {
    bits: u32,
    version: u32,
    size: u64,
    l1_entries: u32,
    l1_offset: u64,
    features: u64,
    compression: u8,
    backing: (u64, u32),
    encryption: u32,
    /// The file is this long, whatever is in it.
    file_bytes: Option<u64>,
    l1: Vec<u64>,
    l2: Vec<u64>,
    data: Vec<(u64, Vec<u8>)>,
}

impl Hand {
    fn new(bits: u32, size: u64) -> Self {
        let cluster = 1 << bits;
        Self {
            bits,
            version: 3,
            size,
            l1_entries: 1,
            l1_offset: cluster,
            features: 0,
            compression: 0,
            backing: (0, 0),
            encryption: 0,
            file_bytes: None,
            l1: vec![2 * cluster],
            l2: Vec::new(),
            data: Vec::new(),
        }
    }

    fn file(&self) -> File {
        let mut file = tempfile::tempfile().unwrap();
        let mut head = b"QFI\xfb".to_vec();
        head.extend(self.version.to_be_bytes());
        head.extend(self.backing.0.to_be_bytes());
        head.extend(self.backing.1.to_be_bytes());
        head.extend(self.bits.to_be_bytes());
        head.extend(self.size.to_be_bytes());
        head.extend(self.encryption.to_be_bytes());
        head.extend(self.l1_entries.to_be_bytes());
        head.extend(self.l1_offset.to_be_bytes());
        head.resize(72, 0);
        if self.version == 3 {
            head.extend(self.features.to_be_bytes());
            head.resize(104, 0);
            head.push(self.compression);
            head.resize(112, 0);
        }
        file.write_all(&head).unwrap();
        let words = |words: &[u64]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<_>>();
        let cluster = 1u64 << self.bits;
        file.write_all_at(&words(&self.l1), self.l1_offset.min(1 << 40)).unwrap();
        file.write_all_at(&words(&self.l2), 2 * cluster).unwrap();
        let mut end = 3 * cluster;
        for (at, bytes) in &self.data {
            file.write_all_at(bytes, *at).unwrap();
            end = end.max(at + bytes.len() as u64);
        }
        file.set_len(self.file_bytes.unwrap_or(end)).unwrap();
        file
    }

    fn open(&self) -> Result<Qcow2, ImageError> {
        Qcow2::open(self.file())
    }

    fn error(&self) -> String {
        match self.open() {
            Err(error) => error.to_string(),
            Ok(mut image) => read_all(&mut image).unwrap_err().to_string(),
        }
    }
}

fn noise(len: usize) -> Vec<u8> {
    onefold_block::SplitMix64::new(5).bytes(len)
}

#[test]
fn clusters_of_9_to_21_bits_are_read_and_no_others() {
    for bits in [9, 12, 21] {
        let cluster = 1u64 << bits;
        let bytes = noise(cluster as usize);
        let mut hand = Hand::new(bits, 3 * cluster - 7);
        hand.l2 = vec![3 * cluster, 0, 3 * cluster];
        hand.data = vec![(3 * cluster, bytes.clone())];
        let (found, data) = read_all(&mut hand.open().unwrap()).unwrap();
        let expected = [&bytes[..], &vec![0; bytes.len()], &bytes[..bytes.len() - 7]].concat();
        assert!(found == expected && data == 2 * cluster - 7, "{bits}");
    }
    for bits in [8, 22] {
        let text = Hand::new(bits, 100).error();
        assert!(text.contains(&format!("clusters of 2^{bits} bytes")), "{text}");
    }
}

#[test]
fn versions_2_and_3_are_read_and_a_header_is_whole() {
    for version in [1, 4] {
        assert!(!Hand { version, ..Hand::new(9, 100) }.error().is_empty());
    }
    for (version, bytes) in [(2, 72), (3, 72)] {
        let cut = |file_bytes| {
            let mut hand = Hand { version, ..Hand::new(9, 0) };
            (hand.l1_entries, hand.l1_offset, hand.file_bytes) = (0, 0, Some(file_bytes));
            hand.l1.clear();
            hand.open()
        };
        assert!(cut(bytes - 1).unwrap_err().to_string().contains("header is cut off"));
        assert_eq!(cut(bytes).unwrap().size_bytes(), 0);
    }
    // What version 3 says in its further fields means nothing in version 2.
    let two = Hand { version: 2, l1: vec![0], ..Hand::new(9, 100) };
    assert!(two.open().is_ok());
}

#[test]
fn the_l1_table_covers_the_disk_lies_in_the_file_and_has_a_limit() {
    // 64 clusters of 512 bytes for each entry.
    let covered = 64 * 512;
    let table = |size, l1_entries| Hand { l1: vec![0; 3], l1_entries, ..Hand::new(9, size) };
    assert!(table(3 * covered, 3).open().is_ok());
    assert!(table(3 * covered + 1, 3).error().contains("3 entries of 4"));
    let cut = |file_bytes| Hand { file_bytes: Some(file_bytes), ..table(3 * covered, 3) };
    assert!(cut(512 + 24).open().is_ok());
    assert!(cut(512 + 23).error().contains("L1 table is said to lie at 512"));
    assert!(Hand { l1_offset: u64::MAX, ..table(covered, 1) }.error().contains("damaged"));
    let largest = (32 << 20) / 8;
    let huge = |entries: u64| Hand {
        l1: vec![0],
        l1_entries: entries as u32,
        file_bytes: Some(40 << 20),
        ..Hand::new(9, entries * covered)
    };
    let mut image = huge(largest).open().unwrap();
    assert_eq!(image.extent(0, u64::MAX).unwrap(), Extent::Hole(largest * covered));
    assert!(huge(largest + 1).error().contains("4194305 entries"));
    assert!(Hand::new(9, 1 << 63).error().contains("a disk of 9223372036854775808 bytes"));
}

#[test]
fn tables_and_clusters_begin_on_clusters_and_end_in_the_file() {
    let with = |l2: u64| {
        let mut hand = Hand::new(12, 8192);
        (hand.l2, hand.data) = (vec![l2, 0], vec![(12_288, vec![9; 4096])]);
        hand
    };
    assert!(read_all(&mut with(12_288).open().unwrap()).unwrap().0[..4096] == [9; 4096]);
    assert!(with(12_288 + 512).error().contains("byte 0 lies at 12800, between two"));
    assert!(with(16_384).error().contains("byte 0 is said to lie at 16384"));
    assert!(with(1).open().is_ok_and(|mut image| image.extent(0, 9).unwrap() == Extent::Hole(9)));
    let zeroed = with(0x3000 | 1);
    assert_eq!(zeroed.open().unwrap().extent(0, 9000).unwrap(), Extent::Hole(8192));
    let mut between = with(12_288);
    between.l1 = vec![8192 + 512];
    assert!(between.error().contains("an L2 table at 8704, between two"));
    between.l1 = vec![12_288 + 4096];
    assert!(between.error().contains("an L2 table is said to lie at 16384"));
    // The flags of an entry are no part of its place.
    let mut flagged = with(0x3000 | 1 << 63);
    flagged.l1 = vec![0x2000 | 1 << 63];
    assert!(read_all(&mut flagged.open().unwrap()).unwrap().0[..4096] == [9; 4096]);
}

#[test]
fn features_that_are_not_known_are_refused_by_number() {
    let with =
        |features, compression| Hand { features, compression, l1: vec![0], ..Hand::new(9, 9) };
    assert!(with(1, 0).open().is_ok(), "dirty");
    assert!(with(1 << 1, 0).error().contains("marked it as corrupt"));
    assert!(with(1 << 2, 0).error().contains("external data file"));
    assert!(with(1 << 5 | 1, 0).error().contains("features 0x20"));
    assert!(with(1 << 3, 0).open().is_ok() && with(1 << 3, 1).open().is_ok());
    assert!(with(1 << 3, 2).error().contains("compression of type 2"));
    assert!(with(0, 2).open().is_ok(), "the field means nothing without its feature");
    let backing = |at, len| Hand {
        backing: (at, len),
        data: vec![(90, b"base.img".to_vec())],
        version: 2,
        ..Hand::new(9, 9)
    };
    assert!(backing(90, 8).error().contains("backing file 'base.img'"));
    assert!(backing(1 << 40, 8).error().contains("backing file '?'"));
    assert!(backing(90, 2000).error().contains("base.img"), "no more than 1023 bytes are read");
}

#[test]
fn each_subcluster_is_stored_or_zero() {
    // 16 KiB in 32 parts of 512 bytes.
    let bytes = noise(16_384);
    let with = |allocated: u64, zero: u64| {
        let mut hand = Hand { features: 1 << 4, ..Hand::new(14, 16_384) };
        (hand.l2, hand.data) =
            (vec![3 << 14, zero << 32 | allocated], vec![(3 << 14, bytes.clone())]);
        hand
    };
    let allocated = 0b1000_0000_0000_0000_0000_0000_0000_0110;
    let mut image = with(allocated, 0b1000).open().unwrap();
    let (found, data) = read_all(&mut image).unwrap();
    let mut expected = bytes.clone();
    expected[..512].fill(0);
    expected[3 * 512..31 * 512].fill(0);
    assert!(found == expected && data == 3 * 512);
    assert_eq!(image.extent(0, u64::MAX).unwrap(), Extent::Hole(512));
    assert_eq!(image.extent(700, 1536).unwrap(), Extent::Data(836));
    assert_eq!(image.extent(1536, 20_000).unwrap(), Extent::Hole(28 * 512));
    let mut piece = vec![7; 1000];
    image.read_at(900, &mut piece).unwrap();
    assert!(piece == expected[900..1900]);
    assert!(with(2, 2).error().contains("byte 512 is stored, and nowhere"));
    let mut nowhere = with(1, 0);
    nowhere.l2[0] = 0;
    assert!(nowhere.error().contains("byte 0 is stored, and nowhere"));
}

#[test]
fn a_compressed_cluster_ends_within_its_sectors() {
    let cluster = noise(2048).repeat(2);
    let deflated = {
        let level = flate2::Compression::best();
        let mut to = flate2::write::DeflateEncoder::new(Vec::new(), level);
        to.write_all(&cluster).unwrap();
        to.finish().unwrap()
    };
    let zstd = zstd::encode_all(&cluster[..], 3).unwrap();
    for (features, compression, stored) in [(0, 0, deflated), (1 << 3, 1, zstd)] {
        // At 100 bytes into a sector; the last sector is not there as a whole.
        let at = 12_288 + 100;
        let sectors = (100 + stored.len() as u64).div_ceil(512) - 1;
        let entry = |sectors: u64| 1 << 62 | sectors << (62 - 4) | at;
        let with = |l2: u64| {
            let mut hand = Hand { features, compression, ..Hand::new(12, 4096) };
            (hand.l2, hand.data) = (vec![l2], vec![(at, stored.clone())]);
            hand
        };
        let mut image = with(entry(sectors)).open().unwrap();
        assert!(read_all(&mut image).unwrap() == (cluster.clone(), 4096));
        let mut again = [0; 9];
        image.read_at(4087, &mut again).unwrap();
        assert_eq!(again, cluster[4087..]);
        let text = with(entry(sectors - 1)).error();
        assert!(text.contains("cluster at 12388 cannot be decompressed"), "{text}");
        let past = 1 << 62 | (at + stored.len() as u64);
        assert!(with(past).error().contains("but the file ends at"));
    }
}

#[test]
fn an_encrypted_disk_is_refused_whatever_the_method() {
    for encryption in [1, 2, 1 << 24] {
        let refused = Hand { encryption, ..Hand::new(12, 4096) }.open();
        assert!(matches!(refused, Err(ImageError::Encrypted)), "{encryption}");
    }
}

/// Deflate keeps noise as it is, behind 5 bytes: what lacks its last byte is no cluster.
#[test]
fn a_compressed_cluster_is_read_to_the_end_of_its_last_sector_and_no_further() {
    let cluster = noise(512);
    let stored = [&[1, 0, 2, 0xff, 0xfd][..], &cluster].concat();
    let with = |at: u64, sectors: u64| {
        let mut hand = Hand::new(9, 512);
        hand.l2 = vec![1 << 62 | sectors << 61 | at];
        hand.data = vec![(at, stored.clone()), (8192, vec![0])];
        hand
    };
    // 517 bytes that end with a sector, and one byte later; from an odd sector and an even one.
    for sector in [4, 5] {
        let whole = 512 * sector + 1024 - 517;
        assert!(read_all(&mut with(whole, 1).open().unwrap()).unwrap().0 == cluster);
        assert!(with(whole, 0).error().contains("cannot be decompressed"));
        assert!(with(whole + 1, 1).error().contains("cannot be decompressed"));
    }
}

#[test]
fn compressed_clusters_are_told_apart() {
    let (one, two) = (noise(512), noise(1024)[512..].to_vec());
    let stored = |cluster: &[u8]| [&[1, 0, 2, 0xff, 0xfd][..], cluster].concat();
    let mut hand = Hand::new(9, 1024);
    hand.l2 = vec![1 << 62 | 1 << 61 | 2048, 1 << 62 | 1 << 61 | 4096];
    hand.data = vec![(2048, stored(&one)), (4096, stored(&two)), (8192, vec![0])];
    let mut image = hand.open().unwrap();
    for (at, expected) in [(0, &one), (512, &two), (512, &two), (0, &one)] {
        let mut found = vec![0; 512];
        image.read_at(at, &mut found).unwrap();
        assert!(found == *expected, "{at}");
    }
}

#[test]
fn a_hole_ends_where_the_next_table_begins_also_in_entries_of_subclusters() {
    // 64 clusters of 512 bytes in a table, or 32 with subclusters of 16 bytes.
    for (features, entries) in [(0, 64), (1 << 4, 32)] {
        let covered = entries * 512;
        let mut hand = Hand { features, ..Hand::new(9, 4 * covered) };
        (hand.l1, hand.l1_entries) = (vec![0, 1024, 0, 1024], 4);
        hand.l2 = vec![0; 64];
        // The last cluster of the table, all of it.
        let last = if features == 0 { 63 } else { 62 };
        hand.l2[last] = 1536;
        if features != 0 {
            hand.l2[63] = 0xffff_ffff;
        }
        let bytes = noise(512);
        hand.data = vec![(1536, bytes.clone())];
        let mut image = hand.open().unwrap();
        let end = 4 * covered;
        let expected = [
            (0, Extent::Hole(2 * covered - 512)),
            (700, Extent::Hole(2 * covered - 512 - 700)),
            (2 * covered - 512, Extent::Data(512)),
            (2 * covered, Extent::Hole(2 * covered - 512)),
            (3 * covered - 5, Extent::Hole(covered + 5 - 512)),
            (end - 512, Extent::Data(512)),
            (end, Extent::Hole(0)),
        ];
        for (at, extent) in expected {
            assert_eq!(image.extent(at, u64::MAX).unwrap(), extent, "{features} {at}");
        }
        let mut found = vec![0; 512];
        image.read_at(2 * covered - 512, &mut found).unwrap();
        assert!(found == bytes);
        image.read_at(2 * covered - 1024, &mut found).unwrap();
        assert!(found == [0; 512]);
    }
}

#[test]
fn ranges_past_the_end_are_refused_and_extents_end_there() {
    let hand = Hand { l1: vec![0], ..Hand::new(9, 1000) };
    let mut image = hand.open().unwrap();
    image.read_at(999, &mut [1]).unwrap();
    image.read_at(1000, &mut []).unwrap();
    for (at, len) in [(999, 2), (1000, 1), (u64::MAX, 1)] {
        assert!(matches!(image.read_at(at, &mut vec![0; len]), Err(ImageError::Io(_))), "{at}");
    }
    assert_eq!(image.extent(990, 995).unwrap(), Extent::Hole(5));
    assert_eq!(image.extent(990, 5000).unwrap(), Extent::Hole(10));
    assert_eq!(image.extent(2000, 5000).unwrap(), Extent::Hole(0));
    assert!(Extent::Hole(0).is_empty() && !Extent::Data(1).is_empty());
    assert_eq!((Extent::Data(3).len(), Extent::Hole(4).len()), (3, 4));
}

#[test]
fn a_choice_takes_what_it_names() {
    let heads: [(&[u8], Format); 6] = [
        (b"plain", Format::Raw),
        (b"QFI\xfb\0\0\0\x03", Format::Qcow2),
        (b"\x1f\x8b\x08", Format::Gzip),
        (b"\x28\xb5\x2f\xfd", Format::Zstd),
        (b"\xfd7zXZ\0", Format::Xz),
        (b"vhdxfile", Format::Vhdx),
    ];
    let choices = [("auto", Choice::Auto), ("raw", Choice::Raw), ("qcow2", Choice::Qcow2)];
    for (name, choice) in choices {
        assert_eq!(name.parse(), Ok(choice));
        for (head, format) in heads {
            let known = [Format::Raw, Format::Qcow2, Format::Gzip, Format::Zstd];
            let expected = match choice {
                Choice::Raw => Some(Format::Raw),
                Choice::Auto => known.contains(&format).then_some(format),
                Choice::Qcow2 => (format == Format::Qcow2).then_some(format),
            };
            assert_eq!(choice.of(head).ok(), expected, "{name} of {format}");
        }
    }
    assert!("vmdk".parse::<Choice>().is_err());
    let converts = |error: ImageError| error.converting_helps();
    assert!(converts(ImageError::Encrypted) && converts(ImageError::NotRead(Format::Vmdk)));
    assert!(!converts(ImageError::Damaged(String::new())));
}

#[test]
fn streams_of_zstandard_have_windows_up_to_128_mebibytes() {
    for (log, fits) in [(27, true), (28, false)] {
        let mut to = zstd::Encoder::new(Vec::new(), 1).unwrap();
        to.window_log(log).unwrap();
        to.include_contentsize(false).unwrap();
        // A size that is not known makes the encoder state its whole window.
        for _ in 0..3 {
            to.write_all(&vec![7; 100_000]).unwrap();
            to.flush().unwrap();
        }
        let stored = to.finish().unwrap();
        let mut out = Vec::new();
        let read = decoder(Format::Zstd, std::io::Cursor::new(stored))
            .map(|mut from| std::io::Read::read_to_end(&mut from, &mut out));
        assert_eq!(read.unwrap().is_ok(), fits, "2^{log}");
    }
}
