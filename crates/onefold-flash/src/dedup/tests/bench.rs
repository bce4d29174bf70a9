//! A policy with pages and without a drive: whatever it answers is done, and told.
//! Room: onefold-flash.
//! What it says is the same is the same, and what it never hears of is never shared.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use onefold_block::SplitMix64;
use onefold_code::Truncation;
use onefold_content::FingerprintKind;

use crate::dedup::{
    AnyPolicy, Fingerprinting, Identities, Look, Offline, Pair, Policy, Prepared, Site, Verdict,
};
use crate::nand::Identity;
use crate::op::Work;
use crate::testing::plane::plane;

/// Physical pages, of 8 in a block.
const PAGES: u32 = 25 * 8;
const LOGICAL: u32 = 120;

/// Fingerprints as of identities, or of a few bits only, so that most candidates are other content.
#[derive(Clone, Copy, Debug)]
pub struct Prints {
    pub weak: bool,
}

impl Prints {
    fn parity_of(self, page: &Identity) -> u64 {
        if self.weak { 1 + page.0 as u64 % 9 } else { Identities.plain_parity(page) }
    }
}

impl Fingerprinting<Identity> for Prints {
    fn light(&mut self, page: &Identity) -> u32 {
        if self.weak { page.0 as u32 % 9 } else { Identities.light(page) }
    }

    fn strong(&mut self, page: &Identity) -> u128 {
        page.0
    }

    fn parity(&mut self, _lpn: u32, page: &Identity) -> u64 {
        self.parity_of(page)
    }

    fn plain_parity(&mut self, page: &Identity) -> u64 {
        self.parity_of(page)
    }

    fn codewords(&mut self, page: &Identity, each: &mut dyn FnMut(u128)) {
        // Two of them, of which contents have some in common.
        each(page.0 % 7);
        each(page.0 / 2);
    }

    fn configure(&mut self, _truncation: Truncation, _strong: FingerprintKind) {}
}

/// What the policy may look at.
struct State {
    /// Content and tag of each live page.
    live: BTreeMap<u32, (Identity, u64)>,
    /// Where logical pages are.
    map: BTreeMap<u32, u32>,
    random: SplitMix64,
    /// What all answers about time come from.
    clock: u64,
    said: String,
}

impl State {
    fn drawn(&self, of: u64, below: u64) -> u64 {
        SplitMix64::new(self.clock << 20 | of).below(below)
    }
}

impl Look for State {
    fn is_live(&self, ppn: u32) -> bool {
        self.live.contains_key(&ppn)
    }

    fn is_idle(&self, ppn: u32) -> bool {
        self.drawn(u64::from(ppn % 4), 3) > 0
    }

    fn locate(&self, lpn: u32) -> Option<u32> {
        self.map.get(&lpn).copied()
    }

    fn read_ns(&self, ppn: u32) -> u64 {
        if self.is_idle(ppn) { 25_000 } else { self.drawn(9, 400_000) }
    }

    fn program_ns(&self) -> u64 {
        200_000 + self.drawn(10, 2) * self.drawn(11, 300_000)
    }

    fn work_ns(&self, _work: Work) -> u64 {
        self.drawn(12, 60) * 1000
    }

    fn work(&mut self, work: Work) {
        write!(self.said, " {work:?}").unwrap();
    }

    fn work_beside(&mut self, work: Work) {
        write!(self.said, " {work:?}~").unwrap();
    }
}

/// The bench.
pub struct Bench {
    policy: AnyPolicy<Prints>,
    state: State,
    text: String,
    /// Pages that were written anew, shared when written, and merged later.
    counts: [u64; 3],
}

impl Bench {
    /// A policy with these options.
    pub fn new(policy: &str, options: &str, prints: Prints) -> Self {
        let site = Site { hash_outruns_read: true, ..Site::new(plane(PAGES / 8, 8), None) };
        let table = options.parse().expect("TOML");
        let policy = AnyPolicy::new::<Identity>(policy, &table, &site, prints).expect("accepted");
        let state = State {
            live: BTreeMap::new(),
            map: BTreeMap::new(),
            random: SplitMix64::new(4),
            clock: 0,
            said: String::new(),
        };
        Self { policy, state, text: String::new(), counts: [0; 3] }
    }

    fn policy(&mut self) -> &mut impl Policy<Identity> {
        &mut self.policy
    }

    fn say(&mut self, what: &str) {
        writeln!(self.state.said, "{what}").unwrap();
    }

    fn free_page(&mut self) -> u32 {
        let mut ppn = self.state.random.below(PAGES.into()) as u32;
        while self.state.is_live(ppn) {
            ppn = (ppn + 1) % PAGES;
        }
        ppn
    }

    /// Whoever was at `ppn` leaves it.
    fn leave(&mut self, lpn: u32) {
        let Some(ppn) = self.state.map.remove(&lpn) else { return };
        if !self.state.map.values().any(|&other| other == ppn) {
            self.state.live.remove(&ppn);
            self.policy().died(ppn);
        }
    }

