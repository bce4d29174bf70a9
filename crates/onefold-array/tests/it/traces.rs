//! Traces as loads: what they store, where bytes go, when things happen, and what is refused.

use std::collections::{BTreeMap, BTreeSet};

use crate::{run as simulated, spec};
use onefold_array::spec::PRESETS;
use onefold_array::{Report, RunError, RunOptions, ServerSpec, run};
use onefold_block::SplitMix64;
use onefold_workload::{Identity, Op, Request, TraceRequests};

const GRAIN: u64 = 4096;

fn request(time_ns: u64, op: Op, offset: u64, length: u64, content: Option<u64>) -> Request {
    let identity = content.map(|content| Identity::of_number(7, content));
    let stream = Some(0);
    Request { time_ns, op, offset, length, identity, stream, pid: None, deduplicate: None }
}

/// Reads, writes in pieces whose contents are known, TRIMs, flushes and hints, all over a volume.
pub fn mixed(seed: u64, requests: u64, known: bool) -> Vec<Request> {
    let mut random = SplitMix64::new(seed);
    let mut trace = Vec::new();
    for number in 0..requests {
        let time = number * 20_000;
        let (first, grains) = (random.below(600), 1 + random.below(20));
        let (offset, length) = (first * GRAIN, grains * GRAIN);
        match random.below(20) {
            0 => trace.push(request(time, Op::Flush, 0, 0, None)),
            1 => trace.push(request(time, Op::Trim, offset, 4 * length, None)),
            2 => trace.push(request(time, Op::Idle, 0, 0, None)),
            3..=7 => trace.push(request(time, Op::Read, offset + 512, length - 512, None)),
            _ if !known => trace.push(request(time, Op::Write, offset, length, None)),
            _ => {
                // Runs of contents that come again, at any place.
                let run = random.below(40) * 100;
                let piece = |at: u64| {
                    let from = (first + at) * GRAIN;
                    request(time, Op::Write, from, GRAIN, Some(run + (first + at) % 8))
                };
                trace.extend((0..grains).map(piece));
            }
        }
    }
    trace
}

fn replayed(spec: &ServerSpec, trace: &[Request]) -> Report {
    run(spec, options(trace)).unwrap_or_else(|error| panic!("{}: {error}", spec.name)).report
}

fn options(trace: &[Request]) -> RunOptions {
    let trace: Vec<Request> = trace.into();
    let requests: TraceRequests = Box::new(trace.into_iter().map(Ok));
    RunOptions { requests: Some(requests), ..RunOptions::default() }
}

fn with(preset: &str, settings: &[&str]) -> ServerSpec {
    let common = ["workload.trace=a.csv", "workload.outstanding=64", "workload.addresses=50000"];
    spec(preset, &[&common[..], settings].concat())
}

#[test]
fn every_byte_of_a_trace_is_stored_or_named_as_saved_by_every_preset() {
    let trace = mixed(1, 600, true);
    let of = |op| trace.iter().filter(move |request| request.op == op);
    let written: u64 = of(Op::Write).map(|request| request.length).sum();
    let read: u64 = of(Op::Read).map(|request| request.length).sum();
    for preset in PRESETS {
        let compressed: &[&str] = match preset.name {
            "cal17" | "cal17-baseline" => &["workload.compressed_share=1"],
            _ => &[],
        };
        let server = with(preset.name, &[compressed, &["engine.decompress_units=4"]].concat());
        let report = replayed(&server, &trace);
        let bytes = report.bytes_of_all;
        assert_eq!((bytes.client_in, bytes.client_out), (written, read), "{}", preset.name);
        let named = bytes.duplicate + bytes.compressed_away + bytes.stored;
        assert_eq!(written + bytes.completed, named, "{}", preset.name);
        let counted = report.trace.unwrap();
        assert_eq!(counted.reads, of(Op::Read).count() as u64);
        assert_eq!(counted.idle_hints, of(Op::Idle).count() as u64);
        let kinds = ["read", "write", "trim", "flush"];
        let rows = report.latencies.iter().filter(|row| kinds.contains(&row.name));
        let answered: u64 = rows.map(|row| row.count).sum();
        let asked = counted.reads + counted.writes + counted.trims + counted.flushes;
        assert_eq!(answered, asked, "{}", preset.name);
        assert!(report.resources.iter().all(|row| row.utilisation <= 1.0 + 1e-9));
    }
}

