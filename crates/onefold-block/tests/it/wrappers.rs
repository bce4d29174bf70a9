//! Every verb of every wrapper, from one table.
//! Room: onefold-block.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use onefold_block::conformance::{check_device, check_read_only_device};
use onefold_block::spent::{Part, Spent, on, watched};
use onefold_block::wrappers::{
    Clock, ContentHash, DelayDevice, DelaySpec, DeviceCounters, DeviceFault, FaultDevice,
    ManualClock, RecordDevice, StatsDevice, SystemClock, TIME_BOUNDS_NS, TraceRecord, Verb,
    VerbDelay, VerbStats,
};
use onefold_block::{
    BlockDevice, BlockError, Extent, ExtentKind, MemDevice, WriteRequest, ZeroOptions,
};

/// A device that writes down every call and its arguments, and answers with what no default
/// method would.
#[derive(Default)]
struct Probe {
    calls: Mutex<Vec<String>>,
}

impl Probe {
    fn saw(&self, call: String) {
        self.calls.lock().unwrap().push(call);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

impl BlockDevice for Probe {
    fn size_bytes(&self) -> u64 {
        12_345
    }
    fn preferred_block_bytes(&self) -> u32 {
        2048
    }
    fn is_read_only(&self) -> bool {
        true
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), BlockError> {
        self.saw(format!("read {offset} {}", buf.len()));
        buf.fill(0x77);
        Ok(())
    }
    fn write_at(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), BlockError> {
        self.saw(format!("write {offset} {data:?} {fua}"));
        Ok(())
    }
    fn write_batch(&self, reqs: &[WriteRequest<'_>], results: &mut Vec<Result<(), BlockError>>) {
        let all: Vec<_> = reqs.iter().map(|r| (r.offset, r.data, r.fua)).collect();
        self.saw(format!("batch {all:?}"));
        results.clear();
        results.extend(reqs.iter().map(|r| match r.offset {
            13 => Err(BlockError::Corrupt("thirteen".into())),
            _ => Ok(()),
        }));
    }
    fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), BlockError> {
        self.saw(format!("zero {offset} {len} {options:?}"));
        Err(BlockError::NotFast)
    }
    fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), BlockError> {
        self.saw(format!("trim {offset} {len} {fua}"));
        Ok(())
    }
    fn flush(&self) -> Result<(), BlockError> {
        self.saw("flush".into());
        Ok(())
    }
    fn block_status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError> {
        self.saw(format!("status {offset} {len}"));
        Ok(vec![Extent { len_bytes: 3, kind: ExtentKind::Zero }])
    }
    fn prefetch(&self, offset: u64, len: u64) -> Result<(), BlockError> {
        self.saw(format!("prefetch {offset} {len}"));
        Err(BlockError::ShuttingDown)
    }
}

const ZERO: ZeroOptions = ZeroOptions { fua: true, no_hole: true, fast_only: true };

type Call = fn(&dyn BlockDevice) -> String;

/// Each call: its verb, the call with its answer as text, and what the device below sees.
const CALLS: [(Option<Verb>, Call, &str); 12] = [
    (None, |d| d.size_bytes().to_string(), ""),
    (None, |d| d.preferred_block_bytes().to_string(), ""),
    (None, |d| d.is_read_only().to_string(), ""),
    (
        Some(Verb::Read),
        |d| {
            let mut buf = [0; 9];
            format!("{:?} {buf:?}", d.read_at(7, &mut buf))
        },
        "read 7 9",
    ),
    (Some(Verb::Write), |d| format!("{:?}", d.write_at(8, &[1, 2], true)), "write 8 [1, 2] true"),
    (Some(Verb::Write), |d| format!("{:?}", d.write_at(9, &[3], false)), "write 9 [3] false"),
    (Some(Verb::Write), one_batch, "batch [(11, [5, 6], true)]"),
    (
        Some(Verb::WriteZeroes),
        |d| format!("{:?}", d.write_zeroes(20, 21, ZERO)),
        "zero 20 21 ZeroOptions { fua: true, no_hole: true, fast_only: true }",
    ),
    (Some(Verb::Trim), |d| format!("{:?}", d.trim(22, 23, true)), "trim 22 23 true"),
    (Some(Verb::Flush), |d| format!("{:?}", d.flush()), "flush"),
    (Some(Verb::BlockStatus), |d| format!("{:?}", d.block_status(24, 25)), "status 24 25"),
    (Some(Verb::Prefetch), |d| format!("{:?}", d.prefetch(26, 27)), "prefetch 26 27"),
];

fn one_batch(device: &dyn BlockDevice) -> String {
    let mut results = vec![Ok(()), Err(BlockError::ReadOnly)];
    device.write_batch(&[WriteRequest { offset: 11, data: &[5, 6], fua: true }], &mut results);
    format!("{results:?}")
}

fn sink() -> Arc<Mutex<Vec<TraceRecord>>> {
    Arc::default()
}

fn length_and_sum(_: u64, piece: &[u8]) -> u128 {
    piece.iter().map(|&b| u128::from(b)).sum::<u128>() << 64 | piece.len() as u128
}

/// Every wrapper before a device, doing as little as it can.
fn wrapped(inner: Arc<dyn BlockDevice>) -> Vec<(&'static str, Arc<dyn BlockDevice>)> {
    let clock = Arc::new(ManualClock::default());
    let hash = Some(ContentHash { block_bytes: 4096, reads: true, key: 0, hash: length_and_sum });
    vec![
        ("fault", Arc::new(FaultDevice::new(Arc::clone(&inner), 0))),
        (
            "delay",
            Arc::new(DelayDevice::new(Arc::clone(&inner), DelaySpec::default(), clock.clone())),
        ),
        ("record", Arc::new(RecordDevice::new(Arc::clone(&inner), sink(), clock, hash))),
        ("stats", Arc::new(StatsDevice::new(Arc::clone(&inner)))),
        ("arc", Arc::new(inner)),
    ]
}

#[test]
fn every_wrapper_forwards_every_call_as_it_is() {
    let probe = Arc::new(Probe::default());
    for (name, wrapper) in wrapped(probe.clone()) {
        for (_, call, seen) in CALLS {
            let answer = call(&*wrapper);
            let below: Vec<String> = probe.take();
            assert_eq!(below.join("\n"), seen, "{name}");
            assert_eq!(answer, call(&*probe), "{name}: {seen}");
            probe.take();
        }
    }
}

#[test]
fn every_wrapper_is_a_device_like_what_it_wraps() {
    for index in 0..5 {
        check_device(&|size| wrapped(Arc::new(MemDevice::new(size))).swap_remove(index).1);
        let read_only = Arc::new(MemDevice::new(8192).into_read_only());
        check_read_only_device(&*wrapped(read_only)[index].1);
    }
}

#[test]
fn faults_hit_the_verb_they_name_and_no_other() {
    for verb in Verb::ALL {
        let probe = Arc::new(Probe::default());
        let device = FaultDevice::new(probe.clone(), 0);
        device.fail_from(&[verb], 1, DeviceFault::Io);
        for (of, call, seen) in CALLS {
            let answer = call(&device);
            let failed = answer.contains("planned fault");
            assert_eq!(failed, of == Some(verb), "{verb}: {seen}");
            let reached = probe.take().iter().any(|call| call == seen);
            assert_eq!(reached, !failed && of.is_some(), "{verb}: {seen}");
        }
    }
}

#[test]
fn faults_come_when_planned_and_as_planned() {
    let device = FaultDevice::new(MemDevice::new(8192), 0);
    device.fail_once(&[Verb::Write, Verb::Flush], 3, DeviceFault::NoSpace);
    device.write_at(0, &[1], false).unwrap();
    device.read_at(0, &mut [0]).unwrap();
    device.flush().unwrap();
    assert!(matches!(device.write_at(0, &[2], false), Err(BlockError::NoSpace(_))));
    device.write_at(1, &[3], false).unwrap();
    let mut found = [0; 2];
    device.read_at(0, &mut found).unwrap();
    assert_eq!(found, [1, 3], "what failed did not happen");

    device.fail_from(&[Verb::Read], 2, DeviceFault::Corrupt);
    device.read_at(0, &mut found).unwrap();
    for _ in 0..3 {
        assert!(matches!(device.read_at(0, &mut found), Err(BlockError::Corrupt(_))));
    }
    device.clear_faults();
    device.read_at(0, &mut found).unwrap();
    device.fail_once(&[Verb::Trim], 1, DeviceFault::Poisoned);
    assert!(matches!(device.trim(0, 1, false), Err(BlockError::Poisoned(_))));
    device.fail_once(&[Verb::Trim], 1, DeviceFault::ShuttingDown);
    assert!(matches!(device.trim(0, 1, false), Err(BlockError::ShuttingDown)));
}

#[test]
fn a_fault_in_a_batch_spares_the_rest_of_it() {
    let probe = Arc::new(Probe::default());
    let device = FaultDevice::new(probe.clone(), 0);
    device.fail_once(&[Verb::Write], 2, DeviceFault::Io);
    let data = [9];
    let request = |offset| WriteRequest { offset, data: &data, fua: false };
    let mut results = Vec::new();
    device.write_batch(&[10, 11, 12, 13, 14].map(request), &mut results);
    let answers: Vec<String> = results
        .iter()
        .map(|r| r.as_ref().map_or_else(ToString::to_string, |()| "ok".into()))
        .collect();
    assert_eq!(
        probe.take(),
        ["batch [(10, [9], false), (12, [9], false), (13, [9], false), (14, [9], false)]"]
    );
    assert_eq!(answers[0], "ok");
    assert!(answers[1].contains("planned fault of write"), "{answers:?}");
    assert_eq!(answers[2..], ["ok", "corrupt data: thirteen", "ok"]);
}

#[test]
fn faults_by_chance_follow_their_ratio_and_seed() {
    let run = |seed| -> Vec<bool> {
        let device = FaultDevice::new(MemDevice::new(4096), seed);
        device.fail_ratio(&[Verb::Flush], (1, 4), DeviceFault::Io);
        (0..4000).map(|_| device.flush().is_err()).collect()
    };
    let failed = run(1).iter().filter(|&&failed| failed).count();
    assert!((850..1150).contains(&failed), "{failed} of 4000 at one in four");
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn each_verb_waits_for_its_own_time() {
    let mut spec = DelaySpec::default();
    for (index, verb) in Verb::ALL.into_iter().enumerate() {
        let fixed_ns = 10u64.pow(index as u32 + 4);
        spec = spec.with(verb, VerbDelay { fixed_ns, per_kib_ns: 1024 });
        assert_eq!(spec.of(verb).fixed_ns, fixed_ns);
    }
    let clock = Arc::new(ManualClock::default());
    let device = DelayDevice::new(Probe::default(), spec, clock.clone());
    // The lengths of the ranges in the table, at one nanosecond a byte.
    let bytes = [0, 0, 0, 9, 2, 1, 2, 21, 23, 0, 25, 27];
    for ((verb, call, seen), len) in CALLS.into_iter().zip(bytes) {
        let before = clock.now_ns();
        call(&device);
        let expected = verb.map_or(0, |verb| spec.of(verb).fixed_ns + len);
        assert_eq!(clock.now_ns() - before, expected, "{seen}");
    }
    let before = clock.now_ns();
    let requests = [WriteRequest { offset: 0, data: &[0; 100], fua: false }; 3];
    device.write_batch(&requests, &mut Vec::new());
    assert_eq!(clock.now_ns() - before, 3 * (spec.of(Verb::Write).fixed_ns + 100));
    assert_eq!(VerbDelay { fixed_ns: 0, per_kib_ns: 1 }.of(1), 1, "rounded up");
    assert_eq!(VerbDelay { fixed_ns: 9, per_kib_ns: u64::MAX }.of(u64::MAX), u64::MAX);
}

#[test]
fn each_verb_is_counted_once() {
    let device = StatsDevice::new(Probe::default());
    let bytes = [0, 0, 0, 9, 2, 1, 2, 21, 23, 0, 25, 27];
    for ((verb, call, seen), len) in CALLS.into_iter().zip(bytes) {
        let before = device.snapshot();
        let answer = call(&device);
        let counted = device.snapshot().since(&before);
        for other in Verb::ALL {
            let expected = if verb != Some(other) {
                VerbStats::default()
            } else if answer.contains("Err") {
                VerbStats { requests: 1, errors: 1, bytes: 0 }
            } else {
                VerbStats { requests: 1, errors: 0, bytes: len }
            };
            assert_eq!(counted.of(other), expected, "{other} at {seen}");
        }
        assert_eq!(counted.batches, u64::from(seen.starts_with("batch")), "{seen}");
        assert_eq!(counted.fua_requests, u64::from(seen.contains("true")), "{seen}");
    }
}

#[test]
fn each_verb_is_recorded_as_a_line_that_reads_back() {
    let records = sink();
    let clock = Arc::new(ManualClock::default());
    let hash = Some(ContentHash { block_bytes: 4, reads: true, key: 0, hash: length_and_sum });
    let device = RecordDevice::new(Probe::default(), records.clone(), clock.clone(), hash);
    for (_, call, _) in CALLS {
        clock.sleep_ns(5);
        call(&device);
    }
    let lines: Vec<String> = records.lock().unwrap().iter().map(ToString::to_string).collect();
    let piece = |sum: u64, len: u64| format!("{sum:016x}{len:016x}");
    let read = [piece(0x77, 1), piece(4 * 0x77, 4), piece(4 * 0x77, 4)].join(",");
    assert_eq!(
        lines,
        [
            format!("20 read 7 9 - ok {read}"),
            format!("25 write 8 2 f ok {}", piece(3, 2)),
            format!("30 write 9 1 - ok {}", piece(3, 1)),
            // The two bytes lie in different blocks of four.
            format!("35 write 11 2 f ok {},{}", piece(5, 1), piece(6, 1)),
            "40 zero 20 21 fnq err".to_owned(),
            "45 trim 22 23 f ok".to_owned(),
            "50 flush 0 0 - ok".to_owned(),
            "55 status 24 25 - ok".to_owned(),
            "60 prefetch 26 27 - err".to_owned(),
        ]
    );
    for (line, record) in lines.iter().zip(&*records.lock().unwrap()) {
        assert_eq!(line.parse().as_ref(), Ok(record), "{line}");
    }
}

#[test]
fn records_without_hashes_and_of_failed_reads_hold_none() {
    let records = sink();
    let clock = Arc::new(ManualClock::default());
    let plain = RecordDevice::new(MemDevice::new(10), records.clone(), clock.clone(), None);
    plain.write_at(0, &[1; 10], false).unwrap();
    let hash = Some(ContentHash { block_bytes: 4, reads: true, key: 0, hash: length_and_sum });
    let hashing = RecordDevice::new(MemDevice::new(10), records.clone(), clock, hash);
    hashing.read_at(0, &mut [0; 11]).expect_err("out of range");
    hashing.write_at(0, &[1; 11], false).expect_err("out of range");
    let hashes: Vec<(bool, usize)> =
        records.lock().unwrap().iter().map(|r| (r.succeeded, r.content.len())).collect();
    assert_eq!(hashes, [(true, 0), (false, 0), (false, 3)]);
    let hash = Some(ContentHash { block_bytes: 4, reads: false, key: 0, hash: length_and_sum });
    let writes = RecordDevice::new(
        MemDevice::new(10),
        records.clone(),
        Arc::new(ManualClock::default()),
        hash,
    );
    writes.write_at(0, &[1; 10], false).unwrap();
    writes.read_at(0, &mut [0; 10]).unwrap();
    let hashes: Vec<usize> =
        records.lock().unwrap()[3..].iter().map(|record| record.content.len()).collect();
    assert_eq!(hashes, [3, 0], "only what is written is hashed");
}

#[test]
fn lines_that_are_no_records_are_refused_with_the_field_named() {
    for (line, reason) in [
        ("", "1 fields"),
        ("1 read 0 1 -", "5 fields"),
        ("x read 0 1 - ok", "time 'x'"),
        ("1 reed 0 1 - ok", "'reed' is no verb: accepted are read, write"),
        ("1 read -1 1 - ok", "offset '-1'"),
        ("1 read 0 99999999999999999999 - ok", "length '99999999999999999999'"),
        ("1 read 0 1 fx ok", "flags 'fx'"),
        ("1 read 0 1 - maybe", "result 'maybe'"),
        ("1 read 0 1 - ok abc", "hash 'abc'"),
        ("1 read 0 1 - ok +000000000000000000000000000000a", "hash '+"),
        ("1 read 0 1 - ok 00000000000000000000000000000000,", "hash ''"),
        ("1 read 0 1 - ok  ", "8 fields"),
    ] {
        let error = line.parse::<TraceRecord>().expect_err(line);
        assert!(error.contains(reason), "'{line}': {error}");
    }
}

#[test]
fn the_clock_of_the_machine_goes_on() {
    let clock = SystemClock::new();
    let before = clock.now_ns();
    clock.sleep_ns(100_000);
    assert!(clock.now_ns() >= before + 100_000);
}

#[test]
fn requests_are_sorted_by_their_time_and_counts_are_shared() {
    let clock = Arc::new(ManualClock::default());
    let counters = Arc::<DeviceCounters>::default();
    let of = |fixed_ns: u64| {
        let delay = |fixed_ns| VerbDelay { fixed_ns, per_kib_ns: 0 };
        let spec = DelaySpec::default().with(Verb::Write, delay(fixed_ns));
        let spec = spec.with(Verb::Read, delay(2 * fixed_ns));
        let slow = DelayDevice::new(MemDevice::new(4096), spec, clock.clone());
        StatsDevice::timed(slow, Arc::clone(&counters), clock.clone())
    };
    // At a bound, one more, and more than all bounds: 1 us, 2,001 ns, 20 s.
    of(1000).write_at(0, &[1; 100], false).unwrap();
    of(2001).write_at(0, &[1; 100], false).unwrap();
    of(20_000_000_000).write_at(0, &[1; 100], false).unwrap();
    let requests = [WriteRequest { offset: 0, data: &[0; 100], fua: false }; 3];
    // Each of a batch waits for the last one.
    of(1000).write_batch(&requests, &mut Vec::new());
    of(1000).read_at(0, &mut [0; 100]).unwrap();
    let times = counters.times(Verb::Write);
    let classes: Vec<(usize, u64)> =
        times.requests.iter().copied().enumerate().filter(|&(_, count)| count > 0).collect();
    assert_eq!(classes, [(0, 1), (2, 4), (TIME_BOUNDS_NS.len(), 1)]);
    assert_eq!(times.sum_ns, 1000 + 2001 + 20_000_000_000 + 3 * 3000);
    assert_eq!(counters.times(Verb::Read).requests[1], 1);
    assert_eq!(TIME_BOUNDS_NS[..4], [1000, 2000, 5000, 10_000]);
    assert_eq!(TIME_BOUNDS_NS.last(), Some(&10_000_000_000));
    let stats = counters.snapshot();
    assert_eq!((stats.of(Verb::Write).requests, stats.of(Verb::Write).bytes), (6, 600));
}

/// Counts who looks at it, and goes on by a microsecond each time.
#[derive(Default)]
struct Looks(AtomicU64);

impl Clock for Looks {
    fn now_ns(&self) -> u64 {
        1000 * (self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
    fn sleep_ns(&self, _: u64) {}
}

/// Looks at the clock, what the watched call spent, and what its requests took together.
fn looks_at(call: impl FnOnce(&StatsDevice<MemDevice>), same_clock: bool) -> (u64, Spent, u64) {
    let looks = Arc::new(Looks::default());
    let clock = Arc::clone(&looks) as Arc<dyn Clock>;
    let counters = Arc::<DeviceCounters>::default();
    let other = Arc::clone(&looks) as Arc<dyn Clock>;
    let other: Arc<dyn Clock> = if same_clock { other } else { Arc::new(Looks::default()) };
    let device = StatsDevice::timed(MemDevice::new(8192), Arc::clone(&counters), other);
    let ((), spent) = watched(&clock, 0, || call(&device));
    // Outside of a watch it looks for itself.
    let in_watch = looks.0.load(Ordering::Relaxed);
    let took = counters.times(Verb::Read).sum_ns;
    device.read_at(0, &mut [0; 8]).unwrap();
    if same_clock {
        assert_eq!(looks.0.load(Ordering::Relaxed), in_watch + 2);
    }
    assert_eq!(counters.times(Verb::Read).sum_ns, took + 1000);
    (in_watch, spent, took)
}

#[test]
fn who_times_a_device_and_who_watches_the_call_share_their_looks_at_the_clock() {
    let read = |device: &StatsDevice<MemDevice>| device.read_at(0, &mut [0; 8]).unwrap();
    let (looks, spent, took) = looks_at(read, true);
    assert_eq!((looks, spent.total_ns, took), (1, 1000, 1000));
    // The second begins where the first ended.
    let twice = |device: &StatsDevice<MemDevice>| (0..2).for_each(|_| read(device));
    let (looks, spent, took) = looks_at(twice, true);
    assert_eq!((looks, spent.total_ns, took), (2, 2000, 2000));
    // What is timed before a request is not its own, nor is what comes after it.
    let limited = |device: &StatsDevice<MemDevice>| {
        on(Part::Limit, || ());
        read(device);
    };
    let (looks, spent, took) = looks_at(limited, true);
    assert_eq!((looks, spent.total_ns, spent.of(Part::Limit), took), (4, 4000, 1000, 1000));
    let after = |device: &StatsDevice<MemDevice>| {
        read(device);
        on(Part::Reply, || ());
    };
    let (looks, spent, took) = looks_at(after, true);
    assert_eq!((looks, spent.total_ns, spent.of(Part::Reply), took), (4, 4000, 1000, 1000));
    // Clocks that began at different moments have nothing in common.
    let (looks, spent, took) = looks_at(read, false);
    assert_eq!((looks, spent.total_ns, took), (1, 1000, 1000));
    // Nor has a call that is over.
    let clock: Arc<dyn Clock> = Arc::new(Looks::default());
    let counters = Arc::<DeviceCounters>::default();
    let device = StatsDevice::timed(MemDevice::new(8192), counters.clone(), Arc::clone(&clock));
    watched(&clock, clock.now_ns(), || ());
    read(&device);
    assert_eq!(counters.times(Verb::Read).sum_ns, 1000);
}
