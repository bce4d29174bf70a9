//! Draws, logs and counts that must not change by themselves: every published figure of a
//! simulation hangs on them.
//! Room: onefold-sim.

use std::fmt::Write as _;

use onefold_sim::{
    ChromeTrace, Discipline, EventQueue, Grant, Histogram, Limits, Pipe, RandomStreams, Ratio,
    Resource, SimError, SimSpan, SimTime, Stations, Zipf,
};

use crate::station::{Service, Station};

/// FNV-1a of a text.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[test]
fn draws_of_every_kind_are_the_same_everywhere() {
    let mut stream = RandomStreams::new(9).stream("golden");
    assert_eq!(RandomStreams::new(9).root(), 9);
    let words: Vec<u64> = (0..3).map(|_| stream.next_u64()).collect();
    let below: Vec<u64> = (0..9).map(|_| stream.below(13)).collect();
    let units: Vec<u64> = (0..3).map(|_| stream.unit().to_bits()).collect();
    let chances: String =
        (0..40).map(|_| if stream.chance(Ratio::percent(37)) { 'y' } else { 'n' }).collect();
    let spans: Vec<u64> =
        (0..6).map(|_| stream.exponential(SimSpan::from_ns(123_456_789)).ns()).collect();
    let mut items: Vec<u8> = (0..12).collect();
    stream.shuffle(&mut items);
    let all = format!("{words:x?} {below:?} {units:x?} {chances} {spans:?} {items:?}");
    assert_eq!(all, DRAWS);
}

#[test]
fn ranks_of_every_exponent_are_the_same_everywhere() {
    let mut found = String::new();
    for items in [1, 2, 7, 1000, 1 << 20, Zipf::ITEMS_MAX] {
        for permille in [0, 1, 470, 999, 1000, 1001, 1500, 3000, 10_000] {
            let zipf = Zipf::new(items, Ratio::permille(permille)).expect("in range");
            assert_eq!(zipf.items(), items);
            let mut stream = RandomStreams::new(permille).stream("zipf");
            let ranks: Vec<u64> = (0..60).map(|_| zipf.sample(&mut stream)).collect();
            writeln!(found, "{items} {permille} {ranks:?}").expect("strings take all text");
        }
    }
    assert_eq!(digest(&found), RANKS, "{:#x}\n{found}", digest(&found));
}

#[test]
fn a_station_lives_through_the_same_events() {
    let mut found = Vec::new();
    for (seed, service) in [
        (1, Service::Exponential(SimSpan::from_us(100))),
        (2, Service::Constant(SimSpan::from_us(110))),
    ] {
        let mut station = Station::new(seed, 4000, SimSpan::from_us(120), service);
        let (end, log, usage) = station.run(Limits::default()).expect("it does not stall");
        let hash = log.hash();
        let spent = (usage.busy_ns, usage.waiting_ns, usage.granted, usage.waiting_max);
        let (busy, waiting, granted, most) = spent;
        found.push(format!(
            "{} {} {hash:016x} {busy} {waiting} {granted} {most}",
            end.time, end.events
        ));
    }
    assert_eq!(found, STATIONS, "{found:#?}");
}

#[test]
fn a_run_may_take_as_many_events_as_its_limit_and_no_more() {
    let service = Service::Constant(SimSpan::from_us(1));
    let run = |events_max| {
        let mut station = Station::new(1, 10, SimSpan::from_us(5), service);
        station.run(Limits { events_max }).map(|(end, ..)| end.events)
    };
    assert_eq!(run(20), Ok(20), "ten come and ten leave");
    let Err(SimError::Endless { events: 19, work_left: 1, .. }) = run(19) else {
        panic!("{:?}", run(19))
    };
}

#[test]
fn buckets_and_quantiles_are_the_same() {
    let mut histogram = Histogram::default();
    assert_eq!((histogram.mean(), histogram.count()), (None, 0));
    let mut found = Vec::new();
    let mut value = 1u64;
    for step in 0..200 {
        histogram.add(value);
        value = value.wrapping_mul(7) % (1 << (3 + step % 60)) + step;
    }
    for per_million in (0..=1_000_000).step_by(25_000) {
        found.push(histogram.quantile(per_million).expect("it has values"));
    }
    let text =
        format!("{found:?} {:?} {:?} {}", histogram.mean(), histogram.max(), histogram.count());
    assert_eq!(digest(&text), QUANTILES, "{:#x}\n{text}", digest(&text));
    // Exact below 256, and one of two values is the lower at half.
    for (low, high) in [(0, 255), (254, 255), (1, 2)] {
        let mut histogram = Histogram::default();
        histogram.add(high);
        histogram.add(low);
        let of = |per_million| histogram.quantile(per_million);
        assert_eq!((of(0), of(500_000), of(500_001)), (Some(low), Some(low), Some(high)));
    }
}

