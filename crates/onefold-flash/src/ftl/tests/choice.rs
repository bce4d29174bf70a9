//! The block that each rule chooses, where it is a close thing.
//! Room: onefold-flash.

use onefold_block::SplitMix64;

use crate::ftl::blocks::Blocks;
use crate::ftl::settings::VictimRule;
use crate::ftl::victim::{Choice, choose};
use crate::geometry::Geometry;
use crate::testing::plane::plane;

const PAGES: u32 = 4;
const NOW: u64 = 100;

/// Two planes of which the second one has a full block for each `(live, closed_at, hot)`, and some
/// that are free.
fn blocks(full: &[(u32, u64, bool)]) -> (Blocks, Geometry) {
    let geometry = Geometry { planes_per_die: 2, ..plane(full.len() as u32 + 2, PAGES) };
    let mut blocks = Blocks::new(geometry);
    for &(live, closed_at, hot) in full {
        let block = blocks.take_free(1, false).expect("free");
        if hot {
            blocks.make_hot(block);
        }
        for _ in 0..PAGES {
            blocks.append(block);
        }
        blocks.gain(block, live);
        blocks.close(block, closed_at);
    }
    (blocks, geometry)
}

/// Which of them is chosen.
fn chosen(rule: VictimRule, hot: Option<bool>, full: &[(u32, u64, bool)]) -> Option<usize> {
    chosen_by(rule, hot, full, &mut SplitMix64::new(1))
}

fn chosen_by(
    rule: VictimRule,
    hot: Option<bool>,
    full: &[(u32, u64, bool)],
    random: &mut SplitMix64,
) -> Option<usize> {
    let (blocks, geometry) = blocks(full);
    let choice = Choice { rule, plane: 1, seq: NOW, hot, full: PAGES };
    let block = choose(&choice, &blocks, &geometry, random)?;
    Some((block - geometry.blocks_per_plane) as usize)
}

/// Blocks of these live pages, closed at 10, 20 and so on.
fn live(counts: &[u32]) -> Vec<(u32, u64, bool)> {
    (1..).zip(counts).map(|(at, &live)| (live, at * 10, false)).collect()
}

const RULES: [VictimRule; 4] =
    [VictimRule::Greedy, VictimRule::Fifo, VictimRule::CostBenefit, VictimRule::DChoices(2)];

#[test]
fn without_a_full_block_there_is_no_victim_and_a_single_one_is_it() {
    for rule in RULES {
        assert_eq!(chosen(rule, None, &[]), None, "{rule:?}");
        assert_eq!(chosen(rule, None, &live(&[PAGES])), Some(0), "{rule:?}");
    }
}

#[test]
fn of_equal_blocks_the_first_one_is_taken() {
    let equal = [(2, 50, false), (2, 50, false), (2, 50, false)];
    for rule in [VictimRule::Greedy, VictimRule::Fifo, VictimRule::CostBenefit] {
        assert_eq!(chosen(rule, None, &equal), Some(0), "{rule:?}");
    }
}

#[test]
fn each_rule_has_its_own_idea_of_the_best_block() {
    // Live pages, and the age of each block at 100 is 90, 80, 70, 60.
    let counts = live(&[3, 2, 1, 1]);
    assert_eq!(chosen(VictimRule::Greedy, None, &counts), Some(2));
    assert_eq!(chosen(VictimRule::Fifo, None, &counts), Some(0));
    // (1 - u) * age / 2u: 15, 40, 105, 90.
    assert_eq!(chosen(VictimRule::CostBenefit, None, &counts), Some(2));
    let old_and_half = [(2, 10, false), (1, 80, false)];
    assert_eq!(chosen(VictimRule::CostBenefit, None, &old_and_half), Some(0), "45 and 30");
    let nearly = [(3, 1, false), (1, 89, false)];
    assert_eq!(chosen(VictimRule::CostBenefit, None, &nearly), Some(0), "16.5 and 16.5: the first");
    let dead = [(1, 1, false), (0, 98, false), (0, 97, false)];
    assert_eq!(chosen(VictimRule::CostBenefit, None, &dead), Some(2), "the older dead one");
    let new_and_dead = [(1, 99, false), (0, NOW, false)];
    assert_eq!(chosen(VictimRule::CostBenefit, None, &new_and_dead), Some(0), "of no age at all");
}

