//! Over NBD on a Unix socket: real clients against `onefold serve` and `nbdkit memory`, in turn.
//! Room: onefold-bench.
//! Speeds are by the wall clock: what clients and servers share is the machine, so a busy one
//! slows both. CPU seconds are those of client and server together. Duplicates are spread as
//! fio's `dedupe_mode=working_set` spreads them; its default puts each next to its original.

pub mod clients;
mod machine;
pub mod servers;

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use onefold_block::ByteSize;

use crate::data::{self, BLOCK};
use crate::lab::Lab;
use crate::measure::median_of;
use crate::report::{Goal, Row, Unit};

use clients::Run;
use servers::{Kind, Server};

const GROUP: &str = "nbd";
const KINDS: [Kind; 2] = [Kind::Onefold, Kind::Nbdkit];

/// A run against each server, in the order of [`KINDS`].
pub type Pair = [Run; 2];

/// Measure everything over NBD.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if lab.wants("cached") {
        rows.extend(cached_reads(lab)?);
    }
    if lab.wants("copy") {
        rows.extend(copies(lab)?);
    }
    if lab.wants("fio writes") {
        rows.extend(fio_writes(lab)?);
    }
    if lab.wants("machine") {
        rows.push(machine(lab)?);
    }
    Ok(rows)
}

/// Random reads by a virtual machine's disk against those by NBD, from the same server: operations
/// per CPU second of the server.
fn machine(lab: &Lab) -> Result<Row> {
    let bytes: u64 = lab.pick(128 << 20, 4 << 20);
    let requests: u64 = lab.pick(512 << 20, bytes) / BLOCK as u64;
    let scratch = lab.scratch()?;
    let source = scratch.path().join("image");
    image(&source, 1.., bytes / BLOCK as u64)?;
    let socket = scratch.path().join("machine");
    let server = Server::start_with(
        (Kind::Onefold, scratch.path(), ByteSize(bytes)),
        &["--vhost-user".as_ref(), socket.as_ref()],
    )?;
    clients::nbdcopy(&server, Some(&source), bytes)?;
    let size = format!("--size={bytes}");
    clients::fio(&server, &["--rw=read", "--bs=128k", "--iodepth=8", &size])?;
    let mut driver = machine::Driver::connect(&socket, 32)?;
    driver.read(&server, bytes, requests)?;
    let io = format!("--io_size={}", requests * BLOCK as u64);
    let job = ["--rw=randread", "--bs=4k", "--iodepth=32", &size, &io];
    let name = "machine, read 4 KiB random, depth 32, operations per CPU second against NBD";
    let pairs = rounds(lab, name, |number| match number {
        0 => driver.read(&server, bytes, requests),
        _ => clients::fio(&server, &job),
    })?;
    let cpu = |run: &Run| run.server_cpu / run.bytes * BLOCK as f64;
    let value = median_of(&pairs, |pair| cpu(&pair[1]) / cpu(&pair[0]));
    let note = format!(
        "server alone {:.2} us an operation; over NBD {:.2} us",
        median_of(&pairs, |pair| cpu(&pair[0]) * 1e6),
        median_of(&pairs, |pair| cpu(&pair[1]) * 1e6),
    );
    drop(driver);
    server.stop()?;
    Ok(Row {
        speed: Some(median_of(&pairs, |pair| pair[0].speed)),
        reference: Some(median_of(&pairs, |pair| pair[1].speed)),
        cpu_per_gib: Some(median_of(&pairs, |pair| pair[0].server_cpu_per_gib())),
        goal: Some(Goal::AtLeast(1.5)),
        note,
        ..Row::new(GROUP, name, value, Unit::Times)
    })
}

/// Write an image of whole blocks with these seeds.
fn image(path: &Path, seeds: impl Iterator<Item = u64>, blocks: u64) -> Result<()> {
    let mut seeds = seeds.take(blocks as usize).peekable();
    let file = std::fs::File::create(path).context("cannot make an image")?;
    let mut file = std::io::BufWriter::with_capacity(1 << 20, file);
    let mut data = vec![0; BLOCK];
    while seeds.peek().is_some() {
        data::half_compressible(seeds.by_ref(), &mut data);
        file.write_all(&data).context("cannot write an image")?;
    }
    file.flush().context("cannot write an image")
}

/// Sequential and random reads of data that fits the read cache.
fn cached_reads(lab: &Lab) -> Result<Vec<Row>> {
    let bytes: u64 = lab.pick(128 << 20, 4 << 20);
    let scratch = lab.scratch()?;
    let source = scratch.path().join("image");
    image(&source, 1.., bytes / BLOCK as u64)?;
    let size = format!("--size={bytes}");
    let sequential_io = format!("--io_size={}", lab.pick(2u64 << 30, bytes));
    let random_io = format!("--io_size={}", lab.pick(512u64 << 20, bytes));
    let warm = ["--rw=read", "--bs=128k", "--iodepth=8", &size];
    let jobs: [(&str, [&str; 5]); 3] = [
        (
            "cached, read 128 KiB sequential, depth 8",
            ["--rw=read", "--bs=128k", "--iodepth=8", &size, &sequential_io],
        ),
        (
            "cached, read 4 KiB random, depth 32",
            ["--rw=randread", "--bs=4k", "--iodepth=32", &size, &random_io],
        ),
        (
            "cached, read 4 KiB random, depth 1",
            ["--rw=randread", "--bs=4k", "--iodepth=1", &size, &random_io],
        ),
    ];
    let mut servers = Vec::new();
    for kind in KINDS {
        let server = Server::start(kind, scratch.path(), ByteSize(bytes))?;
        clients::nbdcopy(&server, Some(&source), bytes)?;
        for _ in 0..2 {
            clients::fio(&server, &warm)?;
        }
        servers.push(server);
    }
    let mut rows = Vec::new();
    for (name, job) in &jobs {
        let pairs = rounds(lab, name, |number| clients::fio(&servers[number], job))?;
        let share = |pair: &Pair| pair[0].speed / pair[1].speed;
        let goal = (!name.ends_with("depth 1")).then_some(Goal::AtLeast(0.8));
        rows.push(Row { goal, ..row(GROUP, name, &pairs, median_of(&pairs, share), Unit::Share) });
    }
    for server in servers {
        server.stop()?;
    }
    Ok(rows)
}

