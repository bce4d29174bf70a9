//! The most hits of whoever knows how popular everything is at each moment, but not what is drawn.
//! Room: onefold-cache.   In: probabilities by rank, and who has which rank.   Out: [`Informed`].
//! Given all reads so far, the next one is a hit with the probability of what the cache holds. That
//! is no more than the probability of the most probable objects, as many as fit, among those that
//! were read before, as nothing else can be in a cache of reads. The sum of that over all reads
//! is what no such policy can expect to exceed; one that knows the draws can.
//! Where what is read next is no draw, as in a scan, it is hit by whoever kept it since its last
//! read. A place for that one is a place less for the others: of it, each drawn read meanwhile
//! took the probability of the least popular of those that fit.
//! Within a budget of writes: what is kept while its probability stands still is worth that times
//! the reads ([`crate::bound`]), and comes in when it is read. How probability will move and when
//! each object is read are told there as well, so that it is a bound for whoever does not know.
//! Cost: one step per read, and per change a walk over all objects; 8 bytes per read and change.

use crate::bound::{Limits, Stay, Stays};

/// Share by which a probability may fall within a stay, which counts as if it had not.
const NEAR: f64 = 0.01;

/// An object that was read, from its last read or the last change of its probability on.
#[derive(Clone, Debug, Default)]
struct Object {
    before: Vec<Stay>,
    /// Drawn reads before this stay, and whether it begins with a read of the object.
    since: u64,
    after_read: bool,
    /// The highest probability in it.
    chance: f64,
    /// The probability, also if it was not read yet.
    now: f64,
}

impl Object {
    /// The stay ends at this time, and the next one begins.
    fn next(&mut self, time: u64, after_read: bool) {
        let reads = time - self.since;
        if reads > 0 {
            self.before.push(Stay::new(reads as u32, self.chance * reads as f64, self.after_read));
        }
        // What begins twice at one time may be come into if one of both may.
        self.after_read = after_read || reads == 0 && self.after_read;
        (self.since, self.chance) = (time, self.now);
    }
}

/// Sums that grow with the reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Informed {
    /// Objects that fit.
    most: usize,
    /// Probabilities by rank, most popular first.
    chances: Vec<f64>,
    /// By key, whether it was read, and what a place had cost in all when that was last so.
    seen: Vec<Option<f64>>,
    /// Of the ranks below this one, who was read is held.
    edge: usize,
    held: usize,
    /// The probability of all that are held.
    sum: f64,
    /// What a place has cost so far.
    cost: f64,
    hits: f64,
    variance: f64,
    /// By key; empty where nothing is known within a budget.
    objects: Vec<Object>,
    /// Drawn reads so far.
    time: u64,
}

/// What can be expected of a policy that knows the law of the reads.
#[derive(Clone, Debug, PartialEq)]
pub struct MostExpected {
    /// Hits.
    pub hits: f64,
    /// By how much luck moves the hits that come: one standard deviation, at most.
    pub deviation: f64,
    stays: Option<Stays>,
}

impl MostExpected {
    /// Hits within these limits.
    pub fn within(&self, limits: Limits) -> f64 {
        let hits = self.stays.as_ref().map_or(self.hits, |stays| stays.most_hits(limits));
        hits.min(self.hits)
    }
}

impl Informed {
    /// For a cache that holds so many objects.
    pub(super) fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    fn was_read(&self, key: u64) -> bool {
        self.seen.get(key as usize).is_some_and(Option::is_some)
    }

    /// From here on ranks have these probabilities and these keys.
    pub(super) fn ranks(&mut self, chances: Vec<f64>, key_of: impl Fn(usize) -> u64) {
        self.chances = chances;
        self.moved(key_of);
    }

    /// The first ranks have these probabilities and keys, and further ones are not there yet.
    pub(super) fn ranks_so_far(
        &mut self,
        chances: impl Iterator<Item = f64>,
        key_of: impl Fn(usize) -> u64,
    ) {
        self.chances.clear();
        self.chances.extend(chances);
        self.moved(key_of);
    }

