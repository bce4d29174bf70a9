//! Arbiter and buffer against plain models, cycle by cycle.

use std::collections::VecDeque;

use onefold_block::SplitMix64;

use super::{ask, bench, dose};

#[test]
fn an_arbiter_grants_one_who_asks_and_starves_nobody() {
    let Some(bench) = bench() else { return };
    let random = &mut SplitMix64::new(3);
    let mut input = Vec::new();
    let mut asked = 0_u8;
    for _ in 0..dose(20_000) * 10 {
        // Requests come at random and stay; they go with their grant, below.
        input.extend([
            random.next_u64() as u8 & random.next_u64() as u8,
            u8::from(random.below(4) > 0),
        ]);
    }
    // Who asks goes on asking: the bench sees all who have asked and not been served. Since that
    // hangs on its answers, a plain arbiter says beforehand who is served.
    let (mut last, mut held) = (7_u32, None);
    let mut expected = Vec::new();
    for cycle in input.chunks_mut(2) {
        asked |= cycle[0];
        cycle[0] = asked;
        let next = || (1..=8).map(|ahead| (last + ahead) % 8).find(|at| asked >> at & 1 == 1);
        let granted = held.or_else(next);
        expected.push(granted.map_or(0, |at| 1_u8 << at));
        held = granted;
        if let Some(at) = granted
            && cycle[1] == 1
        {
            (last, held) = (at, None);
            asked &= !(1 << at);
        }
    }
    let grants = ask(bench, &["arbiter"], input.clone());
    assert!(grants == expected, "another grant than in plain round robin");
    let mut waited = [0; 8];
    for (cycle, grant) in input.chunks(2).zip(grants) {
        for (at, waited) in waited.iter_mut().enumerate().filter(|_| cycle[1] == 1 && grant != 0) {
            let waits = cycle[0] >> at & 1 == 1 && grant >> at & 1 == 0;
            *waited = if waits { *waited + 1 } else { 0 };
            assert!(*waited < 8, "{at} waits for {waited} grants");
        }
    }
}

#[test]
fn a_buffer_is_a_queue_of_sixteen() {
    let Some(bench) = bench() else { return };
    let random = &mut SplitMix64::new(4);
    let mut input = Vec::new();
    for cycle in 0..dose(20_000) * 10 {
        // Long stretches in which it fills, drains, or does both.
        let (fills, drains) = [(9, 2), (2, 9), (7, 7)][cycle / 500 % 3];
        let flags = u8::from(random.below(10) < fills) | u8::from(random.below(10) < drains) << 1;
        input.extend([flags, random.next_u64() as u8]);
    }
    let answers = ask(bench, &["buffer"], input.clone());
    let mut queue = VecDeque::new();
    let (mut full, mut empty) = (0, 0);
    for (cycle, answer) in input.chunks(2).zip(answers.chunks(2)) {
        let (takes, gives) = (queue.len() < 16, !queue.is_empty());
        full += u32::from(!takes);
        empty += u32::from(!gives);
        assert_eq!(answer[0], u8::from(takes) | u8::from(gives) << 1);
        if gives {
            assert_eq!(answer[1], queue[0]);
        }
        if gives && cycle[0] & 2 != 0 {
            queue.pop_front();
        }
        if takes && cycle[0] & 1 != 0 {
            queue.push_back(cycle[1]);
        }
    }
    assert!(full > 1000 && empty > 1000, "{full} {empty}");
}
