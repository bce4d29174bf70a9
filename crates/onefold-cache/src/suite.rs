//! A hostile suite: reads whose popularity moves, repeats, sweeps or never comes back.
//! Room: onefold-cache.   In: [`Family`].   Out: [`Trace`].
//! Every family is one way in which a policy that counts, or one that looks at recency alone, is
//! wrong. Half of them ([`tuning`]) is for choosing settings, of ours and of the rivals; the other
//! half ([`report`]) has families of its own and other numbers for those that are in both, and
//! nothing is ever chosen on it.
//! Invariant: same family and seed, same trace.

mod informed;
pub mod rivals;

use onefold_sim::{RandomStream, RandomStreams, Zipf};

use informed::Informed;

pub use informed::MostExpected;

use crate::policy::Access;
use crate::trace::Trace;
use crate::workload::ratio;

/// Bytes of every object.
const EACH: u32 = 1 << 20;

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// Zipf with this exponent, and nothing ever changes.
    Still(f64),
    /// The newest object is the most popular, Zipf by age; objects come all the time.
    Newest(f64),
    /// Zipf; one after the other the least popular object becomes the most popular one, this many
    /// times round in all.
    Rotation(f64, f64),
    /// Zipf; all ranks move on by a quarter of the objects, this many times.
    Jumps(f64, u32),
    /// Zipf; ranks change places two by two, until each was moved this many times.
    Wander(f64, f64),
    /// A loop over all objects, with this share of Zipf (1.0) reads of the first tenth between.
    Loop(f64),
    /// Zipf, and this share of all reads is of objects that are read once.
    OneHit(f64, f64),
    /// Zipf, with scans over objects that are read in scans alone, this share of all reads.
    Scans(f64, f64),
    /// Two populations by turns, so many days of each, with a tenth of the reads from both.
    DayAndNight(f64, u32),
    /// Reads come back at distances in the LRU stack that are distributed as a Pareto law with
    /// this exponent: recency is all that can be known.
    Stack(f64),
    /// Like a volume: two fifths of the reads are sequential runs of 64 that are read twice, two
    /// fifths are of what was read lately, and a fifth is Zipf (1.0) on a fifth of the objects,
    /// which moves on slowly.
    Volume,
}

/// A pattern, how much of it, and the size of the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Family {
    /// For tables.
    pub name: &'static str,
    /// What is read.
    pub pattern: Pattern,
    /// Objects there are.
    pub objects: u64,
    /// Reads, per object.
    pub reads: f64,
    /// Size of the cache as a share of the objects.
    pub size: f64,
}

const fn family(
    name: &'static str,
    pattern: Pattern,
    objects: u64,
    reads: f64,
    size: f64,
) -> Family {
    Family { name, pattern, objects, reads, size }
}

/// Families on which settings may be chosen.
pub fn tuning() -> Vec<Family> {
    vec![
        family("still .7", Pattern::Still(0.7), 4_000, 32.0, 0.2),
        family("newest .8, 20 %", Pattern::Newest(0.8), 4_000, 32.0, 0.2),
        family("newest .8, 60 %", Pattern::Newest(0.8), 2_000, 16.0, 0.6),
        family("rotation, 60 %", Pattern::Rotation(0.8, 1.0), 4_000, 32.0, 0.6),
        family("rotation, 10 %", Pattern::Rotation(0.8, 0.5), 4_000, 32.0, 0.1),
        family("4 jumps", Pattern::Jumps(0.9, 4), 4_000, 32.0, 0.2),
        family("wander", Pattern::Wander(0.9, 4.0), 4_000, 32.0, 0.1),
        family("loop", Pattern::Loop(0.3), 4_000, 32.0, 0.3),
        family("one hit", Pattern::OneHit(0.8, 0.5), 4_000, 32.0, 0.1),
        family("scans", Pattern::Scans(0.8, 0.4), 4_000, 32.0, 0.2),
        family("3 days", Pattern::DayAndNight(0.8, 3), 4_000, 48.0, 0.2),
        family("stack", Pattern::Stack(0.6), 4_000, 16.0, 0.1),
        family("volume", Pattern::Volume, 4_000, 16.0, 0.1),
        family("tiny", Pattern::Still(0.6), 500, 32.0, 0.2),
        family("tiny, wander", Pattern::Wander(0.8, 4.0), 1_000, 32.0, 0.1),
    ]
}

