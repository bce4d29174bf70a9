//! The most hits that a budget of writes allows, whatever decides about them.
//! Room: onefold-cache.   In: [`Stays`], [`Limits`].   Out: a bound on the hits.
//! Which caches it covers: an object comes in only when it is read, and is a hit as long as it
//! stays. At most [`Limits::objects`] are in at any time, of which [`Limits::memory`] may lie in
//! memory. Coming to flash costs a write, whether from outside or from memory; lying in memory
//! costs none, and a reader may be served from there. Nobody has to let anything in.
//! How: each object's time falls into stays, each so many reads long and worth so many hits to who
//! keeps the object throughout. Each read of place has a price, one in memory another on top, and
//! each write a third. At given prices every object has a best course of its own, by dynamic
//! programming over its stays: be out, in memory or on flash. What these earn in all, plus the
//! prices of all that there is, is no less than the hits of any cache within the limits, whatever
//! the prices: its objects earned no more than that, and it used no more than there is. The prices
//! that make it least are looked for, and whatever is found is a bound. The limits on place hold
//! in the mean over time alone there, so that it is above what can be reached where the reads
//! change their kind.
//! Source: stays from read to read as in [foo-18]; the search as in [ellipsoid-81].
//! Cost: a look at every stay for each of at most `ROUNDS_MAX` trials of prices; 8 bytes a stay.

use crate::policy::Access;

/// Prices that are tried at most.
const ROUNDS_MAX: usize = 400;
/// Share of the reads by which the least of all bounds may lie below the one that is returned.
const NEAR: f64 = 1e-4;
/// Prices: of a place, of one in memory, of a write.
const PRICES: usize = 3;

/// What a cache may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Objects that are in at a time.
    pub objects: u64,
    /// Of them in memory.
    pub memory: u64,
    /// Objects written to flash in all.
    pub writes: u64,
}

/// A time through which an object may be kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stay {
    /// Twice its reads, plus one if it begins with a read of the object.
    reads_and_begin: u32,
    hits: f32,
}

impl Stay {
    /// So many reads, at most 2^31 - 1, with so many hits; `after_read` if the object may come in
    /// at its beginning.
    pub fn new(reads: u32, hits: f64, after_read: bool) -> Self {
        // Rounded up, if at all.
        let near = hits as f32;
        let hits = if f64::from(near) < hits { near.next_up() } else { near };
        Self { reads_and_begin: reads << 1 | u32::from(after_read), hits }
    }

    const fn reads(self) -> u64 {
        (self.reads_and_begin >> 1) as u64
    }

    const fn is_after_read(self) -> bool {
        self.reads_and_begin & 1 == 1
    }
}

/// The stays of all objects, each object's in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Stays {
    all: Vec<Stay>,
    /// Where in `all` those of each object end.
    ends: Vec<usize>,
    /// Reads for which there is place.
    reads: u64,
}

/// What is earned and used.
#[derive(Clone, Copy, Debug)]
struct Course {
    /// Hits less what was paid.
    worth: f64,
    /// Reads for which a place was taken, those for which one in memory was, and writes.
    used: [u64; PRICES],
}

impl Course {
    const NOTHING: Self = Self { worth: 0.0, used: [0; PRICES] };
    const IMPOSSIBLE: Self = Self { worth: f64::NEG_INFINITY, used: [0; PRICES] };

    fn or(self, other: Self) -> Self {
        if other.worth > self.worth { other } else { self }
    }

    /// So much more was used, at these prices.
    fn and(mut self, more: [u64; PRICES], prices: &[f64; PRICES]) -> Self {
        for (which, more) in more.into_iter().enumerate() {
            self.worth -= prices[which] * more as f64;
            self.used[which] += more;
        }
        self
    }

    fn with(mut self, hits: f32) -> Self {
        self.worth += f64::from(hits);
        self
    }
}

/// The best course of one object at these prices.
fn best(stays: &[Stay], prices: &[f64; PRICES]) -> Course {
    let (mut out, mut memory, mut flash) =
        (Course::NOTHING, Course::IMPOSSIBLE, Course::IMPOSSIBLE);
    for &stay in stays {
        let reads = stay.reads();
        let unwritten = if stay.is_after_read() { out.or(memory) } else { memory };
        let written = flash.or(unwritten.and([0, 0, 1], prices));
        out = out.or(memory).or(flash);
        memory = unwritten.and([reads, reads, 0], prices).with(stay.hits);
        flash = written.and([reads, 0, 0], prices).with(stay.hits);
    }
    out.or(memory).or(flash)
}

