//! A file that is read, with changes to it that stay in memory.
//! Room: onefold-pool.
//! Cost: a page of memory for each page of 4 KiB that was changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use onefold_block::{Media, MediaError, data_end};

use crate::map::PAGE_BYTES;
use crate::sync;

const PAGE: u64 = PAGE_BYTES as u64;

/// The file below, and what is different.
pub struct Overlay {
    below: Arc<dyn Media>,
    state: Mutex<State>,
}

struct State {
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES]>>,
    len: u64,
    /// From here on nothing of the file below shows.
    below_end: u64,
}

impl Overlay {
    /// Nothing changed yet. It ends where what is stored below does, however long the file is.
    pub fn new(below: Arc<dyn Media>) -> Result<Self, MediaError> {
        let len = data_end(&*below)?;
        let state = State { pages: BTreeMap::new(), len, below_end: len };
        Ok(Self { below, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }

    /// One page as it is now; past the end it is zeroes.
    fn page(&self, state: &State, number: u64) -> Result<Box<[u8; PAGE_BYTES]>, MediaError> {
        if let Some(page) = state.pages.get(&number) {
            return Ok(page.clone());
        }
        let mut page = Box::new([0; PAGE_BYTES]);
        let at = state.below_end.min(number * PAGE);
        let there = PAGE.min(state.below_end - at) as usize;
        self.below.read(at, &mut page[..there])?;
        Ok(page)
    }
}

/// The pages that a range touches: number, where in the page, and how many bytes.
fn pages(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + len as u64;
    (offset / PAGE..end.div_ceil(PAGE)).map(move |number| {
        let from = offset.max(number * PAGE);
        let upto = end.min((number + 1) * PAGE);
        (number, (from % PAGE) as usize, (upto - from) as usize)
    })
}

impl Media for Overlay {
    fn len(&self) -> Result<u64, MediaError> {
        Ok(self.state().len)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let state = self.state();
        let end = offset.saturating_add(buf.len() as u64);
        if end > state.len {
            let name = "a file that is being repaired".to_owned();
            return Err(MediaError::Truncated { name, len: state.len, offset, end });
        }
        let mut done = 0;
        for (number, from, len) in pages(offset, buf.len()) {
            let page = self.page(&state, number)?;
            buf[done..done + len].copy_from_slice(&page[from..from + len]);
            done += len;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let mut state = self.state();
        let mut done = 0;
        for (number, from, len) in pages(offset, data.len()) {
            let whole = len == PAGE_BYTES;
            let mut page =
                if whole { Box::new([0; PAGE_BYTES]) } else { self.page(&state, number)? };
            page[from..from + len].copy_from_slice(&data[done..done + len]);
            state.pages.insert(number, page);
            done += len;
        }
        state.len = state.len.max(offset + data.len() as u64);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        let mut state = self.state();
        drop(state.pages.split_off(&len.div_ceil(PAGE)));
        if let Some(page) = state.pages.get_mut(&(len / PAGE)) {
            page[(len % PAGE) as usize..].fill(0);
        }
        state.below_end = state.below_end.min(len);
        state.len = len;
        Ok(())
    }

    fn sync(&self) -> Result<(), MediaError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{Folder, SimFolder, SplitMix64};

    use super::*;

    #[test]
    fn an_overlay_reads_as_if_the_file_had_changed_and_the_file_has_not() {
        let folder = SimFolder::new();
        let below = folder.create("below").unwrap();
        let before = SplitMix64::new(1).bytes(3 * PAGE_BYTES + 100);
        below.write(0, &before).unwrap();
        let overlay = Overlay::new(Arc::clone(&below)).unwrap();
        let (mut model, mut random) = (before.clone(), SplitMix64::new(2));
        for round in 0..300 {
            if random.chance(1, 12) {
                let len = random.below(5 * PAGE);
                overlay.set_len(len).unwrap();
                model.resize(len as usize, 0);
            } else {
                let (at, len) = (random.below(4 * PAGE) as usize, random.below(2 * PAGE) as usize);
                let bytes = SplitMix64::new(round).bytes(len);
                overlay.write(at as u64, &bytes).unwrap();
                model.resize(model.len().max(at + len), 0);
                model[at..at + len].copy_from_slice(&bytes);
            }
            let mut found = vec![0; model.len()];
            overlay.read(0, &mut found).unwrap();
            assert!(found == model, "round {round}");
            assert_eq!(overlay.len().unwrap(), model.len() as u64);
            assert!(overlay.read(model.len() as u64, &mut [0]).is_err());
        }
        let mut found = vec![0; before.len()];
        below.read(0, &mut found).unwrap();
        assert!(found == before);
    }
}
