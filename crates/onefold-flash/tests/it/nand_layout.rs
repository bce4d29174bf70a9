//! A drive's cells and their second copies, byte by byte, as docs/ssd-format.md describes them: a
//! second writer, which shares nothing with the first but the codes, must come to the same files.
//! Room: onefold-flash.

use onefold_block::{Folder as _, Media, SimFolder, SplitMix64};
use onefold_code::gf2::Poly;
use onefold_code::{Bch, PageAddress, ScramblerSpec, SeedSource, preset};
use onefold_flash::Geometry;
use onefold_flash::dedup::Engine;
use onefold_flash::nand::bytes::{
    ChannelSpec, CopyFile, DETECT_NAME, Description, FileStore, PageBytes,
};
use onefold_flash::nand::{ByteNand, Fragment, Nand, NandError, Oob, PageKey, Payload, WearModel};

use crate::validation::plane::plane;

const PAGE: usize = 1024;
pub const PAGES: u32 = 4;
pub const BLOCKS: u32 = 5;
/// A CRC-32 for the KiB, the fields with their parity, and some that nobody uses.
const OOB: usize = 4 + 64 + 8;
pub const TABLE: usize = 65_536;
/// Behind the table, on a multiple of 4096.
const DATA: usize = TABLE + 4096;
/// 20 KiB of pages end on a multiple of 4096.
const OOBS: usize = DATA + 20 * 1024;
pub const RECORDS: usize = TABLE + 4096;
const OWN: usize = RECORDS + 4096;

pub fn geometry() -> Geometry {
    Geometry { page_bytes: PAGE as u32, oob_bytes: OOB as u32, ..plane(BLOCKS, PAGES) }
}

/// The bad block of the drive is its last.
pub fn wear() -> WearModel {
    let with = |seed| WearModel { factory_bad: 0.2, seed, ..WearModel::none() };
    let last = |seed: &u64| {
        (0..BLOCKS).all(|block| with(*seed).is_factory_bad(block) == (block == BLOCKS - 1))
    };
    with((0..1000).find(last).expect("one of them"))
}

pub struct Drive {
    pub folder: SimFolder,
    pub nand: ByteNand<FileStore>,
}

pub fn description(scrambler: Option<&ScramblerSpec>) -> Description {
    let channel = ChannelSpec { code: DETECT_NAME.into(), scrambler: scrambler.cloned() };
    Description { id: *b"number of drives", ..Description::new(geometry(), &channel, "a = 1\n") }
}

pub fn made(scrambler: Option<&ScramblerSpec>) -> Drive {
    let folder = SimFolder::new();
    let description = description(scrambler);
    let channel = ChannelSpec { code: DETECT_NAME.into(), scrambler: scrambler.cloned() };
    let copies = CopyFile::create(folder.create("copies").expect("made"), &description);
    let store = FileStore::create(folder.create("nand").expect("made"), &description);
    let store = store.expect("made").with_copies(copies.expect("made"));
    let nand = ByteNand::create(store, geometry(), &channel, wear()).expect("made");
    Drive { folder, nand: nand.with_engine(Engine::BeforeScrambler, 4) }
}

pub fn content(seed: u64) -> Vec<u8> {
    SplitMix64::new(seed).bytes(PAGE)
}

pub const fn oob(key: PageKey, seq: u64, seed: u64) -> Oob {
    Oob { key, seq, seed, tag: 0x0102_0304_0506_0708 + seq }
}

fn fragments() -> [Fragment<PageBytes>; 3] {
    let plain = PageBytes::plain_on_flash(vec![9; 200]);
    [
        Fragment {
            key: PageKey::Data(0x0a0b_0c0d),
            seed: 0x1112_1314_1516_1718,
            tag: 0x2122_2324_2526_2728,
            subpages: 1,
            content: Some(PageBytes::from(&b"compressed"[..])),
        },
        Fragment { key: PageKey::Kept(4), seed: 4, tag: 5, subpages: 2, content: Some(plain) },
        Fragment { key: PageKey::Shared(6), seed: 7, tag: 8, subpages: 1, content: None },
    ]
}

