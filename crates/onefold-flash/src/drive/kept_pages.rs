//! What a served drive leaves of the pages that wait to be packed.
//! Room: onefold-flash.
//! They are acknowledged and in no page of the flash: after each request that changed anything of
//! them, all are copied to memory that outlives the process, compressed as they are, into the one
//! of two halves that does not count, which then counts.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 52 | mark: whose it is |
//! | 64 | 8 | which opening of the drive wrote it |
//! | 72 | 8 | how often it was written: odd numbers are in the second half |
//! | 4096 | | the first half: bytes (8), CRC-32 of opening, number and bytes (4), 4 of 0, bytes |
//!
//! A fragment is flags (1: kept, 2: plain), count of logical pages, their numbers, seed, length of
//! what follows, and the compressed bytes; all numbers of 4 bytes.
//! Invariants: what is acknowledged is here or on the flash before its request is answered; a
//! kill at any moment leaves what counted before.

use onefold_block::MediaError;
use onefold_block::handover::{Handover, MARK_BYTES, Mark, Region};

use crate::nand::{Fragment, PageBytes, PageKey};

/// The region of pages.
pub(super) const NAME: &str = "packing";
const OPENING_AT: usize = 64;
const NUMBER_AT: usize = 72;
const HALVES_AT: usize = 4096;
const HEAD: usize = 16;
const KEPT: u32 = 1;
const PLAIN: u32 = 2;

/// Compressed pages with those who wrote them.
pub(super) type Waiting = Vec<(Vec<u32>, Fragment<PageBytes>)>;

/// Memory that holds the pages which wait.
pub(super) struct KeptPages {
    region: Region,
    opening: u64,
    number: u64,
    /// What of the drive was copied last.
    version: u64,
    bytes: Vec<u8>,
}

impl KeptPages {
    /// An empty region for at most so many bytes.
    ///
    /// # Errors
    /// [`MediaError`] where there is no memory.
    pub fn begin(
        handover: &dyn Handover,
        mark: &Mark,
        opening: u64,
        most: usize,
    ) -> Result<Self, MediaError> {
        let half = (HEAD + most).next_multiple_of(8);
        let mut region = handover.create(NAME, (HALVES_AT + 2 * half).next_multiple_of(4096))?;
        region.publish(OPENING_AT, opening);
        region.bytes_mut()[..MARK_BYTES].copy_from_slice(&mark.bytes());
        let mut kept = Self { region, opening, number: 0, version: 0, bytes: Vec::new() };
        kept.store();
        Ok(kept)
    }

    /// Hold what waits, and nothing else; `version` is another one whenever that has changed.
    pub fn hold<'a>(
        &mut self,
        version: u64,
        waiting: impl Iterator<Item = (&'a [u32], &'a Fragment<PageBytes>)>,
    ) {
        if version == self.version {
            return;
        }
        self.version = version;
        self.bytes.clear();
        for (lpns, fragment) in waiting {
            let content = fragment.content.as_ref();
            let plain = content.is_some_and(PageBytes::is_plain_on_flash);
            let kept = matches!(fragment.key, PageKey::Kept(_));
            let flags = if kept { KEPT } else { 0 } | if plain { PLAIN } else { 0 };
            let content: &[u8] = content.map_or(&[], |content| content);
            let head = [flags, lpns.len() as u32];
            let tail = [fragment.seed as u32, content.len() as u32];
            for number in head.iter().chain(lpns).chain(&tail) {
                self.bytes.extend_from_slice(&number.to_le_bytes());
            }
            self.bytes.extend_from_slice(content);
        }
        self.store();
    }

    fn store(&mut self) {
        self.number += 1;
        let check = check_of(self.opening, self.number, &self.bytes);
        let region = self.region.bytes_mut();
        let at = half_of(region.len(), self.number);
        region[at..at + 8].copy_from_slice(&(self.bytes.len() as u64).to_le_bytes());
        region[at + 8..at + 12].copy_from_slice(&check.to_le_bytes());
        region[at + HEAD..at + HEAD + self.bytes.len()].copy_from_slice(&self.bytes);
        self.region.publish(NUMBER_AT, self.number);
    }
}

