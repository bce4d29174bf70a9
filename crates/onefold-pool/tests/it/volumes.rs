//! Volumes come, grow, shrink and go.

use onefold_block::{
    BlockDevice, BlockError, ByteSize, CrashMode, FaultKind, Folder, OpKind, SimFolder,
    WriteRequest, ZeroOptions,
};
use onefold_pool::format::superblock::Superblock;
use onefold_pool::{Budgets, OpenOptions, Pool, PoolError, Volume};

use crate::support::{IDENTITY, assert_sound, content, new_pool, options, read_only, small};

#[test]
fn names_and_sizes_are_checked() {
    let (_, pool) = new_pool(&small());
    let long = "x".repeat(256);
    for name in ["", " ", "a b", "../x", ".hidden", "-x", "\u{e4}", "a/b", long.as_str()] {
        let error = pool.create_volume(name, ByteSize(4096)).err().expect(name);
        assert!(matches!(error, PoolError::VolumeName(_)), "{error}");
    }
    for size in [0, u64::MAX, (1 << 57) + 1] {
        let error = pool.create_volume("v", ByteSize(size)).err().expect("refused");
        assert!(matches!(error, PoolError::VolumeSize { .. }), "{error}");
    }
    for name in ["v", "vm-1.disk", "a:b", "0"] {
        pool.create_volume(name, ByteSize(1)).unwrap();
    }
    let error = pool.create_volume("v", ByteSize(4096)).err().expect("taken");
    assert!(matches!(error, PoolError::VolumeExists(_)));
    let error = pool.volume("w").err().expect("unknown");
    assert_eq!(error.to_string(), "no volume 'w'; there are: v, vm-1.disk, a:b, 0");
}

#[test]
fn a_new_name_is_durable_and_takes_the_data_along() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("v.incomplete", ByteSize(1 << 20)).unwrap();
    pool.create_volume("w", ByteSize(1 << 20)).unwrap();
    volume.write_at(0, &content(1, 8192), false).unwrap();
    for (from, to) in [("v", "x"), ("v.incomplete", "w"), ("v.incomplete", "../x")] {
        assert!(pool.rename_volume(from, to).is_err(), "{from} to {to}");
    }
    pool.rename_volume("v.incomplete", "v").unwrap();
    assert_eq!(volume.name(), "v");
    volume.write_at(8192, &content(2, 4096), true).unwrap();
    let folder = folder.after_crash(1, CrashMode::KeepNothing);
    let pool = Pool::open(&folder, &options()).unwrap();
    let names: Vec<String> = pool.volumes().iter().map(Volume::name).collect();
    assert_eq!(names, ["v", "w"]);
    let mut found = vec![0; 12_288];
    pool.volume("v").unwrap().read_at(0, &mut found).unwrap();
    assert!(found == [content(1, 8192), content(2, 4096)].concat());
    pool.close().unwrap();
    assert_sound(&folder, "after renaming");
}

#[test]
fn ranges_outside_are_refused_without_overflow() {
    let (_, pool) = new_pool(&small());
    let volume = pool.create_volume("v", ByteSize(10_000)).unwrap();
    for (offset, len) in [(10_000, 1), (9_999, 2), (u64::MAX, 1), (u64::MAX - 1, 4096)] {
        let mut buf = vec![0; len];
        let range = |e: BlockError| matches!(e, BlockError::OutOfRange { .. });
        assert!(range(volume.read_at(offset, &mut buf).unwrap_err()));
        assert!(range(volume.write_at(offset, &buf, false).unwrap_err()));
        assert!(range(volume.trim(offset, len as u64, false).unwrap_err()));
        assert!(range(volume.block_status(offset, len as u64).unwrap_err()));
    }
    volume.write_at(9_999, &[7], true).unwrap();
    volume.read_at(10_000, &mut []).unwrap();
}

