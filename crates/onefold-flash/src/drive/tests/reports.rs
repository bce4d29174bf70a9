//! What is made of counters and of a specification, with no two numbers the same.
//! Room: onefold-flash.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::holds;
use super::story::spec;
use crate::drive::{DriveState, HostCounts, Inspection, Latencies, Pace, SavedHealth, SmartReport};
use crate::ftl::Counters;
use crate::nand::bytes::{BlockEntry, NandHealth};
use crate::op::{Cause, Driver as _, FlashOp, OpCounts, OpKind, Work};
use crate::spec::DriveSpec;

/// Some number that is told from all others.
fn numbers() -> impl FnMut() -> u64 {
    let mut next = 1000;
    move || {
        next += 17;
        next
    }
}

fn host(mut next: impl FnMut() -> u64) -> HostCounts {
    HostCounts {
        reads: next(),
        bytes_read: next(),
        writes: next(),
        bytes_written: next(),
        flushes: next(),
        errors: next(),
    }
}

fn counters(mut next: impl FnMut() -> u64) -> Counters {
    let mut ops = OpCounts::default();
    for kind in [OpKind::Read, OpKind::Program, OpKind::Erase] {
        for cause in Cause::ALL {
            (0..next() % 100).for_each(|_| ops.add(kind, cause));
        }
    }
    Counters {
        host_pages_written: next(),
        host_pages_trimmed: next(),
        inline_pages: next(),
        offline_pages: next(),
        ops,
        ..Counters::default()
    }
}

fn health() -> SavedHealth {
    let mut next = numbers();
    let operations = ["read", "program", "erase"].map(|kind| {
        let causes = Cause::ALL.map(|cause| (cause.name().to_owned(), next()));
        (kind.to_owned(), BTreeMap::from(causes))
    });
    SavedHealth {
        sequence: next(),
        since_unix_s: Some(next()),
        clean: true,
        power_cycles: next(),
        unsafe_shutdowns: next(),
        power_on_s: next() * 1000 + 3599,
        host_reads: next(),
        host_bytes_read: next() * 512_000,
        host_writes: next(),
        host_bytes_written: next() * 512_000 + 1,
        host_flushes: next(),
        host_errors: next(),
        pages_written: next(),
        pages_trimmed: next(),
        inline_pages: next(),
        offline_pages: next(),
        operations: BTreeMap::from(operations),
        nand: NandHealth {
            reads: next(),
            programs: next(),
            erases: next(),
            retries: next(),
            bits_read: next() * 1_000_000,
            raw_bit_errors: next(),
            corrected_pages: next(),
            corrected_bits: next(),
            uncorrectable: next(),
            program_failures: next(),
            erase_failures: next(),
            ..NandHealth::default()
        },
        state: DriveState {
            logical_pages: 256,
            mapped_pages: 211,
            data_pages: 103,
            shared_pages: 47,
            bad_blocks: 3,
            factory_bad_blocks: 2,
            needed_blocks: 36,
        },
    }
}

/// A drive with blocks erased so often, of which every so manieth is bad.
fn drive(spec: DriveSpec, health: SavedHealth, erases: &[u32], bad_every: usize) -> Inspection {
    let blocks = erases.iter().zip(1..).map(|(&erases, number)| {
        let bad = bad_every > 0 && number % bad_every == 0;
        BlockEntry { erases, bad, ..BlockEntry::default() }
    });
    let blocks = blocks.collect();
    Inspection {
        id: [0; 16],
        spec,
        counted: true,
        health,
        generation: None,
        blocks,
        allocated_bytes: 31_337,
    }
}

#[test]
fn every_number_of_a_report_is_this() {
    let erases: Vec<u32> = (0..48).map(|number| 100 + number * number % 71).collect();
    let report = |health: SavedHealth, erases: &[u32], bad_every| {
        let told = SmartReport::of(&drive(spec(&[]), health, erases, bad_every));
        format!("{told:#?}\n{}\n", toml::to_string(&told.log).unwrap())
    };
    let used = report(health(), &erases, 16);
    let unused = report(SavedHealth::default(), &[0; 48], 0);
    holds("smart.txt", &format!("# in use\n\n{used}\n# unused\n\n{unused}"));

    let all_bad = SmartReport::of(&drive(spec(&[]), health(), &erases, 1));
    assert_eq!(all_bad.nand.erases_mean.to_bits(), 0.0_f64.to_bits(), "without a sign");
}

