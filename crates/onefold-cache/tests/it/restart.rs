//! Saved states: a restarted policy goes on as if nothing had happened.

use std::collections::BTreeSet;

use onefold_block::SplitMix64;
use onefold_cache::state::Entry;
use onefold_cache::{Capacity, Choice, POLICIES, Policy, State, StateError, make_online};

/// Popular keys and a tail, with sizes from 1 to 3 that belong to the key.
pub fn requests(seed: u64, count: usize) -> Vec<(u64, u32)> {
    let mut random = SplitMix64::new(seed);
    let mut key = || {
        let bound = 1 + random.below(400);
        random.below(bound)
    };
    (0..count).map(|_| key()).map(|key| (key, 1 + key as u32 % 3)).collect()
}

fn online() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().filter(|entry| !entry.offline).map(|entry| entry.name)
}

fn make(name: &str) -> Box<dyn Policy> {
    make_online(name, Capacity { bytes: 120, objects: 60 }, 1).unwrap()
}

#[test]
fn a_restarted_policy_decides_as_the_one_that_was_saved() {
    // With half of it in memory, what newcomers get of that tells.
    for name in online().chain(["toll:memory=0.5,hits=3"]) {
        let mut policy = make(name);
        for (key, size) in requests(1, 4_000) {
            policy.access(key, size);
        }
        let state = policy.export();
        let bytes = state.to_bytes();
        let mut again = make(name);
        // Into a policy that has a past of its own, which must not shine through.
        for (key, size) in requests(2, 1_000) {
            again.access(key, size);
        }
        again.import(&State::from_bytes(&bytes).unwrap()).unwrap();
        assert_eq!(again.export(), state, "{name}");
        for (at, (key, size)) in requests(3, 4_000).into_iter().enumerate() {
            assert_eq!(policy.access(key, size), again.access(key, size), "{name} at {at}");
        }
        assert_eq!(policy.export(), again.export(), "{name}");
    }
}

/// Requests after which a policy must hold no more than fits, and each object once.
fn works_on(name: &str, policy: &mut dyn Policy, context: &str) {
    for (key, size) in requests(7, 1_000) {
        policy.access(key, size);
        policy.access(key, size);
    }
    let mut kept: Vec<u64> = policy.dump().into_iter().flatten().collect();
    kept.retain(|&key| policy.contains(key));
    kept.sort_unstable();
    let all = kept.len();
    kept.dedup();
    assert_eq!(kept.len(), all, "{name}: {context}");
    let bytes: u64 = policy.export().entries.iter().map(|entry| u64::from(entry.size)).sum();
    assert!(bytes <= 120, "{name}: {bytes} of 120 bytes, {context}");
}

#[test]
fn a_policy_that_lost_objects_while_it_was_away_works_on() {
    for name in online() {
        for lost in 1..8 {
            let mut policy = make(name);
            for (key, size) in requests(lost, 4_000) {
                policy.access(key, size);
            }
            // As after a kill: the segment that was being filled is gone, and what was written
            // since the state was saved comes without a word.
            let mut state = policy.export();
            let mut at = 0;
            state.entries.retain(|_| {
                at += 1;
                at % 8 != lost
            });
            for entry in state.entries.iter_mut().skip(lost as usize).step_by(5) {
                (entry.word, entry.list) = (0, 0);
            }
            let mut again = make(name);
            again.import(&state).unwrap_or_else(|error| panic!("{name}: {error}"));
            works_on(name, &mut *again, "some lost");
        }
    }
}