#[test]
fn the_pool_that_is_due_gives_the_victim_unless_it_has_nothing_dead() {
    let pools = [(1, 10, false), (3, 20, true), (2, 30, true), (0, 40, false)];
    for (hot, greedy, fifo) in [(None, 3, 0), (Some(true), 2, 1), (Some(false), 3, 0)] {
        assert_eq!(chosen(VictimRule::Greedy, hot, &pools), Some(greedy), "{hot:?}");
        assert_eq!(chosen(VictimRule::Fifo, hot, &pools), Some(fifo), "{hot:?}");
        assert_eq!(chosen(VictimRule::CostBenefit, hot, &pools), Some(greedy), "{hot:?}");
    }
    let all_live = [(2, 30, false), (PAGES, 10, true), (PAGES, 20, true)];
    assert_eq!(chosen(VictimRule::Fifo, Some(true), &all_live), Some(1), "of all blocks");
    assert_eq!(chosen(VictimRule::Greedy, Some(true), &all_live), Some(0));
    let one_dead = [(0, 10, false), (PAGES, 20, true), (PAGES - 1, 30, true)];
    assert_eq!(chosen(VictimRule::Greedy, Some(true), &one_dead), Some(2));
}

/// The rule in plain words, with the draws that it takes.
fn drawn(full: &[(u32, u64, bool)], draws: u32, random: &mut SplitMix64) -> Option<usize> {
    let blocks = full.len() + 2;
    let (mut found, mut tries) = (Vec::new(), 0);
    while found.len() < draws as usize && tries < 64 * draws {
        tries += 1;
        let at = random.below(blocks as u64) as usize;
        if at < full.len() {
            found.push(at);
        }
    }
    let least = found.iter().map(|&at| full[at].0).min();
    match least {
        Some(least) => found.into_iter().find(|&at| full[at].0 == least),
        None => (0..full.len()).min_by_key(|&at| full[at].0),
    }
}

#[test]
fn of_the_drawn_blocks_the_emptiest_one_is_taken_and_the_first_drawn_of_equals() {
    let full = live(&[2, 1, 3, 1, 4, 2, 2, 1]);
    for draws in 1..5 {
        for seed in 0..40 {
            let (mut random, mut model) = (SplitMix64::new(seed), SplitMix64::new(seed));
            let rule = VictimRule::DChoices(draws);
            let found = chosen_by(rule, None, &full, &mut random);
            assert_eq!(found, drawn(&full, draws, &mut model), "{draws} draws, seed {seed}");
            assert_eq!(random.next_u64(), model.next_u64(), "as many draws as that takes");
        }
    }
}

/// Where hardly any block is full, drawing ends, and the emptiest one of all is taken.
#[test]
fn drawing_ends_where_few_blocks_are_full() {
    let geometry = Geometry { planes_per_die: 1, ..plane(4000, PAGES) };
    let mut blocks = Blocks::new(geometry);
    for live in [3, 2] {
        let block = blocks.take_free(0, false).expect("free");
        blocks.gain(block, live);
        blocks.close(block, 1);
    }
    for draws in [0, 1, 2] {
        let rule = VictimRule::DChoices(draws);
        let choice = Choice { rule, plane: 0, seq: NOW, hot: None, full: PAGES };
        let (mut random, mut model) = (SplitMix64::new(5), SplitMix64::new(5));
        assert_eq!(choose(&choice, &blocks, &geometry, &mut random), Some(1));
        for _ in 0..64 * draws.max(1) {
            assert!(model.below(4000) > 1, "none of the two is drawn with this seed");
        }
        assert_eq!(random.next_u64(), model.next_u64(), "{draws}: 64 tries for each");
    }
}
