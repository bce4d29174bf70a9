//! `--record`: what clients ask is written down beside the serving, and never in its way.
//! Room: onefold.   In: requests that ended.   Out: a recording (docs/workloads.md).
//! Frames are handed to a thread of its own that writes them; clients never wait for the file.
//! Invariants: (1) a recording that cannot go on ends with one message, at a whole frame  (2) what
//! was asked a second ago is in the file, unless the disk is slow  (3) contents cannot be told
//! from identities: they are hashed under a key that is drawn anew and kept nowhere.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use onefold_block::BlockDevice;
use onefold_block::wrappers::{
    Clock, ContentHash, RecordDevice, SystemClock, TraceRecord, TraceSink, Verb,
};
use onefold_workload::{Op, Recorded, RecordingEncoder};
use rustix::rand::{GetRandomFlags, getrandom};
use twox_hash::XxHash3_128;

use crate::args::RecordArgs;
use crate::failure::{Failure, Result};
use crate::output::Printer;

/// Frames that wait for the disk: 4 MiB. A disk that is further behind ends the recording.
const FRAMES_MAX: usize = 64;
/// A frame that is not full is written after so long.
const HOLD: Duration = Duration::from_secs(1);

/// A recording in the making.
pub struct Recorder {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    hash: ContentHash,
    path: PathBuf,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Names of devices, in the order of their numbers.
    names: Mutex<Vec<String>>,
}

/// Requests on their way into a recording.
pub(super) struct Shared {
    encoder: Mutex<RecordingEncoder>,
    to_writer: SyncSender<Message>,
    /// Why the recording has ended before the server, if it has.
    ended: OnceLock<String>,
    requests: AtomicU64,
    /// What is recorded, or where.
    what: String,
}

/// What whoever takes frames is sent.
pub(super) enum Message {
    Frame(Vec<u8>),
    Stop,
}

/// A file for a recording that has not begun. Unless it begins, the file goes away.
pub struct Prepared {
    file: Option<File>,
    path: PathBuf,
    encoder: RecordingEncoder,
    unit: u32,
    key: u64,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if self.file.is_some() {
            // It was made here and has nothing in it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Prepared {
    /// The file of a recording, if one is asked for: before anything else is made.
    pub fn new(args: &RecordArgs) -> Result<Option<Self>> {
        let Some(path) = &args.record else { return Ok(None) };
        let unit = u32::try_from(args.record_unit.0).ok();
        let Some((unit, encoder)) =
            unit.and_then(|unit| Some((unit, RecordingEncoder::new(unit)?)))
        else {
            let message = format!("--record-unit {}: expected 512, 1K, 2K or 4K", args.record_unit);
            return Err(Failure::nothing_done(message));
        };
        let key = key()?;
        let file = Some(begin(path, &encoder.header())?);
        Ok(Some(Self { file, path: path.clone(), encoder, unit, key }))
    }

    /// Begins to record devices with these names.
    pub fn begin<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Result<Recorder> {
        let unused = RecordingEncoder::new(self.unit).expect("a unit that was accepted");
        let mut encoder = std::mem::replace(&mut self.encoder, unused);
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        for (stream, name) in (0..).zip(&names) {
            encoder.name(stream, name);
        }
        let file = self.file.take().expect("it begins once");
        let (shared, frames) = Shared::new(encoder, format!("in '{}'", self.path.display()));
        let of_writer = Arc::clone(&shared);
        let writer = std::thread::Builder::new()
            .name("recording".to_owned())
            .spawn(move || of_writer.write(file, &frames))
            .map_err(|e| Failure::nothing_done(format!("cannot start a thread: {e}")))?;
        let hash = identities(self.unit, self.key);
        let (clock, path) = (Arc::new(SystemClock::new()), self.path.clone());
        let (names, writer) = (Mutex::new(names), Mutex::new(Some(writer)));
        Ok(Recorder { shared, clock, hash, path, writer, names })
    }
}

impl Recorder {
    /// Ends the writer, which is waited for; whether it ended well.
    fn end(&self) -> bool {
        // If nobody takes it, the writer has ended, and has said why.
        let _ = self.shared.to_writer.send(Message::Stop);
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        writer.is_none_or(|writer| writer.join().is_ok())
    }

