//! Changing a map that is damaged, in memory only: what cannot be read becomes pages without any
//! valid entry, so that it stays an error to read and what is set on top of it can be read.
//! Room: onefold-pool.
//! Invariant: used on pools that are open read-only; such pages are never written out.

use onefold_block::Lba;

use super::cursor::{Found, Prepared};
use super::page::{ENTRIES_PER_PAGE, Page, PageKey};
use super::tree::{Map, Watch};
use crate::error::PoolError;
use crate::pba::MapEntry;

/// A page without any valid entry: 2 is neither hole, zero nor address. Above the leaves, without a
/// valid reference: one with a birth and no slot leads nowhere.
fn unreadable(level: u8) -> Box<Page> {
    let entry = if level == 0 { 2 } else { 1 << 48 };
    Box::new([entry; ENTRIES_PER_PAGE])
}

/// What is rescued has no totals to keep.
struct OnlyLost<'a>(&'a mut dyn FnMut(MapEntry));

impl Watch for OnlyLost<'_> {
    fn lost(&mut self, entry: MapEntry) {
        (self.0)(entry);
    }

    fn copied(&mut self, _: MapEntry) {}
}

impl Map {
    /// Set the entries of blocks from `first` on, over damage too; `on_old` hears of each former
    /// entry that can be read.
    pub fn set_over_damage(
        &self,
        volume: u32,
        first: Lba,
        entries: &[MapEntry],
        on_old: &mut dyn FnMut(MapEntry),
    ) -> Result<(), PoolError> {
        let (mut at, mut entries) = (first.get(), entries);
        while !entries.is_empty() {
            let key = PageKey::leaf(volume, at);
            let run = entries.len().min((key.end_block() - at) as usize);
            let (now, rest) = entries.split_at(run);
            let mut state = self.state();
            if let Prepared::Missing(missing) = state.prepare(key)? {
                match self.read_in(state, missing) {
                    Ok(_) => {}
                    Err(error) if error.is_unreadable() => {
                        let page = unreadable(missing.key.level);
                        self.state().cache.insert(missing.key, page, None, true);
                    }
                    Err(error) => return Err(error),
                }
                continue;
            }
            let frame = state.cache.get(key).expect("it was just prepared");
            let from = at as usize % ENTRIES_PER_PAGE;
            for (slot, entry) in frame.page_mut()[from..from + run].iter_mut().zip(now) {
                if let Some(old) = MapEntry::from_raw(*slot) {
                    on_old(old);
                }
                *slot = entry.raw();
            }
            at += run as u64;
            entries = rest;
        }
        Ok(())
    }

    /// Set `count` blocks from `first` to hole or zero, over damage too.
    pub fn fill_over_damage(
        &self,
        volume: u32,
        first: Lba,
        count: u64,
        entry: MapEntry,
        on_old: &mut dyn FnMut(MapEntry),
    ) -> Result<(), PoolError> {
        let (mut at, end) = (first.get(), first.get() + count);
        while at < end {
            let lba = Lba::new(at);
            let run = match self.uniform_run(volume, lba, end - at) {
                Ok((0, _)) => 0,
                Ok((run, found)) => {
                    if found != entry {
                        self.fill(volume, lba, run, entry, usize::MAX, &mut OnlyLost(on_old))?;
                    }
                    run
                }
                Err(error) if error.is_unreadable() => 0,
                Err(error) => return Err(error),
            };
            at += if run > 0 {
                run
            } else {
                let run = (PageKey::leaf(volume, at).end_block() - at).min(end - at);
                self.set_over_damage(volume, lba, &vec![entry; run as usize], on_old)?;
                run
            };
        }
        Ok(())
    }

    /// Where to go on after the entry of a block could not be read: past the page that cannot be
    /// read, or past the block if it is the entry that makes no sense.
    pub fn past_unreadable(&self, volume: u32, lba: Lba) -> u64 {
        match self.state().locate(volume, lba.get()) {
            Ok(Found::Missing(missing)) => missing.key.end_block(),
            _ => lba.get() + 1,
        }
    }
}
