//! How often a container will be asked for, learnt from what was asked for after it looked alike.
//! Room: onefold-cache.
//! Two fading counts of each container, a slow and a fast one ([`crate::score`]), say how often it
//! is asked for and whether that changes. What follows from them depends on the work: where
//! popularity stands still the slow count is right and the fast one is noise; where it moves it is
//! the other way round; in a loop what was read last comes back last. So nothing is presumed: the
//! two counts name a **cell**, and a few containers at a time are watched for a while (**probes**).
//! A cell knows how many requests came for the containers that were in it, and how many the slow
//! count alone had foretold; a forecast is that count, corrected by the quotient. As a cell sees
//! little, it leans on those next to it in the slow count, more so the less it has seen.
//! Invariant: integers and + - * / alone, so the same forecasts on every machine.
//! Cost: 4 bytes per container that was asked for in the last 256 half-lives, and 20 KiB.

use crate::counts::Counts;
use crate::origin::{Origins, class_of, count_of};
use crate::policy::Parts;
use crate::score::{ONE, Scores};
use crate::steady::Steady;

/// Cells by the slow count, an octave each.
const LEVELS: usize = 12;
/// Octaves below a count of 1 that have cells of their own.
const LEVELS_BELOW_ONE: i64 = 4;
/// Cells by the change, an octave each.
const CHANGES: usize = 14;
/// Change of the first of them, in octaves: all requests were lately.
const CHANGE_MOST: i64 = 5;
/// Containers watched at a time.
const PROBES: usize = 256;
/// Foretold requests that a cell remembers; once it is full, older ones count half.
const MEMORY: f64 = 64.0;
/// How many times the doubt what a cell has seen is outweighed by what its neighbours have: few
/// requests say little, and cells an octave apart are alike.
const LEAN: f64 = 2.0;
/// Octaves of a forecast for what was never asked for: less than any other.
pub const NEVER: i64 = -(1 << 22);
/// A number of octaves that makes any forecast positive.
const LIFTED: u32 = 1 << 24;

/// Bits of a score in [`ONE`] that an [`Entry`] leaves out.
const ROUNDED: u32 = 10;
/// Octaves of the present from which the zero of its scores moves, and by how many.
const REBASE_AT: u64 = 384;
const REBASE_BY: u64 = 256;

/// Settings; times in requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForecastRules {
    /// Requests after which a slow count has halved.
    pub slow: f64,
    /// Requests after which a fast count has halved.
    pub fast: f64,
    /// Requests for which a container is watched, and for which forecasts are.
    pub horizon: f64,
    /// Requests that count as seen before the first one, so that two requests at the start are
    /// not taken for a great popularity.
    pub floor: f64,
    /// Foretold requests that cells have to see before they are believed as much as what they
    /// begin with.
    pub doubt: f64,
    /// Of a change of which a cell knows nothing yet, the share that is believed.
    pub believe: f64,
}

/// Two scores in 4 bytes: 16 bits of the slow one, 15 of the fast one, both in 64ths of an octave,
/// and whether the container is watched. What was never asked for has no slow one, and a class of
/// references instead of the fast one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry(u32);

impl Entry {
    const fn slow(self) -> u32 {
        (self.0 >> 16) << ROUNDED
    }

    const fn fast(self) -> u32 {
        (self.0 >> 1 & 0x7fff) << ROUNDED
    }

    const fn is_watched(self) -> bool {
        self.0 & 1 == 1
    }

    const fn new_of(class: u32) -> Self {
        Self(class << 1)
    }

    /// Whether it was never asked for; then the class of its references.
    const fn class_if_new(self) -> Option<u32> {
        if self.0 >> 16 == 0 { Some(self.0 >> 1) } else { None }
    }

    const fn is_new(self) -> bool {
        self.class_if_new().is_some()
    }

    /// Scores in parts of [`ONE`]; `dither` below 2^10 rounds them up as often as is due.
    fn of(slow: u32, fast: u32, dither: u32, watched: bool) -> Self {
        let round = |score: u32, most: u32| ((score + dither) >> ROUNDED).clamp(1, most);
        Self(round(slow, 0xffff) << 16 | round(fast, 0x7fff) << 1 | u32::from(watched))
    }
}

