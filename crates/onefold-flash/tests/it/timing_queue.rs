//! Random reads in a closed loop against a plain model of two queues, written from the words of
//! the specification alone.
//! Room: onefold-flash.   Source: docs/ssd-validation.md, V6.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use onefold_block::SplitMix64;
use onefold_flash::run::{RunOptions, run};
use onefold_flash::spec::SpecBuilder;

const CHANNELS: usize = 4;
const DIES: usize = 16;
const READ_NS: u64 = 20_000;
const REQUESTS: u64 = 60_000;

/// Mean response when every die reads one page at a time, and keeps it until the channel that it
/// shares with three others has taken it away.
fn plain(depth: usize, transfer_ns: u64) -> f64 {
    let mut random = SplitMix64::new(5);
    let mut waiting_for_die: Vec<VecDeque<u64>> = vec![VecDeque::new(); DIES];
    let mut reading: Vec<Option<u64>> = vec![None; DIES];
    let mut waiting_for_channel: Vec<VecDeque<usize>> = vec![VecDeque::new(); CHANNELS];
    let mut taken = [false; CHANNELS];
    // (time, transfer and not read, die)
    let mut events = BinaryHeap::new();
    let mut arrivals: Vec<u64> = vec![0; depth];
    let (mut now, mut done, mut total) = (0, 0, 0);
    while done < REQUESTS {
        for begun in arrivals.drain(..) {
            waiting_for_die[random.below(DIES as u64) as usize].push_back(begun);
        }
        for die in 0..DIES {
            if reading[die].is_none() {
                reading[die] = waiting_for_die[die].pop_front();
                if reading[die].is_some() {
                    events.push(Reverse((now + READ_NS, false, die)));
                }
            }
        }
        for channel in 0..CHANNELS {
            if !taken[channel]
                && let Some(die) = waiting_for_channel[channel].pop_front()
            {
                taken[channel] = true;
                events.push(Reverse((now + transfer_ns, true, die)));
            }
        }
        let Some(Reverse((time, is_transfer, die))) = events.pop() else { continue };
        now = time;
        if is_transfer {
            taken[die % CHANNELS] = false;
            total += now - reading[die].take().expect("it was read");
            done += 1;
            arrivals.push(now);
        } else {
            waiting_for_channel[die % CHANNELS].push_back(die);
        }
    }
    total as f64 / done as f64
}

fn simulated(depth: usize, bus_mb_per_s: u64) -> f64 {
    let assignments = [
        format!("geometry.channels={CHANNELS}"),
        format!("geometry.packages={DIES}"),
        "geometry.planes_per_die=1".to_owned(),
        "geometry.blocks_per_plane=64".to_owned(),
        "geometry.pages_per_block=64".to_owned(),
        "geometry.page_bytes=8192".to_owned(),
        "geometry.oob_bytes=0".to_owned(),
        "media.code=none".to_owned(),
        "timing.parallel_unit=package".to_owned(),
        format!("timing.read_latency_ns={READ_NS}"),
        format!("timing.bus_mb_per_s={bus_mb_per_s}"),
        "over_provisioning=0.28".to_owned(),
        "workload.read_share=1".to_owned(),
        format!("workload.queue_depth={depth}"),
        format!("workload.requests={REQUESTS}"),
    ];
    let builder = SpecBuilder::preset("ses-slc").expect("a preset");
    let set = |builder: SpecBuilder, text: &String| builder.set(text);
    let spec = assignments.iter().try_fold(builder, set).and_then(SpecBuilder::build);
    let report = run(&spec.expect("a drive"), RunOptions::default()).expect("runs").report;
    report.latency_ns["read"].as_ref().expect("reads").mean
}

#[test]
fn random_reads_wait_as_two_plain_queues_say() {
    for depth in [1, 4, 16, 64] {
        for (bus, transfer_ns) in [(1024, 8_000), (256, 32_000)] {
            let (ours, plain) = (simulated(depth, bus), plain(depth, transfer_ns));
            let off = ours / plain - 1.0;
            assert!(off.abs() < 0.015, "depth {depth}, {bus} MB/s: {ours:.0} against {plain:.0}");
        }
    }
}