#[test]
fn growing_keeps_data_and_shrinking_asks_first() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("v", ByteSize(1 << 20)).unwrap();
    volume.write_at(0, &content(1, 4096), false).unwrap();
    volume.write_at(1_000_000, &content(2, 5_000), false).unwrap();
    // Past 512 blocks and past 512 x 512: the map grows two levels.
    for size in [3 << 20, 4u64 << 30, 3 << 40] {
        pool.resize_volume("v", ByteSize(size), false).unwrap();
        assert_eq!(volume.size_bytes(), size);
        let mut found = vec![0; 5_000];
        volume.read_at(1_000_000, &mut found).unwrap();
        assert!(found == content(2, 5_000));
        volume.read_at(size - 5_000, &mut found).unwrap();
        assert!(found.iter().all(|&byte| byte == 0));
    }
    volume.write_at((3 << 40) - 4096, &content(3, 4096), true).unwrap();
    let error = pool.resize_volume("v", ByteSize(1_002_000), false).unwrap_err();
    assert!(matches!(error, PoolError::ShrinkLosesData { .. }), "{error}");
    assert_eq!(volume.size_bytes(), 3 << 40);
    pool.resize_volume("v", ByteSize(1_002_000), true).unwrap();
    pool.resize_volume("v", ByteSize(2 << 20), false).unwrap();
    let mut found = vec![0; 5_000];
    volume.read_at(1_000_000, &mut found).unwrap();
    assert!(found[..2_000] == content(2, 5_000)[..2_000], "what is inside stays");
    assert!(found[2_000..].iter().all(|&byte| byte == 0), "what was cut off is gone");
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "after resizing");
}

#[test]
fn a_shrink_within_a_block_asks_if_and_only_if_what_it_cuts_off_is_not_zero() {
    let (_folder, pool) = new_pool(&small());
    let volume = pool.create_volume("v", ByteSize(1 << 20)).unwrap();
    // The last byte that is not zero is number 40,999, in the middle of a block.
    volume.write_at(36_864, &[7; 4_136], true).unwrap();
    let shrink = |size: u64| pool.resize_volume("v", ByteSize(size), false);
    for size in [40_999, 40_960, 36_864, 36_863, 512] {
        let error = shrink(size).unwrap_err();
        let blocks = if size < 40_960 { 2 } else { 1 };
        let lost = ByteSize(blocks * 4096);
        let told = matches!(&error, PoolError::ShrinkLosesData { lost: told, .. } if *told == lost);
        assert!(told, "{size}: {error}");
    }
    // Of two blocks, only the second has something there.
    volume.write_at(45_056, &[7; 4096], true).unwrap();
    let error = shrink(41_000).unwrap_err();
    let one = ByteSize(4096);
    assert!(matches!(error, PoolError::ShrinkLosesData { lost, .. } if lost == one), "{error}");
    volume.trim(45_056, 4096, true).unwrap();
    for size in [45_056, 41_000] {
        shrink(size).unwrap_or_else(|error| panic!("{size}: {error}"));
    }
    let mut found = [0; 4_136];
    volume.read_at(36_864, &mut found).unwrap();
    assert_eq!(found, [7; 4_136]);
}

#[test]
fn a_pool_is_made_only_where_nothing_is_but_what_an_interrupted_creation_left() {
    let refused = |folder: &SimFolder| match Pool::create(folder, &small(), IDENTITY) {
        Err(PoolError::NotEmpty(name)) => Some(name),
        made => made.map(|()| None).unwrap(),
    };
    for (name, bytes, goes) in [
        ("notes", &b""[..], false),
        ("notes", b"x", false),
        ("super.0", b"", true),
        ("super.1", b"", true),
        ("super.0", b"x", false),
        ("super.1", b"x", false),
        ("super.1.new", b"x", true),
        ("super.0.new", b"x", false),
        ("journal", b"x", true),
        ("map", b"x", true),
    ] {
        let folder = SimFolder::new();
        folder.create(name).unwrap().write(0, bytes).unwrap();
        let left = refused(&folder);
        assert_eq!(left, (!goes).then(|| name.to_owned()), "{name}, {} bytes", bytes.len());
    }
    let (folder, pool) = new_pool(&small());
    pool.close().unwrap();
    assert!(refused(&folder).is_some_and(|name| name.starts_with("super")));
    let folder = SimFolder::new();
    folder.subfolder("containers").unwrap().create("00000001.container").unwrap();
    assert_eq!(refused(&folder).unwrap(), "containers/00000001.container");
}

