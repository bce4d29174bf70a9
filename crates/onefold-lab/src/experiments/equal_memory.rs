//! Tables of different policies in the same memory.
//! Room: onefold-lab.
//! Invariant: a sized policy takes no more than the budget, if its smallest tables do.

use onefold_flash::dedup::{AnyPolicy, Identities, Policy};
use onefold_flash::nand::Identity as PageIdentity;
use onefold_flash::spec::DriveSpec;

/// How often the range in which a share lies is halved.
const HALVINGS: usize = 24;

/// Bytes of memory that a policy takes on this drive.
pub fn dram(spec: &DriveSpec, policy: &str, options: &str) -> u64 {
    let site = spec.site(None);
    let table = options.parse().expect("experiments write valid options");
    let policy = AnyPolicy::new::<PageIdentity>(policy, &table, &site, Identities)
        .expect("experiments write valid options");
    Policy::<PageIdentity>::dram(&policy).iter().map(|(_, bytes)| bytes).sum()
}

/// What a policy may have left for idle moments, of so many pages: one in a thousand, and some.
pub fn deferred_entries(pages: u64) -> u64 {
    (pages / 1000).max(16)
}

/// Options with the largest tables that keep a policy within `budget` bytes.
pub fn sized(
    spec: &DriveSpec,
    (policy, keys, options): (&str, &[&str], &str),
    budget: u64,
) -> String {
    let with = |share: f64| {
        let keys = keys.iter().map(|key| format!("\n{key} = {share:.9}"));
        keys.fold(options.to_owned(), |all, key| all + &key)
    };
    let (mut low, mut high) = (1e-6, 1.0);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        let fits = dram(spec, policy, &with(middle)) <= budget;
        *(if fits { &mut low } else { &mut high }) = middle;
    }
    if keys.is_empty() { options.to_owned() } else { with(low) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::drives::filled_once;

    #[test]
    fn tables_are_the_largest_that_take_no_more_than_the_budget() {
        let spec = filled_once("ses-slc", 1 << 16);
        let takes = |share: f64| dram(&spec, "ses-device", &format!("table_share = {share}"));
        let budget = takes(0.1);
        assert!(takes(0.101) > budget);
        let sized = |budget| sized(&spec, ("ses-device", &["table_share"], ""), budget);
        assert_eq!(dram(&spec, "ses-device", &sized(budget)), budget);
        assert!(dram(&spec, "ses-device", &sized(budget - 1)) < budget);
    }

    #[test]
    fn one_page_in_a_thousand_may_be_deferred_and_at_least_sixteen() {
        assert_eq!([1000, 16_999, 17_000].map(deferred_entries), [16, 16, 17]);
    }
}
