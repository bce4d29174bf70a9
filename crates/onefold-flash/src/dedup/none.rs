//! No deduplication: the baseline.
//! Room: onefold-flash.

use crate::dedup::info::PolicyInfo;
use crate::dedup::options::Options;
use crate::dedup::site::Site;
use crate::dedup::{Look, Offline, Pair, Policy, Prepared, Verdict};

/// What there is to know of it.
pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "none",
    summary: "the baseline",
    source: "",
    options: &[],
    apart: false,
    awaits: Some(&[]),
    wants: None,
    refuses: None,
};

/// Makes the policy.
pub(crate) fn make<F>(_: F, _: &Options, _: &Site) -> NoDedup {
    NoDedup
}

/// Programs every page.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDedup;

impl<Page> Policy<Page> for NoDedup {
    fn decide(
        &mut self,
        _lpn: u32,
        _page: &Page,
        _prepared: Prepared,
        _look: &mut impl Look,
    ) -> Verdict {
        Verdict::Program { tag: 0, apart: false }
    }

    fn stored(&mut self, _ppn: u32, _tag: u64) {}

    fn moved(&mut self, _from: u32, _to: u32, _tag: u64) {}

    fn died(&mut self, _ppn: u32) {}

    fn compared(&mut self, _candidate: u32, _equal: bool) {}

    fn next_offline(&mut self, _look: &mut impl Look) -> Option<Offline> {
        None
    }

    fn scanned(&mut self, _ppn: u32, _page: &Page, _look: &mut impl Look) {}

    fn settled(&mut self, _pair: Pair, _merged: bool) {}

    fn dram(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
