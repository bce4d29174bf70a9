//! What a served drive leaves in memory for the process after this one.
//! Room: onefold-flash.
//! Pages go to the file as they are programmed, so that the system has them whatever becomes of the
//! process. In this process alone are the records of the journal's page that is not full yet: which
//! logical pages share which page, and what was trimmed. They are copied to a region of memory that
//! outlives the process, before the request that made them is answered, and are replayed at the
//! next opening as if their page had been stored.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 52 | mark: whose it is |
//! | 64 | 8 | which opening of the drive wrote it |
//! | 72 | 8 | how often it was emptied |
//! | 80 | 8 | bytes of records that count |
//! | 88 | 8 | 1 if there was no room for all of them |
//! | 4096 | 24 each | records: 20 bytes as in the journal, and a CRC-32 |
//!
//! The CRC-32 is of opening, emptyings, place and record.
//! Invariants: (1) records are here, or on the flash, before what made them is answered; (2) they
//! are believed only after their checksums, in the same run of the machine, and if nobody has
//! opened the drive since.

use std::sync::Arc;

use onefold_block::handover::{Handover, MARK_BYTES, Mark, Region, Unmarked};
use onefold_block::{MediaError, Survival};

use super::kept_pages::{self, KeptPages, Waiting};
use crate::ftl::journal::{self, RECORD_BYTES, Record};
use crate::nand::{Fragment, PageBytes};

const MAGIC: [u8; 8] = *b"OFKEPTD\n";
const PAGES_MAGIC: [u8; 8] = *b"OFKEPTP\n";
const VERSION: u32 = 1;
/// The region of records.
const NAME: &str = "records";
const OPENING_AT: usize = 64;
const ORDER_AT: usize = 72;
const USED_AT: usize = 80;
const MISSING_AT: usize = 88;
const RECORDS_AT: usize = 4096;
/// A record with its checksum.
const ENTRY_BYTES: usize = RECORD_BYTES + 4;
/// One request may add some to a page that is all but full.
const SPARE_RECORDS: usize = 1024;

/// A record with its sequence number.
type Numbered = (u64, Record);

/// Memory that holds the records which are not on the flash yet.
pub(super) struct Kept {
    region: Region,
    handover: Arc<dyn Handover>,
    opening: u64,
    order: u64,
    /// Sequence of the first record that it holds, and how many it holds.
    first: Option<u64>,
    count: usize,
    /// Pages that wait to be packed, on a drive that packs any.
    pages: Option<KeptPages>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("count", &self.count).finish_non_exhaustive()
    }
}

/// What a former process left.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// Records in order, as many as can be believed.
    pub records: Vec<Numbered>,
    /// Pages that waited to be packed.
    pub pages: Waiting,
    /// Why there may have been more, if so.
    pub lost: Option<String>,
    /// Whether there was anything of this drive.
    pub found: bool,
}

impl Left {
    /// What became of what was acknowledged.
    pub const fn survival(&self) -> Survival {
        match self {
            Self { lost: Some(_), .. } => Survival::Lost,
            Self { found: true, .. } => Survival::TakenUp,
            Self { .. } => Survival::NothingFound,
        }
    }
}

fn mark(drive: [u8; 16], boot: [u8; 16]) -> Mark {
    Mark { magic: MAGIC, version: VERSION, owner: drive, boot }
}

fn check_of(opening: u64, order: u64, at: usize, record: &[u8]) -> u32 {
    let mut bytes = [0; 24 + RECORD_BYTES];
    bytes[..8].copy_from_slice(&opening.to_le_bytes());
    bytes[8..16].copy_from_slice(&order.to_le_bytes());
    bytes[16..24].copy_from_slice(&(at as u64).to_le_bytes());
    bytes[24..].copy_from_slice(record);
    crc32fast::hash(&bytes)
}

