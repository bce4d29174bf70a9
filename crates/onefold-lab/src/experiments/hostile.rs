//! Loads, drives and data that are meant to be bad for `gleaner`.
//! Room: onefold-lab.
//! Half of them were looked at while its rules were made; the others are kept for the report.
//! Invariants: the same family and seed give the same drive and requests for all policies; every
//! family to tune on has a kept one beside it that differs in numbers and not in kind.

use onefold_flash::spec::{DriveSpec, PatternKind, Precondition};
use onefold_sim::{RandomStream, RandomStreams, Ratio, SimSpan};
use onefold_workload::{ContentProfile, Identity, Request};

use super::drives::{Beside, close, fit, of_page};
use crate::error::Result;
use crate::settings::Settings;

/// The flash and the engines beside it.
#[derive(Clone, Copy, Debug)]
enum Drive {
    /// A preset as it is.
    Preset(&'static str),
    /// Hash engines that outrun reads: times of program and read in us, engines of 10 us.
    Fast { program_us: u64, read_us: u64, engines: u32 },
}

/// What such an engine takes for a page, and what a CRC, a comparison or a parity takes.
const HASH_NS: u64 = 10_000;
const OTHER_NS: u64 = 2_000;

/// How long the drive has been in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    /// It is empty, and each page is written once.
    New,
    /// It was written once, in order, and random pages are overwritten.
    Full,
    /// It was overwritten at random until its amplification no longer changed, and still is.
    Aged,
}

/// What is written.
#[derive(Clone, Copy, Debug)]
enum Data {
    /// Redundant pages in %, four fifths of them of hot contents.
    Copies(u64),
    /// Redundant pages in %, of contents with two copies nearly all.
    Pairs(u64),
    /// A set of pages, then copies of it in the same order: every other one a page further, the
    /// others shifted by half a page, so that nobody finds anything in them.
    Shifted(u64),
}

/// When requests come.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Independent of each other, at so many of 100 of what the flash programs.
    Poisson(u64),
    /// Bursts of so many requests as fast as four times what the flash programs, and pauses that
    /// bring the load down to so many of 100.
    Bursts { requests: u64, percent: u64 },
    /// So many outstanding at any time.
    Depth(u32),
}

/// A family.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// What it is.
    pub name: &'static str,
    /// Whether it was kept for the report.
    pub kept: bool,
    drive: Drive,
    age: Age,
    data: Data,
    load: Load,
    /// Memory of all policies, in % of what SES-Dedup's tables take.
    pub memory: u64,
}

const SLC: Drive = Drive::Preset("ses-slc");
const MLC: Drive = Drive::Preset("ses-mlc2");
const FAST: Drive = Drive::Fast { program_us: 100, read_us: 50, engines: 2 };
const FASTER: Drive = Drive::Fast { program_us: 200, read_us: 40, engines: 4 };

const fn seen(name: &'static str, drive: Drive, age: Age, data: Data, load: Load) -> Family {
    Family { name, kept: false, drive, age, data, load, memory: 100 }
}

const fn kept(name: &'static str, drive: Drive, age: Age, data: Data, load: Load) -> Family {
    Family { kept: true, ..seen(name, drive, age, data, load) }
}

const fn small(family: Family) -> Family {
    Family { memory: 10, ..family }
}

/// Every family, one to tune on and then the kept one beside it.
pub const FAMILIES: &[Family] = &[
    seen("aged, 2 % load", SLC, Age::Aged, Data::Copies(30), Load::Poisson(2)),
    kept("aged MLC-2, 5 % load", MLC, Age::Aged, Data::Copies(40), Load::Poisson(5)),
    seen("fast engines", FAST, Age::New, Data::Copies(40), Load::Poisson(50)),
    kept("faster engines, full", FASTER, Age::Full, Data::Copies(30), Load::Poisson(30)),
    seen("256 outstanding", SLC, Age::New, Data::Copies(30), Load::Depth(256)),
    // Kept until 30 November 2026, when what it lost led to a split that is learnt.
    seen("128 outstanding, fast engines", FAST, Age::Full, Data::Copies(40), Load::Depth(128)),
    kept("192 outstanding, faster engines", FASTER, Age::Full, Data::Copies(30), Load::Depth(192)),
    seen(
        "bursts, full",
        SLC,
        Age::Full,
        Data::Copies(30),
        Load::Bursts { requests: 256, percent: 20 },
    ),
    // Kept until 27 November 2026, when what it lost led to a defect.
    seen(
        "bursts, aged",
        SLC,
        Age::Aged,
        Data::Pairs(30),
        Load::Bursts { requests: 64, percent: 10 },
    ),
    kept(
        "short bursts, aged MLC-2",
        MLC,
        Age::Aged,
        Data::Pairs(20),
        Load::Bursts { requests: 32, percent: 15 },
    ),
    seen(
        "shifted copies",
        SLC,
        Age::New,
        Data::Shifted(4),
        Load::Bursts { requests: 1024, percent: 60 },
    ),
    kept("shifted copies, MLC-2", MLC, Age::Full, Data::Shifted(6), Load::Poisson(25)),
    small(seen("small tables", SLC, Age::New, Data::Copies(30), Load::Poisson(60))),
    small(kept("small tables, fast engines", FAST, Age::Full, Data::Pairs(40), Load::Poisson(30))),
];

