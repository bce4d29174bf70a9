//! Which pages will be overwritten soon, as past overwrites of their neighbourhood tell.
//! Room: onefold-flash.   In: addresses of writes.   Out: pages to leave alone, and for how long.
//! Source: [park-shin] sec. III names it as future work; how is not said there.
//! 1. Time is writes: an epoch is so many of them. A write ends a short life if the same logical
//!    page was written in this epoch or the one before. What was there for longer tells nothing: on
//!    a drive that is full every write replaces something.
//! 2. Logical pages fall into regions of so many neighbours. A region counts the short lives that
//!    ended in it, up to 255; every count is halved when an epoch ends. A page is taken to be
//!    short-lived if its region counts so many for each of its pages: at that rate it will not
//!    outlive the next epoch.
//! 3. A page that is held is left alone until it dies, or until it has outlived one whole epoch at
//!    least and two at most: then the prediction was wrong, and the page is due.
//!
//! Invariants: a held page is in one of the three sets; a page that nobody overwrites becomes due.
//! Cost: one byte a region and five bits a page of the drive; a write changes one count.

use crate::dedup::options::{Kind, OptionInfo, Options};
use crate::dedup::page_set::PageSet;

pub(crate) const PREDICT: OptionInfo = OptionInfo::new(
    "predict",
    Kind::Word(&["none", "overwrites"]),
    "Whether pages that past overwrites say will be replaced soon are left alone meanwhile",
);

pub(crate) const REGION_PAGES: OptionInfo = OptionInfo::new(
    "region_pages",
    Kind::Count { default: 8, min: 1, max: 64 },
    "predict: logical pages whose overwrites are counted together",
);

pub(crate) const EPOCH_SHARE: OptionInfo = OptionInfo::new(
    "epoch_share",
    Kind::Share(0.1),
    "predict: writes after which counts are halved, as a share of the drive's pages",
);

pub(crate) const OVERWRITES_PERCENT: OptionInfo = OptionInfo::new(
    "overwrites_percent",
    Kind::Count { default: 100, min: 1, max: 390 },
    "predict: short lives counted for each 100 pages of a region from which on its pages are held",
);

/// The counts, and the pages that are held.
#[derive(Clone, Debug)]
pub(crate) struct ShortLived {
    region_pages: u32,
    /// Short lives that ended in a region.
    ended: Vec<u8>,
    /// Logical pages written in this epoch, and in the one before.
    written: [PageSet; 2],
    /// The least count of a region whose pages are short-lived.
    threshold: u8,
    epoch_writes: u64,
    writes_left: u64,
    /// Held since this epoch, since the one before, and for long enough.
    young: PageSet,
    old: PageSet,
    due: PageSet,
    /// Pages that were held.
    pub held: u64,
    /// Held pages that died before they were due.
    pub foreseen: u64,
}

impl ShortLived {
    /// What the options ask for, for a drive of so many pages; nothing if they do not.
    pub fn new(options: &Options, pages: u32, places: u32) -> Option<Self> {
        if options.word("predict") == "none" {
            return None;
        }
        let region_pages = options.count("region_pages") as u32;
        let percent = options.count("overwrites_percent");
        let threshold = (u64::from(region_pages) * percent).div_ceil(100).clamp(1, 255) as u8;
        let epoch_writes = ((f64::from(pages) * options.share("epoch_share")) as u64).max(1);
        Some(Self {
            region_pages,
            // There are fewer logical pages than physical ones.
            ended: vec![0; pages.div_ceil(region_pages) as usize],
            written: [PageSet::new(pages), PageSet::new(pages)],
            threshold,
            epoch_writes,
            writes_left: epoch_writes,
            young: PageSet::new(places),
            old: PageSet::new(places),
            due: PageSet::new(places),
            held: 0,
            foreseen: 0,
        })
    }

    /// A page is written; whether it will be replaced soon.
    pub fn write(&mut self, lpn: u32) -> bool {
        if self.writes_left == 0 {
            self.end_epoch();
        }
        self.writes_left -= 1;
        let short = self.written.iter().any(|epoch| epoch.contains(lpn));
        self.written[0].insert(lpn);
        let count = &mut self.ended[(lpn / self.region_pages) as usize];
        *count = count.saturating_add(u8::from(short));
        *count >= self.threshold
    }

    fn end_epoch(&mut self) {
        self.writes_left = self.epoch_writes;
        for count in &mut self.ended {
            *count /= 2;
        }
        self.written.swap(0, 1);
        self.written[0].clear();
        while let Some(ppn) = self.old.pop() {
            self.due.insert(ppn);
        }
        std::mem::swap(&mut self.old, &mut self.young);
    }

    /// The page is left alone from now on.
    pub fn hold(&mut self, ppn: u32) {
        self.held += 1;
        self.young.insert(ppn);
    }