impl Kept {
    /// An empty region, for an opening of the drive whose journal pages hold so many records; where
    /// pages are packed, another one for as many bytes of those that wait.
    ///
    /// # Errors
    /// [`MediaError`] where there is no memory.
    pub fn begin(
        handover: Arc<dyn Handover>,
        drive: [u8; 16],
        opening: u64,
        records_per_page: usize,
        packing: Option<usize>,
    ) -> Result<Self, MediaError> {
        let bytes = RECORDS_AT + (records_per_page + SPARE_RECORDS) * ENTRY_BYTES;
        let mut region = handover.create(NAME, bytes.next_multiple_of(4096))?;
        region.publish(OPENING_AT, opening);
        let mark = mark(drive, handover.boot());
        // The first region says that there is something: the other one is there before it.
        let of_pages = Mark { magic: PAGES_MAGIC, ..mark };
        let begin = |most| KeptPages::begin(&*handover, &of_pages, opening, most);
        let pages = packing.map(begin).transpose()?;
        region.bytes_mut()[..MARK_BYTES].copy_from_slice(&mark.bytes());
        Ok(Self { region, handover, opening, order: 0, first: None, count: 0, pages })
    }

    /// Hold what is pending, and nothing else: records that are not here yet are added, and those
    /// that are on the flash by now go.
    pub fn hold(&mut self, pending: &[Numbered]) {
        let first = pending.first().map(|&(seq, _)| seq);
        if first != self.first {
            self.empty();
            self.first = first;
        }
        for &(seq, record) in &pending[self.count..] {
            let at = self.count * ENTRY_BYTES;
            let start = RECORDS_AT + at;
            self.count += 1;
            let Some(entry) = self.region.bytes_mut().get_mut(start..start + ENTRY_BYTES) else {
                // What comes after something that is missing counts for nothing.
                self.region.publish(MISSING_AT, 1);
                continue;
            };
            let bytes = journal::encode(seq, record);
            let check = check_of(self.opening, self.order, at, &bytes);
            entry[..RECORD_BYTES].copy_from_slice(&bytes);
            entry[RECORD_BYTES..].copy_from_slice(&check.to_le_bytes());
            self.region.publish(USED_AT, (at + ENTRY_BYTES) as u64);
        }
    }

    /// Hold these pages that wait to be packed, and no others.
    pub fn hold_pages<'a>(
        &mut self,
        version: u64,
        waiting: impl Iterator<Item = (&'a [u32], &'a Fragment<PageBytes>)>,
    ) {
        if let Some(pages) = &mut self.pages {
            pages.hold(version, waiting);
        }
    }

    fn empty(&mut self) {
        self.region.publish(USED_AT, 0);
        self.region.publish(MISSING_AT, 0);
        self.order += 1;
        self.region.publish(ORDER_AT, self.order);
        self.count = 0;
    }

    /// Everything is durable and the drive is closed: nothing is left to anybody.
    ///
    /// # Errors
    /// [`MediaError`] where the memory stays behind.
    pub fn end(self) -> Result<(), MediaError> {
        remove(&*self.handover)
    }
}

/// What the process left that had the drive open last; `opening` is which opening that was.
pub(super) fn left(handover: &dyn Handover, drive: [u8; 16], opening: u64, packs: bool) -> Left {
    let lost = |why: String| Left { lost: Some(why), found: true, ..Left::default() };
    let region = match handover.open(NAME) {
        Ok(region) => region,
        Err(MediaError::NotFound { .. }) => return Left::default(),
        Err(error) => return lost(format!("it cannot be opened: {error}")),
    };
    match mark(drive, handover.boot()).check(&region, 0) {
        Ok(()) if region.bytes().len() < RECORDS_AT => lost(Unmarked::CutShort.to_string()),
        Ok(()) => {
            let mut left = records(&region, opening);
            if packs {
                let mark = Mark { magic: PAGES_MAGIC, ..mark(drive, handover.boot()) };
                match kept_pages::left(handover, &mark, opening) {
                    Ok(pages) => left.pages = pages,
                    Err(why) => left.lost = left.lost.or(Some(why)),
                }
            }
            left
        }
        // A folder that is gone had the same number on this disk.
        Err(Unmarked::OtherOwner) => Left::default(),
        Err(why) => lost(why.to_string()),
    }
}

/// Remove what a former process left.
///
/// # Errors
/// [`MediaError`].
pub(super) fn remove(handover: &dyn Handover) -> Result<(), MediaError> {
    handover.remove(kept_pages::NAME)?;
    handover.remove(NAME)
}

