//! Whoever notes, word by word, what a drive does to its flash and tells its driver and its policy.
//! Room: onefold-flash.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::rc::Rc;

use crate::dedup::{AnyPolicy, Identities, Look, Offline, Pair, Policy, Prepared, Site, Verdict};
use crate::ftl::Ftl;
use crate::geometry::Geometry;
use crate::nand::{
    Faults, Fragment, Identity, IdentityNand, Nand, NandError, Oob, PageKey, Pattern, Payload,
    PowerCut,
};
use crate::op::{Driver, FlashOp, OpKind, Work};
use crate::testing::perfect::PerfectTable;
use crate::testing::plane::plane;

/// A drive of which everything is told.
pub type Drive = Ftl<Telling, Teller>;

/// What was told so far, by all who hold a copy of it.
#[derive(Clone, Debug, Default)]
pub struct Told(Rc<RefCell<String>>);

impl Told {
    /// Tells something more.
    pub fn say(&self, what: &str) {
        let mut told = self.0.borrow_mut();
        told.push(' ');
        told.push_str(what);
    }

    /// What was told since the last call.
    pub fn take(&self) -> String {
        std::mem::take(&mut self.0.borrow_mut())
    }
}

fn key(key: PageKey) -> String {
    match key {
        PageKey::Data(lpn) => format!("D{lpn}"),
        PageKey::Kept(lpn) => format!("K{lpn}"),
        PageKey::Shared(vpn) => format!("S{vpn}"),
        PageKey::Packed(count) => format!("P{count}"),
        PageKey::Map(index) => format!("M{index}"),
        PageKey::Journal(index) => format!("J{index}"),
        PageKey::Directory(index) => format!("B{index}"),
        PageKey::Root(index) => format!("R{index}"),
    }
}

/// An array that tells what is programmed and erased, and where some pages cannot be read, or only
/// their out-of-band areas can.
#[derive(Debug)]
pub struct Telling {
    pub inner: PowerCut<IdentityNand>,
    pub told: Told,
    pub unreadable: BTreeSet<u32>,
    pub torn: BTreeSet<u32>,
}

impl Telling {
    fn place(&self, ppn: u32) -> String {
        let pages = self.inner.geometry().pages_per_block;
        format!("{}.{}", ppn / pages, ppn % pages)
    }

    fn readable(&self, ppn: u32) -> Result<(), NandError> {
        let damaged = self.unreadable.contains(&ppn);
        if damaged { Err(NandError::Uncorrectable { ppn, retries: 1 }) } else { Ok(()) }
    }

    fn answer<T>(&self, what: &str, result: Result<T, NandError>) -> Result<T, NandError> {
        self.told.say(what);
        if result.is_err() {
            self.told.say("FAILED");
        }
        result
    }
}

