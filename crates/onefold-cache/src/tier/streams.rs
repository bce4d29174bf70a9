//! Which reads continue one another: a pass over a container is one use, however small its steps.
//! Room: onefold-cache.
//! What is read from end to end is read fast from a slow disk, too, and a scan would push out
//! everything else: extents of a long pass are kept only if the container was passed over before.

use std::collections::VecDeque;

/// Passes that are followed at a time.
const STREAMS: usize = 32;
/// Bytes between two reads of a pass: what lies between may have been in memory.
const GAP_BYTES: u32 = 64 << 10;
/// Bytes after which reads that continue one another are a long pass.
const LONG_BYTES: u64 = 128 << 10;
/// A read that is a long pass by itself.
const LONG_READ_BYTES: u32 = 96 << 10;
/// Bytes after which a pass is one that goes on elsewhere: in the same container, for what is
/// written at a time lies together and what is written next to it at the same time lies anywhere
/// near, and in the next.
const FAR_BYTES: u64 = 192 << 10;
/// Reads within which it must go on there.
const SOON: u64 = 16;

/// No extent's key.
const NO_KEY: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Stream {
    container: u32,
    /// Where its last read ended.
    end: u32,
    bytes: u64,
    last_key: u64,
    /// Number of its last read.
    last: u64,
}

/// Passes under way, the latest at the end.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    passes: VecDeque<Stream>,
    reads: u64,
}

/// What a read is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Whether it is long.
    pub long: bool,
    /// The extent that its reads used last.
    pub last_key: u64,
}

impl Streams {
    /// A container is read from `from` to `upto`.
    pub fn read(&mut self, container: u32, from: u32, upto: u32) -> Pass {
        self.reads += 1;
        let follows = |stream: &Stream| {
            stream.container == container && from.wrapping_sub(stream.end) < GAP_BYTES
        };
        let goes_on = |stream: &Stream| {
            stream.bytes >= FAR_BYTES
                && stream.container.abs_diff(container) <= 1
                && self.reads - stream.last <= SOON
        };
        let found = self.passes.iter().rposition(follows);
        let found = found.or_else(|| self.passes.iter().rposition(goes_on));
        let stream = found.and_then(|at| self.passes.remove(at));
        let (bytes, last_key) =
            stream.map_or((0, NO_KEY), |stream| (stream.bytes, stream.last_key));
        let long = bytes >= LONG_BYTES || upto - from >= LONG_READ_BYTES;
        let bytes = bytes + u64::from(upto - from);
        let last = self.reads;
        self.passes.push_back(Stream { container, end: upto, bytes, last_key, last });
        if self.passes.len() > STREAMS {
            self.passes.pop_front();
        }
        Pass { long, last_key }
    }

    /// The read that was just told of ended with this extent.
    pub fn ended_with(&mut self, key: u64) {
        if let Some(stream) = self.passes.back_mut() {
            stream.last_key = key;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u32 = 4 << 20;

    /// Containers as a pool writes them: what is written at a time lies together, in any order.
    #[test]
    fn small_reads_one_after_the_other_are_one_long_pass_over_many_containers() {
        for pieces in [1, 15] {
            let mut streams = Streams::default();
            let piece = (LEN - 100_000) / pieces;
            let (mut all, mut long) = (0, 0);
            for container in 0..10 {
                for number in 0..pieces {
                    let first = number * 7 % pieces * piece;
                    for from in (first..first + piece - 4112).step_by(4112) {
                        long += u32::from(streams.read(container, from, from + 4112).long);
                        all += 1;
                    }
                }
            }
            assert_eq!(all - long, 32, "all but the first 128 KiB, in {pieces} pieces");
        }
    }

    #[test]
    fn reads_at_random_are_no_pass_and_neither_is_one_again_and_again() {
        let mut streams = Streams::default();
        for round in 0..1000_u32 {
            let from = round * 7919 % 60 * 65_792;
            assert!(!streams.read(round * 31 % 64, from, from + 65_792).long, "{round}");
        }
        let mut streams = Streams::default();
        for _ in 0..100 {
            assert!(!streams.read(1, 4096, 8192).long);
        }
        assert!(streams.read(1, 0, 300_000).long, "a large read is one by itself");
    }

    #[test]
    fn a_pass_that_ended_takes_no_others_along() {
        let mut streams = Streams::default();
        for from in (0..LEN / 2).step_by(4096) {
            streams.read(5, from, from + 4096);
        }
        for number in 0..SOON as u32 {
            streams.read(100 + number * 10, 0, 4096);
        }
        assert!(!streams.read(5, 3 << 20, (3 << 20) + 4096).long);
    }

    #[test]
    fn many_passes_at_a_time_are_told_apart() {
        let mut streams = Streams::default();
        for step in 0..40_u32 {
            for reader in 0..STREAMS as u32 {
                let from = step * 4096;
                let pass = streams.read(reader * 3, from, from + 4096);
                assert_eq!(pass.long, step >= 32, "step {step}");
            }
        }
    }

    #[test]
    fn reads_continue_one_another_up_to_a_gap_and_a_pass_grows_long_with_its_bytes() {
        // What was read before, how far behind its end the next one begins, and whether that
        // follows.
        for (gap, follows) in [(0, true), (GAP_BYTES - 1, true), (GAP_BYTES, false)] {
            let mut streams = Streams::default();
            streams.read(1, 0, 1000);
            streams.ended_with(77);
            let pass = streams.read(1, 1000 + gap, 2000 + gap);
            assert_eq!(pass.last_key, if follows { 77 } else { NO_KEY }, "{gap}");
            assert_eq!(streams.passes.len(), if follows { 1 } else { 2 });
        }
        for (before, long) in [(131_071, false), (131_072, true)] {
            let mut streams = Streams::default();
            for (from, upto) in [(0, 90_000), (90_000, before)] {
                assert!(!streams.read(1, from, upto).long);
            }
            assert_eq!(streams.read(1, before, before + 1).long, long, "{before}");
        }
        for (len, long) in [((96 << 10) - 1, false), (96 << 10, true)] {
            assert_eq!(Streams::default().read(1, 0, len).long, long, "{len}");
        }
    }

    #[test]
    fn a_far_pass_goes_on_next_to_where_it_was_and_soon() {
        let far = |bytes: u32, between: u64, container: u32| {
            let mut streams = Streams::default();
            streams.read(5, 0, bytes);
            streams.ended_with(77);
            for other in 0..between {
                streams.read(100 + 10 * other as u32, 0, 10);
            }
            streams.read(container, 3 << 20, (3 << 20) + 10).last_key == 77
        };
        let long = 192 << 10;
        assert!(far(long, 0, 5) && far(long, 0, 6) && far(long, 0, 4));
        assert!(!far(long, 0, 7) && !far(long, 0, 3) && !far(long - 1, 0, 5));
        assert!(far(long, 15, 5) && !far(long, 16, 5));
        // No more than so many are followed at a time.
        for (others, known) in [(31, true), (32, false)] {
            let mut streams = Streams::default();
            streams.read(5, 0, 10);
            streams.ended_with(77);
            for other in 0..others {
                streams.read(100 + 10 * other, 0, 10);
            }
            assert_eq!(streams.read(5, 10, 20).last_key == 77, known, "{others}");
        }
    }
}