#[test]
fn chunks_are_equal_if_their_pieces_are_and_found_as_often_as_a_plain_count_says() {
    for (chunk, seed) in [(4096, 3), (8192, 4), (32_768, 5)] {
        let trace = mixed(seed, 900, true);
        let server = with("software", &[&format!("chunk_bytes={chunk}"), "trace_before=nothing"]);
        let report = replayed(&server, &trace);
        // By hand: a volume of grains, cut into chunks; a request is all its pieces.
        let per_chunk = chunk / GRAIN;
        let mut volume: BTreeMap<u64, u128> = BTreeMap::new();
        let (mut written, mut seen) = (0_u64, BTreeSet::new());
        let mut at = 0;
        while at < trace.len() {
            let first = &trace[at];
            let end = trace[at..].iter().take_while(|r| r.time_ns == first.time_ns).count() + at;
            if first.op == Op::Trim {
                let whole = first.offset.div_ceil(chunk)..first.end() / chunk;
                for grain in whole.start * per_chunk..whole.end * per_chunk {
                    volume.remove(&grain);
                }
            }
            if first.op == Op::Write {
                for piece in &trace[at..end] {
                    let content = u128::from_le_bytes(*piece.identity.unwrap().as_bytes());
                    volume.insert(piece.offset / GRAIN, content);
                }
                for chunk_at in first.offset / chunk..trace[end - 1].end().div_ceil(chunk) {
                    let grains = chunk_at * per_chunk..(chunk_at + 1) * per_chunk;
                    let held: Vec<_> = grains.map(|grain| volume.get(&grain).copied()).collect();
                    written += 1;
                    seen.insert(held);
                }
            }
            at = end;
        }
        let counted = report.trace.unwrap();
        assert_eq!((counted.chunks_known, counted.chunks_drawn), (written, 0), "{chunk}");
        let duplicates = written - seen.len() as u64;
        assert_eq!(report.bytes_of_all.duplicate, duplicates * chunk, "{chunk}: of {written}");
        assert!(duplicates > written / 20, "{chunk}: {duplicates} of {written}");
        assert_eq!(counted.chunks_partial > 0, chunk > GRAIN);
    }
}

#[test]
fn what_is_stored_of_a_trace_does_not_depend_on_the_server_or_on_threads() {
    let trace = mixed(6, 500, true);
    let small = ["chunk_bytes=4096", "engine.decompress_units=4", "table.entries=100000"];
    let of = |preset: &str, more: &[&str]| {
        let report = replayed(&with(preset, &[&small[..], more].concat()), &trace);
        (report.stored_digest, report.bytes_of_all.stored)
    };
    let one = of("software", &[]);
    for (preset, more) in [
        ("cidr", &["predictor.kind=none"][..]),
        ("cidr", &["predictor.kind=all-unique", "batch.chunks=3"]),
        ("cidr+", &["workload.load=timestamps", "workload.speed=50"]),
        ("fidr", &["schedule.short_term=on", "workload.outstanding=1"]),
        ("software", &["acknowledge=buffered", "workload.load=poisson", "workload.gb_per_s=9"]),
    ] {
        assert_eq!(of(preset, more), one, "{preset} {more:?}");
    }
    let server = with("cidr+", &[]);
    let alone = replayed(&server, &trace);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| replayed(&server, &trace))).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), alone);
        }
    });
}