/// A bit of everything: pages of each kind, moved, erased, packed and lost.
pub fn live(drive: &mut Drive) {
    let nand = &mut drive.nand;
    let data = |nand: &mut ByteNand<FileStore>, ppn, page: &PageBytes, oob| {
        nand.program(ppn, Payload::Data(page), &oob).expect("programmed");
    };
    let own = |nand: &mut ByteNand<FileStore>, ppn, bytes: &[u8], oob| {
        nand.program(ppn, Payload::Meta(bytes), &oob).expect("programmed");
    };
    nand.set_time(1000);
    data(nand, 0, &content(1).into(), oob(PageKey::Data(5), 1, 5));
    data(nand, 1, &content(2).into(), oob(PageKey::Kept(6), 2, 9));
    data(nand, 2, &PageBytes::plain_on_flash(content(3)), oob(PageKey::Data(7), 3, 7));
    own(nand, 3, b"mapping", oob(PageKey::Map(2), 4, 1 << 40));
    own(nand, 4, b"journal", oob(PageKey::Journal(3), 5, 5));
    own(nand, 5, &content(4), oob(PageKey::Directory(4), (1 << 48) - 1, 6));
    own(nand, 6, &[], oob(PageKey::Root(5), 7, 7));
    data(nand, 7, &content(5).into(), oob(PageKey::Shared(8), 8, 1));
    nand.sync().expect("synced");
    assert_eq!(nand.copy(1, 8, PageKey::Shared(11), 9).expect("copied"), 0x0102_0304_0506_070a);
    assert_eq!(nand.copy(2, 9, PageKey::Data(0), 10).expect("copied"), 0x0102_0304_0506_070b);
    nand.sync().expect("synced");
    nand.set_time(5000);
    nand.erase(0).expect("erased");
    data(nand, 0, &content(6).into(), oob(PageKey::Data(12), 11, 12));
    let packed = oob(PageKey::Packed(3), 12, 0);
    nand.program(1, Payload::Packed(&fragments()), &packed).expect("programmed");
    nand.sync().expect("synced");
    // Half of the page is gone, and what it says of itself is not.
    let cells = drive.folder.open("nand").expect("there");
    cells.write((DATA + 7 * PAGE) as u64, &[0; 512]).expect("wiped");
    nand.copy(7, 10, PageKey::Shared(8), 13).expect("moved, and lost");
    assert!(matches!(nand.read(10), Err(NandError::Uncorrectable { ppn: 10, retries: 0 })));
    nand.erase(3).expect("an empty block is erased as well");
    nand.sync().expect("synced");
    nand.sync_copies().expect("synced");
    assert_eq!(nand.read_packed(1).expect("packed"), fragments());
}

/// A file as the documentation has it.
struct Written {
    bytes: Vec<u8>,
}

impl Written {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn header(magic: [u8; 8], scrambler: Option<&ScramblerSpec>, len: usize) -> Self {
        let mut file = Self { bytes: vec![0; len] };
        file.put(0, &magic);
        file.put(8, &1_u32.to_le_bytes());
        let geometry = [1, 1, 1, 1, BLOCKS, PAGES, PAGE as u32, OOB as u32];
        for (field, number) in geometry.into_iter().enumerate() {
            file.put(16 + 4 * field, &number.to_le_bytes());
        }
        let scrambler = scrambler.map(ScramblerSpec::to_toml).unwrap_or_default();
        let mut at = 60;
        for (index, text) in ["crc32", scrambler.as_str(), "a = 1\n"].into_iter().enumerate() {
            file.put(48 + 4 * index, &(text.len() as u32).to_le_bytes());
            file.put(at, text.as_bytes());
            at += text.len();
        }
        file.put(65_520, b"number of drives");
        let crc = crc32fast::hash(&file.bytes[16..65_536]);
        file.put(12, &crc.to_le_bytes());
        file
    }

    fn entry(&mut self, block: usize, bad: bool, erases: u32) {
        let at = TABLE + 32 * block;
        self.put(at, &[if bad { 3 } else { 1 }]);
        self.put(at + 4, &erases.to_le_bytes());
        let crc = crc32fast::hash(&self.bytes[at..at + 28]);
        self.put(at + 28, &crc.to_le_bytes());
    }
}

/// What a page holds and says of itself.
struct Page {
    ppn: usize,
    kind: u8,
    number: u32,
    used: u32,
    oob: Oob,
    erases: u32,
    /// As the scrambler gets it, and under which address; `None` goes past it.
    content: Vec<u8>,
    address: Option<PageAddress>,
    own: bool,
}

