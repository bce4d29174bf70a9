//! What reading an array of bytes gives and counts, beside a second reader: the model of wear says
//! which bits are wrong, the code says what it makes of them.
//! Room: onefold-flash.

use onefold_block::SplitMix64;
use onefold_code::{PageCodec, PageStatus, preset};
use onefold_flash::Geometry;
use onefold_flash::dedup::Engine;
use onefold_flash::nand::bytes::{
    BCH_NAME, ChannelSpec, DETECT_NAME, Found, MemStore, NandHealth, OpenError, PageBytes,
    RecordCodec, Store as _, page_code,
};
use onefold_flash::nand::wear::Reading;
use onefold_flash::nand::{
    ByteNand, Fragment, Nand, NandError, Oob, PageKey, Payload, WearModel, likeness,
};

use crate::validation::plane::plane;

const PAGE: usize = 1024;
const PAGES: u32 = 4;
const BLOCKS: u32 = 6;
/// More than what the code of BCH and the fields take, which nobody reads.
const OOB: usize = 32 + 64 + 16;

fn geometry() -> Geometry {
    Geometry { page_bytes: PAGE as u32, oob_bytes: OOB as u32, ..plane(BLOCKS, PAGES) }
}

fn nand(code: &str, wear: WearModel) -> ByteNand<MemStore> {
    let channel = ChannelSpec { code: code.into(), scrambler: preset("lba-prbs31").ok() };
    ByteNand::in_memory(geometry(), &channel, wear).expect("fits")
}

fn content(seed: u64) -> Vec<u8> {
    SplitMix64::new(seed).bytes(PAGE)
}

fn oob(seq: u64) -> Oob {
    Oob { key: PageKey::Data(seq as u32 % 8), seq, seed: seq % 8, tag: seq }
}

/// What is known of a block without the array.
#[derive(Clone, Default)]
struct Block {
    /// Content of each page programmed, and whether the cells hold it plain.
    pages: Vec<(Vec<u8>, bool)>,
    erases: u32,
    reads: u64,
    filled_s: u64,
}

/// The second reader.
struct Reader {
    code: PageCodec,
    records: RecordCodec,
    wear: WearModel,
    blocks: Vec<Block>,
    now_s: u64,
    health: NandHealth,
}

impl Reader {
    fn new(code: &str, wear: WearModel) -> Self {
        let code = PageCodec::new(page_code(code).expect("known"), PAGE).expect("fits");
        let blocks = vec![Block::default(); BLOCKS as usize];
        let (now_s, health) = (0, NandHealth::default());
        Self { code, records: RecordCodec::new(), wear, blocks, now_s, health }
    }

    /// How much worse than another a page is that lies between its neighbours.
    fn factor(&self, cells: impl Fn(u32) -> (Vec<u8>, Vec<u8>), ppn: u32) -> f64 {
        let block = &self.blocks[(ppn / PAGES) as usize];
        let page = ppn % PAGES;
        let own = if block.pages[page as usize].1 { self.wear.plain_factor } else { 1.0 };
        let beside = |at: u32| {
            let there = (at as usize) < block.pages.len();
            if there { likeness(&cells(ppn).0, &cells(ppn - page + at).0) } else { 0.0 }
        };
        let before = if page > 0 { beside(page - 1) } else { 0.0 };
        own * (1.0 + (self.wear.similar_factor - 1.0) * (before + beside(page + 1)) / 2.0)
    }

    /// The content of a page, if it can be read.
    fn read(
        &mut self,
        ppn: u32,
        cells: impl Fn(u32) -> (Vec<u8>, Vec<u8>),
    ) -> Result<Vec<u8>, String> {
        let (page, spare) = cells(ppn);
        let factor = self.factor(&cells, ppn);
        let block = &mut self.blocks[(ppn / PAGES) as usize];
        block.reads += 1;
        let reading = Reading { ppn, erases: block.erases, reads: block.reads };
        let age_s = self.now_s - block.filled_s;
        self.health.reads += 1;
        let parity = self.code.parity_bytes();
        let bits = 8 * (PAGE + parity + 64) as u64;
        for retry in 0..=self.wear.retries {
            let mut all = [&page[..], &spare[..]].concat();
            let rate = self.wear.rate(block.erases, age_s, block.reads, retry) * factor;
            let wrong = self.wear.errors(rate.min(0.5), &reading, bits, |bit| {
                all[(bit / 8) as usize] ^= 1 << (bit % 8);
            });
            self.health.raw_bit_errors += wrong as u64;
            self.health.bits_read += bits;
            self.health.retries += u64::from(retry > 0);
            let (page, spare) = all.split_at_mut(PAGE);
            let record: &[u8; 64] = spare[parity..].first_chunk().expect("long enough");
            let Found::Record(record) = self.records.decode(record) else { continue };
            match self.code.decode(page, &mut spare[..parity], record.page_crc).expect("fits") {
                PageStatus::Clean => {}
                PageStatus::Corrected(bits) => {
                    self.health.corrected_bits += bits as u64;
                    self.health.corrected_pages += 1;
                }
                PageStatus::Failed { .. } => continue,
                PageStatus::Miscorrected => {
                    self.health.miscorrected += 1;
                    continue;
                }
            }
            return Ok(block.pages[(ppn % PAGES) as usize].0.clone());
        }
        self.health.uncorrectable += 1;
        let retries = self.wear.retries;
        Err(format!("page {ppn} cannot be corrected after {retries} read retries"))
    }
}