#[test]
fn deleting_gives_back_what_only_that_volume_held() {
    let (folder, pool) = new_pool(&small());
    let data: Vec<u8> = (0..800).map(|n| content(n, 4096)).collect::<Vec<_>>().concat();
    for name in ["a", "b"] {
        let volume = pool.create_volume(name, ByteSize(8 << 20)).unwrap();
        volume.write_at(0, &data, true).unwrap();
    }
    let only: Vec<u8> = (5000..5800).map(|n| content(n, 4096)).collect::<Vec<_>>().concat();
    let a = pool.volume("a").unwrap();
    a.write_at(4 << 20, &only, true).unwrap();
    let before = pool.status().unwrap();
    pool.delete_volume("a").unwrap();
    assert!(matches!(a.read_at(0, &mut [0; 1]), Err(BlockError::ShuttingDown)));
    let after = pool.status().unwrap();
    assert_eq!(after.logical_bytes, 800 * 4096);
    assert!(after.containers < before.containers);
    let mut found = vec![0; data.len()];
    pool.volume("b").unwrap().read_at(0, &mut found).unwrap();
    assert!(found == data);
    drop(a);
    pool.close().unwrap();
    assert_sound(&folder, "after deleting");
    let names: Vec<String> =
        Pool::open(&folder, &read_only()).unwrap().volumes().iter().map(Volume::name).collect();
    assert_eq!(names, ["b"]);
}

/// Volume operations, each acknowledged by a step forward.
fn script(folder: &SimFolder) -> Result<(), (usize, PoolError)> {
    let at = |step| move |error| (step, error);
    Pool::create(folder, &small(), IDENTITY).map_err(at(0))?;
    let pool = Pool::open(folder, &options()).map_err(at(1))?;
    let a = pool.create_volume("a", ByteSize(8 << 20)).map_err(at(1))?;
    let data: Vec<u8> = (0..150).map(|n| content(n, 4096)).collect::<Vec<_>>().concat();
    let write = a.write_at(0, &data, true);
    write.map_err(|_| PoolError::ReadOnly).map_err(at(2))?;
    let b = pool.create_volume("b", ByteSize(8 << 20)).map_err(at(3))?;
    let write = b.write_at(0, &data, true);
    write.map_err(|_| PoolError::ReadOnly).map_err(at(4))?;
    pool.resize_volume("b", ByteSize(16 << 30), false).map_err(at(5))?;
    pool.delete_volume("a").map_err(at(6))?;
    pool.resize_volume("b", ByteSize(100 << 12), true).map_err(at(7))?;
    pool.close().map_err(at(8))
}

#[test]
fn volume_operations_are_whole_or_not_at_all_at_every_power_cut() {
    for mode in [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything] {
        for cut in 0.. {
            let folder = SimFolder::new();
            folder.crash_at(cut);
            let Err((reached, _)) = script(&folder) else {
                assert!(cut > 60, "only {cut} operations");
                break;
            };
            if reached == 0 {
                continue;
            }
            let context = format!("cut at {cut}, step {reached}, {mode:?}");
            let folder = folder.after_crash(cut, mode);
            let pool = Pool::open(&folder, &options()).unwrap_or_else(|e| panic!("{context}: {e}"));
            let size = |name: &str| pool.volume(name).ok().map(|volume| volume.size_bytes());
            let (a, b) = (size("a"), size("b"));
            assert!(a.is_some() || reached <= 1 || reached >= 6, "{context}: a is gone");
            assert!(a.is_none() || reached <= 6, "{context}: a is back");
            assert!(b.is_some() || reached <= 3, "{context}: b is gone");
            let sizes = [Some(8 << 20), Some(16 << 30), Some(100 << 12)];
            assert!(b.is_none() || sizes.contains(&b), "{context}: {b:?}");
            if reached >= 6 {
                assert!(b != Some(8 << 20), "{context}: the resize is undone");
            }
            for (name, since) in [("a", 3), ("b", 5)] {
                if let Ok(volume) = pool.volume(name)
                    && reached >= since
                {
                    for n in 0..100 {
                        let mut found = vec![0; 4096];
                        volume.read_at(n * 4096, &mut found).unwrap();
                        assert!(found == content(n, 4096), "{context}: {name} chunk {n}");
                    }
                }
            }
            pool.close().unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_sound(&folder, &context);
        }
    }
}

