//! Winning space back where nothing can be moved: pages of 4 KiB in which nothing lives are given
//! back where they lie. On a disk that is full, and of what snapshots refer to, whose pages never
//! change.
//! Room: onefold-pool.
//! In: sealed containers with dead bytes. Out: the same containers with holes, some of their dead
//! records gone. Addresses of what lives do not change.
//! Invariants: (1) before a page is punched, the checkpoint is durable that says for good that
//! nothing of its container is shared any more, and that has, with all that follows it, only
//! references that were there when that container was closed, or copies of such; (2) a page goes
//! only if no reference was found into it by a pass over all maps, begun after its container was
//! closed, and that holds from the end of that pass on; (3) a map that
//! cannot be read, or a container with more references than were found, keeps all of its pages.
//! Cost: a pass over the maps and a checkpoint; 4 bytes of memory per reference into the containers
//! at hand.

use std::ops::Range;
use std::sync::PoisonError;

use onefold_block::{ContainerId, StoreError};

use crate::container::table::ContainerInfo;
use crate::counters::count;
use crate::engine::Inner;
use crate::error::PoolError;
use crate::format::container::{HEADER_BYTES, directory_bytes};
use crate::format::container_table::PUNCH_BYTES;
use crate::live_pass::{LivePass, Turn};
use crate::pba::Location;
use crate::sync;

/// References into the containers of one pass, at most.
const REFERENCES_MAX: u64 = 1 << 20;
/// What gives back less than this is not worth a checkpoint.
const GAIN_BYTES_MIN: u64 = 64 << 10;

/// What is known of punching here.
#[derive(Default)]
pub struct Punching {
    /// Nothing came back: the file system, or what is below it, cannot.
    in_vain: bool,
}

/// A container with pages in which nothing lives.
struct Victim {
    id: ContainerId,
    /// What was known of it before.
    info: ContainerInfo,
    /// These pages.
    pages: Vec<Range<usize>>,
}

impl Victim {
    /// How many they are.
    fn count(&self) -> u16 {
        self.pages.iter().map(|run| run.len() as u16).sum()
    }

    fn gain_bytes(&self) -> u64 {
        u64::from(self.count().saturating_sub(self.info.punched)) * PUNCH_BYTES as u64
    }
}

impl Inner {
    /// Give back what can be given back without moving anything. True if space came back.
    pub fn punch_dead(&self, punching: &mut Punching) -> Result<bool, PoolError> {
        let Some(mut pass) = self.begin_punching(punching, &|_, _| true) else { return Ok(false) };
        loop {
            match self.punching_turn(&mut pass, punching, &mut 0) {
                Ok(None) => {}
                Ok(Some(punched)) => return Ok(punched),
                Err(error) => {
                    self.end_punching(&pass);
                    return Err(error);
                }
            }
        }
    }

    /// Close those of the containers that are wanted which may give something back, and begin to
    /// look for what refers to them; `None` if there are no such.
    pub fn begin_punching(
        &self,
        punching: &Punching,
        wanted: &dyn Fn(ContainerId, &ContainerInfo) -> bool,
    ) -> Option<LivePass> {
        let in_vain = punching.in_vain || !self.store.gives_pages_back();
        let closed = if in_vain { Vec::new() } else { self.close_for_punching(wanted) };
        (!closed.is_empty()).then(|| LivePass::of(closed))
    }

    /// Go on with that, and punch once all is known: then, whether space came back, and nothing is
    /// closed any more. After an error, it is for the caller to [`Inner::end_punching`].
    pub fn punching_turn(
        &self,
        pass: &mut LivePass,
        punching: &mut Punching,
        work_bytes: &mut u64,
    ) -> Result<Option<bool>, PoolError> {
        let punched = match self.live_turn(pass) {
            Ok((turn, read)) => {
                *work_bytes += read;
                match turn {
                    Turn::More => return Ok(None),
                    Turn::Whole => self.punch_closed(pass, punching)?,
                    Turn::GivenUp => false,
                }
            }
            Err(error) if error.is_unreadable() => {
                tracing::error!("no pages are given back where they lie: {error}");
                false
            }
            Err(error) => return Err(error),
        };
        self.end_punching(pass);
        Ok(Some(punched))
    }