/// A drive of 48 blocks, 2 of them bad from the start, that cannot do without 36: 10 are spare.
#[test]
fn a_drive_warns_when_its_spare_is_below_a_tenth_or_gone() {
    let log = |bad: u64, uncorrectable: u64, needed_blocks: u64| {
        let mut health = health();
        health.nand.uncorrectable = uncorrectable;
        health.state.needed_blocks = needed_blocks;
        let mut drive = drive(spec(&[]), health, &[5; 48], 0);
        drive.blocks.iter_mut().take(bad as usize).for_each(|block| block.bad = true);
        let report = SmartReport::of(&drive);
        assert_eq!(report.passed, report.log.critical_warning == 0);
        assert_eq!(report.nand.bad_blocks, bad);
        (report.log.available_spare, report.log.critical_warning)
    };
    assert_eq!(log(0, 0, 36), (100, 0), "no more than all");
    assert_eq!(log(2, 0, 36), (100, 0));
    assert_eq!(log(3, 0, 36), (90, 0));
    assert_eq!(log(3, 1, 36), (90, 4));
    assert_eq!(log(11, 0, 36), (10, 0));
    assert_eq!(log(12, 0, 36), (0, 1 | 8));
    assert_eq!(log(40, 0, 36), (0, 1 | 8));
    // One of 20 is less than a tenth, and not nothing.
    assert_eq!(log(21, 0, 26), (5, 1));
    // A drive that never had any lacks none.
    assert_eq!(log(2, 0, 46), (100, 0));
    assert_eq!(log(2, 0, 50), (100, 0));
}

#[test]
fn a_drive_is_on_for_whole_hours() {
    let hours = |power_on_s: u64| {
        let health = SavedHealth { power_on_s, ..health() };
        SmartReport::of(&drive(spec(&[]), health, &[0; 48], 0)).log.power_on_hours
    };
    assert_eq!([0, 3599, 3600, 7199, 7200].map(hours), [0, 0, 1, 1, 2]);
}

#[test]
fn percentage_used_is_that_of_rated_cycles_up_to_255() {
    let used = |erases: u32| {
        let spec = spec(&["media.rated_pe_cycles=200"]);
        let report = SmartReport::of(&drive(spec, health(), &[erases; 48], 0));
        assert!((report.nand.erases_mean - f64::from(erases)).abs() < 1e-9);
        report.log.percentage_used
    };
    assert_eq!(
        [0, 1, 2, 199, 200, 509, 510, 512, 5000].map(used),
        [0, 0, 1, 99, 100, 254, 255, 255, 255]
    );
}

#[test]
fn little_is_a_share_of_little_and_nothing_of_nothing() {
    let mut few = SavedHealth { pages_written: 1, ..SavedHealth::default() };
    few.operations =
        BTreeMap::from([("program".to_owned(), BTreeMap::from([("gc".to_owned(), 3)]))]);
    few.nand = NandHealth { bits_read: 1, raw_bit_errors: 1, ..NandHealth::default() };
    let report = SmartReport::of(&drive(spec(&[]), few, &[9], 0));
    assert_eq!(report.write_amplification.total.map(f64::to_bits), Some(3.0_f64.to_bits()));
    assert_eq!(report.nand.raw_bit_error_rate.to_bits(), 1.0_f64.to_bits());
    assert_eq!(report.nand.erases_mean.to_bits(), 9.0_f64.to_bits());
    // Every block is bad.
    let report = SmartReport::of(&drive(spec(&[]), SavedHealth::default(), &[9, 9], 1));
    // What the drive programs for itself when it is made is no multiple of nothing.
    let waf = report.write_amplification;
    assert!(waf.total.is_none() && waf.by_cause.values().all(Option::is_none), "{waf:?}");
    let nand = report.nand;
    assert_eq!((nand.bad_blocks, nand.erases_min, nand.erases_max), (2, 0, 0));
    assert!(nand.erases_mean.abs() < 1e-9);
    assert_eq!(report.erase_histogram, []);
}