    fn write(&mut self, lpn: u32, page: Identity, asked: Option<bool>) {
        let mut prepared = Prepared::asked(asked);
        while let Some(work) = self.policy.prepare(lpn, &page, &mut prepared, &mut self.state) {
            write!(self.state.said, " {work:?}!").unwrap();
            self.state.clock += 1;
        }
        let verdict = self.policy.decide(lpn, &page, prepared, &mut self.state);
        self.say(&format!(" write {lpn}={}: {verdict:?}", page.0));
        let (tag, same) = match verdict {
            Verdict::Program { tag, .. } => (tag, None),
            Verdict::Share { tag, same } => {
                let (held, _) = self.state.live[&same.ppn()];
                assert_eq!(held, page, "page {} is not the same", same.ppn());
                (tag, Some(same.ppn()))
            }
            Verdict::Verify { tag, candidate, .. } => {
                let equal = self.state.live[&candidate].0 == page;
                self.policy().compared(candidate, equal);
                (tag, equal.then_some(candidate))
            }
        };
        self.counts[usize::from(same.is_some())] += 1;
        let ppn = same.unwrap_or_else(|| {
            let ppn = self.free_page();
            self.state.live.insert(ppn, (page, tag));
            self.policy().stored(ppn, tag);
            ppn
        });
        self.leave(lpn);
        self.state.map.insert(lpn, ppn);
    }

    fn moves(&mut self) {
        let at = self.state.random.below(self.state.live.len().max(1) as u64) as usize;
        let Some((&from, &(page, tag))) = self.state.live.iter().nth(at) else { return };
        let to = self.free_page();
        self.state.live.remove(&from);
        self.state.live.insert(to, (page, tag));
        self.state.map.values_mut().filter(|ppn| **ppn == from).for_each(|ppn| *ppn = to);
        self.policy().moved(from, to, tag);
    }

    /// The answer is whether there was anything to do.
    fn idle(&mut self) -> bool {
        let next = Policy::<Identity>::next_offline(&mut self.policy, &mut self.state);
        self.say(&format!(" idle: {next:?}"));
        let (duplicate, original) = match next {
            None => return false,
            Some(Offline::Scan { ppn }) => {
                let (page, _) = self.state.live[&ppn];
                self.policy.scanned(ppn, &page, &mut self.state);
                return true;
            }
            Some(Offline::ReadTag { ppn }) => {
                let (_, tag) = self.state.live[&ppn];
                self.policy().tag_read(ppn, tag);
                return true;
            }
            Some(Offline::Compare(Pair { duplicate, original })) => (duplicate, original),
            Some(Offline::Merge { duplicate, original }) => {
                let pages = [duplicate, original.ppn()].map(|ppn| self.state.live[&ppn].0);
                assert_eq!(pages[0], pages[1], "what is merged is the same");
                (duplicate, original.ppn())
            }
        };
        let equal = self.state.live[&duplicate].0 == self.state.live[&original].0;
        if equal {
            self.counts[2] += 1;
            let move_all = self.state.map.values_mut().filter(|ppn| **ppn == duplicate);
            move_all.for_each(|ppn| *ppn = original);
            self.state.live.remove(&duplicate);
            self.policy().died(duplicate);
        }
        self.policy().settled(Pair { duplicate, original }, equal);
        true
    }

    fn step(&mut self) {
        self.state.clock += 1;
        let hot = self.state.random.chance(2, 3);
        let lpn = self.state.random.below(if hot { 20 } else { LOGICAL.into() }) as u32;
        match self.state.random.below(16) {
            0..=8 => {
                let few = self.state.random.chance(1, 2);
                let of = if few { 12 } else { 300 };
                let page = Identity(1 + u128::from(self.state.random.below(of)));
                let asked = (self.state.random.below(20) == 0).then_some(true);
                self.write(lpn, page, asked);
            }
            9 => self.leave(lpn),
            10 | 11 => self.moves(),
            _ => {
                self.idle();
            }
        }
    }

    /// So many steps, told one by one.
    pub fn loudly(&mut self, steps: u32) {
        (0..steps).for_each(|_| self.step());
        let said = std::mem::take(&mut self.state.said);
        self.text += &said;
    }

    /// So many steps, told as a sum for every 100 of them.
    pub fn quietly(&mut self, steps: u32) {
        for _ in (0..steps).step_by(100) {
            (0..100).for_each(|_| self.step());
            self.sum_up("100 steps");
        }
    }

    fn sum_up(&mut self, what: &str) {
        let said = std::mem::take(&mut self.state.said);
        let sum = crc32fast::hash(said.as_bytes());
        writeln!(self.text, "{what}: {sum:08x} {:?}", self.counts).unwrap();
    }

    /// Idle moments until there is nothing to do.
    pub fn rest(&mut self) {
        let mut steps = 0;
        while self.idle() {
            steps += 1;
            assert!(steps < 20_000, "it ends");
        }
        self.sum_up(&format!("{steps} idle moments"));
    }

    /// The power goes: another policy is told what is found, and nothing else.
    pub fn restart(&mut self, policy: &str, options: &str, prints: Prints) {
        let fresh = Self::new(policy, options, prints);
        self.policy = fresh.policy;
        for (ppn, (_, tag)) in self.state.live.clone() {
            self.policy().recovered(ppn, tag);
        }
        self.text.push_str("started again\n");
    }

    /// What it says of itself.
    pub fn show(&mut self) {
        let policy = &self.policy;
        let (dram, report) = (Policy::<Identity>::dram(policy), Policy::<Identity>::report(policy));
        writeln!(self.text, "{dram:?}\n{report:?}").unwrap();
    }

    pub fn text(self) -> String {
        self.text
    }
}
