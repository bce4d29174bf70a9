//! Beyond the papers: where to deduplicate, in the drives, before them, or in the cache.
//! Room: onefold-lab.   In: streams of chunks.   Out: what drives and cache are still asked for.
//! Source: ours; [ajdari-talk] "Intra-SSD Deduplication" for drives that deduplicate alone.

use onefold_array::decide::index::Index;
use onefold_array::{ServerSpec, SpecBuilder};
use onefold_cache::{Capacity, Policy, make_online};
use onefold_sim::{RandomStreams, Ratio, Zipf};

use super::streams::Stream;
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
    for at in (1..chunks).rev() {
        shuffled.swap(at, order.below(at as u64 + 1) as usize);
    }
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
    let unique = chunks.iter().max().map_or(0, |most| *most as usize + 1);
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
    let (mut half, mut fewer, mut near) = (Vec::new(), Vec::new(), Vec::new());
    for stream in STREAMS {
        let chunks = stream.chunks(length, settings.number("seed")?)?;
        let places: Vec<Place> = [Place::Nowhere].into_iter().chain(PLACES).collect();
        let took = settings.sweep(&places, |&place| replay(settings, place, &chunks, &asked));
        let took = took.into_iter().collect::<Result<Vec<_>>>()?;
        let [none, cache, drives, server, hooks] = took[..] else { continue };
        for ((place, took), sums) in PLACES.iter().zip(&took[1..]).zip(&mut sums) {
            put(data, *place, stream.name(), took, &none, sums);
        }
        let name = || stream.name().to_owned();
        let share = (1.0 - drives.written) / (1.0 - server.written);
        if [Stream::Copies, Stream::SmallFiles, Stream::Clients].contains(&stream) {
            half.push((name(), (share < 0.5, format!("{:.0} %", 100.0 * share))));
        }
        if 1.0 - server.written > 1.0 / 3.0 {
            let (ours, theirs) = (cache.read / none.read, drives.read / none.read);
            let figure = format!("{ours:.2} and {theirs:.2} times");
            fewer.push((name(), (ours <= 0.9 && theirs >= 1.0, figure)));
        }
        if ![Stream::Scattered, Stream::DataSet].contains(&stream) {
            let more = hooks.written / server.written;
            near.push((name(), (more <= 1.25, format!("{more:.2} times"))));
        }
    }
    let line = Line::new("left of what no deduplication takes", "%").over("work", "");
    for (place, sums) in PLACES.iter().zip(sums) {
        for ((work, _), sum) in WORK.iter().zip(sums) {
            let line = line.of(place.name()).under("mean of all streams");
            data.put(&line, *work, sum / STREAMS.len() as f64);
        }
    }
    for (shape, answers) in
        [("drives-find-half", half), ("cache-reads", fewer), ("hooks-near", near)]
    {
        let (holds, figure) = all(answers);
        data.shows(shape, holds, figure)?;
    }
    whole_drives::run(settings, data, &STREAMS)
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