#[test]
fn loads_are_counted_from_the_last_restart_on() {
    let at = SimTime::from_ns;
    let span = SimSpan::from_ns;
    let mut stations = Stations::new(2);
    assert_eq!(stations.servers(), 2);
    for (now, length) in [(0, 10), (0, 30), (4, 6)] {
        stations.serve(at(now), span(length));
    }
    // One is busy to 16, the other to 30.
    assert_eq!((stations.next_free(at(5)), stations.next_free(at(20))), (at(16), at(20)));
    let load = stations.load(at(20));
    assert_eq!((load.busy_ns, load.jobs), (16 + 20, 3));
    assert!((load.utilisation - 0.9).abs() < 1e-12 && (load.wait_ns_mean - 2.0).abs() < 1e-12);
    assert!((load.waiting_mean - 0.3).abs() < 1e-12);
    stations.restart_account(at(20));
    let load = stations.load(at(40));
    assert_eq!((load.busy_ns, load.jobs), (10, 0));
    assert!((load.utilisation - 0.25).abs() < 1e-12 && load.wait_ns_mean.abs() < 1e-12);

    let mut pipe = Pipe::new(1_000_000_000, span(7), 2);
    assert_eq!(pipe.latency(), span(7));
    pipe.send(at(0), 100, 0);
    let served = pipe.send(at(50), 30, 1);
    assert_eq!((served.start, served.end, pipe.next_free(at(60))), (at(100), at(130), at(130)));
    assert_eq!((pipe.bytes(), pipe.load(at(100)).busy_ns), (&[100, 30][..], 100));
    assert!((pipe.load(at(100)).utilisation - 1.0).abs() < 1e-12, "it was never idle");
    pipe.restart_account(at(110));
    assert_eq!((pipe.bytes(), pipe.load(at(200)).busy_ns), (&[0, 0][..], 20));
    assert!(pipe.load(at(110)).utilisation.abs() < 1e-12, "no time has passed");
}

#[test]
fn a_resource_counts_from_the_last_restart_on() {
    let at = SimTime::from_ns;
    let mut die = Resource::new("die", 1, Discipline::Fifo).with_waiting_limit(2);
    let _ = die.request(at(0), 0);
    let _ = die.request(at(1), 1);
    let _ = die.request(at(2), 2);
    assert!(die.try_request(at(3), 3, 0).is_err(), "two wait");
    die.restart_usage(at(10));
    assert_eq!(die.release(at(14)), Some(1));
    assert_eq!(die.try_request(at(15), 4, 0), Ok(Grant::Later));
    let usage = die.usage(at(20));
    assert_eq!((usage.busy_ns, usage.capacity_ns, usage.elapsed_ns), (10, 10, 10));
    assert_eq!((usage.waiting_ns, usage.waiting_max, usage.granted), (4 * 2 + 1 + 5 * 2, 2, 1));
    assert_eq!((usage.waited_ns, die.name(), die.is_full()), (13, "die", true));
}

#[test]
fn a_queue_keeps_the_next_time_through_every_span() {
    let mut queue = EventQueue::new();
    assert_eq!((queue.next_time(), queue.pop()), (None::<SimTime>, None::<(SimTime, u32)>));
    for bit in 0..63 {
        for more in [1, 3] {
            queue.at(SimTime::from_ns((1 << bit) * more), bit);
        }
    }
    let mut order = Vec::new();
    while let Some(next) = queue.next_time() {
        let (at, event) = queue.pop().expect("there is a next one");
        assert_eq!((at, queue.now()), (next, next));
        order.push((at.ns(), event));
    }
    assert!(order.is_sorted() && order.len() == 126 && queue.is_empty());
}

#[test]
fn a_trace_of_two_tracks_is_this_document() {
    let mut trace = ChromeTrace::new(3);
    let (bus, die) = (trace.track("bus"), trace.track("a\u{1}\"b\\"));
    assert!(!trace.is_full());
    trace.span(die, "x", SimTime::from_ns(1_002), SimTime::from_ns(2_005));
    trace.instant(bus, "y", SimTime::from_ns(70));
    trace.span(bus, "z", SimTime::from_ns(5), SimTime::from_ns(5));
    trace.instant(bus, "late", SimTime::ZERO);
    trace.instant(bus, "later", SimTime::ZERO);
    assert_eq!((trace.is_full(), trace.left_out()), (true, 2));
    let mut out = Vec::new();
    trace.write(&mut out).expect("memory takes it");
    assert_eq!(String::from_utf8(out).expect("text"), TRACE);
}

const DRAWS: &str = "[dd80f54673132ef0, 81ea0f07905b994a, f71a02b3f8128d2c] \
    [4, 6, 11, 6, 11, 3, 7, 10, 6] \
    [3fe98711c7dfe93c, 3fb59ddd109560c0, 3fe65df54fb5b898] \
    nnnynnnnyynnnyynnnynnnnynnynynnnnnyynynn \
    [27422756, 89057190, 25373686, 107614844, 14428548, 48350728] \
    [8, 10, 6, 11, 3, 9, 4, 0, 7, 2, 5, 1]";
const RANKS: u64 = 0xe86f_b371_852e_de2c;
const STATIONS: [&str; 2] = [
    "472878706 ns 8000 5ad30c758ef099ac 403211219 2295782924 4000 26",
    "466830876 ns 8000 b17869bc8f523c94 440000000 3544449586 4000 31",
];
const QUANTILES: u64 = 0xd235_84ab_4633_cd4c;
const TRACE: &str = "\
{\"displayTimeUnit\":\"ns\",\"traceEvents\":[
{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"thread_name\",\"args\":{\"name\":\"bus\"}},
{\"ph\":\"M\",\"pid\":0,\"tid\":1,\"name\":\"thread_name\",\
\"args\":{\"name\":\"a\\u0001\\\"b\\\\\"}},
{\"pid\":0,\"tid\":1,\"name\":\"x\",\"ts\":1.002,\"ph\":\"X\",\"dur\":1.003},
{\"pid\":0,\"tid\":0,\"name\":\"y\",\"ts\":0.070,\"ph\":\"i\",\"s\":\"t\"},
{\"pid\":0,\"tid\":0,\"name\":\"z\",\"ts\":0.005,\"ph\":\"X\",\"dur\":0.000}
]}
";
