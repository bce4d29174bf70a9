//! Time against closed forms.

use crate::{run, spec};
use onefold_array::{Report, simulate};
use onefold_sim::{RandomStreams, SimSpan, SimTime, Stations};

fn write(report: &Report) -> f64 {
    let rows = report.latencies.iter().filter(|row| row.name == "write");
    let (count, sum) = rows.fold((0.0, 0.0), |(count, sum), row| {
        (count + row.count as f64, sum + row.count as f64 * row.mean_ns)
    });
    sum / count
}

#[test]
fn alone_in_the_server_a_request_takes_the_sum_of_its_steps() {
    let alone = [
        "workload.outstanding=1",
        "workload.requests=50",
        "workload.warm_requests=0",
        "workload.compressed_share=0.5",
        "workload.compressed_spread=0",
    ];
    let bytes = 32_768.0_f64;
    let up = |ns: f64| ns.ceil();
    let near = |ns: f64| ns.round();
    // Software, unique: card, hash, look-up, compression, drive.
    let report = run("software", &[&alone[..], &["workload.duplicate_share=0"]].concat());
    let card = up(bytes / 25.0) + 2_000.0;
    let hash = near(bytes * 1.351);
    let look_up = near(6_000.0) + near(bytes * 0.19) + near(500.0);
    let compress = near(bytes * 5.405);
    let drive = up(bytes / 2.0 / 2.3) + 20_000.0;
    let expected = card + hash + look_up + compress + drive;
    assert!((write(&report) - expected).abs() < 1e-6, "software: {} {expected}", write(&report));
    // The engine, guessed right: card, core, link, units, link, look-up, drive.
    let cidr = [&alone[..], &["workload.duplicate_share=0", "predictor.kind=all-unique"]].concat();
    let cidr_spec = spec("cidr", &cidr);
    let rate = |bytes_per_s: f64| (bytes_per_s as u64) as f64 / 1e9;
    let link = rate(cidr_spec.link.bytes_per_s());
    let core = near(100.0) + near(300.0);
    let to = up(bytes / link) + 1_000.0;
    let units = up(bytes / rate(cidr_spec.engine.hash_bytes_per_s()))
        .max(up(bytes / rate(cidr_spec.engine.compress_bytes_per_s())));
    let from = up((bytes / 2.0 + 32.0) / link) + 1_000.0;
    let expected = card + core + to + units + from + look_up + drive;
    let took = write(&simulate(&cidr_spec).unwrap());
    assert!((took - expected).abs() < 1e-6, "engine: {took} {expected}");
}

/// All of a batch may have to wait there to be compressed, so batches are no larger.
#[test]
fn a_delayed_buffer_of_less_than_a_batch_makes_batches_smaller_and_holds_nothing_up_for_ever() {
    for preset in ["cidr", "cidr+", "fidr-nic", "fidr"] {
        let chunk_bytes = spec(preset, &[]).chunk_bytes;
        for chunks in [1, 5, 63] {
            // Without windows a run in which nothing can begin ends with an error.
            for windows in ["off", "on"] {
                let settings = [
                    &format!("buffer.delayed_bytes={}", chunks * chunk_bytes + 100),
                    &format!("schedule.long_term={windows}"),
                    "workload.requests=500",
                    "workload.warm_requests=0",
                ];
                let report = run(preset, &settings);
                let peak = report.delayed_buffer_peak;
                assert!(peak > 0 && peak <= chunks * chunk_bytes, "{preset} {chunks}: {peak}");
                let bytes = report.bytes_of_all;
                let kept = bytes.duplicate + bytes.compressed_away + bytes.stored;
                assert_eq!(kept, bytes.client_in, "{preset} {chunks}");
            }
        }
    }
}

#[test]
fn requests_in_the_server_are_rate_times_latency() {
    for preset in ["software", "cidr", "cidr+", "fidr"] {
        let settings = [
            "workload.outstanding=3000",
            "workload.requests=60000",
            "workload.warm_requests=12000",
            "workload.read_share=0.3",
        ];
        let report = run(preset, &settings);
        let request = spec(preset, &settings).workload.request_bytes as f64;
        let rate = report.gb_per_s / request;
        let all = report.latencies.iter().filter(|row| ["read", "write"].contains(&row.name));
        let (count, sum) = all.fold((0.0, 0.0), |(count, sum), row| {
            (count + row.count as f64, sum + row.count as f64 * row.mean_ns)
        });
        let inside = rate * sum / count;
        assert!((inside / 3000.0 - 1.0).abs() < 0.01, "{preset}: {inside}");
    }
}