#[test]
fn a_volume_deleted_under_its_users_answers_and_leaves_nothing_behind() {
    let (folder, pool) = new_pool(&small());
    for round in 0..10u64 {
        let volume = pool.create_volume("v", ByteSize(8 << 20)).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..2u64 {
                let volume = &volume;
                scope.spawn(move || {
                    for n in 0.. {
                        let at = (n * 2 + thread) % 2000 * 4096;
                        let chunk = content(round * 10_000 + n, 4096);
                        let gone = |e: BlockError| assert!(matches!(e, BlockError::ShuttingDown));
                        if let Err(error) = volume.write_at(at, &chunk, false) {
                            return gone(error);
                        }
                        if n % 5 == 4
                            && let Err(error) = volume.trim(at, 40_960.min((8 << 20) - at), false)
                        {
                            return gone(error);
                        }
                        if let Err(error) = volume.read_at(at, &mut [0; 4096]) {
                            return gone(error);
                        }
                    }
                });
            }
            pool.delete_volume("v").unwrap();
        });
    }
    assert_eq!(pool.status().unwrap().logical_bytes, 0);
    pool.close().unwrap();
    assert_sound(&folder, "after deleting under load");
    let pool = Pool::open(&folder, &options()).unwrap();
    assert_eq!(pool.status().unwrap().containers, 0);
}

#[test]
fn a_pool_is_opened_once_even_without_its_lock_file() {
    use onefold_pool::{OpenOptions, PoolSettings};
    let folder = tempfile::tempdir().unwrap();
    Pool::create_at(folder.path(), &PoolSettings::default(), IDENTITY).unwrap();
    let _pool = Pool::open_at(folder.path(), &OpenOptions::default()).unwrap();
    std::fs::remove_file(folder.path().join("lock")).unwrap();
    for read_only in [true, false] {
        let options = OpenOptions { read_only, ..OpenOptions::default() };
        let error = Pool::open_at(folder.path(), &options).err().expect("refused");
        assert!(matches!(error, PoolError::Locked { .. }), "{error}");
    }
}

#[test]
fn what_an_interrupted_creation_leaves_is_no_pool() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!Pool::exists_at(folder.path()));
    for name in ["super.0", "super.1", "journal"] {
        std::fs::write(folder.path().join(name), []).unwrap();
    }
    assert!(!Pool::exists_at(folder.path()), "nothing was written yet");
    for name in ["super.0", "super.1"] {
        std::fs::write(folder.path().join(name), [0]).unwrap();
        assert!(Pool::exists_at(folder.path()), "readable or not: {name}");
        std::fs::write(folder.path().join(name), []).unwrap();
    }
    let made = tempfile::tempdir().unwrap();
    Pool::create_at(made.path(), &onefold_pool::PoolSettings::default(), IDENTITY).unwrap();
    assert!(Pool::exists_at(made.path()));
}

