//! The volumes of a pool as exports, as they are now: volumes come, go and change their names.
//! Room: onefold.
//! Invariant: a volume is one device for all clients, so that its clients can be counted.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use onefold_block::wrappers::{Clock, DeviceCounters};
use onefold_block::{BlockDevice, BlockError, ByteSize, Extent};
use onefold_export::{Right, Share, SharedDevice, Tap, counted};
use onefold_metrics::ExportSample;
use onefold_nbd::{Changes, Client, Compared, ExportEntry, Exports};
use onefold_pool::{Pool, SNAPSHOT_MARK, SnapshotInfo, Volume};

use super::live_record::{LiveRecording, RECORDINGS_MAX};
use super::record::Recorder;
use crate::failure::{Failure, Result};
use crate::{clock, sharing};

/// Exports that are counted each under its name; what comes after them is counted together.
const METERS_MAX: usize = if cfg!(test) { 4 } else { 1000 };
/// The name of those.
const OTHERS: &str = "(others)";

/// The volumes of a pool.
pub struct PoolExports {
    pool: Pool,
    /// Tells this server from the next one of the pool.
    server: String,
    recorder: Option<Arc<Recorder>>,
    rows: Mutex<Rows>,
    clock: Arc<dyn Clock>,
    meters: Mutex<Vec<Meter>>,
    others: Arc<DeviceCounters>,
}

/// What was asked of a volume since the server started, by whoever.
struct Meter {
    volume: Volume,
    counters: Arc<DeviceCounters>,
}

/// Where a volume differs from a snapshot, for a client.
struct ChangedSince {
    volume: Volume,
    since: Volume,
    /// By which the client sees both, or no more. The snapshot itself is not held: it may go.
    shares: [Arc<Share>; 2],
    client: Client,
}

impl Changes for ChangedSince {
    fn changes(&self, offset: u64, len: u64) -> std::result::Result<Vec<Extent>, BlockError> {
        if self.shares.iter().any(|share| share.right_of(&self.client) == Right::Nothing) {
            return Err(BlockError::ShuttingDown);
        }
        Ok(self.volume.changes_since(&self.since, offset, len)?)
    }
}

/// Devices that clients have, and what records them.
#[derive(Default)]
struct Rows {
    devices: Vec<Row>,
    recordings: Vec<Arc<LiveRecording>>,
    recordings_begun: u64,
    /// How volumes are shared that somebody has, or whose snapshots somebody has.
    shares: Vec<(Volume, Arc<Share>)>,
}

struct Row {
    volume: Volume,
    device: Arc<Tap>,
}

impl Rows {
    /// Let the devices of a recording's volume go through it, or through nothing again.
    fn tap(&self, recording: &LiveRecording, begins: bool) {
        for row in self.devices.iter().filter(|row| recording.is_of(&row.volume)) {
            let recorded = begins.then(|| recording.device(row.device.plain()));
            row.device.go_through(recorded);
        }
    }
}

impl PoolExports {
    /// Of this pool, recorded if there is a recorder.
    pub fn new(pool: Pool, recorder: Option<Arc<Recorder>>) -> Self {
        let server = format!("{:016x}", RandomState::new().hash_one("server"));
        Self {
            pool,
            server,
            recorder,
            rows: Mutex::default(),
            clock: clock::system(),
            meters: Mutex::default(),
            others: Arc::default(),
        }
    }

    /// What no other server of the pool is called, before or after.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// How many clients have a volume.
    pub fn clients_of(&self, volume: &Volume) -> usize {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let row = rows.devices.iter().find(|row| row.volume.is(volume));
        row.map_or(0, |row| Arc::strong_count(&row.device) - 1)
    }

