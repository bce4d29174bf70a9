//! Damage anywhere is named, and never returned as data.

use onefold_block::{BlockDevice, ByteSize, Folder, SimFolder, SplitMix64};
use onefold_pool::{Pool, PoolError};

use crate::support::{assert_sound, content, new_pool, options, read_only, small};

const CHUNKS: u64 = 300;

fn expected(n: u64) -> Vec<u8> {
    if n.is_multiple_of(7) { vec![0; 4096] } else { content(n % 200, 4096) }
}

/// A pool that was used for a while and stopped cleanly, or left as it was.
fn used_pool(clean: bool) -> SimFolder {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(64 << 20)).unwrap();
    for n in 0..CHUNKS {
        volume.write_at(n * 4096, &expected(n), n % 50 == 0).unwrap();
        if n == CHUNKS / 2 {
            pool.checkpoint().unwrap();
        }
    }
    volume.flush().unwrap();
    drop(volume);
    if clean {
        pool.close().unwrap();
    }
    folder
}

/// Names of all files with their lengths.
fn files(folder: &SimFolder) -> Vec<(String, u64)> {
    let mut files = Vec::new();
    for name in folder.list().unwrap() {
        if let Ok(media) = folder.open(&name) {
            files.push((name.clone(), media.len().unwrap()));
        }
    }
    let containers = folder.subfolder("containers").unwrap();
    for name in containers.list().unwrap() {
        let len = containers.open(&name).unwrap().len().unwrap();
        files.push((format!("containers/{name}"), len));
    }
    files
}

/// Reads give the right bytes or an error.
fn assert_never_wrong(folder: &SimFolder, context: &str) {
    let Ok(pool) = Pool::open(folder, &read_only()) else { return };
    let Ok(volume) = pool.volume("main") else { return };
    let mut found = vec![0; 4096];
    for n in 0..CHUNKS {
        if volume.read_at(n * 4096, &mut found).is_ok() {
            assert!(found == expected(n), "{context}: chunk {n} is wrong");
        }
    }
}

#[test]
fn a_flipped_bit_in_any_file_is_found_by_check_and_never_read() {
    let mut random = SplitMix64::new(11);
    let pristine = used_pool(true);
    let files = files(&pristine);
    assert!(files.len() >= 6, "{files:?}");
    for (name, len) in &files {
        for _ in 0..60 {
            let folder = used_pool(true);
            let (offset, bit) = (random.below(*len), random.below(8) as u8);
            folder.flip_bit(name, offset, bit).unwrap();
            let context = format!("{name} byte {offset} bit {bit}");
            let report = Pool::check_in(&folder, &mut |_, _| {});
            let noticed = report.is_ok_and(|report| !report.is_sound());
            let meaningless = || match name.as_str() {
                // A slot that no page is in.
                "map" => all_reads_succeed(&folder),
                _ => is_padding(&folder, name, offset),
            };
            assert!(noticed || meaningless(), "{context} was not noticed");
            assert_never_wrong(&folder, &context);
        }
    }
}

fn all_reads_succeed(folder: &SimFolder) -> bool {
    let pool = Pool::open(folder, &read_only()).unwrap();
    let volume = pool.volume("main").unwrap();
    (0..CHUNKS).all(|n| volume.read_at(n * 4096, &mut [0; 4096]).is_ok())
}

/// Bytes that mean nothing: the padding of records.
fn is_padding(folder: &SimFolder, name: &str, offset: u64) -> bool {
    // A flip in a record's padding leaves a byte other than zero among zeroes.
    let containers = folder.subfolder("containers").unwrap();
    let Some(name) = name.strip_prefix("containers/") else { return false };
    let media = containers.open(name).unwrap();
    let mut byte = [0];
    media.read(offset, &mut byte).unwrap();
    byte[0].is_power_of_two()
}