    /// A page died.
    pub fn died(&mut self, ppn: u32) {
        let held = self.young.remove(ppn) || self.old.remove(ppn);
        self.foreseen += u64::from(held);
        self.due.remove(ppn);
    }

    /// A page moved.
    pub fn moved(&mut self, from: u32, to: u32) {
        for set in [&mut self.young, &mut self.old, &mut self.due] {
            if set.remove(from) {
                set.insert(to);
            }
        }
    }

    /// The next page that was held long enough; it is held no more.
    pub fn next_due(&mut self) -> Option<u32> {
        self.due.pop()
    }

    /// Bytes in the controller.
    pub fn dram(&self) -> [(&'static str, u64); 2] {
        let bytes = |sets: &[&PageSet]| sets.iter().map(|set| set.bytes()).sum();
        let [now, before] = &self.written;
        let lives = self.ended.len() as u64 + bytes(&[now, before]);
        [("lives of pages", lives), ("held pages", bytes(&[&self.young, &self.old, &self.due]))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[OptionInfo] = &[PREDICT, REGION_PAGES, EPOCH_SHARE, OVERWRITES_PERCENT];

    fn of(text: &str, pages: u32) -> Option<ShortLived> {
        let table = text.parse().expect("TOML");
        ShortLived::new(&Options::check("some", KNOWN, &table).expect("options"), pages, pages)
    }

    /// Regions of 4 pages, epochs of 16 writes, a short life for each page.
    fn small() -> ShortLived {
        let text = "predict = 'overwrites'\nregion_pages = 4\nepoch_share = 0.25";
        of(text, 64).expect("asked for")
    }

    /// Writes that tell nothing, to pages far away.
    fn pass(all: &mut ShortLived, writes: u64) {
        for _ in 0..writes {
            all.written[0].remove(63);
            all.written[1].remove(63);
            all.write(63);
        }
    }

    #[test]
    fn nothing_is_predicted_unless_asked_for() {
        assert!(of("", 64).is_none());
        assert!(of("predict = 'overwrites'", 64).is_some());
    }

    #[test]
    fn a_region_is_short_lived_once_all_of_it_was_replaced_soon() {
        let mut all = small();
        // First writes replace nothing.
        assert!((0..4).all(|lpn| !all.write(lpn)));
        let replaced: Vec<bool> = (0..4).map(|lpn| all.write(lpn)).collect();
        assert_eq!(replaced, [false, false, false, true]);
        // The region beside it has nothing to do with that.
        assert!(!all.write(4));
    }

    #[test]
    fn lives_of_two_epochs_are_long_however_often_they_end() {
        let mut all = small();
        for _ in 0..20 {
            for lpn in 0..4 {
                assert!(!all.write(lpn));
            }
            pass(&mut all, 32 - 4);
        }
        // One epoch less, and they are short.
        let mut all = small();
        let mut held = false;
        for _ in 0..20 {
            for lpn in 0..4 {
                held |= all.write(lpn);
            }
            pass(&mut all, 16 - 4);
        }
        assert!(held);
    }

    #[test]
    fn counts_are_halved_with_every_epoch() {
        let mut all = small();
        for _ in 0..9 {
            all.write(0);
        }
        pass(&mut all, 16 - 9);
        // Eight are four, and the first one of the next epoch is told so.
        assert!(all.write(1));
        pass(&mut all, 15);
        assert!(!all.write(2), "four are two");
    }

    #[test]
    fn a_page_that_is_not_replaced_is_due_after_one_to_two_epochs() {
        for late in [0, 15] {
            let mut all = small();
            pass(&mut all, late);
            all.hold(7);
            let mut writes = 0;
            let due = loop {
                if let Some(due) = all.next_due() {
                    break due;
                }
                pass(&mut all, 1);
                writes += 1;
            };
            assert_eq!(due, 7);
            assert!((17..=33).contains(&writes), "{writes}");
            assert_eq!((all.held, all.foreseen), (1, 0));
        }
    }

    #[test]
    fn pages_that_die_or_move_are_followed() {
        let mut all = small();
        all.hold(1);
        all.hold(2);
        all.moved(1, 9);
        all.died(2);
        all.died(1);
        assert_eq!((all.held, all.foreseen), (2, 1));
        pass(&mut all, 33);
        all.moved(9, 10);
        assert_eq!((all.next_due(), all.next_due()), (Some(10), None));
        // It is nobody's any more.
        all.died(10);
        assert_eq!(all.foreseen, 1);
    }

    #[test]
    fn the_memory_is_a_byte_a_region_and_five_bits_a_page() {
        let bytes = |all: &ShortLived| all.dram().iter().map(|(_, bytes)| bytes).sum::<u64>();
        assert_eq!(bytes(&small()), 64 / 4 + 5 * 64 / 8);
        let large = of("predict = 'overwrites'", 1 << 20).expect("asked for");
        assert_eq!(bytes(&large), (1 << 20) / 8 * 6);
    }
}