impl Nand for Telling {
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
        let mut what = format!("{}={}@{}", self.place(ppn), key(oob.key), oob.seq);
        if oob.seed != 0 {
            write!(what, "~{}", oob.seed).unwrap();
        }
        if oob.tag != 0 {
            write!(what, "#{}", oob.tag).unwrap();
        }
        match payload {
            Payload::Data(page) => write!(what, ":{}", page.0).unwrap(),
            Payload::Meta(bytes) => write!(what, ":{:08x}", crc32fast::hash(bytes)).unwrap(),
            Payload::Packed(fragments) => {
                for Fragment { key: of, seed, tag, subpages, content } in fragments {
                    let content = content.map_or("lost".to_owned(), |page| page.0.to_string());
                    write!(what, "+{}*{subpages}~{seed}#{tag}:{content}", key(*of)).unwrap();
                }
            }
        }
        let result = self.inner.program(ppn, payload, oob);
        self.answer(&what, result)
    }

    fn copy(&mut self, from: u32, to: u32, of: PageKey, seq: u64) -> Result<u64, NandError> {
        let what = format!("{}={}@{seq}<{}", self.place(to), key(of), self.place(from));
        let result = self.inner.copy(from, to, of, seq);
        self.unreadable.remove(&to);
        self.answer(&what, result)
    }

    fn read(&mut self, ppn: u32) -> Result<Identity, NandError> {
        self.readable(ppn)?;
        self.inner.read(ppn)
    }

    fn read_packed(&mut self, ppn: u32) -> Result<Vec<Fragment<Identity>>, NandError> {
        self.readable(ppn)?;
        self.inner.read_packed(ppn)
    }

    fn compress(
        &mut self,
        lpn: u32,
        page: &Identity,
        request: Option<bool>,
    ) -> Option<Fragment<Identity>> {
        self.inner.compress(lpn, page, request)
    }

    fn expand(&mut self, ppn: u32, fragment: &Fragment<Identity>) -> Result<Identity, NandError> {
        self.inner.expand(ppn, fragment)
    }

    fn read_meta(&mut self, ppn: u32) -> Result<Vec<u8>, NandError> {
        self.readable(ppn)?;
        if self.torn.contains(&ppn) {
            return Err(NandError::Uncorrectable { ppn, retries: 1 });
        }
        self.inner.read_meta(ppn)
    }

    fn read_oob(&mut self, ppn: u32) -> Result<Oob, NandError> {
        self.readable(ppn)?;
        self.inner.read_oob(ppn)
    }

    fn erase(&mut self, block: u32) -> Result<(), NandError> {
        let pages = self.geometry().pages_per_block;
        self.unreadable.retain(|ppn| ppn / pages != block);
        let result = self.inner.erase(block);
        self.answer(&format!("erase{block}"), result)
    }

    fn is_bad(&self, block: u32) -> bool {
        self.inner.is_bad(block)
    }

    fn sync(&mut self) -> Result<(), NandError> {
        let result = self.inner.sync();
        self.answer("sync", result)
    }

    /// Three families of pages, and noise.
    fn pattern(&self, page: &Identity) -> Option<Pattern> {
        let family = (page.0 % 4) as u8;
        (family > 0).then(|| Pattern::of(&[family * 0x55; 64]))
    }
}

impl Telling {
    /// An array of which nothing goes wrong yet.
    pub fn new(inner: IdentityNand, told: &Told) -> Self {
        Self {
            inner: PowerCut::new(inner, Faults::default()),
            told: told.clone(),
            torn: BTreeSet::new(),
            unreadable: BTreeSet::new(),
        }
    }
}

/// A driver that tells what it is asked to do, and may want host pages on one plane.
#[derive(Debug)]
pub struct Asked {
    pub told: Told,
    pub wants: Cell<Option<u32>>,
}

impl Asked {
    /// A driver that wants nothing.
    pub fn new(told: &Told) -> Self {
        Self { told: told.clone(), wants: Cell::new(None) }
    }
}

impl Driver for Asked {
    fn issue(&mut self, op: FlashOp) {
        let FlashOp { kind, cause, ppn, foreground } = op;
        let kind = match kind {
            OpKind::Read => "r",
            OpKind::Program => "p",
            OpKind::Erase => "e",
        };
        let waits = if foreground { "!" } else { "" };
        self.told.say(&format!("[{kind}{ppn} {}{waits}]", cause.name()));
    }

    fn work(&mut self, work: Work, foreground: bool) {
        // Every write looks up; the rest is rare.
        if work != Work::Lookup || !foreground {
            self.told.say(&format!("{work:?}{}", if foreground { "!" } else { "" }));
        }
    }

    fn wait_for(&mut self, ppn: u32) {
        self.told.say(&format!("wait{ppn}"));
    }

    fn is_idle(&self, _plane: u32) -> bool {
        true
    }

    fn preferred_plane(&mut self) -> Option<u32> {
        self.wants.get()
    }

    fn now_ns(&self) -> u64 {
        0
    }
}

/// A policy of the drive's, or one that knows every page.
#[derive(Debug)]
pub enum Table {
    Perfect(PerfectTable),
    Named(Box<AnyPolicy<Identities>>),
}

