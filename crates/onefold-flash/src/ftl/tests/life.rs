//! The life of a small drive, told step by step.
//! Room: onefold-flash.
//! What it does while it is filled and while nothing new happens is told as a sum alone.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use onefold_block::SplitMix64;
use onefold_block::kept_text::assert_text;

use super::plan::{Mix, Plan, planes, teller};
use super::told::{Asked, Drive, Telling, Told};
use crate::ftl::idle::{IdleWork, Scope};
use crate::ftl::{Ftl, FtlError};
use crate::nand::{Cut, Identity, IdentityNand, PowerCut};

/// A drive, what it should hold, and what was told of it.
pub struct Life {
    pub plan: Plan,
    pub drive: Drive,
    driver: Asked,
    told: Told,
    pub work: IdleWork,
    random: SplitMix64,
    model: Vec<Option<Identity>>,
    text: String,
    /// Whether the drive could be opened, and lives on.
    opens: bool,
}

impl Life {
    /// A drive is made.
    pub fn new(name: &str, plan: Plan) -> Self {
        let told = Told::default();
        let inner = IdentityNand::new(plan.geometry).with_sizes(plan.sizes.clone());
        let inner = PowerCut::new(inner, plan.faults);
        let nand = Telling {
            inner,
            told: told.clone(),
            unreadable: BTreeSet::new(),
            torn: BTreeSet::new(),
        };
        let drive = Ftl::format(nand, teller(&plan, &told), plan.settings).expect("fits");
        let mut life = Self {
            driver: Asked::new(&told),
            work: IdleWork::new(plan.order, drive.counters()),
            random: SplitMix64::new(7),
            model: vec![None; plan.settings.logical_pages as usize],
            text: format!("# {name}\n\n"),
            plan,
            drive,
            told,
            opens: true,
        };
        life.line("made", None);
        life
    }

