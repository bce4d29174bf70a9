//! Beyond the papers: where to deduplicate, with every drive simulated whole and in time.
//! Room: onefold-lab.   In: streams of chunks.   Out: what drives program, and what requests take.
//! Source: ours; drives that deduplicate alone are those of `onefold ssd run` under `gleaner`. A
//! server before the same drives finds what it can, compresses nothing, and pays for its table with
//! cores and reads.

use onefold_array::{Report, RunOptions, ServerSpec, run as run_server};
use onefold_flash::DriveSpec;
use onefold_flash::spec::SpecBuilder as DriveBuilder;
use onefold_workload::{Identity, Request};

use super::streams::{Stream, contents};
use super::whereabouts::{CHUNK_BYTES, Place, Said, described, reads};
use crate::error::Result;
use crate::experiments::drives::of_page;
use crate::series::{Data, Line};
use crate::settings::Settings;
use crate::shape::all;

/// A cache holds back reads and no writes, and the server has none: it is left out here.
const PLACES: [Place; 4] = [Place::Nowhere, Place::Drives, Place::Server, Place::Hooks];
/// Share of what a stream writes that a server leaves at most where it carries more, as predicted.
const WORTH: f64 = 2.0 / 3.0;

/// Contents are told apart by their numbers alone.
const SEED_OF_CONTENTS: u64 = 0;

/// Runs every stream before every place, and says what was predicted of them.
pub fn run(settings: &Settings<'_>, data: &mut Data, streams: &[Stream]) -> Result<()> {
    let (length, seed) = (settings.number("whole_chunks")? as usize, settings.number("seed")?);
    let asked = reads(settings, length)?;
    let chunks = streams.iter().map(|stream| stream.chunks(length, seed));
    let chunks = chunks.collect::<Result<Vec<_>>>()?;
    let points: Vec<(usize, Place)> =
        (0..streams.len()).flat_map(|stream| PLACES.map(|place| (stream, place))).collect();
    let reports =
        settings.sweep(&points, |&(stream, place)| one(settings, place, &chunks[stream], &asked));
    let reports = reports.into_iter().collect::<Result<Vec<_>>>()?;
    let mut answers = Vec::new();
    for ((stream, chunks), reports) in
        streams.iter().zip(&chunks).zip(reports.chunks_exact(PLACES.len()))
    {
        for (place, report) in PLACES.iter().zip(reports) {
            put(data, *place, stream.name(), report);
        }
        let [_, drives, server, _] = reports else { continue };
        let least = left_alone(chunks, settings.number("drives")? as usize);
        let of = |report: &Report| (programmed(report), report.gb_per_s);
        answers.extend(said(*stream, of(drives), of(server), least));
    }
    for shape in ["whole-more", "whole-as-counted", "whole-sooner"] {
        let of = answers.iter().filter(|(of, _)| *of == shape);
        let (holds, figure) = all(of.map(|(_, answer)| answer.clone()));
        data.shows(shape, holds, figure)?;
    }
    Ok(())
}

/// Whether what was predicted holds on a stream, by what drives alone and those behind a server
/// program of what is written, in percent, at what throughput in GB/s, and by the least that drives
/// alone have to program.
fn said(
    stream: Stream,
    (alone, theirs): (f64, f64),
    (behind, ours): (f64, f64),
    least: f64,
) -> Vec<Said> {
    let answer = |shape, holds, figure| (shape, (stream.name().to_owned(), (holds, figure)));
    let mut answers = vec![
        answer("whole-more", alone > behind, format!("{alone:.1} and {behind:.1} %")),
        answer("whole-as-counted", alone - least <= 5.0, format!("{alone:.1} and {least:.1} %")),
    ];
    if behind < 100.0 * WORTH {
        let figure = format!("{ours:.2} and {theirs:.2} GB/s");
        answers.push(answer("whole-sooner", ours > theirs, figure));
    }
    answers
}

fn put(data: &mut Data, place: Place, stream: &str, report: &Report) {
    let line = |name: &str, unit: &str| Line::new(name, unit).over("stream", "").of(place.name());
    let share = line("programmed by whole drives, of what was written", "%");
    data.put(&share, stream, programmed(report));
    data.put(&line("throughput with whole drives", "GB/s"), stream, report.gb_per_s);
    let Some(drives) = &report.drives else { return };
    for (name, times) in [("writes to", drives.write_ns), ("reads from", drives.read_ns)] {
        let line = line(&format!("99 % of {name} whole drives take at most"), "ms");
        data.put(&line, stream, times.map(|(_, p99_ns)| p99_ns as f64 / 1e6));
    }
}

/// Bytes of programmed pages, of what clients wrote, in percent. A page is a chunk: each is full.
fn programmed(report: &Report) -> f64 {
    let Some(drives) = &report.drives else { return f64::NAN };
    let bytes = drives.pages_programmed * drives.page_bytes;
    100.0 * bytes as f64 / report.bytes_of_all.client_in as f64
}

/// What drives have to program that find all that each of them can see, in percent.
fn left_alone(chunks: &[u32], drives: usize) -> f64 {
    let placed = chunks.iter().enumerate().map(|(address, content)| (address % drives, *content));
    let distinct: std::collections::HashSet<_> = placed.collect();
    100.0 * distinct.len() as f64 / chunks.len() as f64
}

