//! The steady state of endless uniform random writes, without writing them.
//! Room: onefold-flash.   In: an empty drive.   Out: a full one.
//! Source: [desnoyers-12]: under greedy cleaning a block spends a time proportional to `1/j` with
//! `j` live pages, down to the count at which it is collected; under FIFO a block of age `a` has a
//! binomial number of live pages of mean `e^(-a)`. [van-houdt-13] for d choices. Which pages of a
//! block are live, and which LPN is where, is uniform.
//! Invariants: a dead page carries the LPN of a page that is live in a younger block, so that
//! recovery finds the same drive.
//! Cost: one pass over the physical pages.

use onefold_block::SplitMix64;

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::ftl::counters::Counters;
use crate::ftl::error::FtlError;
use crate::ftl::map::{Owner, Place};
use crate::ftl::settings::VictimRule;
use crate::ftl::stream::Stream;
use crate::memory::{prefetch, table_of};
use crate::nand::{Nand, Oob, PageKey, Payload};
use crate::op::Untimed;
use crate::theory;

/// Random places that are asked for together.
const SHUFFLED: usize = 32;

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// Fills an empty drive with the steady state of uniform random writes over all its logical
    /// pages, of which `page` gives the contents. Every page counts as one that no policy looked
    /// at: a deduplicating drive is better filled by writing to it.
    ///
    /// Other workloads start from here, or from a sequential pass, and write until the
    /// amplification of consecutive windows no longer changes.
    ///
    /// # Errors
    /// [`FtlError::Settings`] if the drive is not empty or has blocks that failed;
    /// [`FtlError::Nand`].
    pub fn precondition_steady(
        &mut self,
        mut page: impl FnMut(u32) -> N::Page,
    ) -> Result<(), FtlError> {
        let empty = self.space.open_blocks().next().is_none();
        if self.layout.packs() {
            let message = "a drive that packs pages is preconditioned by writing to it".to_owned();
            return Err(FtlError::Settings(message));
        }
        if !empty {
            let message = "only an empty drive can be preconditioned in an instant".to_owned();
            return Err(FtlError::Settings(message));
        }
        let mut random = SplitMix64::new(self.settings.seed ^ 0x5eed_57ea_d700_0000);
        let mut lpns = table_of(self.settings.logical_pages as usize, 0);
        (0..).zip(&mut lpns).for_each(|(lpn, entry)| *entry = lpn);
        shuffle(&mut lpns, &mut random);
        let plan = self.plan_planes(&mut random);
        let deepest = plan.iter().map(Vec::len).max().unwrap_or(0);
        let first_seq = self.journal.now() + 1;
        let pages = u64::from(self.layout.geometry().pages_per_block);
        // From the youngest blocks to the oldest: what is placed is newer than what comes.
        let mut placed = 0;
        for rank in 0..deepest {
            for (plane, blocks) in plan.iter().enumerate() {
                let Some(&filled) = blocks.get(rank) else { continue };
                let age = ((deepest - 1 - rank) * plan.len() + plane) as u64;
                let seq = first_seq + age * pages;
                let filling = Filling { plane: plane as u32, filled, seq };
                self.fill_block(&filling, &lpns, &mut placed, &mut random, &mut page)?;
            }
        }
        assert_eq!(placed, lpns.len(), "the plan has room for every logical page");
        self.journal.advance_to(first_seq + (deepest * plan.len()) as u64 * pages);
        if self.own.is_on() {
            self.shrink_cache(&mut Untimed)?;
            self.checkpoint(&mut Untimed)?;
        }
        self.counters = Counters::default();
        Ok(())
    }

    /// What each plane's blocks hold, from the youngest on: first those that are being filled.
    fn plan_planes(&self, random: &mut SplitMix64) -> Vec<Vec<Filled>> {
        let planes = self.layout.geometry().planes();
        let pages = self.layout.geometry().pages_per_block;
        let share = self.settings.logical_pages / planes;
        let more = self.settings.logical_pages % planes;
        let plan = |plane: u32| {
            let logical = share + u32::from(plane < more);
            // Planes are at different points of their blocks, as they are after a while.
            let part =
                |random: &mut SplitMix64| 1 + random.below(u64::from(pages - 1).max(1)) as u32;
            let streams = [Stream::Host, Stream::Moved];
            let mut left = logical;
            let mut blocks = Vec::new();
            for stream in streams {
                let live = part(random).min(left);
                left -= live;
                blocks.push(Filled { live, written: live, open: Some(stream) });
            }
            let idle = self.settings.gc_reserve_blocks + 1 + 2;
            // A block of the FTL's own pages is open already.
            let good = self.space.blocks().free_of(plane);
            let least = left.div_ceil(pages);
            let full = good.saturating_sub(idle).max(least);
            let rule = self.settings.victim;
            let live = live_counts(rule, full, left, pages, random);
            let full = live.into_iter().map(|live| Filled { live, written: pages, open: None });
            blocks.extend(full);
            blocks
        };
        (0..planes).map(plan).collect()
    }

    fn fill_block(
        &mut self,
        filling: &Filling,
        lpns: &[u32],
        placed: &mut usize,
        random: &mut SplitMix64,
        page: &mut impl FnMut(u32) -> N::Page,
    ) -> Result<(), FtlError> {
        let Filling { plane, filled, seq } = *filling;
        if filled.written == 0 {
            return Ok(());
        }
        let Some(block) = self.space.take_free(plane) else {
            return Err(self.space.blocks().no_space());
        };
        let newer = *placed;
        let mut live = filled.live;
        for at in 0..filled.written {
            let left = filled.written - at;
            let is_live = newer == 0 || random.below(left.into()) < live.into();
            let lpn = if is_live {
                live -= 1;
                *placed += 1;
                if let Some(&soon) = lpns.get(*placed + SHUFFLED) {
                    self.books.prefetch(soon);
                }
                lpns[*placed - 1]
            } else {
                lpns[random.below(newer as u64) as usize]
            };
            let ppn = self.space.append(block);
            let seq = seq + u64::from(at);
            let oob = Oob { key: PageKey::Data(lpn), seq, seed: u64::from(lpn), tag: 0 };
            self.nand.program(ppn, Payload::Data(&page(lpn)), &oob)?;
            if is_live {
                self.settle(ppn, Owner::Data(lpn));
                self.set_place(lpn, Place::Own(ppn));
            }
        }
        match filled.open {
            Some(stream) => self.space.hand_to(plane, stream, block),
            None => self.space.close(block, seq),
        }
        Ok(())
    }
}

