//! The slowest of many small writes over NBD: `onefold serve` and `nbdkit file`, in turn.
//! Room: onefold-bench.

use anyhow::Result;
use onefold_block::ByteSize;

use super::GROUP;
use crate::lab::Lab;
use crate::measure::median_of;
use crate::nbd::clients;
use crate::nbd::servers::{Kind, Server};
use crate::report::{Goal, Row, Unit};

const KINDS: [Kind; 2] = [Kind::Onefold, Kind::NbdkitFile];

/// 4 KiB random writes, depth 8: onto a full volume, and all over a large one that is empty, where
/// nearly each of them changes another page of the map.
pub fn run(lab: &Lab) -> Result<Vec<Row>> {
    let full = onto(lab, lab.pick(4 << 30, 8 << 20), true)?;
    Ok(vec![full, onto(lab, lab.pick(64 << 30, 64 << 20), false)?])
}

/// The same onto a volume of so many bytes.
fn onto(lab: &Lab, volume: u64, full: bool) -> Result<Row> {
    let written: u64 = lab.pick(1 << 30, 1 << 20);
    let size = format!("--size={volume}");
    let data = ["--buffer_compress_percentage=50", "--refill_buffers"];
    let fill = ["--rw=write", "--bs=128k", "--iodepth=8", &size, data[0], data[1]];
    let io = format!("--io_size={written}");
    let job = ["--rw=randwrite", "--bs=4k", "--iodepth=8", "--norandommap", &size, &io];
    let job = [&job[..], &data].concat();
    let state = if full { "a full volume" } else { "an empty one" };
    let mut pairs: Vec<[clients::Run; 2]> = Vec::new();
    for round in 0..lab.rounds {
        eprintln!("space: 4 KiB writes onto {state}, round {} of {}", round + 1, lab.rounds);
        let one = |kind| -> Result<clients::Run> {
            let folder = lab.scratch()?;
            let server = Server::start(kind, folder.path(), ByteSize(volume))?;
            if full {
                clients::fio(&server, &fill)?;
            }
            let run = clients::fio(&server, &job)?;
            server.stop()?;
            Ok(run)
        };
        pairs.push([one(KINDS[0])?, one(KINDS[1])?]);
    }
    let share = |pair: &[clients::Run; 2]| pair[0].slowest / pair[1].slowest;
    let name = format!(
        "p99.99 of 4 KiB random writes, depth 8, {}, against nbdkit file",
        ByteSize(volume)
    );
    let milliseconds = |number: usize| median_of(&pairs, |pair| pair[number].slowest) * 1e3;
    let note = format!(
        "medians {:.1} ms and {:.1} ms; {} written onto {state}",
        milliseconds(0),
        milliseconds(1),
        ByteSize(written)
    );
    Ok(Row {
        goal: lab.pick(Some(Goal::AtMost(1.5)), None),
        speed: Some(median_of(&pairs, |pair| pair[0].speed)),
        reference: Some(median_of(&pairs, |pair| pair[1].speed)),
        cpu_per_gib: Some(median_of(&pairs, |pair| pair[0].cpu_per_gib())),
        note,
        ..Row::new(GROUP, name, median_of(&pairs, share), Unit::Times)
    })
}