/// Families on which nothing is chosen.
pub fn report() -> Vec<Family> {
    vec![
        family("still .5", Pattern::Still(0.5), 8_000, 32.5, 0.2),
        family("still .9", Pattern::Still(0.9), 100_000, 16.0, 0.05),
        family("newest .7, 20 %", Pattern::Newest(0.7), 8_000, 32.5, 0.2),
        family("newest 1.0, 60 %", Pattern::Newest(1.0), 8_000, 16.0, 0.6),
        family("newest .9, 5 %", Pattern::Newest(0.9), 100_000, 8.0, 0.05),
        family("rotation, 60 %", Pattern::Rotation(0.7, 2.0), 8_000, 32.5, 0.6),
        family("rotation, 20 %", Pattern::Rotation(0.9, 0.25), 8_000, 32.5, 0.2),
        family("2 jumps", Pattern::Jumps(0.7, 2), 8_000, 32.5, 0.1),
        family("12 jumps", Pattern::Jumps(0.9, 12), 8_000, 32.5, 0.3),
        family("wander", Pattern::Wander(0.8, 2.0), 8_000, 32.5, 0.2),
        family("loop alone", Pattern::Loop(0.0), 8_000, 16.0, 0.5),
        family("loop and Zipf", Pattern::Loop(0.5), 8_000, 24.0, 0.2),
        family("one hit", Pattern::OneHit(0.9, 0.3), 8_000, 32.5, 0.05),
        family("scans", Pattern::Scans(0.7, 0.2), 8_000, 32.5, 0.1),
        family("7 days", Pattern::DayAndNight(0.9, 7), 8_000, 56.0, 0.2),
        family("stack", Pattern::Stack(0.4), 8_000, 16.0, 0.2),
        family("volume", Pattern::Volume, 20_000, 12.0, 0.2),
        family("194 objects", Pattern::Still(0.53), 970, 32.5, 0.2),
        family("tiny, newest", Pattern::Newest(0.8), 500, 16.0, 0.2),
        family("a million", Pattern::Wander(0.9, 1.0), 1_000_000, 8.0, 0.1),
    ]
}

fn zipf(objects: u64, exponent: f64) -> Zipf {
    Zipf::new(objects.max(1), ratio(exponent)).expect("exponents of the suite are within range")
}

struct Reads {
    trace: Trace,
    random: RandomStream,
    /// Which object has which rank.
    of_rank: Vec<u64>,
    /// Numbers of objects given out.
    known: u64,
    /// What could be expected of a policy that is told the law, if somebody asks.
    informed: Option<Informed>,
}

impl Reads {
    fn read(&mut self, key: u64) {
        self.known = self.known.max(key + 1);
        self.trace.push(Access { key, size: EACH }, EACH);
        self.trace.end_file();
    }

    fn new_key(&mut self) -> u64 {
        self.known += 1;
        self.known - 1
    }

    fn chance(&mut self, share: f64) -> bool {
        self.random.chance(ratio(share))
    }

    /// Tells whoever asks for what can be expected.
    fn tell(&mut self, what: impl FnOnce(&mut Informed, &[u64])) {
        if let Some(informed) = &mut self.informed {
            what(informed, &self.of_rank);
        }
    }

    /// From here on this share of the reads is drawn by this law of the ranks.
    fn by_rank(&mut self, zipf: &Zipf, share: f64) {
        self.tell(|informed, of_rank| {
            let chances = zipf.probabilities().into_iter().map(|chance| chance * share);
            informed.ranks(chances.collect(), |rank| of_rank[rank]);
        });
    }

    /// A read by rank.
    fn draw(&mut self, zipf: &Zipf) {
        let rank = zipf.sample(&mut self.random) as usize;
        self.tell(|informed, of_rank| informed.drawn(rank, |rank| of_rank[rank]));
        self.read(self.of_rank[rank]);
    }
}