/// A life of programs, erases and reads, and each count and answer beside the second reader's.
fn follow(code: &str, wear: &WearModel, steps: u64, what: &str) -> NandHealth {
    let mut nand = nand(code, wear.clone());
    let mut reader = Reader::new(code, wear.clone());
    let mut random = SplitMix64::new(5);
    for step in 1..=steps {
        let at = random.below(u64::from(BLOCKS)) as u32;
        let block = &mut reader.blocks[at as usize];
        let next = block.pages.len() as u32;
        reader.now_s += random.below(40) * 86_400;
        nand.set_time(reader.now_s);
        if random.chance(1, 3) && next < PAGES {
            let bytes = content(random.below(3));
            let plain = random.chance(1, 2);
            let page = if plain {
                PageBytes::plain_on_flash(bytes.clone())
            } else {
                PageBytes::from(bytes.clone())
            };
            nand.program(at * PAGES + next, Payload::Data(&page), &oob(step)).expect("programmed");
            if next == 0 {
                block.filled_s = reader.now_s;
            }
            block.pages.push((bytes, plain));
            reader.health.programs += 1;
            reader.health.plain_programs += u64::from(plain);
        } else if next == PAGES && random.chance(1, 4) {
            for _ in 0..=random.below(3) {
                nand.erase(at).expect("erased");
                *block = Block { erases: block.erases + 1, ..Block::default() };
                reader.health.erases += 1;
            }
        } else if next > 0 {
            let ppn = at * PAGES + random.below(u64::from(next)) as u32;
            let cells = |ppn| {
                let (mut page, mut spare) = (vec![0; PAGE], vec![0; OOB]);
                nand.store().read_page(ppn, &mut page, &mut spare).expect("there");
                (page, spare)
            };
            let expected = reader.read(ppn, cells);
            let found = nand.read(ppn).map(|page| page.to_vec()).map_err(|error| error.to_string());
            assert!(found == expected, "{what}, step {step}: page {ppn}");
            let (entry, block) = (nand.block(at), &reader.blocks[at as usize]);
            assert_eq!(
                (entry.erases, entry.reads, entry.filled_s, entry.programmed),
                (block.erases, block.reads, block.filled_s, block.pages.len() as u32),
                "{what}, step {step}"
            );
            let age_s = reader.now_s - block.filled_s;
            let rate = wear.rate(block.erases, age_s, block.reads, 0);
            assert!((nand.rate(ppn) - rate).abs() < 1e-15, "{what}, step {step}");
        }
        // Memory has nothing to sync; what the array asked of it is not compared.
        assert_eq!(NandHealth { syncs: 0, ..*nand.health() }, reader.health, "{what}, step {step}");
    }
    reader.health
}

#[test]
fn every_read_gives_and_counts_what_wear_and_code_make_of_it() {
    let drifting = WearModel {
        rated_cycles: 10,
        fresh_rate: 2e-5,
        worn_rate: 1e-4,
        retention_rate: 6e-4,
        disturb_rate: 1e-6,
        noise_share: 0.4,
        retries: 4,
        retry_gain: 0.5,
        seed: 3,
        ..WearModel::none()
    };
    let detected = follow(DETECT_NAME, &drifting, 600, "a code that only detects");
    assert!(detected.retries > 50 && detected.uncorrectable > 10, "{detected:?}");
    assert_eq!((detected.corrected_bits, detected.corrected_pages), (0, 0));
    let worse = WearModel {
        retention_rate: 2e-2,
        plain_factor: 2.0,
        similar_factor: 3.0,
        ..drifting.clone()
    };
    let corrected = follow(BCH_NAME, &worse, 600, "a code that corrects");
    assert!(corrected.corrected_bits > 300 && corrected.uncorrectable > 10, "{corrected:?}");
    assert!(corrected.retries > 20, "{corrected:?}");
    let hopeless = WearModel { fresh_rate: 0.4, plain_factor: 4.0, retries: 2, ..drifting };
    let none = follow(BCH_NAME, &hopeless, 150, "noise");
    assert_eq!(none.uncorrectable, none.reads, "half of the bits at most, and none comes back");
    let fresh = follow(BCH_NAME, &WearModel::none(), 150, "no errors");
    assert_eq!(fresh.bits_read, fresh.reads * 8 * (1024 + 32 + 64), "what is beside is not read");
}

