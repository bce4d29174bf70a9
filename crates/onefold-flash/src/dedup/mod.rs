//! In-drive deduplication: a policy looks at pages and answers; it never moves data.
//! Room: onefold-flash.   In: pages about to be written, idle moments.   Out: `Verdict`s.
//! Invariants: only the FTL shares pages, and only with a [`Verified`] in hand, which is made from
//! a comparison or from two equal collision-resistant digests: see `verified`.

mod block_separation;
mod buckets;
mod caftl_offline;
mod caftl_online;
mod codeword;
mod codewords;
mod compact_table;
mod crc_compare;
mod engine;
mod fingerprints;
mod gleaner;
mod hot_table;
mod info;
mod known;
mod none;
mod options;
mod page_set;
mod passes;
mod registry;
mod scanner;
mod ses;
mod ses_device;
mod ses_host;
mod short_lived;
mod signs;
mod site;
mod slots;
mod split_table;
mod store;
#[cfg(test)]
mod tests;
mod verified;
mod wanted;
mod worth;

pub use block_separation::BlockSeparation;
pub use caftl_offline::CaftlOffline;
pub use caftl_online::CaftlOnline;
pub(crate) use codeword::codeword_bytes;
pub use crc_compare::CrcCompare;
pub use engine::Engine;
pub use fingerprints::{Bytes, Fingerprinting, Identities, ShortBasis};
pub use gleaner::Gleaner;
pub use info::PolicyInfo;
pub use none::NoDedup;
pub use options::{Kind, OptionInfo, PolicyError};
pub use registry::{AnyPolicy, POLICIES, check_engine, check_policy, host_wants, policy_info};
pub use ses::{Design, Ses};
pub use ses_device::{DeviceSide, SesDevice};
pub use ses_host::{HostSide, SesHost};
pub use site::Site;
pub(crate) use site::packing_slots;
pub use verified::{SameDigest, Verified};
pub use wanted::Wanted;

use crate::op::Work;

/// What a policy may ask, and ask for, while it looks.
pub trait Look {
    /// Whether the page holds live data.
    fn is_live(&self, ppn: u32) -> bool;

    /// Whether a page on that plane could be read without waiting: the inline budget.
    fn is_idle(&self, ppn: u32) -> bool;

    /// The physical page that holds a logical one now, if its mapping page is in DRAM.
    fn locate(&self, lpn: u32) -> Option<u32>;

    /// Nanoseconds until this page would have been read for the current request, waiting
    /// included; 0 without time.
    fn read_ns(&self, ppn: u32) -> u64;

    /// Nanoseconds until the current request's page would have been programmed, waiting included;
    /// 0 without time.
    fn program_ns(&self) -> u64;

    /// Nanoseconds until this work would be done for the current request, waiting for its engine
    /// included; 0 without time.
    fn work_ns(&self, _work: Work) -> u64 {
        0
    }

    /// The controller works: the current request waits for it, or in an idle moment nobody does.
    fn work(&mut self, work: Work);

    /// The controller works beside the current request, which does not wait for it.
    fn work_beside(&mut self, _work: Work) {}
}

/// What to do with a page that is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Program it; the tag goes into the out-of-band area, and `apart` asks for the second host
    /// stream (the ND blocks of Park & Shin).
    Program {
        /// The fingerprint to remember, 0 without one.
        tag: u64,
        /// Whether the page goes to the separate stream of undetermined pages.
        apart: bool,
    },
    /// Compare it with the page at `candidate` and share that one if equal; else program.
    Verify {
        /// The fingerprint to remember if it is programmed after all.
        tag: u64,
        /// The page that has the same fingerprint.
        candidate: u32,
        /// Whether the page goes to the separate stream if it is programmed after all.
        apart: bool,
    },
    /// Share a page without comparing: a collision-resistant digest of all its bytes is the same.
    Share {
        /// The fingerprint to remember, should the page turn out dead.
        tag: u64,
        /// The page with the same content.
        same: SameDigest,
    },
}

/// A pair of stored pages that may be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The page that would be given up.
    pub duplicate: u32,
    /// The page that would stay.
    pub original: u32,
}

