//! What the drive does to its flash is what whoever keeps time is told, operation for operation.
//! Room: onefold-flash.
//! A read that is not issued costs no time and no energy, and the drive looks faster than it is.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use onefold_block::SplitMix64;
use onefold_flash::dedup::{AnyPolicy, Identities, Prepared, Site};
use onefold_flash::ftl::{Durability, FtlError};
use onefold_flash::nand::{Identity, IdentityNand, Nand, NandError, Oob, PageKey, Payload};
use onefold_flash::op::Work;
use onefold_flash::{Driver, FlashOp, Ftl, FtlSettings, Geometry, OpKind};

use crate::dedup_model::CASES;
use crate::validation::kinds::{array, timed};

const GEOMETRY: Geometry = Geometry {
    channels: 1,
    packages: 2,
    dies_per_package: 1,
    planes_per_die: 1,
    blocks_per_plane: 28,
    pages_per_block: 8,
    page_bytes: 128,
    oob_bytes: 64,
};
/// Five mapping pages.
const LOGICAL: u32 = 140;

/// How often each page was read, programmed, or erased as the first of its block.
type Ops = BTreeMap<(&'static str, u32), u64>;

/// An array that notes what is done to it.
struct Noted {
    inner: IdentityNand,
    done: Rc<RefCell<Ops>>,
    /// The page whose bytes were read last: its out-of-band area came with them.
    with_oob: Option<u32>,
}

impl Noted {
    fn note(&mut self, what: &'static str, ppn: u32) {
        *self.done.borrow_mut().entry((what, ppn)).or_default() += 1;
        self.with_oob = None;
    }
}

impl Nand for Noted {
    type Page = Identity;

    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn program(
        &mut self,
        ppn: u32,
        payload: Payload<'_, Identity>,
        oob: &Oob,
    ) -> Result<(), NandError> {
        self.note("program", ppn);
        self.inner.program(ppn, payload, oob)
    }

    fn copy(&mut self, from: u32, to: u32, key: PageKey, seq: u64) -> Result<u64, NandError> {
        self.note("read", from);
        self.note("program", to);
        self.inner.copy(from, to, key, seq)
    }

    fn read(&mut self, ppn: u32) -> Result<Identity, NandError> {
        self.note("read", ppn);
        self.inner.read(ppn)
    }

    fn read_meta(&mut self, ppn: u32) -> Result<Vec<u8>, NandError> {
        self.note("read", ppn);
        self.with_oob = Some(ppn);
        self.inner.read_meta(ppn)
    }

    fn read_oob(&mut self, ppn: u32) -> Result<Oob, NandError> {
        if self.with_oob.take() != Some(ppn) {
            self.note("read", ppn);
        }
        self.inner.read_oob(ppn)
    }

    fn erase(&mut self, block: u32) -> Result<(), NandError> {
        self.note("erase", GEOMETRY.first_page(block));
        self.inner.erase(block)
    }

    fn is_bad(&self, block: u32) -> bool {
        self.inner.is_bad(block)
    }

    fn sync(&mut self) -> Result<(), NandError> {
        self.inner.sync()
    }
}

/// Notes what it is told; planes are busy at random.
struct Told {
    ops: Ops,
    compared: u64,
    looked_up: u64,
    random: u64,
}

impl Driver for Told {
    fn issue(&mut self, op: FlashOp) {
        let what = match op.kind {
            OpKind::Read => "read",
            OpKind::Program => "program",
            OpKind::Erase => "erase",
        };
        *self.ops.entry((what, op.ppn)).or_default() += 1;
        self.random = self.random.wrapping_mul(31) ^ u64::from(op.ppn);
    }

    fn work(&mut self, work: Work, foreground: bool) {
        self.compared += u64::from(work == Work::Compare);
        self.looked_up += u64::from(work == Work::Lookup);
        assert!(foreground || work != Work::Lookup, "a request waits until it is looked up");
    }

    fn is_idle(&self, plane: u32) -> bool {
        self.random >> (plane % 8) & 1 == 0
    }

    fn preferred_plane(&mut self) -> Option<u32> {
        None
    }

    fn now_ns(&self) -> u64 {
        0
    }
}

fn policy((name, options): (&str, &str)) -> AnyPolicy<Identities> {
    let site = Site::new(GEOMETRY, None);
    let options = options.parse().expect("TOML");
    AnyPolicy::new::<Identity>(name, &options, &site, Identities).expect("accepted")
}

#[test]
fn every_operation_on_the_flash_is_issued_once_and_no_other() {
    let (mut compared, mut deduplicated) = (0, 0);
    for (number, &case) in CASES.iter().enumerate() {
        for durability in [Durability::Volatile, Durability::Journal, Durability::Protected] {
            let done = Rc::new(RefCell::new(Ops::new()));
            let inner = IdentityNand::new(GEOMETRY);
            let nand = Noted { inner, done: Rc::clone(&done), with_oob: None };
            let settings = FtlSettings {
                logical_pages: LOGICAL,
                gc_reserve_blocks: 2,
                durability,
                map_cache_bytes: [0, 4 * 128][number % 2],
                wear_spread: 2,
                ..FtlSettings::default()
            };
            let mut ftl = Ftl::format(nand, policy(case), settings).expect("fits");
            let mut told = Told { ops: Ops::new(), compared: 0, looked_up: 0, random: 7 };
            let mut random = SplitMix64::new(number as u64);
            // What formatting did is nobody's time.
            done.borrow_mut().clear();
            for step in 0..1500 {
                let d = &mut timed(&mut told);
                let lpn = random.below(LOGICAL.into()) as u32;
                let result = match random.below(16) {
                    0 => ftl.trim(lpn, d),
                    1 => ftl.read(lpn, d).map(drop),
                    2 => ftl.flush(d),
                    3..6 => ftl.deduplicate_step(d).map(drop),
                    6 => ftl.collect_idle(random.below(2) as u32, d).map(drop),
                    7 if step % 8 == 0 => ftl.checkpoint(d),
                    _ => {
                        let content = Identity::of_number(random.below(90));
                        ftl.write(lpn, &content, d).map(drop)
                    }
                };
                result.unwrap_or_else(|error| panic!("{case:?}, {durability:?}: {error}"));
                let (done, ops) = (std::mem::take(&mut *done.borrow_mut()), &mut told.ops);
                assert_eq!(done, *ops, "{case:?}, {durability:?}, step {step}");
                ops.clear();
            }
            let counters = ftl.counters();
            let both = counters.compared_equal + counters.compared_different;
            assert_eq!(told.compared, both, "{case:?}, {durability:?}: comparisons take time");
            compared += both;
            deduplicated += counters.offline_pages + counters.inline_pages;
        }
    }
    assert!(compared > 5000 && deduplicated > 5000, "{compared} and {deduplicated}");
}

#[test]
fn nothing_is_done_past_the_end_of_the_drive() {
    let settings = FtlSettings { logical_pages: LOGICAL, ..FtlSettings::default() };
    let none = policy(("none", ""));
    let mut ftl = Ftl::format(array(GEOMETRY), none, settings).expect("fits");
    let mut told = Told { ops: Ops::new(), compared: 0, looked_up: 0, random: 0 };
    let page = Identity::of_number(3);
    for lpn in [LOGICAL, LOGICAL + 1, u32::MAX] {
        let told = &mut timed(&mut told);
        let refused = [
            ftl.write(lpn, &page, told).map(drop),
            ftl.write_prepared(lpn, &page, Prepared::default(), told).map(drop),
            ftl.read(lpn, told).map(drop),
            ftl.load(lpn, told),
            ftl.trim(lpn, told),
        ];
        for (number, refused) in refused.into_iter().enumerate() {
            let Err(FtlError::OutOfRange { lpn: named, pages }) = refused else {
                panic!("call {number} for page {lpn}: {refused:?}");
            };
            assert_eq!((named, pages), (lpn, LOGICAL), "call {number}");
        }
        assert!(ftl.trim_range(LOGICAL - 1, 2, told).is_err());
        let refused = ftl.trim_range(lpn, 3, told);
        let first = matches!(refused, Err(FtlError::OutOfRange { lpn: named, .. }) if named == lpn);
        assert!(first, "{refused:?}: the first page is named");
    }
    assert!(told.ops.is_empty());
    assert_eq!(ftl.counters(), &onefold_flash::ftl::Counters::default());
    ftl.write(LOGICAL - 1, &page, &mut timed(&mut told)).expect("the last page is one");
}

#[test]
fn every_request_looks_up_once() {
    let settings = FtlSettings { logical_pages: LOGICAL, ..FtlSettings::default() };
    let mut ftl = Ftl::format(array(GEOMETRY), policy(("none", "")), settings).expect("fits");
    let mut told = Told { ops: Ops::new(), compared: 0, looked_up: 0, random: 0 };
    let page = Identity::of_number(9);
    ftl.write(3, &page, &mut timed(&mut told)).expect("writes");
    assert_eq!(told.looked_up, 1);
    ftl.read(3, &mut timed(&mut told)).expect("reads");
    assert_eq!(told.looked_up, 2);
    ftl.trim_range(3, 0, &mut timed(&mut told)).expect("nothing");
    assert_eq!(told.looked_up, 2);
    ftl.trim_range(3, 2, &mut timed(&mut told)).expect("trims");
    assert_eq!(told.looked_up, 3);
    ftl.write(LOGICAL, &page, &mut timed(&mut told)).expect_err("there is no such page");
    assert_eq!(told.looked_up, 3);
}