#[test]
fn the_lock_file_of_a_pool_that_could_be_opened_stays_and_of_no_other() {
    use onefold_pool::{OpenOptions, PoolSettings};
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lock");
    Pool::create_at(folder.path(), &PoolSettings::default(), IDENTITY).unwrap();
    assert!(lock.exists());
    // As a copy without it would be.
    std::fs::remove_file(&lock).unwrap();
    Pool::open_at(folder.path(), &OpenOptions::default()).unwrap().close().unwrap();
    assert!(lock.exists());
    std::fs::remove_file(&lock).unwrap();
    std::fs::write(folder.path().join("super.0"), [7; 100]).unwrap();
    std::fs::write(folder.path().join("super.1"), [7; 100]).unwrap();
    assert!(Pool::open_at(folder.path(), &OpenOptions::default()).is_err());
    assert!(!lock.exists(), "nothing is made where nothing was opened");
}

#[test]
fn volume_numbers_have_32_bits_and_the_last_one_is_like_any_other() {
    let (folder, pool) = new_pool(&small());
    drop(pool.create_volume("first", ByteSize(8 << 20)).unwrap());
    pool.close().unwrap();
    for name in ["super.0", "super.1"] {
        let media = folder.open(name).unwrap();
        let mut bytes = vec![0; media.len().unwrap() as usize];
        media.read(0, &mut bytes).unwrap();
        let forged =
            Superblock { next_volume: u32::MAX - 1, ..Superblock::decode(name, &bytes).unwrap() };
        media.write(0, &forged.encode()).unwrap();
    }
    let pool = Pool::open(&folder, &options()).unwrap();
    let last = pool.create_volume("last", ByteSize(8 << 20)).unwrap();
    let first = pool.volume("first").unwrap();
    for n in 0..700 {
        first.write_at(n * 4096, &content(n, 4096), false).unwrap();
        last.write_at(n * 4096, &content(10_000 + n, 4096), n == 300).unwrap();
    }
    last.flush().unwrap();
    let refused = pool.create_volume("another", ByteSize(1 << 20)).err().unwrap().to_string();
    assert!(refused.contains("4294967294 volumes in its life"), "{refused}");
    // As after a power cut: the journal names it by its number.
    drop((first, last, pool));
    let pool = Pool::open(&folder, &options()).unwrap();
    for (name, from) in [("first", 0), ("last", 10_000)] {
        let volume = pool.volume(name).unwrap();
        let mut found = vec![0; 4096];
        for n in 0..700 {
            volume.read_at(n * 4096, &mut found).unwrap();
            assert!(found == content(from + n, 4096), "{name}, chunk {n}");
        }
    }
    pool.close().unwrap();
    assert_sound(&folder, "closed");
}

#[test]
fn requests_written_together_are_written_in_their_order() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("v", ByteSize(1 << 20)).unwrap();
    let (whole, piece) = (content(1, 3 * 4096), [9; 100]);
    let request = |offset, data, fua| WriteRequest { offset, data, fua };
    // A piece of what came just before, twice, and whole blocks over a piece.
    let flushes = pool.activity().flushes;
    let requests = [
        request(0, &whole[..], true),
        request(4000, &piece[..], false),
        request(9000, &piece[..], false),
        request(16_384, &piece[..], false),
        request(16_384, &whole[..4096], false),
    ];
    let mut results = vec![Err(BlockError::ReadOnly)];
    volume.write_batch(&requests, &mut results);
    assert_eq!(results.len(), 5);
    assert!(results.iter().all(Result::is_ok));
    let mut expected = whole.clone();
    expected[4000..4100].copy_from_slice(&piece);
    expected[9000..9100].copy_from_slice(&piece);
    let mut found = vec![0; 3 * 4096];
    volume.read_at(0, &mut found).unwrap();
    assert!(found == expected);
    volume.read_at(16_384, &mut found[..4096]).unwrap();
    assert!(found[..4096] == whole[..4096]);
    let done = pool.activity();
    // Two pieces lie astride or in one block each: 4000 in two, the others in one.
    assert_eq!((done.written, done.completed, done.flushes - flushes), (8, 4, 1));
    // One of several is for durability, and one that is refused is so by itself.
    let requests = [
        request(0, &whole[..], false),
        request(u64::MAX, &piece[..], false),
        request(20_480, &piece[..], true),
    ];
    volume.write_batch(&requests, &mut results);
    assert!(matches!(results[..], [Ok(()), Err(BlockError::OutOfRange { .. }), Ok(())]));
    let left = folder.after_crash(1, CrashMode::KeepNothing);
    let pool = Pool::open(&left, &options()).unwrap();
    pool.volume("v").unwrap().read_at(20_480, &mut found[..100]).unwrap();
    assert_eq!(found[..100], piece);
}