#[test]
fn requests_come_at_the_times_of_the_trace_and_faster_by_its_factor() {
    // Alone in the server, each takes the sum of its steps: what a drawn load of one takes.
    let trace: Vec<Request> = (0..40)
        .map(|number| request(number * 10_000_000, Op::Write, number << 15, 1 << 15, Some(number)))
        .collect();
    let plain = ["workload.compressed_share=0.5", "workload.compressed_spread=0"];
    let recorded = [&plain[..], &["workload.load=timestamps"]].concat();
    let report = replayed(&with("software", &recorded), &trace);
    let alone = ["workload.outstanding=1", "workload.requests=40", "workload.warm_requests=0"];
    let drawn = [&plain[..], &alone, &["workload.duplicate_share=0"]].concat();
    let (rows, expected) = (&report.latencies, &simulated("software", &drawn).latencies);
    assert_eq!((rows[0].name, rows[0].count), ("write", 40));
    assert_eq!((rows[0].p50_ns, rows[0].p999_ns), (expected[0].p50_ns, expected[0].p50_ns));
    assert!((report.seconds - 0.39).abs() < 0.001, "{}", report.seconds);
    let fast = [&recorded[..], &["workload.speed=4"]].concat();
    let fast = replayed(&with("software", &fast), &trace);
    assert!((fast.seconds - 0.39 / 4.0).abs() < 0.001, "{}", fast.seconds);
    // In a closed loop requests in the server are rate times latency.
    let many: Vec<Request> =
        (0..30_000).map(|n| request(0, Op::Write, (n % 5000) << 15, 1 << 15, None)).collect();
    let closed = ["workload.outstanding=500", "trace_warm_requests=3000", "trace_requests=20000"];
    let report = replayed(&with("software", &closed), &many);
    let writes = &report.latencies[0];
    let (count, sum) = (writes.count, writes.count as f64 * writes.mean_ns);
    let inside = report.gb_per_s / 32_768.0 * sum / count as f64;
    // The last requests leave without others behind them: 500 of 20,000.
    assert!((0.96..1.01).contains(&(inside / 500.0)) && count == 20_000, "{inside} {count}");
}

#[test]
fn what_the_trace_does_not_know_is_drawn_as_the_description_says() {
    let trace = mixed(8, 3000, false);
    let share = |set: &str| {
        let report =
            replayed(&with("software", &["chunk_bytes=4096", "clustering=0", set]), &trace);
        assert_eq!(report.trace.unwrap().chunks_known, 0);
        report.duplicate_share.unwrap()
    };
    assert!((share("workload.duplicate_share=0.3") - 0.3).abs() < 0.05);
    assert!(share("workload.duplicate_share=0") < 1e-9);
}

#[test]
fn nothing_is_read_where_nothing_is_stored() {
    let write = |at: u64| request(at, Op::Write, 0, 1 << 17, Some(1));
    let read = |at: u64| request(at, Op::Read, 0, 1 << 17, None);
    let trim = |at: u64| request(at, Op::Trim, 0, 1 << 40, None);
    let before = |state: &str, trace: &[Request]| {
        let state = format!("trace_before={state}");
        let settings = [state.as_str(), "workload.load=timestamps", "workload.compressed_share=1"];
        let spread = "workload.compressed_spread=0";
        let report = replayed(&with("fidr", &[&settings[..], &[spread]].concat()), trace);
        assert_eq!(report.bytes_of_all.client_out % (1 << 17), 0);
        let client = report.bytes_of_all.client_in + report.bytes_of_all.client_out;
        (report.drive_bytes_per_client_byte * client as f64).round() as u64
    };
    let second = 1_000_000_000;
    assert_eq!(before("nothing", &[read(0)]), 0);
    assert_eq!(before("data", &[read(0)]), 1 << 17);
    assert_eq!(before("nothing", &[write(0), read(second)]), 2 << 17);
    assert_eq!(before("nothing", &[write(0), trim(second), read(2 * second)]), 1 << 17);
    // Around a part of what holds nothing, nothing is read; around a part of data, all of it is.
    let part = [request(0, Op::Write, 512, 512, Some(3))];
    assert_eq!(before("nothing", &part), 4096);
    assert_eq!(before("data", &part), 2 * 4096);
    // A TRIM of a part of a chunk forgets nothing.
    let trim_part = request(second, Op::Trim, 512, 3584, None);
    assert_eq!(before("nothing", &[write(0), trim_part, read(2 * second)]), 2 << 17);
}

