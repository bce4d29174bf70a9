//! Requests on their way into a recording, beside the serving and never in its way.
//! Room: onefold-export.   In: requests that ended.   Out: frames of a recording
//! (docs/workloads.md), for whoever takes them.
//! Invariants: (1) nobody waits for whoever takes the frames: a recording whose frames are not
//! taken ends, once and with one message, at a whole frame  (2) contents cannot be told from
//! identities: they are hashed under a key.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use onefold_block::BlockDevice;
use onefold_block::wrappers::{Clock, ContentHash, RecordDevice, TraceRecord, TraceSink, Verb};
use onefold_workload::{Op, Recorded, RecordingEncoder};
use twox_hash::XxHash3_128;

/// Frames that wait for whoever takes them: 4 MiB. Who is further behind ends the recording.
const FRAMES_MAX: usize = 64;

/// A recording in the making.
pub struct Recording {
    encoder: Mutex<RecordingEncoder>,
    to_taker: SyncSender<Message>,
    /// Why it has ended by itself, if it has.
    ended: OnceLock<String>,
    requests: AtomicU64,
    /// What is recorded, or where.
    what: String,
}

/// What whoever takes frames is sent.
#[derive(Debug)]
pub enum Message {
    /// The next frame.
    Frame(Vec<u8>),
    /// There will be no more.
    Stop,
}

/// How contents are told apart, in pieces of `unit` bytes and under this key.
pub fn identities(unit: u32, key: u64) -> ContentHash {
    let hash = |key, piece: &[u8]| XxHash3_128::oneshot_with_seed(key, piece);
    ContentHash { block_bytes: unit, reads: false, key, hash }
}

impl Recording {
    /// A recording, and where its frames come out.
    pub fn new(encoder: RecordingEncoder, what: String) -> (Arc<Self>, Receiver<Message>) {
        let (to_taker, frames) = sync_channel(FRAMES_MAX);
        let (encoder, ended) = (Mutex::new(encoder), OnceLock::new());
        let recording = Self { encoder, to_taker, ended, requests: AtomicU64::new(0), what };
        (Arc::new(recording), frames)
    }

    /// A device that is recorded as a stream of this number, and that says of what it writes
    /// whether it is to be deduplicated, if that is told.
    pub fn device(
        self: Arc<Self>,
        (number, deduplicate): (u32, Option<bool>),
        device: Arc<dyn BlockDevice>,
        clock: Arc<dyn Clock>,
        hash: ContentHash,
    ) -> Arc<dyn BlockDevice> {
        let sink = Arc::new(Stream { number, deduplicate, recording: self });
        Arc::new(RecordDevice::new(device, sink, clock, Some(hash)))
    }

    /// Name a stream that comes to it.
    pub fn name(&self, stream: u32, name: &str) {
        self.encoder().name(stream, name);
    }

    /// The host said that it is idle.
    pub fn hint(&self, time_ns: u64) {
        let content = &[][..];
        let (stream, offset, length, deduplicate) = (0, 0, 0, None);
        self.push(&Recorded {
            time_ns,
            op: Op::Idle,
            stream,
            offset,
            length,
            content,
            deduplicate,
        });
    }

    /// Requests recorded so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Why it has ended by itself, if it has.
    pub fn ended(&self) -> Option<&str> {
        self.ended.get().map(String::as_str)
    }