#[test]
fn a_single_core_is_a_queue_with_equal_service() {
    // Only hashing takes time: 1 us a chunk of 4 KiB, on one core. M/D/1 waits rho / 2 (1 - rho).
    for load in [0.3, 0.6, 0.8] {
        let rate = format!("workload.gb_per_s={}", load * 4.096);
        let report = run(
            "software",
            &[
                "chunk_bytes=4096",
                "workload.request_bytes=4096",
                "workload.load=poisson",
                &rate,
                "workload.requests=400000",
                "workload.warm_requests=1000",
                "batch.chunks=1",
                "cpu.sockets=1",
                "cpu.cores_per_socket=1",
                "cpu.hash_ns_per_byte=0.244140625",
                "cpu.nic_ns_per_byte=0",
                "cpu.compress_ns_per_byte=0",
                "cpu.index_ns_per_chunk=0",
                "cpu.metadata_ns_per_chunk=0",
                "cpu.store_ns_per_chunk=0",
                "cpu.submit_ns_per_byte=0",
                "nic.latency_ns=0",
                "nic.gb_per_s=100000",
                "memory.gb_per_s_per_socket=100000",
                "ssd.latency_ns=0",
                "ssd.write_gb_per_s=100000",
            ],
        );
        // The card, the memory passes and the drive take a few ns.
        let waits = write(&report) - 1_000.0;
        let expected = 1_000.0 * load / (2.0 * (1.0 - load));
        assert!((waits - expected).abs() < 0.02 * (expected + 1_000.0), "{load}: {waits}");
    }
}

/// Mean wait in service times with `servers` servers, exponential gaps and times, and this load:
/// the chance that all are busy (Erlang C), over the servers that are left.
fn erlang_wait(servers: u32, load: f64) -> f64 {
    let offered = load * f64::from(servers);
    let blocked = (1..=servers)
        .fold(1.0, |blocked, server| offered * blocked / (f64::from(server) + offered * blocked));
    let all_busy = blocked / (1.0 - load * (1.0 - blocked));
    all_busy / (f64::from(servers) * (1.0 - load))
}

#[test]
fn servers_with_exponential_times_wait_as_erlang_says() {
    let service = SimSpan::from_ns(1_000_000);
    for (servers, load) in [(1, 0.5), (2, 0.7), (4, 0.8), (24, 0.9)] {
        let gap = SimSpan::from_ns((1e6 / (load * f64::from(servers))).round() as u64);
        let streams = RandomStreams::new(5);
        let (mut gaps, mut times) = (streams.stream("gaps"), streams.stream("times"));
        let mut stations = Stations::new(servers);
        let (mut now, mut waited) = (SimTime::ZERO, 0.0);
        let jobs = 2_000_000;
        for _ in 0..jobs {
            now += gaps.exponential(gap);
            let time = times.exponential(service);
            let served = stations.serve(now, time);
            waited += (served.end.since(now).ns() - time.ns()) as f64;
        }
        let mean = waited / 1e6 / f64::from(jobs);
        let expected = erlang_wait(servers, load);
        assert!((mean / expected - 1.0).abs() < 0.02, "{servers} {load}: {mean} {expected}");
    }
    assert!((erlang_wait(1, 0.5) - 1.0).abs() < 1e-12);
    assert!((erlang_wait(2, 0.5) - 1.0 / 3.0).abs() < 1e-12);
}

#[test]
fn new_chunks_and_duplicates_take_what_each_takes_on_top() {
    for preset in ["software", "cidr+", "fidr"] {
        for (key, expected) in [("store", 400.0), ("duplicate", 600.0)] {
            let cost = format!("cpu.{key}_ns_per_chunk=1000");
            let alone = ["cpu.metadata_ns_per_chunk=0", "workload.outstanding=256", &cost];
            let load = ["workload.requests=40000", "workload.duplicate_share=0.6"];
            let report = run(preset, &[&load[..], &alone[..]].concat());
            let row = report.cores_by_task.iter().find(|row| row.name == "metadata").unwrap();
            // Cores are s a s, and a GB/s a byte a ns.
            let ns = row.amount / report.gb_per_s * spec(preset, &[]).chunk_bytes as f64;
            assert!((ns / expected - 1.0).abs() < 0.01, "{preset} {key}: {ns}");
        }
    }
}

#[test]
fn more_than_it_can_do_runs_at_what_it_can_do() {
    let settings = ["workload.requests=60000", "workload.warm_requests=6000"];
    let capacity = run("cidr", &settings).gb_per_s;
    let rate = format!("workload.gb_per_s={}", capacity * 2.0);
    let offered = ["workload.load=poisson", &rate, "buffer.client_bytes=67108864"];
    let report = run("cidr", &[&settings[..], &offered].concat());
    assert!((report.gb_per_s / capacity - 1.0).abs() < 0.03, "{} {capacity}", report.gb_per_s);
    assert!(report.client_buffer_peak > 67_108_864 - 2 * 32_768);
    assert!(report.client_buffer_peak <= 67_108_864);
    assert!(report.held_back_share > 0.4, "{}", report.held_back_share);
}

