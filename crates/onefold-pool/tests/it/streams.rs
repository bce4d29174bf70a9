//! Snapshots as streams between pools: what arrives is what was sent, or nothing, by name.

use std::io::Read;

use onefold_block::{BlockDevice, ByteSize, CrashMode, SimFolder, SplitMix64};
use onefold_pool::stream::{ReceiveError, Receiver, StreamError, StreamReader, receiving_bytes};
use onefold_pool::{Pool, PoolError, SnapshotOptions};

use crate::support::{IDENTITY, assert_sound, content, new_pool, options, small};

const CHUNK: u64 = 4096;

/// The stream of a snapshot.
pub fn stream(pool: &Pool, name: &str, base: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    pool.stream_header(name, base, &mut out).unwrap();
    let mut next = Some(0);
    while let Some(from) = next {
        next = pool.stream_frame(name, base, from, &mut out).unwrap();
    }
    out
}

/// Why nothing was received.
#[derive(Debug)]
pub enum Refused {
    Stream(StreamError),
    Receive(#[expect(dead_code, reason = "shown where a test fails")] ReceiveError),
    Pool(PoolError),
    NoBase,
}

impl From<StreamError> for Refused {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

impl From<ReceiveError> for Refused {
    fn from(error: ReceiveError) -> Self {
        Self::Receive(error)
    }
}

impl From<PoolError> for Refused {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

fn receive(pool: &Pool, bytes: &[u8]) -> Result<(), Refused> {
    receive_from(pool, bytes)
}

/// Receive a stream as `main@` and the snapshot's own name, as the command does.
pub fn receive_from(pool: &Pool, input: impl Read) -> Result<(), Refused> {
    let mut reader = StreamReader::open(input)?;
    let header = reader.header().clone();
    let own = header.name.split_once('@').unwrap().1;
    let to = "main.incomplete";
    let known = pool.snapshots(None)?;
    let base = known.iter().find(|s| s.identity == header.names.base).map(|s| s.name.clone());
    if header.names.base != 0 && base.is_none() {
        return Err(Refused::NoBase);
    }
    if pool.volume(to).is_err() {
        match &base {
            Some(base) => drop(pool.clone_snapshot(base, to, 0)?),
            None => drop(pool.create_volume(to, ByteSize(header.size_bytes))?),
        }
        let room = receiving_bytes(header.size_bytes, CHUNK as u32).unwrap();
        pool.resize_volume(to, ByteSize(room), true)?;
        let volume = pool.volume(to)?;
        Receiver::new(header.clone(), &volume).mark(0).map_err(ReceiveError::from)?;
    }
    let received = format!("{to}@{own}");
    if !known.iter().any(|s| s.name == received) {
        let volume = pool.volume(to)?;
        let mut receiver = Receiver::new(header.clone(), &volume);
        let marked = receiver.marked().map_err(ReceiveError::from)?;
        // Between the end of the data and the snapshot there is no mark: all is stored again.
        reader.skip_to(marked.unwrap_or(0));
        while let Some(frame) = reader.next_frame()? {
            receiver.store(&frame)?;
            if marked.is_some() {
                receiver.mark(frame.upto).map_err(ReceiveError::from)?;
            }
        }
        pool.resize_volume(to, ByteSize(header.size_bytes), true)?;
        let options =
            SnapshotOptions { identity: header.names.snapshot, ..SnapshotOptions::default() };
        pool.snapshot_as(&received, options)?;
    }
    match base {
        Some(base) => pool.adopt(&received, "main", &base)?,
        None => pool.rename_volume(to, "main")?,
    }
    Ok(())
}

/// All of a volume or snapshot.
pub fn bytes_of(pool: &Pool, name: &str) -> Vec<u8> {
    let volume = pool.volume(name).unwrap();
    let mut bytes = vec![0; volume.size_bytes() as usize];
    volume.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Change some blocks, in place and by the size.
fn change(pool: &Pool, random: &mut SplitMix64, size: &mut u64) {
    let volume = pool.volume("main").unwrap();
    for _ in 0..4 {
        let at = random.below(*size / CHUNK) * CHUNK;
        match random.below(4) {
            0 => volume.trim(at, CHUNK, false).unwrap(),
            _ => volume.write_at(at, &content(random.below(90), CHUNK as usize), false).unwrap(),
        }
    }
    if random.below(5) == 0 {
        *size = (600 + random.below(100)) * CHUNK + 512 * random.below(8);
        pool.resize_volume("main", ByteSize(*size), true).unwrap();
    }
}

/// A pool of another identity.
pub fn other_pool() -> (SimFolder, Pool) {
    let folder = SimFolder::new();
    let other = onefold_pool::PoolIdentity { uuid: [9; 16], key: [8; 32] };
    Pool::create(&folder, &small(), other).unwrap();
    let pool = Pool::open(&folder, &options()).unwrap();
    (folder, pool)
}

#[test]
fn a_chain_of_a_hundred_streams_arrives_exactly() {
    let (_here, from) = new_pool(&small());
    let (folder, to) = other_pool();
    let mut random = SplitMix64::new(7);
    let mut size = 700 * CHUNK;
    from.create_volume("main", ByteSize(size)).unwrap();
    let mut before: Option<String> = None;
    for number in 0..=100 {
        change(&from, &mut random, &mut size);
        let name = format!("main@s{number}");
        from.snapshot(&name, 0, false).unwrap();
        let bytes = stream(&from, &name, before.as_deref());
        if before.is_some() {
            assert!(bytes.len() < 90_000, "only what changed: {}", bytes.len());
        }
        receive(&to, &bytes).unwrap();
        assert!(bytes_of(&to, &name) == bytes_of(&from, &name), "{name}");
        assert!(bytes_of(&to, "main") == bytes_of(&from, &name), "{name}");
        let again = receive(&to, &bytes).unwrap_err();
        assert!(!matches!(again, Refused::Stream(_)), "a second time: {again:?}");
        let _ = to.delete_volume(&format!("main.incomplete@s{number}"));
        let _ = to.delete_volume("main.incomplete");
        if number % 10 == 0 {
            to.give_up_deleted(u64::MAX).unwrap();
        }
        before = Some(name);
    }
    for number in 0..=100 {
        let name = format!("main@s{number}");
        assert!(bytes_of(&to, &name) == bytes_of(&from, &name), "{name}, at the end");
    }
    to.give_up_deleted(u64::MAX).unwrap();
    to.close().unwrap();
    assert_sound(&folder, "the receiving pool");
}

/// Two pools that have `main@a`, and the stream of `main@b`.
fn two_pools() -> (Pool, Pool, Vec<u8>, Vec<u8>) {
    let (_, from) = new_pool(&small());
    let volume = from.create_volume("main", ByteSize(40 * CHUNK)).unwrap();
    for block in 0..20 {
        volume.write_at(block * CHUNK, &content(block, CHUNK as usize), false).unwrap();
    }
    from.snapshot("main@a", 0, false).unwrap();
    volume.write_at(3 * CHUNK, &[7; CHUNK as usize], false).unwrap();
    volume.trim(10 * CHUNK, CHUNK, false).unwrap();
    from.snapshot("main@b", 0, false).unwrap();
    let (_, to) = other_pool();
    let whole = stream(&from, "main@a", None);
    receive(&to, &whole).unwrap();
    let bytes = stream(&from, "main@b", Some("main@a"));
    (from, to, whole, bytes)
}

/// Every frame of a stream, in order, without storing any.
fn read_all(bytes: &[u8]) -> Result<u64, StreamError> {
    let mut reader = StreamReader::open(bytes)?;
    let mut frames = 0;
    while reader.next_frame()?.is_some() {
        frames += 1;
    }
    Ok(frames)
}

#[test]
fn every_flipped_byte_and_every_cut_is_refused_and_changes_nothing() {
    let (_from, to, _, bytes) = two_pools();
    assert!(bytes.len() < 1000, "{}", bytes.len());
    assert_eq!(read_all(&bytes).unwrap(), 1);
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            let refused = read_all(&damaged).unwrap_err();
            assert!(!matches!(refused, StreamError::Io(_)), "byte {at}: {refused}");
        }
        let refused = read_all(&bytes[..at]).unwrap_err();
        let cut = matches!(refused, StreamError::Cut { .. } | StreamError::NoStream);
        assert!(cut, "cut at {at}: {refused}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(matches!(read_all(&longer), Err(StreamError::More { .. })));
    // The same through a pool: nothing but what is being received changes.
    let before = bytes_of(&to, "main");
    for at in (0..bytes.len()).step_by(23) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        receive(&to, &damaged).unwrap_err();
        receive(&to, &bytes[..at]).unwrap_err();
        assert!(bytes_of(&to, "main") == before && bytes_of(&to, "main@a") == before);
        assert_eq!(to.snapshots(None).unwrap().len(), 1);
    }
    receive(&to, &bytes).unwrap();
    assert!(bytes_of(&to, "main") != before && bytes_of(&to, "main@a") == before);
}

/// The frames of a stream, with what it begins with first.
fn frames(bytes: &[u8]) -> Vec<&[u8]> {
    let mut rest = &bytes[8..];
    let mut frames = vec![&bytes[..8]];
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize + 56;
        frames.push(&rest[..len]);
        rest = &rest[len..];
    }
    frames
}

#[test]
fn frames_left_out_moved_repeated_or_of_another_stream_are_refused() {
    let (_, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(2000 * CHUNK)).unwrap();
    for block in 0..900 {
        volume.write_at(block * CHUNK, &content(block, CHUNK as usize), false).unwrap();
    }
    pool.snapshot("main@a", 0, false).unwrap();
    pool.snapshot("main@b", 0, false).unwrap();
    let (a, b) = (stream(&pool, "main@a", None), stream(&pool, "main@b", None));
    let (frames, others) = (frames(&a), frames(&b));
    assert!(frames.len() >= 5, "{}", frames.len());
    assert_eq!(read_all(&frames.concat()).unwrap() as usize, frames.len() - 3);
    let refused = |frames: &[&[u8]]| read_all(&frames.concat()).unwrap_err();
    for at in 2..frames.len() {
        let mut some = frames.clone();
        some.remove(at);
        let error = refused(&some);
        let named = matches!(error, StreamError::Order { .. } | StreamError::Cut { .. });
        assert!(named, "{at} left out: {error}");
        let mut twice = frames.clone();
        twice.insert(at, frames[at]);
        let error = refused(&twice);
        let named = matches!(error, StreamError::Order { .. } | StreamError::More { .. });
        assert!(named, "{at} twice: {error}");
        let mut foreign = frames.clone();
        foreign[at] = others[at];
        assert!(matches!(refused(&foreign), StreamError::Foreign { .. }), "{at} foreign");
        if at + 1 < frames.len() {
            let mut moved = frames.clone();
            moved.swap(at, at + 1);
            assert!(matches!(refused(&moved), StreamError::Order { .. }), "{at} moved");
        }
    }
    let mut second = frames.clone();
    second.insert(3, frames[1]);
    assert!(matches!(refused(&second), StreamError::Damaged { .. }));
}

#[test]
fn a_base_is_known_by_what_it_is_and_not_by_its_name() {
    let (from, to, whole, bytes) = two_pools();
    // The same name with other contents, of this pool or of another, is no base.
    let (_, stranger) = other_pool();
    let volume = stranger.create_volume("main", ByteSize(40 * CHUNK)).unwrap();
    volume.write_at(0, &bytes_of(&from, "main@a"), false).unwrap();
    stranger.snapshot("main@a", 0, false).unwrap();
    assert!(matches!(receive(&stranger, &bytes), Err(Refused::NoBase)), "a copy that is unknown");
    // A volume that went on is not rolled back unasked, nor are its writes lost.
    let volume = to.volume("main").unwrap();
    volume.write_at(0, &[9; 512], false).unwrap();
    let refused = receive(&to, &bytes).unwrap_err();
    assert!(matches!(refused, Refused::Pool(PoolError::ChangedSince { .. })), "{refused:?}");
    assert_eq!(bytes_of(&to, "main")[0], 9);
    // Renamed and rolled back, it is the base that it was.
    to.rollback("main@a").unwrap();
    to.rename_volume("main", "old").unwrap();
    to.rename_volume("old", "main").unwrap();
    receive(&to, &bytes).unwrap();
    assert!(bytes_of(&to, "main") == bytes_of(&from, "main@b"));
    let identity = |pool: &Pool, name: &str| {
        pool.snapshots(None).unwrap().iter().find(|s| s.name == name).unwrap().identity
    };
    for name in ["main@a", "main@b"] {
        assert_eq!(identity(&from, name), identity(&to, name), "{name}");
    }
    assert_ne!(identity(&to, "main@a"), identity(&to, "main@b"));
    // What was received is a base for what comes back.
    to.volume("main").unwrap().write_at(CHUNK, &[3; 4096], false).unwrap();
    to.snapshot("main@c", 0, false).unwrap();
    from.rollback("main@b").unwrap();
    receive(&from, &stream(&to, "main@c", Some("main@b"))).unwrap();
    assert!(bytes_of(&from, "main") == bytes_of(&to, "main@c"));
    assert!(receive(&from, &whole).is_err(), "there is a volume 'main'");
    assert!(from.stream_header("main", None, &mut Vec::new()).is_err(), "a volume may change");
    assert!(from.stream_header("main@a", Some("main@a"), &mut Vec::new()).is_err());
}

#[test]
fn a_stream_goes_on_where_it_stood() {
    let (_, from) = new_pool(&small());
    let volume = from.create_volume("main", ByteSize(1200 * CHUNK)).unwrap();
    for block in 0..1200 {
        volume.write_at(block * CHUNK, &content(block, CHUNK as usize), false).unwrap();
    }
    from.snapshot("main@a", 0, false).unwrap();
    let bytes = stream(&from, "main@a", None);
    let (_, to) = other_pool();
    let cut = receive(&to, &bytes[..bytes.len() * 2 / 3]).unwrap_err();
    assert!(matches!(cut, Refused::Stream(StreamError::Cut { .. })), "{cut:?}");
    let header = StreamReader::open(&bytes[..]).unwrap().header().clone();
    let incomplete = to.volume("main.incomplete").unwrap();
    let stood = Receiver::new(header, &incomplete).marked().unwrap().unwrap();
    assert!(stood > 0 && stood < 1200 * CHUNK, "{stood}");
    let mut rest = Vec::new();
    from.stream_header("main@a", None, &mut rest).unwrap();
    let mut next = Some(stood + CHUNK);
    let mut gap = rest.clone();
    from.stream_frame("main@a", None, stood + CHUNK, &mut gap).unwrap();
    let refused = receive(&to, &gap).unwrap_err();
    assert!(matches!(refused, Refused::Stream(StreamError::Order { .. })), "{refused:?}");
    if let Some(from) = &mut next {
        *from = stood - CHUNK;
    }
    while let Some(at) = next {
        next = from.stream_frame("main@a", None, at, &mut rest).unwrap();
    }
    assert!(rest.len() < bytes.len() / 2 + 100_000);
    receive(&to, &rest).unwrap();
    assert!(bytes_of(&to, "main") == bytes_of(&from, "main@a"));
}

#[test]
fn power_cuts_leave_the_base_or_what_was_received() {
    let (from, _, whole, bytes) = two_pools();
    let (old, new) = (bytes_of(&from, "main@a"), bytes_of(&from, "main@b"));
    let modes = [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything];
    let mut finished = 0;
    for cut in 0..400 {
        let folder = SimFolder::new();
        Pool::create(&folder, &small(), IDENTITY).unwrap();
        let pool = Pool::open(&folder, &options()).unwrap();
        receive(&pool, &whole).unwrap();
        folder.crash_at(folder.op_count() + cut);
        let done = receive(&pool, &bytes).is_ok();
        if done && !folder.has_crashed() {
            finished += 1;
        }
        drop(pool);
        let folder = folder.after_crash(cut, modes[cut as usize % 3]);
        let context = format!("cut at {cut}");
        assert_sound(&folder, &context);
        let pool = Pool::open(&folder, &options()).unwrap();
        let there = pool.volume("main@b").is_ok();
        assert!(there || !done, "{context}: it was reported as done");
        assert!(bytes_of(&pool, "main@a") == old, "{context}");
        assert!(
            bytes_of(&pool, "main") == if there { new.clone() } else { old.clone() },
            "{context}"
        );
        assert!(!there || pool.volume("main.incomplete").is_err(), "{context}");
        if !there {
            receive(&pool, &bytes).unwrap_or_else(|error| panic!("{context}: again: {error:?}"));
        }
        assert!(bytes_of(&pool, "main") == new && bytes_of(&pool, "main@b") == new, "{context}");
        pool.give_up_deleted(u64::MAX).unwrap();
        pool.close().unwrap();
        assert_sound(&folder, &format!("{context}: afterwards"));
        if finished >= 2 {
            return;
        }
    }
    panic!("it takes more operations than that");
}

#[test]
fn who_asks_for_the_stream_of_what_is_no_snapshot_is_told_what_it_is() {
    let (_folder, pool) = new_pool(&small());
    drop(pool.create_volume("main", ByteSize(8 * CHUNK)).unwrap());
    pool.snapshot("main@a", 1, false).unwrap();
    let asked = |name: &str, base: Option<&str>| {
        let header = pool.stream_header(name, base, &mut Vec::new()).map(drop).unwrap_err();
        let frame = pool.stream_frame(name, base, 0, &mut Vec::new()).unwrap_err();
        assert_eq!(header.to_string(), frame.to_string());
        frame
    };
    for (name, base) in [("main", None), ("main@a", Some("main"))] {
        let error = asked(name, base);
        assert!(matches!(&error, PoolError::NoSnapshotNamed(name) if name == "main"), "{error}");
    }
    // What is not there at all is named beside what is.
    for (name, base) in [("other", None), ("main@a", Some("other"))] {
        let error = asked(name, base);
        let PoolError::NoVolume { name, known } = &error else { panic!("{error}") };
        assert_eq!((name.as_str(), known.as_str()), ("other", "main"));
    }
    let error = asked("main@a", Some("main@a"));
    assert!(error.to_string().contains("cannot be its own base"), "{error}");
    // Nor can another copy of it be, as where it was received twice.
    drop(pool.create_volume("two", ByteSize(8 * CHUNK)).unwrap());
    for name in ["main@b", "two@b"] {
        let copy = SnapshotOptions { identity: 5, ..SnapshotOptions::default() };
        pool.snapshot_as(name, copy).unwrap();
    }
    let error = asked("main@b", Some("two@b"));
    assert!(error.to_string().contains("'two@b' and 'main@b' are copies of one snap"), "{error}");
}
