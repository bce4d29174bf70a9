//! Recordings that begin and end while a pool is served (`onefold trace record`).
//! Room: onefold.   In: requests that ended.   Out: frames, for whoever asks for them in time.
//! The file belongs to whoever asks: the server writes none, so that a full disk is not its own.
//! Invariants: (1) clients wait for nothing, and what waits is bounded: a recording whose frames
//! are not fetched ends, and the next one may begin  (2) a volume has one recording at a time.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use onefold_block::BlockDevice;
use onefold_block::wrappers::{Clock, ContentHash, SystemClock};
use onefold_export::Recording;
use onefold_export::recording::{Message, identities};
use onefold_pool::Volume;
use onefold_workload::RecordingEncoder;

use super::record::key;
use crate::failure::{Failure, Result};

/// Recordings at a time.
pub const RECORDINGS_MAX: usize = 16;
/// A recording nobody asked after for so long is ended.
const ABANDONED: Duration = Duration::from_secs(30);

/// A recording of one volume.
pub struct LiveRecording {
    number: u64,
    volume: Volume,
    recording: Arc<Recording>,
    clock: Arc<dyn Clock>,
    hash: ContentHash,
    frames: Mutex<Receiver<Message>>,
    asked: Mutex<Instant>,
}

/// What came since the last look.
pub struct Fetched {
    /// Requests recorded since the beginning.
    pub requests: u64,
    /// Whole frames.
    pub frames: Vec<u8>,
    /// Why no more will come, if so.
    pub ended: Option<String>,
}

impl LiveRecording {
    /// A recording that has not begun, with identities of so many bytes.
    pub fn new(number: u64, volume: &Volume, unit: u32) -> Result<Self> {
        let refused = || Failure::nothing_done(format!("unit {unit}: expected 512 to 4096"));
        let mut encoder = RecordingEncoder::new(unit).ok_or_else(refused)?;
        let name = volume.name();
        encoder.name(0, &name);
        let (recording, frames) = Recording::new(encoder, format!("of volume '{name}'"));
        Ok(Self {
            number,
            volume: volume.clone(),
            recording,
            clock: Arc::new(SystemClock::new()),
            hash: identities(unit, key()?),
            frames: Mutex::new(frames),
            asked: Mutex::new(Instant::now()),
        })
    }

    /// How many hold on to it: itself, and the devices that go through it.
    #[cfg(test)]
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.recording)
    }

    /// What it is known by.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether it is of this volume.
    pub fn is_of(&self, volume: &Volume) -> bool {
        self.volume.is(volume)
    }

    /// The device, recorded.
    pub fn device(&self, plain: &Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        let (recording, clock) = (Arc::clone(&self.recording), Arc::clone(&self.clock));
        recording.device((0, None), Arc::clone(plain), clock, self.hash)
    }

    /// What came since the last look, begun frames included.
    pub fn fetch(&self) -> Fetched {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        // Looked at first: what was handed over before the end is among the frames.
        let deleted = || self.volume.is_deleted().then_some("the volume was deleted");
        let ended = self.recording.ended().or_else(deleted).map(str::to_owned);
        let requests = self.recording.requests();
        let frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let frames = self.recording.begun(&frames).0.concat();
        Fetched { requests, frames, ended }
    }

    /// Whether nobody asks any more; it then has ended.
    pub fn is_abandoned(&self, now: Instant) -> bool {
        let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let abandoned = now.saturating_duration_since(asked) > ABANDONED;
        if abandoned {
            self.recording.end("nobody has asked for it in 30 s");
        }
        abandoned
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::ByteSize;

    use super::*;
    use crate::test_pool;

    #[test]
    fn with_its_volume_it_ends_and_what_came_before_is_fetched() {
        let pool = test_pool::pool();
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        let recording = LiveRecording::new(1, &volume, 512).unwrap();
        let plain: Arc<dyn BlockDevice> = Arc::new(volume.clone());
        recording.device(&plain).write_at(0, &[1; 512], false).unwrap();
        pool.delete_volume("main").unwrap();
        let last = recording.fetch();
        assert!(last.requests == 1 && !last.frames.is_empty());
        assert_eq!(last.ended.as_deref(), Some("the volume was deleted"));
    }

    #[test]
    fn what_nobody_fetches_ends_the_recording_and_what_is_fetched_is_whole() {
        let pool = test_pool::pool();
        let volume = pool.create_volume("main", ByteSize(16 << 20)).unwrap();
        assert!(LiveRecording::new(1, &volume, 8192).is_err());
        let recording = LiveRecording::new(1, &volume, 512).unwrap();
        let plain: Arc<dyn BlockDevice> = Arc::new(volume.clone());
        let device = recording.device(&plain);
        device.write_at(0, &[1; 8192], false).unwrap();
        let first = recording.fetch();
        assert_eq!((first.requests, first.ended), (1, None));
        assert!(recording.fetch().frames.is_empty(), "once each");
        let (mut writes, data) = (0, vec![2; 1 << 20]);
        while recording.recording.ended().is_none() {
            device.write_at(0, &data, false).unwrap();
            writes += 1;
            assert!(writes < 10_000, "frames pile up without bound");
        }
        let rest = recording.fetch();
        assert!(rest.ended.unwrap().contains("keep up"));
        device.flush().unwrap();
        assert_eq!(recording.fetch().frames, b"", "nothing comes after the end");
        let header = RecordingEncoder::new(512).unwrap().header();
        let file = [header, first.frames, rest.frames].concat();
        let read = onefold_workload::RecordingReader::new(&*file);
        let written =
            read.map(|request| request.unwrap()).filter(|request| request.identity.is_some());
        let requests = written.inspect(|request| assert_eq!(request.stream, Some(0))).count();
        assert!(requests as u64 >= 16 + (writes - 2) * 2048, "{requests} of {writes}");
        let asked = *recording.asked.lock().unwrap();
        assert!(!recording.is_abandoned(asked + ABANDONED));
        assert!(recording.is_abandoned(asked + ABANDONED + Duration::from_nanos(1)));
    }
}
