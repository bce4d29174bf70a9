//! How much of memory newcomers get, learnt from what a byte of each part of it brings.
//! Room: onefold-cache.
//! Both parts are judged by their hits per byte and request, over the last few times that memory
//! was filled anew; the better one gets some of the other's room. Of the window the hits on its
//! newest object do not count: a window of one object has them too.
//! Both are averages, where margins would be right: what the window's last byte brings, and what
//! the regular that would go next. Averages were compared with both, with the forecasts of the
//! regulars, and with the tail of the window, on the tuning families: they did best.
//! Cost: a few sums per newcomer.

/// Newcomers, at least, after which the share changes and what was seen counts three quarters.
const LEAST_NEWCOMERS: u64 = 16;
/// Of memory, what moves at a time: 1 in so many bytes.
const STEP: u64 = 16;
/// A hit, in the sums.
const HIT: u64 = 1 << 16;
/// No sum is larger, whatever a saved state says.
const MOST: u64 = 1 << 62;

/// Hits of a part of memory, and what they took.
#[derive(Clone, Copy, Debug, Default)]
struct Yield {
    /// In 2^-16 hits.
    hits: u64,
    /// Bytes, times the requests for which they were held.
    held: u64,
}

impl Yield {
    fn hold(&mut self, bytes: u64, requests: u64) {
        self.held = self.held.saturating_add(bytes.saturating_mul(requests)).min(MOST);
    }

    fn fade(&mut self) {
        self.hits = self.hits / 4 * 3;
        self.held = self.held / 4 * 3;
    }

    /// Whether its hits per byte and request are as many as the other's.
    fn is_at_least(&self, other: &Self) -> bool {
        let product = |hits: u64, held: u64| u128::from(hits) * u128::from(held.max(1));
        product(self.hits, other.held) >= product(other.hits, self.held)
    }
}

/// What newcomers get, and what both parts brought lately.
#[derive(Clone, Debug)]
pub struct WindowShare {
    memory_bytes: u64,
    /// The least that newcomers get, and the most.
    bounds: [u64; 2],
    bytes: u64,
    window: Yield,
    regulars: Yield,
    newcomers: u64,
    /// Requests that were hits since the last newcomer. Not the number of the request, which begins
    /// anew with a restart.
    since: u64,
}

impl WindowShare {
    /// Of `memory` bytes each part gets at least the share `least`, and newcomers half at first;
    /// where `least` is more than half, newcomers get that, and it stays so.
    pub fn new(memory: u64, least: f64) -> Self {
        let least_bytes = (memory as f64 * least) as u64;
        let bounds = [least_bytes.min(memory), memory.saturating_sub(least_bytes).max(least_bytes)];
        Self {
            memory_bytes: memory,
            bounds,
            bytes: (memory / 2).clamp(bounds[0], bounds[1]),
            window: Yield::default(),
            regulars: Yield::default(),
            newcomers: 0,
            since: 0,
        }
    }

    /// Bytes of memory in which newcomers wait.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A hit, wherever.
    pub const fn hit(&mut self) {
        self.since = self.since.saturating_add(1);
    }

    /// It was in the window, but not on its newest object.
    pub fn hit_window(&mut self) {
        self.window.hits = self.window.hits.saturating_add(HIT).min(MOST);
    }

    /// It was among the regulars.
    pub fn hit_regulars(&mut self) {
        self.regulars.hits = self.regulars.hits.saturating_add(HIT).min(MOST);
    }

    /// A newcomer takes its place. So many bytes lie in the window besides it, and with the
    /// regulars, and this many objects in both.
    pub fn newcomer(&mut self, window: u64, regulars: u64, objects: usize) {
        let requests = std::mem::take(&mut self.since).saturating_add(1);
        self.window.hold(window, requests);
        self.regulars.hold(regulars, requests);
        self.newcomers = self.newcomers.saturating_add(1);
        if self.newcomers >= LEAST_NEWCOMERS.max(objects as u64) {
            self.newcomers = 0;
            self.adapt();
        }
    }

