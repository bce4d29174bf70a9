//! Beyond the papers: hooks and directories beside FIDR's table of buckets, in equal memory.
//! Room: onefold-lab.   In: streams of chunks.   Out: pages read and duplicates found, no times.
//! Source: ours; [ajdari-talk] for the table, [sparse-index-09] and [ddfs-08] for what hooks are
//! made of.

use onefold_array::SpecBuilder;
use onefold_array::decide::index::{Counts, Index};
use onefold_array::spec::TableSpec;

use super::streams::{Stream, contents};
use crate::error::Result;
use crate::series::{Data, Line};
use crate::settings::Settings;
use crate::shape::all;

/// On which both designs are tuned, and on which nothing is.
const TRAINING: Stream = Stream::Copies;
const RUNS: [Stream; 3] = [Stream::Versions, Stream::Clients, Stream::SmallFiles];
const NO_RUNS: [Stream; 2] = [Stream::Scattered, Stream::DataSet];
/// The names in tables and charts.
const EXACT: &str = "fidr";
const LIMITED: &str = "fidr, fewer reads";
const HOOKS: &str = "hooks";

/// An index, as `KEY=VALUE`s of its description.
type Design = Vec<String>;

/// A kind of design with all that is tried of it: of how many fingerprints one counts, for how many
/// chunks after one was found all do, bits of a filter for each fingerprint, and policies.
struct Tried {
    kind: &'static str,
    one_in: &'static [u64],
    follow: &'static [u64],
    bits: &'static [u64],
    policies: [&'static str; 2],
}

/// A table of buckets: which are read, for how long after one was found, with what filter and what
/// policy. The first reads each, and so finds everything.
const BUCKETS: Tried = Tried {
    kind: "buckets",
    one_in: &[1, 2, 4, 8, 16, 32, 64, 128, 256],
    follow: &[0, 16, 64, 256],
    bits: &[0, 8, 12],
    policies: ["lru", "sieve"],
};

/// Hooks, which have no filter.
const HOOK_DESIGNS: Tried = Tried {
    kind: HOOKS,
    one_in: &[4, 8, 16, 32, 64, 128],
    follow: &[0, 4, 16],
    bits: &[0],
    policies: ["lru", "sieve"],
};

impl Tried {
    /// Every setting.
    fn designs(&self) -> Vec<Design> {
        let mut all = Vec::new();
        for policy in self.policies {
            for &one_in in self.one_in {
                for &follow in self.follow {
                    for &bits in self.bits {
                        all.push(design(self.kind, one_in, follow, bits, policy));
                    }
                }
            }
        }
        all
    }
}

fn design(kind: &str, one_in: u64, follow: u64, bits: u64, policy: &str) -> Design {
    vec![
        format!("table.kind={kind}"),
        format!("table.sample_one_in={one_in}"),
        format!("table.follow_chunks={follow}"),
        format!("table.filter_bits={bits}"),
        format!("table.policy={policy}"),
    ]
}

/// A design in so much memory, for so many chunks that differ.
fn table(settings: &Settings<'_>, design: &Design, unique: u64) -> Result<TableSpec> {
    let memory = unique as f64 * settings.real("memory_bytes_per_chunk")?;
    let sized = [format!("table.entries={unique}"), format!("table.cache_bytes={}", memory as u64)];
    let preset = SpecBuilder::preset("fidr").map_err(|error| settings.refused(error))?;
    let builder = sized.iter().chain(design).try_fold(preset, |builder, assignment| {
        builder.set(assignment).map_err(|error| settings.refused(error))
    })?;
    Ok(builder.build().map_err(|error| settings.refused(error))?.table)
}

/// What became of a stream.
#[derive(Clone, Copy, Debug)]
struct Took {
    counts: Counts,
}

impl Took {
    fn reads(&self) -> f64 {
        self.counts.reads as f64 / self.counts.look_ups as f64
    }

    fn writes(&self) -> f64 {
        self.counts.writes as f64 / self.counts.look_ups as f64
    }

    /// Of 100 duplicates.
    fn found(&self) -> f64 {
        let Counts { found, missed, .. } = self.counts;
        100.0 * found as f64 / (found + missed).max(1) as f64
    }
}

/// Chunks, and how many of them differ.
struct Asked {
    chunks: Vec<u32>,
    unique: u64,
}

impl Asked {
    fn new(settings: &Settings<'_>, stream: Stream) -> Result<Self> {
        let length = settings.number("chunks")? as usize;
        let chunks = stream.chunks(length, settings.number("seed")?)?;
        let unique = contents(&chunks).into();
        Ok(Self { chunks, unique })
    }

    fn replay(&self, settings: &Settings<'_>, design: &Design) -> Result<Took> {
        let table = table(settings, design, self.unique)?;
        let index = Index::new(&table, 0, settings.number("seed")?);
        let mut index = index.map_err(|error| settings.refused(error))?;
        let mut stored = vec![false; self.unique as usize];
        for &chunk in &self.chunks {
            index.look_up(chunk, std::mem::replace(&mut stored[chunk as usize], true));
        }
        Ok(Took { counts: index.counts() })
    }

