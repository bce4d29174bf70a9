//! Tests: which slots are given out, and what the next checkpoint says of them.
//! Room: onefold-pool.

use onefold_block::SplitMix64;

use super::*;

#[test]
fn released_slots_come_back_only_after_a_checkpoint() {
    let mut slots = Slots::new();
    slots.grow_reserved(4);
    assert_eq!((slots.free(), slots.used(), slots.end()), (3, 1, 1));
    assert_eq!([slots.allocate(), slots.allocate()], [1, 2]);
    slots.release(1);
    assert_eq!(slots.bitmap_page(0)[0], 0b101, "the next checkpoint does without it");
    assert_eq!(slots.allocate(), 3);
    assert_eq!(slots.free(), 0);
    assert_eq!(slots.allocate(), 4, "not the released one; and not one set aside");
    slots.free_released();
    assert_eq!(slots.allocate(), 1);
    slots.release(4);
    slots.release(3);
    slots.free_released();
    assert_eq!((slots.end(), slots.used(), slots.reserved()), (3, 3, 5));
    slots.forget_reserved();
    assert_eq!((slots.reserved(), slots.free()), (3, 0));
}

#[test]
fn slots_come_back_from_what_was_written_of_them() {
    let mut slots = Slots::new();
    assert_eq!(slots.changed(), [0]);
    slots.bitmap_is_written();
    slots.grow_reserved(SLOTS_PER_PAGE as u32 + 100);
    while slots.allocate() < SLOTS_PER_PAGE as u32 + 70 {}
    assert_eq!(slots.changed(), [0, 1]);
    slots.bitmap_is_written();
    slots.release(SLOTS_PER_PAGE as u32 + 3);
    slots.release(70);
    assert_eq!((slots.changed(), slots.bitmap_pages()), (vec![0, 1], 2));
    let bits = [0, 1].map(|page| slots.bitmap_page(page).to_vec()).concat();
    let restored = Slots::restore(bits);
    assert_eq!((restored.end(), restored.free()), (SLOTS_PER_PAGE as u32 + 71, 2));
    assert!(restored.is_used(69) && !restored.is_used(70) && !restored.is_used(u32::MAX));
    slots.free_released();
    slots.forget_reserved();
    assert_eq!((slots.used.as_slice(), slots.free()), (restored.used.as_slice(), 2));
    assert_eq!(Slots::restore(Vec::new()).used(), 1, "the header is never given out");
}

/// The same with a set for each question.
#[derive(Clone, Debug, Default)]
struct Model {
    used: BTreeSet<u32>,
    kept: BTreeSet<u32>,
    changed: BTreeSet<usize>,
    released: Vec<u32>,
    held: Option<Vec<u32>>,
    reserved: u32,
}

impl Model {
    fn end(&self) -> u32 {
        self.used.last().map_or(0, |last| last + 1)
    }

    fn change(&mut self, slot: u32) {
        self.changed.insert(slot as usize / SLOTS_PER_PAGE);
    }

    fn allocate(&mut self) -> u32 {
        let slot = (0..=u32::MAX).find(|slot| !self.used.contains(slot)).unwrap();
        self.used.insert(slot);
        self.kept.insert(slot);
        self.change(slot);
        self.reserved = self.reserved.max(slot + 1);
        slot
    }

    fn free_released(&mut self) {
        let released = std::mem::take(&mut self.released);
        match &mut self.held {
            Some(held) => held.extend(released),
            None => self.used.retain(|slot| !released.contains(slot)),
        }
    }

    fn let_go(&mut self) {
        let held = self.held.take().unwrap_or_default();
        self.used.retain(|slot| !held.contains(slot));
    }

    fn assert_is(&self, slots: &Slots, context: &str) {
        let (end, used) = (self.end(), self.used.len() as u32);
        let found = (slots.end(), slots.used(), slots.free(), slots.reserved());
        assert_eq!(found, (end, used, self.reserved - used, self.reserved), "{context}");
        let changed: Vec<usize> = self.changed.iter().copied().collect();
        assert_eq!(slots.changed(), changed, "{context}");
        let pages = (end as usize).div_ceil(SLOTS_PER_PAGE);
        assert_eq!(slots.bitmap_pages(), pages, "{context}");
        let bits = slots.in_use();
        assert_eq!(bits.len(), (self.reserved as usize).div_ceil(64), "{context}");
        for slot in 0..self.reserved + 64 {
            let bit = bits.get(slot as usize / 64).is_some_and(|w| w >> (slot % 64) & 1 == 1);
            assert_eq!(bit, self.kept.contains(&slot), "{context}: slot {slot}");
            let (used, expected) = (slots.is_used(slot), self.used.contains(&slot));
            assert_eq!(used, expected, "{context}: slot {slot}");
        }
        let page = slots.bitmap_page(0);
        assert!(page.iter().zip(&bits).all(|(a, b)| a == b), "{context}");
        assert!(page[bits.len()..].iter().all(|&word| word == 0), "{context}");
    }
}

