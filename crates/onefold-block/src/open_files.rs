//! Files of containers that stay open, and how many.
//! Room: onefold-block.
//! Second chance (CLOCK): the next in turn that was not used since its last turn is closed.
//! Cost: constant for each use; a file and about 200 bytes for each that is open.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::address::ContainerId;
use crate::media::Media;

/// Files that each container store keeps open unless something else is said: well below the usual
/// limit of 1,024 per process, which connections and other files share.
pub const OPEN_CONTAINERS_MIN: usize = 256;
/// More are not kept however many a process may open: the containers of 32 GiB at 4 MiB each, with
/// which the kernel has about 16 MiB of memory busy.
pub const OPEN_CONTAINERS_MAX: usize = 8192;

/// Descriptors are the process's, and so is this.
static MOST: AtomicUsize = AtomicUsize::new(OPEN_CONTAINERS_MIN);

/// From now on each container store of this process keeps up to `most` files open, within
/// [`OPEN_CONTAINERS_MIN`] and [`OPEN_CONTAINERS_MAX`]. Whoever knows what else the process opens
/// says so.
pub fn keep_containers_open(most: usize) {
    MOST.store(most.clamp(OPEN_CONTAINERS_MIN, OPEN_CONTAINERS_MAX), Ordering::Relaxed);
}

/// Files that each container store of this process keeps open, at most.
pub fn open_containers_max() -> usize {
    MOST.load(Ordering::Relaxed)
}

/// Open files by container.
#[derive(Default)]
pub(crate) struct OpenFiles {
    slots: Vec<Slot>,
    at: HashMap<ContainerId, usize>,
    /// The slot whose turn is next.
    hand: usize,
}

struct Slot {
    id: ContainerId,
    media: Arc<dyn Media>,
    used: bool,
}

impl OpenFiles {
    /// A container's file, if it is open. This is a use of it.
    pub fn get(&mut self, id: ContainerId) -> Option<Arc<dyn Media>> {
        let slot = &mut self.slots[*self.at.get(&id)?];
        slot.used = true;
        Some(Arc::clone(&slot.media))
    }

    /// Keep one open, of `most` at least one. Those that are closed for it are told.
    pub fn insert(
        &mut self,
        id: ContainerId,
        media: Arc<dyn Media>,
        most: usize,
        closed: &mut dyn FnMut(ContainerId),
    ) {
        let slot = Slot { id, media, used: false };
        if let Some(&at) = self.at.get(&id) {
            self.slots[at] = slot;
            return;
        }
        // The limit is lower than it was.
        while self.slots.len() > most.max(1) {
            let victim = self.next_unused();
            closed(self.slots[victim].id);
            self.remove(self.slots[victim].id);
        }
        if self.slots.len() < most.max(1) {
            self.at.insert(id, self.slots.len());
            self.slots.push(slot);
            return;
        }
        // In its place, so that it has a whole turn before it.
        let victim = self.next_unused();
        let old = std::mem::replace(&mut self.slots[victim], slot);
        self.at.remove(&old.id);
        self.at.insert(id, victim);
        self.hand = victim + 1;
        closed(old.id);
    }

    /// The slot of the next file that was not used since its last turn; there is at least one file.
    fn next_unused(&mut self) -> usize {
        loop {
            if self.hand >= self.slots.len() {
                self.hand = 0;
            }
            if !std::mem::take(&mut self.slots[self.hand].used) {
                return self.hand;
            }
            self.hand += 1;
        }
    }

    /// Close one, if it is open.
    pub fn remove(&mut self, id: ContainerId) {
        let Some(at) = self.at.remove(&id) else { return };
        self.slots.swap_remove(at);
        if let Some(moved) = self.slots.get(at) {
            self.at.insert(moved.id, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Folder as _, SimFolder, SplitMix64};

    /// The ring with a hand of the textbooks; a slot that is given up is taken by the last one.
    #[derive(Default)]
    struct Ring {
        slots: Vec<(u32, bool)>,
        hand: usize,
    }

    impl Ring {
        fn victim(&mut self) -> usize {
            loop {
                // Past the last one it begins anew.
                self.hand = if self.hand < self.slots.len() { self.hand } else { 0 };
                if !self.slots[self.hand].1 {
                    return self.hand;
                }
                self.slots[self.hand].1 = false;
                self.hand += 1;
            }
        }

        fn insert(&mut self, id: u32, most: usize) -> Vec<u32> {
            let mut closed = Vec::new();
            if let Some(slot) = self.slots.iter_mut().find(|slot| slot.0 == id) {
                slot.1 = false;
                return closed;
            }
            while self.slots.len() > most {
                let victim = self.victim();
                closed.push(self.slots.swap_remove(victim).0);
            }
            if self.slots.len() < most {
                self.slots.push((id, false));
            } else {
                let victim = self.victim();
                closed.push(self.slots[victim].0);
                self.slots[victim] = (id, false);
                self.hand += 1;
            }
            closed
        }
    }

    #[test]
    fn who_is_not_used_is_closed_in_turn_and_told_whatever_the_limit_becomes() {
        let folder = SimFolder::new();
        let (mut files, mut ring) = (OpenFiles::default(), Ring::default());
        let mut random = SplitMix64::new(5);
        let mut closings = [0; 3];
        for step in 0..3000 {
            let (id, most) = (random.below(20) as u32, [8, 3, 12, 0][step / 100 % 4]);
            match random.below(8) {
                0 => {
                    files.remove(ContainerId::new(id));
                    if let Some(at) = ring.slots.iter().position(|slot| slot.0 == id) {
                        ring.slots.swap_remove(at);
                    }
                }
                1..4 => {
                    let media = folder.create(&id.to_string()).unwrap();
                    let mut closed = Vec::new();
                    let mut tell = |id: ContainerId| closed.push(id.get());
                    files.insert(ContainerId::new(id), media, most, &mut tell);
                    closings[closed.len().min(2)] += 1;
                    assert_eq!(closed, ring.insert(id, most.max(1)), "step {step}");
                }
                _ => {
                    let found = files.get(ContainerId::new(id)).is_some();
                    let slot = ring.slots.iter_mut().find(|slot| slot.0 == id);
                    assert_eq!(found, slot.is_some(), "step {step}");
                    if let Some(slot) = slot {
                        slot.1 = true;
                    }
                }
            }
        }
        assert!(closings.iter().all(|&count| count > 10), "{closings:?}");
    }

    #[test]
    fn as_many_stay_open_as_were_asked_for_within_limits() {
        for (asked, kept) in [(0, 256), (255, 256), (257, 257), (8192, 8192), (8193, 8192)] {
            keep_containers_open(asked);
            assert_eq!(open_containers_max(), kept);
        }
        keep_containers_open(0);
    }
}
