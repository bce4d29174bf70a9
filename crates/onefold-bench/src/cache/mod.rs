//! The cache before a pool beside nbdkit's cache filter: the same requests by fio, as many bytes of
//! a fast device.
//! Room: onefold-bench.
//! What counts are bytes, which are the same in every run and on every machine: read from the slow
//! store, read from the fast device and written to it. The filter's are those of its log of the
//! file below, and of its system calls besides; ours are the server's own, which tests hold against
//! its media. The filter writes back: what clients write is in its cache, too; ours has it only
//! where it is told to write through.

mod sides;

use anyhow::Result;

use crate::data;
use crate::lab::Lab;
use crate::report::{Goal, Row, Unit};

use sides::{Bytes, Filter, Side, Tier};

const GROUP: &str = "cache";

/// What is asked, of a volume of so many bytes.
struct Job {
    name: &'static str,
    options: &'static [&'static str],
    /// Bytes that are asked for, per byte of the volume.
    times: f64,
    /// Whether it goes on where the last one stood, with the servers started anew.
    again: bool,
}

impl Job {
    /// Whether our side keeps new data at once, which is not the default.
    fn is_through(&self) -> bool {
        self.name.ends_with("write-through")
    }
}

const ZIPF_08: [&str; 3] = ["--rw=randread", "--bs=64k", "--random_distribution=zipf:0.8"];
const ZIPF_11: [&str; 3] = ["--rw=randread", "--bs=64k", "--random_distribution=zipf:1.1"];
const ZIPF_12: [&str; 3] = ["--rw=randread", "--bs=64k", "--random_distribution=zipf:1.2"];

const MIXED: [&str; 6] = [
    "--rw=randrw",
    "--rwmixread=70",
    "--bs=64k",
    "--random_distribution=zipf:1.1",
    "--buffer_compress_percentage=50",
    "--refill_buffers",
];

const JOBS: [Job; 8] = [
    Job { name: "64 KiB random, Zipf 0.8", options: &ZIPF_08, times: 1.5, again: false },
    Job { name: "64 KiB random, Zipf 1.1", options: &ZIPF_11, times: 1.5, again: false },
    Job { name: "the same after a restart", options: &ZIPF_11, times: 1.5, again: true },
    Job { name: "64 KiB random, Zipf 1.2", options: &ZIPF_12, times: 1.5, again: false },
    Job {
        name: "sequential, 4 KiB, once",
        options: &["--rw=read", "--bs=4k"],
        times: 1.0,
        again: false,
    },
    Job {
        name: "sequential, 256 KiB, once",
        options: &["--rw=read", "--bs=256k"],
        times: 1.0,
        again: false,
    },
    Job { name: "64 KiB, 30 % writes, Zipf 1.1", options: &MIXED, times: 1.5, again: false },
    Job { name: "the same, write-through", options: &MIXED, times: 1.5, again: false },
];

/// Measure both, with data that compresses to half and with data that does not compress.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    let bytes: u64 = lab.pick(256 << 20, 8 << 20);
    let mut rows = Vec::new();
    for (content, compressible) in [("half", true), ("noise", false)] {
        let scratch = lab.scratch()?;
        let image = scratch.path().join("content");
        write_image(&image, bytes, compressible)?;
        let mut sides: Vec<Box<dyn Side>> = Vec::new();
        for job in &JOBS {
            let name = format!("{}, {content}", job.name);
            if !job.again && !lab.wants(&name) {
                sides.clear();
            }
            if sides.is_empty() && job.again || !job.again && !lab.wants(&name) {
                continue;
            }
            eprintln!("cache: {name}");
            if !job.again {
                sides.clear();
                sides.push(Box::new(Tier::new(lab, &image, bytes, job.is_through())?));
                sides.push(Box::new(Filter::new(lab, &image, bytes)?));
            }
            let mut ran = Vec::new();
            for side in &mut sides {
                let size = format!("--size={bytes}");
                let io = format!("--io_size={}", (bytes as f64 * job.times) as u64);
                let job: Vec<&str> = job.options.iter().copied().chain([&*size, &io]).collect();
                ran.push(side.run(&job)?);
            }
            rows.extend(rows_of(&name, &ran[0], &ran[1]));
        }
    }
    Ok(rows)
}

fn write_image(path: &std::path::Path, bytes: u64, compressible: bool) -> Result<()> {
    let content = if compressible {
        data::unique(1, bytes as usize)
    } else {
        onefold_block::SplitMix64::new(1).bytes(bytes as usize)
    };
    Ok(std::fs::write(path, content)?)
}

/// Slow bytes and bytes written to the fast device, as shares of the filter's.
fn rows_of(name: &str, ours: &Bytes, theirs: &Bytes) -> [Row; 2] {
    let mib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    let share = |ours: u64, theirs: u64| ours as f64 / theirs.max(1) as f64;
    let row = |what: &str, ours: u64, theirs: u64, note: String| Row {
        goal: Some(Goal::AtMost(0.999)),
        note: format!("{} of {} MiB; {note}", mib(ours), mib(theirs)),
        ..Row::new(GROUP, format!("{name}: {what}"), share(ours, theirs), Unit::Share)
    };
    let slow = format!(
        "hits {:.1} and {:.1} % of bytes; server CPU {:.2} and {:.2} s",
        ours.hit_share * 100.0,
        theirs.hit_share * 100.0,
        ours.cpu,
        theirs.cpu
    );
    let fast = format!("{} and {} MiB read from there", mib(ours.fast_read), mib(theirs.fast_read));
    [
        row("read from the slow store", ours.slow_read, theirs.slow_read, slow),
        row("written to the fast device", ours.fast_written, theirs.fast_written, fast),
    ]
}