#[test]
fn whatever_comes_slots_are_what_sets_of_them_would_be() {
    for seed in 0..8 {
        let mut random = SplitMix64::new(seed);
        let mut slots = Slots::new();
        let mut model = Model { reserved: 1, ..Model::default() };
        model.used.insert(0);
        model.kept.insert(0);
        model.changed.insert(0);
        for step in 0..120 {
            let context = format!("seed {seed}, step {step}");
            match random.below(10) {
                0..=2 => {
                    for _ in 0..random.below(40) {
                        assert_eq!(slots.allocate(), model.allocate(), "{context}");
                    }
                }
                // Some of them were released before.
                3..=5 => {
                    for _ in 0..random.below(40) {
                        let slot = 1 + random.below(u64::from(model.end())) as u32;
                        if model.used.contains(&slot) {
                            slots.release(slot);
                            if model.kept.remove(&slot) {
                                model.released.push(slot);
                                model.change(slot);
                            }
                        }
                    }
                }
                6 => {
                    slots.free_released();
                    model.free_released();
                }
                7 => {
                    let reserved = model.reserved + random.below(90) as u32;
                    let reserved = reserved.saturating_sub(20);
                    slots.grow_reserved(reserved);
                    model.reserved = model.reserved.max(reserved);
                }
                8 if random.chance(1, 2) => {
                    slots.forget_reserved();
                    model.reserved = model.end();
                }
                8 => {
                    slots.bitmap_is_written();
                    model.changed.clear();
                }
                _ if model.held.is_some() && random.chance(2, 3) => {
                    slots.let_go();
                    model.let_go();
                }
                // Whoever holds them twice holds them once.
                _ => {
                    slots.hold();
                    model.held.get_or_insert_default();
                }
            }
            model.assert_is(&slots, &context);
            // Opened again, the slots are what the checkpoint to come says.
            let kept = Model {
                used: model.kept.clone(),
                kept: model.kept.clone(),
                reserved: model.kept.last().unwrap() + 1,
                ..Model::default()
            };
            let mut bits = slots.in_use();
            bits.resize(bits.len() + step % 3, 0);
            kept.assert_is(&Slots::restore(bits.clone()), &context);
            let anew = Model { changed: BTreeSet::from([0]), ..kept };
            anew.assert_is(&Slots::restore_anew(bits), &context);
        }
    }
}

#[test]
fn a_bitmap_has_a_page_for_so_many_slots_and_room_for_those_of_its_own() {
    let mut slots = Slots::new();
    let page = SLOTS_PER_PAGE as u32;
    assert_eq!((slots.bitmap_pages_max(0), slots.bitmap_pages()), (1, 1));
    assert_eq!(slots.bitmap_pages_max(SLOTS_PER_PAGE - 1), 1);
    assert_eq!(slots.bitmap_pages_max(SLOTS_PER_PAGE), 2);
    // Of so many, one in 4,096 is for bitmaps.
    slots.grow_reserved(page - 7);
    assert_eq!(slots.bitmap_pages_max(0), 1);
    slots.grow_reserved(page - 6);
    assert_eq!(slots.bitmap_pages_max(0), 2);
    slots.grow_reserved(2 * page);
    assert_eq!((slots.bitmap_pages_max(0), slots.bitmap_pages()), (3, 1));
    assert_eq!(slots.bitmap_pages_max(SLOTS_PER_PAGE - 16), 3);
    assert_eq!(slots.bitmap_pages_max(SLOTS_PER_PAGE - 15), 4);
    while slots.allocate() < page - 1 {}
    assert_eq!(slots.bitmap_pages(), 1);
    slots.allocate();
    assert_eq!(slots.bitmap_pages(), 2);
    assert_eq!(slots.bitmap_page(1)[..2], [1, 0]);
    assert_eq!(Slots::restore_anew(slots.in_use()).changed(), [0, 1]);
}
