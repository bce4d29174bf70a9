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
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use onefold_block::BlockDevice;
use onefold_block::wrappers::{Clock, ContentHash, SystemClock};
use onefold_export::Recording;
use onefold_export::recording::{Message, identities};
use onefold_workload::RecordingEncoder;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::args::RecordArgs;
use crate::failure::{Failure, Result};
use crate::output::Printer;

/// A frame that is not full is written after so long.
const HOLD: Duration = Duration::from_secs(1);

/// A recording in the making.
pub struct Recorder {
    recording: Arc<Recording>,
    clock: Arc<dyn Clock>,
    hash: ContentHash,
    path: PathBuf,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Names of devices, in the order of their numbers.
    names: Mutex<Vec<String>>,
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
        let (recording, frames) = Recording::new(encoder, format!("in '{}'", self.path.display()));
        let of_writer = Arc::clone(&recording);
        let writer = std::thread::Builder::new()
            .name("recording".to_owned())
            .spawn(move || write(&of_writer, file, &frames))
            .map_err(|e| Failure::nothing_done(format!("cannot start a thread: {e}")))?;
        let hash = identities(self.unit, self.key);
        let (clock, path) = (Arc::new(SystemClock::new()), self.path.clone());
        let (names, writer) = (Mutex::new(names), Mutex::new(Some(writer)));
        Ok(Recorder { recording, clock, hash, path, writer, names })
    }
}

impl Recorder {
    /// Ends the writer, which is waited for; whether it ended well.
    fn end(&self) -> bool {
        self.recording.stop();
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
                self.recording.name(stream as u32, name);
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
        let (recording, clock) = (Arc::clone(&self.recording), Arc::clone(&self.clock));
        recording.device((stream, deduplicate), device, clock, self.hash)
    }

    /// What records the host's hints that it is idle, as of the first device. Pools take none.
    #[cfg(feature = "models")]
    pub fn hints(&self) -> HintRecorder {
        HintRecorder { recording: Arc::clone(&self.recording), clock: Arc::clone(&self.clock) }
    }

    /// Writes the rest, and says how much there is.
    pub fn finish(&self, printer: &Printer) {
        let whole = self.end() && self.recording.ended().is_none();
        if whole {
            let requests = self.recording.requests();
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

/// Writes frames until it is told to stop or cannot.
fn write(recording: &Recording, mut file: File, frames: &Receiver<Message>) {
    let mut length = file.metadata().map(|metadata| metadata.len()).unwrap_or_default();
    loop {
        let (frames, last) = match frames.recv_timeout(HOLD) {
            Ok(Message::Frame(frame)) => (vec![frame], false),
            // Whoever is recording holds a sender, so that there is no other end.
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => {
                (recording.take_begun().into_iter().collect(), true)
            }
            Err(RecvTimeoutError::Timeout) => recording.begun(frames),
        };
        for frame in frames {
            if let Err(error) = file.write_all(&frame) {
                // What fits no more is cut off again; a reader would leave it out as well.
                let _ = file.set_len(length);
                return recording.end(&error.to_string());
            }
            length += frame.len() as u64;
        }
        if last {
            if let Err(error) = file.sync_all() {
                recording.end(&error.to_string());
            }
            return;
        }
    }
}

/// Records that the host said that it is idle.
#[cfg(feature = "models")]
pub struct HintRecorder {
    recording: Arc<Recording>,
    clock: Arc<dyn Clock>,
}

#[cfg(feature = "models")]
impl HintRecorder {
    /// It says so now.
    pub fn hint(&self) {
        self.recording.hint(self.clock.now_ns());
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::wrappers::ManualClock;
    use onefold_block::{ByteSize, MemDevice};

    use super::*;

    #[test]
    fn a_recording_that_never_begins_leaves_no_file_and_one_that_ends_is_told_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording");
        let args = |unit| RecordArgs { record: Some(path.clone()), record_unit: ByteSize(unit) };
        let prepared = || Prepared::new(&args(4096)).unwrap().unwrap();
        assert!(Prepared::new(&args(8192)).err().unwrap().message.contains("expected 512"));
        let first = prepared();
        let again = Prepared::new(&args(4096)).err().unwrap();
        assert!(again.message.contains("exists already"), "{}", again.message);
        drop(first);
        assert!(!path.exists());
        prepared().begin(["a"]).unwrap().abandon();
        assert!(!path.exists());
        let recorder = prepared().begin(["a"]).unwrap();
        let device = |name| recorder.named_device(name, Arc::new(MemDevice::new(1 << 20)));
        for name in ["b", "a", "c", "b"] {
            device(name).write_at(0, &[1; 4096], false).unwrap();
        }
        let printer = Printer::kept(false);
        recorder.finish(&printer);
        assert_eq!(printer.told(), format!("recorded 4 requests in '{}'\n", path.display()));
        let file = std::fs::read(&path).unwrap();
        let mut read = onefold_workload::RecordingReader::new(&*file);
        let streams: Vec<_> =
            read.by_ref().map(|request| request.unwrap().stream.unwrap()).collect();
        assert_eq!(streams, [1, 0, 2, 1], "a name is one device");
        assert_eq!(read.stream_names(), ["a", "b", "c"]);
    }

    #[test]
    fn a_full_disk_ends_the_recording_and_nothing_else() {
        let encoder = RecordingEncoder::new(512).unwrap();
        let (recording, frames) = Recording::new(encoder, "of a test".to_owned());
        let (plain, clock) = (Arc::new(MemDevice::new(1 << 20)), Arc::new(ManualClock::default()));
        let device = Arc::clone(&recording).device((0, None), plain, clock, identities(512, 1));
        device.write_at(0, &[7; 4096], false).unwrap();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        recording.stop();
        write(&recording, full, &frames);
        assert!(recording.ended().is_some());
        // Whoever goes on asking is answered, and nothing more is kept.
        let before = recording.requests();
        device.write_at(4096, &[8; 4096], true).unwrap();
        device.flush().unwrap();
        assert_eq!((recording.requests(), recording.take_begun()), (before, None));
    }
}