    /// Let containers be shared again.
    pub fn end_punching(&self, pass: &LivePass) {
        let mut engine = self.engine();
        for &id in pass.closed() {
            engine.table.set_closing(id, false);
        }
    }

    /// Close the containers with most dead bytes, as many as fit into a pass. In order.
    fn close_for_punching(
        &self,
        wanted: &dyn Fn(ContainerId, &ContainerInfo) -> bool,
    ) -> Vec<ContainerId> {
        let mut engine = self.engine();
        let in_memory: Vec<ContainerId> = {
            let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
            live.keys().copied().collect()
        };
        let may = |id: &ContainerId, info: &ContainerInfo| {
            info.dead_bytes() >= PUNCH_BYTES as u64 && !info.closing && !in_memory.contains(id)
        };
        let candidates = engine
            .table
            .iter()
            .filter(|(id, info)| may(id, info) && wanted(*id, info))
            .map(|(id, info)| (info.dead_bytes(), id, info.references))
            .collect();
        let closed = most_dead(candidates);
        for &id in &closed {
            engine.table.set_closing(id, true);
        }
        closed
    }

    fn punch_closed(&self, pass: &LivePass, punching: &mut Punching) -> Result<bool, PoolError> {
        let _punching = sync::lock(&self.punching);
        if self.is_held() {
            return Ok(false);
        }
        let victims = self.victims(pass);
        let gain: u64 = victims.iter().map(Victim::gain_bytes).sum();
        if gain < GAIN_BYTES_MIN {
            return Ok(false);
        }
        self.mark(&victims)?;
        let allocated = || -> u64 {
            let of = |victim: &Victim| self.plain.allocated_bytes(victim.id).unwrap_or(0);
            victims.iter().map(of).sum()
        };
        let before = allocated();
        for victim in &victims {
            self.directories.remove(victim.id);
            for run in &victim.pages {
                let (from, len) = (run.start * PUNCH_BYTES, run.len() * PUNCH_BYTES);
                match self.store.punch(victim.id, from as u64, len as u64) {
                    // Nothing referred to it any more.
                    Ok(()) | Err(StoreError::NotFound { .. }) => {}
                    // Nothing was promised of these bytes.
                    Err(error) => {
                        tracing::warn!("space cannot be given back where it lies: {error}");
                        punching.in_vain = true;
                    }
                }
            }
        }
        let back = before.saturating_sub(allocated());
        if back == 0 {
            punching.in_vain = true;
            let mut engine = self.engine();
            for victim in &victims {
                engine.table.set_punched(victim.id, victim.info.punched.max(1));
            }
        }
        count(&self.counters.punched_bytes, back);
        Ok(back > 0)
    }

    /// Say in a durable checkpoint that what is about to be punched is not to be shared.
    fn mark(&self, victims: &[Victim]) -> Result<(), PoolError> {
        let set = |punched: &dyn Fn(&Victim) -> u16| {
            let mut engine = self.engine();
            for victim in victims {
                engine.table.set_punched(victim.id, punched(victim));
            }
        };
        set(&Victim::count);
        // Nothing was punched yet.
        self.checkpoint().inspect_err(|_| set(&|victim| victim.info.punched))
    }

    /// What can go of each container. One with more references than were found keeps everything.
    fn victims(&self, pass: &LivePass) -> Vec<Victim> {
        let engine = self.engine();
        let mut victims = Vec::with_capacity(pass.closed().len());
        for &id in pass.closed() {
            let found = pass.found(id);
            let Some(info) = engine.table.get(id).copied() else { continue };
            if info.references > found.len() as u64 {
                continue;
            }
            let victim = Victim { id, info, pages: dead_pages(&info, found) };
            if victim.gain_bytes() > 0 {
                victims.push(victim);
            }
        }
        victims
    }
}