#[test]
fn a_flipped_bit_after_a_power_cut_never_gives_wrong_data() {
    let mut random = SplitMix64::new(12);
    for (name, len) in files(&used_pool(false)) {
        for _ in 0..40 {
            let folder = used_pool(false);
            let (offset, bit) = (random.below(len.max(1)), random.below(8) as u8);
            if folder.flip_bit(&name, offset, bit).is_ok() && name != "journal" {
                assert_never_wrong(&folder, &format!("{name} byte {offset} bit {bit}"));
            }
        }
    }
}

#[test]
fn a_truncated_file_is_named_and_the_rest_can_be_read() {
    let mut random = SplitMix64::new(13);
    for (name, len) in files(&used_pool(true)) {
        for _ in 0..10 {
            let folder = used_pool(true);
            let short = random.below(len);
            folder.truncate(&name, short).unwrap();
            let context = format!("{name} cut to {short} of {len}");
            match Pool::check_in(&folder, &mut |_, _| {}) {
                // A journal without its first frame is what a power cut in a checkpoint leaves.
                Ok(report) => assert!(
                    !report.is_sound() || name == "journal" || !report.notes.is_empty(),
                    "{context}"
                ),
                Err(error) => assert!(error.to_string().len() > 10, "{context}"),
            }
            assert_never_wrong(&folder, &context);
        }
    }
}

#[test]
fn a_missing_container_is_named_and_the_rest_can_be_read() {
    let folder = used_pool(true);
    let containers = folder.subfolder("containers").unwrap();
    let victim = containers.list().unwrap().remove(0);
    containers.remove(&victim).unwrap();
    let report = Pool::check_in(&folder, &mut |_, _| {}).unwrap();
    assert!(report.findings.iter().any(|f| f.problem.contains("container 1")), "{report:?}");
    assert_never_wrong(&folder, "missing container");
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    let errors: Vec<String> = (0..CHUNKS)
        .filter_map(|n| volume.read_at(n * 4096, &mut [0; 4096]).err())
        .map(|error| error.to_string())
        .collect();
    assert!(!errors.is_empty() && errors.len() < CHUNKS as usize);
    assert!(errors[0].contains("volume 'main'") && errors[0].contains("LBA"), "{}", errors[0]);
}

#[test]
fn a_damaged_frame_with_a_good_one_after_it_is_corruption_and_not_a_crash() {
    let folder = used_pool(false);
    // The first bytes of the second frame's payload: frames 2 and later follow intact.
    folder.flip_bit("journal", 64 + 40, 3).unwrap();
    let error = Pool::open(&folder, &options()).err().expect("it must be refused");
    assert!(error.to_string().contains("frame 1 is damaged"), "{error}");
    assert!(!Pool::check_in(&folder, &mut |_, _| {}).unwrap().is_sound());
}

#[test]
fn losing_the_newest_checkpoint_is_noticed() {
    let folder = used_pool(true);
    let newest = newest_super(&folder);
    folder.flip_bit(newest, 100, 0).unwrap();
    let error = Pool::open(&folder, &options()).err().expect("it must be refused");
    assert!(error.to_string().contains("newest readable one"), "{error}");
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let folder = used_pool(true);
    for name in ["super.0", "super.1"] {
        // Version 3, with a checksum that fits.
        let media = folder.open(name).unwrap();
        let mut bytes = vec![0; media.len().unwrap() as usize];
        media.read(0, &mut bytes).unwrap();
        bytes[8] = 3;
        let check = crc32fast::hash(&[&bytes[8..12], &bytes[16..]].concat());
        bytes[12..16].copy_from_slice(&check.to_le_bytes());
        media.write(0, &bytes).unwrap();
    }
    let error = Pool::open(&folder, &options()).err().expect("it must be refused");
    assert!(matches!(error, PoolError::NewerFormat { .. }), "{error}");
}