impl Family {
    /// The family with so many times fewer objects, but no fewer than 500 where it has as many.
    #[must_use]
    pub fn shrunk(self, times: u64) -> Self {
        let objects = (self.objects / times.max(1)).max(self.objects.min(500));
        Self { objects, ..self }
    }

    /// The reads, from this seed.
    pub fn trace(&self, seed: u64) -> Trace {
        self.reads(seed, None).trace
    }

    /// What a cache of so many objects can expect of these reads at most if it knows, at each
    /// moment, the law by which the next one is drawn; nothing where that law is too involved.
    pub fn most_expected(&self, seed: u64, cached: u64) -> Option<MostExpected> {
        if matches!(self.pattern, Pattern::Loop(_) | Pattern::Volume) {
            return None;
        }
        let informed = self.reads(seed, Some(Informed::new(cached as usize))).informed?;
        Some(informed.most_expected())
    }

    fn reads(&self, seed: u64, informed: Option<Informed>) -> Reads {
        let mut random = RandomStreams::new(seed).stream("cache.suite");
        let mut of_rank: Vec<u64> = (0..self.objects).collect();
        random.shuffle(&mut of_rank);
        let total = (self.objects as f64 * self.reads) as u64;
        let known = self.objects;
        let mut reads = Reads { trace: Trace::default(), random, of_rank, known, informed };
        self.run(&mut reads, total);
        reads.trace.references = vec![0; reads.known as usize];
        reads.trace.data_bytes = self.objects * u64::from(EACH);
        reads
    }

    fn run(&self, reads: &mut Reads, total: u64) {
        match self.pattern {
            Pattern::Still(exponent) => self.ranked(reads, exponent, total, |_, _| {}),
            Pattern::Newest(exponent) => self.newest(reads, exponent, total),
            Pattern::Rotation(exponent, rounds) => self.rotation(reads, exponent, rounds, total),
            Pattern::Jumps(exponent, jumps) => {
                let every = total / (u64::from(jumps) + 1) + 1;
                self.ranked(reads, exponent, total, |reads, at| {
                    if at > 0 && at.is_multiple_of(every) {
                        let quarter = reads.of_rank.len() / 4;
                        reads.of_rank.rotate_right(quarter);
                        reads.tell(|informed, of_rank| informed.moved(|rank| of_rank[rank]));
                    }
                });
            }
            Pattern::Wander(exponent, moves) => {
                let every = ((2 * total) as f64 / (moves * self.objects as f64)).max(1.0) as u64;
                self.ranked(reads, exponent, total, |reads, at| {
                    if at.is_multiple_of(every) {
                        let count = reads.of_rank.len() as u64;
                        let (a, b) = (reads.random.below(count), reads.random.below(count));
                        let ranks = [a as usize, b as usize];
                        reads.of_rank.swap(ranks[0], ranks[1]);
                        reads.tell(|informed, of_rank| {
                            informed.swapped(ranks, |rank| of_rank[rank]);
                        });
                    }
                });
            }
            Pattern::Loop(share) => self.looped(reads, share, total),
            Pattern::OneHit(exponent, share) => {
                let zipf = zipf(self.objects, exponent);
                reads.by_rank(&zipf, 1.0 - share);
                for _ in 0..total {
                    reads.tell(|informed, _| informed.expect());
                    if reads.chance(share) {
                        let key = reads.new_key();
                        reads.read(key);
                    } else {
                        reads.draw(&zipf);
                    }
                }
            }
            Pattern::Scans(exponent, share) => self.scans(reads, exponent, share, total),
            Pattern::DayAndNight(exponent, days) => {
                self.day_and_night(reads, exponent, days, total);
            }
            Pattern::Stack(exponent) => Self::stack(reads, exponent, total, self.objects),
            Pattern::Volume => self.volume(reads, total),
        }
    }

    fn ranked(
        &self,
        reads: &mut Reads,
        exponent: f64,
        total: u64,
        mut change: impl FnMut(&mut Reads, u64),
    ) {
        let zipf = zipf(self.objects, exponent);
        reads.by_rank(&zipf, 1.0);
        for at in 0..total {
            change(reads, at);
            reads.tell(|informed, _| informed.expect());
            reads.draw(&zipf);
        }
    }