    fn encoder(&self) -> MutexGuard<'_, RecordingEncoder> {
        self.encoder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request, unless the recording has ended.
    fn push(&self, request: &Recorded<'_>) {
        if self.ended.get().is_some() {
            return;
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        let mut encoder = self.encoder();
        encoder.push(request);
        if !encoder.is_full() {
            return;
        }
        // Under the lock, so that frames come in the order of their requests.
        let frame = encoder.take().unwrap_or_default();
        if self.to_taker.try_send(Message::Frame(frame)).is_err() {
            self.end("its disk does not keep up");
        }
    }

    /// End it, once, and say why.
    pub fn end(&self, why: &str) {
        if self.ended.set(why.to_owned()).is_ok() {
            let what = &self.what;
            tracing::error!("the recording {what} ends here: {why}; serving goes on");
        }
    }

    /// Whoever takes frames is to stop, once it has taken those before. This waits for room.
    pub fn stop(&self) {
        // If nobody takes it, whoever did has ended, and has said why.
        let _ = self.to_taker.send(Message::Stop);
    }

    /// The frame that was begun, if there is anything in it.
    pub fn take_begun(&self) -> Option<Vec<u8>> {
        self.encoder().take()
    }

    /// The frame that was begun, behind those that were handed over since; and whether to stop.
    pub fn begun(&self, frames: &Receiver<Message>) -> (Vec<Vec<u8>>, bool) {
        let mut encoder = self.encoder();
        let (mut all, mut last) = (Vec::new(), false);
        for message in frames.try_iter() {
            match message {
                Message::Frame(frame) => all.push(frame),
                Message::Stop => last = true,
            }
        }
        all.extend(encoder.take());
        (all, last)
    }
}

/// One of the devices.
struct Stream {
    number: u32,
    deduplicate: Option<bool>,
    recording: Arc<Recording>,
}

impl TraceSink for Stream {
    fn record(&self, record: TraceRecord) {
        let op = match record.verb {
            Verb::Read => Op::Read,
            Verb::Write => Op::Write,
            // What reads as zeroes afterwards holds nothing that is stored.
            Verb::WriteZeroes | Verb::Trim => Op::Trim,
            Verb::Flush => Op::Flush,
            Verb::BlockStatus | Verb::Prefetch => return,
        };
        if !record.succeeded {
            return;
        }
        let TraceRecord { time_ns, offset, len: length, ref content, .. } = record;
        let (stream, said) = (self.number, self.deduplicate);
        let deduplicate = said.filter(|_| op == Op::Write);
        let recorded = Recorded { time_ns, op, stream, offset, length, content, deduplicate };
        self.recording.push(&recorded);
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::wrappers::ManualClock;
    use onefold_block::{MemDevice, ZeroOptions};

    use super::*;
    use crate::tests::logged;

    #[test]
    fn a_disk_that_does_not_keep_up_ends_the_recording_without_anybody_waiting() {
        let encoder = RecordingEncoder::new(512).unwrap();
        let (recording, frames) = Recording::new(encoder, "of a test".to_owned());
        let (plain, clock) = (Arc::new(MemDevice::new(1 << 20)), Arc::new(ManualClock::default()));
        let device = Arc::clone(&recording).device((0, None), plain, clock, identities(512, 1));
        let data = vec![9; 64 << 10];
        // Nobody takes the frames: were anybody to wait for that, this would never end.
        let mut writes = 0;
        while recording.ended().is_none() {
            device.write_at(0, &data, false).unwrap();
            writes += 1;
            assert!(writes < 10_000, "it never ends");
        }
        let frames = frames.try_iter().map(|message| match message {
            Message::Frame(frame) => frame.len(),
            Message::Stop => 0,
        });
        let lengths: Vec<usize> = frames.collect();
        assert_eq!(lengths.len(), FRAMES_MAX);
        assert!(lengths.iter().all(|bytes| *bytes >= 60 << 10), "only full ones: {lengths:?}");
        // Whoever goes on asking is answered, and nothing more is kept.
        let before = (recording.requests(), recording.take_begun());
        device.write_zeroes(0, 4096, ZeroOptions::default()).unwrap();
        device.flush().unwrap();
        assert_eq!((recording.requests(), recording.take_begun()), (before.0, None));
    }

    #[test]
    fn what_is_asked_comes_out_in_its_order_and_what_changes_nothing_does_not() {
        let mut encoder = RecordingEncoder::new(512).unwrap();
        encoder.name(0, "one");
        let header = encoder.header();
        let (recording, frames) = Recording::new(encoder, "of a test".to_owned());
        recording.name(1, "two");
        let clock = Arc::new(ManualClock::default());
        let device = |stream, deduplicate| {
            let plain = Arc::new(MemDevice::new(1 << 20));
            let clock = Arc::clone(&clock) as Arc<dyn Clock>;
            let to = Arc::clone(&recording);
            to.device((stream, deduplicate), plain, clock, identities(512, 1))
        };
        let (one, two) = (device(0, None), device(1, Some(false)));
        one.write_at(512, &[7; 512], false).unwrap();
        two.write_at(1024, &[7; 512], true).unwrap();
        one.read_at(0, &mut [0; 512]).unwrap();
        one.block_status(0, 4096).unwrap();
        two.prefetch(0, 4096).unwrap();
        assert!(one.write_at(1 << 20, &[7; 512], false).is_err());
        two.trim(4096, 8192, false).unwrap();
        one.write_zeroes(8192, 4096, ZeroOptions::default()).unwrap();
        one.flush().unwrap();
        recording.hint(9);
        assert_eq!(recording.requests(), 7);
        recording.stop();
        let (all, last) = recording.begun(&frames);
        assert!(last && recording.ended().is_none());
        let bytes = [header, all.concat()].concat();
        let read = onefold_workload::RecordingReader::new(&*bytes).map(Result::unwrap);
        let read: Vec<_> = read.collect();
        let told = read.iter().map(|r| (r.op, r.stream, r.offset, r.length, r.deduplicate));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                (Op::Write, Some(0), 512, 512, None),
                (Op::Write, Some(1), 1024, 512, Some(false)),
                (Op::Read, Some(0), 0, 512, None),
                (Op::Trim, Some(1), 4096, 8192, None),
                (Op::Trim, Some(0), 8192, 4096, None),
                (Op::Flush, Some(0), 0, 0, None),
                (Op::Idle, Some(0), 0, 0, None),
            ]
        );
        let known: Vec<bool> = read.iter().map(|request| request.identity.is_some()).collect();
        assert_eq!(known, [true, true, false, false, false, false, false]);
        assert_eq!(read[0].identity, read[1].identity, "one content");
        // Once it has ended nothing comes any more, and the first reason stays.
        let said =
            logged(|| ["enough", "again"].map(|why| recording.end(why)).into_iter().collect());
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("the recording of a test ends here: enough; serving"), "{said}");
        one.flush().unwrap();
        assert_eq!((recording.requests(), recording.ended()), (7, Some("enough")));
    }
}