/// Twice what a run counted is that and that again, whatever was counted.
#[test]
fn what_runs_count_adds_up() {
    let mut next = numbers();
    let host = host(&mut next);
    let ftl = counters(&mut next);
    let nand = NandHealth { reads: next(), retries: next(), ..NandHealth::default() };
    let before = health();
    let once = before.plus(&host, &ftl, &nand);
    holds("plus.txt", &format!("{once:#?}\n"));
    // Operations of a kind and a cause are found by their names.
    for (kind, name) in
        [(OpKind::Read, "read"), (OpKind::Program, "program"), (OpKind::Erase, "erase")]
    {
        for cause in Cause::ALL {
            let sum = before.operations(name, cause) + ftl.ops.of(kind, cause);
            assert_eq!(once.operations(name, cause), sum);
        }
        let all: u64 = Cause::ALL.map(|cause| once.operations(name, cause)).iter().sum();
        assert_eq!(once.all_operations(name), all);
    }
    assert_eq!(once.operations("melt", Cause::Gc) + once.all_operations("melt"), 0);
}

#[test]
fn latencies_and_wear_are_those_of_the_specification() {
    let mut story = String::new();
    for lines in [
        &[][..],
        &[
            "timing.read_latency_ns=11",
            "timing.program_latency_ns=22",
            "timing.erase_latency_ns=33",
            "timing.bus_mb_per_s=50",
            "timing.command_overhead_ns=44",
            "controller.hash_ns=55",
            "controller.light_hash_ns=66",
            "controller.parity_correction_ns=77",
            "controller.compare_ns=88",
            "controller.lookup_ns=99",
            "controller.compress_mb_per_s=3",
            "controller.decompress_mb_per_s=7",
            "media.rated_pe_cycles=123",
            "media.raw_bit_errors_ppb=4567",
            "media.plain_raw_bit_errors_percent=150",
            "media.similar_raw_bit_errors_percent=250",
            "media.factory_bad_blocks_ppm=2500",
            "media.wear=\"tlc\"",
            "seed=77",
        ],
    ] {
        let spec = spec(lines);
        writeln!(story, "{:#?}\n{:#?}\n", spec.latencies(), spec.wear_model()).unwrap();
    }
    holds("latencies.txt", &story);
}

/// Every kind of work and operation takes its own time, and what is beside a request takes none of
/// the request's.
#[test]
fn a_request_takes_the_sum_of_what_it_waits_for() {
    let geometry = spec(&[]).geometry;
    let latencies = Latencies {
        read_ns: 1,
        program_ns: 20,
        erase_ns: 300,
        hash_ns: 4000,
        light_hash_ns: 50_000,
        parity_correction_ns: 600_000,
        compare_ns: 7_000_000,
        lookup_ns: 80_000_000,
        compress_ns: 900_000_000,
        decompress_ns: 1_000_000_000,
    };
    let works = [
        Work::Hash,
        Work::LightHash,
        Work::ParityCorrection,
        Work::Compare,
        Work::Lookup,
        Work::Compress,
        Work::Decompress,
    ];
    let taken = [4000, 50_000, 600_000, 7_000_000, 80_000_000, 900_000_000, 1_000_000_000];
    let mut pace = Pace::new(geometry, latencies);
    for (work, ns) in works.into_iter().zip(taken) {
        assert_eq!(pace.work_ns(work), ns, "{work:?}");
        pace.begin(5);
        pace.work(work, false);
        assert_eq!(pace.done_ns(), 5, "{work:?} beside a request");
        pace.work(work, true);
        pace.work(work, true);
        assert_eq!((pace.done_ns(), pace.now_ns()), (5 + 2 * ns, 5 + 2 * ns), "{work:?}");
    }
    pace.begin(10);
    pace.retried(3);
    assert_eq!(pace.done_ns(), 13);
    assert_eq!(pace.preferred_plane(), None);
    // One plane is busy until 320, the other one until 30.
    let plane = geometry.pages() / 2;
    let op = |kind, ppn, foreground| FlashOp { kind, cause: Cause::Gc, ppn, foreground };
    pace.begin(10);
    pace.issue(op(OpKind::Program, plane, false));
    pace.issue(op(OpKind::Program, 0, false));
    pace.issue(op(OpKind::Erase, 0, false));
    assert_eq!((pace.done_ns(), pace.all_done_ns()), (10, 330));
    assert_eq!((pace.program_ns(), pace.read_ns(0), pace.read_ns(1)), (40, 321, 21));
    for (now, idle) in
        [(29, [false; 2]), (30, [false, true]), (329, [false, true]), (330, [true; 2])]
    {
        pace.begin(now);
        assert_eq!([0, 1].map(|plane| pace.is_idle(plane)), idle, "at {now}");
    }
    assert_eq!((pace.program_ns(), pace.read_ns(0)), (20, 1));
    pace.begin(400);
    assert_eq!(pace.all_done_ns(), 400);
}