fn address(lba: u64, page_in_block: u32, erase_count: u32) -> PageAddress {
    PageAddress { lba, page_in_block, column: 0, erase_count }
}

fn filled(bytes: &[u8]) -> Vec<u8> {
    let mut page = bytes.to_vec();
    page.resize(PAGE, 0);
    page
}

fn packed_page() -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let head = |page: &mut [u8], kind, flags, subpages, number: u32, rest: (u32, u64, u64)| {
        page[..4].copy_from_slice(&[kind, flags, subpages, 0]);
        page[4..8].copy_from_slice(&number.to_le_bytes());
        page[8..12].copy_from_slice(&rest.0.to_le_bytes());
        page[12..20].copy_from_slice(&rest.1.to_le_bytes());
        page[20..28].copy_from_slice(&rest.2.to_le_bytes());
    };
    let first = (10, 0x1112_1314_1516_1718, 0x2122_2324_2526_2728);
    head(&mut page[..], 1, 0, 1, 0x0a0b_0c0d, first);
    page[28..38].copy_from_slice(b"compressed");
    head(&mut page[256..], 7, 1, 2, 4, (200, 4, 5));
    page[256 + 28..256 + 228].fill(9);
    head(&mut page[768..], 2, 2, 1, 6, (0, 7, 8));
    page
}

/// The pages of the life above, in the order in which they were programmed. A page that moves
/// keeps its seed where the seed is that of its address.
fn pages(source: Option<SeedSource>) -> Vec<Page> {
    let moves = source == Some(SeedSource::PageColumnErase);
    let page = |ppn: usize, kind, number, oob: Oob, content: Vec<u8>, seed: u64| {
        let (used, erases, own) = (0, 0, false);
        let address = Some(address(seed, ppn as u32 % PAGES, erases));
        Page { ppn, kind, number, used, oob, erases, content, address, own }
    };
    let own = |ppn, kind, number, used, oob, content: &[u8]| Page {
        used,
        own: true,
        ..page(ppn, kind, number, oob, filled(content), ppn as u64)
    };
    let plain =
        Page { address: None, ..page(2, 0x41, 7, oob(PageKey::Data(7), 3, 7), content(3), 0) };
    let moved = Page {
        address: Some(address(9, u32::from(!moves), 0)),
        ..page(8, 2, 11, Oob { seq: 9, ..oob(PageKey::Shared(11), 2, 9) }, content(2), 9)
    };
    let plain_moved = Page {
        address: None,
        ..page(9, 0x41, 0, Oob { seq: 10, ..oob(PageKey::Data(0), 3, 7) }, content(3), 0)
    };
    let again = |page: Page| Page {
        erases: 1,
        address: page.address.map(|address| PageAddress { erase_count: 1, ..address }),
        ..page
    };
    let lost = Oob { seq: 13, ..oob(PageKey::Shared(8), 8, 1) };
    vec![
        page(0, 1, 5, oob(PageKey::Data(5), 1, 5), content(1), 5),
        page(1, 7, 6, oob(PageKey::Kept(6), 2, 9), content(2), 9),
        plain,
        own(3, 3, 2, 7, oob(PageKey::Map(2), 4, 1 << 40), b"mapping"),
        own(4, 4, 3, 7, oob(PageKey::Journal(3), 5, 5), b"journal"),
        own(5, 5, 4, 1024, oob(PageKey::Directory(4), (1 << 48) - 1, 6), &content(4)),
        own(6, 6, 5, 0, oob(PageKey::Root(5), 7, 7), &[]),
        page(7, 2, 8, oob(PageKey::Shared(8), 8, 1), content(5), 1),
        moved,
        plain_moved,
        again(page(0, 1, 12, oob(PageKey::Data(12), 11, 12), content(6), 12)),
        again(page(1, 8, 3, oob(PageKey::Packed(3), 12, 0), packed_page(), 1)),
        page(10, 0x82, 8, lost, vec![0; PAGE], 1),
    ]
}

