//! What the software scrambler takes of the host: cores of its own, as `ses-host` needs them.
//! Room: onefold-flash.   In: pages that cross to the drive, and back.   Out: when they are done.
//! Source: [ses-dedup] sec. III: the host scrambles ahead what the drive's scrambler is to undo; a
//! page that was sent so has to be undone again when it is read.
//! Invariant: a page is undone if and only if its last writer scrambled it.

use crate::controller::{ServerUsage, Servers, transfer_ns};
use crate::dedup::{PolicyError, Wanted, host_wants};
use crate::spec::DriveSpec;

/// The cores, and which pages are theirs.
#[derive(Clone, Debug)]
pub(crate) struct HostScrambler {
    cores: Servers,
    mb_per_s: u64,
    page_bytes: u64,
    wanted: Wanted,
    /// Whether the last writer of a logical page scrambled it.
    scrambled: Vec<bool>,
}

impl HostScrambler {
    /// The host side of a drive; nothing where the host scrambles nothing, or takes no time for it.
    pub(crate) fn new(spec: &DriveSpec) -> Result<Option<Self>, PolicyError> {
        let Some(wanted) = host_wants(&spec.dedup.policy, &spec.dedup.options)? else {
            return Ok(None);
        };
        let mb_per_s = spec.host.scrambler_mb_per_s;
        Ok((mb_per_s > 0).then(|| Self {
            cores: Servers::new(spec.host.scrambler_cores),
            mb_per_s,
            page_bytes: u64::from(spec.geometry.page_bytes),
            // What was there before went by address.
            scrambled: (0..spec.logical_pages()).map(|lpn| wanted.has(lpn, None)).collect(),
            wanted,
        }))
    }

    /// Pages about to be written are scrambled; when that is done.
    pub(crate) fn write(
        &mut self,
        now: u64,
        lpns: impl Iterator<Item = u32>,
        asked: Option<bool>,
    ) -> u64 {
        let mut pages = 0;
        for lpn in lpns {
            let wanted = self.wanted.has(lpn, asked);
            self.scrambled[lpn as usize] = wanted;
            pages += u64::from(wanted);
        }
        self.work(now, pages)
    }

    /// Pages that were read are undone; when that is done.
    pub(crate) fn read(&mut self, now: u64, lpns: impl Iterator<Item = u32>) -> u64 {
        let pages = lpns.filter(|&lpn| self.scrambled[lpn as usize]).count() as u64;
        self.work(now, pages)
    }

    fn work(&mut self, now: u64, pages: u64) -> u64 {
        match pages {
            0 => now,
            pages => self.cores.serve(now, transfer_ns(pages * self.page_bytes, self.mb_per_s)),
        }
    }

    /// The account of the cores up to `now`.
    pub(crate) fn usage(&self, now: u64) -> ServerUsage {
        ServerUsage::of(&[&self.cores], "host_scrambler", now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SpecBuilder;

    #[test]
    fn cores_that_take_time_are_told_from_those_that_take_none() {
        let of = |policy: &str, mb_per_s: u64| {
            let set = [format!("policy={policy}"), format!("scrambler_mb_per_s={mb_per_s}")];
            let builder = SpecBuilder::preset("ses-slc").expect("a preset");
            let spec = set.iter().try_fold(builder, |builder, one| builder.set(one));
            let spec = spec.and_then(SpecBuilder::build).expect("a drive");
            HostScrambler::new(&spec).expect("a policy").map(|cores| (cores, spec))
        };
        assert!(of("ses-host", 0).is_none() && of("crc-compare", 1).is_none());
        let (mut cores, spec) = of("ses-host", 1).expect("they take time");
        // A byte in a microsecond; what was there before is undone as well.
        let page_ns = u64::from(spec.geometry.page_bytes) * 1_000;
        assert_eq!(cores.write(7, 3..5, Some(false)), 7, "kept as they are");
        assert_eq!(cores.read(7, 0..5), 7 + 3 * page_ns);
        assert_eq!(cores.usage(7 + 3 * page_ns).jobs, 1);
        let last = spec.logical_pages() - 1;
        assert_eq!(cores.read(7, last..=last), 7 + 4 * page_ns);
    }
}
