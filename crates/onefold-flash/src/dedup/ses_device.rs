//! `ses-device`: SES-Dedup inside the drive, by parity corrected for the scrambler.
//! Room: onefold-flash.   Source: [ses-dedup] sec. III (device side), [ses-talk].
//! 1. The drive scrambles a page with the seed of its logical page and encodes it, as always.
//! 2. Parity is linear: taking the scrambler's own parity out leaves the parity of the data. The
//!    controller needs time for that (`correction`); a page for which it would take too long
//!    (`budget_us`) is left to the offline pass.
//! 3. Eight bytes of it are the fingerprint: see [`crate::dedup::ses`] for what follows.
//! 4. A shared page is descrambled with its first writer's seed, which is kept in the out-of-band
//!    area and moves along; a drive that seeds from the physical page encodes moved pages anew.
//! 5. A compression engine before the scrambler changes what the parity is of, and nothing else:
//!    equal pages are compressed to equal ones. One behind it puts out what differs with every
//!    address, so the controller takes the parity of what goes in.

use crate::dedup::Look;
use crate::dedup::engine::Engine;
use crate::dedup::fingerprints::Fingerprinting;
use crate::dedup::info::PolicyInfo;
use crate::dedup::options::{Kind, OptionInfo, Options};
use crate::dedup::ses::{self, Design, Ses};
use crate::dedup::site::Site;
use crate::op::Work;

pub(crate) const OPTIONS: &[OptionInfo] = &[
    ses::TABLE_SHARE,
    ses::RETENTION,
    ses::INLINE,
    ses::OFFLINE,
    ses::SCRATCH_SHARE,
    ses::DEFERRED,
    ses::TRUNCATION,
    ses::BUDGET_US,
    OptionInfo::new(
        "correction",
        Kind::Word(&["recompute", "hidden"]),
        "Whether the controller takes time to correct parity (SES-Dedup: 14.5 us), or none",
    ),
    OptionInfo::new(
        "compression",
        Kind::Word(Engine::NAMES),
        "Where the drive compresses; what is found is the same",
    ),
    ses::COUNT_CODEWORDS,
];

/// What there is to know of it.
pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "ses-device",
    summary: "inline and idle, by parity corrected for the scrambler",
    source: "SES-Dedup (MSST 2019) sec. III",
    options: OPTIONS,
    apart: false,
    awaits: None,
    wants: None,
    refuses: None,
};

/// Makes the policy.
pub(crate) fn make<F>(f: F, options: &Options, site: &Site) -> SesDevice<F> {
    Ses::new(DeviceSide::new(f, options), options, site)
}

/// The policy.
pub type SesDevice<F> = Ses<DeviceSide<F>>;

/// The device-side design: fingerprints of parity corrected for the scrambler.
#[derive(Clone, Debug)]
pub struct DeviceSide<F> {
    fingerprints: F,
    recompute: bool,
    /// 0 for no limit.
    budget_ns: u64,
}

impl<F> DeviceSide<F> {
    pub(crate) fn new(fingerprints: F, options: &Options) -> Self {
        Self {
            fingerprints,
            recompute: options.word("correction") == "recompute",
            budget_ns: options.count("budget_us") * 1000,
        }
    }
}

impl<Page, F: Fingerprinting<Page>> Design<Page> for DeviceSide<F> {
    fn fingerprint(&mut self, lpn: u32, page: &Page, _request: Option<bool>) -> u64 {
        self.fingerprints.parity(lpn, page)
    }

    fn work(&self) -> Option<Work> {
        self.recompute.then_some(Work::ParityCorrection)
    }

    fn is_late(&self, look: &impl Look) -> bool {
        self.recompute
            && self.budget_ns > 0
            && look.work_ns(Work::ParityCorrection) > self.budget_ns
    }

    fn codewords(&mut self, page: &Page, each: &mut dyn FnMut(u128)) {
        self.fingerprints.codewords(page, each);
    }

    fn foreseen(&mut self, page: &Page) -> Option<u64> {
        F::FREE.then(|| self.fingerprints.plain_parity(page))
    }
}