    fn adapt(&mut self) {
        let step = (self.memory_bytes / STEP).max(1);
        let wanted = if self.window.is_at_least(&self.regulars) {
            self.bytes.saturating_add(step)
        } else {
            self.bytes.saturating_sub(step)
        };
        self.bytes = wanted.clamp(self.bounds[0], self.bounds[1]);
        self.window.fade();
        self.regulars.fade();
    }

    /// A saved state was loaded, which may say anything.
    pub fn restored(&mut self) {
        self.bytes = self.bytes.clamp(self.bounds[0], self.bounds[1]);
        for part in [&mut self.window, &mut self.regulars] {
            part.hits = part.hits.min(MOST);
            part.held = part.held.min(MOST);
        }
    }

    /// What has to survive a restart.
    pub fn numbers(&mut self) -> Vec<&mut u64> {
        let (window, regulars) = (&mut self.window, &mut self.regulars);
        let sums = [&mut window.hits, &mut window.held, &mut regulars.hits, &mut regulars.held];
        let mut numbers = vec![&mut self.bytes, &mut self.newcomers, &mut self.since];
        numbers.extend(sums);
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,600 bytes of which both get at least a tenth.
    fn share() -> WindowShare {
        WindowShare::new(1_600, 0.1)
    }

    /// As many newcomers as change the share once, while the window and the regulars hold so many
    /// bytes and have so many hits.
    fn round(share: &mut WindowShare, bytes: [u64; 2], hits: [u64; 2]) -> u64 {
        (0..hits[0]).for_each(|_| share.hit_window());
        (0..hits[1]).for_each(|_| share.hit_regulars());
        for _ in 0..LEAST_NEWCOMERS {
            share.newcomer(bytes[0], bytes[1], 3);
        }
        share.bytes()
    }

    #[test]
    fn the_part_whose_bytes_bring_more_gets_more_until_the_other_has_the_least() {
        for (hits, expected) in [([10, 5], 1_440), ([5, 10], 160)] {
            let mut share = share();
            assert_eq!(share.bytes(), 800);
            let first = round(&mut share, [800, 800], hits);
            assert_eq!(first.abs_diff(800), 100);
            for _ in 0..20 {
                round(&mut share, [800, 800], hits);
            }
            assert_eq!(share.bytes(), expected);
        }
    }

    #[test]
    fn hits_count_by_the_bytes_that_were_held_for_them() {
        // Fewer hits, but of a tenth of the bytes.
        assert_eq!(round(&mut share(), [100, 1_000], [2, 10]), 900);
        assert_eq!(round(&mut share(), [1_000, 100], [10, 2]), 700);
    }

    #[test]
    fn what_was_seen_long_ago_counts_less() {
        let mut share = share();
        round(&mut share, [800, 800], [1_000, 0]);
        let rounds = (0..100).take_while(|_| round(&mut share, [800, 800], [0, 20]) > 160).count();
        assert!((10..30).contains(&rounds), "{rounds}");
    }

    #[test]
    fn a_share_of_all_or_more_than_half_stays() {
        for (least, bytes) in [(1.0, 1_600), (0.75, 1_200), (0.5, 800)] {
            let mut share = WindowShare::new(1_600, least);
            for hits in [[0, 9], [9, 0]] {
                assert_eq!(round(&mut share, [800, 800], hits), bytes);
            }
        }
        assert_eq!(round(&mut WindowShare::new(0, 0.1), [0, 0], [1, 0]), 0);
    }

    #[test]
    fn what_no_state_can_say_leaves_a_share_that_learns() {
        let mut share = share();
        share.numbers().into_iter().for_each(|number| *number = u64::MAX);
        share.restored();
        assert_eq!(share.bytes(), 1_440);
        for _ in 0..200 {
            round(&mut share, [800, 800], [0, 1_000]);
        }
        assert_eq!(share.bytes(), 160);
    }
}
