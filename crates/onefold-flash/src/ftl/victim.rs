//! Which full block of a plane is collected next.
//! Room: onefold-flash.
//! Source: greedy and FIFO as analysed in [desnoyers-12]; d-choices in [van-houdt-13]; cost-benefit
//! in [lfs-91].
//! Cost: a scan of the plane's blocks, once per block collected.

use onefold_block::SplitMix64;

use crate::ftl::blocks::Blocks;
use crate::ftl::settings::VictimRule;
use crate::geometry::Geometry;

/// What to choose from, and how.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The rule.
    pub rule: VictimRule,
    /// The plane.
    pub plane: u32,
    /// Now, in the FTL's sequence.
    pub seq: u64,
    /// The pool to choose from, if there are two: the hot one or the cold one.
    pub hot: Option<bool>,
    /// Live pages of a block without a dead one, as scores count them.
    pub full: u32,
}

/// The block to collect, `None` if none is full.
pub fn choose(
    choice: &Choice,
    blocks: &Blocks,
    geometry: &Geometry,
    random: &mut SplitMix64,
) -> Option<u32> {
    let first = choice.plane * geometry.blocks_per_plane;
    let scores = blocks.scores(choice.plane);
    let pooled: Vec<u32>;
    let scores = match choice.hot {
        None => scores,
        Some(hot) => {
            let in_pool = |at: u32| blocks.is_hot(first + at) == hot;
            let score = |(at, &score)| if in_pool(at) { score } else { u32::MAX };
            pooled = (0..).zip(scores).map(score).collect();
            // A pool without a dead page in a full block has nothing to give.
            if pooled.iter().all(|&score| score >= choice.full) { scores } else { &pooled }
        }
    };
    let at = match choice.rule {
        VictimRule::Greedy => lowest(scores),
        VictimRule::Fifo => best(scores, |at| u64::MAX - blocks.closed_at(first + at)),
        VictimRule::CostBenefit => {
            let benefit = |at: u32| {
                let used = f64::from(scores[at as usize]) / f64::from(choice.full);
                let age = (choice.seq - blocks.closed_at(first + at)) as f64;
                // Positive floats order as their bits do.
                ((1.0 - used) * age / (2.0 * used).max(1e-9)).to_bits()
            };
            best(scores, benefit)
        }
        VictimRule::DChoices(draws) => drawn(scores, draws, random),
    };
    at.map(|at| first + at)
}

fn lowest(scores: &[u32]) -> Option<u32> {
    let low = scores.iter().copied().min()?;
    if low == u32::MAX {
        return None;
    }
    scores.iter().position(|&score| score == low).map(|at| at as u32)
}

fn best(scores: &[u32], merit: impl Fn(u32) -> u64) -> Option<u32> {
    let full = (0..scores.len() as u32).filter(|&at| scores[at as usize] != u32::MAX);
    full.max_by_key(|&at| (merit(at), u32::MAX - at))
}

/// The emptiest of so many drawn blocks; the emptiest of all if none of those drawn is full.
fn drawn(scores: &[u32], draws: u32, random: &mut SplitMix64) -> Option<u32> {
    let mut chosen: Option<u32> = None;
    let mut left = draws.max(1);
    // Blocks that are not full are drawn again; far more draws than blocks mean that few are full.
    for _ in 0..64 * u64::from(draws.max(1)) {
        if left == 0 {
            break;
        }
        let at = random.below(scores.len() as u64) as u32;
        let score = scores[at as usize];
        if score != u32::MAX {
            left -= 1;
            chosen = Some(chosen.filter(|&old| scores[old as usize] <= score).unwrap_or(at));
        }
    }
    chosen.or_else(|| lowest(scores))
}