fn half_of(region_bytes: usize, number: u64) -> usize {
    let half = (region_bytes - HALVES_AT) / 2 / 8 * 8;
    HALVES_AT + if number.is_multiple_of(2) { 0 } else { half }
}

fn check_of(opening: u64, number: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&opening.to_le_bytes());
    hasher.update(&number.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// What the process left that had the drive open last; an error says why it cannot be believed.
pub(super) fn left(handover: &dyn Handover, mark: &Mark, opening: u64) -> Result<Waiting, String> {
    let region = handover.open(NAME).map_err(|error| format!("pages to be packed: {error}"))?;
    if region.bytes().len() < HALVES_AT + 2 * HEAD {
        return Err("the pages that were to be packed are cut short".to_owned());
    }
    mark.check(&region, 0).map_err(|why| why.to_string())?;
    if region.number(OPENING_AT) != opening {
        return Err("the drive was opened since without taking it up".to_owned());
    }
    let number = region.number(NUMBER_AT);
    let at = half_of(region.bytes().len(), number);
    decoded(&region.bytes()[at..], opening, number)
        .ok_or_else(|| "part of the pages that were to be packed is damaged".to_owned())
}

fn decoded(half: &[u8], opening: u64, number: u64) -> Option<Waiting> {
    let (head, rest) = half.split_first_chunk::<HEAD>()?;
    let used = u64::from_le_bytes(*head.first_chunk()?) as usize;
    let bytes = rest.get(..used)?;
    if check_of(opening, number, bytes).to_le_bytes() != head[8..12] {
        return None;
    }
    let mut waiting = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let flags = word(&mut rest)?;
        let lpns = (0..word(&mut rest)?).map(|_| word(&mut rest)).collect::<Option<Vec<u32>>>()?;
        let seed = word(&mut rest)?.into();
        let length = word(&mut rest)? as usize;
        let (content, behind) = rest.split_at_checked(length)?;
        rest = behind;
        let content = content.to_vec();
        let content = match flags & PLAIN {
            0 => PageBytes::from(content),
            _ => PageBytes::plain_on_flash(content),
        };
        let lpn = *lpns.first()?;
        let key = if flags & KEPT == 0 { PageKey::Data(lpn) } else { PageKey::Kept(lpn) };
        let fragment = Fragment { key, seed, tag: 0, subpages: 0, content: Some(content) };
        waiting.push((lpns, fragment));
    }
    Some(waiting)
}

