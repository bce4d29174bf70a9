//! What stands before a device asks it once for each call, as it is, and answers what it answers.
//! Room: onefold-export.

use std::io::Write;
use std::sync::{Arc, Mutex};

use onefold_block::wrappers::{Clock, DeviceCounters, DeviceStats, ManualClock};
use onefold_block::{BlockDevice, MemDevice, WriteRequest, ZeroOptions};
use onefold_nbd::{Client, SlowLog};

use crate::{Careful, Limits, Share, SharedDevice, Sharing, SlowDevice, Tap, counted};

const SIZE: u64 = 1 << 20;

#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What the log is told meanwhile.
pub fn logged(operation: impl FnOnce()) -> String {
    let said = Said::default();
    let to = said.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || to.clone()).finish();
    tracing::subscriber::with_default(subscriber, operation);
    let said = said.0.lock().unwrap();
    String::from_utf8(said.clone()).unwrap()
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::default())
}

/// A device, and what is asked of it.
fn device(plain: MemDevice) -> (Arc<dyn BlockDevice>, Arc<DeviceCounters>) {
    let counters = Arc::<DeviceCounters>::default();
    (counted(plain, Arc::clone(&counters), clock()), counters)
}

/// Ask for each thing that a device can be asked for; what it said.
fn ask(device: &dyn BlockDevice) -> String {
    let (mut bytes, mut results) = ([9; 700], Vec::new());
    let pieces = [(5, 1), (100_000, 2)];
    let pieces = pieces.map(|(offset, byte)| (offset, [byte; 300]));
    let pieces =
        pieces.each_ref().map(|(offset, data)| WriteRequest { offset: *offset, data, fua: true });
    device.write_batch(&pieces, &mut results);
    let fua = ZeroOptions { fua: true, ..ZeroOptions::default() };
    let done = [
        device.write_at(200, &[3; 400], true),
        device.write_zeroes(50, 100, fua),
        device.trim(64 << 10, 64 << 10, true),
        device.read_at(0, &mut bytes),
        device.flush(),
        device.prefetch(0, 4096),
        // Not all of it is there.
        device.read_at(SIZE - 1, &mut [0; 2]),
        device.prefetch(SIZE, 1),
    ];
    let about = (device.size_bytes(), device.preferred_block_bytes(), device.is_read_only());
    format!("{about:?} {results:?} {done:?} {bytes:?} {:?}", device.block_status(0, SIZE))
}

/// What is before a device, by the name of what it is.
fn before(device: &Arc<dyn BlockDevice>) -> Vec<(&'static str, Arc<dyn BlockDevice>)> {
    let inner = || Arc::clone(device);
    let clock: Arc<dyn Clock> = clock();
    let share = Arc::new(Share::new(Sharing::default(), clock));
    let shared = SharedDevice::new(inner(), share, &Client::Local).unwrap();
    let (peer, export) = (String::new(), String::new());
    let slow = SlowDevice { device: inner(), log: Arc::new(SlowLog::new(None)), peer, export };
    vec![
        ("careful", Arc::new(Careful::new(inner()))),
        ("shared", Arc::new(shared)),
        ("slow", Arc::new(slow)),
        ("tap", Arc::new(Tap::new(inner()))),
    ]
}

#[test]
fn every_call_comes_to_the_device_once_and_as_it_is() {
    let made: [fn() -> MemDevice; 2] =
        [|| MemDevice::new(SIZE), || MemDevice::new(SIZE).into_read_only()];
    for make in made {
        let (plain, asked) = device(make());
        let said = ask(&*plain);
        let expected = asked.snapshot();
        assert!(said.len() > 700 && expected.batches == 1);
        for number in 0..4 {
            let (plain, asked) = device(make());
            let (name, before) = before(&plain).swap_remove(number);
            assert_eq!(ask(&*before), said, "{name}");
            assert_eq!(asked.snapshot(), expected, "{name}");
        }
    }
}

#[test]
fn while_it_is_recorded_a_device_is_asked_through_the_recording_and_after_it_directly() {
    let ((plain, of_plain), (other, of_other)) =
        (device(MemDevice::new(SIZE)), device(MemDevice::new(SIZE)));
    let tap = Tap::new(plain);
    let asked = |tap: &Tap| {
        let before = [of_plain.snapshot(), of_other.snapshot()];
        ask(tap);
        [of_plain.snapshot().since(&before[0]), of_other.snapshot().since(&before[1])]
    };
    let [all, none] = asked(&tap);
    assert_eq!(none, DeviceStats::default());
    tap.go_through(Some(other));
    let [looks, recorded] = asked(&tap);
    assert_eq!(recorded.batches, 1);
    // What changes nothing and reads nothing is not recorded.
    assert_eq!((looks.batches, looks.of(onefold_block::wrappers::Verb::Write).requests), (0, 0));
    tap.go_through(None);
    assert_eq!(asked(&tap), [all, none]);
}

#[test]
fn limits_that_a_volume_has_when_it_is_opened_hold_batches_back_too() {
    let clock = clock();
    let limits = Limits { iops: Some(100), ..Limits::default() };
    let sharing = Sharing { limits, ..Sharing::default() };
    let share = Arc::new(Share::new(sharing, Arc::clone(&clock) as Arc<dyn Clock>));
    let plain = Arc::new(MemDevice::new(SIZE));
    let shared = SharedDevice::new(plain, share, &Client::Local).unwrap();
    let request = WriteRequest { offset: 0, data: &[1; 512], fua: false };
    let mut results = Vec::new();
    for _ in 0..10 {
        shared.write_batch(&[request; 100], &mut results);
    }
    // What comes first after a pause goes through at once, and the last batch waits for none after.
    assert_eq!(clock.now_ns(), 10 * 1_000_000_000 - 1_000_000_000 - 250_000_000);
}