/// The mean of both sides in the block; a side where nothing is programmed counts as noise.
#[test]
fn likeness_is_that_of_the_neighbours_in_the_block() {
    let mut nand = nand(BCH_NAME, WearModel::none());
    let mut pages: Vec<Vec<u8>> = vec![content(1); 6];
    for (at, page) in (0..).zip(&mut pages) {
        page[..100 * at].fill(0);
    }
    for (ppn, page) in [0, 1, 2, 3, 4, 5].into_iter().zip(&pages) {
        let page = PageBytes::plain_on_flash(page.clone());
        nand.program(ppn, Payload::Data(&page), &oob(1)).expect("programmed");
    }
    let between = |one: usize, two: usize| likeness(&pages[one], &pages[two]);
    let expected = [
        between(0, 1) / 2.0,
        f64::midpoint(between(0, 1), between(1, 2)),
        f64::midpoint(between(1, 2), between(2, 3)),
        between(2, 3) / 2.0,
        between(4, 5) / 2.0,
        between(4, 5) / 2.0,
    ];
    for (ppn, expected) in (0..).zip(expected) {
        let found = nand.likeness_of(ppn).expect("there");
        assert!(expected > 0.3 && (found - expected).abs() < 1e-12, "page {ppn}: {found}");
    }
    assert!(matches!(nand.likeness_of(6), Err(NandError::Erased { ppn: 6 })));
    assert_eq!(nand.health().reads, 0, "it is no reading of the flash");
    assert_eq!(nand.block(0).reads, 0);
}

/// Blocks end when the model says, by the program or by the erase that it says, and not before.
#[test]
fn blocks_end_at_the_operation_that_was_drawn_for_them() {
    let wear = WearModel {
        rated_cycles: 30,
        grown_bad: 0.6,
        grown_shape: 2.0,
        seed: 8,
        ..WearModel::none()
    };
    let mut nand = nand(DETECT_NAME, wear.clone());
    let page = PageBytes::from(content(1));
    let mut failures = (0, 0);
    let mut programs = 0;
    let mut erases = 0;
    for block in 0..BLOCKS {
        let (fails_at, page_of_failure) = wear.end_of_life(block, PAGES);
        let first = block * PAGES;
        let mut cycles = 0;
        let said = 'life: loop {
            for at in 0..PAGES {
                let fails = cycles >= fails_at && page_of_failure == Some(at);
                nand.set_time(u64::from(100 * cycles + at));
                match nand.program(first + at, Payload::Data(&page), &oob(1)) {
                    Ok(()) => assert!(!fails, "block {block}, cycle {cycles}, page {at}"),
                    Err(error) => {
                        assert!(fails, "block {block}, cycle {cycles}, page {at}: {error}");
                        failures.0 += 1;
                        break 'life error;
                    }
                }
                programs += 1;
            }
            assert_eq!(nand.block(block).filled_s, u64::from(100 * cycles), "by its first page");
            let fails = cycles + 1 >= fails_at && page_of_failure.is_none();
            match nand.erase(block) {
                Ok(()) => assert!(!fails, "block {block}, cycle {cycles}"),
                Err(error) => {
                    assert!(fails, "block {block}, cycle {cycles}: {error}");
                    failures.1 += 1;
                    break 'life error;
                }
            }
            cycles += 1;
            erases += 1;
        };
        let what = if page_of_failure.is_some() { "program" } else { "erase" };
        let expected = format!("{what} of block {block} failed: the block has gone bad");
        assert_eq!(said.to_string(), expected);
        assert!(nand.is_bad(block));
        let health = nand.health();
        assert_eq!((health.program_failures, health.erase_failures), failures);
        assert_eq!((health.programs, health.erases), (programs, erases));
        assert_eq!(nand.block(block).erases, cycles);
        let left = page_of_failure.unwrap_or(PAGES);
        assert_eq!(nand.block(block).programmed, left, "block {block}");
        for at in first..first + left {
            assert_eq!(nand.read(at).expect("still there"), page);
        }
    }
    assert!(failures.0 > 0 && failures.1 > 0, "{failures:?}");
}

