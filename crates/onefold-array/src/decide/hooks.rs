//! A sampled index: hooks in memory for one fingerprint in so many, and directories that are read
//! whole.
//! Room: onefold-array.
//! Source: [sparse-index-09] for hooks, [ddfs-08] for directories that are cached because what was
//! stored together comes again together. Differs: directories are pages, in the order in which
//! chunks were stored, on the drives that hold the buckets of FIDR; a directory that turns out to
//! be followed brings the next one.
//! Invariants: (1) memory is that of the description: hooks, cached pages, and an index of what
//! cached pages hold  (2) a fingerprint is found if and only if its page is in memory, or it has a
//! hook.

use std::collections::{HashMap, VecDeque};

use onefold_cache::{Capacity, OptionError, Policy, make_online};

use super::contents::Content;
use super::index::{LookUp, Moves, is_sampled};
use crate::spec::TableSpec;

/// In memory nowhere.
const NOWHERE: u32 = u32::MAX;

/// Hooks, directories, and the cache of directories.
pub struct Hooks {
    policy: Box<dyn Policy>,
    /// Memory that a cached directory takes.
    cached_bytes: u32,
    /// Fingerprints of a directory.
    entries: usize,
    one_in: u64,
    follow: usize,
    /// Directories on the drives, one after the other; the last one may not be full and is in
    /// memory.
    directories: Vec<Content>,
    /// Where in `directories` each content is, of what is in memory.
    known: Vec<u32>,
    /// The directory of each content that has a hook.
    page_of: HashMap<Content, u32>,
    /// Hooks from the oldest on; the oldest makes room.
    oldest: VecDeque<Content>,
    most: usize,
    /// Chunks found in each directory since it came into memory.
    found_in: Vec<u16>,
    gone: Vec<u64>,
}

impl Hooks {
    /// An index that knows the contents 0 to `stored`, of which the last are in memory.
    ///
    /// # Errors
    /// The policy's name or options.
    pub fn new(table: &TableSpec, stored: Content, seed: u64) -> Result<Self, OptionError> {
        let entries = table.page_entries();
        let cached_bytes = table.cached_page_bytes();
        let bytes = table.page_cache_bytes();
        let fits = (bytes / cached_bytes).max(1);
        let capacity = Capacity { bytes: fits * cached_bytes, objects: fits as usize };
        let mut hooks = Self {
            policy: make_online(&table.policy, capacity, seed)?,
            cached_bytes: cached_bytes as u32,
            entries: entries as usize,
            one_in: table.sample_one_in,
            follow: table.follow_chunks as usize,
            directories: Vec::new(),
            known: vec![NOWHERE; stored as usize],
            page_of: HashMap::new(),
            oldest: VecDeque::new(),
            most: table.hooks_max() as usize,
            found_in: Vec::new(),
            gone: Vec::new(),
        };
        // Only the last directories can be in memory when the load begins.
        let last = u64::from(stored).saturating_sub(fits * entries) / entries * entries;
        for content in 0..last as Content {
            hooks.hook(content, content as usize);
            hooks.directories.push(content);
        }
        hooks.found_in.resize(hooks.full_pages(), 0);
        for content in last as Content..stored {
            hooks.store(content, &mut Moves::default());
        }
        Ok(hooks)
    }

    /// Looks a fingerprint up, and enters it if it is not found.
    pub fn look_up(&mut self, content: Content, moves: &mut Moves) -> LookUp {
        let at = self.known.get(content as usize).copied().unwrap_or(NOWHERE);
        if at != NOWHERE {
            return LookUp { found: true, reads: self.found_at(at as usize, moves), writes: 0 };
        }
        let hook = if is_sampled(content, self.one_in) { self.page_of.get(&content) } else { None };
        if let Some(&page) = hook {
            let reads = u32::from(!self.policy.contains(u64::from(page)));
            if reads == 1 {
                moves.read(u64::from(page));
            }
            self.bring(page as usize);
            self.found_in[page as usize] = 1;
            return LookUp { found: true, reads, writes: 0 };
        }
        LookUp { found: false, reads: 0, writes: self.store(content, moves) }
    }