/// Run the same against both servers, in turn, several times.
fn rounds(lab: &Lab, name: &str, mut run: impl FnMut(usize) -> Result<Run>) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    for round in 0..lab.rounds {
        eprintln!("nbd: {name}, round {} of {}", round + 1, lab.rounds);
        pairs.push([run(0)?, run(1)?]);
    }
    Ok(pairs)
}

/// A row about pairs of runs.
pub fn row(group: &'static str, name: &str, pairs: &[Pair], value: f64, unit: Unit) -> Row {
    let note = format!(
        "server alone {:.2}; nbdkit memory {:.2}, server alone {:.2}",
        median_of(pairs, |pair| pair[0].server_cpu_per_gib()),
        median_of(pairs, |pair| pair[1].cpu_per_gib()),
        median_of(pairs, |pair| pair[1].server_cpu_per_gib()),
    );
    Row {
        speed: Some(median_of(pairs, |pair| pair[0].speed)),
        reference: Some(median_of(pairs, |pair| pair[1].speed)),
        cpu_per_gib: Some(median_of(pairs, |pair| pair[0].cpu_per_gib())),
        note,
        ..Row::new(group, name, value, unit)
    }
}

/// CPU seconds of both sides: an image copied to a fresh server, and back to nowhere.
fn copies(lab: &Lab) -> Result<Vec<Row>> {
    let bytes: u64 = lab.pick(1 << 30, 16 << 20);
    let blocks = bytes / BLOCK as u64;
    let scratch = lab.scratch()?;
    let images = [("unique", 4.5), ("75 % duplicates", 2.5)];
    let paths = images.map(|(name, _)| scratch.path().join(name.replace(' ', "-")));
    image(&paths[0], 1.., blocks)?;
    image(&paths[1], data::working_set_seeds(75, blocks).into_iter(), blocks)?;
    let mut rows = Vec::new();
    for ((name, most), path) in images.iter().zip(&paths) {
        let mut reads: Vec<Pair> = Vec::new();
        let mut read_back: Vec<Run> = Vec::new();
        let writes = rounds(lab, &format!("copy, {name}"), |number| {
            let folder = lab.scratch()?;
            let server = Server::start(KINDS[number], folder.path(), ByteSize(bytes))?;
            let run = clients::nbdcopy(&server, Some(path), bytes)?;
            read_back.push(clients::nbdcopy(&server, None, bytes)?);
            server.stop()?;
            Ok(run)
        })?;
        for pair in read_back.chunks_exact(2) {
            reads.push([pair[0], pair[1]]);
        }
        for (verb, pairs, most) in [("write", &writes, *most), ("read", &reads, 2.0)] {
            let cpu = median_of(pairs, |pair| pair[0].cpu_per_gib());
            let name = format!("copy, {verb} {name}, 128 KiB");
            let goal = Some(Goal::AtMost(most));
            rows.push(Row { goal, ..row(GROUP, &name, pairs, cpu, Unit::CpuPerGib) });
        }
    }
    Ok(rows)
}

/// An image of unique blocks copied to fresh servers.
pub fn unique_copies(lab: &Lab) -> Result<Vec<Pair>> {
    let bytes: u64 = lab.pick(1 << 30, 16 << 20);
    let scratch = lab.scratch()?;
    let path = scratch.path().join("unique");
    image(&path, 1.., bytes / BLOCK as u64)?;
    rounds(lab, "copy, unique", |number| {
        let folder = lab.scratch()?;
        let server = Server::start(KINDS[number], folder.path(), ByteSize(bytes))?;
        let run = clients::nbdcopy(&server, Some(&path), bytes)?;
        server.stop()?;
        Ok(run)
    })
}

/// Writes by fio, which makes the data as it goes: its own CPU seconds are among those shown.
fn fio_writes(lab: &Lab) -> Result<Vec<Row>> {
    let bytes: u64 = lab.pick(512 << 20, 8 << 20);
    let size = format!("--size={bytes}");
    let common = [
        "--rw=write",
        "--bs=128k",
        "--iodepth=8",
        "--buffer_compress_percentage=50",
        "--refill_buffers",
        "--end_fsync=1",
        &size,
    ];
    let spread = [
        "--dedupe_percentage=75",
        "--dedupe_mode=working_set",
        "--dedupe_working_set_percentage=20",
    ];
    let jobs: [(&str, &[&str]); 2] =
        [("fio writes unique, 128 KiB", &[]), ("fio writes 75 % duplicates, 128 KiB", &spread)];
    let mut rows = Vec::new();
    for (name, more) in jobs {
        let job: Vec<&str> = common.iter().chain(more).copied().collect();
        let pairs = rounds(lab, name, |number| {
            let folder = lab.scratch()?;
            let server = Server::start(KINDS[number], folder.path(), ByteSize(bytes))?;
            let run = clients::fio(&server, &job)?;
            server.stop()?;
            Ok(run)
        })?;
        let share = |pair: &Pair| pair[0].speed / pair[1].speed;
        rows.push(row(GROUP, name, &pairs, median_of(&pairs, share), Unit::Share));
    }
    Ok(rows)
}
