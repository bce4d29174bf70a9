//! `ses-host`: SES-Dedup with a software scrambler in the host.
//! Room: onefold-flash.   Source: [ses-dedup] sec. III (host side) and IV.
//! 1. The host scrambles what it wants deduplicated as the drive is going to: the drive's own
//!    scrambler undoes it, plain data lands on flash, and the parity there is that of the data.
//!    On a drive of bytes that is done by [`crate::drive`]'s host side; identities stand for it.
//! 2. So the host chooses: by ranges of logical pages (`lba_ranges`), or request by request
//!    ([`Prepared::asked`]), for instance to keep the copies that a file system makes on
//!    purpose. Other pages stay scrambled and are never candidates.
//! 3. The drive computes nothing: see [`crate::dedup::ses`] for what follows.
//! 4. The host must know the seed: a drive that seeds from the physical page is refused.
//! 5. With a compression engine before the drive's scrambler the design is off, and the
//!    compressor's checksum, kept in the out-of-band area, is the fingerprint.
//!
//! [`Prepared::asked`]: crate::dedup::Prepared::asked

use onefold_code::SeedSource;

use crate::dedup::engine::Engine;
use crate::dedup::fingerprints::Fingerprinting;
use crate::dedup::info::PolicyInfo;
use crate::dedup::options::{Kind, OptionInfo, Options, PolicyError};
use crate::dedup::ses::{self, Design, Ses};
use crate::dedup::site::Site;
use crate::dedup::wanted::Wanted;

pub(crate) const OPTIONS: &[OptionInfo] = &[
    ses::TABLE_SHARE,
    ses::RETENTION,
    ses::INLINE,
    ses::OFFLINE,
    ses::SCRATCH_SHARE,
    ses::DEFERRED,
    ses::TRUNCATION,
    OptionInfo::new(
        "lba_ranges",
        Kind::Ranges,
        "Logical pages that the host scrambles ahead; an empty list is all of them",
    ),
    OptionInfo::new(
        "compression",
        Kind::Word(Engine::NAMES),
        "Where the drive compresses; before its scrambler, the host's is off and the compressor's \
         checksum is the fingerprint",
    ),
    ses::COUNT_CODEWORDS,
];

/// What there is to know of it.
pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: "ses-host",
    summary: "inline and idle, by parity of plain data that the host scrambled ahead",
    source: "SES-Dedup (MSST 2019) sec. III",
    options: OPTIONS,
    apart: false,
    awaits: None,
    wants: Some(wants),
    refuses: Some(refuses),
};

/// Makes the policy.
pub(crate) fn make<F>(f: F, options: &Options, site: &Site) -> SesHost<F> {
    Ses::new(HostSide::new(f, options), options, site)
}

/// Why the design cannot work: the host must know the seed.
fn refuses(options: &Options, site: &Site) -> Option<PolicyError> {
    if !scrambles(options) {
        return None;
    }
    let checked = site.seed_source.unwrap_or(SeedSource::Lba).check_host_side();
    let why = checked.err()?.to_string();
    Some(PolicyError::Impossible { policy: options.policy(), why })
}

/// What the host scrambles ahead; nothing where its scrambler is not at work.
fn wants(options: &Options) -> Option<Wanted> {
    scrambles(options).then(|| Wanted::new(options))
}

/// The policy.
pub type SesHost<F> = Ses<HostSide<F>>;

/// Whether the host's scrambler is at work, which it is not ahead of a compression engine.
fn scrambles(options: &Options) -> bool {
    Engine::of(options) != Engine::BeforeScrambler
}

/// The host-side design: fingerprints of plain data on flash.
#[derive(Clone, Debug)]
pub struct HostSide<F> {
    fingerprints: F,
    wanted: Wanted,
    /// The compressor's checksum is the fingerprint.
    checksum: bool,
}

impl<F> HostSide<F> {
    fn new(fingerprints: F, options: &Options) -> Self {
        Self { fingerprints, wanted: Wanted::new(options), checksum: !scrambles(options) }
    }
}

impl<Page, F: Fingerprinting<Page>> Design<Page> for HostSide<F> {
    fn fingerprint(&mut self, lpn: u32, page: &Page, request: Option<bool>) -> u64 {
        if !self.wanted.has(lpn, request) {
            0
        } else if self.checksum {
            // Above the 32 bits of the checksum, so that it is never 0.
            u64::from(self.fingerprints.light(page)) | 1 << 32
        } else {
            self.fingerprints.plain_parity(page)
        }
    }

    fn codewords(&mut self, page: &Page, each: &mut dyn FnMut(u128)) {
        self.fingerprints.codewords(page, each);
    }

    fn foreseen(&mut self, page: &Page) -> Option<u64> {
        F::FREE.then(|| self.fingerprints.plain_parity(page))
    }
}
