//! Streams of written chunks for indices: which content comes when.
//! Room: onefold-lab.
//! Invariants: a stream depends on its name, length and seed only; contents are numbered from 0,
//! which is that of the first chunk.

use onefold_sim::{RandomStream, RandomStreams, Ratio, Zipf};
use onefold_workload::ContentProfile;

use crate::error::{LabError, Result};

/// A way in which duplicates come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Files of 1 to 2,047 chunks, half of them copies of earlier ones.
    Copies,
    /// The same with files of 1 to 31 chunks.
    SmallFiles,
    /// 16 clients with files like those of `Copies`, taking turns after 16 chunks.
    Clients,
    /// A disk in 8 versions, each with 4 % changed in runs of up to 15 chunks.
    Versions,
    /// Over a third duplicates, each of any earlier chunk, recent ones more often: nothing that was
    /// stored together comes together.
    Scattered,
    /// The data set `desktop2` of [ses-dedup] Table III in random order.
    DataSet,
}

impl Stream {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copies => "copied files",
            Self::SmallFiles => "small files",
            Self::Clients => "16 clients",
            Self::Versions => "versions",
            Self::Scattered => "scattered",
            Self::DataSet => "data set",
        }
    }

    /// So many chunks.
    pub fn chunks(self, length: usize, seed: u64) -> Result<Vec<u32>> {
        let mut random = RandomStreams::new(seed).stream(self.name());
        let mut chunks = match self {
            Self::Copies => files(length, 11, &mut random),
            Self::SmallFiles => files(length, 5, &mut random),
            Self::Clients => clients(length, &mut random),
            Self::Versions => versions(length, &mut random),
            Self::Scattered => scattered(length, &mut random)?,
            Self::DataSet => return data_set(length, seed),
        };
        chunks.truncate(length);
        Ok(chunks)
    }
}

/// How many contents have numbers up to the last that comes. Where a stream is cut off, some of
/// them may not come.
pub fn contents(chunks: &[u32]) -> u32 {
    chunks.iter().max().map_or(0, |most| most + 1)
}

/// The number of chunks of a file: each doubling is as likely.
fn file_length(doublings: u64, random: &mut RandomStream) -> usize {
    let least = 1 << random.below(doublings);
    (least + random.below(least)) as usize
}

/// Files, one after the other.
fn files(length: usize, doublings: u64, random: &mut RandomStream) -> Vec<u32> {
    let (mut chunks, mut new) = (Vec::new(), 0);
    let mut known: Vec<std::ops::Range<u32>> = Vec::new();
    while chunks.len() < length {
        if !known.is_empty() && random.below(2) == 0 {
            chunks.extend(known[random.below(known.len() as u64) as usize].clone());
        } else {
            let end = new + file_length(doublings, random) as u32;
            known.push(new..end);
            chunks.extend(new..end);
            new = end;
        }
    }
    chunks
}

/// What several clients write, a few chunks of each in turn.
fn clients(length: usize, random: &mut RandomStream) -> Vec<u32> {
    let (clients, turn) = (16, 16);
    let mut all: Vec<Vec<u32>> = Vec::new();
    let mut first = 0;
    for _ in 0..clients {
        let own = files(length / clients + turn, 11, random);
        let new = contents(&own);
        all.push(own.iter().map(|content| first + content).collect());
        first += new;
    }
    let turns = (0..length / clients + turn).step_by(turn);
    let taken = turns.flat_map(|at| all.iter().filter_map(move |own| own.get(at..at + turn)));
    taken.flatten().copied().collect()
}

/// How often [`Stream::Versions`] has the disk.
const VERSIONS: usize = 8;

/// A disk again and again, with a few runs of it changed.
fn versions(length: usize, random: &mut RandomStream) -> Vec<u32> {
    let size = length.div_ceil(VERSIONS);
    let mut disk: Vec<u32> = (0..size as u32).collect();
    let (mut chunks, mut new) = (disk.clone(), size as u32);
    for _ in 1..VERSIONS {
        let mut changed = 0;
        while changed * 25 < size {
            let at = random.below(size as u64) as usize;
            let end = (at + 1 + random.below(15) as usize).min(size);
            for chunk in &mut disk[at..end] {
                *chunk = new;
                new += 1;
            }
            changed += end - at;
        }
        chunks.extend_from_slice(&disk);
    }
    chunks
}

fn scattered(length: usize, random: &mut RandomStream) -> Result<Vec<u32>> {
    let refused = |error: String| LabError::Refused { id: "stream".to_owned(), problem: error };
    let recency = Zipf::new(length as u64, Ratio::permille(800));
    let recency = recency.map_err(|error| refused(error.to_string()))?;
    let (mut chunks, mut new) = (Vec::with_capacity(length), 0_u32);
    for _ in 0..length {
        let back = recency.sample(random) as u32;
        if random.below(2) == 0 && back < new {
            chunks.push(new - 1 - back);
        } else {
            chunks.push(new);
            new += 1;
        }
    }
    Ok(chunks)
}

fn data_set(length: usize, seed: u64) -> Result<Vec<u32>> {
    let refused = |error: String| LabError::Refused { id: "stream".to_owned(), problem: error };
    let profile = ContentProfile::named("desktop2");
    let profile = profile.ok_or_else(|| refused("no data set desktop2".to_owned()))?;
    let set = profile.data_set(length as u64, seed).map_err(|error| refused(error.to_string()))?;
    let mut numbers = std::collections::HashMap::new();
    Ok(set
        .map(|identity| {
            let next = numbers.len() as u32;
            *numbers.entry(identity).or_insert(next)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share of chunks that came before, and of those the ones behind the chunk that they were
    /// behind before.
    fn duplicates(stream: Stream) -> (f64, f64) {
        let chunks = stream.chunks(50_000, 7).unwrap();
        assert_eq!((chunks.len(), chunks[0]), (50_000, 0), "{stream:?}");
        let mut before = vec![None; 100_000];
        let (mut seen, mut behind, mut last) = (0, 0, u32::MAX);
        for &chunk in &chunks {
            let known = &mut before[chunk as usize];
            seen += u32::from(known.is_some());
            behind += u32::from(*known == Some(last));
            *known = Some(last);
            last = chunk;
        }
        (f64::from(seen) / 50_000.0, f64::from(behind) / f64::from(seen))
    }

    #[test]
    fn streams_have_the_runs_that_they_are_named_for() {
        for (stream, share, behind) in [
            (Stream::Copies, 0.3..0.7, 0.99..1.0),
            (Stream::SmallFiles, 0.4..0.6, 0.8..0.97),
            (Stream::Clients, 0.3..0.7, 0.85..0.99),
            (Stream::Versions, 0.8..0.88, 0.97..1.0),
            (Stream::Scattered, 0.3..0.5, 0.0..0.02),
            (Stream::DataSet, 0.05..0.6, 0.0..0.1),
        ] {
            let found = duplicates(stream);
            assert!(share.contains(&found.0) && behind.contains(&found.1), "{stream:?} {found:?}");
        }
        assert_eq!((contents(&[]), contents(&[0]), contents(&[0, 1, 0, 2, 1])), (0, 1, 3));
        let again = |seed| Stream::Clients.chunks(1000, seed).unwrap();
        assert!(again(1) == again(1) && again(1) != again(2));
    }
}