#[test]
fn a_state_that_was_made_to_do_harm_is_refused_or_does_none() {
    let mut random = SplitMix64::new(5);
    for name in online() {
        let mut policy = make(name);
        for (key, size) in requests(1, 4_000) {
            policy.access(key, size);
        }
        let state = policy.export();
        for turn in 0..300 {
            let mut harmful = state.clone();
            let mut number = || {
                let values = [0, 1, 2, 3, 1 << 24, 1 << 31, u32::MAX, (1 << 31) | 1];
                values[random.below(values.len() as u64) as usize]
            };
            for entry in harmful.entries.iter_mut().skip(turn % 3).step_by(1 + turn % 3) {
                entry.word = number();
                if turn % 2 == 1 {
                    entry.list = number() & 1;
                }
            }
            for section in &mut harmful.sections {
                for value in section.iter_mut().skip(turn % 7).step_by(7) {
                    *value = u64::from(number()) << 32 | u64::from(number());
                }
            }
            let mut again = make(name);
            if again.import(&harmful).is_ok() {
                works_on(name, &mut *again, &format!("turn {turn}"));
            }
        }
    }
}

#[test]
fn states_that_were_changed_are_refused() {
    let mut policy = make("plc");
    for (key, size) in requests(1, 300) {
        policy.access(key, size);
    }
    let bytes = policy.export().to_bytes();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(matches!(State::from_bytes(&changed), Err(StateError::Format { .. })), "{at}");
        assert!(State::from_bytes(&bytes[..at]).is_err(), "{at}");
    }
}

#[test]
fn states_that_do_not_fit_are_refused() {
    let mut policy = make("lru");
    for (key, size) in requests(1, 1_000) {
        policy.access(key, size);
    }
    let state = policy.export();
    let refused = make("plc").import(&state).unwrap_err();
    assert_eq!(refused.to_string(), "saved by policy `lru`: expected `plc`");
    let mut small = make_online("lru", Capacity { bytes: 60, objects: 60 }, 1).unwrap();
    assert!(matches!(small.import(&state), Err(StateError::TooLarge { capacity: 60, .. })));
    let mut twice = state.clone();
    twice.entries[1] = twice.entries[0];
    assert!(matches!(make("lru").import(&twice), Err(StateError::Twice { .. })));
    let mut list = state;
    list.entries[0].list = 1;
    assert!(matches!(make("lru").import(&list), Err(StateError::List { list: 1, .. })));
}

#[test]
fn unknown_names_are_told_with_the_nearest() {
    let error = |text| Choice::parse(text).unwrap_err().to_string();
    assert!(error("lri").starts_with("unknown policy `lri`, did you mean `lru`?: accepted are"));
    assert!(error("plc:treshold=4").contains("no setting `treshold`, did you mean `threshold`?"));
    assert!(error("plc:delay=101").ends_with("`delay` = `101`: accepted is 0 to 100"));
    assert!(error("plc:f=square").ends_with("accepted is clamp, const1, const2, linear, log"));
    assert!(error("lru:size=4").ends_with(": accepted are none"), "{}", error("lru:size=4"));
    let listed = error("plc:treshold=4");
    assert!(listed.contains("threshold") && listed.contains("delay, "), "{listed}");
    assert!(error("plc:delay").contains("expected NAME or NAME:SETTING=VALUE"));
}

/// Of what was written after the last save no more is known than that it is on flash.
#[test]
fn what_is_found_on_flash_does_not_wait_in_memory() {
    for policy in ["w-tinylfu:memory=1,window=0.2", "toll", "flashield"] {
        let mut cache = make_online(policy, Capacity::of_equal(50, 1000), 0).unwrap();
        let mut state = cache.export();
        let found = |key| Entry { key, size: 1000, word: 0, list: 0 };
        state.entries = (0..40).map(found).collect();
        cache.import(&state).unwrap();
        let mut found: BTreeSet<u64> = (0..40).collect();
        let mut promotions = 0;
        for round in 0..400 {
            let key = if round % 3 == 0 { round % 40 } else { 100 + round / 2 };
            let decision = cache.access(key, 1000);
            promotions += decision.promoted.len();
            let again = decision.promoted.iter().find(|key| found.contains(key));
            assert_eq!(again, None, "{policy}: it is on flash and is written again");
            for key in decision.evicted {
                found.remove(key);
            }
        }
        assert!(promotions > 5, "{policy}: others are written");
    }
}