#[test]
fn a_hint_reads_into_memory_what_fits_there_and_changes_nothing() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("v", ByteSize(8 << 20)).unwrap();
    let data: Vec<u8> = (0..200).flat_map(|n| content(n, 4096)).collect();
    volume.write_at(0, &data, true).unwrap();
    assert!(!volume.is_deleted());
    drop((volume, pool));
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("v").unwrap();
    // A quarter of what the cache may take.
    let len = (pool.status().unwrap().cache_memory_max_bytes / 4) as usize;
    volume.prefetch(0, 8 << 20).unwrap();
    let read = pool.activity().read;
    assert_eq!(read, len.div_ceil(4096) as u64);
    let mut found = vec![0; len];
    volume.read_at(0, &mut found).unwrap();
    assert!(found == data[..len]);
    assert!(pool.activity().cache_hits > 0);
    assert!(matches!(volume.prefetch(8 << 20, 1), Err(BlockError::OutOfRange { .. })));
    pool.delete_volume("v").unwrap();
    assert!(volume.is_deleted());
    assert!(matches!(volume.prefetch(0, 1), Err(BlockError::ShuttingDown)));
    // However much fits into the cache, a hint does not wait long.
    let budgets = Budgets { cache_bytes: 64 << 20, ..options().budgets };
    let folder = SimFolder::new();
    Pool::create(&folder, &small(), IDENTITY).unwrap();
    let pool = Pool::open(&folder, &OpenOptions { read_only: false, budgets }).unwrap();
    let volume = pool.create_volume("v", ByteSize(8 << 20)).unwrap();
    volume.prefetch(0, 8 << 20).unwrap();
    assert_eq!(pool.activity().read, 1024);
}

#[test]
fn zeroes_take_whole_blocks_from_the_map_and_write_only_the_ends() {
    let (_folder, pool) = new_pool(&small());
    let volume = pool.create_volume("v", ByteSize(9 * 4096 + 100)).unwrap();
    let data = content(7, 9 * 4096 + 100);
    // From, upto, blocks completed, and whether no block lies wholly inside.
    for (from, upto, completed, within) in [
        (0, 4096, 0, false),
        (4096, 12_288, 0, false),
        (1, 4096, 1, true),
        (4095, 8192, 1, false),
        (4096, 8193, 1, false),
        (4000, 4200, 2, true),
        (100, 200, 1, true),
        (4000, 8191, 2, true),
        (1000, 30_000, 2, false),
        (36_864, 36_964, 0, false),
        (36_864, 36_963, 1, true),
        (0, 36_964, 0, false),
    ] {
        volume.write_at(0, &data, false).unwrap();
        let before = pool.activity();
        let (offset, len) = (from as u64, (upto - from) as u64);
        let options = ZeroOptions { fast_only: true, ..ZeroOptions::default() };
        let fast = volume.write_zeroes(offset, len, options);
        assert_eq!(matches!(fast, Err(BlockError::NotFast)), within, "{from}..{upto}");
        volume.write_zeroes(offset, len, ZeroOptions::default()).unwrap();
        let after = pool.activity();
        let twice = if within { 1 } else { 2 };
        let context = format!("{from}..{upto}");
        assert_eq!(after.completed - before.completed, twice * completed, "{context}");
        assert_eq!(after.written - before.written, twice * completed, "{context}");
        let mut expected = data.clone();
        expected[from..upto].fill(0);
        let mut found = vec![0; data.len()];
        volume.read_at(0, &mut found).unwrap();
        assert!(found == expected, "{context}");
    }
    volume.write_zeroes(50, 0, ZeroOptions { fast_only: true, ..ZeroOptions::default() }).unwrap();
}

