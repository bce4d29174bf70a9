//! Requests, contents and files that follow from a seed must not change by themselves: figures
//! that were published, and recordings that were made, hang on them.
//! Room: onefold-workload.

use std::fmt::Write as _;

use onefold_sim::{Ratio, SimSpan};
use onefold_workload::content::{Measured, UniformContent};
use onefold_workload::summary::TraceSummary;
use onefold_workload::{
    AddressPattern, Arrivals, Format, Generator, Histogram, Identity, Op, PRESETS, Recorded,
    RecordingEncoder, Request, ThinkTime, TraceReader, WorkloadSpec,
};

/// FNV-1a of a text.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[test]
fn every_pattern_and_arrival_gives_the_same_requests() {
    let ratio = |n, d| Ratio::new(n, d).expect("a ratio");
    let patterns = [
        AddressPattern::Uniform,
        AddressPattern::Sequential,
        AddressPattern::Zipf { exponent: ratio(9, 10) },
        AddressPattern::HotCold { hot_pages: ratio(1, 5), hot_requests: ratio(7, 10) },
    ];
    let between = SimSpan::from_us(7);
    let think = ThinkTime::Exponential(between);
    let arrivals = [
        Arrivals::Poisson { between },
        Arrivals::Constant { between },
        Arrivals::Closed { queue_depth: 2, think },
    ];
    let mut found = String::new();
    for pattern in patterns {
        for arrivals in arrivals {
            for pages in [2, 1000, 1 << 33] {
                let hot_of_two = matches!(pattern, AddressPattern::HotCold { .. }) && pages == 2;
                let spec = WorkloadSpec {
                    pages: if hot_of_two { 5 } else { pages },
                    page_bytes: 4096,
                    requests: 40,
                    read_share: ratio(1, 3),
                    pattern,
                    arrivals,
                    seed: pages,
                };
                let mut generator = Generator::new(spec).expect("a good spec");
                assert_eq!(generator.spec(), &spec);
                let thought = generator.think().ns();
                let all: Vec<_> =
                    generator.map(|r| (r.time_ns, r.op.name(), r.offset, r.length)).collect();
                assert_eq!(all.len(), 40);
                writeln!(found, "{thought} {all:?}").expect("strings take all text");
            }
        }
    }
    assert_eq!(digest(&found), REQUESTS, "{:#x}\n{found}", digest(&found));
}

#[test]
fn spaces_of_one_page_to_two_to_the_forty_are_accepted() {
    let spec = |pages, hot_pages| WorkloadSpec {
        pages,
        page_bytes: 1,
        requests: 3,
        read_share: Ratio::ONE,
        pattern: AddressPattern::HotCold { hot_pages, hot_requests: Ratio::ONE },
        arrivals: Arrivals::Closed { queue_depth: 1, think: ThinkTime::None },
        seed: 1,
    };
    let half = Ratio::percent(50);
    assert!(Generator::new(spec(1 << 40, half)).is_ok());
    assert!(Generator::new(spec((1 << 40) + 1, half)).is_err());
    let uniform = |pages| WorkloadSpec { pattern: AddressPattern::Uniform, ..spec(pages, half) };
    assert!(Generator::new(uniform(1)).expect("one page").all(|request| request.offset == 0));
    assert!(Generator::new(spec(2, half)).is_ok() && Generator::new(spec(1, half)).is_err());
    assert!(Generator::new(spec(2, Ratio::ONE)).is_err(), "no cold page");
}

#[test]
fn contents_follow_from_their_seed() {
    let mut found = String::new();
    for preset in PRESETS {
        let data: Vec<Identity> = preset.profile.data_set(300, 7).expect("large enough").collect();
        let drawn: Vec<Identity> =
            preset.profile.histogram(1000).expect("large enough").content(5).take(40).collect();
        writeln!(found, "{} {data:?} {drawn:?}", preset.name).expect("strings take all text");
    }
    let uniform: Vec<Identity> = UniformContent::new(9, 3).take(20).collect();
    let classes = Histogram::new(&[(0, 3), (1, 2), (4, 1)]).expect("few pages");
    assert_eq!(classes.pages(), 3 + 4 + 5);
    let classes: Vec<Identity> = classes.content(2).take(30).collect();
    writeln!(found, "{uniform:?} {classes:?}").expect("strings take all text");
    assert_eq!(digest(&found), CONTENTS, "{:#x}\n{found}", digest(&found));
}

#[test]
fn what_is_counted_of_contents_is_counted_by_hand() {
    let all = [1, 2, 2, 3, 3, 3, 4, 4, 4, 4].map(|n| Identity::of_number(0, n));
    let measured = Measured::of(all);
    assert_eq!((measured.pages, measured.distinct, measured.duplicated), (10, 4, 3));
    assert_eq!((measured.hot, measured.hot_redundant), (2, 5));
    assert!((measured.duplicate_ratio() - 0.6).abs() < 1e-12);
    assert!((measured.hot_share() - 5.0 / 6.0).abs() < 1e-12);
    assert!(Measured::of([]).duplicate_ratio().abs() < 1e-12);
}

