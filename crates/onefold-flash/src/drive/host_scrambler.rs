//! The host side of `ses-host`: the software scrambler between the host and the emulated drive.
//! Room: onefold-flash.   In: pages of the host.   Out: pages as they cross to the drive, and back.
//! Source: [ses-dedup] sec. III, fig. 3: what the host scrambles with the page's seed, the drive's
//! scrambler undoes, and plain data lies on flash with the parity of plain data.
//! Invariants: a page is undone as it was sent, whatever the host wants by now, because the drive
//! keeps the request's word in the page's out-of-band area and gives it back with the page.

use onefold_code::{PageAddress, Scrambler, ScramblerSpec, SeedSource};

use super::error::DriveError;
use crate::dedup::{Wanted, host_wants};
use crate::spec::DriveSpec;

/// A copy of the drive's scrambler in the host's hands, as recovered from a dump.
#[derive(Debug)]
pub struct HostScrambler {
    scrambler: Scrambler,
    /// What the host scrambles ahead; `None` unless the drive deduplicates by plain data on flash.
    wanted: Option<Wanted>,
}

impl HostScrambler {
    /// The host side of a drive; `None` where there is nothing that a host could undo, as the
    /// drive has no scrambler or one with seeds that no host knows.
    ///
    /// # Errors
    /// [`DriveError::Policy`], [`DriveError::Code`].
    pub fn new(spec: &DriveSpec) -> Result<Option<Self>, DriveError> {
        let wanted = host_wants(&spec.dedup.policy, &spec.dedup.options)?;
        let Some(scrambler) = spec.channel()?.scrambler else { return Ok(None) };
        if scrambler.seed_source != SeedSource::Lba {
            return Ok(None);
        }
        let scrambler = ScramblerSpec::compile(&scrambler)?;
        Ok(Some(Self { scrambler, wanted }))
    }

    /// Whether a page is sent scrambled ahead, whatever the request says or does not say of it.
    pub(super) fn wants(&self, lpn: u32, request: Option<bool>) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.has(lpn, request))
    }

    /// Scrambles a page as the drive is going to, or undoes that: the two are the same.
    pub(super) fn apply(&self, lpn: u32, page: &mut [u8]) {
        self.scrambler
            .scramble(&PageAddress::of(u64::from(lpn)), page)
            .expect("the drive has checked that its scrambler covers all its pages");
    }
}
