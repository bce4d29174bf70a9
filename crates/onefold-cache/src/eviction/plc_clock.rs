//! The clock of PLC-Cache with delayed eviction: a victim has to be chosen several times over.
//! Room: onefold-cache.
//! Source: [plc-cache] sec. IV.B.2 and lines 10 to 21 of its pseudo code. The front of the list is
//! the container under the hand; what the hand has passed moves to the back.
//! Differs: the pseudo code acts on a delay of exactly 0 and says nothing of a comparison that
//! fails, after which the next decrement gives -1, no case matches, and the cache freezes. By
//! default a failed comparison therefore arms the delay again and moves the hand on; the text to
//! the letter is `literal`.
//! Cost: one write per hit; a miss moves the hand as far as the hits since its last round allow.

use crate::objects::{Id, List, Objects};
use crate::policy::{Eviction, Incoming, Leave, Parts, Place};

/// Rules of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRules {
    /// How often a victim has to be chosen before it is compared; 0 and 1 are the same.
    pub delay: u8,
    /// `inner_priority` of a container that was just written.
    pub priority: u32,
    /// Delay 0 and nothing below it lets a victim go, and a failed comparison changes nothing.
    pub literal: bool,
}

/// A clock whose hand stands at the front of a list.
#[derive(Clone, Debug)]
pub struct PlcClock {
    rules: ClockRules,
    ring: List,
}

const PRIORITY_MAX: u32 = (1 << 24) - 1;

/// Greatest `inner_priority` of what is restored. The hand goes round once for each below the
/// least one: were all of them as great as they can be, one request would wait for minutes.
const RESTORED_MAX: u32 = 1 << 12;

/// The policy's word: `inner_priority` below, `delay_count` above, which the literal rules take
/// below 0.
const fn word(priority: u32, delay: i8) -> u32 {
    (delay as u8 as u32) << 24 | priority
}

const fn priority(word: u32) -> u32 {
    word & PRIORITY_MAX
}

const fn delay(word: u32) -> i8 {
    (word >> 24) as u8 as i8
}

impl PlcClock {
    /// An empty clock.
    pub fn new(rules: ClockRules) -> Self {
        Self { rules, ring: List::default() }
    }

    fn armed(&self, priority: u32) -> u32 {
        word(priority.min(PRIORITY_MAX), self.rules.delay.clamp(1, 100) as i8)
    }
}

impl Eviction for PlcClock {
    #[inline]
    fn hit(&mut self, objects: &mut Objects, id: Id, _: &Incoming) {
        let word = objects.word_mut(id);
        *word += u32::from(priority(*word) < PRIORITY_MAX);
    }

    fn victim(&mut self, objects: &mut Objects, _: &Incoming) -> Option<Id> {
        let mut hand = self.ring.front()?;
        while priority(objects.word(hand)) > 0 {
            *objects.word_mut(hand) -= 1;
            objects.move_to_back(&mut self.ring, hand);
            hand = self.ring.front()?;
        }
        let left = delay(objects.word(hand)).saturating_sub(1);
        *objects.word_mut(hand) = word(0, left);
        let due = if self.rules.literal { left == 0 } else { left <= 0 };
        due.then_some(hand)
    }

    fn kept(&mut self, objects: &mut Objects, id: Id) {
        if !self.rules.literal {
            *objects.word_mut(id) = self.armed(0);
            objects.move_to_back(&mut self.ring, id);
        }
    }

    fn insert(&mut self, objects: &mut Objects, id: Id, _: &Incoming) -> Place {
        *objects.word_mut(id) = self.armed(self.rules.priority);
        objects.push_back(&mut self.ring, id);
        Place::Flash
    }

    fn remove(&mut self, objects: &mut Objects, id: Id, _: Leave) {
        objects.unlink(&mut self.ring, id);
    }

    fn next(&self) -> Option<Id> {
        self.ring.front()
    }

    fn word_in(&self, _: usize, saved: u32) -> u32 {
        word(priority(saved).min(RESTORED_MAX), delay(saved))
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts { lists: vec![&mut self.ring], ..Parts::default() }
    }
}

#[cfg(test)]
mod tests {
    use crate::cache::Capacity;
    use crate::registry::make_online;

    /// Requests until the cache holds 1, 2 and 3, each with a priority of 1 + further hits.
    fn filled(options: &str) -> Box<dyn crate::Policy> {
        let text = format!("plc:threshold=1,{options}");
        let mut plc = make_online(&text, Capacity::of_equal(3, 1), 0).unwrap();
        for key in [1, 2, 3, 1, 2, 3] {
            plc.access(key, 1);
        }
        assert_eq!(plc.dump(), [[1, 2, 3]]);
        plc
    }

    #[test]
    fn a_newcomer_passes_filter_delay_and_comparison() {
        let mut plc = filled("f=const2");
        // The filter: one access is not above 1.
        assert!(!plc.access(9, 1).admit);
        assert_eq!(plc.dump(), [[1, 2, 3]]);
        // Two are; the hand takes every priority down and chooses 1 for the first time.
        assert!(!plc.access(9, 1).admit);
        assert_eq!(plc.dump(), [[1, 2, 3]]);
        // Chosen for the second time; three accesses exceed 2 x 1.
        let decision = plc.access(9, 1);
        assert_eq!((decision.admit, decision.evicted), (true, [1].as_slice()));
        assert_eq!(plc.dump(), [[2, 3, 9]]);
    }

    #[test]
    fn a_failed_comparison_arms_again_and_moves_on() {
        let mut plc = filled("f=const2,delay=1");
        plc.access(9, 1);
        // Two accesses do not exceed 2 x 1: 1 stays, and the hand goes on to 2.
        assert!(!plc.access(9, 1).admit);
        assert_eq!(plc.dump(), [[2, 3, 1]]);
        // Of equal accesses, more files let a newcomer in.
        plc.set_references(8, 1);
        plc.access(8, 1);
        assert_eq!(plc.access(8, 1).evicted, [2]);
    }

    #[test]
    fn to_the_letter_the_cache_freezes() {
        let mut plc = filled("f=const2,delay=1,rules=literal");
        for _ in 0..2 {
            plc.access(9, 1);
        }
        for key in 9..50 {
            assert!((0..10).all(|_| !plc.access(key, 1).admit));
        }
        assert_eq!(plc.dump(), [[1, 2, 3]]);
    }

    #[test]
    fn modules_can_be_switched_off() {
        let mut plc = filled("filter=0,delayed=0,compare=0");
        assert_eq!(plc.access(9, 1).evicted, [1]);
        assert_eq!(plc.access(8, 1).evicted, [2]);
    }

    #[test]
    fn the_count_of_a_replaced_container_starts_again() {
        let mut plc = filled("compare=0,delay=0");
        plc.access(9, 1);
        assert_eq!(plc.access(9, 1).evicted, [1]);
        assert!(!plc.access(1, 1).admit && plc.access(1, 1).admit);
        let mut plc = filled("compare=0,delay=0,reset=0");
        plc.access(9, 1);
        assert_eq!(plc.access(9, 1).evicted, [1]);
        assert!(plc.access(1, 1).admit);
    }
}
