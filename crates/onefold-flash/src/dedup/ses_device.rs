//! `ses-device`: SES-Dedup inside the drive, by parity corrected for the scrambler.
//! Room: onefold-flash.   Source: seed 000 sec. III (device side), seed 001.
//! 1. The drive scrambles a page with the seed of its logical page and encodes it, as always.
//! 2. Parity is linear: taking the scrambler's own parity out leaves the parity of the data. The
//!    controller needs time for that (`correction`).
//! 3. Eight bytes of it are the fingerprint: see [`crate::dedup::ses`] for what follows.
//! 4. A shared page is descrambled with its first writer's seed, which is kept in the out-of-band
//!    area and moves along; a drive that seeds from the physical page encodes moved pages anew.
//! 5. A compression engine before or after the scrambler changes nothing.

use crate::dedup::fingerprints::{Fingerprinting, mix64};
use crate::dedup::options::{Kind, OptionInfo, Options};
use crate::dedup::registry::Site;
use crate::dedup::ses::{self, Ses};
use crate::dedup::{Look, Offline, Pair, Policy, Verdict};
use crate::op::Work;

pub(crate) const OPTIONS: &[OptionInfo] = &[
    ses::TABLE_SHARE,
    ses::RETENTION,
    ses::INLINE,
    ses::OFFLINE,
    ses::SCRATCH_SHARE,
    ses::DEFERRED,
    ses::TRUNCATION,
    OptionInfo::new(
        "correction",
        Kind::Word(&["recompute", "hidden"]),
        "Whether the controller takes time to correct parity (SES-Dedup: 14.5 us), or none",
    ),
    OptionInfo::new(
        "count_codewords",
        Kind::Switch(false),
        "Whether to count duplicates by codeword too (real bytes only; 16 MiB of the host)",
    ),
];

/// Codewords told apart by the counter: two bits each in a table of this many places.
const PLACES_LOG2: u32 = 24;

/// Counts what deduplication by codeword would find: the papers' future work.
#[derive(Clone, Debug)]
struct CodewordCounter {
    /// 8 bits of fingerprint each, 0 for none: 1 in 255 of new codewords in a used place is
    /// mistaken for a repeated one.
    seen: Vec<u8>,
    codewords: u64,
    repeated: u64,
}

impl CodewordCounter {
    fn count(&mut self, fingerprint: u64) {
        let mixed = mix64(fingerprint);
        let place = &mut self.seen[(mixed >> (64 - PLACES_LOG2)) as usize];
        let sign = (mixed as u8).max(1);
        self.codewords += 1;
        self.repeated += u64::from(*place == sign);
        *place = sign;
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub struct SesDevice<F> {
    fingerprints: F,
    ses: Ses,
    recompute: bool,
    counter: Option<CodewordCounter>,
    last: u64,
}

impl<F> SesDevice<F> {
    pub(crate) fn new(fingerprints: F, options: &Options, site: &Site) -> Self {
        let counter = options.switch("count_codewords").then(|| CodewordCounter {
            seen: vec![0; 1 << PLACES_LOG2],
            codewords: 0,
            repeated: 0,
        });
        Self {
            fingerprints,
            ses: Ses::new(options, site),
            recompute: options.word("correction") == "recompute",
            counter,
            last: 0,
        }
    }
}

impl<Page, F: Fingerprinting<Page>> Policy<Page> for SesDevice<F> {
    fn inspect(&mut self, lpn: u32, page: &Page, look: &mut impl Look) -> Verdict {
        if self.recompute {
            look.work(Work::ParityCorrection);
        }
        if let Some(counter) = &mut self.counter {
            self.fingerprints.codewords(page, &mut |codeword| counter.count(codeword));
        }
        self.last = self.fingerprints.parity(lpn, page);
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
        let mut all = self.ses.report();
        if let Some(counter) = &self.counter {
            all.push(("codewords_seen", counter.codewords));
            all.push(("codewords_repeated", counter.repeated));
        }
        all
    }
}