    /// Nothing was served: the file goes away.
    pub fn abandon(&self) {
        self.end();
        let _ = std::fs::remove_file(&self.path);
    }

    /// A device that is recorded under this name, which may be new.
    pub fn named_device(&self, name: &str, device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        let stream = {
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                let stream = names.len() - 1;
                self.shared.encoder().name(stream as u32, name);
                stream
            })
        };
        self.device(stream as u32, device)
    }

    /// A device that is recorded; `stream` is the number of its name.
    pub fn device(&self, stream: u32, device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        self.device_asked(stream, device, None)
    }

    /// The same for a device that says of what it writes whether it is to be deduplicated.
    pub fn device_asked(
        &self,
        stream: u32,
        device: Arc<dyn BlockDevice>,
        deduplicate: Option<bool>,
    ) -> Arc<dyn BlockDevice> {
        let (shared, clock) = (Arc::clone(&self.shared), Arc::clone(&self.clock));
        shared.device((stream, deduplicate), device, clock, self.hash)
    }

    /// What records the host's hints that it is idle, as of the first device. Pools take none.
    #[cfg(feature = "models")]
    pub fn hints(&self) -> HintRecorder {
        HintRecorder { shared: Arc::clone(&self.shared), clock: Arc::clone(&self.clock) }
    }

    /// Writes the rest, and says how much there is.
    pub fn finish(&self, printer: &Printer) {
        let whole = self.end() && self.shared.ended.get().is_none();
        if whole {
            let requests = self.shared.requests.load(Ordering::Relaxed);
            printer.note(&format!("recorded {requests} requests in '{}'", self.path.display()));
        }
    }
}

/// A new file, for its owner only.
fn begin(path: &Path, header: &[u8]) -> Result<File> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            let message = format!("--record: '{}' exists already", path.display());
            Failure::nothing_done(message).hint("name a new file: recordings are never overwritten")
        }
        _ => Failure::unusable("record in", path, error),
    };
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(header).map_err(failed)?;
    Ok(file)
}

/// How contents are told apart, under a key of [`key`].
pub(super) fn identities(unit: u32, key: u64) -> ContentHash {
    let hash = |key, piece: &[u8]| XxHash3_128::oneshot_with_seed(key, piece);
    ContentHash { block_bytes: unit, reads: false, key, hash }
}

/// A new key.
pub(super) fn key() -> Result<u64> {
    let mut bytes = [0; 8];
    let got = getrandom(&mut bytes, GetRandomFlags::empty());
    match got {
        Ok(8) => Ok(u64::from_le_bytes(bytes)),
        Ok(_) => Err(Failure::nothing_done("the system gave too few random bytes")),
        Err(error) => {
            Err(Failure::nothing_done(format!("the system gives no random bytes: {error}")))
        }
    }
}

impl Shared {
    /// A recording, and where its frames come out.
    pub(super) fn new(encoder: RecordingEncoder, what: String) -> (Arc<Self>, Receiver<Message>) {
        let (to_writer, frames) = sync_channel(FRAMES_MAX);
        let (encoder, ended) = (Mutex::new(encoder), OnceLock::new());
        let shared = Self { encoder, to_writer, ended, requests: AtomicU64::new(0), what };
        (Arc::new(shared), frames)
    }

    /// A device that is recorded as a stream of this number.
    pub(super) fn device(
        self: Arc<Self>,
        (number, deduplicate): (u32, Option<bool>),
        device: Arc<dyn BlockDevice>,
        clock: Arc<dyn Clock>,
        hash: ContentHash,
    ) -> Arc<dyn BlockDevice> {
        let sink = Arc::new(Stream { number, deduplicate, shared: self });
        Arc::new(RecordDevice::new(device, sink, clock, Some(hash)))
    }

    /// Requests recorded so far.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Why it has ended by itself, if it has.
    pub(super) fn ended(&self) -> Option<&str> {
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
        if self.to_writer.try_send(Message::Frame(frame)).is_err() {
            self.end("its disk does not keep up");
        }
    }

    /// Ends the recording, once.
    pub(super) fn end(&self, why: &str) {
        if self.ended.set(why.to_owned()).is_ok() {
            let what = &self.what;
            tracing::error!("the recording {what} ends here: {why}; serving goes on");
        }
    }