    fn replay_all(&self, settings: &Settings<'_>, designs: &[Design]) -> Result<Vec<Took>> {
        settings.sweep(designs, |design| self.replay(settings, design)).into_iter().collect()
    }
}

/// The design that finds the most with at most so many reads a chunk.
fn best(took: &[Took], reads: f64) -> Option<usize> {
    let within = (0..took.len()).filter(|&at| took[at].reads() <= reads);
    within.max_by(|&a, &b| {
        let by_found = took[a].found().total_cmp(&took[b].found());
        by_found.then(took[b].reads().total_cmp(&took[a].reads()))
    })
}

/// Pages read and duplicates found by each design on each stream, and what was predicted of them.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let (buckets, hooks) = (BUCKETS.designs(), HOOK_DESIGNS.designs());
    let budget = settings.real("reads_a_chunk")?;
    let streams: Vec<Stream> = [TRAINING].into_iter().chain(RUNS).chain(NO_RUNS).collect();
    let replayed = streams.iter().map(|&stream| {
        let asked = Asked::new(settings, stream)?;
        Ok((asked.replay_all(settings, &buckets)?, asked.replay_all(settings, &hooks)?))
    });
    let replayed: Vec<(Vec<Took>, Vec<Took>)> = replayed.collect::<Result<_>>()?;
    let (trained_buckets, trained_hooks) = &replayed[0];
    let none = || settings.refused("no setting reads so little");
    let tuned = best(trained_hooks, budget).ok_or_else(none)?;
    let limited = best(trained_buckets, budget).ok_or_else(none)?;
    let (mut tenth, mut more, mut less) = (Vec::new(), Vec::new(), Vec::new());
    for (stream, (all_buckets, all_hooks)) in streams.into_iter().zip(&replayed) {
        let (ours, exact) = (all_hooks[tuned], all_buckets[0]);
        // What a table of buckets could do at best, had it been tuned on this very stream.
        let rival = best(all_buckets, ours.reads()).map(|at| all_buckets[at]);
        let rival_found = rival.map_or(0.0, |rival| rival.found());
        let words = |design: &Design| design.join(" ").replace("table.", "");
        put(data, stream, EXACT, &exact).note("every bucket that is not in memory is read");
        put(data, stream, LIMITED, &all_buckets[limited]).note(words(&buckets[limited]));
        let line = Line::new("duplicates found", "%").over("stream", "");
        data.put(
            &line.of("fidr, tuned on it, no more reads than hooks"),
            stream.name(),
            rival_found,
        );
        put(data, stream, HOOKS, &ours).note(words(&hooks[tuned]));
        frontier(data, settings, stream, &[(LIMITED, all_buckets), (HOOKS, all_hooks)])?;
        if stream == TRAINING {
            continue;
        }
        let name = || stream.name().to_owned();
        let figure = format!("{:.4} against {:.4}", ours.reads(), exact.reads());
        tenth.push((name(), (is_a_tenth(ours.reads(), exact.reads()), figure)));
        let figure = format!("{:.1} against {rival_found:.1} %", ours.found());
        if RUNS.contains(&stream) {
            more.push((name(), (finds_more(ours.found(), rival_found), figure)));
        } else {
            less.push((name(), (misses_half(ours.found()), format!("{:.1} %", ours.found()))));
        }
    }
    for (shape, answers) in [("hooks-miss", less), ("a-tenth", tenth), ("more-found", more)] {
        let (holds, figure) = all(answers);
        data.shows(shape, holds, figure)?;
    }
    Ok(())
}

/// Whether so many reads are at most a tenth of others.
fn is_a_tenth(reads: f64, of: f64) -> bool {
    reads * 10.0 <= of
}

fn finds_more(found: f64, than: f64) -> bool {
    found > than
}

/// Whether less than half of the duplicates are found.
fn misses_half(found: f64) -> bool {
    found < 50.0
}

fn put<'a>(
    data: &'a mut Data,
    stream: Stream,
    of: &str,
    took: &Took,
) -> &'a mut crate::series::Point {
    let line = |name: &str, unit: &str| Line::new(name, unit).over("stream", "").of(of);
    data.put(&line("table pages read", "a chunk"), stream.name(), took.reads());
    data.put(&line("table pages written", "a chunk"), stream.name(), took.writes());
    data.put(&line("duplicates found", "%"), stream.name(), took.found())
}

/// The most that each design finds with at most so many reads, had it been tuned on this stream.
fn frontier(
    data: &mut Data,
    settings: &Settings<'_>,
    stream: Stream,
    all: &[(&str, &Vec<Took>)],
) -> Result<()> {
    for (of, took) in all {
        let line = Line::new("most found, tuned on the stream", "%");
        let line = line.over("table pages read, in 10,000 chunks", "").of(of).under(stream.name());
        for limit in settings.numbers("frontier_reads")? {
            if let Some(at) = best(took, limit as f64 / 10_000.0) {
                data.put(&line, limit, took[at].found());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(found: u64, missed: u64, reads: u64) -> Took {
        Took { counts: Counts { look_ups: 100, found, missed, reads, ..Counts::default() } }
    }

    #[test]
    fn of_no_duplicates_none_is_found() {
        let of = [took(1, 0, 0), took(1, 3, 0), took(0, 1, 0), took(0, 0, 0)];
        assert_eq!(of.map(|took| took.found().to_string()), ["100", "25", "0", "0"]);
    }

    #[test]
    fn the_best_finds_the_most_by_as_many_reads_at_most_and_then_by_the_fewest() {
        let all = [took(5, 5, 4), took(6, 4, 5), took(6, 4, 4), took(9, 1, 6)];
        let best = [0.039, 0.04, 0.05, 0.06].map(|reads| best(&all, reads));
        assert_eq!(best, [None, Some(2), Some(2), Some(3)]);
    }

    #[test]
    fn a_tenth_is_a_tenth_at_most_and_half_is_not_less_than_half() {
        assert!(is_a_tenth(0.05, 0.5) && !is_a_tenth(0.051, 0.5));
        assert!(finds_more(90.1, 90.0) && !finds_more(90.0, 90.0));
        assert!(misses_half(49.9) && !misses_half(50.0));
    }
}
