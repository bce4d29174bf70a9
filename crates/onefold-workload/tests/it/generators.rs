//! Generators make what their specification says.
//! Room: onefold-workload.

use onefold_sim::{Ratio, SimSpan};
use onefold_workload::generate::{SpecError, with_content};
use onefold_workload::{
    AddressPattern, Arrivals, Generator, Identity, Op, Request, ThinkTime, WorkloadSpec,
};

const PAGES: u64 = 1000;

fn spec(pattern: AddressPattern) -> WorkloadSpec {
    WorkloadSpec {
        pages: PAGES,
        page_bytes: 4096,
        requests: 50_000,
        read_share: Ratio::percent(30),
        pattern,
        arrivals: Arrivals::Poisson { between: SimSpan::from_us(100) },
        seed: 1,
    }
}

fn requests(spec: WorkloadSpec) -> Vec<Request> {
    Generator::new(spec).expect("a good spec").collect()
}

/// How often each page is asked for.
fn counts(requests: &[Request]) -> Vec<u64> {
    let mut counts = vec![0; PAGES as usize];
    for request in requests {
        assert!(request.offset.is_multiple_of(4096) && request.length == 4096);
        counts[(request.offset / 4096) as usize] += 1;
    }
    counts
}

#[test]
fn the_same_spec_gives_the_same_requests_and_streams_do_not_mix() {
    let base = spec(AddressPattern::Uniform);
    assert_eq!(requests(base), requests(base));
    assert_ne!(requests(base), requests(WorkloadSpec { seed: 2, ..base }));
    let reads = requests(WorkloadSpec { read_share: Ratio::ONE, ..base });
    assert!(reads.iter().all(|request| request.op == Op::Read));
    let places = |all: &[Request]| all.iter().map(|r| (r.time_ns, r.offset)).collect::<Vec<_>>();
    assert_eq!(places(&reads), places(&requests(base)));
}

#[test]
fn uniform_addresses_shares_and_gaps_are_as_asked() {
    let all = requests(spec(AddressPattern::Uniform));
    // 999 degrees of freedom: mean 999, deviation 45.
    let chi: f64 = counts(&all).iter().map(|&n| (n as f64 - 50.0).powi(2) / 50.0).sum();
    assert!((800.0..1200.0).contains(&chi), "{chi}");
    let reads = all.iter().filter(|request| request.op == Op::Read).count();
    assert!((14_600..15_400).contains(&reads), "{reads}");
    let mean = all.last().unwrap().time_ns as f64 / 49_999.0;
    assert!((mean / 100_000.0 - 1.0).abs() < 0.02, "{mean}");
    // Exponential gaps: a share 1/e exceeds the mean.
    let long = all.windows(2).filter(|two| two[1].time_ns - two[0].time_ns > 100_000).count();
    assert!((17_900..18_900).contains(&long), "{long}");
}

#[test]
fn zipf_addresses_are_skewed_and_scattered() {
    let counts = counts(&requests(spec(AddressPattern::Zipf { exponent: Ratio::ONE })));
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|&page| std::cmp::Reverse(counts[page]));
    // The harmonic number of 1000 is 7.485: the first has 6680, the second half as many.
    assert!((6_400..7_000).contains(&counts[order[0]]), "{}", counts[order[0]]);
    assert!((3_150..3_550).contains(&counts[order[1]]), "{}", counts[order[1]]);
    assert!(order[0].abs_diff(order[1]) > 100, "{:?}", &order[..4]);
}

#[test]
fn hot_pages_get_their_share() {
    let pattern =
        AddressPattern::HotCold { hot_pages: Ratio::percent(20), hot_requests: Ratio::percent(80) };
    let hot: u64 = counts(&requests(spec(pattern)))[..200].iter().sum();
    assert!((39_600..40_400).contains(&hot), "{hot}");
}

#[test]
fn sequential_addresses_wrap_and_constant_gaps_are_constant() {
    let between = SimSpan::from_us(7);
    let base = spec(AddressPattern::Sequential);
    let all = requests(WorkloadSpec { arrivals: Arrivals::Constant { between }, ..base });
    for (number, request) in all.iter().enumerate() {
        assert_eq!(request.offset, number as u64 % PAGES * 4096);
        assert_eq!(request.time_ns, number as u64 * 7_000);
    }
}

#[test]
fn closed_loops_think() {
    let closed = |think| WorkloadSpec {
        arrivals: Arrivals::Closed { queue_depth: 6, think },
        ..spec(AddressPattern::Uniform)
    };
    let mean = SimSpan::from_us(100);
    let mut generator = Generator::new(closed(ThinkTime::Exponential(mean))).unwrap();
    let thought: u64 = (0..20_000).map(|_| generator.think().ns()).sum();
    assert!((1_950_000_000..2_050_000_000).contains(&thought), "{thought}");
    assert!(generator.all(|request| request.time_ns == 0));
    let constant = Generator::new(closed(ThinkTime::Constant(mean))).unwrap().think();
    assert_eq!(constant, mean);
    assert_eq!(Generator::new(closed(ThinkTime::None)).unwrap().think(), SimSpan::ZERO);
}

#[test]
fn writes_take_content_until_it_ends() {
    let content = (0..100).map(|number| Identity::of_number(1, number));
    let all: Vec<_> =
        with_content(Generator::new(spec(AddressPattern::Uniform)).unwrap(), content).collect();
    let writes: Vec<_> = all.iter().filter(|request| request.op == Op::Write).collect();
    assert_eq!(writes.len(), 100);
    assert_eq!(writes[99].identity, Some(Identity::of_number(1, 99)));
    assert!(all.iter().all(|r| r.identity.is_some() == (r.op == Op::Write)));
}

#[test]
fn nonsense_is_named() {
    let base = spec(AddressPattern::Uniform);
    let refused = |spec, words: &str| {
        let error: SpecError = Generator::new(spec).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(WorkloadSpec { pages: 0, ..base }, "0 pages");
    refused(WorkloadSpec { page_bytes: 0, ..base }, "at least 1 byte");
    refused(WorkloadSpec { read_share: Ratio::percent(101), ..base }, "read share 101/100");
    refused(spec(AddressPattern::Zipf { exponent: Ratio::percent(1_100) }), "1100/100");
    let arrivals = Arrivals::Closed { queue_depth: 0, think: ThinkTime::None };
    refused(WorkloadSpec { arrivals, ..base }, "queue depth 0");
    let hot = |hot_pages, hot_requests| {
        let [hot_pages, hot_requests] = [hot_pages, hot_requests].map(Ratio::percent);
        spec(AddressPattern::HotCold { hot_pages, hot_requests })
    };
    refused(hot(101, 50), "hot share of the pages 101/100: expected a share from 0 to 1");
    refused(hot(50, 101), "hot share of the requests 101/100: expected a share from 0 to 1");
    assert!(Generator::new(hot(50, 100)).is_ok());
    let hot_pages = Ratio::new(1, 10_000).unwrap();
    let pattern = AddressPattern::HotCold { hot_pages, hot_requests: Ratio::ONE };
    refused(spec(pattern), "0 hot pages of 1000");
}
