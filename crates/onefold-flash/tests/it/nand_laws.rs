//! What every array allows and refuses, step by step beside a plain model, to the word.
//! Room: onefold-flash.

use onefold_block::SplitMix64;
use onefold_flash::Geometry;
use onefold_flash::nand::bytes::{BCH_NAME, ChannelSpec, PageBytes};
use onefold_flash::nand::{
    BlankNand, ByteNand, Faults, Fragment, Identity, IdentityNand, Interruptible, Nand, NandError,
    Oob, PageKey, Payload, PowerCut, WearModel,
};

use crate::validation::plane::plane;

const PAGE: usize = 1024;
const PAGES: u32 = 4;
const BLOCKS: u32 = 6;

fn geometry() -> Geometry {
    Geometry {
        planes_per_die: 2,
        page_bytes: PAGE as u32,
        oob_bytes: 96,
        ..plane(BLOCKS / 2, PAGES)
    }
}

/// What was programmed into a page: a number that says all of it.
#[derive(Clone, Copy, Debug)]
enum Held {
    Data { number: u64, oob: Oob },
    Meta { len: usize, oob: Oob },
}

impl Held {
    fn oob(&self) -> Oob {
        match *self {
            Self::Data { oob, .. } | Self::Meta { oob, .. } => oob,
        }
    }
}

/// An array as the rules have it.
struct Model {
    pages: Vec<Vec<Held>>,
    bad: Vec<bool>,
}

impl Model {
    fn held(&self, ppn: u32) -> Result<Held, String> {
        let page = self.pages[(ppn / PAGES) as usize].get((ppn % PAGES) as usize);
        page.copied().ok_or_else(|| format!("page {ppn} is erased"))
    }

    fn program(&mut self, ppn: u32, held: Held) -> Result<(), String> {
        let block = (ppn / PAGES) as usize;
        let refused =
            |why| Err(format!("program of page {ppn} (block {block}) is forbidden: {why}"));
        if self.bad[block] {
            return refused("the block is bad");
        }
        if self.pages[block].len() != (ppn % PAGES) as usize {
            return refused("pages of a block are programmed in order, once");
        }
        self.pages[block].push(held);
        Ok(())
    }

    fn erase(&mut self, block: u32) -> Result<(), String> {
        if self.bad[block as usize] {
            let first = block * PAGES;
            return Err(format!(
                "erase of page {first} (block {block}) is forbidden: the block is bad"
            ));
        }
        self.pages[block as usize].clear();
        Ok(())
    }
}

/// The kinds of array and how a page of each is made from a number.
trait Kind: Nand {
    fn page(number: u64) -> Self::Page;

    /// Makes a block bad, where whoever owns the array can.
    fn spoil(&mut self, _block: u32) -> bool {
        false
    }
}

impl Kind for BlankNand {
    fn page(_number: u64) {}
}

impl Kind for IdentityNand {
    fn page(number: u64) -> Identity {
        Identity::of_number(number)
    }

    fn spoil(&mut self, block: u32) -> bool {
        self.mark_bad(block);
        true
    }
}

impl Kind for PowerCut<IdentityNand> {
    fn page(number: u64) -> Identity {
        Identity::of_number(number)
    }

    fn spoil(&mut self, block: u32) -> bool {
        self.inner().spoil(block)
    }
}

impl<S: onefold_flash::nand::bytes::Store> Kind for ByteNand<S> {
    fn page(number: u64) -> PageBytes {
        PageBytes::from(SplitMix64::new(number).bytes(PAGE))
    }
}

impl<K: Kind> Kind for &mut K {
    fn page(number: u64) -> K::Page {
        K::page(number)
    }

    fn spoil(&mut self, block: u32) -> bool {
        (**self).spoil(block)
    }
}

fn meta(len: usize) -> Vec<u8> {
    SplitMix64::new(len as u64).bytes(len)
}