    fn day_and_night(&self, reads: &mut Reads, exponent: f64, days: u32, total: u64) {
        let turn = total / (2 * u64::from(days)) + 1;
        let half = self.objects / 2;
        let zipf = zipf(half, exponent);
        // Both populations in one order: whose turn it is comes first by 19 to 1.
        let chances = zipf.probabilities();
        let both = (0..2).flat_map(|from| (0..half).map(move |rank| (from, rank)));
        let chance =
            |&(from, rank): &(u64, u64)| chances[rank as usize] * [0.95, 0.05][from as usize];
        let mut both: Vec<(u64, u64)> = both.collect();
        both.sort_by(|a, b| chance(b).total_cmp(&chance(a)));
        let mut place_of = vec![0; 2 * half as usize];
        for (place, &(from, rank)) in both.iter().enumerate() {
            place_of[(from * half + rank) as usize] = place;
        }
        for at in 0..total {
            let now = (at / turn) % 2;
            let key_of = |of_rank: &[u64], place: usize| {
                let (from, rank) = both[place];
                of_rank[((from + now) % 2 * half + rank) as usize]
            };
            reads.tell(|informed, of_rank| {
                if at % turn == 0 {
                    let chances = both.iter().map(chance).collect();
                    informed.ranks(chances, |place| key_of(of_rank, place));
                }
                informed.expect();
            });
            let rank = zipf.sample(&mut reads.random);
            let from = if reads.chance(0.1) { reads.random.below(2) } else { now };
            let place = place_of[((from + now) % 2 * half + rank) as usize];
            reads.tell(|informed, of_rank| {
                informed.drawn(place, |place| key_of(of_rank, place));
            });
            reads.read(reads.of_rank[(from * half + rank) as usize]);
        }
    }

    fn rotation(&self, reads: &mut Reads, exponent: f64, rounds: f64, total: u64) {
        let every = (total as f64 / (rounds * self.objects as f64)).max(1.0) as u64;
        let (zipf, objects) = (zipf(self.objects, exponent), self.objects);
        for at in 0..total {
            // Turned by one place at a time; an object is found from where the turning stands.
            let turned = at / every % objects;
            let place_of = |rank: u64| ((rank + objects - turned) % objects) as usize;
            if at == 0 {
                reads.by_rank(&zipf, 1.0);
            }
            reads.tell(|informed, of_rank| {
                if at % every == 0 {
                    informed.moved(|rank| of_rank[place_of(rank as u64)]);
                }
                informed.expect();
            });
            let rank = zipf.sample(&mut reads.random);
            reads.tell(|informed, of_rank| {
                informed.drawn(rank as usize, |rank| of_rank[place_of(rank as u64)]);
            });
            reads.read(reads.of_rank[place_of(rank)]);
        }
    }

    fn looped(&self, reads: &mut Reads, share: f64, total: u64) {
        let hot = zipf(self.objects / 10, 1.0);
        let mut next = 0;
        for _ in 0..total {
            if share > 0.0 && reads.chance(share) {
                let rank = hot.sample(&mut reads.random);
                reads.read(reads.of_rank[rank as usize]);
            } else {
                reads.read(next);
                next = (next + 1) % self.objects;
            }
        }
    }

    fn newest(&self, reads: &mut Reads, exponent: f64, total: u64) {
        // A quarter of the objects is there at the start, the others come at one rate.
        let first = (self.objects / 4).max(1);
        let zipf = zipf(self.objects, exponent);
        let mut at = 0;
        // Of all ages, those that exist, and what the others are.
        let (mut oldest, mut exist) = (0, 0.0);
        let chances = zipf.probabilities();
        while at < total {
            let there = first + (self.objects - first) * at / total;
            let key_of = |age: usize| there - 1 - age as u64;
            if there > oldest {
                exist += chances[oldest as usize..there as usize].iter().sum::<f64>();
                oldest = there;
                reads.tell(|informed, _| {
                    let there = chances[..there as usize].iter().map(|chance| chance / exist);
                    informed.ranks_so_far(there, key_of);
                });
            }
            let age = zipf.sample(&mut reads.random);
            if age < there {
                reads.tell(|informed, _| {
                    informed.expect();
                    informed.drawn(age as usize, key_of);
                });
                reads.read(there - 1 - age);
                at += 1;
            }
        }
    }