#[test]
fn a_container_of_another_pool_is_left_alone_and_named() {
    let folder = used_pool(true);
    let containers = folder.subfolder("containers").unwrap();
    let names = containers.list().unwrap();
    let source = containers.open(&names[0]).unwrap();
    let mut bytes = vec![0; source.len().unwrap() as usize];
    source.read(0, &mut bytes).unwrap();
    bytes[12] ^= 1; // the UUID, with a checksum that fits
    let check = crc32fast::hash(&bytes[..44]);
    bytes[44..48].copy_from_slice(&check.to_le_bytes());
    containers.create("0000ffff.container").unwrap().write(0, &bytes).unwrap();
    let report = Pool::check_in(&folder, &mut |_, _| {}).unwrap();
    assert!(report.notes.iter().any(|note| note.contains("65535")), "{report:?}");
    Pool::open(&folder, &options()).unwrap().close().unwrap();
    assert!(containers.list().unwrap().contains(&"0000ffff.container".to_owned()));
}

#[test]
fn recovery_keeps_what_lies_past_a_damaged_record() {
    let folder = used_pool(false);
    let containers = folder.subfolder("containers").unwrap();
    // The last container with anything in it, which no checkpoint knows.
    let len = |name: &String| containers.open(name).unwrap().len().unwrap();
    let name = containers.list().unwrap().into_iter().rfind(|name| len(name) > 0).unwrap();
    let before = len(&name);
    folder.flip_bit(&format!("containers/{name}"), before / 2, 3).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    let mut found = vec![0; 4096];
    let mut lost = 0;
    for n in 0..CHUNKS {
        match volume.read_at(n * 4096, &mut found) {
            Ok(()) => assert!(found == expected(n), "chunk {n} is wrong"),
            Err(_) => lost += 1,
        }
    }
    // One record; up to two blocks of the test's data share it.
    assert!((1..=2).contains(&lost), "{lost} chunks were lost to one flipped bit");
    drop(volume);
    pool.close().unwrap();
    let report = Pool::check_in(&folder, &mut |_, _| {}).unwrap();
    assert!(!report.is_sound(), "the lost chunk is named: {report:?}");
}

#[test]
fn a_journal_without_any_good_frame_is_not_taken_for_a_new_one() {
    let folder = used_pool(false);
    let journal = folder.open("journal").unwrap();
    let len = journal.len().unwrap();
    journal.write(0, &vec![0; len as usize]).unwrap();
    let error = Pool::open(&folder, &options()).err().expect("it must be refused");
    assert!(error.to_string().contains("first frame is damaged"), "{error}");
    assert!(!Pool::check_in(&folder, &mut |_, _| {}).unwrap().is_sound());
}

/// Where the last frame of a pool's journal begins, and where it ends.
fn last_frame(folder: &SimFolder) -> (u64, u64) {
    let bytes = bytes_of(folder, "journal");
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (mut at, mut start) = (0, 0);
    while bytes[at..].starts_with(b"OFJF") && word(at + 8) == word(8) {
        start = at;
        at = (at + 32 + word(at + 24) as u32 as usize).next_multiple_of(64);
    }
    (start as u64, at as u64)
}

/// The super file with the higher sequence number.
fn newest_super(folder: &SimFolder) -> &'static str {
    let sequence =
        |name: &str| u64::from_le_bytes(bytes_of(folder, name)[16..24].try_into().unwrap());
    if sequence("super.0") > sequence("super.1") { "super.0" } else { "super.1" }
}

fn assert_journal_refused(folder: &SimFolder, context: &str) {
    let error = Pool::open(folder, &options()).err().unwrap_or_else(|| panic!("{context}"));
    assert!(error.to_string().contains("were durable"), "{context}: {error}");
    assert!(!Pool::check_in(folder, &mut |_, _| {}).unwrap().is_sound(), "{context}");
}