/// What moves as it is stored and what is encoded anew, and what neither is read from.
#[test]
fn arrays_without_an_engine_say_so() {
    let mut nand = nand(BCH_NAME, WearModel::none());
    let told = |error: NandError| error.to_string();
    let packed = nand.program(3, Payload::Packed(&[]), &oob(1)).map_err(told);
    let refused = "program of page 3 (block 0) is forbidden: there is no compression engine";
    assert_eq!(packed, Err(refused.to_owned()));
    assert_eq!(nand.block(0).programmed, 0, "it was refused");
    let page = PageBytes::zeroes(PAGE);
    assert_eq!(nand.compress(1, &page, None), None);
    let fragment = Fragment {
        key: PageKey::Data(1),
        seed: 1,
        tag: 0,
        subpages: 1,
        content: Some(page.clone()),
    };
    let uncorrectable = Err("page 5 cannot be corrected after 0 read retries".to_owned());
    assert_eq!(nand.expand(5, &fragment).map_err(told), uncorrectable);
    for ppn in 0..2 {
        nand.program(ppn, Payload::Data(&page), &oob(1)).expect("programmed");
    }
    let uncorrectable = Err("page 1 cannot be corrected after 0 read retries".to_owned());
    assert_eq!(nand.read_packed(1).map_err(told), uncorrectable, "a data page is no packed one");
    assert_eq!(nand.block(0).filled_s, 0, "nobody has told it the time");
}

/// Behind the scrambler packed pages are stored as they are, and say so; what is no packed page in
/// spite of its key is an error, and without an engine a page is one sub-page.
#[test]
fn packed_pages_pass_by_the_scrambler_where_the_engine_is_behind_it() {
    let mut nand = nand(BCH_NAME, WearModel::none()).with_engine(Engine::AfterScrambler, 4);
    let one = |lpn, subpages| Fragment {
        key: PageKey::Data(lpn),
        seed: lpn.into(),
        tag: 0,
        subpages,
        content: Some(PageBytes::plain_on_flash(vec![lpn as u8; 40])),
    };
    let key = PageKey::Packed(3);
    let fragments = [one(1, 1), one(2, 1), one(3, 1)];
    let program = |nand: &mut ByteNand<MemStore>, ppn, fragments: &[Fragment<PageBytes>]| {
        nand.program(ppn, Payload::Packed(fragments), &Oob { key, ..oob(1) }).expect("programmed");
    };
    program(&mut nand, 0, &fragments);
    assert_eq!(nand.read_packed(0).expect("packed"), fragments);
    let (mut page, mut spare) = (vec![0; PAGE], vec![0; OOB]);
    nand.store().read_page(0, &mut page, &mut spare).expect("there");
    assert_eq!(page[28..68], [1; 40], "nothing is scrambled");
    let record = spare[32..].first_chunk().expect("long enough");
    let Found::Record(record) = RecordCodec::new().decode(record) else { panic!("no record") };
    assert_eq!((record.plain, record.scrambler_seed, record.meta_len), (true, 0, 0));
    assert_eq!(nand.health().plain_programs, 1);
    program(&mut nand, 1, &[one(1, 0)]);
    let said = nand.read_packed(1).map_err(|error| error.to_string());
    assert_eq!(said, Err("page 1 cannot be corrected after 0 read retries".to_owned()));
    let mut nand = nand.with_engine(Engine::None, 4);
    assert_eq!(nand.read_packed(0).expect("packed"), fragments[..1]);
}

#[test]
fn shapes_that_cannot_be_are_refused_before_anything_is_made() {
    let channel = ChannelSpec { code: BCH_NAME.into(), scrambler: None };
    let refused = |made: Result<ByteNand<MemStore>, OpenError>| {
        assert!(matches!(made.expect_err("impossible"), OpenError::Geometry(_)));
    };
    let huge = Geometry { blocks_per_plane: u32::MAX, ..geometry() };
    refused(ByteNand::in_memory(huge, &channel, WearModel::none()));
    let none = Geometry { pages_per_block: 0, ..geometry() };
    let store = || MemStore::new(geometry());
    refused(ByteNand::create(store(), none, &channel, WearModel::none()));
    refused(ByteNand::open(store(), none, &channel, WearModel::none()));
    let all = WearModel { factory_bad: 1.0, ..WearModel::none() };
    let nand = ByteNand::in_memory(geometry(), &channel, all).expect("made");
    // Drawn below 1, or at most it: a block in 2^53 is good.
    assert!((0..BLOCKS).all(|block| nand.is_bad(block)));
}

/// What is programmed, read, copied and synced through a loan is.
#[test]
fn a_lent_array_syncs() {
    fn synced(mut nand: impl Nand) {
        nand.sync().expect("synced");
    }
    let mut nand = nand(BCH_NAME, WearModel::none());
    nand.program(0, Payload::Data(&PageBytes::zeroes(PAGE)), &oob(1)).expect("programmed");
    synced(&mut nand);
    assert_eq!(nand.health().syncs, 1);
    synced(&mut nand);
    assert_eq!(nand.health().syncs, 1, "there was nothing to sync");
}