    /// All ranks have other keys now.
    pub(super) fn moved(&mut self, key_of: impl Fn(usize) -> u64) {
        for rank in 0..self.chances.len() {
            self.changed(key_of(rank), rank);
        }
        (self.edge, self.held, self.sum) = (0, 0, 0.0);
        self.fill(key_of);
    }

    fn object(&mut self, key: u64) -> &mut Object {
        let key = key as usize;
        if key >= self.objects.len() {
            self.objects.resize(key + 1, Object::default());
        }
        &mut self.objects[key]
    }

    /// This object has this rank now.
    fn changed(&mut self, key: u64, rank: usize) {
        let (chance, time, was_read) = (self.chances[rank], self.time, self.was_read(key));
        let object = self.object(key);
        object.now = chance;
        if was_read && !((1.0 - NEAR) * object.chance..=object.chance).contains(&chance) {
            object.next(time, false);
        }
    }

    /// Two ranks have changed keys with each other.
    pub(super) fn swapped(&mut self, ranks: [usize; 2], key_of: impl Fn(usize) -> u64) {
        let [a, b] = ranks.map(|rank| self.was_read(key_of(rank)));
        for (rank, now, before) in [(ranks[0], a, b), (ranks[1], b, a)] {
            self.changed(key_of(rank), rank);
            if rank < self.edge && now != before {
                let sign = if now { 1.0 } else { -1.0 };
                self.sum += sign * self.chances[rank];
                self.held = if now { self.held + 1 } else { self.held - 1 };
            }
        }
        self.trim(&key_of);
        self.fill(key_of);
    }

    fn fill(&mut self, key_of: impl Fn(usize) -> u64) {
        while self.held < self.most && self.edge < self.chances.len() {
            if self.was_read(key_of(self.edge)) {
                self.sum += self.chances[self.edge];
                self.held += 1;
            }
            self.edge += 1;
        }
    }

    /// Lets go of what is too much; the last rank below the edge is held then if all room is taken.
    fn trim(&mut self, key_of: impl Fn(usize) -> u64) {
        while self.edge > 0 && self.held >= self.most {
            let last = self.edge - 1;
            if self.was_read(key_of(last)) {
                if self.held == self.most {
                    return;
                }
                self.sum -= self.chances[last];
                self.held -= 1;
            }
            self.edge = last;
        }
    }

    /// A read comes that is drawn by these probabilities, or of what they leave out.
    pub(super) fn expect(&mut self) {
        self.time += 1;
        self.expect_hit(self.sum);
        if self.held == self.most && self.edge > 0 {
            self.cost += self.chances[self.edge - 1];
        }
    }

    /// A read comes that is a hit with this probability at most.
    pub(super) fn expect_hit(&mut self, chance: f64) {
        self.hits += chance;
        self.variance += (chance * (1.0 - chance)).max(0.0);
    }

    /// Reads are drawn by how many others were read since: these are the probabilities.
    pub(super) fn distances(&mut self, chances: &[f64]) {
        self.chances = std::iter::once(0.0)
            .chain(chances.iter().scan(0.0, |sum, chance| {
                *sum += chance;
                Some(*sum)
            }))
            .collect();
    }

    /// A read comes by such a distance, or of an object that is new, where so many are not.
    pub(super) fn expect_within(&mut self, there: usize) {
        let held = there.min(self.most).min(self.chances.len() - 1);
        self.expect_hit(self.chances[held]);
    }

    /// The read that was drawn was of this rank.
    pub(super) fn drawn(&mut self, rank: usize, key_of: impl Fn(usize) -> u64) {
        let (key, time) = (key_of(rank), self.time);
        if self.was_read(key) {
            self.object(key).next(time, true);
        } else {
            let object = self.object(key);
            (object.since, object.after_read, object.chance) = (time, true, object.now);
            self.saw(key);
            if rank < self.edge {
                self.sum += self.chances[rank];
                self.held += 1;
                self.trim(key_of);
            }
        }
    }