/// A container that is watched.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    /// Its key plus one; 0 is nobody.
    key: u64,
    cell: u64,
    /// Requests foretold by the slow count alone, as the bits of a float.
    expected: u64,
    came: u64,
    /// The request at which it ends.
    end: u64,
    /// Of one that was asked for the first time: the class of its references, and the requests
    /// foretold without them, as the bits of a float; 0 of others.
    class: u64,
    plain: u64,
}

/// What is known of the requests of a cell.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// Requests that came, as the bits of a float.
    came: u64,
    /// Requests foretold, likewise.
    expected: u64,
    /// Octaves by which forecasts differ from the slow count, in parts of [`ONE`], as bits.
    lift: u64,
}

/// Counts, cells and probes.
#[derive(Clone, Debug)]
pub struct Forecast {
    rules: ForecastRules,
    scores: Scores,
    table: Counts<u32>,
    cells: Vec<Cell>,
    probes: Vec<Probe>,
    origins: Origins,
    steady: Steady,
    /// What the presents move per request, in 2^-32 of a score's unit.
    pace: [u64; 2],
    /// Requests between two probes.
    between: u64,
    /// By the names below.
    numbers: [u64; 10],
}

/// What the references of a container had to say when it was first asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct First {
    /// Their class; 0 if none are known, or if it was asked for before.
    class: u32,
    /// By how much its count was lifted, in parts of [`ONE`].
    lift: i32,
}

/// The present of slow scores: in parts of [`ONE`], and in 2^-32 of them. That of fast ones too.
const SLOW: usize = 0;
const FAST: usize = 2;
/// Requests so far.
const TIME: usize = 4;
/// Where the next probe goes, and when the last one began.
const NEXT: usize = 5;
const LAST: usize = 6;
/// Octaves of the requests that fading counts hold, in horizons, in parts of [`ONE`], as bits:
/// slow, fast; and when to look again.
const EXPOSED: usize = 7;
const EXPOSE_AT: usize = 9;

/// More octaves than any count of requests has, in parts of [`ONE`].
const OCTAVES_MAX: i64 = 128 * ONE as i64;

/// A level and those next to it.
fn near(level: usize) -> std::ops::RangeInclusive<usize> {
    level.saturating_sub(1)..=(level + 1).min(LEVELS - 1)
}

/// log2, in parts of [`ONE`].
fn octaves(x: f64) -> i64 {
    (onefold_sim::ln(x) / std::f64::consts::LN_2 * f64::from(ONE)) as i64
}

impl Forecast {
    /// Nothing is known.
    pub fn new(rules: ForecastRules) -> Self {
        let one = f64::from(ONE) * (1_u64 << 32) as f64;
        let mut new = Self {
            rules,
            scores: Scores::default(),
            table: Counts::default(),
            cells: vec![Cell::default(); LEVELS * CHANGES],
            probes: vec![Probe::default(); PROBES],
            origins: Origins::default(),
            steady: Steady::default(),
            pace: [rules.slow, rules.fast].map(|half_life| (one / half_life.max(1.0)) as u64),
            between: (rules.horizon / PROBES as f64).max(1.0) as u64,
            numbers: [u64::from(ONE), 0, u64::from(ONE), 0, 0, 0, 0, 0, 0, 0],
        };
        (0..new.cells.len()).for_each(|cell| new.correct(cell));
        new
    }

    fn present(&self, which: usize) -> u32 {
        self.numbers[which] as u32
    }

    fn entry(&self, key: u64) -> Entry {
        Entry(self.table.get(key))
    }

    /// So many use a container, which matters until it is asked for.
    pub fn set_references(&mut self, key: u64, references: u32) {
        let entry = self.table.get_mut(key);
        if Entry(*entry).is_new() {
            *entry = Entry::new_of(class_of(references)).0;
        }
    }