#[test]
fn a_flush_is_answered_after_the_writes_before_it() {
    let mut trace: Vec<Request> =
        (0..2000).map(|n| request(0, Op::Write, n << 16, 1 << 15, Some(n))).collect();
    trace.push(request(1, Op::Flush, 0, 0, None));
    trace.extend((2000..2400).map(|n| request(2, Op::Write, n << 16, 1 << 15, Some(n))));
    let settings = ["workload.load=timestamps", "acknowledge=buffered", "predictor.kind=none"];
    let report = replayed(&with("cidr", &settings), &trace);
    let row = |name: &str| report.latencies.iter().find(|row| row.name == name).unwrap();
    let seconds = report.seconds * 1e9;
    let (flush, early) = (row("flush"), row("write"));
    assert_eq!((flush.count, early.count), (1, 2400));
    assert!(flush.mean_ns > 0.8 * seconds && flush.mean_ns < seconds, "{flush:?} of {seconds}");
    // What comes after it, and be it at the same time, is not waited for.
    let flush = trace.remove(2000);
    trace.insert(20, Request { time_ns: 0, ..flush });
    for load in ["workload.load=timestamps", "workload.outstanding=3000"] {
        let report = replayed(&with("cidr", &[load, settings[1], settings[2]]), &trace);
        let row = report.latencies.iter().find(|row| row.name == "flush").unwrap();
        assert!(row.mean_ns < 0.2 * report.seconds * 1e9, "{load}: {row:?} of {}", report.seconds);
    }
    let alone = replayed(&with("cidr", &settings), &[request(0, Op::Flush, 0, 0, None)]);
    assert_eq!(alone.latencies[0].p50_ns, 2000, "the card, and nothing to wait for");
}

#[test]
fn a_trace_that_cannot_be_replayed_is_refused_by_name() {
    let server = with("software", &[]);
    let error = |requests: Vec<Result<Request, String>>| {
        let requests: TraceRequests = Box::new(requests.into_iter());
        let options = RunOptions { requests: Some(requests), ..RunOptions::default() };
        run(&server, options).unwrap_err().to_string()
    };
    let good = request(0, Op::Write, 0, 4096, None);
    let line = "trace 'a.csv': line 3 is no line of the format csv".to_owned();
    assert_eq!(error(vec![Ok(good), Ok(good), Err(line.clone())]), line);
    assert!(error(vec![]).contains("'a.csv': it has no requests beyond the 0"));
    assert!(error(vec![Ok(request(0, Op::Idle, 0, 0, None))]).contains("no requests"));
    let long = error(vec![Ok(request(0, Op::Read, 0, 1 << 60, None))]);
    assert!(long.contains("'a.csv': request 1 is of 1152921504606846976 bytes"), "{long}");
    let nobody = run(&server, RunOptions::default()).unwrap_err();
    assert!(matches!(nobody, RunError::NoTrace(..)), "{nobody}");
    let other = run(&spec("software", &[]), options(&[good])).unwrap_err();
    assert!(matches!(other, RunError::NoTrace(..)), "{other}");
    // The last byte of all that can be addressed, a request of no bytes, and more than a buffer.
    let buffer = (with("software", &[]).buffer.client_bytes >> 1) + (1 << 20);
    let edges = [
        request(0, Op::Write, u64::MAX - 4096, 4096, Some(1)),
        request(0, Op::Write, 4096, 0, None),
        request(0, Op::Write, 0, buffer, None),
        request(0, Op::Read, 100, 0, None),
        request(0, Op::Trim, 0, u64::MAX, None),
    ];
    let small = with("software", &["buffer.client_bytes=67108864"]);
    let counted = replayed(&small, &edges).trace.unwrap();
    assert_eq!((counted.writes, counted.reads, counted.trims), (3, 1, 1));
    assert!(counted.chunks_trimmed > 4000, "{counted:?}");
}