impl Stays {
    /// For whoever knows all of these reads: an object that is kept from one read to the next is
    /// one hit.
    pub fn of_known(reads: &[Access]) -> Self {
        let objects = reads.iter().map(|read| read.key as usize + 1).max().unwrap_or(0);
        let mut counts = vec![0; objects];
        for read in reads {
            counts[read.key as usize] += 1;
        }
        let mut total = 0;
        let mut ends: Vec<usize> = Vec::with_capacity(objects);
        for count in counts {
            // So far where they begin.
            ends.push(total);
            total += usize::max(count, 1) - 1;
        }
        let mut stays = vec![Stay::new(0, 0.0, true); total];
        let mut last: Vec<Option<u32>> = vec![None; objects];
        for (at, read) in reads.iter().enumerate() {
            let key = read.key as usize;
            if let Some(before) = last[key].replace(at as u32) {
                stays[ends[key]] = Stay::new(at as u32 - before, 1.0, true);
                ends[key] += 1;
            }
        }
        Self { all: stays, ends, reads: reads.len() as u64 }
    }

    /// These of each object, with place for so many reads.
    pub fn of_objects(objects: impl IntoIterator<Item = Vec<Stay>>, reads: u64) -> Self {
        let (mut stays, mut ends) = (Vec::new(), Vec::new());
        for object in objects {
            stays.extend(object);
            ends.push(stays.len());
        }
        Self { all: stays, ends, reads }
    }

    fn earned(&self, prices: &[f64; PRICES]) -> Course {
        let mut from = 0;
        let mut all = Course::NOTHING;
        for &end in &self.ends {
            let best = best(&self.all[from..end], prices);
            from = end;
            all.worth += best.worth;
            for (all, used) in all.used.iter_mut().zip(best.used) {
                *all += used;
            }
        }
        all
    }

    /// No cache within these limits has more hits than this.
    pub fn most_hits(&self, limits: Limits) -> f64 {
        let reads = self.reads as f64;
        let place = |objects: u64| objects as f64 * reads;
        let there_is = [place(limits.objects), place(limits.memory), limits.writes as f64];
        // In these units all that there is of one kind is as dear as a hit in every read, and no
        // price is higher at the least bound: with all of them at 0 it is no more than that.
        let units = there_is.map(|there_is| reads / there_is.max(1.0));
        let mut search = Ellipsoid::around_the_unit_cube();
        let mut least = reads;
        for _ in 0..ROUNDS_MAX {
            if let Some(which) = search.centre.iter().position(|&price| price < 0.0) {
                let mut up = [0.0; PRICES];
                up[which] = -1.0;
                if !search.cut(up, -search.centre[which]) {
                    break;
                }
                continue;
            }
            let prices = std::array::from_fn(|which| search.centre[which] * units[which]);
            let earned = self.earned(&prices);
            let bound = (0..PRICES).map(|which| prices[which] * there_is[which]).sum::<f64>()
                + earned.worth;
            least = least.min(bound);
            // By how much the bound grows with each price, as a share of the reads.
            let slope: [f64; PRICES] = std::array::from_fn(|which| {
                (there_is[which] - earned.used[which] as f64) * units[which] / reads
            });
            let above = (bound - least) / reads;
            if search.reach(slope) - above < NEAR || !search.cut(slope, above) {
                break;
            }
        }
        least
    }
}

/// Holds the best prices: after every trial the half that cannot is cut away.
#[derive(Clone, Debug)]
struct Ellipsoid {
    centre: [f64; PRICES],
    shape: [[f64; PRICES]; PRICES],
}

impl Ellipsoid {
    fn around_the_unit_cube() -> Self {
        let diagonal =
            |row| std::array::from_fn(|at| if at == row { PRICES as f64 / 4.0 } else { 0.0 });
        let shape = std::array::from_fn(diagonal);
        Self { centre: [0.5; PRICES], shape }
    }

    fn times(&self, slope: [f64; PRICES]) -> [f64; PRICES] {
        std::array::from_fn(|row| (0..PRICES).map(|at| self.shape[row][at] * slope[at]).sum())
    }

    /// By how much a function with this slope may fall from the centre on.
    fn reach(&self, slope: [f64; PRICES]) -> f64 {
        let along = self.times(slope);
        (0..PRICES).map(|at| along[at] * slope[at]).sum::<f64>().max(0.0).sqrt()
    }