    /// A request for this container: time goes on, and it is counted. The answer is what its
    /// references had to say, if it is the first one.
    pub fn count(&mut self, key: u64) -> First {
        for (which, pace) in [SLOW, FAST].into_iter().zip(self.pace) {
            let part = self.numbers[which + 1] + (pace & 0xffff_ffff);
            self.numbers[which] += (pace >> 32) + (part >> 32);
            self.numbers[which + 1] = part & 0xffff_ffff;
            if self.numbers[which] >= REBASE_AT * u64::from(ONE) {
                self.rebase(which);
            }
        }
        self.numbers[TIME] += 1;
        if self.numbers[TIME] >= self.numbers[EXPOSE_AT] {
            self.expose();
        }
        let [slow, fast] = [self.present(SLOW), self.present(FAST)];
        // Steps of a large count are smaller than what an entry can hold: of many, some are made.
        let dither = (self.numbers[TIME].wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as u32;
        let entry = self.table.get_mut(key);
        let old = Entry(*entry);
        let mut first = First::default();
        let [slow, fast] = if let Some(class) = old.class_if_new() {
            first = First { class, lift: self.origins.first(class, self.rules.doubt) };
            [slow, fast].map(|score| score.saturating_add_signed(first.lift))
        } else {
            [self.scores.sum(old.slow(), slow), self.scores.sum(old.fast(), fast)]
        };
        *entry = Entry::of(slow, fast, dither, old.is_watched()).0;
        if old.is_watched() {
            for probe in self.probes.iter_mut().filter(|probe| probe.key == key + 1) {
                probe.came += 1;
            }
        }
        first
    }

    /// Scores would grow for ever: their zero moves, and what lies below it is forgotten.
    #[cold]
    fn rebase(&mut self, which: usize) {
        let by = (REBASE_BY as u32) << (16 - ROUNDED);
        self.numbers[which] -= REBASE_BY * u64::from(ONE);
        self.table.change_all(|bits| {
            let entry = Entry(*bits);
            let (slow, fast) = (*bits >> 16, *bits >> 1 & 0x7fff);
            let (slow, fast) = match which {
                SLOW if slow <= by && !entry.is_watched() => (0, 0),
                SLOW => (slow.saturating_sub(by).max(1), fast),
                _ => (slow, fast.saturating_sub(by).max(1)),
            };
            if !entry.is_new() {
                *bits = if slow == 0 { 0 } else { slow << 16 | fast << 1 | *bits & 1 };
            }
        });
    }

    /// How many requests the fading counts hold by now.
    fn expose(&mut self) {
        let time = self.numbers[TIME] as f64;
        for (at, half_life) in [self.rules.slow, self.rules.fast].into_iter().enumerate() {
            let most = half_life / std::f64::consts::LN_2;
            let held = most * (1.0 - onefold_sim::exp(-(time / most).min(600.0)));
            let octaves = octaves(held.max(self.rules.floor) / self.rules.horizon);
            self.numbers[EXPOSED + at] = octaves.cast_unsigned();
        }
        self.numbers[EXPOSE_AT] = self.numbers[TIME] + (self.rules.horizon / 64.0) as u64 + 1;
    }

    /// Octaves of the requests that the slow count alone foretells, and the fast one.
    fn foretold(&self, entry: Entry) -> [i64; 2] {
        let count = |score: u32, which: usize| i64::from(score) - i64::from(self.present(which));
        let slow = count(entry.slow(), SLOW) - self.numbers[EXPOSED].cast_signed();
        [slow, count(entry.fast(), FAST) - self.numbers[EXPOSED + 1].cast_signed()]
    }

    /// Compares the counts of what is about to be asked for, to know whether popularity stands
    /// still.
    pub fn compare(&mut self, key: u64) {
        let entry = self.entry(key);
        // Before that, the fast count holds all that the slow one does.
        if self.numbers[TIME] as f64 > self.rules.horizon / 2.0 && !entry.is_new() {
            let [slow, fast] = self.foretold(entry).map(|octaves| self.linear(octaves));
            self.steady.asked(slow, fast, self.rules.slow);
        }
    }

    /// From 0, popularity moves or nothing is known, to 1, it stands still.
    pub fn steadiness(&self) -> f64 {
        self.steady.share()
    }

    /// Octaves of the requests that the slow count alone foretells, and the cell.
    fn place(&self, entry: Entry) -> (i64, usize) {
        let slow = i64::from(entry.slow()) - i64::from(self.present(SLOW));
        let [base, lately] = self.foretold(entry);
        let within = |at: i64, count: usize| at.clamp(0, count as i64 - 1) as usize;
        let level = within((slow >> 16) + LEVELS_BELOW_ONE, LEVELS);
        let change = within(CHANGE_MOST - ((lately - base) >> 16), CHANGES);
        (base, level * CHANGES + change)
    }

    /// Corrects the forecasts of a cell that has seen something, and of those that lean on it.
    fn correct(&mut self, number: usize) {
        let (level, change) = (number / CHANGES, number % CHANGES);
        for level in near(level) {
            let lift = octaves(self.quotient(level, change).max(1e-9));
            self.cells[level * CHANGES + change].lift = lift.cast_unsigned();
        }
    }

    /// Requests that came over those that the slow count had foretold, as a cell takes it to be:
    /// what it has seen itself leans on what it has seen together with its neighbours, and that on
    /// what a forecast begins with.
    fn quotient(&self, level: usize, change: usize) -> f64 {
        let octaves = CHANGE_MOST as f64 - change as f64 + 0.5;
        let octaves = (octaves * self.rules.believe).clamp(-8.0, 2.0);
        let begin = onefold_sim::exp(octaves * std::f64::consts::LN_2);
        let seen = |level: usize| {
            let cell = self.cells[level * CHANGES + change];
            (f64::from_bits(cell.came), f64::from_bits(cell.expected))
        };
        let doubt = self.rules.doubt;
        let around = near(level).map(seen);
        let (came, expected) =
            around.fold((0.0, 0.0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
        let around = (came + doubt * begin) / (expected + doubt);
        let (came, expected) = seen(level);
        (came + LEAN * doubt * around) / (expected + LEAN * doubt)
    }

    /// log2 of the requests that will come for this container within the horizon, in parts of
    /// [`ONE`]; [`NEVER`] for one that was never asked for.
    pub fn octaves_of(&self, key: u64) -> i64 {
        match self.entry(key) {
            entry if entry.is_new() => NEVER,
            entry => {
                let (base, cell) = self.place(entry);
                base + self.cells[cell].lift.cast_signed()
            }
        }
    }

    /// The requests that will come for this container within the horizon.
    pub fn requests(&self, key: u64) -> f64 {
        match self.octaves_of(key) {
            NEVER => 0.0,
            octaves => self.linear(octaves),
        }
    }

    fn linear(&self, octaves: i64) -> f64 {
        self.scores.count((octaves + i64::from(LIFTED)) as u32, LIFTED)
    }

    /// Whether another container may be watched now.
    pub const fn is_due(&self) -> bool {
        self.numbers[TIME] >= self.numbers[LAST] + self.between
    }

    /// Watches this container, if the oldest probe has come to its end, and learns from that one.
    /// `first` is what [`Forecast::count`] answered, if the container was just asked for.
    pub fn watch(&mut self, key: u64, first: First) {
        let at = self.numbers[NEXT] as usize % PROBES;
        let old = self.probes[at];
        if old.key != 0 && self.numbers[TIME] < old.end {
            return;
        }
        self.numbers[LAST] = self.numbers[TIME];
        self.numbers[NEXT] = (at as u64 + 1) % PROBES as u64;
        if old.key != 0 {
            self.probes[at].key = 0;
            *self.table.get_mut(old.key - 1) &= !1;
            self.learn(old);
        }
        let entry = self.entry(key);
        if entry.is_new() || entry.is_watched() {
            return;
        }
        let (base, cell) = self.place(entry);
        *self.table.get_mut(key) |= 1;
        self.probes[at] = Probe {
            key: key + 1,
            cell: cell as u64,
            expected: self.linear(base).to_bits(),
            came: 0,
            end: self.numbers[TIME] + self.rules.horizon as u64,
            class: first.class.into(),
            plain: self.linear(base - i64::from(first.lift)).to_bits(),
        };
    }

    fn learn(&mut self, probe: Probe) {
        let number = probe.cell as usize % self.cells.len();
        let cell = &mut self.cells[number];
        let mut came = f64::from_bits(cell.came) + probe.came as f64;
        let mut expected = f64::from_bits(cell.expected) + f64::from_bits(probe.expected);
        if expected > MEMORY {
            (came, expected) = (came / 2.0, expected / 2.0);
        }
        (cell.came, cell.expected) = (came.to_bits(), expected.to_bits());
        self.correct(number);
        if probe.class > 0 {
            self.origins.learn(probe.class as u32, probe.came as f64, f64::from_bits(probe.plain));
        }
    }

    /// The container exists no longer.
    pub fn forget(&mut self, key: u64) {
        if self.table.get(key) != 0 {
            *self.table.get_mut(key) = 0;
            for probe in self.probes.iter_mut().filter(|probe| probe.key == key + 1) {
                probe.key = 0;
            }
        }
    }

    /// Asks for the counts of a container.
    pub fn prefetch(&self, key: u64) {
        self.table.prefetch(key);
    }

    /// A saved state was loaded, which may say anything: what cannot be becomes something that can.
    /// A state of this forecast stays as it is.
    pub fn restored(&mut self) {
        let one = u64::from(ONE);
        for which in [SLOW, FAST] {
            self.numbers[which] = self.numbers[which].clamp(one, REBASE_AT * one);
            self.numbers[which + 1] &= 0xffff_ffff;
        }
        let time = self.numbers[TIME].min(u64::MAX / 4);
        self.numbers[TIME] = time;
        self.numbers[LAST] = self.numbers[LAST].min(time);
        let look_again = time + (self.rules.horizon / 64.0) as u64 + 1;
        self.numbers[EXPOSE_AT] = self.numbers[EXPOSE_AT].min(look_again);
        for at in [EXPOSED, EXPOSED + 1] {
            let octaves = self.numbers[at].cast_signed().clamp(-OCTAVES_MAX, OCTAVES_MAX);
            self.numbers[at] = octaves.cast_unsigned();
        }
        for cell in &mut self.cells {
            (cell.came, cell.expected) = (count_of(cell.came), count_of(cell.expected));
        }
        (0..self.cells.len()).for_each(|cell| self.correct(cell));
        self.origins.restored();
        self.steady.restored();
        let horizon = self.rules.horizon as u64;
        for probe in &mut self.probes {
            probe.expected = count_of(probe.expected);
            probe.plain = count_of(probe.plain);
            probe.came = probe.came.min(horizon);
            probe.end = probe.end.min(time + horizon);
        }
    }

    /// Everything that has to survive a restart, in an order that never changes.
    pub fn parts(&mut self) -> Parts<'_> {
        let mut numbers: Vec<&mut u64> = self.numbers.iter_mut().collect();
        for Cell { came, expected, lift } in &mut self.cells {
            numbers.extend([came, expected, lift]);
        }
        for Probe { key, cell, expected, came, end, class, plain } in &mut self.probes {
            numbers.extend([key, cell, expected, came, end, class, plain]);
        }
        numbers.extend(self.origins.numbers());
        numbers.extend(self.steady.numbers());
        Parts { counts: vec![&mut self.table], numbers, ..Parts::default() }
    }

    /// Bytes of memory that do not grow with the containers.
    pub fn memory_bytes(&self) -> usize {
        let probes = self.probes.len() * size_of::<Probe>();
        probes + self.cells.len() * size_of::<Cell>() + size_of::<Origins>() + size_of::<Steady>()
    }

    /// Bytes of memory that grow with all containers.
    pub fn history_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::SplitMix64;

    use super::*;

    fn rules(objects: f64) -> ForecastRules {
        ForecastRules {
            slow: 20.0 * objects,
            fast: objects,
            horizon: 4.0 * objects,
            floor: 2.0 * objects,
            doubt: 16.0,
            believe: 0.1,
        }
    }

    /// Asks for these keys and watches one in two of them.
    fn after(rules: ForecastRules, keys: impl Iterator<Item = u64>) -> Forecast {
        let mut forecast = Forecast::new(rules);
        for (at, key) in keys.enumerate() {
            forecast.count(key);
            if forecast.is_due() {
                // What was asked for just now and what was asked for long ago, in turn.
                forecast.watch(if at % 2 == 0 { key } else { key / 2 }, First::default());
            }
        }
        forecast
    }

    #[test]
    fn what_stands_still_is_foretold_by_its_rate() {
        let mut random = SplitMix64::new(1);
        // Key k comes once in 2^(k+1) requests.
        let keys = (0..400_000).map(|_| u64::from(random.next_u64().trailing_zeros().min(9)));
        let forecast = after(rules(100.0), keys);
        for key in 0..6 {
            let (got, exact) = (forecast.requests(key), 400.0 / f64::from(2 << key));
            assert!((got / exact - 1.0).abs() < 0.25, "{got} for {exact}");
        }
        assert_eq!((forecast.requests(77), forecast.octaves_of(77)), (0.0, NEVER));
    }

    #[test]
    fn what_a_cell_has_not_seen_it_takes_from_its_neighbours_and_no_further() {
        let mut forecast = Forecast::new(rules(100.0));
        let lift = |forecast: &Forecast, level: usize, change: usize| {
            let octaves = forecast.cells[level * CHANGES + change].lift.cast_signed();
            octaves as f64 / f64::from(ONE)
        };
        let before: Vec<f64> = (0..LEVELS).map(|level| lift(&forecast, level, 3)).collect();
        let cell = &mut forecast.cells[5 * CHANGES + 3];
        (cell.came, cell.expected) = (4.0_f64.to_bits(), 48.0_f64.to_bits());
        forecast.correct(5 * CHANGES + 3);
        // A twelfth of what was foretold came.
        let fell = |level: usize| before[level] - lift(&forecast, level, 3);
        let falls: Vec<f64> = (0..LEVELS).map(fell).collect();
        for (level, fell) in falls.iter().enumerate() {
            match level {
                5 => assert!(*fell > 1.5, "{falls:?}"),
                4 | 6 => assert!(*fell > 1.0 && *fell < falls[5], "{falls:?}"),
                _ => assert!(fell.abs() < 1e-9, "{falls:?}"),
            }
        }
        // What it is taken to be does not depend on the order in which cells were corrected.
        let lifts = forecast.cells.iter().map(|cell| cell.lift).collect::<Vec<_>>();
        forecast.restored();
        assert_eq!(forecast.cells.iter().map(|cell| cell.lift).collect::<Vec<_>>(), lifts);
        assert_eq!(
            lift(&forecast, 5, 4).to_bits(),
            lift(&Forecast::new(rules(100.0)), 5, 4).to_bits()
        );
    }

    #[test]
    fn in_a_loop_what_was_read_last_comes_back_last() {
        // A loop of 500 with a horizon of 400: what was just read does not come again in it.
        let forecast = after(rules(100.0), (0..200_000).map(|at| at % 500));
        let (last, next) = (forecast.requests(499), forecast.requests(0));
        assert!(next > 0.4 && next > 5.0 * last, "{last} {next}");
    }

    #[test]
    fn where_popularity_moves_the_past_is_not_believed() {
        // Each key is read 40 times in a row, and never again.
        let forecast = after(rules(100.0), (0..200_000).map(|at| at / 40));
        let past = forecast.requests(4_980);
        let counted = forecast.linear(forecast.place(forecast.entry(4_980)).0);
        assert!(past < counted / 5.0, "{past} of {counted} for one that is over");
    }

    #[test]
    fn whether_popularity_stands_still_is_known_after_some_requests_for_each_object() {
        let after = |requests: u64, key: &mut dyn FnMut(u64) -> u64| {
            let mut forecast = Forecast::new(rules(100.0));
            for at in 0..requests {
                let key = key(at);
                forecast.compare(key);
                forecast.count(key);
            }
            forecast.steadiness()
        };
        let mut random = SplitMix64::new(3);
        let mut still = |_| {
            // By Zipf, nearly.
            let octave = random.below(9);
            (1 << octave) + random.below(1 << octave)
        };
        assert_eq!(after(200, &mut still).to_bits(), 0_f64.to_bits(), "nothing is known yet");
        for requests in [1_000, 5_000, 20_000] {
            assert!(after(requests, &mut still) > 0.99, "{requests}");
            assert!(after(requests, &mut |at| at % 500) > 0.99 || requests < 5_000, "a loop");
            // All ranks move on by one now and then.
            let moving = after(requests, &mut |at| at / 100 + still(0));
            assert!(moving < 0.01 || requests < 5_000, "{moving} of {requests}");
            assert!(after(requests, &mut |at| at / 40) < 0.01, "never again");
        }
    }

    #[test]
    fn scores_in_four_bytes_stay_right_and_what_is_old_is_forgotten() {
        let fast = ForecastRules { slow: 50.0, fast: 10.0, ..rules(10.0) };
        let mut forecast = Forecast::new(fast);
        forecast.count(7);
        for at in 0..200_000_u64 {
            forecast.count(1 + at % 2);
        }
        // Half of all requests, through many moves of the zero of the fast scores.
        let got = forecast.requests(1);
        assert!((15.0..25.0).contains(&got), "{got} of 40 requests");
        assert_eq!(forecast.entry(7), Entry(0), "4,000 half-lives ago");
        forecast.forget(1);
        assert!(forecast.requests(1) < 1e-9 && forecast.requests(2) > 15.0);
    }
}
