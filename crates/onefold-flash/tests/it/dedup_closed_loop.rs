//! Given time, inline and idle work together find what there is to find: the duplicate ratio of the
//! data, on a timed drive under a closed loop.
//! Room: onefold-flash.   Source: [ses-dedup] Table IV, whose rows add up to the ratio of the data.

use onefold_flash::run::{Report, RunOptions, run};
use onefold_flash::spec::SpecBuilder;

use crate::dedup_model::{CASES, is_exact};

/// SES-Dedup's packages, smaller; six requests outstanding with pauses between them.
const DRIVE: &str = "
precondition = 'prefill'
[geometry]
channels = 8
packages = 8
dies_per_package = 1
planes_per_die = 1
blocks_per_plane = 24
pages_per_block = 32
[timing]
parallel_unit = 'package'
[ftl]
over_provisioning = 0.4
allocation = 'idle-first'
[controller]
hash_ns = 100000
light_hash_ns = 1300
compare_ns = 1000
[workload]
pattern = 'sequential'
requests = 4000
queue_depth = 6
think_time = 'exponential'
think_time_ns = 100000
content = 'profile'
hot_fingerprint_ratio = 0.15
hot_share = 0.6
";

fn report(preset: &str, policy: (&str, &str), ratio: f64) -> Report {
    let text = format!(
        "preset = '{preset}'\n{DRIVE}duplicate_ratio = {ratio}\n[dedup]\npolicy = '{}'\n{}",
        policy.0, policy.1
    );
    let spec = SpecBuilder::preset("ses-slc").and_then(|builder| builder.file("drive", &text));
    let spec = spec.and_then(SpecBuilder::build).unwrap_or_else(|error| panic!("{error}"));
    run(&spec, RunOptions::default()).unwrap_or_else(|error| panic!("{policy:?}: {error}")).report
}

#[test]
fn what_is_found_inline_and_idle_adds_up_to_the_duplicates_of_the_data() {
    for (preset, ratio) in [("ses-slc", 0.1), ("ses-mlc2", 0.308), ("ses-mlc1", 0.5)] {
        let (mut inline_shares, mut expected) = (Vec::new(), None);
        let exact = CASES.iter().filter(|(name, options)| is_exact(name, options));
        for &(name, options) in exact {
            let got = report(preset, (name, options), ratio);
            let what = format!("{preset} {ratio} {name} {options:?}: {:?}", got.dedup);
            assert_eq!(got.dedup.missed_pages, Some(0), "{what}");
            // Every page is written once, so that each page found is a duplicate of the data.
            assert_eq!(got.requests.pages_written, 4000, "{what}");
            let found = got.dedup.inline_pages + got.dedup.offline_pages;
            assert_eq!(*expected.get_or_insert(found), found, "{what}");
            let share = found as f64 / 4000.0;
            assert!((share - ratio).abs() < 0.01, "{what}: {share}");
            inline_shares.push(got.dedup.inline_pages as f64 / found as f64);
        }
        // The loop is one in which the budget matters: some find all inline, some none, some both.
        println!("{preset}: {inline_shares:.2?}");
        assert!(inline_shares.contains(&1.0) && inline_shares.contains(&0.0), "{inline_shares:?}");
        assert!(inline_shares.iter().filter(|share| (0.2..0.9).contains(*share)).count() > 3);
    }
}