    /// A chunk was found in a directory in memory; pages that are read because of that.
    fn found_at(&mut self, at: usize, moves: &mut Moves) -> u32 {
        let page = at / self.entries;
        if page >= self.full_pages() {
            return 0;
        }
        self.bring(page);
        self.found_in[page] = self.found_in[page].saturating_add(1);
        let near_the_end = at % self.entries + self.follow >= self.entries;
        let followed = self.follow > 0 && usize::from(self.found_in[page]) >= self.follow;
        let next = page + 1;
        let wanted = near_the_end && followed && next < self.full_pages();
        if !wanted || self.policy.contains(next as u64) {
            return 0;
        }
        self.bring(next);
        moves.read(next as u64);
        1
    }

    /// Enters a chunk that was not found; pages that are written because of that.
    fn store(&mut self, content: Content, moves: &mut Moves) -> u32 {
        let at = self.directories.len();
        self.directories.push(content);
        if self.known.len() <= content as usize {
            self.known.resize((content as usize + 1).next_power_of_two(), NOWHERE);
        }
        self.known[content as usize] = at as u32;
        self.hook(content, at);
        if !self.directories.len().is_multiple_of(self.entries) {
            return 0;
        }
        self.found_in.push(0);
        self.bring(at / self.entries);
        moves.write((at / self.entries) as u64);
        1
    }

