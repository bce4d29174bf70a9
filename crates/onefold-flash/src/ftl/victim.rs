//! Which full block of a plane is collected next.
//! Room: onefold-flash.
//! Source: greedy and FIFO as analysed by Desnoyers (SYSTOR'12); d-choices by Van Houdt
//! (SIGMETRICS'13); cost-benefit by Rosenblum and Ousterhout (SOSP'91).
//! Cost: a scan of the plane's blocks, once per block collected.

use onefold_block::SplitMix64;

use crate::ftl::blocks::Blocks;
use crate::ftl::settings::VictimRule;
use crate::geometry::Geometry;

/// The block of `plane` to collect, `None` if none is full.
pub fn choose(
    rule: VictimRule,
    blocks: &Blocks,
    geometry: &Geometry,
    plane: u32,
    seq: u64,
    random: &mut SplitMix64,
) -> Option<u32> {
    let first = plane * geometry.blocks_per_plane;
    let scores = blocks.scores(plane);
    let at = match rule {
        VictimRule::Greedy => lowest(scores),
        VictimRule::Fifo => best(scores, |at| u64::MAX - blocks.closed_at(first + at)),
        VictimRule::CostBenefit => {
            let benefit = |at: u32| {
                let used = f64::from(scores[at as usize]) / f64::from(geometry.pages_per_block);
                let age = (seq - blocks.closed_at(first + at)) as f64;
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

fn drawn(scores: &[u32], draws: u32, random: &mut SplitMix64) -> Option<u32> {
    let full: Vec<u32> =
        (0..scores.len() as u32).filter(|&at| scores[at as usize] != u32::MAX).collect();
    let draw = |_| full[(random.next_u64() % full.len() as u64) as usize];
    if full.is_empty() {
        return None;
    }
    (0..draws.max(1)).map(draw).min_by_key(|&at| scores[at as usize])
}