/// Calls the policy that there is.
macro_rules! table {
    ($self:ident.$call:ident($($argument:expr),*)) => {
        match &mut $self.table {
            Table::Perfect(table) => table.$call($($argument),*),
            Table::Named(policy) => Policy::<Identity>::$call(&mut **policy, $($argument),*),
        }
    };
}

/// A policy that tells what it hears, and wants some pages apart.
#[derive(Debug)]
pub struct Teller {
    pub table: Table,
    pub told: Told,
    /// Pages whose content is a multiple of this are wanted apart; 0 for none.
    pub apart_every: u64,
}

impl Teller {
    /// A policy that knows every page and shares all that it can inline.
    pub fn perfect(told: &Told) -> Self {
        let table = Table::Perfect(PerfectTable::new(100, 1));
        Self { table, told: told.clone(), apart_every: 0 }
    }

    /// No deduplication.
    pub fn none(told: &Told) -> Self {
        let (site, options) = (Site::new(plane(1, 1), None), toml::Table::new());
        let none = AnyPolicy::new::<Identity>("none", &options, &site, Identities);
        let table = Table::Named(Box::new(none.expect("it takes no options")));
        Self { table, told: told.clone(), apart_every: 0 }
    }
}

impl Policy<Identity> for Teller {
    fn decide(
        &mut self,
        lpn: u32,
        page: &Identity,
        prepared: Prepared,
        look: &mut impl Look,
    ) -> Verdict {
        let wanted = self.apart_every > 0 && (page.0 as u64).is_multiple_of(self.apart_every);
        match table!(self.decide(lpn, page, prepared, look)) {
            Verdict::Program { tag, apart } => Verdict::Program { tag, apart: apart || wanted },
            Verdict::Verify { tag, candidate, apart } => {
                Verdict::Verify { tag, candidate, apart: apart || wanted }
            }
            shared @ Verdict::Share { .. } => shared,
        }
    }

    fn stored(&mut self, ppn: u32, tag: u64) {
        self.told.say(&format!("stored{ppn}#{tag}"));
        table!(self.stored(ppn, tag));
    }

    fn recovered(&mut self, ppn: u32, tag: u64) {
        self.told.say(&format!("found{ppn}#{tag}"));
        table!(self.recovered(ppn, tag));
    }

    fn moved(&mut self, from: u32, to: u32, tag: u64) {
        self.told.say(&format!("moved{from}>{to}#{tag}"));
        table!(self.moved(from, to, tag));
    }

    fn died(&mut self, ppn: u32) {
        self.told.say(&format!("died{ppn}"));
        table!(self.died(ppn));
    }

    fn compared(&mut self, candidate: u32, equal: bool) {
        self.told.say(&format!("compared{candidate}:{equal}"));
        table!(self.compared(candidate, equal));
    }

    fn next_offline(&mut self, look: &mut impl Look) -> Option<Offline> {
        table!(self.next_offline(look))
    }

    fn scanned(&mut self, ppn: u32, page: &Identity, look: &mut impl Look) {
        self.told.say(&format!("scanned{ppn}"));
        table!(self.scanned(ppn, page, look));
    }

    fn settled(&mut self, pair: Pair, merged: bool) {
        self.told.say(&format!("settled{}={}:{merged}", pair.duplicate, pair.original));
        table!(self.settled(pair, merged));
    }

    fn prepare(
        &mut self,
        lpn: u32,
        page: &Identity,
        prepared: &mut Prepared,
        look: &mut impl Look,
    ) -> Option<Work> {
        table!(self.prepare(lpn, page, prepared, look))
    }

    fn tag_read(&mut self, ppn: u32, tag: u64) {
        self.told.say(&format!("tag{ppn}#{tag}"));
        table!(self.tag_read(ppn, tag));
    }

    fn dram(&self) -> Vec<(&'static str, u64)> {
        match &self.table {
            Table::Perfect(table) => table.dram(),
            Table::Named(policy) => Policy::<Identity>::dram(&**policy),
        }
    }
}
