//! Beyond the papers: where to deduplicate, in the drives, before them, or in the cache.
//! Room: onefold-lab.   In: streams of chunks.   Out: what drives and cache are still asked for.
//! Source: ours; [ajdari-talk] "Intra-SSD Deduplication" for drives that deduplicate alone.

use onefold_array::decide::index::Index;
use onefold_array::{ServerSpec, SpecBuilder};
use onefold_cache::{Capacity, Policy, make_online};
use onefold_sim::{RandomStreams, Ratio, Zipf};

use super::streams::{Stream, contents};
use super::whole_drives;
use crate::error::Result;
use crate::series::{Data, Line};
use crate::settings::Settings;
use crate::shape::all;

/// Bytes of an entry of the cache's size and of the chunk that it is of.
pub const CHUNK_BYTES: u32 = 4096;
/// Memory of a drive for each page that it keeps: a fingerprint of 16 bytes and a place of 4.
const DRIVE_ENTRY_BYTES: f64 = 20.0;
/// Memory of a cache for the fingerprint of each chunk that it keeps.
const CACHE_ENTRY_BYTES: f64 = 32.0;

const STREAMS: [Stream; 6] = [
    Stream::Copies,
    Stream::SmallFiles,
    Stream::Clients,
    Stream::Versions,
    Stream::Scattered,
    Stream::DataSet,
];

/// Where duplicates are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// They are not.
    Nowhere,
    /// In the read cache alone.
    Cache,
    /// In each drive.
    Drives,
    /// In a server before the drives that finds all.
    Server,
    /// In a server that has hooks.
    Hooks,
}

const PLACES: [Place; 4] = [Place::Cache, Place::Drives, Place::Server, Place::Hooks];

impl Place {
    /// As tables say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nowhere => "none",
            Self::Cache => "in the cache",
            Self::Drives => "in the drives",
            Self::Server => "in the server",
            Self::Hooks => "in the server, hooks",
        }
    }
}

/// What a stream took, each for a chunk that was written.
#[derive(Clone, Copy, Debug, Default)]
struct Took {
    sent: f64,
    written: f64,
    read: f64,
    table_reads: f64,
    memory_bytes: f64,
}

/// Whether each place has met a content before.
struct Seen {
    by_place: Vec<Vec<bool>>,
}

impl Seen {
    fn new(places: usize, contents: usize) -> Self {
        Self { by_place: vec![vec![false; contents]; places] }
    }

    /// True the first time.
    fn is_new(&mut self, place: usize, content: u32) -> bool {
        !std::mem::replace(&mut self.by_place[place][content as usize], true)
    }
}

/// The addresses that are read: after each write one of those before.
pub fn reads(settings: &Settings<'_>, chunks: usize) -> Result<Vec<u32>> {
    let streams = RandomStreams::new(settings.number("seed")?);
    let (mut popular, mut order) = (streams.stream("reads"), streams.stream("order"));
    let exponent = Ratio::permille(settings.number("read_locality_permille")?);
    let zipf = Zipf::new(chunks as u64, exponent).map_err(|error| settings.refused(error))?;
    // Which addresses are read often has nothing to do with when they were written.
    let mut shuffled: Vec<u32> = (0..chunks as u32).collect();
    order.shuffle(&mut shuffled);
    let mut drawn = Vec::with_capacity(chunks);
    for written in 0..chunks as u32 {
        let wanted = shuffled[zipf.sample(&mut popular) as usize];
        // What was not written yet is not read: something else that was is.
        let there =
            if wanted <= written { wanted } else { popular.below(u64::from(written) + 1) as u32 };
        drawn.push(there);
    }
    Ok(drawn)
}

/// A server of a preset with these `KEY=VALUE`s on top.
pub fn described(settings: &Settings<'_>, preset: &str, set: &[String]) -> Result<ServerSpec> {
    let preset = SpecBuilder::preset(preset).map_err(|error| settings.refused(error))?;
    let builder = set.iter().try_fold(preset, |builder, assignment| builder.set(assignment));
    builder.and_then(|builder| builder.build()).map_err(|error| settings.refused(error))
}

/// The index of a server that sees everything.
fn index(settings: &Settings<'_>, place: Place, unique: usize) -> Result<Option<Index>> {
    let preset = match place {
        Place::Server => "fidr",
        Place::Hooks => "fidr-hooks",
        _ => return Ok(None),
    };
    let memory = unique as f64 * settings.real("memory_bytes_per_chunk")?;
    let set = [format!("table.entries={unique}"), format!("table.cache_bytes={}", memory as u64)];
    let spec = described(settings, preset, &set)?;
    let index = Index::new(&spec.table, 0, settings.number("seed")?);
    index.map(Some).map_err(|error| settings.refused(error))
}