#[test]
fn a_server_that_may_not_have_more_batches_on_their_way_is_stopped_by_that() {
    // A batch takes a slow look-up at a time: cores and all else idle while the slots are taken.
    let few = ["engine.queue_batches=1", "engine.count=1", "table.cache_bytes=4096"];
    let slow = ["table_ssd.latency_ns=10000000", "workload.requests=20000"];
    let report = run("cidr+", &[&few[..], &slow].concat());
    let stop = report.bottleneck.as_ref().unwrap();
    assert_eq!(stop.name, "batches in flight", "{stop:?}");
    assert!(stop.utilisation > 0.99 && report.resources[0].utilisation < 0.5, "{report:?}");
    assert_eq!(stop.next, Some(report.resources[0].name));
    assert!((report.batches_in_flight_share - stop.utilisation).abs() < 1e-12);
    // More of them, and it is faster: that was it.
    let more = run("cidr+", &[&few[1..], &slow[..], &["engine.queue_batches=4"]].concat());
    assert!(more.gb_per_s > 3.5 * report.gb_per_s, "{} {}", more.gb_per_s, report.gb_per_s);
    // Where a resource is busy all the time, it is named, though as many wait for it as may.
    let busy = run("software", &["workload.requests=20000"]);
    assert!(busy.batches_in_flight_share > 0.99, "{}", busy.batches_in_flight_share);
    assert_eq!(busy.bottleneck.unwrap().name, "cores");
}

#[test]
fn nothing_is_idle_that_could_work_while_requests_wait() {
    // One part is short of each kind in turn, and requests always wait: it is never idle for
    // longer than it takes them to get there.
    for (preset, short, name) in [
        ("software", "cpu.cores_per_socket=1", "cores"),
        ("software", "ssd.write_gb_per_s=0.01", "data drives"),
        ("software", "nic.gb_per_s=0.5", "nic in"),
        ("software", "memory.gb_per_s_per_socket=1", "memory"),
        ("cidr", "engine.hash_units=2", "hash units"),
        ("cidr", "engine.compress_units=1", "compression units"),
        ("cidr", "link.lanes=1", "engine link in"),
        ("fidr", "table.engine_lookups_per_s=100000", "index engine"),
        ("fidr", "table_ssd.reads_per_s=2000", "table drives"),
    ] {
        let settings = ["workload.requests=20000", "schedule.long_term=off", short];
        let report = run(preset, &settings);
        let row = report.resources.iter().find(|row| row.name == name).unwrap();
        assert!(row.utilisation > 0.99, "{preset} {short}: {row:?}");
    }
}

#[test]
fn engines_take_turns_where_nobody_looks_which_is_free() {
    let blind = |count: &str| {
        let settings = ["workload.requests=60000", "link.generation=4", "cpu.sockets=8"];
        let more = ["schedule.short_term=off", "nic.count=16", "ssd.count=64", count];
        run("dedicated", &[&settings[..], &more].concat()).gb_per_s
    };
    let (one, two, three) =
        (blind("engine.count=1"), blind("engine.count=2"), blind("engine.count=3"));
    assert!((1.8..2.1).contains(&(two / one)), "{two} {one}");
    assert!((2.6..3.1).contains(&(three / one)), "{three} {one}");
}

#[test]
fn every_engine_whose_mix_is_wrong_is_changed_once() {
    // Units for compression are missing, and nothing changes afterwards.
    let wrong = ["engine.hash_units=150", "engine.compress_units=10", "schedule.long_term=on"];
    let load =
        ["workload.requests=60000", "workload.duplicate_share=0", "predictor.kind=all-unique"];
    let often = ["schedule.window_ns=2000000", "schedule.downtime_ns=1000000"];
    for (count, changes) in [("engine.count=1", 1), ("engine.count=3", 3)] {
        let report = run("cidr", &[&wrong[..], &load, &often, &[count]].concat());
        assert_eq!(report.reconfigurations, changes, "{count}");
    }
}

#[test]
fn energy_is_what_busy_and_idle_parts_draw_over_what_they_did() {
    let settings = ["workload.requests=20000", "power.core_idle_w=2.0", "power.core_busy_w=5.0"];
    let report = run("software", &settings);
    let watts = 24.0 * 2.0 + report.cores * 3.0;
    let expected = watts / report.gb_per_s;
    assert!((report.joules_per_gb / expected - 1.0).abs() < 1e-9, "{report:?}");
    let engine = ["power.engine_idle_w=30.0", "power.engine_busy_w=30.0"];
    let report = run("cidr", &[&settings[..], &engine].concat());
    let expected = (24.0 * 2.0 + report.cores * 3.0 + 30.0) / report.gb_per_s;
    assert!((report.joules_per_gb / expected - 1.0).abs() < 1e-9, "{report:?}");
}