fn told<T>(result: Result<T, NandError>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// An array of any kind, asked in words that are the same for all of them: a number stands for a
/// page.
trait Array {
    fn shape(&self) -> &Geometry;
    fn keeps_meta(&self) -> bool;
    fn bad(&self) -> Vec<bool>;
    fn make_bad(&mut self, block: u32) -> bool;
    fn program_data(&mut self, ppn: u32, number: u64, oob: &Oob) -> Result<(), String>;
    fn program_meta(&mut self, ppn: u32, len: usize, oob: &Oob) -> Result<(), String>;
    fn copy_page(&mut self, from: u32, to: u32, key: PageKey, seq: u64) -> Result<u64, String>;
    fn erase_block(&mut self, block: u32) -> Result<(), String>;
    fn sync_all(&mut self) -> Result<(), String>;
    /// Whether a page is that of a number.
    fn is(&mut self, ppn: u32, number: u64) -> Result<bool, String>;
    fn meta(&mut self, ppn: u32) -> Result<Vec<u8>, String>;
    fn oob(&mut self, ppn: u32) -> Result<Oob, String>;
}

impl<K: Kind> Array for K {
    fn shape(&self) -> &Geometry {
        self.geometry()
    }

    fn keeps_meta(&self) -> bool {
        K::KEEPS_META
    }

    fn bad(&self) -> Vec<bool> {
        (0..BLOCKS).map(|block| self.is_bad(block)).collect()
    }

    fn make_bad(&mut self, block: u32) -> bool {
        self.spoil(block)
    }

    fn program_data(&mut self, ppn: u32, number: u64, oob: &Oob) -> Result<(), String> {
        told(self.program(ppn, Payload::Data(&K::page(number)), oob))
    }

    fn program_meta(&mut self, ppn: u32, len: usize, oob: &Oob) -> Result<(), String> {
        told(self.program(ppn, Payload::Meta(&meta(len)), oob))
    }

    fn copy_page(&mut self, from: u32, to: u32, key: PageKey, seq: u64) -> Result<u64, String> {
        told(self.copy(from, to, key, seq))
    }

    fn erase_block(&mut self, block: u32) -> Result<(), String> {
        told(self.erase(block))
    }

    fn sync_all(&mut self) -> Result<(), String> {
        told(self.sync())
    }

    fn is(&mut self, ppn: u32, number: u64) -> Result<bool, String> {
        told(self.read(ppn)).map(|page| page == K::page(number))
    }

    fn meta(&mut self, ppn: u32) -> Result<Vec<u8>, String> {
        told(self.read_meta(ppn))
    }

    fn oob(&mut self, ppn: u32) -> Result<Oob, String> {
        told(self.read_oob(ppn))
    }
}

/// One step of each kind in turn, at random places, some of which the rules forbid; then all pages
/// are looked at.
fn follow(nand: &mut dyn Array, what: &str) {
    let mut model = Model { pages: vec![Vec::new(); BLOCKS as usize], bad: nand.bad() };
    let mut random = SplitMix64::new(3);
    assert_eq!(nand.shape(), &geometry());
    let (mut done, mut refused) = (0, 0);
    for seq in 1..=400 {
        let block = random.below(u64::from(BLOCKS)) as u32;
        let next = model.pages[block as usize].len() as u32;
        let to = block * PAGES
            + if random.chance(1, 6) { random.below(4) as u32 } else { next.min(PAGES - 1) };
        let oob = |key| Oob { key, seq, seed: seq + 7, tag: seq * 3 };
        let (found, expected) = match random.below(16) {
            0..=7 => {
                let oob = oob(PageKey::Data(to));
                (
                    nand.program_data(to, seq, &oob),
                    model.program(to, Held::Data { number: seq, oob }),
                )
            }
            8..=9 => {
                let len = [0, 1, 100, PAGE][random.below(4) as usize];
                let oob = oob(PageKey::Map(to));
                (nand.program_meta(to, len, &oob), model.program(to, Held::Meta { len, oob }))
            }
            10..=11 => {
                let from = random.below(u64::from(BLOCKS * PAGES)) as u32;
                let (key, seq) = (PageKey::Shared(to), seq + 1000);
                match model.held(from) {
                    Ok(Held::Meta { .. }) => continue,
                    Ok(Held::Data { number, oob }) => {
                        let tag = if nand.keeps_meta() { oob.tag } else { 0 };
                        let held = Held::Data { number, oob: Oob { key, seq, ..oob } };
                        let found = nand.copy_page(from, to, key, seq);
                        if let Ok(found) = &found {
                            assert_eq!(*found, tag, "{what}: the tag that travels");
                        }
                        (found.map(|_| ()), model.program(to, held))
                    }
                    Err(erased) => (nand.copy_page(from, to, key, seq).map(|_| ()), Err(erased)),
                }
            }
            12..=13 => (nand.erase_block(block), model.erase(block)),
            14 => (nand.sync_all(), Ok(())),
            _ => {
                if random.chance(1, 12) && nand.make_bad(block) {
                    model.bad[block as usize] = true;
                }
                continue;
            }
        };
        assert_eq!(found, expected, "{what}: step {seq}");
        done += u32::from(found.is_ok());
        refused += u32::from(found.is_err());
        assert_eq!(nand.bad(), model.bad, "{what}: step {seq}");
        for ppn in (0..BLOCKS * PAGES).filter(|&ppn| seq % 8 == 0 || ppn / PAGES == block) {
            look(nand, ppn, model.held(ppn), &format!("{what}: step {seq}, page {ppn}"));
        }
    }
    assert!(done > 150 && refused > 50, "{what}: {done} done, {refused} refused");
}

/// A page is what the model says in every way that it can be asked.
fn look(nand: &mut dyn Array, ppn: u32, expected: Result<Held, String>, what: &str) {
    let held = match expected {
        Ok(held) => held,
        Err(erased) => {
            assert_eq!(nand.is(ppn, 0), Err(erased.clone()), "{what}");
            assert_eq!(nand.meta(ppn), Err(erased.clone()), "{what}");
            assert_eq!(nand.oob(ppn), Err(erased), "{what}");
            return;
        }
    };
    let nothing = format!("page {ppn} cannot be corrected after 0 read retries");
    let oob = if nand.keeps_meta() { Ok(held.oob()) } else { Err(nothing.clone()) };
    assert_eq!(nand.oob(ppn), oob, "{what}");
    match held {
        Held::Data { number, .. } => {
            assert_eq!(nand.is(ppn, number), Ok(true), "{what}: its content");
        }
        Held::Meta { len, .. } if nand.keeps_meta() => {
            assert!(nand.meta(ppn) == Ok(meta(len)), "{what}: other bytes");
        }
        Held::Meta { .. } => assert_eq!(nand.meta(ppn), Err(nothing), "{what}"),
    }
}

#[test]
fn every_array_allows_and_refuses_what_the_rules_say() {
    let planned = || PowerCut::new(IdentityNand::new(geometry()), Faults::default());
    follow(&mut BlankNand::new(geometry()), "nothing");
    follow(&mut IdentityNand::new(geometry()), "identities");
    follow(&mut planned(), "with a plan");
    follow(&mut &mut IdentityNand::new(geometry()), "identities, lent");
    follow(&mut &mut planned(), "a plan, lent");
    let wear = WearModel { factory_bad: 0.3, seed: 2, ..WearModel::none() };
    let channel = ChannelSpec { code: BCH_NAME.into(), scrambler: None };
    let bytes = || ByteNand::in_memory(geometry(), &channel, wear.clone()).expect("fits");
    let bad = (0..BLOCKS).filter(|&block| bytes().is_bad(block)).count();
    assert!((1..4).contains(&bad), "{bad} blocks are bad from the start");
    follow(&mut bytes(), "bytes");
    follow(&mut &mut bytes(), "bytes, lent");
}

fn oob(key: PageKey) -> Oob {
    Oob { key, seq: 5, seed: 6, tag: 7 }
}

/// What one of the kinds of page is not, it is not read as.
#[test]
fn pages_of_identities_are_read_as_what_they_are_alone() {
    let mut nand = IdentityNand::new(geometry());
    let fragments = [Fragment {
        key: PageKey::Data(3),
        seed: 3,
        tag: 9,
        subpages: 2,
        content: Some(Identity(8)),
    }];
    nand.program(0, Payload::Data(&Identity(1)), &oob(PageKey::Data(1))).expect("programmed");
    nand.program(1, Payload::Meta(b"m"), &oob(PageKey::Map(1))).expect("programmed");
    nand.program(2, Payload::Packed(&fragments), &oob(PageKey::Packed(1))).expect("programmed");
    let refused = |ppn: u32, why: &str| {
        Err::<(), _>(format!("read of page {ppn} (block 0) is forbidden: {why}"))
    };
    for (ppn, is) in [(0, "data"), (1, "meta"), (2, "packed")] {
        let read = told(nand.read(ppn)).map(|_| ());
        let as_meta = told(nand.read_meta(ppn)).map(|_| ());
        let packed = told(nand.read_packed(ppn)).map(|_| ());
        let no_data = if is == "data" { Ok(()) } else { refused(ppn, "the page is no data page") };
        let no_meta = if is == "meta" { Ok(()) } else { refused(ppn, "the page is a data page") };
        let not_packed =
            if is == "packed" { Ok(()) } else { refused(ppn, "the page is no packed page") };
        assert_eq!((read, as_meta, packed), (no_data, no_meta, not_packed), "{is}");
    }
    assert_eq!(nand.read_packed(2).expect("packed"), fragments);
    // What the page held before the erase is not read from the one that is there after it.
    nand.erase(0).expect("erased");
    for ppn in 0..3 {
        nand.program(ppn, Payload::Data(&Identity(4)), &oob(PageKey::Data(1))).expect("programmed");
        assert_eq!(
            told(nand.read_meta(ppn)).map(|_| ()),
            refused(ppn, "the page is a data page"),
            "page {ppn}"
        );
    }
    // Nor does the erase of a block take what others hold.
    for first in [PAGES, 2 * PAGES, 3 * PAGES] {
        for ppn in first..first + PAGES {
            nand.program(ppn, Payload::Meta(b"n"), &oob(PageKey::Map(1))).expect("programmed");
        }
    }
    nand.erase(2).expect("erased");
    for ppn in PAGES..4 * PAGES {
        let there = nand.read_meta(ppn).is_ok_and(|bytes| bytes == b"n");
        assert_eq!(there, ppn / PAGES != 2, "page {ppn}");
    }
}

#[test]
fn a_page_of_the_ftl_s_own_has_a_page_s_bytes_at_most() {
    let mut nand = IdentityNand::new(geometry());
    let said = nand.program(0, Payload::Meta(&[1; PAGE + 1]), &oob(PageKey::Map(0)));
    let refused = "program of page 0 (block 0) is forbidden: the bytes are more than a page";
    assert_eq!(told(said), Err(refused.to_owned()));
    nand.program(0, Payload::Meta(&[1; PAGE]), &oob(PageKey::Map(0))).expect("a whole page fits");
    assert_eq!(nand.read_meta(0).expect("read"), [1; PAGE]);
}

/// Arrays that cannot pack say so of every page, at that page.
#[test]
fn where_nothing_is_packed_nothing_is_unpacked() {
    fn ask(mut nand: impl Nand<Page = ()>) {
        let uncorrectable = "page 9 cannot be corrected after 0 read retries";
        let fragment = fragment(Some(()));
        assert_eq!(told(nand.read_packed(9)).unwrap_err(), uncorrectable);
        assert_eq!(told(nand.expand(9, &fragment)).unwrap_err(), uncorrectable);
        assert_eq!(nand.compress(1, &(), None), None);
    }
    ask(BlankNand::new(geometry()));
    ask(&mut BlankNand::new(geometry()));
    let mut nand = IdentityNand::new(geometry());
    let lost = told(nand.expand(9, &fragment(None)));
    assert_eq!(lost.unwrap_err(), "page 9 cannot be corrected after 0 read retries");
    assert_eq!(nand.compress(1, &Identity(2), None), None, "no engine");
}

const fn fragment<P>(content: Option<P>) -> Fragment<P> {
    Fragment { key: PageKey::Data(0), seed: 0, tag: 0, subpages: 1, content }
}