    /// The frame that was begun, behind those that were handed over since; and whether to stop.
    pub(super) fn begun(&self, frames: &Receiver<Message>) -> (Vec<Vec<u8>>, bool) {
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

    /// Writes frames until it is told to stop or cannot.
    fn write(&self, mut file: File, frames: &Receiver<Message>) {
        let mut length = file.metadata().map_or(0, |metadata| metadata.len());
        loop {
            let (frames, last) = match frames.recv_timeout(HOLD) {
                Ok(Message::Frame(frame)) => (vec![frame], false),
                // Whoever is recording holds a sender, so that there is no other end.
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    (self.encoder().take().into_iter().collect(), true)
                }
                Err(RecvTimeoutError::Timeout) => self.begun(frames),
            };
            for frame in frames {
                if let Err(error) = file.write_all(&frame) {
                    // What fits no more is cut off again; a reader would leave it out as well.
                    let _ = file.set_len(length);
                    return self.end(&error.to_string());
                }
                length += frame.len() as u64;
            }
            if last {
                if let Err(error) = file.sync_all() {
                    self.end(&error.to_string());
                }
                return;
            }
        }
    }
}

/// Records that the host said that it is idle.
#[cfg(feature = "models")]
pub struct HintRecorder {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
}

#[cfg(feature = "models")]
impl HintRecorder {
    /// It says so now.
    pub fn hint(&self) {
        let (time_ns, content) = (self.clock.now_ns(), &[][..]);
        self.shared.push(&Recorded {
            time_ns,
            op: Op::Idle,
            stream: 0,
            offset: 0,
            length: 0,
            content,
            deduplicate: None,
        });
    }
}

/// One of the devices.
struct Stream {
    number: u32,
    deduplicate: Option<bool>,
    shared: Arc<Shared>,
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
        let shared = &self.shared;
        if !record.succeeded {
            return;
        }
        let TraceRecord { time_ns, offset, len: length, ref content, .. } = record;
        let (stream, said) = (self.number, self.deduplicate);
        let deduplicate = said.filter(|_| op == Op::Write);
        shared.push(&Recorded { time_ns, op, stream, offset, length, content, deduplicate });
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::wrappers::ManualClock;
    use onefold_block::{MemDevice, ZeroOptions};

    use super::*;

    /// A recording without a writer, and where its frames come out.
    fn shared() -> (Arc<Shared>, Receiver<Message>) {
        Shared::new(RecordingEncoder::new(512).unwrap(), "of a test".to_owned())
    }

    fn recorded(shared: &Arc<Shared>) -> RecordDevice<MemDevice> {
        let shared = Arc::clone(shared);
        let sink = Arc::new(Stream { number: 0, deduplicate: None, shared });
        let hash = |key, piece: &[u8]| XxHash3_128::oneshot_with_seed(key, piece);
        let hash = ContentHash { block_bytes: 512, reads: false, key: 1, hash };
        let clock = Arc::new(ManualClock::default());
        RecordDevice::new(MemDevice::new(1 << 20), sink, clock, Some(hash))
    }

    #[test]
    fn a_full_disk_ends_the_recording_and_nothing_else() {
        let (shared, frames) = shared();
        let device = recorded(&shared);
        device.write_at(0, &[7; 4096], false).unwrap();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        shared.to_writer.send(Message::Stop).unwrap();
        shared.write(full, &frames);
        assert!(shared.ended.get().is_some());
        // Whoever goes on asking is answered, and nothing more is kept.
        let before = shared.requests.load(Ordering::Relaxed);
        device.write_at(4096, &[8; 4096], true).unwrap();
        device.flush().unwrap();
        assert_eq!(shared.requests.load(Ordering::Relaxed), before);
        assert!(shared.encoder().take().is_none());
    }

    #[test]
    fn a_disk_that_does_not_keep_up_ends_the_recording_without_anybody_waiting() {
        let (shared, frames) = shared();
        let device = recorded(&shared);
        let data = vec![9; 64 << 10];
        // Nobody takes the frames: were anybody to wait for that, this would never end.
        let mut writes = 0;
        while shared.ended.get().is_none() {
            device.write_at(0, &data, false).unwrap();
            writes += 1;
            assert!(writes < 10_000, "it never ends");
        }
        assert_eq!(frames.try_iter().count(), FRAMES_MAX);
        device.write_zeroes(0, 4096, ZeroOptions::default()).unwrap();
    }
}