#[test]
fn a_recording_is_these_bytes() {
    let mut encoder = RecordingEncoder::new(512).expect("a power of two");
    assert!(RecordingEncoder::new(4096).is_some() && RecordingEncoder::new(511).is_none());
    let mut file = encoder.header();
    encoder.name(1, "ab");
    for (time_ns, offset, length, content) in [
        (1_000_000, 0, 0, &[][..]),
        (1_000_200, 511, 2, &[1, 2]),
        (999_999, 512, 512, &[3]),
        (1_000_000, 0x3fff, 0x4000, &[9]),
    ] {
        let op = if length == 0 { Op::Flush } else { Op::Write };
        encoder.push(&Recorded {
            time_ns,
            op,
            stream: 1,
            offset,
            length,
            content,
            deduplicate: None,
        });
    }
    assert!(!encoder.is_full());
    file.extend(encoder.take().expect("there are requests"));
    assert_eq!(file, RECORDING, "{file:#04x?}");
}

#[test]
fn a_hint_in_a_recording_is_these_bytes() {
    let mut encoder = RecordingEncoder::new(512).expect("a power of two");
    let (op, content) = (Op::Idle, &[][..]);
    let hint =
        Recorded { time_ns: 7, op, stream: 2, offset: 0, length: 0, content, deduplicate: None };
    encoder.push(&hint);
    // Behind the frame's head and base: tag, time since the base, stream, offset, length.
    assert_eq!(encoder.take().expect("a frame")[20..], [5, 0, 2, 0, 0]);
}

#[test]
fn a_frame_is_full_at_64_kib() {
    let mut encoder = RecordingEncoder::new(512).expect("a power of two");
    let read = Recorded {
        time_ns: 0,
        op: Op::Read,
        stream: 0,
        offset: 0,
        length: 1,
        content: &[],
        deduplicate: None,
    };
    // Five bytes each.
    for _ in 0..(64 << 10) / 5 {
        encoder.push(&read);
    }
    assert!(!encoder.is_full(), "65,535 bytes");
    encoder.push(&read);
    assert!(encoder.is_full());
}

#[test]
fn transfers_end_at_4_gib_and_trims_do_not() {
    let read = |line: String| {
        let text = format!("time_ns,op,offset,length,identity,stream,pid\n{line}\n");
        let mut reader = TraceReader::new(Format::Csv, std::io::Cursor::new(text));
        reader.next().expect("a line").map(|request: Request| request.length)
    };
    let longest = 1u64 << 32;
    assert_eq!(read(format!("0,write,0,{longest},,,")).ok(), Some(longest));
    assert!(read(format!("0,write,0,{},,,", longest + 1)).is_err());
    assert_eq!(read(format!("0,trim,0,{},,,", longest + 1)).ok(), Some(longest + 1));
    assert!(read(format!("0,trim,{},1,,,", u64::MAX)).is_err());
    assert_eq!(read(format!("0,trim,{},1,,,", u64::MAX - 1)).ok(), Some(1));
}

#[test]
fn a_summary_keeps_streams_apart() {
    let mut summary = TraceSummary::default();
    assert_eq!((summary.requests_total(), summary.span_ns()), (0, 0));
    assert!(summary.read_share().abs() < 1e-12);
    for (stream, offset, op) in [
        (None, 0, Op::Write),
        (Some(0), 0, Op::Write),
        (Some(0), 100, Op::Write),
        (Some(0), 50, Op::Read),
        (Some(1), 300, Op::Trim),
    ] {
        summary.add(&Request {
            time_ns: 5 + offset,
            op,
            offset,
            length: 100,
            identity: Some(Identity::of_number(1, offset)),
            stream,
            pid: None,
            deduplicate: None,
        });
    }
    assert_eq!((summary.footprint_bytes(), summary.streams()), (100 + 200, 3));
    assert_eq!((summary.with_identity, summary.duplicate_writes), ([1, 3], 1));
    assert_eq!((summary.requests_total(), summary.span_ns()), (5, 300));
    assert_eq!((summary.first_ns, summary.last_ns, summary.distinct_written()), (5, 305, 2));
}

const REQUESTS: u64 = 0x85ee_861b_1bff_0380;
const CONTENTS: u64 = 0x4c32_99b9_75cf_2d40;
/// Header; frame; name 1 "ab"; a flush; a write of two pieces, 200 ns later; one 1 ns before the
/// first; one whose contents do not belong to its range.
const RECORDING: &[u8] = b"ONEFREC1\x00\x02\0\0\x91\xf9\x3e\x7f\
    FRAM\x58\0\0\0\xf6\x9f\x06\x46\x40\x42\x0f\0\0\0\0\0\
    \x04\x01\x02ab\
    \x03\x00\x01\x00\x00\
    \x09\x90\x03\x01\xff\x03\x02\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\
    \x09\x01\x01\x80\x04\x80\x04\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x03\
    \x01\x00\x01\xff\x7f\x80\x80\x01";
