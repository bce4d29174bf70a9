//! One run and nothing else, for counting what a write costs: the difference of two runs of
//! different lengths, over the writes between them, is free of whatever the machine does beside.
//! Room: onefold-flash.
//! `valgrind --tool=callgrind target/release/examples/instructions empty|steady|timed WRITES
//! [KEY=VALUE]...`: the FTL alone, on an empty drive or in steady collection, or a run in time with
//! these settings; 4 GiB of SES-Dedup's SLC. `threads=N` among them is how many threads it takes.

#![allow(clippy::disallowed_methods, reason = "an example or benchmark reads its arguments")]

use std::error::Error;

use onefold_block::SplitMix64;
use onefold_flash::dedup::NoDedup;
use onefold_flash::nand::BlankNand;
use onefold_flash::run::{RunOptions, run};
use onefold_flash::spec::SpecBuilder;
use onefold_flash::{DriveSpec, Ftl, FtlSettings, Untimed};

fn untimed(steady: bool, writes: u32) -> Result<(), Box<dyn Error>> {
    let mut geometry = DriveSpec::preset("ses-slc").ok_or("a preset")?.geometry;
    geometry.planes_per_die = 1;
    let pages = (f64::from(geometry.pages()) / 1.28) as u32;
    let settings =
        FtlSettings { logical_pages: pages, gc_reserve_blocks: 3, ..FtlSettings::default() };
    let mut ftl = Ftl::format(BlankNand::new(geometry), NoDedup, settings)?;
    if steady {
        ftl.precondition_steady(|_| ())?;
    }
    let mut random = SplitMix64::new(2);
    let mut lpns = [0; 32];
    for _ in 0..writes / 32 {
        lpns.fill_with(|| random.below(pages.into()) as u32);
        ftl.announce(&lpns);
        for &lpn in &lpns {
            ftl.write(lpn, &(), &mut Untimed)?;
        }
    }
    Ok(())
}

fn timed(writes: u32, assignments: &[String]) -> Result<(), Box<dyn Error>> {
    let requests = format!("requests={writes}");
    let fixed = [requests.as_str(), "dram_bytes=68719476736", "planes_per_die=1"];
    let (mut threads, mut builder) = (1, SpecBuilder::preset("ses-slc")?);
    for text in fixed.into_iter().chain(assignments.iter().map(String::as_str)) {
        match text.strip_prefix("threads=") {
            Some(number) => threads = number.parse()?,
            None => builder = builder.set(text)?,
        }
    }
    let outcome = run(&builder.build()?, RunOptions { threads, ..RunOptions::default() })?;
    println!("{}", outcome.report.result_hash);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [case, writes, assignments @ ..] = arguments.as_slice() else {
        return Err("expected empty, steady or timed, and how many writes".into());
    };
    match case.as_str() {
        "timed" => timed(writes.parse()?, assignments),
        case => untimed(case == "steady", writes.parse()?),
    }
}