impl Family {
    /// The drive and the requests.
    pub fn build(&self, settings: &Settings<'_>, seed: u64) -> Result<(DriveSpec, Vec<Request>)> {
        let spec = self.drive(settings, seed)?;
        let requests = self.requests(settings, &spec)?;
        Ok((spec, requests))
    }

    fn drive(&self, settings: &Settings<'_>, seed: u64) -> Result<DriveSpec> {
        let preset = if let Drive::Preset(name) = self.drive { name } else { "park-shin" };
        let mut spec = DriveSpec::preset(preset).expect("families name presets that exist");
        spec.seed = seed;
        if let Drive::Fast { program_us, read_us, engines } = self.drive {
            spec.timing.program_latency_ns = SimSpan::from_us(program_us).ns();
            spec.timing.read_latency_ns = SimSpan::from_us(read_us).ns();
            let controller = &mut spec.controller;
            (controller.hash_ns, controller.hash_engines) = (HASH_NS, engines);
            controller.light_hash_ns = OTHER_NS;
            controller.compare_ns = OTHER_NS;
            controller.parity_correction_ns = OTHER_NS;
        }
        let spare_percent = if self.age == Age::New { 0 } else { 20 };
        fit(&mut spec, settings, &Beside { pages_per_block: 64, blocks: 12, spare_percent })?;
        spec.ftl.gc_idle_blocks = 8;
        spec.precondition = match self.age {
            Age::New => Precondition::None,
            Age::Full => Precondition::Prefill,
            Age::Aged => Precondition::Steady,
        };
        spec.workload.pattern = PatternKind::Uniform;
        if let Load::Depth(depth) = self.load {
            close(&mut spec, depth);
        }
        Ok(spec)
    }

    /// What the pages hold, in the order in which they are written.
    fn contents(
        &self,
        settings: &Settings<'_>,
        spec: &DriveSpec,
    ) -> Result<Box<dyn Iterator<Item = Identity>>> {
        let (pages, seed) = (spec.workload.requests, spec.seed);
        let (percent, hot, share) = match self.data {
            Data::Copies(percent) => (percent, 15, 80),
            Data::Pairs(percent) => (percent, 2, 6),
            Data::Shifted(turns) => {
                let set = pages / turns;
                let at = move |page: u64| match (page / set, page % set) {
                    (turn, at) if turn % 2 == 1 => Identity::of_number(seed, at + turn),
                    // Half of one page and half of the next is content of its own.
                    (turn, at) => Identity::of_number(seed ^ turn, at),
                };
                return Ok(Box::new((0..pages).map(at)));
            }
        };
        let profile = ContentProfile {
            duplicate_ratio: Ratio::percent(percent),
            hot_fingerprint_ratio: Ratio::percent(hot),
            hot_share: Ratio::percent(share),
        };
        let set = profile.data_set(pages, seed).map_err(|error| settings.refused(error))?;
        Ok(Box::new(set))
    }

    /// Writes, and reads of written pages in between.
    fn requests(&self, settings: &Settings<'_>, spec: &DriveSpec) -> Result<Vec<Request>> {
        let mut contents = self.contents(settings, spec)?;
        let pages = spec.workload.requests;
        let reads = settings.number("reads_percent")?;
        let bytes = u64::from(spec.geometry.page_bytes);
        // Of one request, if every package programmed without pause and reads took no time.
        let packages = u64::from(spec.geometry.packages);
        let full_ns = spec.timing.program_latency_ns * (100 - reads) / 100 / packages;
        let mut random = RandomStreams::new(spec.seed).stream("hostile");
        let mut written = 0;
        let mut time_ns = 0;
        let mut all: Vec<Request> = Vec::new();
        while written < pages {
            let read = written != 0 && random.below(100) < reads;
            let page = match (read, self.age) {
                (true, Age::New) => random.below(written),
                (false, Age::New) => written,
                (_, Age::Full | Age::Aged) => random.below(pages),
            };
            time_ns += self.load.gap_ns(all.len() as u64, full_ns, &mut random);
            let write = (!read).then(|| contents.next());
            all.push(Request { time_ns, ..of_page(page, bytes, write) });
            written += u64::from(!read);
        }
        Ok(all)
    }
}

impl Load {
    /// Time between a request and the one before it.
    fn gap_ns(self, number: u64, full_ns: u64, random: &mut RandomStream) -> u64 {
        match self {
            Self::Depth(_) => 0,
            Self::Poisson(percent) => {
                random.exponential(SimSpan::from_ns(full_ns * 100 / percent)).ns()
            }
            Self::Bursts { requests, percent } => {
                let inside = random.exponential(SimSpan::from_ns(full_ns / 4)).ns();
                let whole = requests * full_ns * 100 / percent;
                let pause = if number.is_multiple_of(requests) { whole } else { 0 };
                inside + pause
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::find;
    use crate::settings::Options;

    #[test]
    fn a_new_drive_has_no_space_for_overwrites() {
        let set = vec![("pages".to_owned(), (1 << 20).into())];
        let options = Options { set, ..Options::default() };
        let settings = Settings::new(find("beyond/gleaner-hostile").unwrap()[0], &options).unwrap();
        for family in FAMILIES {
            let geometry = family.drive(&settings, 1).unwrap().geometry;
            let row = u64::from(geometry.planes()) * 64;
            let spare = if family.age == Age::New { 0 } else { (1 << 20) * 20 / 100 / row };
            let blocks = u64::from(geometry.blocks_per_plane);
            assert_eq!(blocks, (1_u64 << 20).div_ceil(row) + 12 + spare, "{}", family.name);
        }
    }
}
