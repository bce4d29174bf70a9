//! The cache between two devices that are as slow as what they stand for: a hard disk behind, a
//! SATA SSD before; loop devices, throttled by control groups.
//! Room: onefold-bench.
//! Bytes are those that the kernel counts at the devices, with all that file systems add. The
//! server has little memory, as the kernel would keep what was read from the slow device in it.

mod cage;
mod device;
mod reader;

use std::path::Path;

use anyhow::Result;
use rustix::process::geteuid;

use crate::lab::Lab;
use crate::report::{Goal, Row, Unit};
use cage::{Cage, Speed};
use device::{Asked, Device};
use reader::{Files, How, Reader, Took, Volume, cache_arguments};

const GROUP: &str = "throttled";
/// 7,200 turns a minute: 120 requests in a second.
const SLOW: Speed = Speed { requests: 120, bytes: 150_000_000 };
const FAST: Speed = Speed { requests: 20_000, bytes: 500_000_000 };
/// Bytes of a store for each byte of its cache.
const SHARE: u64 = 4;
/// Memory of the server, with what the kernel keeps of files for it.
const MEMORY_BYTES: u64 = 48 << 20;
/// What stands before the store. The second is what others are compared with. PLC's own threshold
/// is for a cache that sees every read, where memory before this one takes the first ones.
const SIDES: [(&str, Option<&str>); 6] = [
    ("no cache", None),
    ("LRU", Some("lru")),
    ("PLC", Some("plc")),
    ("PLC, threshold 1", Some("plc:threshold=1")),
    ("PLC, threshold 0", Some("plc:threshold=0")),
    ("Toll", Some("toll")),
];

/// What a side came to.
struct Came {
    /// The last part: the same reads as in the first, after all was read once.
    last: Took,
    slow: Asked,
    fast: Asked,
    seconds: f64,
}

/// Measure a pool and an archive.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    if !geteuid().is_root() {
        eprintln!("throttled: skipped, as loop devices and control groups take root");
        return Ok(Vec::new());
    }
    let bytes: u64 = lab.pick(256 << 20, 4 << 20);
    let mut rows = Vec::new();
    for name in ["pool, 64 KiB", "archive, files of 64 to 512 KiB"] {
        if !lab.wants(name) {
            continue;
        }
        let mut all = Vec::new();
        let sides = lab.pick(&SIDES[..], &SIDES[1..2]);
        for &(side, policy) in sides {
            eprintln!("throttled: {name}, {side}");
            match measure(lab, name, policy, bytes) {
                Ok(came) => all.push((side, came)),
                // A machine may lack any of it.
                Err(error) if all.is_empty() => {
                    eprintln!("throttled: {name} is skipped: {error:#}");
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        rows.extend(rows_of(name, &all));
    }
    Ok(rows)
}

fn measure(lab: &Lab, name: &str, policy: Option<&str>, bytes: u64) -> Result<Came> {
    let scratch = lab.scratch()?;
    let slow = Device::make(scratch.path(), "slow", bytes * 3 + (256 << 20))?;
    let fast = Device::make(scratch.path(), "fast", bytes + (256 << 20))?;
    let folder = fast.at.join("cache");
    let cache = policy.map(|policy| (folder.as_path(), policy, bytes / SHARE));
    let cache = cache_arguments(cache);
    let is_pool = name.starts_with("pool");
    if is_pool {
        Volume::fill(&slow.at, bytes, &cache)?;
    } else {
        Files::fill(&slow.at, scratch.path(), bytes, &cache)?;
    }
    slow.forget()?;
    fast.forget()?;
    let cage = Cage::new("onefold-bench")?;
    cage.slow_down(&slow.numbers()?, SLOW)?;
    cage.slow_down(&fast.numbers()?, FAST)?;
    cage.hold(MEMORY_BYTES)?;
    let before = (slow.asked()?, fast.asked()?);
    let mut reader = serve(is_pool, &slow.at, &scratch.path().join("mount"), (bytes, &cage))?;
    let first = reader.read(How::Often)?;
    let scan = reader.read(How::Once)?;
    let last = reader.read(How::Often)?;
    reader.stop()?;
    Ok(Came {
        last,
        slow: slow.asked()?.since(before.0),
        fast: fast.asked()?.since(before.1),
        seconds: first.all + scan.all + last.all,
    })
}

fn serve(
    is_pool: bool,
    folder: &Path,
    mount: &Path,
    (bytes, cage): (u64, &Cage),
) -> Result<Box<dyn Reader>> {
    Ok(if is_pool {
        Box::new(Volume::serve(folder, bytes, cage)?)
    } else {
        Box::new(Files::serve(folder, mount, cage)?)
    })
}

/// Latency, requests to the slow device and bytes written to the fast one, beside LRU's.
fn rows_of(name: &str, all: &[(&str, Came)]) -> Vec<Row> {
    let Some((_, reference)) = all.iter().find(|(side, _)| *side == SIDES[1].0) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for (side, came) in all {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let is_ours = *side == SIDES[SIDES.len() - 1].0;
        let mut add = |what: &str, ours: f64, theirs: f64, note: String| {
            rows.push(Row {
                goal: is_ours.then_some(Goal::AtMost(1.0)),
                note,
                ..Row::new(
                    GROUP,
                    format!("{name}: {what}, {side} / LRU"),
                    ours / theirs,
                    Unit::Share,
                )
            });
        };
        let (last, lru) = (came.last, reference.last);
        let note = format!("{:.2} ms, 99th {:.1} ms", last.mean * 1e3, last.p99 * 1e3);
        add("mean time of a read after a scan", last.mean, lru.mean, note);
        let note = format!("{:.1} MiB, all took {:.0} s", mib(came.slow.read_bytes), came.seconds);
        let requests = came.slow.reads as f64;
        add("requests to the slow device", requests, reference.slow.reads as f64, note);
        if *side != SIDES[0].0 {
            let note = format!("{:.1} MiB", mib(came.fast.written_bytes));
            let (ours, theirs) = (came.fast.written_bytes, reference.fast.written_bytes);
            add("written to the fast device", ours as f64, theirs as f64, note);
        }
    }
    rows
}