fn records(region: &Region, opening: u64) -> Left {
    let mut left = Left { found: true, ..Left::default() };
    let (used, order) = (region.number(USED_AT) as usize, region.number(ORDER_AT));
    let missing = region.number(MISSING_AT) != 0;
    if region.number(OPENING_AT) != opening {
        // What an opening left that came to its end is of no use, and of no harm.
        let nothing = used == 0 && !missing;
        let why = "the drive was opened since without taking it up".to_owned();
        left.lost = (!nothing).then_some(why);
        return left;
    }
    let entries = region.bytes()[RECORDS_AT..].chunks_exact(ENTRY_BYTES);
    for (number, entry) in entries.take(used / ENTRY_BYTES).enumerate() {
        let (record, check) = entry.split_at(RECORD_BYTES);
        let wanted = check_of(opening, order, number * ENTRY_BYTES, record);
        let decoded = journal::decode(record).first().copied();
        let (true, Some(decoded)) = (wanted.to_le_bytes() == check, decoded) else {
            left.lost = Some("part of it is damaged".to_owned());
            return left;
        };
        left.records.push(decoded);
    }
    if left.records.len() * ENTRY_BYTES != used {
        left.lost = Some("part of it is damaged".to_owned());
    } else if missing {
        left.lost = Some("there was no room for all of it".to_owned());
    }
    left
}

#[cfg(test)]
mod tests {
    use onefold_block::handover::SimHandover;

    use super::*;

    const DRIVE: [u8; 16] = [7; 16];

    fn trims(seqs: std::ops::Range<u64>) -> Vec<Numbered> {
        seqs.map(|seq| (seq, Record::Trim { lpn: seq as u32, count: 1 })).collect()
    }

    fn begin(memory: &SimHandover) -> Kept {
        Kept::begin(Arc::new(memory.clone()), DRIVE, 3, 50, None).unwrap()
    }

    #[test]
    fn what_is_pending_is_left_and_what_was_stored_is_not() {
        let memory = SimHandover::new();
        assert_eq!(left(&memory, DRIVE, 3, false), Left::default());
        let mut kept = begin(&memory);
        for (pending, upto) in [(10..12, 12), (10..15, 15), (10..10, 10), (20..21, 21)] {
            kept.hold(&trims(pending.clone()));
            let found = left(&memory.after_kill(), DRIVE, 3, false);
            assert_eq!(found.records, trims(pending.start..upto));
            assert_eq!((found.lost, found.found), (None, true));
        }
        kept.end().unwrap();
        assert_eq!(left(&memory, DRIVE, 3, false), Left::default());
    }

    #[test]
    fn more_than_there_is_room_for_is_said_and_over_with_the_next_page() {
        let memory = SimHandover::new();
        let mut kept = begin(&memory);
        kept.hold(&trims(1..5000));
        let found = left(&memory, DRIVE, 3, false);
        assert!(found.lost.unwrap().contains("no room") && found.records.len() > 1000);
        kept.hold(&trims(6000..6002));
        assert_eq!(left(&memory, DRIVE, 3, false).records, trims(6000..6002));
        assert_eq!(left(&memory, DRIVE, 3, false).lost, None);
    }

    #[test]
    fn damage_another_opening_and_another_run_of_the_machine_are_refused() {
        let memory = SimHandover::new();
        let mut kept = begin(&memory);
        kept.hold(&trims(1..4));
        for at in 0..3 * ENTRY_BYTES {
            let torn = memory.after_kill();
            torn.damage(NAME, (RECORDS_AT + at) as u64, 4);
            let found = left(&torn, DRIVE, 3, false);
            assert!(found.lost.is_some(), "byte {at}");
            assert_eq!(found.records, trims(1..1 + (at / ENTRY_BYTES) as u64), "byte {at}");
        }
        for at in [0, 9, 17, 40, 50, OPENING_AT, ORDER_AT, USED_AT, MISSING_AT] {
            let torn = memory.after_kill();
            torn.damage(NAME, at as u64, 1);
            assert!(left(&torn, DRIVE, 3, false).lost.is_some(), "byte {at} of the head");
        }
        let why = |left: Left| left.lost.unwrap();
        assert!(why(left(&memory, DRIVE, 4, false)).contains("opened since"));
        assert!(why(left(&memory.after_boot(), DRIVE, 3, false)).contains("started again"));
        assert_eq!(left(&memory, [8; 16], 3, false), Left::default(), "another drive's");
    }

