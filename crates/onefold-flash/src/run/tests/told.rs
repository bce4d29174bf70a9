//! A run as a text: every figure of its report, and a sum of every answer.
//! Room: onefold-flash.

use std::fmt::Write as _;
use std::path::Path;

use onefold_block::SplitMix64;
use onefold_block::kept_text::assert_text;
use onefold_workload::{Identity, Op, Request};

use crate::run::{Completion, Report, RunOptions, run};
use crate::spec::{DriveSpec, SpecBuilder};

/// 2 packages of 2 dies of 2 planes of 14 blocks of 8 pages of 4 KiB, all of them written once.
const SMALL: &str = "\
precondition = \"prefill\"
[geometry]
channels = 2
packages = 2
dies_per_package = 2
planes_per_die = 2
blocks_per_plane = 14
pages_per_block = 8
page_bytes = 4096
oob_bytes = 128
[timing]
read_latency_ns = 25_000
program_latency_ns = 200_000
erase_latency_ns = 1_500_000
[energy]
read_nj = 3
program_nj = 50
erase_nj = 700
transfer_nj = 11_000
[ftl]
over_provisioning = 0.8
gc_reserve_blocks = 2
[controller]
idle_after_ns = 0
[workload]
requests = 500
";

/// The drive with such lines.
pub fn drive(lines: &[&str]) -> DriveSpec {
    let begun = SpecBuilder::preset("ses-slc").and_then(|builder| builder.file("small", SMALL));
    let built = lines.iter().try_fold(begun.unwrap(), |builder, line| builder.set(line));
    built.and_then(SpecBuilder::build).unwrap_or_else(|error| panic!("{lines:?}: {error}"))
}

/// Requests of all kinds, some of them at the same time and some after pauses; four in ten writes
/// are of a few contents, every fifth request covers pages in part.
pub fn requests(spec: &DriveSpec, count: u64, seed: u64) -> Vec<Request> {
    let mut random = SplitMix64::new(seed);
    let size = u64::from(spec.logical_pages()) * 4096;
    let mut time_ns = 1000;
    let mut one = |_| {
        time_ns += match random.below(16) {
            0..=7 => 0,
            8..=12 => random.below(60_000),
            13 | 14 => random.below(600_000),
            _ => 4_000_000,
        };
        let op = match random.below(40) {
            0..=24 => Op::Write,
            25..=34 => Op::Read,
            35 | 36 => Op::Trim,
            37 => Op::Idle,
            _ => Op::Flush,
        };
        let span = if random.chance(1, 2) { size } else { size / 8 };
        let mut offset = random.below(span / 4096 - 4) * 4096;
        let mut length = (1 + random.below(3) * random.below(2)) * 4096;
        if random.chance(1, 5) {
            offset += random.below(8) * 512;
            length = 512 * (1 + random.below(16));
        }
        if !op.has_range() {
            (offset, length) = (0, 0);
        }
        let few = random.chance(2, 5);
        let content = if few { random.below(12) } else { 1000 + random.below(1 << 40) };
        let identity = (op == Op::Write).then(|| Identity::of_number(1, content));
        let word = random.below(30);
        let deduplicate = if op == Op::Write && word < 2 { Some(word == 0) } else { None };
        Request { time_ns, op, offset, length, identity, stream: None, pid: None, deduplicate }
    };
    (0..count).map(&mut one).collect()
}

/// A run of these requests, or of the specification's.
pub fn told(name: &str, lines: &[&str], trace: Option<Vec<Request>>) -> String {
    told_on(1, name, lines, trace)
}

/// The same on so many threads.
pub fn told_on(threads: usize, name: &str, lines: &[&str], trace: Option<Vec<Request>>) -> String {
    let spec = drive(lines);
    let (mut sum, mut answers) = (crc32fast::Hasher::new(), 0_u64);
    let mut keep = |completion: &Completion| {
        answers += 1;
        let latency = completion.answered_ns - completion.request.arrival_ns;
        // Where all of its time went is told of a request, neither more of it nor less.
        let told = completion.breakdown.iter().sum::<u64>();
        assert_eq!(told, latency, "{name}: {completion:?}");
        sum.update(format!("{completion:?}").as_bytes());
        Ok(())
    };
    let options = RunOptions {
        trace: trace.map(|requests| Box::new(requests.into_iter().map(Ok)) as _),
        observer: Some(&mut keep),
        chrome_operations: 50,
        threads,
        ..RunOptions::default()
    };
    let outcome = run(&spec, options).unwrap_or_else(|error| panic!("{name}: {error}"));
    let chrome = outcome.chrome.map(|chrome| crc32fast::hash(format!("{chrome:?}").as_bytes()));
    let sum = sum.finalize();
    let mut text = format!("# {name}\n\n{answers} answers, {sum:08x}, trace {chrome:08x?}\n");
    show(&mut text, &outcome.report);
    text
}

/// All fields of a report, so that none is forgotten.
fn show(text: &mut String, report: &Report) {
    let Report {
        drive: _,
        seed: _,
        result_hash,
        requests,
        elapsed_ns,
        iops,
        read_bytes_per_s,
        write_bytes_per_s,
        latency_ns,
        latency_breakdown_ns,
        waf,
        effective_alpha,
        logical_pages,
        physical_pages,
        flash_operations,
        dedup,
        compression,
        utilisation,
        read_retries,
        energy_nj,
        erases,
        settled,
        lifetime,
        dram,
        events,
    } = report;
    let rates = (iops, read_bytes_per_s, write_bytes_per_s);
    let head = (result_hash, elapsed_ns, energy_nj, events);
    let pages = (logical_pages, physical_pages, effective_alpha);
    write!(
        text,
        "{head:?}\n{rates:?}\n{pages:?}\n{requests:?}\n{latency_ns:?}\n{latency_breakdown_ns:?}\n\
         {waf:?}\n{flash_operations:?}\n{dedup:?}\n{compression:?}\n{utilisation:?}\n\
         {read_retries:?}\n{erases:?}\n{settled:?}\n{lifetime:?}\n{dram:?}\n\n"
    )
    .unwrap();
}

/// Compares with the file of that name; `ONEFOLD_UPDATE=1` writes it instead.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "tests take from the environment what to write")]
pub fn holds(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/run/tests");
    let update = std::env::var_os("ONEFOLD_UPDATE").is_some();
    assert_text(&folder.join(name), text, update);
}