    /// Compares with the file of that name; `ONEFOLD_UPDATE=1` writes it instead.
    #[track_caller]
    #[expect(clippy::disallowed_methods, reason = "tests take from the environment what to write")]
    pub fn holds(name: &str, texts: &[String]) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ftl/tests");
        let update = std::env::var_os("ONEFOLD_UPDATE").is_some();
        assert_text(&folder.join(name), &texts.join("\n"), update);
    }

    /// All that was told.
    pub fn end(mut self) -> String {
        if self.opens {
            self.read_all();
        }
        self.text
    }

    /// Host pages are wanted on one plane from now on, or anywhere.
    pub fn want(&self, plane: Option<u32>) {
        self.driver.wants.set(plane);
    }

    /// Every logical page is written in turn, which is told as a sum.
    pub fn fill(&mut self) {
        let before = self.text.len();
        for lpn in 0..self.plan.settings.logical_pages {
            self.write(lpn, None);
        }
        self.show("filled");
        self.sum_up("filled", before);
    }

    /// So many random steps, told as a sum for every 50 of them.
    pub fn quietly(&mut self, steps: u32) {
        assert!(self.opens, "there is no drive any more");
        for from in (0..steps).step_by(50) {
            let before = self.text.len();
            for _ in from..steps.min(from + 50) {
                self.step();
            }
            self.show("after that");
            self.sum_up(&format!("steps {from}.."), before);
        }
    }

    /// So many random steps, told one by one.
    pub fn loudly(&mut self, steps: u32) {
        for _ in 0..steps {
            self.step();
        }
        self.show("after that");
    }

    fn sum_up(&mut self, what: &str, before: usize) {
        let sum = crc32fast::hash(&self.text.as_bytes()[before..]);
        let length = self.text.len() - before;
        self.text.truncate(before);
        let ops = &self.drive.counters().ops;
        writeln!(self.text, "{what}: {length} bytes, {sum:08x}, {ops:?}").unwrap();
    }

    fn line(&mut self, what: &str, failed: Option<&FtlError>) {
        let told = self.told.take();
        let failed = failed.map_or(String::new(), |error| format!(" -> {error}"));
        writeln!(self.text, "{what}:{told}{failed}").unwrap();
    }

    fn lpn(&mut self) -> u32 {
        let pages = self.plan.settings.logical_pages;
        match self.plan.hot {
            Some((hot, percent)) if self.random.chance(percent, 100) => {
                self.random.below(hot.into()) as u32
            }
            _ => self.random.below(pages.into()) as u32,
        }
    }

    pub fn write(&mut self, lpn: u32, asked: Option<bool>) {
        let page = Identity::of_number(1 + self.random.below(self.plan.contents));
        let written = self.drive.write_asked(lpn, &page, asked, &mut self.driver);
        if written.is_ok() {
            self.model[lpn as usize] = Some(page);
        }
        let kept = if asked.is_some() { " kept" } else { "" };
        self.line(&format!("write {lpn}={}{kept}", page.0), written.err().as_ref());
    }

    /// One random step.
    pub fn step(&mut self) {
        let Mix { write, kept, trim, read, flush, checkpoint, merge, collect, work } =
            self.plan.mix;
        let weights = [write, kept, trim, read, flush, checkpoint, merge, collect, work];
        let mut drawn = self.random.below(weights.iter().sum());
        let mut kind = 0;
        while drawn >= weights[kind] {
            drawn -= weights[kind];
            kind += 1;
        }
        match kind {
            0 | 1 => {
                let lpn = self.lpn();
                self.write(lpn, (kind == 1).then_some(false));
            }
            2 => {
                let count = 1 + self.random.below(3) as u32;
                let lpn = self.lpn().min(self.plan.settings.logical_pages - count);
                self.trim(lpn, count);
            }
            3 => {
                let lpn = self.lpn();
                self.read(lpn);
                self.line(&format!("read {lpn}"), None);
            }
            4 => self.flush(),
            5 => {
                let done = self.drive.checkpoint(&mut self.driver);
                self.line("checkpoint", done.err().as_ref());
            }
            6 => {
                let done = self.drive.deduplicate_step(&mut self.driver);
                self.done("merge", done);
            }
            7 => {
                let plane = self.random.below(self.plan.geometry.planes().into()) as u32;
                let done = self.drive.collect_idle(plane, &mut self.driver);
                self.done(&format!("collect {plane}"), done);
            }
            _ => drop(self.background()),
        }
    }

    pub fn background(&mut self) -> bool {
        let done = self.work.step(Scope::All, &mut self.drive, true, &mut self.driver);
        let any = matches!(done, Ok(true));
        self.done("work", done);
        any
    }

    fn done(&mut self, what: &str, done: Result<bool, FtlError>) {
        match done {
            Ok(any) => self.line(&format!("{what} {any}"), None),
            Err(error) => self.line(what, Some(&error)),
        }
    }

    pub fn trim(&mut self, lpn: u32, count: u32) {
        let done = self.drive.trim_range(lpn, count, &mut self.driver);
        for lpn in lpn..lpn + count {
            // A trim that failed in its midst has trimmed a part.
            let gone = done.is_ok() || !self.drive.is_written(lpn);
            self.model[lpn as usize] = self.model[lpn as usize].filter(|_| !gone);
        }
        self.line(&format!("trim {lpn}*{count}"), done.err().as_ref());
    }

    fn read(&mut self, lpn: u32) {
        let held = self.drive.read(lpn, &mut self.driver);
        match held {
            Ok(held) => assert_eq!(held, self.model[lpn as usize], "page {lpn}"),
            Err(error) => self.told.say(&error.to_string()),
        }
    }

    fn read_all(&mut self) {
        for lpn in 0..self.plan.settings.logical_pages {
            self.read(lpn);
        }
        let before = self.text.len();
        self.line("", None);
        self.sum_up("read", before);
    }

    /// The power goes, with what protection does if it is there, and the drive is opened again.
    /// What it holds then is told, and is what it should hold from then on.
    pub fn power_cut(&mut self, protected: bool) {
        if protected {
            let done = self.drive.power_loss(&mut self.driver);
            self.line("the power goes", done.err().as_ref());
        }
        let none = Telling::new(IdentityNand::new(planes(1, 1, 64)), &Told::default());
        let mut nand = std::mem::replace(self.drive.nand(), none);
        nand.inner.restore();
        self.open(nand);
    }

    fn open(&mut self, nand: Telling) {
        let opened = Ftl::open(nand, teller(&self.plan, &self.told), self.plan.settings);
        let (drive, report) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.opens = false;
                return self.line("not opened", Some(&error));
            }
        };
        self.drive = drive;
        self.line(&format!("opened, {report:?}"), None);
        self.show("opened");
        let mut holds = String::new();
        for lpn in 0..self.plan.settings.logical_pages {
            let held = self.drive.read(lpn, &mut self.driver);
            self.model[lpn as usize] = held.as_ref().ok().copied().flatten();
            match held {
                Ok(Some(page)) => write!(holds, " {}", page.0).unwrap(),
                Ok(None) => holds.push_str(" -"),
                Err(_) => holds.push_str(" lost"),
            }
        }
        writeln!(self.text, "holds{holds}").unwrap();
        let before = self.text.len();
        self.line("", None);
        self.sum_up("read", before);
    }

    /// The power goes at a program or erase after so many more ones, in the midst of random steps.
    pub fn cut_in(&mut self, operations: u64, cut: Cut) {
        self.drive.nand().inner.cut_after(operations, cut);
        let before = self.text.len();
        while !self.drive.nand().inner.is_off() {
            self.step();
        }
        self.power_cut(false);
        self.sum_up(&format!("cut {cut:?} after {operations}"), before);
    }

    /// The pages of every so manieth logical page cannot be read any more.
    pub fn damage(&mut self, every: usize) {
        for lpn in (0..self.plan.settings.logical_pages).step_by(every) {
            if let Some(place) = self.drive.locate(lpn)
                && !self.drive.packing.has(lpn)
            {
                let page = self.drive.layout.page_of(place);
                self.drive.nand().unreadable.insert(page);
            }
        }
    }

    pub fn flush(&mut self) {
        let done = self.drive.flush(&mut self.driver);
        self.line("flush", done.err().as_ref());
    }

    /// Pages of the drive's own of these slots cannot be read any more.
    pub fn damage_own(&mut self, slots: impl Fn(u32) -> bool) {
        let own: Vec<(u32, u32)> = self.drive.own.all().filter(|&(slot, _)| slots(slot)).collect();
        for (_, place) in own {
            let page = self.drive.layout.page_of(place);
            self.drive.nand().unreadable.insert(page);
        }
    }

    /// As after endless random writes.
    pub fn precondition(&mut self) {
        let page = |lpn| Identity::of_number(1000 + u64::from(lpn));
        self.drive.precondition_steady(page).expect("empty");
        for (lpn, held) in (0..).zip(&mut self.model) {
            *held = Some(page(lpn));
        }
        self.line("preconditioned", None);
    }

    /// What the drive knows of itself.
    pub fn show(&mut self, when: &str) {
        self.drive.check_invariants();
        for lpn in 0..self.plan.settings.logical_pages {
            let held = self.drive.cache.holds(self.drive.own.slots().of(lpn));
            let known = held || self.drive.books.locate_known(lpn).is_none();
            assert!(known, "the entry of {lpn} is nowhere in DRAM");
        }
        let text = super::state::of(&self.drive);
        writeln!(self.text, "\n{when}: {text}\n").unwrap();
    }
}
