//! A receiver that is asked which blocks it has, and either side or what is between them ends: the
//! volume is what it was or what was sent, and it can be done again.

use std::io::{self, PipeReader, PipeWriter, Write};

use onefold_block::{BlockDevice as _, ByteSize, CrashMode, SimFolder};
use onefold_pool::Pool;
use onefold_pool::stream::{Answering, Asker, Frame, Receiver, StreamError, StreamReader};

use crate::streams::{Refused, bytes_of, other_pool, receive_from};
use crate::support::{assert_sound, content, new_pool, options};

const CHUNK: u64 = 4096;
const BLOCKS: u64 = 1200;

/// What ends early, after so many bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Cut {
    sent: Option<usize>,
    answered: Option<usize>,
}

/// A pipe's end that breaks.
struct Breaks {
    to: PipeWriter,
    left: usize,
}

impl Write for Breaks {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let len = buf.len().min(self.left);
        self.left -= len;
        match len {
            0 if !buf.is_empty() => Err(io::ErrorKind::BrokenPipe.into()),
            len => self.to.write(&buf[..len]),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Send `main@b` since `main@a`, or `main@a` whole, from this byte on; how much was left out.
fn send(
    pool: &Pool,
    base: Option<&str>,
    mut from: u64,
    (to, answers): (Breaks, PipeReader),
) -> Result<u64, StreamError> {
    let name = if base.is_some() { "main@b" } else { "main@a" };
    let mut head = Vec::new();
    let header = pool.stream_header(name, base, &mut head).unwrap();
    let mut asker = Asker::begin(answers, to, &head, header)?;
    loop {
        let mut bytes = Vec::new();
        let next = pool.stream_frame(name, base, from, &mut bytes).unwrap();
        asker.send(&Frame::decode(&bytes).unwrap(), &bytes)?;
        let Some(next) = next else { return Ok(asker.left_out_bytes()) };
        from = next;
    }
}

/// Both sides at once, and what came of each.
fn exchange(
    (from, to): (&Pool, &Pool),
    (base, begin): (Option<&str>, u64),
    cut: Cut,
) -> (Result<u64, StreamError>, Result<(), Refused>) {
    let ((data_in, data_out), (answers_in, answers_out)) =
        (io::pipe().unwrap(), io::pipe().unwrap());
    let breaks = |to, left: Option<usize>| Breaks { to, left: left.unwrap_or(usize::MAX) };
    std::thread::scope(|scope| {
        let sending =
            scope.spawn(|| send(from, base, begin, (breaks(data_out, cut.sent), answers_in)));
        let asked = to.clone();
        let find = move |wanted: &[_], found: &mut dyn FnMut(usize, &[u8])| {
            asked.stored_blocks(wanted, found);
            Ok(())
        };
        let answers = breaks(answers_out, cut.answered);
        let answering = Answering::new(data_in, answers, to.naming(), Box::new(find));
        let received = receive_from(to, answering);
        (sending.join().unwrap(), received)
    })
}

/// A pool with `main@a` and `main@b`, and what these are.
fn sender() -> (Pool, Vec<u8>, Vec<u8>) {
    let (_, pool) = new_pool(&crate::support::small());
    let volume = pool.create_volume("main", ByteSize(BLOCKS * CHUNK)).unwrap();
    let write = |block: u64, seed| {
        volume.write_at(block * CHUNK, &content(seed, CHUNK as usize), false).unwrap();
    };
    (0..BLOCKS).for_each(|block| write(block, block % 60));
    pool.snapshot("main@a", 0, false).unwrap();
    (0..BLOCKS).step_by(2).for_each(|block| write(block, 1000 + block));
    volume.trim(10 * CHUNK, 20 * CHUNK, false).unwrap();
    pool.snapshot("main@b", 0, false).unwrap();
    drop(volume);
    let (a, b) = (bytes_of(&pool, "main@a"), bytes_of(&pool, "main@b"));
    (pool, a, b)
}

/// A pool that has some of the blocks in another volume, and `main@a`.
fn receiver(from: &Pool) -> (SimFolder, Pool) {
    let (folder, pool) = other_pool();
    let volume = pool.create_volume("other", ByteSize(200 * CHUNK)).unwrap();
    for block in 0..100 {
        let seed = if block < 60 { block } else { 940 + block };
        volume.write_at(block * CHUNK, &content(seed, CHUNK as usize), false).unwrap();
    }
    drop(volume);
    let (sent, received) = exchange((from, &pool), (None, 0), Cut::default());
    received.unwrap();
    assert_eq!(sent.unwrap(), BLOCKS * CHUNK, "it has all of these");
    (folder, pool)
}

/// All of it, or nothing.
fn assert_one_of(pool: &Pool, (old, new): (&[u8], &[u8]), done: bool, context: &str) -> bool {
    let there = pool.volume("main@b").is_ok();
    assert!(there || !done, "{context}: it was reported as done");
    assert!(bytes_of(pool, "main@a") == old, "{context}: main@a");
    assert!(bytes_of(pool, "main") == if there { new } else { old }, "{context}: main");
    if there {
        assert!(bytes_of(pool, "main@b") == new, "{context}: main@b");
    }
    there
}

#[test]
fn a_receiver_that_loses_power_anywhere_has_all_or_nothing_and_goes_on() {
    let (from, old, new) = sender();
    let modes = [CrashMode::Random, CrashMode::KeepNothing, CrashMode::KeepEverything];
    for cut in (0..600).step_by(5) {
        let (folder, pool) = receiver(&from);
        folder.crash_at(folder.op_count() + cut);
        let (_, received) = exchange((&from, &pool), (Some("main@a"), 0), Cut::default());
        let (done, crashed) = (received.is_ok(), folder.has_crashed());
        drop(pool);
        let folder = folder.after_crash(cut, modes[cut as usize / 5 % 3]);
        let context = format!("power cut at {cut}");
        assert_sound(&folder, &context);
        let pool = Pool::open(&folder, &options()).unwrap();
        let state = (&old[..], &new[..]);
        if !assert_one_of(&pool, state, done, &context) {
            let (_, again) = exchange((&from, &pool), (Some("main@a"), 0), Cut::default());
            again.unwrap_or_else(|error| panic!("{context}: again: {error:?}"));
            assert!(assert_one_of(&pool, state, true, &context));
        }
        assert!(pool.volume("main.incomplete").is_err(), "{context}");
        pool.give_up_deleted(u64::MAX).unwrap();
        pool.close().unwrap();
        assert_sound(&folder, &format!("{context}: afterwards"));
        if done && !crashed {
            assert!(cut > 20, "{cut} operations");
            return;
        }
    }
    panic!("it takes more operations than that");
}

#[test]
fn a_pipe_that_breaks_anywhere_either_way_leaves_what_a_resumed_sender_goes_on_with() {
    let (from, old, new) = sender();
    let state = (&old[..], &new[..]);
    let cuts = |answered: bool, step: usize| {
        (0..20).map(move |n| n * step).map(move |n| {
            if answered {
                Cut { answered: Some(n), ..Cut::default() }
            } else {
                Cut { sent: Some(n), ..Cut::default() }
            }
        })
    };
    let (mut went_on, mut whole) = (0, 0);
    for cut in cuts(false, 104_003).chain(cuts(true, 15)) {
        let (folder, pool) = receiver(&from);
        let context = format!("{cut:?}");
        let (sent, received) = exchange((&from, &pool), (Some("main@a"), 0), cut);
        let there = assert_one_of(&pool, state, received.is_ok(), &context);
        if sent.is_ok() && received.is_ok() {
            whole += 1;
            continue;
        }
        assert!(!there, "{context}");
        // As a sender is told to: from where it stood on.
        let mut head = Vec::new();
        from.stream_header("main@b", Some("main@a"), &mut head).unwrap();
        let header = StreamReader::open(&head[..]).unwrap().header().clone();
        let stood = match pool.volume("main.incomplete") {
            Ok(volume) => Receiver::new(header, &volume).marked().unwrap().unwrap(),
            Err(_) => 0,
        };
        went_on += u64::from(stood > 0);
        let (sent, again) = exchange((&from, &pool), (Some("main@a"), stood), Cut::default());
        again.unwrap_or_else(|error| panic!("{context}, from {stood}: {error:?}"));
        sent.unwrap();
        assert!(assert_one_of(&pool, state, true, &context), "{context}");
        pool.give_up_deleted(u64::MAX).unwrap();
        pool.close().unwrap();
        assert_sound(&folder, &context);
    }
    assert!(went_on > 0 && whole > 0, "{went_on} went on, {whole} were whole");
}