    /// Begin to record a volume, for whoever fetches what is recorded.
    pub fn begin_recording(&self, volume: &Volume, unit: u32) -> Result<Arc<LiveRecording>> {
        self.end_abandoned_recordings(Instant::now());
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let Rows { recordings, recordings_begun, .. } = &mut *rows;
        if recordings.iter().any(|recording| recording.is_of(volume)) {
            let name = volume.name();
            return Err(Failure::nothing_done(format!(
                "volume '{name}' is being recorded already"
            )));
        }
        if recordings.len() >= RECORDINGS_MAX {
            let message = format!("{RECORDINGS_MAX} volumes are being recorded, which is all");
            return Err(Failure::nothing_done(message));
        }
        *recordings_begun += 1;
        let recording = Arc::new(LiveRecording::new(*recordings_begun, volume, unit)?);
        recordings.push(Arc::clone(&recording));
        rows.tap(&recording, true);
        Ok(recording)
    }

    /// The recording of that number.
    pub fn recording(&self, number: u64) -> Option<Arc<LiveRecording>> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.recordings.iter().find(|recording| recording.number() == number).cloned()
    }

    /// End a recording; what was not fetched is still in it.
    pub fn end_recording(&self, recording: &LiveRecording) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.tap(recording, false);
        rows.recordings.retain(|other| other.number() != recording.number());
    }

    /// End recordings that nobody asks after.
    pub fn end_abandoned_recordings(&self, now: Instant) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let is_abandoned = |recording: &mut Arc<LiveRecording>| recording.is_abandoned(now);
        let gone: Vec<_> = rows.recordings.extract_if(.., is_abandoned).collect();
        for recording in gone {
            rows.tap(&recording, false);
        }
    }

    /// What was asked of each volume that was ever opened and is still there.
    pub fn meters(&self) -> Vec<ExportSample> {
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        forget_deleted(&mut meters);
        let sample = |meter: &Meter| ExportSample {
            name: meter.volume.name(),
            counters: Arc::clone(&meter.counters),
        };
        let mut samples: Vec<ExportSample> = meters.iter().map(sample).collect();
        if Arc::strong_count(&self.others) > 1 || meters.len() >= METERS_MAX {
            let counters = Arc::clone(&self.others);
            samples.push(ExportSample { name: OTHERS.to_owned(), counters });
        }
        samples
    }

    /// What a volume's requests are counted with.
    fn counters(&self, volume: &Volume) -> Arc<DeviceCounters> {
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(meter) = meters.iter().find(|meter| meter.volume.is(volume)) {
            return Arc::clone(&meter.counters);
        }
        if meters.len() >= METERS_MAX {
            forget_deleted(&mut meters);
        }
        if meters.len() >= METERS_MAX {
            return Arc::clone(&self.others);
        }
        let counters = Arc::<DeviceCounters>::default();
        meters.push(Meter { volume: volume.clone(), counters: Arc::clone(&counters) });
        counters
    }

    /// The volume or snapshot of that name, if the client sees it.
    fn named(&self, name: &str, client: &Client) -> Option<Volume> {
        if name.is_empty() {
            return self.pool.volumes().into_iter().find(|volume| sees(client, volume));
        }
        self.pool.volume(name).ok().filter(|volume| sees(client, volume))
    }

    /// The device of a volume or snapshot, for a client that sees it.
    fn opened(&self, volume: &Volume, client: &Client) -> Option<Arc<dyn BlockDevice>> {
        let (device, share) = (self.device(volume), self.share(volume));
        Some(Arc::new(SharedDevice::new(device, share, client)?))
    }

    /// The volume that a snapshot is of, which is what is shared; a volume is its own.
    fn owner(&self, volume: &Volume) -> Volume {
        let name = volume.name();
        let of = name.split_once(SNAPSHOT_MARK).and_then(|(of, _)| self.pool.volume(of).ok());
        of.unwrap_or_else(|| volume.clone())
    }

    /// How a volume is shared now, for all who have it.
    fn share(&self, volume: &Volume) -> Arc<Share> {
        let owner = self.owner(volume);
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, share)) = rows.shares.iter().find(|(of, _)| of.is(&owner)) {
            return Arc::clone(share);
        }
        rows.shares.retain(|(_, share)| Arc::strong_count(share) > 1);
        let share = Arc::new(Share::new(sharing::of(&owner), Arc::clone(&self.clock)));
        rows.shares.push((owner, Arc::clone(&share)));
        share
    }

    /// A volume is shared otherwise from now on: its clients learn of it.
    pub fn share_again(&self, volume: &Volume) {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let row = rows.shares.iter().find(|(of, _)| of.is(volume));
        if let Some((of, share)) = row {
            share.set(sharing::of(of));
        }
    }

    /// No client is held back any more: the server is about to stop.
    pub fn lift_limits(&self) {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        rows.shares.iter().for_each(|(_, share)| share.lift_limits());
    }

    fn device(&self, volume: &Volume) -> Arc<dyn BlockDevice> {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = rows.devices.iter().find(|row| row.volume.is(volume)) {
            return Arc::clone(&row.device) as _;
        }
        // Devices that nobody has are made again when somebody comes.
        rows.devices.retain(|row| Arc::strong_count(&row.device) > 1);
        let (counters, clock) = (self.counters(volume), Arc::clone(&self.clock));
        let device = counted(volume.clone(), counters, clock);
        let device = match &self.recorder {
            Some(recorder) => recorder.named_device(&volume.name(), device),
            None => device,
        };
        let device = Arc::new(Tap::new(device));
        if let Some(recording) = rows.recordings.iter().find(|r| r.is_of(volume)) {
            device.go_through(Some(recording.device(device.plain())));
        }
        rows.devices.push(Row { volume: volume.clone(), device: Arc::clone(&device) });
        device
    }
}

