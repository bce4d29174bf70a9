//! A drive in somebody else's time does what it does in a run.

use onefold_block::SplitMix64;
use onefold_flash::DriveSpec;
use onefold_flash::run::{Completion, HostRequest, RunOptions, attach, run};
use onefold_flash::spec::SpecBuilder;
use onefold_workload::{Identity, Op, Request};

fn drive(more: &str) -> DriveSpec {
    let text = format!(
        "precondition = 'steady'
        geometry.blocks_per_plane = 24
        geometry.pages_per_block = 32
        ftl.over_provisioning = 0.3
        controller.idle_after_ns = 100000
        {more}"
    );
    let builder = SpecBuilder::preset("ses-slc").and_then(|builder| builder.file("drive", &text));
    builder.and_then(SpecBuilder::build).expect("a drive")
}

#[test]
fn requests_that_are_handed_in_are_answered_when_a_run_answers_them() {
    for more in [
        "",
        "controller.write_buffer = 'back'\ncontroller.write_buffer_pages = 16",
        "dedup.policy = 'gleaner'",
    ] {
        let spec = drive(more);
        let (mut random, mut time) = (SplitMix64::new(5), 0);
        let pages = u64::from(spec.logical_pages());
        let bytes = u64::from(spec.geometry.page_bytes);
        let trace: Vec<Request> = (0..1500)
            .map(|_| {
                time += random.below(120_000);
                let op = [Op::Read, Op::Write, Op::Write, Op::Write][random.below(4) as usize];
                let length = (1 + random.below(4)) * bytes;
                let offset = random.below(pages - 4) * bytes;
                let identity = (op == Op::Write).then(|| Identity::of_number(1, random.below(300)));
                let (stream, pid, deduplicate) = (None, None, None);
                Request { time_ns: time, op, offset, length, identity, stream, pid, deduplicate }
            })
            .collect();
        let mut expected: Vec<(u64, u64)> = Vec::new();
        let mut observe = |done: &Completion| {
            expected.push((done.request.number, done.answered_ns));
            Ok(())
        };
        let options = RunOptions {
            trace: Some(Box::new(trace.clone().into_iter().map(Ok))),
            observer: Some(&mut observe),
            ..RunOptions::default()
        };
        let report = run(&spec, options).expect("a run").report;
        // Looked at only when a request comes, or at every event and at moments between them.
        for looks_often in [false, true] {
            let mut attached = attach(&spec).expect("a drive");
            let mut answers = Vec::new();
            for (number, request) in trace.iter().enumerate() {
                while looks_often
                    && let Some(next) = attached.next_event_ns()
                    && next < request.time_ns
                {
                    attached.advance(next - next % 2).expect("time passes");
                    attached.advance(next).expect("time passes");
                }
                let request = HostRequest {
                    number: number as u64,
                    arrival_ns: request.time_ns,
                    op: request.op,
                    lpn: (request.offset / bytes) as u32,
                    pages: (request.length / bytes) as u32,
                    first_byte: 0,
                    end_byte: bytes as u32,
                    identity: request.identity,
                    deduplicate: None,
                };
                attached.submit(request).expect("it is taken");
            }
            attached.advance(time + 1_000_000_000).expect("time passes");
            assert!(attached.has_answers());
            attached.take_answers(&mut answers);
            assert!(!attached.has_answers());
            let answers: Vec<(u64, u64)> = answers.iter().map(|a| (a.number, a.at_ns)).collect();
            assert_eq!(answers, expected, "{more} {looks_often}");
            let counts = attached.counts();
            let requests = &report.requests;
            assert_eq!(counts.pages_written, requests.pages_written);
            assert_eq!(counts.pages_read, requests.pages_read);
            assert_eq!(counts.pages_shared > 0, more.contains("gleaner"), "{counts:?}");
            assert!(counts.busy_ns > 0.0 && counts.busy_ns < (time + 1_000_000_000) as f64);
        }
    }
}
