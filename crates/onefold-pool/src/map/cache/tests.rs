//! Tests: the cache beside a slow model of it, which goes through all of its pages for everything.
//! Room: onefold-pool.

use onefold_block::SplitMix64;

use super::*;
use crate::map::page::ENTRIES_PER_PAGE;

/// A page in the model: what its first word is stands for all that is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    key: PageKey,
    word: u64,
    place: Option<Place>,
    dirty: bool,
    frozen: Option<u64>,
    asked: bool,
}

struct Model {
    pages: Vec<Known>,
    hand: usize,
    most: usize,
}

impl Model {
    fn get(&mut self, key: PageKey) -> Option<&mut Known> {
        let found = self.pages.iter_mut().find(|page| page.key == key)?;
        found.asked = true;
        Some(found)
    }

    /// One that may go: the first after the last one that went which nobody asked for since. None
    /// if more than seven of eight cannot.
    fn victim(&mut self) -> Option<usize> {
        let pinned = self.pages.iter().filter(|page| page.dirty || page.frozen.is_some()).count();
        if pinned == self.pages.len() || pinned * 8 > self.pages.len() * 7 {
            return None;
        }
        loop {
            self.hand += 1;
            if self.hand >= self.pages.len() {
                self.hand = 0;
            }
            let page = &mut self.pages[self.hand];
            if !page.dirty && page.frozen.is_none() {
                if !page.asked {
                    return Some(self.hand);
                }
                page.asked = false;
            }
        }
    }

    fn insert(&mut self, page: Known) {
        match (self.pages.len() >= self.most).then(|| self.victim()).flatten() {
            Some(at) => self.pages[at] = page,
            None => self.pages.push(page),
        }
    }

    fn remove(&mut self, key: PageKey) {
        if let Some(at) = self.pages.iter().position(|page| page.key == key) {
            self.pages.swap_remove(at);
        }
    }

    fn trim(&mut self) {
        while self.pages.len() > self.most {
            let Some(at) = self.victim() else { return };
            self.pages.swap_remove(at);
        }
    }
}

/// What the cache knows of its pages, in its order.
fn known(cache: &PageCache) -> Vec<Known> {
    let of = |frame: &Frame| {
        let Frame { key, dirty, frozen, place, referenced, .. } = *frame;
        Known { key, word: frame.page()[0], place, dirty, frozen, asked: referenced }
    };
    cache.frames.iter().map(of).collect()
}

fn page(word: u64) -> Box<Page> {
    Box::new([word; ENTRIES_PER_PAGE])
}

const fn key(volume: u32, index: u64) -> PageKey {
    PageKey { volume, level: 0, index }
}

#[test]
fn whatever_comes_the_cache_is_what_a_slow_one_would_be() {
    let mut grew = 0;
    for (seed, most) in (0..24).zip([1, 2, 7, 8, 9, 16, 17, 24].into_iter().cycle()) {
        let mut random = SplitMix64::new(seed);
        let mut cache = PageCache::new(most);
        let mut model = Model { pages: Vec::new(), hand: 0, most };
        // Pages that are being written, as they were when they were frozen.
        let mut writing: Vec<(PageKey, u64, Arc<Page>)> = Vec::new();
        for step in 1..600u64 {
            let context = format!("seed {seed}, step {step}");
            let any = key(random.below(3) as u32, random.below(14));
            let place = Place { slot: step as u32, birth: step };
            let place = random.chance(4, 5).then_some(place);
            match random.below(16) {
                0..=3 if cache.get(any).is_none() => {
                    let dirty = random.chance(1, 4);
                    cache.insert(any, page(step), place, dirty);
                    let frozen = None;
                    model.insert(Known { key: any, word: step, place, dirty, frozen, asked: true });
                }
                4 | 5 => {
                    let (found, expected) = (cache.get(any), model.get(any));
                    assert_eq!(found.is_some(), expected.is_some(), "{context}");
                    if let (Some(found), Some(expected)) = (found, expected) {
                        found.page_mut()[0] = step;
                        expected.word = step;
                    }
                }
                6 | 7 => {
                    cache.mark_dirty(any);
                    if let Some(page) = model.get(any) {
                        page.dirty = true;
                    }
                }
                8 if writing.is_empty() => {
                    let frozen = cache.freeze(step);
                    let mut expected = Vec::new();
                    for page in model.pages.iter_mut().filter(|page| page.dirty) {
                        (page.dirty, page.frozen) = (false, Some(step));
                        expected.push((page.key, page.word));
                    }
                    writing = frozen.into_iter().map(|(key, page)| (key, page[0], page)).collect();
                    let mut found: Vec<_> =
                        writing.iter().map(|(k, word, _)| (*k, *word)).collect();
                    found.sort_unstable();
                    expected.sort_unstable();
                    assert_eq!(found, expected, "{context}");
                }
                9..=11 if !writing.is_empty() => {
                    let (key, word, page) =
                        writing.swap_remove(random.below(4) as usize % writing.len());
                    assert_eq!(page[0], word, "{context}: it changed while it was written");
                    let known = model.get(key);
                    if random.chance(1, 4) {
                        cache.thaw(key);
                        if let Some(known) = known.filter(|known| known.frozen.is_some()) {
                            (known.frozen, known.dirty) = (None, true);
                        }
                        continue;
                    }
                    let expected = known.map_or((None, false), |known| {
                        known.frozen = None;
                        (std::mem::replace(&mut known.place, place), !known.dirty)
                    });
                    assert_eq!(cache.written(key, place), expected, "{context}");
                }
                12 => {
                    cache.remove(any);
                    model.remove(any);
                    writing.retain(|(key, ..)| *key != any);
                }
                13 => {
                    cache.trim();
                    model.trim();
                }
                14 => {
                    let found = cache.keys_of(any.volume);
                    let all = model.pages.iter().map(|page| page.key);
                    let expected: Vec<_> = all.filter(|k| k.volume == any.volume).collect();
                    assert_eq!(found, expected, "{context}");
                }
                _ => {
                    let is = model.pages.iter().any(|page| page.key == any && page.dirty);
                    assert_eq!(cache.is_dirty(any), is, "{context}");
                }
            }
            // Who asks whether it is there has asked for it.
            let asked = cache.get(any).is_some();
            assert_eq!(model.get(any).is_some(), asked, "{context}");
            assert_eq!(known(&cache), model.pages, "{context}");
            let count = |is: fn(&Known) -> bool| model.pages.iter().filter(|page| is(page)).count();
            let counted =
                (count(|_| true), count(|page| page.dirty), count(|p| p.frozen.is_some()));
            assert_eq!((cache.len(), cache.dirty(), cache.frozen()), counted, "{context}");
            grew += usize::from(cache.len() > most);
        }
    }
    assert!(grew > 100, "there was always room but for {grew} times");
}