    #[test]
    fn records_count_in_their_places_and_of_their_opening_alone() {
        let memory = SimHandover::new();
        let mut kept = begin(&memory);
        kept.hold(&trims(1..4));
        let swapped = memory.after_kill();
        let mut region = swapped.open(NAME).unwrap();
        let entries = &mut region.bytes_mut()[RECORDS_AT..RECORDS_AT + 2 * ENTRY_BYTES];
        let (first, second) = entries.split_at_mut(ENTRY_BYTES);
        first.swap_with_slice(second);
        let found = left(&swapped, DRIVE, 3, false);
        assert!(found.lost.is_some() && found.records.is_empty(), "{found:?}");
        // Another opening left something; or nothing, which is no loss; or too much for it.
        let of_next = |memory: &SimHandover| left(memory, DRIVE, 4, false);
        let begun = memory.after_kill();
        begun.open(NAME).unwrap().publish(OPENING_AT, 4);
        let found = of_next(&begun);
        assert!(found.lost.is_some() && found.records.is_empty(), "{found:?}");
        assert!(of_next(&memory).lost.unwrap().contains("opened since"));
        let (empty, full) = (SimHandover::new(), SimHandover::new());
        drop(begin(&empty));
        assert_eq!(of_next(&empty), Left { found: true, ..Left::default() });
        begin(&full).region.publish(MISSING_AT, 1);
        assert!(of_next(&full).lost.is_some());
    }

    #[test]
    fn a_region_has_room_for_its_head_and_a_thousand_records_more_than_a_page() {
        let memory = SimHandover::new();
        let mut kept = begin(&memory);
        kept.hold(&trims(0..50 + SPARE_RECORDS as u64));
        assert_eq!(left(&memory, DRIVE, 3, false).lost, None);
        let short = SimHandover::new();
        let mut region = short.create(NAME, RECORDS_AT - 8).unwrap();
        let head = mark(DRIVE, short.boot()).bytes();
        region.bytes_mut()[..MARK_BYTES].copy_from_slice(&head);
        assert!(left(&short, DRIVE, 0, false).lost.unwrap().contains("short"));
        let mut region = short.create(NAME, RECORDS_AT).unwrap();
        region.bytes_mut()[..MARK_BYTES].copy_from_slice(&head);
        assert_eq!(left(&short, DRIVE, 0, false), Left { found: true, ..Left::default() });
    }

    #[test]
    fn pages_that_wait_go_with_the_records() {
        let memory = SimHandover::new();
        let handover: Arc<dyn Handover> = Arc::new(memory.clone());
        let mut kept = Kept::begin(handover, DRIVE, 3, 50, Some(2000)).unwrap();
        let content = PageBytes::from(vec![5; 70]);
        let key = crate::nand::PageKey::Data(8);
        let fragment = Fragment { key, seed: 9, tag: 0, subpages: 0, content: Some(content) };
        kept.hold_pages(1, std::iter::once((&[8, 4][..], &fragment)));
        let found = left(&memory.after_kill(), DRIVE, 3, true);
        assert_eq!(found.pages, [(vec![8, 4], fragment)]);
        assert!(left(&memory, DRIVE, 3, false).pages.is_empty(), "a drive that packs nothing");
        // Without them the rest is not all there was.
        let torn = memory.after_kill();
        torn.remove(kept_pages::NAME).unwrap();
        assert!(left(&torn, DRIVE, 3, true).lost.is_some());
        assert_eq!(left(&torn, DRIVE, 3, false).lost, None);
        assert_eq!(memory.list().unwrap(), [kept_pages::NAME, NAME]);
        kept.end().unwrap();
        assert!(memory.list().unwrap().is_empty(), "nothing is left behind");
    }
}
