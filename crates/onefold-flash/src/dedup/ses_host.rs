//! `ses-host`: SES-Dedup with a software scrambler in the host.
//! Room: onefold-flash.   Source: seed 000 sec. III (host side) and IV.
//! 1. The host scrambles what it wants deduplicated as the drive is going to: the drive's own
//!    scrambler undoes it, plain data lands on flash, and the parity there is that of the data.
//! 2. So the host chooses: by ranges of logical pages (`lba_ranges`), or request by request
//!    ([`SesHost::set_request`]), for instance to keep the copies that a file system makes on
//!    purpose. Other pages stay scrambled and are never candidates.
//! 3. The drive computes nothing: see [`crate::dedup::ses`] for what follows.
//! 4. The host must know the seed: a drive that seeds from the physical page is refused.
//! 5. With a compression engine before the drive's scrambler the design is off, and the
//!    compressor's checksum, kept in the out-of-band area, is the fingerprint.

use onefold_code::SeedSource;

use crate::dedup::fingerprints::Fingerprinting;
use crate::dedup::options::{Kind, OptionInfo, Options, PolicyError};
use crate::dedup::registry::Site;
use crate::dedup::ses::{self, Ses};
use crate::dedup::{Look, Offline, Pair, Policy, Verdict};

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
        Kind::Word(&["none", "before-scrambler", "after-scrambler"]),
        "Where the drive compresses; before its scrambler, the compressor's checksum takes over",
    ),
];

/// The policy.
#[derive(Clone, Debug)]
pub struct SesHost<F> {
    fingerprints: F,
    ses: Ses,
    ranges: Vec<(u32, u32)>,
    /// The compressor's checksum is the fingerprint.
    checksum: bool,
    request: Option<bool>,
    last: u64,
}

impl<F> SesHost<F> {
    pub(crate) fn new(
        fingerprints: F,
        options: &Options,
        site: &Site,
    ) -> Result<Self, PolicyError> {
        let checksum = options.word("compression") == "before-scrambler";
        if !checksum {
            site.seed_source.unwrap_or(SeedSource::Lba).check_host_side().map_err(|error| {
                PolicyError::Impossible { policy: options.policy(), why: error.to_string() }
            })?;
        }
        Ok(Self {
            fingerprints,
            ses: Ses::new(options, site),
            ranges: options.ranges("lba_ranges"),
            checksum,
            request: None,
            last: 0,
        })
    }

    /// Whether pages written from now on are to be deduplicated, whatever their address; `None`
    /// goes by address again.
    pub fn set_request(&mut self, deduplicate: Option<bool>) {
        self.request = deduplicate;
    }

    fn wanted(&self, lpn: u32) -> bool {
        let in_range = || {
            self.ranges.is_empty()
                || self.ranges.iter().any(|&(first, last)| (first..=last).contains(&lpn))
        };
        self.request.unwrap_or_else(in_range)
    }
}

impl<Page, F: Fingerprinting<Page>> Policy<Page> for SesHost<F> {
    fn inspect(&mut self, lpn: u32, page: &Page, look: &mut impl Look) -> Verdict {
        self.last = if !self.wanted(lpn) {
            0
        } else if self.checksum {
            // Above the 32 bits of the checksum, so that it is never 0.
            u64::from(self.fingerprints.light(page)) | 1 << 32
        } else {
            self.fingerprints.plain_parity(page)
        };
        self.ses.inspect(lpn, self.last, look)
    }

    fn stored(&mut self, ppn: u32, tag: u64) {
        self.ses.stored(ppn, tag);
    }

    fn moved(&mut self, from: u32, to: u32, tag: u64) {
        self.ses.moved(from, to, tag);
    }

    fn died(&mut self, ppn: u32) {
        self.ses.died(ppn);
    }

    fn compared(&mut self, _candidate: u32, equal: bool) {
        self.ses.compared(self.last, equal);
    }

    fn next_offline(&mut self, look: &mut impl Look) -> Option<Offline> {
        self.ses.next_offline(look)
    }

    fn scanned(&mut self, _ppn: u32, _page: &Page, _look: &mut impl Look) {}

    fn tag_read(&mut self, ppn: u32, tag: u64) {
        self.ses.tag_read(ppn, tag);
    }

    fn settled(&mut self, _pair: Pair, merged: bool) {
        self.ses.settled(merged);
    }

    fn expect_write(&mut self, page: &Page) {
        if F::FREE {
            self.ses.expect(self.fingerprints.plain_parity(page));
        }
    }

    fn dram(&self) -> Vec<(&'static str, u64)> {
        self.ses.dram()
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        self.ses.report()
    }
}