/// Runs of pages of a sealed container that hold neither its header nor its directory nor any part
/// of these records.
fn dead_pages(info: &ContainerInfo, live: &[Location]) -> Vec<Range<usize>> {
    let directory_at = info.len_bytes as usize - directory_bytes(info.chunks as usize);
    let mut keeps = vec![false; directory_at / PUNCH_BYTES];
    let header = 0..HEADER_BYTES;
    let records = live.iter().map(|record| record.offset_bytes()..record.end_bytes());
    for bytes in records.chain([header]) {
        let pages = bytes.start / PUNCH_BYTES..bytes.end.div_ceil(PUNCH_BYTES).min(keeps.len());
        if let Some(pages) = keeps.get_mut(pages) {
            pages.fill(true);
        }
    }
    let mut runs: Vec<Range<usize>> = Vec::new();
    for page in (0..keeps.len()).filter(|&page| !keeps[page]) {
        match runs.last_mut() {
            Some(run) if run.end == page => run.end += 1,
            _ => runs.push(page..page + 1),
        }
    }
    runs
}

/// Of containers with so many dead bytes and so many references, those with most of the former, as
/// many as fit into a pass. In order.
fn most_dead(mut candidates: Vec<(u64, ContainerId, u64)>) -> Vec<ContainerId> {
    candidates.sort_unstable_by(|a, b| b.cmp(a));
    let (mut references, mut chosen) = (0, Vec::new());
    for (_, id, more) in candidates {
        if references + more <= REFERENCES_MAX {
            references += more;
            chosen.push(id);
        }
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use onefold_block::{BlockDevice as _, ByteSize, FaultKind, OpKind, SimFolder};

    use super::*;
    use crate::container::directories::{self, Known};
    use crate::container::misses::Worth;
    use crate::pba::UNIT_BYTES;
    use crate::{OpenOptions, Pool, PoolSettings};

    #[test]
    fn containers_with_most_dead_bytes_are_punched_first_as_far_as_memory_goes() {
        let some = |most: u64| {
            let all = [(10, 1, 5), (30, 2, most), (20, 3, 7), (5, 4, 1)];
            let of = |(dead, number, references)| (dead, ContainerId::new(number), references);
            let chosen = most_dead(all.map(of).to_vec());
            chosen.into_iter().map(ContainerId::get).collect::<Vec<_>>()
        };
        assert_eq!(some(REFERENCES_MAX - 13), [1, 2, 3, 4]);
        assert_eq!(some(REFERENCES_MAX - 12), [1, 2, 3]);
        assert_eq!(some(REFERENCES_MAX - 7), [2, 3]);
        assert_eq!(some(REFERENCES_MAX), [2]);
        assert_eq!(some(REFERENCES_MAX + 1), [1, 3, 4]);
    }

    #[test]
    fn only_pages_go_in_which_nothing_lives() {
        let chunks = 100;
        let len_bytes = (20 * PUNCH_BYTES + 7 * UNIT_BYTES + directory_bytes(chunks)) as u32;
        let info = ContainerInfo { len_bytes, chunks: chunks as u32, ..ContainerInfo::default() };
        let record = |from: usize, len: usize| Location::new(from / UNIT_BYTES, len / UNIT_BYTES);
        assert_eq!(dead_pages(&info, &[]), vec![Range { start: 1, end: 20 }]);
        // Within a page, up to a border, over one, and the last.
        let live = [
            record(3 * PUNCH_BYTES + 64, 64),
            record(6 * PUNCH_BYTES - 64, 64),
            record(10 * PUNCH_BYTES - 16, 32),
            record(20 * PUNCH_BYTES - 16, 64),
        ];
        assert_eq!(dead_pages(&info, &live), [1..3, 4..5, 6..9, 11..19]);
        let empty = ContainerInfo { len_bytes: directory_bytes(0) as u32 + 48, ..info };
        assert_eq!(dead_pages(&ContainerInfo { chunks: 0, ..empty }, &[]), []);
    }

    #[test]
    fn where_nothing_comes_back_no_more_is_said_to_be_punched_than_before() {
        let folder = SimFolder::new();
        let settings = PoolSettings { container_bytes: 256 << 10, ..PoolSettings::default() };
        let pool = crate::empty_pool::new(&folder, &settings);
        let volume = pool.create_volume("main", ByteSize(1 << 30)).unwrap();
        for block in 0..300 {
            let bytes = onefold_block::SplitMix64::new(block).bytes(4096);
            volume.write_at(block * 4096, &bytes, false).unwrap();
        }
        drop(volume);
        pool.close().unwrap();
        let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
        let volume = pool.volume("main").unwrap();
        for run in 0..18 {
            volume.trim((run * 16 + 2) * 4096, 14 * 4096, false).unwrap();
        }
        let punched = || -> Vec<u16> {
            let engine = pool.inner.engine();
            engine.table.iter().map(|(_, info)| info.punched).collect()
        };
        assert!(punched().iter().all(|&pages| pages == 0));
        // Those that somebody empties are closed, and stay so until that ends.
        let all: Vec<_> = pool.inner.engine().table.iter().map(|(id, _)| id).collect();
        let close_all = |closing| {
            let mut engine = pool.inner.engine();
            for &id in &all {
                engine.table.set_closing(id, closing);
            }
        };
        close_all(true);
        assert!(pool.inner.begin_punching(&Punching::default(), &|_, _| true).is_none());
        close_all(false);
        folder.fail_from(&[OpKind::Punch], 1, FaultKind::Eio);
        let mut punching = Punching::default();
        assert!(!pool.inner.punch_dead(&mut punching).unwrap());
        assert!(punching.in_vain && punched().iter().all(|&pages| pages <= 1), "{:?}", punched());
        assert!(punched().contains(&1), "nothing is shared there any more");
        assert!(!pool.inner.punch_dead(&mut punching).unwrap(), "it is not tried again");
        folder.clear_faults();
        let checked = pool.check_beside(&mut |_, _| {
            assert!(!pool.inner.punch_dead(&mut Punching::default()).unwrap(), "it may be read");
            true
        });
        assert!(checked.unwrap().unwrap().is_sound());
        // What may be punched is closed until that ends, and also where it fails.
        let closing = || -> Vec<ContainerId> {
            let engine = pool.inner.engine();
            engine.table.iter().filter(|(_, info)| info.closing).map(|(id, _)| id).collect()
        };
        let pass = pool.inner.begin_punching(&Punching::default(), &|_, _| true).unwrap();
        assert_eq!(closing(), pass.closed());
        pool.inner.end_punching(&pass);
        assert_eq!(closing(), []);
        folder.fail_from(&[OpKind::Write], 1, FaultKind::Enospc);
        assert!(pool.inner.punch_dead(&mut Punching::default()).is_err());
        folder.clear_faults();
        assert_eq!(closing(), []);
        let all: Vec<_> = pool.inner.engine().table.iter().map(|(id, info)| (id, *info)).collect();
        for (id, info) in &all {
            let entries = directories::load(&*pool.inner.plain, *id, info.len_bytes.into());
            let known = Known::all(&entries.unwrap());
            pool.inner.directories.insert(*id, known, Worth::Followed);
        }
        assert!(pool.inner.punch_dead(&mut Punching::default()).unwrap());
        assert!(punched().iter().any(|&pages| pages > 1), "{:?}", punched());
        // What is not to be shared is not kept in mind.
        for ((id, _), pages) in all.iter().zip(punched()) {
            assert_eq!(pool.inner.directories.cached(*id).is_some(), pages <= 1);
        }
    }
}