fn word(rest: &mut &[u8]) -> Option<u32> {
    let (word, behind) = rest.split_first_chunk::<4>()?;
    *rest = behind;
    Some(u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use onefold_block::handover::SimHandover;

    use super::*;

    fn mark() -> Mark {
        Mark { magic: *b"OFKEPTP\n", version: 1, owner: [7; 16], boot: [1; 16] }
    }

    fn one(lpns: &[u32], plain: bool, kept: bool) -> (Vec<u32>, Fragment<PageBytes>) {
        let bytes = vec![lpns[0] as u8; 100 + lpns.len()];
        let content = if plain { PageBytes::plain_on_flash(bytes) } else { PageBytes::from(bytes) };
        let key = if kept { PageKey::Kept(lpns[0]) } else { PageKey::Data(lpns[0]) };
        let seed = u64::from(lpns[0]) + 5;
        (lpns.to_vec(), Fragment { key, seed, tag: 0, subpages: 0, content: Some(content) })
    }

    fn hold(kept: &mut KeptPages, version: u64, waiting: &Waiting) {
        kept.hold(version, waiting.iter().map(|(lpns, fragment)| (&lpns[..], fragment)));
    }

    #[test]
    fn what_waits_is_left_as_it_was_at_every_change() {
        let memory = SimHandover::new();
        assert!(left(&memory, &mark(), 3).is_err(), "there is nothing");
        let mut kept = KeptPages::begin(&memory, &mark(), 3, 2000).unwrap();
        assert_eq!(left(&memory.after_kill(), &mark(), 3), Ok(Vec::new()));
        let waiting =
            vec![one(&[4, 9], false, false), one(&[2], true, false), one(&[8], false, true)];
        for (version, count) in [(1, 1), (2, 3), (3, 2), (4, 0), (5, 1)] {
            hold(&mut kept, version, &waiting[..count].to_vec());
            assert_eq!(left(&memory.after_kill(), &mark(), 3), Ok(waiting[..count].to_vec()));
        }
        hold(&mut kept, 5, &waiting);
        assert_eq!(left(&memory, &mark(), 3), Ok(waiting[..1].to_vec()), "nothing had changed");
    }

    #[test]
    fn damage_and_another_opening_are_told() {
        let memory = SimHandover::new();
        let mut kept = KeptPages::begin(&memory, &mark(), 3, 2000).unwrap();
        hold(&mut kept, 1, &vec![one(&[4], false, false)]);
        let bytes = (HEAD + 16 + 4 + 101) as u64;
        for at in (0..12).chain(16..bytes) {
            let torn = memory.after_kill();
            // The second write is in the first half.
            torn.damage(NAME, HALVES_AT as u64 + at, 4);
            assert!(left(&torn, &mark(), 3).is_err(), "byte {at}");
        }
        assert!(left(&memory, &mark(), 4).unwrap_err().contains("opened since"));
        let other = Mark { owner: [8; 16], ..mark() };
        assert!(left(&memory, &other, 3).is_err());
    }

    /// A kill in the midst of a store finds what counted before, and nothing counts for another
    /// store or opening than its own.
    #[test]
    fn what_counted_before_is_there_until_another_counts() {
        let memory = SimHandover::new();
        let mut kept = KeptPages::begin(&memory, &mark(), 3, 2000).unwrap();
        let mut before = Vec::new();
        for version in 1..6 {
            let waiting = vec![one(&[version], false, false); version as usize];
            hold(&mut kept, version.into(), &waiting);
            let killed = memory.after_kill();
            let mut region = killed.open(NAME).unwrap();
            let number = region.number(NUMBER_AT);
            assert_eq!(number, u64::from(version) + 1);
            region.publish(NUMBER_AT, number - 1);
            assert_eq!(left(&killed, &mark(), 3), Ok(before), "version {version}");
            region.publish(NUMBER_AT, number + 2);
            assert!(left(&killed, &mark(), 3).is_err(), "it is of another store");
            region.publish(NUMBER_AT, number);
            region.publish(OPENING_AT, 4);
            assert!(left(&killed, &mark(), 4).is_err(), "it is of another opening");
            before = waiting;
        }
    }

    #[test]
    fn both_halves_take_as_much_as_was_said() {
        // A page and no byte more.
        for most in [2032, 2025] {
            let memory = SimHandover::new();
            let mut kept = KeptPages::begin(&memory, &mark(), 3, most).unwrap();
            assert_eq!(kept.region.bytes().len(), HALVES_AT + 4096);
            let full = |of: u8| {
                let content = PageBytes::from(vec![of; most - 20]);
                let key = PageKey::Data(u32::from(of));
                let content = Some(content);
                vec![(vec![u32::from(of)], Fragment { key, seed: 1, tag: 0, subpages: 0, content })]
            };
            for of in 1..5 {
                hold(&mut kept, of.into(), &full(of));
                assert_eq!(left(&memory.after_kill(), &mark(), 3), Ok(full(of)));
            }
            // The other half is as it was.
            kept.region.publish(NUMBER_AT, 4);
            assert_eq!(left(&memory, &mark(), 3), Ok(full(3)));
        }
    }

    #[test]
    fn a_region_that_is_cut_short_is_told() {
        let memory = SimHandover::new();
        for bytes in [64, HALVES_AT, HALVES_AT + 2 * HEAD - 8] {
            let mut region = memory.create(NAME, bytes).unwrap();
            let head = mark().bytes();
            region.bytes_mut()[..MARK_BYTES].copy_from_slice(&head);
            let why = left(&memory, &mark(), 0).unwrap_err();
            assert!(why.contains("cut short"), "{bytes}: {why}");
        }
        // Both heads have room, and are of no store.
        let mut region = memory.create(NAME, HALVES_AT + 2 * HEAD).unwrap();
        region.bytes_mut()[..MARK_BYTES].copy_from_slice(&mark().bytes());
        assert!(left(&memory, &mark(), 0).unwrap_err().contains("damaged"));
        drop(KeptPages::begin(&memory, &mark(), 0, 0).unwrap());
        assert_eq!(left(&memory, &mark(), 0), Ok(Vec::new()));
    }
}