fn forget_deleted(meters: &mut Vec<Meter>) {
    meters.retain(|meter| !meter.volume.is_deleted());
}

/// Whether a volume or snapshot is there for a client.
fn sees(client: &Client, volume: &Volume) -> bool {
    // Without a look into the note: it may be many volumes.
    *client == Client::Local || sharing::of(volume).right_of(client) != Right::Nothing
}

impl Exports for PoolExports {
    fn list(&self, client: &Client) -> Vec<ExportEntry> {
        let entry = |volume: &Volume| ExportEntry {
            name: volume.name(),
            description: format!("{} thin volume", ByteSize(volume.size_bytes())),
        };
        let snapshot = |snapshot: SnapshotInfo| ExportEntry {
            name: snapshot.name,
            description: format!("{} snapshot", ByteSize(snapshot.size_bytes)),
        };
        // A pool that cannot say its snapshots has its volumes all the same.
        let mut snapshots = self.pool.snapshots(None).unwrap_or_default();
        let mut volumes = self.pool.volumes();
        if *client != Client::Local {
            volumes.retain(|volume| sees(client, volume));
            let names: HashSet<String> = volumes.iter().map(Volume::name).collect();
            let of = |name: &str| name.split_once(SNAPSHOT_MARK).map(|(of, _)| names.contains(of));
            snapshots.retain(|snapshot| of(&snapshot.name).unwrap_or(false));
        }
        volumes.iter().map(entry).chain(snapshots.into_iter().map(snapshot)).collect()
    }

    fn open(&self, name: &str, client: &Client) -> Option<Arc<dyn BlockDevice>> {
        self.opened(&self.named(name, client)?, client)
    }

    fn changes_listed(&self, name: &str, client: &Client) -> Vec<String> {
        let Some(volume) = self.named(name, client) else { return Vec::new() };
        let name = volume.name();
        let of = name.split_once(SNAPSHOT_MARK).map_or(name.as_str(), |(of, _)| of);
        let snapshots = self.pool.snapshots(Some(of)).unwrap_or_default();
        snapshots.into_iter().map(|snapshot| snapshot.name).collect()
    }

