//! A device whose slow calls are told to the log, for doors that tell of none themselves.
//! Room: onefold-export.
//! Invariant: every call is forwarded as it is, batches as batches.

use std::sync::Arc;

use onefold_block::{BlockDevice, BlockError, Extent, WriteRequest, ZeroOptions};
use onefold_nbd::protocol::Op;
use onefold_nbd::{SlowCall, SlowLog, Whose};

/// The device of one client. What waits before a call is not counted.
pub struct SlowDevice {
    /// Where calls go.
    pub device: Arc<dyn BlockDevice>,
    /// What slow ones are told to.
    pub log: Arc<SlowLog>,
    /// Whom the log means.
    pub peer: String,
    /// What that client has.
    pub export: String,
}

impl SlowDevice {
    fn watched<T>(&self, op: Op, (requests, bytes): (u64, u64), call: impl FnOnce() -> T) -> T {
        let (value, spent) = self.log.watched(self.log.now_ns(), call);
        if self.log.is_slow(&spent, 0) {
            let whose = Whose { peer: &self.peer, export: &self.export };
            self.log.tell(whose, &SlowCall { op, bytes, requests, queued_ns: 0, spent });
        }
        value
    }
}

impl BlockDevice for SlowDevice {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn preferred_block_bytes(&self) -> u32 {
        self.device.preferred_block_bytes()
    }

    fn is_read_only(&self) -> bool {
        self.device.is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        let bytes = buf.len() as u64;
        let op = Op::Read { offset, len: bytes as u32, whole: false };
        self.watched(op, (1, bytes), || self.device.read_at(offset, buf))
    }

    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        let bytes = data.len() as u64;
        let op = Op::Write { offset, len: bytes as u32, fua };
        self.watched(op, (1, bytes), || self.device.write_at(offset, data, fua))
    }

    fn write_batch(
        &self,
        requests: &[WriteRequest<'_>],
        results: &mut Vec<Result<(), BlockError>>,
    ) {
        let Some(first) = requests.first() else { return results.clear() };
        let bytes: u64 = requests.iter().map(|request| request.data.len() as u64).sum();
        let op = Op::Write { offset: first.offset, len: first.data.len() as u32, fua: first.fua };
        self.watched(op, (requests.len() as u64, bytes), || {
            self.device.write_batch(requests, results);
        });
    }

    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        let op = Op::WriteZeroes { offset, len, options };
        self.watched(op, (1, len), || self.device.write_zeroes(offset, len, options))
    }

    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.watched(Op::Trim { offset, len, fua }, (1, len), || self.device.trim(offset, len, fua))
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.watched(Op::Flush, (1, 0), || self.device.flush())
    }

    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.device.block_status(offset, len)
    }

    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        self.watched(Op::Cache { offset, len }, (1, len), || self.device.prefetch(offset, len))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use onefold_block::MemDevice;
    use onefold_block::conformance::check_device;
    use onefold_block::wrappers::{DelayDevice, DelaySpec, ManualClock, Verb, VerbDelay};
    use onefold_nbd::SlowRequests;

    use super::*;
    use crate::tests::logged;

    fn watched(device: Arc<dyn BlockDevice>, clock: Arc<ManualClock>) -> SlowDevice {
        let asked = SlowRequests { after: Duration::from_millis(100), clock };
        let log = Arc::new(SlowLog::new(Some(&asked)));
        SlowDevice { device, log, peer: "vhost-user:vm".to_owned(), export: "vm1".to_owned() }
    }

    #[test]
    fn what_took_long_is_told_with_what_was_asked() {
        let clock = Arc::new(ManualClock::default());
        let slow = VerbDelay { fixed_ns: 101_099_999, per_kib_ns: 0 };
        // 100 ms for 512 bytes, which is not longer, and 101 for twice as many.
        let read = VerbDelay { fixed_ns: 98_900_001, per_kib_ns: 2_199_998 };
        let verbs = Verb::ALL.into_iter();
        let spec = verbs.fold(DelaySpec::default(), |spec, verb| spec.with(verb, slow));
        let spec = spec.with(Verb::Read, read);
        let slow = DelayDevice::new(MemDevice::new(1 << 20), spec, Arc::clone(&clock) as _);
        let device = watched(Arc::new(slow), clock);
        let said = logged(|| {
            let write = |offset| WriteRequest { offset, data: &[1; 512], fua: false };
            let mut results = vec![Ok(())];
            device.write_batch(&[], &mut results);
            assert!(results.is_empty());
            device.read_at(0, &mut [0; 512]).unwrap();
            device.read_at(512, &mut [0; 1024]).unwrap();
            device.write_at(1024, &[1; 512], false).unwrap();
            device.write_batch(&[write(4096), write(0)], &mut results);
            device.write_zeroes(8192, 4096, ZeroOptions::default()).unwrap();
            device.trim(0, 8192, false).unwrap();
            device.flush().unwrap();
            device.prefetch(512, 3).unwrap();
        });
        let expected = [
            r#""read" offset=512 bytes=1024 requests=1 ms=101.0"#,
            r#""write" offset=1024 bytes=512 requests=1 ms=101.0"#,
            r#""write" offset=4096 bytes=1024 requests=2 ms=202.1"#,
            r#""zero" offset=8192 bytes=4096 requests=1 ms=101.0"#,
            r#""trim" offset=0 bytes=8192 requests=1 ms=101.0"#,
            r#""flush" offset=0 bytes=0 requests=1 ms=101.0"#,
            r#""cache" offset=512 bytes=3 requests=1 ms=101.0"#,
        ];
        assert_eq!(said.lines().count(), expected.len(), "{said}");
        for (line, asked) in said.lines().zip(expected) {
            let whole = format!(r#"peer="vhost-user:vm" export="vm1" verb={asked} queue_ms=0.0"#);
            assert!(line.contains(&whole), "{line}");
        }
    }

    #[test]
    fn it_is_the_device_behind_it() {
        check_device(&|bytes| {
            let device = Arc::new(MemDevice::new(bytes));
            Arc::new(watched(device, Arc::new(ManualClock::default())))
        });
    }
}