#[test]
fn a_cache_that_is_full_of_pages_to_be_written_grows_and_looks_no_further() {
    // Of eight pages seven may be dirty, and the eighth goes; of sixteen not fifteen.
    for (most, dirty, len) in [(8, 7, 8), (16, 14, 16), (16, 15, 17)] {
        let mut cache = PageCache::new(most);
        for index in 0..most as u64 {
            cache.insert(key(1, index), page(index), None, index < dirty);
        }
        cache.insert(key(2, 0), page(0), None, false);
        assert_eq!(cache.len(), len, "{dirty} of {most} are dirty");
        assert_eq!(cache.get(key(1, dirty)).is_some(), len > most);
        assert!(cache.get(key(1, 0)).is_some() && cache.get(key(2, 0)).is_some());
    }
}

#[test]
fn pages_that_change_while_they_are_written_are_counted_once() {
    let mut cache = PageCache::new(16);
    for index in 0..8 {
        cache.insert(key(1, index), page(index), None, true);
    }
    let frozen = cache.freeze(1);
    for (key, _) in &frozen {
        cache.mark_dirty(*key);
    }
    // Half of the memory is for what is read meanwhile, and no more than that.
    for index in 0..100 {
        cache.insert(key(2, index), page(index), None, false);
        assert!(cache.len() <= 16, "{} pages", cache.len());
    }
    // Nor do more come than there is room for if all that come are to be written.
    cache.thaw(key(1, 0));
    for index in 0..6 {
        cache.insert(key(3, index), page(index), None, true);
    }
    assert_eq!((cache.len(), cache.dirty(), cache.frozen()), (16, 14, 7));
}

#[test]
fn a_page_is_a_snapshots_too_if_it_was_born_by_then_and_did_not_change_since() {
    let mut cache = PageCache::new(8);
    let place = Place { slot: 3, birth: 5 };
    cache.insert(key(1, 0), page(0), Some(place), false);
    cache.insert(key(1, 1), page(0), None, true);
    let shared = |cache: &mut PageCache, index: u64, by: u64| {
        let frame = cache.get(key(1, index)).unwrap();
        (frame.is_shared(by), frame.is_pinned())
    };
    assert_eq!([4, 5, 6].map(|by| shared(&mut cache, 0, by).0), [false, true, true]);
    assert_eq!(shared(&mut cache, 1, u64::MAX), (false, true), "it was never written");
    cache.mark_dirty(key(1, 0));
    assert_eq!(shared(&mut cache, 0, u64::MAX), (false, true), "it is a copy already");
    cache.freeze(9);
    // What is being written was born with that checkpoint, whatever it was born with before.
    for index in [0, 1] {
        let seen = [8, 9, 10].map(|by| shared(&mut cache, index, by));
        assert_eq!(seen, [(false, true), (true, true), (true, true)], "page {index}");
    }
    cache.written(key(1, 1), None);
    assert_eq!(shared(&mut cache, 1, u64::MAX), (false, false), "it is nowhere");
}