/// What to do next in an idle moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offline {
    /// Read a page that has no fingerprint yet; the answer comes by [`Policy::scanned`].
    Scan {
        /// The page.
        ppn: u32,
    },
    /// Read the fingerprint of a page from its out-of-band area; the answer comes by
    /// [`Policy::tag_read`].
    ReadTag {
        /// The page.
        ppn: u32,
    },
    /// Compare two pages and merge them if equal; the answer comes by [`Policy::settled`].
    Compare(Pair),
    /// Merge two pages whose collision-resistant digests are the same.
    Merge {
        /// The page that would be given up.
        duplicate: u32,
        /// The page that would stay.
        original: SameDigest,
    },
}

/// How far a policy is with a page that is about to be written. Many pages may be on their way at
/// a time, so what belongs to one of them is kept here and not in the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Pieces of work that were asked for, or passed over.
    pub(crate) steps: u8,
    /// Whether the page is written without the rest of the work.
    pub(crate) left: bool,
    /// Its light fingerprint, where one was made.
    pub(crate) light: u32,
    /// What the host says of it.
    pub(crate) request: Option<bool>,
    /// Whether it has been through the compression engine.
    pub(crate) compressed: bool,
}

impl Prepared {
    /// A page of which the host says whether it is to be deduplicated. A page that is not keeps its
    /// redundancy: no policy hears of it, and it is never shared, neither now nor later. Without a
    /// word the policy goes by its own settings.
    pub fn asked(deduplicate: Option<bool>) -> Self {
        Self { request: deduplicate, ..Self::default() }
    }

    /// Whether the page keeps its redundancy.
    pub(crate) fn keeps(self) -> bool {
        self.request == Some(false)
    }
}

/// A deduplication design. `Page` is the content of a page.
pub trait Policy<Page> {
    /// The work that must be done before the policy can decide on a page, one piece at a time: the
    /// answer is the next piece, and the call is repeated once that is done. `None` when
    /// [`Policy::decide`] may follow.
    fn prepare(
        &mut self,
        _lpn: u32,
        _page: &Page,
        _prepared: &mut Prepared,
        _look: &mut impl Look,
    ) -> Option<Work> {
        None
    }

    /// Decides on a page that is about to be written to `lpn`, when all its work is done. If the
    /// verdict leads to programming, [`Policy::stored`] follows before the next page is decided on.
    fn decide(
        &mut self,
        lpn: u32,
        page: &Page,
        prepared: Prepared,
        look: &mut impl Look,
    ) -> Verdict;

    /// Both at once, where work takes no time.
    fn inspect(&mut self, lpn: u32, page: &Page, look: &mut impl Look) -> Verdict {
        let mut prepared = Prepared::default();
        while let Some(work) = self.prepare(lpn, page, &mut prepared, look) {
            look.work(work);
        }
        self.decide(lpn, page, prepared, look)
    }

    /// The page was programmed at `ppn` with this tag.
    fn stored(&mut self, ppn: u32, tag: u64);

    /// The page with this tag was found at `ppn` after a power cut: nothing else is known of it.
    fn recovered(&mut self, ppn: u32, tag: u64) {
        self.stored(ppn, tag);
    }

    /// Garbage collection moved a live page with this tag.
    fn moved(&mut self, from: u32, to: u32, tag: u64);

    /// The last reference to a page went away.
    fn died(&mut self, ppn: u32);

    /// A comparison that [`Policy::decide`] asked for found the pages equal or not.
    fn compared(&mut self, candidate: u32, equal: bool);

    /// What to do in an idle moment; `None` when there is nothing left to find. Every answer is
    /// followed by the call that brings its result, before anything else is asked.
    fn next_offline(&mut self, look: &mut impl Look) -> Option<Offline>;

    /// The content of a page that [`Offline::Scan`] asked for.
    fn scanned(&mut self, ppn: u32, page: &Page, look: &mut impl Look);

    /// The tag of a page that [`Offline::ReadTag`] asked for.
    fn tag_read(&mut self, _ppn: u32, _tag: u64) {}

    /// Whether a pair was merged.
    fn settled(&mut self, pair: Pair, merged: bool);

    /// Such a page will be looked at soon: the policy may ask for the memory that this takes. Like
    /// all that is expected, it is a hint, may be wrong, and changes no answer.
    fn expect_write(&mut self, _page: &Page) {}

    /// These pages will soon die.
    fn expect_deaths(&self, _ppns: &[u32]) {}

    /// This page will soon be moved.
    fn expect_move(&self, _ppn: u32) {}

    /// Bytes of controller DRAM that the policy's tables take, by name.
    fn dram(&self) -> Vec<(&'static str, u64)>;

    /// What the policy counted, by name.
    fn report(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
