//! Presets as they are shipped: every policy on every drive.
//! Room: onefold-flash.

use onefold_flash::DriveSpec;
use onefold_flash::dedup::POLICIES;
use onefold_flash::run::{RunOptions, run};
use onefold_flash::spec::{ContentKind, PRESET_NAMES, Precondition, SpecBuilder};

use crate::support;

fn short(preset: &str, set: &[String]) -> DriveSpec {
    let builder = SpecBuilder::preset(preset).expect("a preset of the list");
    let with = |builder: SpecBuilder, set: &String| builder.set(set);
    let spec = set.iter().try_fold(builder, with).and_then(SpecBuilder::build);
    let mut spec = spec.unwrap_or_else(|error| panic!("{preset} {set:?}: {error}"));
    // What is refused is refused before the first request.
    spec.precondition = Precondition::None;
    spec.workload.requests = 64;
    spec.workload.content = ContentKind::Unique;
    spec.workload.finish_offline = false;
    spec
}

#[test]
fn every_policy_runs_on_every_preset_at_once_or_as_its_refusal_says() {
    let mut refused = Vec::new();
    for preset in PRESET_NAMES {
        for policy in POLICIES {
            // The tables of a map of codewords of such drives would take gigabytes.
            let page_bytes = DriveSpec::preset(preset).expect("listed").geometry.page_bytes;
            let mut set = support::of_pages(policy.name, page_bytes);
            let mut outcome = run(&short(preset, &set), RunOptions::default());
            // One refusal for the space, and one for the memory.
            for _ in 0..2 {
                let Err(error) = &outcome else { break };
                let remedy = error.remedy(&short(preset, &set));
                set.push(remedy.unwrap_or_else(|| panic!("{preset} {set:?}: {error}")));
                refused.push((preset, policy.name));
                outcome = run(&short(preset, &set), RunOptions::default());
            }
            let report = outcome.unwrap_or_else(|error| panic!("{preset} {set:?}: {error}")).report;
            assert_eq!(report.requests.completed, 64, "{preset} {set:?}");
            assert_eq!(report.dedup.policy, policy.name);
        }
    }
    println!("{refused:?}");
    // What a paper says runs in the memory that the paper has.
    for (preset, policies) in [
        ("ses-slc", &["none", "ses-host", "ses-device", "gleaner"][..]),
        ("ses-paper", &["ses-host", "ses-device"]),
        ("park-shin", &["none"]),
        ("park-shin-paper", &["crc-compare"]),
    ] {
        for policy in policies {
            assert!(!refused.contains(&(preset, policy)), "{policy} on {preset}");
        }
    }
}