fn replay(settings: &Settings<'_>, place: Place, chunks: &[u32], reads: &[u32]) -> Result<Took> {
    let unique = contents(chunks) as usize;
    let drives = settings.number("drives")? as usize;
    let mut cache = cache(settings, chunks.len())?;
    let mut index = index(settings, place, unique)?;
    let mut seen = Seen::new(if place == Place::Drives { drives } else { 1 }, unique);
    // Where each address lies, as the cache is asked for it: copies that are one are one number.
    let mut held: Vec<u32> = Vec::with_capacity(chunks.len());
    let mut copy = vec![0_u32; unique];
    let mut took = Took::default();
    for (address, &content) in chunks.iter().enumerate() {
        let new = match place {
            Place::Nowhere | Place::Cache => true,
            Place::Drives => seen.is_new(address % drives, content),
            Place::Server | Place::Hooks => {
                let stored = !seen.is_new(0, content);
                index.as_mut().is_none_or(|index| !index.look_up(content, stored).found)
            }
        };
        took.sent += f64::from(new || place == Place::Drives);
        took.written += f64::from(new);
        if new {
            copy[content as usize] = address as u32;
        }
        held.push(match place {
            Place::Nowhere | Place::Drives => address as u32,
            Place::Cache => content,
            Place::Server | Place::Hooks => copy[content as usize],
        });
        let wanted = held[reads[address] as usize];
        took.read += f64::from(!cache.access(u64::from(wanted), CHUNK_BYTES).hit);
    }
    let count = chunks.len() as f64;
    let index = index.map(|index| index.counts());
    took.table_reads = index.map_or(0.0, |counts| counts.reads as f64);
    took.memory_bytes = match place {
        Place::Nowhere => 0.0,
        Place::Cache => CACHE_ENTRY_BYTES * cache.len() as f64,
        Place::Drives => DRIVE_ENTRY_BYTES * took.written,
        Place::Server | Place::Hooks => unique as f64 * settings.real("memory_bytes_per_chunk")?,
    };
    let Took { sent, written, read, table_reads, memory_bytes } = took;
    let of = |all: f64| all / count;
    Ok(Took {
        sent: of(sent),
        written: of(written),
        read: of(read),
        table_reads: of(table_reads),
        memory_bytes: of(memory_bytes),
    })
}

fn cache(settings: &Settings<'_>, chunks: usize) -> Result<Box<dyn Policy>> {
    let objects = chunks * settings.number("cache_percent")? as usize / 100;
    let capacity = Capacity { bytes: objects as u64 * u64::from(CHUNK_BYTES), objects };
    make_online("lru", capacity, settings.number("seed")?).map_err(|error| settings.refused(error))
}

/// A kind of work, and how much of it there was.
type Work = (&'static str, fn(&Took) -> f64);

const WORK: [Work; 3] = [
    ("sent to drives", |took| took.sent),
    ("written in drives", |took| took.written),
    ("read from drives", |took| took.read),
];

/// What each place leaves to be done on each stream.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let length = settings.number("chunks")? as usize;
    let asked = reads(settings, length)?;
    let mut sums = vec![[0.0; WORK.len()]; PLACES.len()];
    let mut answers = Vec::new();
    for stream in STREAMS {
        let chunks = stream.chunks(length, settings.number("seed")?)?;
        let places: Vec<Place> = [Place::Nowhere].into_iter().chain(PLACES).collect();
        let took = settings.sweep(&places, |&place| replay(settings, place, &chunks, &asked));
        let took = took.into_iter().collect::<Result<Vec<_>>>()?;
        let took = <[Took; 5]>::try_from(took).expect("one for each place");
        let [none, rest @ ..] = &took;
        for ((place, took), sums) in PLACES.iter().zip(rest).zip(&mut sums) {
            put(data, *place, stream.name(), took, none, sums);
        }
        answers.extend(said(stream, &took));
    }
    let line = Line::new("left of what no deduplication takes", "%").over("work", "");
    for (place, sums) in PLACES.iter().zip(sums) {
        for ((work, _), sum) in WORK.iter().zip(sums) {
            let line = line.of(place.name()).under("mean of all streams");
            data.put(&line, *work, sum / STREAMS.len() as f64);
        }
    }
    for shape in ["drives-find-half", "cache-reads", "hooks-near"] {
        let of = answers.iter().filter(|(of, _)| *of == shape);
        let (holds, figure) = all(of.map(|(_, answer)| answer.clone()));
        data.shows(shape, holds, figure)?;
    }
    whole_drives::run(settings, data, &STREAMS)
}