#[test]
fn sizes_are_possible_up_to_the_largest_and_the_first_that_is_not_is_told() {
    let (_folder, pool) = new_pool(&small());
    pool.create_volume("largest", ByteSize(onefold_pool::VOLUME_BYTES_MAX_AT_4K)).unwrap();
    let size = ByteSize(onefold_pool::VOLUME_BYTES_MAX_AT_4K + 1);
    let error = pool.create_volume("larger", size).err().unwrap().to_string();
    assert!(error.contains("at most 128 PiB is possible"), "{error}");
    let error = pool.create_volume("nothing", ByteSize(0)).err().unwrap().to_string();
    assert!(error.contains("at least one byte"), "{error}");
    for number in 0..50 {
        let error = pool.volume("none").err().unwrap().to_string();
        let more = error.contains("more");
        assert!(!more, "{number}: {error}");
        pool.create_volume(&format!("v{number}"), ByteSize(1)).unwrap();
    }
    let error = pool.volume("none").err().unwrap().to_string();
    assert!(error.ends_with("v48, and 1 more"), "{error}");
}

#[test]
fn a_volume_half_deleted_goes_when_the_pool_is_opened_again() {
    let (folder, pool) = new_pool(&small());
    for name in ["v", "w"] {
        let volume = pool.create_volume(name, ByteSize(1 << 20)).unwrap();
        for block in 0..20 {
            let data = content(block + name.len() as u64 * 50, 4096);
            volume.write_at(block * 4096, &data, true).unwrap();
        }
    }
    pool.checkpoint().unwrap();
    // The first checkpoint says that it is to go, and the next one finds no space.
    folder.fail_once(&[OpKind::Write], 4, FaultKind::Enospc);
    let error = pool.delete_volume("v").unwrap_err().to_string();
    folder.clear_faults();
    assert!(error.contains("'v' is deleted"), "{error}");
    drop(pool);
    let pool = Pool::open(&folder.after_crash(1, CrashMode::KeepEverything), &options()).unwrap();
    let status = pool.status().unwrap();
    assert_eq!((status.logical_bytes, pool.deleting_bytes().bytes()), (20 * 4096, 0));
    assert!(pool.volume("v").is_err() && pool.volume("w").is_ok());
    drop(pool.create_volume("v", ByteSize(4096)).unwrap());
}

#[test]
fn a_write_below_a_damaged_page_of_the_map_is_refused_and_others_go_on() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("v", ByteSize(4 << 20)).unwrap();
    for block in [0, 600] {
        volume.write_at(block * 4096, &content(block, 4096), false).unwrap();
    }
    drop(volume);
    pool.close().unwrap();
    // The page of the leaf that block 600 is in: whichever it is, one of the two is refused.
    let pages = folder.open("map").unwrap().len().unwrap() / 4096;
    let mut refused = Vec::new();
    for page in 1..pages {
        let damaged = folder.after_crash(1, CrashMode::KeepEverything);
        damaged.flip_bit("map", page * 4096 + 9, 1).unwrap();
        let Ok(pool) = Pool::open(&damaged, &options()) else { continue };
        let volume = pool.volume("v").unwrap();
        for block in [1, 601] {
            let (at, data) = (block * 4096, content(block, 4096));
            if let Err(error) = volume.write_at(at, &data, true) {
                assert!(matches!(error, BlockError::Corrupt(_)), "{error}");
                refused.push(block);
                continue;
            }
            let mut found = vec![0; 4096];
            volume.read_at(at, &mut found).unwrap();
            assert!(found == data, "page {page}, block {block}");
        }
        assert_eq!(pool.status().unwrap().failure, None, "page {page}");
    }
    refused.sort_unstable();
    refused.dedup();
    assert_eq!(refused, [1, 601]);
}
