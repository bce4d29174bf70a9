//! The look-up unit against caches in software, one for each set.

use std::collections::{HashMap, HashSet};

use onefold_block::SplitMix64;
use onefold_cache::{Capacity, Policy, make_online};

use super::{Answer, ask, bench, dose};

/// As the bench has it.
const SETS: u32 = 64;
const WAYS: usize = 8;

/// Buckets that are asked for: a few often, others rarely, some again at once; and whether they
/// are changed.
fn asked(random: &mut SplitMix64) -> Vec<(u32, bool)> {
    let mut all: Vec<(u32, bool)> = Vec::new();
    for _ in 0..dose(2000) * 10 {
        let key = match random.below(4) {
            0 => random.below(300),
            1 => random.below(1000),
            // The same set again and again, at both ends of what a number can be.
            2 => u64::from(u32::MAX) - 64 * random.below(12),
            _ => {
                all.len().checked_sub(1 + random.below(3) as usize).map_or(0, |at| all[at].0.into())
            }
        };
        all.push((key as u32, random.below(3) == 0));
    }
    all
}

#[test]
fn a_look_up_unit_decides_as_a_cache_for_each_set_does() {
    let Some(bench) = bench() else { return };
    let all = asked(&mut SplitMix64::new(21));
    let input: Vec<u8> = all
        .iter()
        .flat_map(|(key, changes)| key.to_le_bytes().into_iter().chain([u8::from(*changes)]))
        .collect();
    for args in [&["index"][..], &["index", "3"]] {
        let answers = ask(bench, args, input.clone());
        let mut answers = Answer(&answers);
        let capacity = Capacity { bytes: WAYS as u64, objects: WAYS };
        let mut sets: Vec<Box<dyn Policy>> =
            (0..SETS).map(|_| make_online("lru", capacity, 1).unwrap()).collect();
        let (mut lines, mut changed) = (HashMap::new(), HashSet::new());
        let (mut hits, mut written) = (0, 0);
        for (at, &(key, changes)) in all.iter().enumerate() {
            let flags = answers.bytes(1)[0];
            let (line, evicted) = (answers.u32(), answers.u32());
            let set = key % SETS;
            let decision = sets[set as usize].access(key.into(), 1);
            assert_eq!(flags & 1 == 1, decision.hit, "{at}: {key}");
            let victim = (flags & 2 != 0).then_some(u64::from(evicted));
            assert_eq!(victim, decision.evicted.first().copied(), "{at}: {key}");
            if victim.is_some() {
                assert_eq!(flags & 4 != 0, changed.remove(&evicted), "{at}: {evicted}");
                written += u32::from(flags & 4 != 0);
            }
            // A bucket stays where it is, in its set, and takes the line of the one that goes.
            assert_eq!(line / WAYS as u32, set);
            let before = lines.insert(line, key);
            let expected = if decision.hit { Some(key) } else { victim.map(|_| evicted) };
            assert_eq!(before, expected, "{at}: line {line}");
            hits += u32::from(decision.hit);
            if changes {
                changed.insert(key);
            }
        }
        let cycles = answers.u64();
        assert!(hits > 1000 && written > 1000, "{hits} hits, {written} written");
        // One a cycle, and the two that the last one takes.
        let one_a_cycle = all.len() as u64 + 3;
        assert!(args.len() > 1 || cycles == one_a_cycle, "{cycles} for {}", all.len());
    }
}
