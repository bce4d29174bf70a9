//! A volume as it is shared now, and the device that one client has of it.
//! Room: onefold-export.
//! Invariants: (1) a right that is taken away counts from the next request on, for clients that are
//! connected too; (2) limits hold requests back and change nothing else about them.
//! Cost: two loads a request, where nothing was ever changed or limited.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use onefold_block::wrappers::Clock;
use onefold_block::{BlockDevice, BlockError, Extent, WriteRequest, ZeroOptions};
use onefold_nbd::Client;

use crate::limiter::{Limiter, Rates};
use crate::sharing::{Limits, Right, Sharing};

/// A volume as it is shared now, for all who have it or a snapshot of it.
pub struct Share {
    sharing: RwLock<Sharing>,
    /// Counts changes.
    changes: AtomicU64,
    limiter: Limiter,
    clock: Arc<dyn Clock>,
}

/// Limits of all together.
const fn rates_of_all(limits: &Limits) -> Rates {
    Rates { iops: limits.iops, bytes: limits.bytes_per_second }
}

/// Limits of one connection.
const fn rates_of_one(limits: &Limits) -> Rates {
    Rates { iops: limits.connection_iops, bytes: limits.connection_bytes_per_second }
}

impl Share {
    /// As it is kept with the volume.
    pub fn new(sharing: Sharing, clock: Arc<dyn Clock>) -> Self {
        let limiter = Limiter::new(Arc::clone(&clock));
        limiter.set(rates_of_all(&sharing.limits));
        Self { sharing: RwLock::new(sharing), changes: AtomicU64::default(), limiter, clock }
    }