    /// Cuts away where a function with this slope falls by less than `depth` from the centre on.
    /// False if nothing is left to cut.
    fn cut(&mut self, slope: [f64; PRICES], depth: f64) -> bool {
        let (n, reach) = (PRICES as f64, self.reach(slope));
        if depth >= reach {
            return false;
        }
        let depth = depth / reach;
        let along = self.times(slope).map(|along| along / reach);
        let step = (1.0 + n * depth) / (n + 1.0);
        let (squeeze, stretch) =
            (2.0 * step / (1.0 + depth), n * n * (1.0 - depth * depth) / (n * n - 1.0));
        for row in 0..PRICES {
            self.centre[row] -= step * along[row];
            for at in 0..PRICES {
                self.shape[row][at] =
                    stretch * (self.shape[row][at] - squeeze * along[row] * along[at]);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use onefold_block::SplitMix64;

    use super::*;

    fn reads(keys: impl IntoIterator<Item = u64>) -> Vec<Access> {
        keys.into_iter().map(|key| Access { key, size: 1 }).collect()
    }

    /// Objects on flash, objects in memory, and writes so far.
    type State = (BTreeSet<u64>, BTreeSet<u64>, u64);

    /// The most hits, by trying everything.
    fn most_hits_by_trial(reads: &[Access], limits: Limits) -> u64 {
        let mut all = BTreeMap::from([(State::default(), 0)]);
        for read in reads {
            let mut next: BTreeMap<State, u64> = BTreeMap::new();
            for ((flash, memory, writes), hits) in all {
                let hits = hits + u64::from(flash.contains(&read.key) | memory.contains(&read.key));
                // Everybody, the newcomer too, may go, stay, or move to flash for a write.
                let there: BTreeSet<u64> = flash.iter().chain(&memory).copied().collect();
                let there: Vec<u64> = there.into_iter().chain([read.key]).collect();
                for choice in 0..3_u32.pow(there.len() as u32) {
                    let mut state = (BTreeSet::new(), BTreeSet::new(), writes);
                    for (at, key) in there.iter().enumerate() {
                        match choice / 3_u32.pow(at as u32) % 3 {
                            0 => {}
                            1 => {
                                state.2 +=
                                    u64::from(!flash.contains(key) && !state.0.contains(key));
                                state.0.insert(*key);
                            }
                            _ => {
                                state.1.insert(*key);
                            }
                        }
                    }
                    let within = (state.0.len() + state.1.len()) as u64 <= limits.objects
                        && state.1.len() as u64 <= limits.memory
                        && state.2 <= limits.writes;
                    if within {
                        let best = next.entry(state).or_default();
                        *best = hits.max(*best);
                    }
                }
            }
            all = next;
        }
        all.into_values().max().unwrap_or(0)
    }

    #[test]
    fn no_cache_at_all_passes_it_and_some_come_near() {
        let mut random = SplitMix64::new(5);
        let (mut reached, mut bounds) = (0.0, 0.0);
        for round in 0..60_u64 {
            let reads = reads((0..12).map(|_| random.next_u64() % 5));
            let limits =
                Limits { objects: 1 + round % 3, memory: round / 3 % 2, writes: round / 6 % 4 };
            let most = most_hits_by_trial(&reads, limits) as f64;
            let bound = Stays::of_known(&reads).most_hits(limits);
            assert!(most <= bound + 1e-9, "{most} of {bound}: {limits:?} {reads:?}");
            (reached, bounds) = (reached + most, bounds + bound);
        }
        assert!(reached > 0.75 * bounds, "{reached} of {bounds}");
    }

    #[test]
    fn a_loop_hits_as_often_as_it_has_places_and_writes() {
        let stays = Stays::of_known(&reads((0..10_000).map(|at| at % 100)));
        let hits = |objects, memory, writes| {
            stays.most_hits(Limits { objects, memory, writes }) / 10_000.0
        };
        for (objects, memory, writes, share) in [
            (20, 0, 1_000_000, 0.2),
            (20, 0, 20, 0.2 * 0.99),
            (20, 0, 10, 0.1 * 0.99),
            (20, 5, 10, 0.15),
            (20, 20, 0, 0.2),
            (20, 0, 0, 0.0),
            (200, 0, 100, 0.99),
        ] {
            let got = hits(objects, memory, writes);
            assert!((got - share).abs() < 0.002, "{got}, not {share}: {objects} {memory} {writes}");
        }
    }

    #[test]
    fn an_object_comes_in_where_it_is_read_and_nowhere_else() {
        let of = |begins: [bool; 3]| {
            let hits = [0.5, 2.0, 4.0];
            let stays = begins.iter().zip(hits).map(|(&begin, hits)| Stay::new(10, hits, begin));
            let stays = Stays::of_objects([stays.collect()], 30);
            stays.most_hits(Limits { objects: 1, memory: 0, writes: 1 })
        };
        for (begins, hits) in [
            ([true, false, false], 6.5),
            ([false, true, false], 6.0),
            ([false, false, true], 4.0),
            ([false, false, false], 0.0),
        ] {
            let got = of(begins);
            assert!((got - hits).abs() < 0.01, "{got} of {begins:?}");
        }
        assert_eq!(Stay::new(7, 0.1, true).reads(), 7);
        assert!(f64::from(Stay::new(7, 0.1, true).hits) >= 0.1);
    }

    #[test]
    fn stays_are_those_of_each_object_in_order() {
        let stays = Stays::of_known(&reads([2, 0, 2, 2, 0, 5]));
        let long = |reads| Stay::new(reads, 1.0, true);
        assert_eq!((stays.all, stays.reads), (vec![long(3), long(2), long(1)], 6));
        assert_eq!(stays.ends, [1, 1, 3, 3, 3, 3]);
        assert!(Stays::of_known(&[]).most_hits(Limits { objects: 1, memory: 0, writes: 1 }) < 1e-9);
    }
}