    /// A read comes that is known beforehand, of an object that is never drawn.
    pub(super) fn known(&mut self, key: u64) {
        let time = self.time;
        if let Some(&Some(cost)) = self.seen.get(key as usize) {
            self.hits += (1.0 - (self.cost - cost)).max(0.0);
            let object = self.object(key);
            object.before.push(Stay::new((time - object.since) as u32, 1.0, true));
        }
        self.object(key).since = time;
        self.saw(key);
    }

    fn saw(&mut self, key: u64) {
        let key = key as usize;
        if key >= self.seen.len() {
            self.seen.resize(key + 1, None);
        }
        self.seen[key] = Some(self.cost);
    }

    /// What all reads so far sum up to.
    pub(super) fn most_expected(self) -> MostExpected {
        let known = !self.objects.is_empty();
        let read = self
            .objects
            .into_iter()
            .zip(0..)
            .filter(|&(_, key)| self.seen.get(key).is_some_and(Option::is_some));
        let stays = read.map(|(mut object, _)| {
            object.next(self.time, false);
            object.before
        });
        let stays = known.then(|| Stays::of_objects(stays, self.time));
        MostExpected { hits: self.hits, deviation: self.variance.sqrt(), stays }
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::SplitMix64;

    use super::*;

    /// The probability of the most probable of those that were read, by sorting them all.
    fn slowly(chances: &[f64], keys: &[u64], read: &[bool], most: usize) -> f64 {
        let of = chances.iter().zip(keys).filter(|&(_, &key)| read[key as usize]);
        let mut of: Vec<f64> = of.map(|(&chance, _)| chance).collect();
        of.sort_by(|a, b| b.total_cmp(a));
        of.iter().take(most).sum()
    }

    #[test]
    fn what_is_held_is_the_most_probable_that_was_read_through_all_changes() {
        let mut random = SplitMix64::new(3);
        let mut below = |count: u64| random.next_u64() % count;
        for most in [1, 7, 20, 40] {
            let mut keys: Vec<u64> = (0..30).collect();
            let chances: Vec<f64> = (1..=30).map(|rank| 0.2 / f64::from(rank)).collect();
            let mut informed = Informed::new(most);
            let mut read = [false; 30];
            informed.ranks(chances.clone(), |rank| keys[rank]);
            for step in 0..600 {
                match below(3) {
                    0 if step > 100 => {
                        let ranks = [below(30) as usize, below(30) as usize];
                        keys.swap(ranks[0], ranks[1]);
                        informed.swapped(ranks, |rank| keys[rank]);
                    }
                    1 if step % 50 == 0 => {
                        keys.rotate_right(5);
                        informed.moved(|rank| keys[rank]);
                    }
                    _ if step % 7 == 0 => {
                        let rank = below(30) as usize;
                        informed.drawn(rank, |rank| keys[rank]);
                        read[keys[rank] as usize] = true;
                    }
                    _ => {}
                }
                let slowly = slowly(&chances, &keys, &read, most);
                assert!((informed.sum - slowly).abs() < 1e-9, "{} {slowly}", informed.sum);
            }
        }
    }

    #[test]
    fn what_is_known_beforehand_is_a_hit_if_the_place_cost_less_than_one() {
        // Two objects are drawn, a half and a quarter of the time, and one of them fits.
        let mut informed = Informed::new(1);
        informed.ranks(vec![0.5, 0.25], |rank| rank as u64);
        informed.drawn(0, |rank| rank as u64);
        let after = |drawn: usize| {
            let mut informed = informed.clone();
            informed.known(9);
            // Never read before, it is a miss.
            assert!(informed.hits < 1e-12);
            for _ in 0..drawn {
                informed.expect();
            }
            let meanwhile = informed.hits;
            informed.known(9);
            (meanwhile, informed.hits - meanwhile)
        };
        for (drawn, meanwhile, hit) in [(0, 0.0, 1.0), (1, 0.5, 0.5), (2, 1.0, 0.0), (5, 2.5, 0.0)]
        {
            let got = after(drawn);
            assert!((got.0 - meanwhile).abs() + (got.1 - hit).abs() < 1e-12, "{got:?}");
        }
    }
}