    /// From the next request on it is shared like this.
    pub fn set(&self, sharing: Sharing) {
        self.limiter.set(rates_of_all(&sharing.limits));
        *self.sharing.write().unwrap_or_else(PoisonError::into_inner) = sharing;
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Nobody is held back any more, as when the server stops.
    pub fn lift_limits(&self) {
        let now = self.sharing.read().unwrap_or_else(PoisonError::into_inner).clone();
        self.set(Sharing { limits: Limits::default(), ..now });
    }

    /// What a client may do now.
    pub fn right_of(&self, client: &Client) -> Right {
        self.sharing.read().unwrap_or_else(PoisonError::into_inner).right_of(client)
    }

    fn read(&self) -> Sharing {
        self.sharing.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A device as one client has it.
pub struct SharedDevice {
    device: Arc<dyn BlockDevice>,
    share: Arc<Share>,
    client: Client,
    /// Whether it could change nothing when it came: what it was told then stays so.
    read_only: bool,
    own: Limiter,
    /// What is known of its rights: the number of the change, and two bits of the right.
    known: AtomicU64,
}

/// Rights as bits.
const MAY_READ: u64 = 1;
const MAY_WRITE: u64 = 2;
const RIGHT_BITS: u32 = 2;

impl SharedDevice {
    /// For this client, if it may see the volume at all.
    pub fn new(device: Arc<dyn BlockDevice>, share: Arc<Share>, client: &Client) -> Option<Self> {
        let right = share.read().right_of(client);
        if right == Right::Nothing {
            return None;
        }
        let own = Limiter::new(Arc::clone(&share.clock));
        // It looks at the first request.
        let known = AtomicU64::new(u64::MAX);
        let read_only = right == Right::Read;
        let shared = Self { device, share, client: client.clone(), read_only, own, known };
        Some(shared)
    }

    /// What the client may do now, as bits.
    fn rights(&self) -> u64 {
        let changes = self.share.changes.load(Ordering::Acquire);
        let known = self.known.load(Ordering::Acquire);
        if known >> RIGHT_BITS == changes {
            return known;
        }
        let sharing = self.share.read();
        self.own.set(rates_of_one(&sharing.limits));
        let rights = match sharing.right_of(&self.client) {
            Right::Nothing => 0,
            Right::Read => MAY_READ,
            Right::Write => MAY_READ | MAY_WRITE,
        };
        // Should it have been changed meanwhile, the next request looks again.
        self.known.store(changes << RIGHT_BITS | rights, Ordering::Release);
        rights
    }

    fn may(&self, right: u64) -> Result<(), BlockError> {
        match self.rights() {
            rights if rights & MAY_READ == 0 => Err(BlockError::ShuttingDown),
            rights if rights & right == 0 || right == MAY_WRITE && self.read_only => {
                Err(BlockError::ReadOnly)
            }
            _ => Ok(()),
        }
    }

    /// Wait for what is limited.
    fn pass(&self, operations: u64, bytes: u64) {
        self.own.pass(operations, bytes);
        self.share.limiter.pass(operations, bytes);
    }

    fn change(&self, bytes: u64) -> Result<(), BlockError> {
        self.may(MAY_WRITE)?;
        self.pass(1, bytes);
        // It may have waited for long.
        self.may(MAY_WRITE)
    }
}

impl BlockDevice for SharedDevice {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn preferred_block_bytes(&self) -> u32 {
        self.device.preferred_block_bytes()
    }

    fn is_read_only(&self) -> bool {
        self.read_only || self.device.is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        self.may(MAY_READ)?;
        self.pass(1, buf.len() as u64);
        self.may(MAY_READ)?;
        self.device.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        self.change(data.len() as u64)?;
        self.device.write_at(offset, data, fua)
    }

    fn write_batch(
        &self,
        requests: &[WriteRequest<'_>],
        results: &mut Vec<Result<(), BlockError>>,
    ) {
        let bytes = requests.iter().map(|request| request.data.len() as u64).sum();
        let refused = self.may(MAY_WRITE).and_then(|()| {
            self.pass(requests.len() as u64, bytes);
            self.may(MAY_WRITE)
        });
        if refused.is_ok() {
            return self.device.write_batch(requests, results);
        }
        results.clear();
        results.extend(requests.iter().map(|_| self.may(MAY_WRITE).and(Err(BlockError::ReadOnly))));
    }

    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        self.change(0)?;
        self.device.write_zeroes(offset, len, options)
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.change(0)?;
        self.device.trim(offset, len, fua)
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.may(MAY_READ)?;
        self.device.flush()
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.may(MAY_READ)?;
        self.device.block_status(offset, len)
    }

    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        self.may(MAY_READ)?;
        self.device.prefetch(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{OnceLock, Weak};

    use onefold_block::MemDevice;
    use onefold_block::wrappers::{ManualClock, StatsDevice};

    use super::*;

    const WEB: &str = "CN=web1";

    fn scene(read_only: bool) -> (Arc<ManualClock>, Arc<Share>, Option<SharedDevice>) {
        let clock = Arc::new(ManualClock::default());
        let mut sharing = Sharing::default();
        sharing.allow(WEB.parse().unwrap(), read_only);
        let share = Arc::new(Share::new(sharing, Arc::clone(&clock) as Arc<dyn Clock>));
        let client = Client::Certified { name: "web1".to_owned() };
        let device = Arc::new(MemDevice::new(1 << 20));
        let device = SharedDevice::new(device, Arc::clone(&share), &client);
        (clock, share, device)
    }

    /// Ask for what changes something, in each way; what all of them say.
    fn write(device: &SharedDevice) -> Result<(), BlockError> {
        let mut results = vec![Ok(())];
        let request = WriteRequest { offset: 0, data: &[1], fua: false };
        device.write_batch(&[request; 3], &mut results);
        assert_eq!(results.len(), 3, "one for each request");
        results.push(device.trim(0, 512, false));
        results.push(device.write_zeroes(0, 512, ZeroOptions::default()));
        let one = device.write_at(0, &[1], false);
        for other in results {
            assert_eq!(format!("{other:?}"), format!("{one:?}"));
        }
        one
    }

    fn deny(share: &Share) {
        let mut sharing = share.read();
        sharing.deny(&WEB.parse().unwrap());
        share.set(sharing);
    }

    #[test]
    fn rights_that_are_taken_away_count_from_the_next_request_on() {
        let (_, share, device) = scene(false);
        let device = device.unwrap();
        write(&device).unwrap();
        let mut sharing = share.read();
        sharing.allow(WEB.parse().unwrap(), true);
        share.set(sharing.clone());
        assert!(matches!(write(&device), Err(BlockError::ReadOnly)));
        device.read_at(0, &mut [0]).unwrap();
        deny(&share);
        assert!(matches!(device.read_at(0, &mut [0]), Err(BlockError::ShuttingDown)));
        assert!(write(&device).is_err() && device.flush().is_err());
        assert!(device.block_status(0, 512).is_err() && device.prefetch(0, 512).is_err());
        sharing.allow(WEB.parse().unwrap(), false);
        share.set(sharing);
        write(&device).unwrap();
    }

    #[test]
    fn who_came_to_read_stays_a_reader_and_who_may_nothing_gets_nothing() {
        let (clock, share, device) = scene(true);
        let device = device.unwrap();
        assert!(device.is_read_only());
        let mut sharing = share.read();
        sharing.allow(WEB.parse().unwrap(), false);
        sharing.limits.iops = Some(1);
        share.set(sharing);
        assert!(matches!(write(&device), Err(BlockError::ReadOnly)), "it was told so");
        device.read_at(0, &mut [0]).unwrap();
        deny(&share);
        assert!(write(&device).is_err() && device.read_at(0, &mut [0]).is_err());
        assert_eq!(clock.now_ns(), 0, "what is refused waits for nothing, and takes nothing");
        for client in [Client::Unknown, Client::Certified { name: "web2".to_owned() }] {
            let behind = Arc::new(MemDevice::new(512));
            assert!(SharedDevice::new(behind, Arc::clone(&share), &client).is_none());
        }
    }

    #[test]
    fn limits_of_all_and_of_one_hold_requests_back_and_end_when_they_are_lifted() {
        let (clock, share, device) = scene(false);
        let device = device.unwrap();
        let second = 1_000_000_000;
        let limits = Limits {
            iops: Some(100),
            connection_bytes_per_second: Some(1 << 20),
            ..Limits::default()
        };
        share.set(Sharing { limits, ..share.read() });
        let took = |what: &dyn Fn()| {
            let before = clock.now_ns();
            what();
            clock.now_ns() - before
        };
        let reads = |count, bytes| {
            move |device: &SharedDevice| {
                (0..count).for_each(|_| device.read_at(0, &mut vec![0; bytes]).unwrap());
            }
        };
        let slow = took(&|| reads(1000, 1)(&device));
        assert!((9 * second..=10 * second).contains(&slow), "{slow}");
        let slow = took(&|| reads(10, 1 << 20)(&device));
        assert!((8 * second..=10 * second).contains(&slow), "{slow}");
        assert_eq!(took(&|| device.flush().unwrap()), 0, "what is durable waits for no limit");
        share.lift_limits();
        assert_eq!(took(&|| reads(1000, 1 << 20)(&device)), 0);
    }

    /// Each way to ask, with the requests and the bytes that it takes of the limits.
    type Way = (fn(&SharedDevice) -> Result<(), BlockError>, u64, u64);
    const WAYS: [Way; 8] = [
        (|device| device.read_at(0, &mut [0; 512]), 1, 512),
        (|device| device.write_at(0, &[1; 512], false), 1, 512),
        (
            |device| {
                let request = WriteRequest { offset: 0, data: &[1; 512], fua: false };
                let mut results = Vec::new();
                device.write_batch(&[request; 2], &mut results);
                results.into_iter().collect()
            },
            2,
            1024,
        ),
        (|device| device.write_zeroes(0, 512, ZeroOptions::default()), 1, 0),
        (|device| device.trim(0, 512, false), 1, 0),
        (SharedDevice::flush, 0, 0),
        (|device| device.block_status(0, 512).map(drop), 0, 0),
        (|device| device.prefetch(0, 512), 0, 0),
    ];

    #[test]
    fn each_request_takes_what_it_is_of_each_limit() {
        let (each, none) = (Some(10), Limits::default());
        let limits = [
            (Limits { iops: each, ..none }, 1, 0),
            (Limits { connection_iops: each, ..none }, 1, 0),
            (Limits { bytes_per_second: each, ..none }, 0, 1),
            (Limits { connection_bytes_per_second: each, ..none }, 0, 1),
        ];
        for (limits, operations, bytes) in limits {
            for (number, (ask, of_operations, of_bytes)) in WAYS.into_iter().enumerate() {
                let (clock, share, device) = scene(false);
                let device = device.unwrap();
                share.set(Sharing { limits, ..share.read() });
                (0..11).for_each(|_| ask(&device).unwrap());
                // Ten of them, less a burst of a quarter of a second.
                let units = operations * of_operations + bytes * of_bytes;
                let expected = (units * 1_000_000_000).saturating_sub(250_000_000);
                assert_eq!(clock.now_ns(), expected, "way {number}, {limits:?}");
            }
        }
    }

    /// A clock at whose first wait a client is denied.
    #[derive(Default)]
    struct Denying {
        time: ManualClock,
        share: OnceLock<Weak<Share>>,
    }

    impl Clock for Denying {
        fn now_ns(&self) -> u64 {
            self.time.now_ns()
        }

        fn sleep_ns(&self, ns: u64) {
            self.time.sleep_ns(ns);
            deny(&self.share.get().unwrap().upgrade().unwrap());
        }
    }

    #[test]
    fn who_waited_while_its_right_was_taken_away_is_refused() {
        for (ask, operations, _) in WAYS {
            let clock = Arc::new(Denying::default());
            let mut sharing = Sharing::default();
            sharing.allow(WEB.parse().unwrap(), false);
            sharing.limits.iops = Some(1);
            let share = Arc::new(Share::new(sharing, Arc::clone(&clock) as Arc<dyn Clock>));
            clock.share.set(Arc::downgrade(&share)).unwrap();
            let client = Client::Certified { name: "web1".to_owned() };
            let device = StatsDevice::new(MemDevice::new(1 << 20));
            let device = Arc::new(device);
            let shared = SharedDevice::new(Arc::clone(&device) as _, share, &client).unwrap();
            ask(&shared).unwrap();
            let before = device.snapshot();
            let again = ask(&shared);
            if operations > 0 {
                assert!(matches!(again, Err(BlockError::ShuttingDown)), "{again:?}");
                assert_eq!(device.snapshot(), before, "it comes no further");
            }
        }
    }
}