/// Puts elements into a random order. Places are drawn some at a time, so that they have come by
/// the time of the exchange.
fn shuffle(elements: &mut [u32], random: &mut SplitMix64) {
    let mut partners = [0; SHUFFLED];
    let mut left = elements.len();
    while left > 1 {
        let count = (left - 1).min(SHUFFLED);
        for (partner, at) in partners[..count].iter_mut().zip((0..left).rev()) {
            *partner = random.below(at as u64 + 1) as usize;
            prefetch(elements, *partner);
        }
        for (&partner, at) in partners[..count].iter().zip((0..left).rev()) {
            elements.swap(at, partner);
        }
        left -= count;
    }
}

/// What one block is to hold.
#[derive(Clone, Copy, Debug)]
struct Filled {
    live: u32,
    written: u32,
    /// The stream that goes on filling it.
    open: Option<Stream>,
}

#[derive(Clone, Copy, Debug)]
struct Filling {
    plane: u32,
    filled: Filled,
    seq: u64,
}

/// Live pages of each full block of a plane, from the youngest on; `live` in all.
fn live_counts(
    rule: VictimRule,
    blocks: u32,
    live: u32,
    pages: u32,
    random: &mut SplitMix64,
) -> Vec<u32> {
    let mean = f64::from(live) / f64::from(blocks.max(1));
    let mut counts = match rule {
        VictimRule::Fifo => by_age(blocks, mean, pages, random),
        VictimRule::DChoices(draws) => {
            by_shares(blocks, &theory::d_choices_shares(mean, pages, draws))
        }
        VictimRule::Greedy | VictimRule::CostBenefit => {
            by_shares(blocks, &theory::greedy_shares(mean, pages))
        }
    };
    let mut sum: u32 = counts.iter().sum();
    while sum != live {
        let at = random.below(u64::from(blocks)) as usize;
        if sum < live && counts[at] < pages {
            counts[at] += 1;
            sum += 1;
        } else if sum > live && counts[at] > 0 {
            counts[at] -= 1;
            sum -= 1;
        }
    }
    counts
}

/// Counts that occur in these shares, from the highest down.
fn by_shares(blocks: u32, shares: &[f64]) -> Vec<u32> {
    let mut counts = Vec::with_capacity(blocks as usize);
    let (mut at, mut below) = (shares.len() - 1, 1.0 - shares[shares.len() - 1]);
    for block in 0..blocks {
        let rank = 1.0 - (f64::from(block) + 0.5) / f64::from(blocks);
        while rank < below && at > 0 {
            at -= 1;
            below -= shares[at];
        }
        counts.push(at as u32);
    }
    counts
}

/// Binomial counts whose mean falls exponentially with age.
fn by_age(blocks: u32, mean: f64, pages: u32, random: &mut SplitMix64) -> Vec<u32> {
    // The mean of e^(-x) over 0..end is what is asked for.
    let share = (mean / f64::from(pages)).min(1.0);
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..100 {
        let end = f64::midpoint(low, high);
        if (1.0 - (-end).exp()) / end > share {
            low = end;
        } else {
            high = end;
        }
    }
    let count = |block: u32| {
        let age = low * (f64::from(block) + 0.5) / f64::from(blocks);
        let chance = ((-age).exp() * (1_u64 << 32) as f64) as u64;
        (0..pages).filter(|_| random.next_u64() >> 32 < chance).count() as u32
    };
    (0..blocks).map(count).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_order_comes_about() {
        let orders: BTreeSet<[u32; 3]> = (0..100)
            .map(|seed| {
                let mut elements = [0, 1, 2];
                shuffle(&mut elements, &mut SplitMix64::new(seed));
                elements
            })
            .collect();
        assert_eq!(orders.len(), 6, "{orders:?}");
        let swapped = |seed: u64| {
            let mut pair = [0, 1];
            shuffle(&mut pair, &mut SplitMix64::new(seed));
            pair == [1, 0]
        };
        assert!((0..100).any(swapped) && !(0..100).all(swapped));
        for count in [0, 1, 1000] {
            let mut elements: Vec<u32> = (0..count).collect();
            shuffle(&mut elements, &mut SplitMix64::new(1));
            assert_eq!(elements.is_sorted(), count < 2);
            elements.sort_unstable();
            assert!(elements.into_iter().eq(0..count));
        }
    }

    /// As many are live as there are to be, from none to all.
    #[test]
    fn blocks_of_a_plane_hold_what_is_live_in_it() {
        let mut random = SplitMix64::new(4);
        for rule in [VictimRule::Greedy, VictimRule::Fifo, VictimRule::DChoices(3)] {
            for live in 0..=40 {
                let counts = live_counts(rule, 10, live, 4, &mut random);
                assert_eq!(counts.iter().sum::<u32>(), live, "{rule:?}");
                assert!(counts.len() == 10 && counts.iter().all(|&count| count <= 4), "{rule:?}");
            }
        }
    }
}