    fn compared(&self, name: &str, since: &str, client: &Client) -> Option<Compared> {
        let since = self.named(since, client).filter(|_| since.contains(SNAPSHOT_MARK))?;
        let volume = self.named(name, client)?;
        let shares = [self.share(&volume), self.share(&since)];
        let device = self.opened(&volume, client)?;
        let changes = ChangedSince { volume, since, shares, client: client.clone() };
        Some((device, Arc::new(changes)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::test_pool;

    #[test]
    fn volumes_come_go_and_change_their_names_and_their_clients_are_counted() {
        let pool = test_pool::pool();
        let exports = PoolExports::new(pool.clone(), None);
        assert!(
            exports.list(&Client::Local).is_empty() && exports.open("", &Client::Local).is_none()
        );
        let first = pool.create_volume("a", ByteSize(1 << 20)).unwrap();
        let (one, two) =
            (exports.open("a", &Client::Local).unwrap(), exports.open("", &Client::Local).unwrap());
        assert_eq!(exports.clients_of(&first), 2);
        pool.rename_volume("a", "b").unwrap();
        let second = pool.create_volume("a", ByteSize(2 << 20)).unwrap();
        assert_eq!(exports.open("a", &Client::Local).unwrap().size_bytes(), 2 << 20);
        assert_eq!((exports.clients_of(&first), exports.clients_of(&second)), (2, 0));
        drop(one);
        assert_eq!(exports.clients_of(&first), 1);
        pool.resize_volume("b", ByteSize(3 << 20), false).unwrap();
        assert_eq!(two.size_bytes(), 3 << 20, "a client's device has the new size");
        pool.delete_volume("b").unwrap();
        assert!(exports.open("b", &Client::Local).is_none() && two.flush().is_ok());
        assert!(two.read_at(0, &mut [0; 512]).is_err());
        let names: Vec<String> =
            exports.list(&Client::Local).into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["a"]);
    }

    #[test]
    fn a_recording_that_nobody_asks_after_makes_room_for_the_next() {
        let pool = test_pool::pool();
        let volume = pool.create_volume("a", ByteSize(1 << 20)).unwrap();
        let exports = PoolExports::new(pool, None);
        let device = exports.open("a", &Client::Local).unwrap();
        let first = exports.begin_recording(&volume, 512).unwrap();
        device.write_at(0, &[1; 512], false).unwrap();
        exports.end_abandoned_recordings(Instant::now());
        assert!(exports.recording(1).is_some() && exports.begin_recording(&volume, 512).is_err());
        exports.end_abandoned_recordings(Instant::now() + Duration::from_mins(1));
        assert!(exports.recording(1).is_none());
        assert!(first.fetch().ended.unwrap().contains("nobody"));
        assert_eq!(first.holders(), 1, "the device goes past it again");
        let next = exports.begin_recording(&volume, 512).unwrap();
        device.write_at(0, &[2; 512], false).unwrap();
        let requests = |recording: &LiveRecording| recording.fetch().requests;
        assert_eq!((requests(&first), next.number(), requests(&next)), (1, 2, 1));
        exports.end_recording(&next);
        device.write_at(0, &[3; 512], false).unwrap();
        assert!(exports.recording(2).is_none() && requests(&next) == 1);
        exports.begin_recording(&volume, 512).unwrap();
    }

    #[test]
    fn requests_are_counted_by_volume_as_far_as_there_is_room_and_then_together() {
        let pool = test_pool::pool();
        let exports = PoolExports::new(pool.clone(), None);
        let use_of = |name: &str| {
            pool.create_volume(name, ByteSize(4096)).unwrap();
            exports.open(name, &Client::Local).unwrap().flush().unwrap();
        };
        (1..METERS_MAX).for_each(|number| use_of(&number.to_string()));
        let counted = || {
            let meters = exports.meters();
            (meters.len(), meters.last().unwrap().name.clone())
        };
        assert_eq!(counted(), (METERS_MAX - 1, (METERS_MAX - 1).to_string()));
        // From the last one that is counted alone on, there is a row for the others.
        use_of("last");
        assert_eq!(counted(), (METERS_MAX + 1, OTHERS.to_owned()));
        use_of("other");
        assert_eq!(counted(), (METERS_MAX + 1, OTHERS.to_owned()));
        pool.delete_volume("1").unwrap();
        use_of("next");
        let names: Vec<String> = exports.meters().into_iter().map(|meter| meter.name).collect();
        assert!(names.contains(&"next".to_owned()) && !names.contains(&"1".to_owned()));
        // Who was counted with the others is so as long as it is there, also where there is room.
        pool.create_volume("held", ByteSize(4096)).unwrap();
        let held = exports.open("held", &Client::Local).unwrap();
        for name in ["2", "3"] {
            pool.delete_volume(name).unwrap();
        }
        assert_eq!(counted(), (3, OTHERS.to_owned()));
        drop(held);
        // What nobody has is let go of when somebody else comes.
        use_of("new");
        let rows = exports.rows.lock().unwrap();
        assert_eq!((rows.devices.len(), rows.shares.len()), (1, 1));
        drop(rows);
        assert_eq!(counted(), (3, "new".to_owned()));
    }

    #[test]
    fn over_the_network_a_client_sees_its_volumes_their_snapshots_and_nothing_else() {
        let pool = test_pool::pool();
        let exports = PoolExports::new(pool.clone(), None);
        for name in ["a", "b", "c"] {
            pool.create_volume(name, ByteSize(1 << 20)).unwrap();
            pool.snapshot(&format!("{name}@s"), 1, false).unwrap();
        }
        let share = |name: &str, client: &str, read_only| {
            let mut sharing = sharing::of(&pool.volume(name).unwrap());
            sharing.allow(client.parse().unwrap(), read_only);
            pool.set_note(name, &sharing.to_note()).unwrap();
            exports.share_again(&pool.volume(name).unwrap());
        };
        share("a", "CN=one", true);
        share("b", "CN=two", false);
        // What cannot be read is for nobody.
        pool.set_note("c", b"{\"from\": \"the future\"}").unwrap();
        let seen = |client: &Client| {
            let list = exports.list(client).into_iter().map(|entry| entry.name);
            list.collect::<Vec<_>>().join(" ")
        };
        let [one, two] = ["one", "two"].map(|name| Client::Certified { name: name.to_owned() });
        assert_eq!(seen(&one), "a a@s");
        assert_eq!(seen(&two), "b b@s");
        assert_eq!(seen(&Client::Unknown), "");
        assert_eq!(seen(&Client::Local), "a b c a@s b@s c@s");
        let (first, other) = (exports.open("", &two).unwrap(), exports.open("b", &two).unwrap());
        assert!(!first.is_read_only() && other.write_at(0, &[1], false).is_ok());
        assert!(exports.open("a", &one).unwrap().is_read_only());
        for name in ["b", "b@s", "c", "c@s", "nosuch"] {
            assert!(exports.open(name, &one).is_none(), "{name}");
            assert!(exports.changes_listed(name, &one).is_empty());
            assert!(exports.compared("a", name, &one).is_none(), "since {name}");
        }
        assert_eq!(exports.changes_listed("a", &one), ["a@s"]);
        assert!(exports.compared("a", "a@s", &one).is_some());
        // A clone is no way around it, and a new name none either.
        pool.clone_snapshot("b@s", "copy", 1).unwrap();
        pool.rename_volume("b", "plain").unwrap();
        assert_eq!(seen(&one), "a a@s");
        assert_eq!(seen(&two), "plain copy plain@s");
        // Who has a snapshot has it by the rights of its volume.
        let snapshot = exports.open("plain@s", &two).unwrap();
        snapshot.read_at(0, &mut [0]).unwrap();
        let mut sharing = sharing::of(&pool.volume("plain").unwrap());
        sharing.deny(&"CN=two".parse().unwrap());
        pool.set_note("plain", &sharing.to_note()).unwrap();
        exports.share_again(&pool.volume("plain").unwrap());
        assert!(snapshot.read_at(0, &mut [0]).is_err() && first.read_at(0, &mut [0]).is_err());
    }
}
