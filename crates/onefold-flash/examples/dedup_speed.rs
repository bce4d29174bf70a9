//! What deduplication policies cost the simulation: random writes to a full drive of identities.
//! Room: onefold-flash.
//! `cargo run --release -p onefold-flash --example dedup_speed [ROUNDS] [POLICY...]`: writes a CPU
//! second and their ratio to no deduplication in the same round, medians of interleaved rounds:
//! written one by one without time, announced some at a time without time, and in timed runs.

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]
#![expect(clippy::print_stdout, reason = "a tool for people")]

use onefold_block::SplitMix64;
use onefold_flash::dedup::{AnyPolicy, Identities, POLICIES, Site};
use onefold_flash::nand::{Identity, IdentityNand};
use onefold_flash::run::{Completion, RunOptions, run};
use onefold_flash::spec::SpecBuilder;
use onefold_flash::{Ftl, FtlSettings, Geometry, Untimed};
use onefold_workload::{Identity as Content, Op, Request};

const GEOMETRY: Geometry = Geometry {
    channels: 8,
    packages: 8,
    dies_per_package: 1,
    planes_per_die: 8,
    blocks_per_plane: 64,
    pages_per_block: 256,
    page_bytes: 8192,
    oob_bytes: 320,
};
const WRITES: u64 = 1_000_000;
const ANNOUNCED: usize = 32;
const MODES: [&str; 3] = ["one by one", "announced", "timed"];

/// CPU time of this thread in seconds.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux says so");
    let ns: u64 = text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("a number");
    ns as f64 / 1e9
}

/// Contents of which one in so many of 100 is one of 5,000 that come again.
struct Contents {
    random: SplitMix64,
    fresh: u64,
    duplicates: u64,
}

impl Contents {
    fn new(duplicates: u64) -> Self {
        Self { random: SplitMix64::new(1), fresh: 1 << 40, duplicates }
    }

    fn next(&mut self) -> u128 {
        self.fresh += 1;
        let again = self.random.below(100) < self.duplicates;
        let number = if again { self.random.below(5000) } else { self.fresh };
        let mut mixed = SplitMix64::new(number);
        u128::from(mixed.next_u64()) << 64 | u128::from(mixed.next_u64())
    }
}

/// Writes a second and write amplification after the drive was filled, without time.
fn untimed(name: &str, duplicates: u64, announce: bool) -> (f64, f64) {
    let site = Site::new(GEOMETRY, None);
    let policy = AnyPolicy::new::<Identity>(name, &toml::Table::new(), &site, Identities);
    let logical_pages = GEOMETRY.pages() / 100 * 80;
    let settings = FtlSettings { logical_pages, ..FtlSettings::default() };
    let policy = policy.expect("defaults are accepted");
    let mut ftl = Ftl::format(IdentityNand::new(GEOMETRY), policy, settings).expect("fits");
    let mut contents = Contents::new(duplicates);
    for lpn in 0..logical_pages {
        ftl.write(lpn, &Identity(contents.next()), &mut Untimed).expect("written");
    }
    let mut places = SplitMix64::new(2);
    let before = *ftl.counters();
    let mut writes = Vec::with_capacity(ANNOUNCED);
    let begin = cpu_seconds();
    for _ in 0..WRITES / ANNOUNCED as u64 {
        writes.clear();
        for _ in 0..ANNOUNCED {
            let lpn = places.below(u64::from(logical_pages)) as u32;
            writes.push((lpn, Identity(contents.next())));
        }
        if announce {
            ftl.announce_writes(&writes);
        }
        for (lpn, page) in &writes {
            ftl.write(*lpn, page, &mut Untimed).expect("written");
        }
    }
    let rate = WRITES as f64 / (cpu_seconds() - begin);
    (rate, ftl.counters().since(&before).waf(None))
}

/// The same in a timed run, from the first answer to the last.
fn timed(name: &str, duplicates: u64) -> (f64, f64) {
    let policy = format!("dedup.policy={name}");
    let assignments = [
        "blocks_per_plane=64",
        "over_provisioning=0.25",
        "gc_reserve_blocks=4",
        "dram_bytes=68719476736",
        "precondition=steady",
        "workload.trace_timing=closed",
        &policy,
    ];
    let builder = SpecBuilder::preset("ses-slc").expect("a preset");
    let spec = (assignments.iter().try_fold(builder, |builder, text| builder.set(text)))
        .and_then(SpecBuilder::build)
        .expect("a drive");
    let pages = u64::from(spec.logical_pages());
    let bytes = u64::from(spec.geometry.page_bytes);
    let (mut contents, mut places) = (Contents::new(duplicates), SplitMix64::new(2));
    let requests = (0..WRITES).map(move |_| {
        Ok(Request {
            time_ns: 0,
            op: Op::Write,
            offset: places.below(pages) * bytes,
            length: bytes,
            identity: Some(Content::from_bytes(contents.next().to_le_bytes())),
            stream: None,
            pid: None,
            deduplicate: None,
        })
    });
    let (mut begin, mut end, mut answers) = (0.0, 0.0, 0);
    let mut watch = |_: &Completion| {
        answers += 1;
        if answers == 1 {
            begin = cpu_seconds();
        }
        if answers == WRITES {
            end = cpu_seconds();
        }
        Ok(())
    };
    let options = RunOptions {
        trace: Some(Box::new(requests)),
        observer: Some(&mut watch),
        ..RunOptions::default()
    };
    let report = run(&spec, options).expect("runs").report;
    (WRITES as f64 / (end - begin), report.waf.total.unwrap_or(0.0))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rounds = arguments.first().map_or(5, |rounds| rounds.parse().expect("ROUNDS is a number"));
    let wanted = |name: &str| name == "none" || arguments[1..].iter().any(|one| one == name);
    let all = arguments.len() < 2;
    let names: Vec<&str> =
        POLICIES.iter().map(|info| info.name).filter(|name| all || wanted(name)).collect();
    for duplicates in [0, 30] {
        let mut results = vec![[const { Vec::new() }; 3]; names.len()];
        let mut ratios = vec![[const { Vec::new() }; 3]; names.len()];
        let mut wafs = vec![[0.0; 3]; names.len()];
        for _ in 0..rounds {
            for mode in 0..MODES.len() {
                let mut none = 0.0;
                for (at, name) in names.iter().enumerate() {
                    let (rate, waf) = match mode {
                        0 => untimed(name, duplicates, false),
                        1 => untimed(name, duplicates, true),
                        _ => timed(name, duplicates),
                    };
                    if at == 0 {
                        none = rate;
                    }
                    results[at][mode].push(rate);
                    ratios[at][mode].push(rate / none);
                    wafs[at][mode] = waf;
                }
            }
        }
        for (at, name) in names.iter().enumerate() {
            print!("{duplicates:2} % {name:17}");
            for (mode, text) in MODES.iter().enumerate() {
                let rate = median(&mut results[at][mode]) / 1e6;
                let ratio = median(&mut ratios[at][mode]);
                print!(" | {text} {rate:5.2} M/s, {ratio:.2} of none, WAF {:.2}", wafs[at][mode]);
            }
            println!();
        }
    }
}