/// A statement, a stream, and whether and by what figure it is so there.
pub type Said = (&'static str, (String, (bool, String)));

/// Whether what was predicted holds on a stream, of [`Place::Nowhere`] and [`PLACES`].
fn said(stream: Stream, [none, cache, drives, server, hooks]: &[Took; 5]) -> Vec<Said> {
    let mut answers = Vec::new();
    let mut answer = |shape, holds, figure| {
        answers.push((shape, (stream.name().to_owned(), (holds, figure))));
    };
    let share = (1.0 - drives.written) / (1.0 - server.written);
    if [Stream::Copies, Stream::SmallFiles, Stream::Clients].contains(&stream) {
        answer("drives-find-half", share < 0.5, format!("{:.0} %", 100.0 * share));
    }
    if 1.0 - server.written > 1.0 / 3.0 {
        let (ours, theirs) = (cache.read / none.read, drives.read / none.read);
        let figure = format!("{ours:.2} and {theirs:.2} times");
        answer("cache-reads", ours <= 0.9 && theirs >= 1.0, figure);
    }
    if ![Stream::Scattered, Stream::DataSet].contains(&stream) {
        let more = hooks.written / server.written;
        answer("hooks-near", more <= 1.25, format!("{more:.2} times"));
    }
    answers
}

fn put(
    data: &mut Data,
    place: Place,
    stream: &str,
    took: &Took,
    none: &Took,
    sums: &mut [f64; WORK.len()],
) {
    let line = Line::new("left of what no deduplication takes", "%").over("work", "");
    let line = line.of(place.name()).under(stream);
    for ((work, of), sum) in WORK.iter().zip(sums) {
        let left = 100.0 * of(took) / of(none);
        *sum += left;
        data.put(&line, *work, left);
    }
    let costs: [(&str, &str, f64); 2] = [
        ("memory for fingerprints", "B a chunk", took.memory_bytes),
        ("table pages read", "a chunk", took.table_reads),
    ];
    for (name, unit, value) in costs {
        data.put(&Line::new(name, unit).over("stream", "").of(place.name()), stream, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a stream of which drives, a server and one with hooks still write such
    /// shares, and of which the drives are read so often behind a cache and under such drives.
    fn holds(stream: Stream, written: [f64; 3], read: [f64; 2]) -> Vec<(&'static str, bool)> {
        let none = Took { written: 1.0, read: 0.5, ..Took::default() };
        let of = |written, read| Took { written, read: 0.5 * read, ..none };
        let [drives, server, hooks] = written;
        let [cached, of_drives] = read;
        let took = [none, of(1.0, cached), of(drives, of_drives), of(server, 1.0), of(hooks, 1.0)];
        let said = said(stream, &took).into_iter();
        said.map(|(shape, (_, (holds, _)))| (shape, holds)).collect()
    }

    #[test]
    fn each_prediction_is_of_its_streams_and_holds_and_fails_by_its_own_figures() {
        let [half, cache, near] = ["drives-find-half", "cache-reads", "hooks-near"];
        let (written, read) = ([0.7501, 0.5, 0.625], [0.9, 1.0]);
        for stream in STREAMS {
            let all = [(half, true), (cache, true), (near, true)];
            let of = match stream {
                Stream::Copies | Stream::SmallFiles | Stream::Clients => &all[..],
                Stream::Versions => &all[1..],
                Stream::Scattered | Stream::DataSet => &all[1..2],
            };
            assert_eq!(holds(stream, written, read), of, "{stream:?}");
        }
        let fails = |written, read| {
            let said = holds(Stream::Copies, written, read).into_iter();
            said.filter(|(_, holds)| !holds).map(|(shape, _)| shape).collect::<Vec<_>>()
        };
        assert_eq!(fails([0.75, 0.5, 0.625], read), [half]);
        assert_eq!(fails([0.7501, 0.5, 0.6251], read), [near]);
        assert_eq!(fails(written, [0.91, 1.0]), [cache]);
        assert_eq!(fails(written, [0.9, 0.99]), [cache]);
        // Of a third of duplicates nothing is said.
        let thirds = [1.0 - 1.0 / 3.0, 0.66];
        let said = thirds.map(|server| holds(Stream::DataSet, [1.0, server, 1.0], read));
        assert_eq!(said, [vec![], vec![(cache, true)]]);
    }
}