#[test]
fn damage_to_the_last_flush_is_corruption_and_not_a_crash() {
    let (last, end) = last_frame(&used_pool(false));
    for (offset, bit) in [(0, 1), (8, 0), (16, 0), (24, 4), (40, 0), (60, 7)] {
        let folder = used_pool(false);
        folder.flip_bit("journal", last + offset, bit).unwrap();
        assert_journal_refused(&folder, &format!("byte {offset}"));
    }
    for cut in [end - 1, last + 64, last, 64] {
        let folder = used_pool(false);
        folder.truncate("journal", cut).unwrap();
        assert_journal_refused(&folder, &format!("cut to {cut}"));
    }
}

#[test]
fn a_journal_from_earlier_in_its_epoch_is_refused() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    volume.write_at(0, &content(1, 4096), true).unwrap();
    let old = bytes_of(&folder, "journal");
    volume.write_at(4096, &content(1, 4096), true).unwrap();
    drop((volume, pool));
    folder.create("journal").unwrap().write(0, &old).unwrap();
    assert_journal_refused(&folder, "an older journal");
}

#[test]
fn without_the_witness_a_broken_last_frame_is_noted() {
    let folder = used_pool(false);
    let (last, _) = last_frame(&folder);
    let name = newest_super(&folder);
    let bytes = bytes_of(&folder, name);
    let at = (0..bytes.len()).step_by(4096).find(|&at| bytes[at..].starts_with(b"OFJW")).unwrap();
    // As if the power went before it reached the media.
    folder.truncate(name, at as u64).unwrap();
    assert_sound(&folder, "without the witness");
    folder.flip_bit("journal", last + 40, 0).unwrap();
    let report = Pool::check_in(&folder, &mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert!(report.notes.iter().any(|note| note.contains("not whole")), "{report:?}");
}

#[test]
fn damage_to_the_last_frame_and_its_witness_together_is_no_power_cut() {
    for witness_byte in [0, 5, 9, 20] {
        let folder = used_pool(false);
        let (last, _) = last_frame(&folder);
        let name = newest_super(&folder);
        let bytes = bytes_of(&folder, name);
        let at = (0..bytes.len()).step_by(4096).find(|&at| bytes[at..].starts_with(b"OFJW"));
        folder.flip_bit(name, at.unwrap() as u64 + witness_byte, 2).unwrap();
        assert_sound(&folder, "the witness alone takes nothing away");
        folder.flip_bit("journal", last + 40, 0).unwrap();
        assert_journal_refused(&folder, &format!("byte {witness_byte} of the witness"));
    }
}

#[test]
fn a_clean_stop_leaves_no_witness() {
    let folder = used_pool(true);
    for name in ["super.0", "super.1"] {
        let bytes = bytes_of(&folder, name);
        assert!(!bytes.windows(4).any(|bytes| bytes == b"OFJW"), "{name}");
    }
}

#[test]
fn a_journal_from_an_older_copy_of_the_pool_is_refused() {
    let (folder, pool) = new_pool(&small());
    pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    let old = bytes_of(&folder, "journal");
    for _ in 0..2 {
        pool.checkpoint().unwrap();
    }
    drop(pool);
    let journal = folder.create("journal").unwrap();
    journal.write(0, &old).unwrap();
    let error = Pool::open(&folder, &options()).err().expect("it must be refused");
    assert!(error.to_string().contains("older than the rest of the pool"), "{error}");
}

fn bytes_of(folder: &SimFolder, name: &str) -> Vec<u8> {
    let media = folder.open(name).unwrap();
    let mut bytes = vec![0; media.len().unwrap() as usize];
    media.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_pool_without_its_containers_is_refused_and_not_begun_anew() {
    let folder = used_pool(true);
    let containers = folder.subfolder("containers").unwrap();
    for name in containers.list().unwrap() {
        containers.remove(&name).unwrap();
    }
    let error = Pool::open(&folder, &options()).err().expect("it must be refused");
    assert!(error.to_string().contains("not mounted"), "{error}");
}
