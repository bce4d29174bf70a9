//! What figures are made of that are published: the reads of every family and workload, who is
//! compared with which settings, and all numbers of a run: as `published.txt` has them.
//! `ONEFOLD_UPDATE=1` writes that file anew; who changes it makes published figures wrong.

use std::fmt::Write as _;
use std::path::Path;

use onefold_block::kept_text::assert_text;
use onefold_cache::simulate::sampled_curves;
use onefold_cache::suite::rivals::{rivals, toll, untold};
use onefold_cache::suite::{Family, report, tuning};
use onefold_cache::trace::Trace;
use onefold_cache::workload::WorkloadSpec;
use onefold_cache::{Spec, simulate};

/// Its lengths, and a hash of all of it.
fn sum(trace: &Trace) -> String {
    let lengths = [trace.requests.len(), trace.files.len(), trace.containers()];
    let mut hash = crc32fast::Hasher::new();
    for access in &trace.requests {
        hash.update(&access.key.to_le_bytes());
        hash.update(&access.size.to_le_bytes());
    }
    for numbers in [&trace.wanted, &trace.files, &trace.references] {
        for number in numbers {
            hash.update(&number.to_le_bytes());
        }
    }
    let bytes = [trace.data_bytes, trace.bytes()];
    format!("{lengths:?} {bytes:?} {:08x}", hash.finalize())
}

fn suite(told: &mut String) {
    for (what, families) in [("for tuning", tuning()), ("for the report", report())] {
        writeln!(told, "\n## families {what}, of 300 objects\n").unwrap();
        for family in families {
            let few = Family { objects: 300, reads: family.reads / 4.0, ..family };
            writeln!(told, "{family:?}: {}", sum(&few.trace(5))).unwrap();
        }
    }
    writeln!(told, "\n## who is compared\n").unwrap();
    for contender in rivals().into_iter().chain([toll(2.0, 32.5), untold()]) {
        writeln!(told, "{}: {:#?}", contender.name, contender.settings).unwrap();
    }
}

fn workloads() -> [(&'static str, WorkloadSpec); 5] {
    let plain = WorkloadSpec { data_mib: 100, read_gib: 1.0, ..WorkloadSpec::default() };
    [
        ("plain", plain),
        ("small containers", WorkloadSpec { container_kib: 100, sharing: 1.0, ..plain }),
        ("shared by Zipf", WorkloadSpec { sharing_exponent: 1.0, zipf_exponent: 1.2, ..plain }),
        ("drift", WorkloadSpec { drift_steps: 3, drift_share: 0.4, seed: 7, ..plain }),
        ("scans", WorkloadSpec { scan_every: 5, scan_share: 0.1, file_kib: 300, ..plain }),
    ]
}

fn runs(told: &mut String) {
    writeln!(told, "\n## workloads, and runs of them").unwrap();
    let policies = ["lru", "w-tinylfu:memory=1,window=0.3", "larc", "toll:hits=0.1", "static"];
    for (name, workload) in workloads() {
        let mut spec = Spec::new();
        spec.policies = policies.map(str::to_owned).to_vec();
        (spec.workload, spec.run.threads) = (workload, 1);
        (spec.ssd.buffer_kib, spec.quadrants.access_threshold) = (4_096, 6);
        let trace = workload.trace().unwrap();
        writeln!(told, "\n{name}: {}", sum(&trace)).unwrap();
        let plan = spec.plan().unwrap();
        let outcomes = simulate(&trace, &plan).unwrap();
        for run in &outcomes.runs {
            let shares = run.quadrants.shares();
            writeln!(told, "{} {shares:?}", serde_json::to_string(run).unwrap()).unwrap();
        }
        for point in sampled_curves(&trace, &plan, 3).unwrap() {
            writeln!(told, "{}", serde_json::to_string(&point).unwrap()).unwrap();
        }
        writeln!(told, "{} {}", outcomes.reads_per_container, outcomes.result_hash).unwrap();
    }
}

#[test]
fn what_figures_are_made_of_is_what_it_was() {
    let mut told = format!("## settings\n\n{}", Spec::commented());
    suite(&mut told);
    runs(&mut told);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/published.txt");
    assert_text(&path, &told, std::env::var_os("ONEFOLD_UPDATE").is_some());
}