    /// Gives a chunk that is stored at a place a hook, if it is one of those that have one.
    fn hook(&mut self, content: Content, at: usize) {
        if !is_sampled(content, self.one_in) {
            return;
        }
        if self.page_of.insert(content, (at / self.entries) as u32).is_none() {
            self.oldest.push_back(content);
        }
        if self.oldest.len() > self.most
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.page_of.remove(&oldest);
        }
    }

    fn full_pages(&self) -> usize {
        self.directories.len() / self.entries
    }

    /// A directory is used: it is in memory from now on, if the cache's policy will have it.
    fn bring(&mut self, page: usize) {
        let decision = self.policy.access(page as u64, self.cached_bytes);
        let (hit, kept) = (decision.hit, decision.hit || decision.admit);
        self.gone.clear();
        self.gone.extend_from_slice(decision.evicted);
        for at in 0..self.gone.len() {
            self.forget(self.gone[at] as usize);
        }
        if !kept {
            self.forget(page);
        } else if !hit {
            self.found_in[page] = 0;
            for at in self.span(page) {
                self.known[self.directories[at] as usize] = at as u32;
            }
        }
    }

    /// A directory is in memory no more.
    fn forget(&mut self, page: usize) {
        let span = self.span(page);
        for at in span.clone() {
            let known = &mut self.known[self.directories[at] as usize];
            if span.contains(&(*known as usize)) {
                *known = NOWHERE;
            }
        }
    }

    fn span(&self, page: usize) -> std::ops::Range<usize> {
        page * self.entries..(page + 1) * self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_block::SplitMix64;

    use crate::spec::SpecBuilder;

    fn ask(hooks: &mut Hooks, content: Content) -> LookUp {
        hooks.look_up(content, &mut Moves::default())
    }

    /// Directories of 10, hooks for all or for one in so many, memory for so many directories.
    fn index(one_in: u64, pages: u64, follow: u64, stored: Content) -> Hooks {
        let builder = SpecBuilder::preset("cidr+").unwrap();
        let memory = pages * (640 + 40) + 1000_u64.div_ceil(one_in) * 9;
        let set = [
            "table.kind=hooks".to_owned(),
            "table.entries=1000".into(),
            "table.entry_bytes=64".into(),
            "table.bucket_bytes=640".into(),
            format!("table.cache_bytes={memory}"),
            format!("table.sample_one_in={one_in}"),
            format!("table.follow_chunks={follow}"),
        ];
        let spec = set.iter().fold(builder, |builder, set| builder.set(set).unwrap());
        Hooks::new(&spec.build().unwrap().table, stored, 1).unwrap()
    }

    fn found(reads: u32) -> LookUp {
        LookUp { found: true, reads, writes: 0 }
    }

    #[test]
    fn a_hook_brings_its_neighbours_and_one_page_is_written_for_ten_chunks() {
        let mut hooks = index(1, 2, 0, 0);
        let writes: u32 = (0..40).map(|content| ask(&mut hooks, content).writes).sum();
        assert_eq!(writes, 4);
        // Pages 2 and 3 are in memory; page 0 comes with one read, and page 2 goes.
        assert!((20..40).all(|content| ask(&mut hooks, content) == found(0)));
        assert_eq!(ask(&mut hooks, 7), found(1));
        assert!((0..10).chain(30..40).all(|content| ask(&mut hooks, content) == found(0)));
        assert_eq!(ask(&mut hooks, 25), found(1));
        // What is not full yet is in memory too.
        assert_eq!(ask(&mut hooks, 40), LookUp::default());
        assert_eq!(ask(&mut hooks, 40), found(0));
    }

    #[test]
    fn without_a_hook_a_chunk_is_stored_again_and_found_there() {
        let mut hooks = index(1 << 16, 1, 0, 30);
        assert!((20..30).all(|content| ask(&mut hooks, content) == found(0)));
        assert_eq!(ask(&mut hooks, 3), LookUp::default());
        assert_eq!(ask(&mut hooks, 3), found(0));
        (100..109).for_each(|content| _ = ask(&mut hooks, content));
        assert_eq!(ask(&mut hooks, 3), found(0), "it is in the directory that was written last");
        assert_eq!(ask(&mut hooks, 22), LookUp::default(), "and the one before made room");
    }

    #[test]
    fn a_directory_that_is_followed_brings_the_next_before_it_is_asked_for() {
        let runs = |follow| {
            let mut hooks = index(1, 2, follow, 500);
            (100..160).map(|content| ask(&mut hooks, content).reads).collect::<Vec<u32>>()
        };
        let (waited, ahead) = (runs(0), runs(3));
        assert_eq!((waited.iter().sum::<u32>(), ahead.iter().sum::<u32>()), (6, 7));
        assert!((0..60).all(|at| (waited[at] == 1) == (at % 10 == 0)), "{waited:?}");
        assert_eq!((ahead[0], ahead[7], ahead[10], ahead[17]), (1, 1, 0, 1), "{ahead:?}");
        // Two of a directory are not enough to read the next.
        let mut hooks = index(1, 2, 3, 500);
        assert_eq!([108, 109].map(|content| ask(&mut hooks, content).reads), [1, 0]);
    }

    #[test]
    fn hooks_take_no_more_memory_than_there_is_and_the_oldest_goes() {
        let mut hooks = index(1, 1, 0, 0);
        (0..1200).for_each(|content| _ = ask(&mut hooks, content));
        assert_eq!((hooks.page_of.len(), hooks.oldest.len()), (1000, 1000));
        assert_eq!(ask(&mut hooks, 205), found(1));
        assert_eq!(ask(&mut hooks, 195), LookUp::default());
    }

    /// Runs of contents from anywhere, some of which come again: what is found, read and written
    /// in all, and a hash of all of it with the pages that move.
    fn story(one_in: u64, pages: u64, follow: u64) -> ([u32; 3], u64) {
        let mut hooks = index(one_in, pages, follow, 300);
        let (mut random, mut sums, mut hash) = (SplitMix64::new(7), [0; 3], 0);
        for _ in 0..60 {
            let first = random.below(700) as Content;
            for content in first..first + 1 + random.below(25) as Content {
                let mut moves = Moves::asked();
                let told = hooks.look_up(content, &mut moves);
                for (sum, more) in sums.iter_mut().zip([told.found.into(), told.reads, told.writes])
                {
                    *sum += more;
                }
                let text = format!("{told:?} {moves:?}");
                for byte in text.bytes() {
                    hash = SplitMix64::new(hash ^ u64::from(byte)).next_u64();
                }
            }
        }
        (sums, hash)
    }

    #[test]
    fn what_random_runs_take_is_what_it_was() {
        let found = [(1, 2, 0), (1, 3, 3), (4, 2, 2), (16, 1, 1)]
            .map(|(one_in, pages, follow)| story(one_in, pages, follow));
        let expected = [
            ([446, 88, 33], 0xad24_feb0_5314_5851),
            ([446, 103, 33], 0x0ba0_3a4b_8338_5f12),
            ([329, 78, 45], 0xe642_a66b_ecbb_e240),
            ([162, 32, 62], 0xf7f1_0831_4867_37d0),
        ];
        assert_eq!(found, expected);
    }
}