#[test]
fn every_byte_is_counted_on_every_link_and_in_memory() {
    const CHUNK: u64 = 32_768;
    const DIGEST: f64 = 32.0;
    // Whole chunks, known contents of which many come again, and reads of what was written.
    let mut random = SplitMix64::new(11);
    let trace: Vec<Request> = (0..1500)
        .map(|number| {
            let (at, chunks) = (random.below(400), 1 + random.below(3));
            let content = (random.below(3) > 0).then(|| random.below(5000));
            let op = if number > 500 && random.below(3) == 0 { Op::Read } else { Op::Write };
            let content = content.filter(|_| op == Op::Write);
            request(number * 1000, op, at * CHUNK, chunks * CHUNK, content)
        })
        .collect();
    for (preset, predictor) in [("software", "none"), ("cidr", "none"), ("cidr", "all-unique")] {
        let predictor = format!("predictor.kind={predictor}");
        let server = with(preset, &[&predictor, "schedule.long_term=off"]);
        let report = replayed(&server, &trace);
        // All that came was answered, and nothing else was on its way.
        let bytes = report.bytes_of_all;
        assert_eq!(report.bytes, bytes, "{preset}");
        let client = (bytes.client_in + bytes.client_out) as f64;
        let (written, read) = (bytes.client_in as f64, bytes.client_out as f64);
        let (stored, unique) = (bytes.stored as f64, (bytes.compressed_away + bytes.stored) as f64);
        let fetched = report.drive_bytes_per_client_byte * client - stored;
        assert!(fetched > 0.0 && fetched < read, "{preset}: {fetched} of {read}");
        // Chunks that are compressed ahead go to the engine once, and in vain if they are not new.
        let ahead = predictor.ends_with("all-unique");
        let to_engine = written + if ahead { 0.0 } else { unique } + fetched;
        let in_vain = bytes.compressed_in_vain as f64;
        assert_eq!(in_vain > 0.0, ahead && preset == "cidr", "{preset} {predictor}");
        let from_engine = written / CHUNK as f64 * DIGEST + stored + read;
        let index = written / CHUNK as f64 * 4096.0;
        let moved = |name: &str| {
            let row = report.memory_by_cause.iter().find(|row| row.name == name);
            row.map_or(0.0, |row| row.amount * client)
        };
        let mut expected =
            vec![("nic", written + read), ("ssd", stored + fetched), ("index", index)];
        if preset == "software" {
            expected.extend([("hash", written), ("compress", unique + stored)]);
            expected.extend([("decompress", read + fetched), ("engine", 0.0)]);
        } else {
            expected.extend([("hash", 0.0), ("compress", 0.0), ("decompress", 0.0)]);
            // What was compressed in vain comes back, too: its size is not in the report.
            if !ahead {
                expected.push(("engine", to_engine + from_engine));
            }
        }
        for (name, bytes) in &expected {
            assert!((moved(name) - bytes).abs() < 0.5, "{preset} {name}: {} {bytes}", moved(name));
        }
        let all: f64 = report.memory_by_cause.iter().map(|row| row.amount).sum();
        let named: f64 = expected.iter().map(|(_, bytes)| bytes).sum();
        let engine = if ahead { moved("engine") } else { 0.0 };
        assert!((all * client - named - engine).abs() < 0.5, "{preset}: a cause is not named");
        // On a link bytes are busy time at its rate; each transfer ends at the next nanosecond.
        let passed = |name: &str, rate: f64| {
            let row = report.resources.iter().find(|row| row.name == name).unwrap();
            row.utilisation * report.seconds * rate
        };
        let card = server.nic.gb_per_s * f64::from(server.nic.count) * 1e9;
        let link = server.link.bytes_per_s();
        let mut links = vec![("nic in", written, card), ("nic out", read, card)];
        if preset == "cidr" {
            links.push(("engine link in", to_engine, link));
            let out = if ahead { moved("engine") - to_engine } else { from_engine };
            links.push(("engine link out", out, link));
        }
        for (name, bytes, rate) in links {
            let more = passed(name, rate) - bytes;
            // Fewer transfers than chunks.
            let rounding = rate / 1e9 * 4500.0;
            assert!(more > -1.0 && more < rounding, "{preset} {name}: {more} beyond {bytes}");
        }
    }
}

#[test]
fn a_trace_may_pause_for_years_but_not_beyond_what_can_be_counted() {
    let last = onefold_sim::SimTime::LAST_ARRIVAL.ns();
    let trace = |time| [0, time].map(|time| request(time, Op::Write, 0, 8 * GRAIN, Some(1)));
    let timed = |settings: &[&str], time| {
        let spec = with("cidr", &[&["workload.load=timestamps"], settings].concat());
        run(&spec, options(&trace(time)))
    };
    // Windows of reconfiguration would be a hundred billion.
    let report = timed(&["schedule.long_term=on"], last).expect("it comes").report;
    assert_eq!(report.trace.map(|trace| trace.writes), Some(2));
    for (settings, time) in [(&[][..], last + 4096), (&["workload.speed=0.001"], last / 999)] {
        let error = timed(settings, time).expect_err("too late");
        assert!(error.to_string().contains("292 years"), "{error}");
    }
    let closed = run(&with("cidr", &[]), options(&trace(u64::MAX))).expect("by no clock").report;
    assert_eq!(closed.trace.map(|trace| trace.writes), Some(2));
}