/// The cells of a page and its out-of-band bytes.
fn stored(page: &Page, scrambler: Option<&ScramblerSpec>) -> (Vec<u8>, Vec<u8>) {
    let mut cells = page.content.clone();
    let seed = match (scrambler, &page.address) {
        (Some(scrambler), Some(address)) => {
            let scrambler = scrambler.compile().expect("compiled");
            scrambler.scramble(address, &mut cells).expect("covered")
        }
        _ => 0,
    };
    let crc = crc32fast::hash(&cells);
    let mut fields = vec![page.kind];
    fields.extend_from_slice(&page.used.to_le_bytes()[..3]);
    fields.extend_from_slice(&page.number.to_le_bytes());
    fields.extend_from_slice(&page.oob.seq.to_le_bytes()[..6]);
    fields.extend_from_slice(&page.oob.seed.to_le_bytes()[..6]);
    fields.extend_from_slice(&seed.to_le_bytes());
    fields.extend_from_slice(&page.oob.tag.to_le_bytes());
    fields.extend_from_slice(&page.erases.to_le_bytes());
    fields.extend_from_slice(&crc.to_le_bytes());
    let own_crc = crc32fast::hash(&fields);
    fields.extend_from_slice(&own_crc.to_le_bytes());
    let bch = Bch::new(Poly::from_bits(0b10_0001_0001).expect("a field"), 14, 48).expect("fits");
    let mut parity = vec![0; 16];
    bch.encode(&fields, &mut parity).expect("fits");
    // The code of the page: a CRC-32 for its only KiB.
    let spare = [&crc.to_le_bytes()[..], &fields, &parity, &[0; 8]].concat();
    (cells, spare)
}

pub fn whole(media: &dyn Media) -> Vec<u8> {
    let mut bytes = vec![0; media.len().expect("known") as usize];
    media.read(0, &mut bytes).expect("read");
    bytes
}

pub fn scramblers() -> [Option<ScramblerSpec>; 3] {
    let prbs = preset("lba-prbs31").expect("a preset");
    let elsewhere = ScramblerSpec { seed_source: SeedSource::PageColumnErase, ..prbs.clone() };
    [None, Some(prbs), Some(elsewhere)]
}

#[test]
fn the_files_of_a_drive_are_as_documented_to_the_byte() {
    for scrambler in scramblers() {
        let source = scrambler.as_ref().map(|scrambler| scrambler.seed_source);
        let mut drive = made(scrambler.as_ref());
        live(&mut drive);
        let health = drive.nand.health();
        let moved = (health.copies_as_stored, health.copies_encoded, health.lost_pages);
        let anew = source == Some(SeedSource::PageColumnErase);
        assert_eq!(moved, if anew { (1, 1, 1) } else { (2, 0, 1) }, "plain pages never are");
        let total = (PAGES * BLOCKS) as usize;
        let scrambler = scrambler.as_ref();
        let mut nand = Written::header(*b"ONEFNAND", scrambler, OOBS + total * OOB);
        let mut copies = Written::header(*b"ONEFCOPY", scrambler, OWN + total * (PAGE + OOB));
        for file in [&mut nand, &mut copies] {
            file.entry(0, false, 1);
            file.entry(3, false, 1);
        }
        nand.entry(4, true, 0);
        copies.entry(4, true, 0);
        for page in pages(source) {
            let (cells, spare) = stored(&page, scrambler);
            if page.erases == 0 && page.ppn / PAGES as usize == 0 {
                // Cleared with its block; what the copy says of it counts no more.
                copies.put(RECORDS + 64 * page.ppn, &spare[4..68]);
                continue;
            }
            nand.put(DATA + PAGE * page.ppn, &cells);
            nand.put(OOBS + OOB * page.ppn, &spare);
            copies.put(RECORDS + 64 * page.ppn, &spare[4..68]);
            if page.own {
                copies.put(OWN + (PAGE + OOB) * page.ppn, &[cells, spare].concat());
            }
        }
        nand.put(DATA + 7 * PAGE, &[0; 512]);
        for (name, expected) in [("nand", nand), ("copies", copies)] {
            let found = whole(&*drive.folder.open(name).expect("there"));
            let differ = found.iter().zip(&expected.bytes).position(|(one, two)| one != two);
            assert_eq!(differ, None, "{name}, {source:?}: the first byte that differs");
            assert_eq!(found.len(), expected.bytes.len(), "{name}, {source:?}");
        }
    }
}
