//! Tables and the controller's memory: what policies take is named, can be chosen, and is refused
//! where it does not fit.
//! Room: onefold-flash.

use onefold_flash::Geometry;
use onefold_flash::dedup::{
    AnyPolicy, Identities, Kind, POLICIES, Policy, PolicyInfo, Site, policy_info,
};
use onefold_flash::nand::Identity;
use onefold_flash::run::{Report, RunError, RunOptions, run};
use onefold_flash::spec::SpecBuilder;
use toml::Table;

/// A sixteenth of SES-Dedup's drive.
const GEOMETRY: Geometry = Geometry {
    channels: 8,
    packages: 8,
    dies_per_package: 1,
    planes_per_die: 8,
    blocks_per_plane: 16,
    pages_per_block: 256,
    page_bytes: 8192,
    oob_bytes: 320,
};

fn memory(name: &str, options: &Table) -> u64 {
    let site = Site::new(GEOMETRY, None);
    let policy = AnyPolicy::new::<Identity>(name, options, &site, Identities).expect("accepted");
    Policy::<Identity>::dram(&policy).iter().map(|(_, bytes)| bytes).sum()
}

/// Options with all tables at a share of their defaults, in thousandths.
fn sized(info: &PolicyInfo, more: &str, thousandths: u32) -> Table {
    let mut options: Table = more.parse().expect("TOML");
    for option in info.options {
        if let Kind::Share(default) | Kind::Multiple(default) = option.kind {
            let share = default * f64::from(thousandths) / 1000.0;
            options.insert(option.key.to_owned(), share.into());
        }
    }
    options
}

#[test]
fn every_policy_can_be_given_the_same_memory() {
    let budget = memory("ses-device", &Table::new());
    for info in POLICIES {
        for more in ["", "prehash = true", "hash = 'sha1'", "inline = false"] {
            let options: Table = more.parse().expect("TOML");
            let known = |key: &String| info.options.iter().any(|option| option.key == key);
            if !options.keys().all(known) {
                continue;
            }
            let fits =
                |thousandths: &u32| memory(info.name, &sized(info, more, *thousandths)) <= budget;
            let most = (1..=1000).rev().find(fits);
            let most = most.unwrap_or_else(|| panic!("{} {more:?} cannot", info.name));
            let used = memory(info.name, &sized(info, more, most));
            println!("{} {more:?}: {most} thousandths, {used} of {budget}", info.name);
            // What it is given it uses, in steps of its smallest table.
            assert!(most == 1000 || used as f64 > 0.98 * budget as f64, "{}: {used}", info.name);
            assert!(most > 25, "{} is left with {most} thousandths of its tables", info.name);
        }
    }
}

fn report(policy: &str, dram: u64, share: &str) -> Result<Report, RunError> {
    // A page is answered when it is in the flash.
    let grain = if policy == "codeword" { "codeword_bytes = 8192" } else { "" };
    let text = format!(
        "[geometry]\nblocks_per_plane = 16\npages_per_block = 32\n[ftl]\nover_provisioning = 1.0\n\
         [controller]\ndram_bytes = {dram}\n[workload]\nrequests = 500\ncontent = 'desktop4'\n\
         [dedup]\npolicy = '{policy}'\n{grain}\n{share}"
    );
    let spec = SpecBuilder::preset("ses-slc").and_then(|builder| builder.file("drive", &text));
    let spec = spec.and_then(SpecBuilder::build).unwrap_or_else(|error| panic!("{error}"));
    run(&spec, RunOptions::default()).map(|outcome| outcome.report)
}

#[test]
fn tables_are_listed_in_the_report_and_refused_where_they_do_not_fit() {
    for info in POLICIES {
        let whole = report(info.name, 1 << 30, "").expect("there is room").dram;
        let sum: u64 = whole.items.iter().map(|item| item.bytes).sum();
        assert_eq!((whole.used_bytes, whole.budget_bytes), (sum, 1 << 30));
        assert!(report(info.name, whole.used_bytes, "").is_ok(), "{}: to the byte", info.name);
        let refused = report(info.name, whole.used_bytes - 1, "").expect_err("a byte too much");
        let said = refused.to_string();
        assert!(matches!(refused, RunError::Dram { .. }), "{said}");
        for item in &whole.items {
            assert!(said.contains(&format!("{} ({} bytes)", item.name, item.bytes)), "{said}");
        }
        let mut shares = policy_info(info.name).expect("listed").options.iter();
        let sized = |kind| matches!(kind, Kind::Share(_) | Kind::Multiple(_));
        let Some(table) = shares.find(|option| sized(option.kind)) else {
            assert!(!said.contains("less with"), "{said}");
            continue;
        };
        assert!(said.contains(&format!("; less with dedup.{}", table.key)), "{said}");
        // The advice helps.
        let smaller = format!("{} = 0.01", table.key);
        report(info.name, whole.used_bytes - 1, &smaller).expect("there is room now");
    }
}