/// A drive that holds its part of the stream and twice as much.
fn drive(settings: &Settings<'_>, place: Place, chunks: usize) -> Result<DriveSpec> {
    let policy = if place == Place::Drives { settings.text("whole_policy")? } else { "none" };
    let preset = settings.text("whole_drive")?;
    let builder = DriveBuilder::preset(preset).map_err(|error| settings.refused(error))?;
    let spec = builder
        .file(
            "drive",
            &format!(
                "precondition = 'none'\ngeometry.page_bytes = {CHUNK_BYTES}\n\
                 geometry.pages_per_block = 32\nftl.over_provisioning = 0.28\n\
                 dedup.policy = '{policy}'\n"
            ),
        )
        .and_then(DriveBuilder::build)
        .map_err(|error| settings.refused(error))?;
    let mut spec = spec;
    let each = (3 * chunks as u64).div_ceil(settings.number("drives")?);
    let per_block = u64::from(spec.geometry.planes()) * u64::from(spec.geometry.pages_per_block);
    spec.geometry.blocks_per_plane = (each.div_ceil(per_block) as u32).max(24);
    Ok(spec)
}

/// A server that finds duplicates in a place.
fn server(settings: &Settings<'_>, place: Place, unique: usize) -> Result<ServerSpec> {
    let memory = unique as f64 * settings.real("memory_bytes_per_chunk")?;
    let mut set = vec![
        format!("seed={}", settings.number("seed")?),
        "workload.trace=stream".to_owned(),
        "workload.trace_before=nothing".to_owned(),
        format!("workload.outstanding={}", settings.number("whole_outstanding")?),
        format!("chunk_bytes={CHUNK_BYTES}"),
        "place.compression=none".to_owned(),
        "workload.compressed_share=1".to_owned(),
        "workload.compressed_spread=0".to_owned(),
        format!("cpu.metadata_ns_per_chunk={}", settings.number("metadata_ns_per_chunk")?),
        "ssd.model=drive".to_owned(),
        format!("ssd.count={}", settings.number("drives")?),
        format!("table.entries={unique}"),
        format!("table.cache_bytes={}", memory as u64),
    ];
    let preset = match place {
        Place::Server | Place::Hooks => "software",
        Place::Nowhere | Place::Drives | Place::Cache => "intra-ssd",
    };
    if place == Place::Hooks {
        let ours = described(settings, "fidr-hooks", &[])?.table;
        set.push("table.kind=hooks".to_owned());
        set.push(format!("table.sample_one_in={}", ours.sample_one_in));
        set.push(format!("table.follow_chunks={}", ours.follow_chunks));
        set.push(format!("table.policy={}", ours.policy));
    }
    described(settings, preset, &set)
}

fn one(settings: &Settings<'_>, place: Place, chunks: &[u32], asked: &[u32]) -> Result<Report> {
    let unique = contents(chunks) as usize;
    let options = RunOptions {
        requests: Some(Box::new(requests(chunks, asked).into_iter().map(Ok))),
        drive: Some(drive(settings, place, chunks.len())?),
        ..RunOptions::default()
    };
    let outcome = run_server(&server(settings, place, unique)?, options);
    Ok(outcome.map_err(|error| settings.refused(error))?.report)
}

/// Each address written once, in order, and after each write an earlier one read.
fn requests(chunks: &[u32], asked: &[u32]) -> Vec<Request> {
    let bytes = u64::from(CHUNK_BYTES);
    let pairs = chunks.iter().zip(asked).enumerate();
    let both = pairs.flat_map(|(address, (&content, &wanted))| {
        let content = Identity::of_number(SEED_OF_CONTENTS, u64::from(content));
        [
            of_page(address as u64, bytes, Some(Some(content))),
            of_page(u64::from(wanted), bytes, None),
        ]
    });
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_prediction_holds_and_fails_by_its_own_figures() {
        let fails = |alone, behind, least| {
            let said = said(Stream::Copies, alone, behind, least);
            let (count, said) = (said.len(), said.into_iter());
            let missed = said.filter(|(_, (_, (holds, _)))| !holds).map(|(shape, _)| shape);
            (count, missed.collect::<Vec<_>>())
        };
        assert_eq!(fails((80.0, 2.0), (60.0, 2.1), 75.0), (3, vec![]));
        assert_eq!(fails((80.1, 2.0), (60.0, 2.1), 75.0), (3, vec!["whole-as-counted"]));
        assert_eq!(fails((80.0, 2.0), (60.0, 2.0), 75.0), (3, vec!["whole-sooner"]));
        assert_eq!(fails((60.0, 2.0), (60.0, 2.1), 60.0), (3, vec!["whole-more"]));
        // A server that leaves two thirds need not carry more.
        assert_eq!(fails((80.0, 2.0), (100.0 * WORTH, 2.0), 75.0), (2, vec![]));
    }

    #[test]
    fn what_is_left_to_drives_alone_are_contents_that_each_sees_for_the_first_time() {
        assert!((left_alone(&[0, 0, 1, 0], 1) - 50.0).abs() < 1e-9);
        assert!((left_alone(&[0, 0, 1, 0], 2) - 75.0).abs() < 1e-9);
    }
}