    fn scans(&self, reads: &mut Reads, exponent: f64, share: f64, total: u64) {
        let zipf = zipf(self.objects, exponent);
        // Scans are as long as the objects are many, over four times as many others.
        let length = self.objects;
        let between = (length as f64 * (1.0 - share) / share) as u64;
        let (mut at, mut cursor) = (0, 0);
        reads.by_rank(&zipf, 1.0);
        while at < total {
            for _ in 0..between {
                reads.tell(|informed, _| informed.expect());
                reads.draw(&zipf);
            }
            for _ in 0..length {
                reads.tell(|informed, _| informed.known(self.objects + cursor));
                reads.read(self.objects + cursor);
                cursor = (cursor + 1) % (4 * self.objects);
            }
            at += between + length;
        }
    }

    /// The stack is a list with the latest at the end; distances are cut at its length.
    fn stack(reads: &mut Reads, exponent: f64, total: u64, objects: u64) {
        let mut stack: Vec<u64> = Vec::new();
        let law = zipf(objects, 1.0 + exponent);
        // The most probable are those read last.
        let chances = law.probabilities();
        reads.tell(|informed, _| informed.distances(&chances));
        for at in 0..total {
            let growing = (stack.len() as u64) < objects;
            reads.tell(|informed, _| {
                let there = if growing && at % 8 == 0 { 0 } else { stack.len() };
                informed.expect_within(there);
            });
            // One in eight is new until all are there.
            let distance = law.sample(&mut reads.random) as usize;
            let new = growing && (at % 8 == 0 || distance >= stack.len());
            let key = if new {
                stack.len() as u64
            } else {
                let place = stack.len() - 1 - distance.min(stack.len() - 1);
                stack.remove(place)
            };
            stack.push(key);
            reads.read(key);
        }
    }

    fn volume(&self, reads: &mut Reads, total: u64) {
        let hot = self.objects / 5;
        let zipf = zipf(hot, 1.0);
        let lately = zipf_of_recent();
        let mut recent: Vec<u64> = Vec::new();
        let mut at = 0;
        while at < total {
            match reads.random.below(3 * 64) {
                0 => {
                    let from = reads.random.below(self.objects - 64);
                    for pass in 0..2 * 64 {
                        reads.read(from + pass % 64);
                    }
                    at += 128;
                    continue;
                }
                1..65 => {
                    // The hot fifth moves on by its own length over the run.
                    let moved = hot * at / total;
                    let rank = zipf.sample(&mut reads.random);
                    reads.read((reads.of_rank[rank as usize] + moved) % self.objects);
                }
                _ if recent.is_empty() => continue,
                _ => {
                    let back = lately.sample(&mut reads.random) as usize;
                    let place = recent.len() - 1 - back.min(recent.len() - 1);
                    reads.read(recent[place]);
                }
            }
            let last = reads.trace.requests.last().map_or(0, |access| access.key);
            recent.push(last);
            at += 1;
        }
    }
}

