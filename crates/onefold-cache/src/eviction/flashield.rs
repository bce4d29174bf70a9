//! Flashield-like: newcomers wait in memory, and only what is read there often enough is written.
//! Room: onefold-cache.
//! Source: [flashield-19]: objects prove in a memory buffer that they are worth a write; the flash
//! evicts by CLOCK. There a classifier is trained on how often an object was read in memory and
//! must be read on flash; here a number of reads is the threshold, tuned per run.
//! Cost: as CLOCK; the buffer is a share of the capacity.

use crate::cache::Capacity;
use crate::objects::{Id, List, Objects};
use crate::policy::{Eviction, Incoming, Judge, Leave, Parts, Place};

const BUFFER: u32 = 1 << 31;

/// A buffer in LRU order and a flash in CLOCK order; the word holds where and how many reads.
#[derive(Clone, Debug)]
pub struct Flashield {
    buffer: List,
    flash: List,
    buffer_bytes_max: u64,
    flash_bytes_max: u64,
    reads: u32,
    promoted: Vec<Id>,
}

impl Flashield {
    /// With `share` of the capacity in memory; `reads` further reads there are worth a write.
    pub fn new(capacity: Capacity, share: f64, reads: u32) -> Self {
        let each = capacity.bytes / capacity.objects.max(1) as u64;
        let buffer = ((capacity.bytes as f64 * share) as u64).max(each).min(capacity.bytes);
        Self {
            buffer: List::default(),
            flash: List::default(),
            buffer_bytes_max: buffer,
            flash_bytes_max: capacity.bytes - buffer,
            reads: reads.max(1),
            promoted: Vec::new(),
        }
    }
}

impl Eviction for Flashield {
    fn hit(&mut self, objects: &mut Objects, id: Id, _: &Incoming) {
        let word = objects.word(id);
        if word & BUFFER == 0 {
            *objects.word_mut(id) = 1;
            return;
        }
        *objects.word_mut(id) = word + 1;
        let fits = self.flash.bytes() + u64::from(objects.size(id)) <= self.flash_bytes_max;
        if word + 1 - BUFFER >= self.reads && fits {
            objects.unlink(&mut self.buffer, id);
            *objects.word_mut(id) = 0;
            objects.push_back(&mut self.flash, id);
            self.promoted.push(id);
        } else {
            objects.move_to_back(&mut self.buffer, id);
        }
    }

    fn is_over(&self, incoming: &Incoming) -> bool {
        self.buffer.bytes() + u64::from(incoming.size) > self.buffer_bytes_max
            && !self.buffer.is_empty()
    }

    fn victim(&mut self, objects: &mut Objects, incoming: &Incoming) -> Option<Id> {
        let size = u64::from(incoming.size);
        if self.buffer.bytes() + size <= self.buffer_bytes_max {
            return self.oldest_on_flash(objects).or(self.buffer.front());
        }
        let oldest = self.buffer.front()?;
        if objects.word(oldest) - BUFFER < self.reads || self.flash_bytes_max == 0 {
            return Some(oldest);
        }
        // It is worth a write: it moves on, and somebody on flash goes for it.
        let over = self.flash.bytes() + u64::from(objects.size(oldest)) > self.flash_bytes_max;
        let victim = if over { self.oldest_on_flash(objects) } else { None };
        objects.unlink(&mut self.buffer, oldest);
        *objects.word_mut(oldest) = 0;
        objects.push_back(&mut self.flash, oldest);
        self.promoted.push(oldest);
        victim.or(self.buffer.front())
    }

    fn insert(&mut self, objects: &mut Objects, id: Id, _: &Incoming) -> Place {
        *objects.word_mut(id) = BUFFER;
        objects.push_back(&mut self.buffer, id);
        Place::Memory
    }

    fn promoted(&mut self) -> Option<Id> {
        self.promoted.pop()
    }

    fn has_stage(&self) -> bool {
        true
    }

    fn fits_on_flash(&self, bytes: u64) -> bool {
        self.flash.bytes() + bytes <= self.flash_bytes_max
    }

    fn flash_victim(&mut self, objects: &mut Objects, _: &mut dyn Judge) -> Option<Id> {
        self.oldest_on_flash(objects)
    }

    fn remove(&mut self, objects: &mut Objects, id: Id, _: Leave) {
        let buffered = objects.word(id) & BUFFER != 0;
        objects.unlink(if buffered { &mut self.buffer } else { &mut self.flash }, id);
        self.promoted.retain(|&promoted| promoted != id);
    }

    fn word_in(&self, list: usize, word: u32) -> u32 {
        if list == 1 { BUFFER | (word & !BUFFER).min(self.reads) } else { word.min(1) }
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts { lists: vec![&mut self.flash, &mut self.buffer], ..Parts::default() }
    }
}

impl Flashield {
    fn oldest_on_flash(&mut self, objects: &mut Objects) -> Option<Id> {
        for _ in 0..=self.flash.len() {
            let id = self.flash.front()?;
            if objects.word(id) == 0 {
                return Some(id);
            }
            *objects.word_mut(id) = 0;
            objects.move_to_back(&mut self.flash, id);
        }
        self.flash.front()
    }
}