fn zipf_of_recent() -> Zipf {
    zipf(1 << 12, 0.9)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn families_are_as_long_as_they_say_and_come_out_the_same() {
        for family in tuning() {
            let trace = family.trace(3);
            let asked = (family.objects as f64 * family.reads) as usize;
            // Scans and runs are not cut.
            let most = asked + 3 * family.objects as usize;
            assert!((asked..=most).contains(&trace.requests.len()), "{}", family.name);
            assert_eq!(trace.data_bytes, family.objects << 20, "{}", family.name);
            assert!(trace.requests.iter().all(|read| read.key < trace.containers() as u64));
            assert_eq!(trace, family.trace(3), "{}", family.name);
        }
    }

    #[test]
    fn nothing_of_the_report_was_tuned_on() {
        let tuned: Vec<Family> = tuning();
        for family in report() {
            let same = |other: &&Family| {
                (other.pattern, other.objects) == (family.pattern, family.objects)
            };
            assert_eq!(tuned.iter().find(same), None, "{}", family.name);
        }
        let names = |families: Vec<Family>| families.iter().map(|f| f.name).collect::<Vec<_>>();
        for names in [names(tuning()), names(report())] {
            assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        }
    }

    /// The hits of a cache that holds what is worth most of what was read, whatever it writes.
    fn told(reads: &[Access], most: usize, worth: impl Fn(u64, usize) -> u64) -> u64 {
        let (mut cached, mut worths) = (BTreeSet::new(), std::collections::BTreeMap::new());
        let mut hits = 0;
        for (at, read) in reads.iter().enumerate() {
            let worth = worth(read.key, at);
            let before = worths.insert(read.key, worth).unwrap_or(worth);
            hits += u64::from(cached.remove(&(before, read.key)));
            cached.insert((worth, read.key));
            if cached.len() > most {
                cached.pop_first();
            }
        }
        hits
    }

    #[test]
    fn a_policy_that_is_told_what_is_popular_hits_as_often_as_can_be_expected() {
        for pattern in [
            Pattern::Still(0.5),
            Pattern::Still(0.9),
            Pattern::OneHit(0.8, 0.3),
            Pattern::Scans(0.7, 0.2),
            Pattern::Newest(0.7),
            Pattern::Newest(1.0),
            Pattern::Stack(0.5),
        ] {
            for (seed, size) in [(1, 0.05), (2, 0.2), (3, 0.6)] {
                let family = Family { name: "", pattern, objects: 2_000, reads: 16.0, size };
                let most = (2_000.0 * size) as usize;
                let reads = family.reads(seed, None);
                let rank = |key: u64| reads.of_rank.iter().position(|&other| other == key);
                let rank: Vec<usize> = (0..reads.known).map(|k| rank(k).unwrap_or(9_999)).collect();
                let hits = told(&reads.trace.requests, most, |key, at| match pattern {
                    Pattern::Newest(_) => key,
                    Pattern::Stack(_) => at as u64,
                    _ => 10_000 - rank[key as usize] as u64,
                });
                let expected = family.most_expected(seed, most as u64).unwrap();
                let off = hits as f64 - expected.hits;
                let what = format!("{hits} of {expected:?}: {pattern:?} {size}");
                assert!(off.abs() < 4.0 * expected.deviation, "{what}");
                // Half a point at most.
                assert!(expected.deviation < 0.005 * reads.trace.requests.len() as f64, "{what}");
            }
        }
    }

    fn popular(reads: &[Access]) -> BTreeSet<u64> {
        let mut counts = std::collections::BTreeMap::<u64, u32>::new();
        for read in reads {
            *counts.entry(read.key).or_default() += 1;
        }
        let mut keys: Vec<(u32, u64)> =
            counts.into_iter().map(|(key, count)| (count, key)).collect();
        keys.sort_unstable();
        keys.iter().rev().take(50).map(|&(_, key)| key).collect()
    }

    #[test]
    fn popularity_moves_where_it_should_and_only_there() {
        let of = |pattern| {
            let family = Family { name: "", pattern, objects: 2_000, reads: 64.0, size: 0.1 };
            let reads = family.trace(1).requests;
            let eighth = reads.len() / 8;
            let (first, last) =
                (popular(&reads[..eighth]), popular(&reads[reads.len() - eighth..]));
            first.intersection(&last).count()
        };
        assert!(of(Pattern::Still(1.0)) > 35);
        for moving in [
            Pattern::Newest(1.0),
            Pattern::Rotation(1.0, 0.5),
            Pattern::Jumps(1.0, 1),
            Pattern::Wander(1.0, 4.0),
            Pattern::DayAndNight(1.0, 1),
        ] {
            let stayed = of(moving);
            assert!(stayed < 20, "{moving:?}: {stayed} of 50 stayed");
        }
    }
}
