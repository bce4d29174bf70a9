//! Families of data and load on which policies are compared; none was used to tune any policy.
//! Room: onefold-lab.
//! Invariants: the same family, variant and seed give the same drive and requests for all policies.

use onefold_flash::spec::{DriveSpec, Precondition};
use onefold_sim::{RandomStreams, Ratio};
use onefold_workload::content::{PRESETS, UniformContent};
use onefold_workload::{ContentProfile, Identity, Request};

use super::drives::{Beside, close, fit, of_page};
use crate::error::{LabError, Result};
use crate::settings::Settings;

/// What is written.
#[derive(Clone, Copy, Debug)]
enum Data {
    /// The data sets of SES-Dedup Table III, one a variant.
    Table3,
    /// Redundant pages, contents with over two copies, redundant pages that are theirs; all in %.
    Profile(u64, u64, u64),
    /// Contents drawn from so many of 100 of the number of pages.
    Uniform(u64),
}

/// When requests come.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Bursts at so many of 100 of what the flash programs, with gaps.
    Bursts(u64),
    /// The same without gaps.
    Steady(u64),
    /// So many outstanding at any time.
    Depth(u32),
}

/// A family.
#[derive(Debug)]
pub struct Family {
    /// What it is.
    pub name: &'static str,
    flash: &'static str,
    data: Data,
    load: Load,
    /// Whether pages are overwritten at random on a drive that is full.
    overwrites: bool,
}

const fn family(name: &'static str, flash: &'static str, data: Data, load: Load) -> Family {
    Family { name, flash, data, load, overwrites: false }
}

const COPIES: Data = Data::Profile(30, 15, 80);
const SLC: &str = "ses-slc";

/// Every family.
pub const FAMILIES: &[Family] = &[
    family("Table III, bursts", SLC, Data::Table3, Load::Bursts(80)),
    family("few copies each", SLC, Data::Profile(30, 2, 6), Load::Bursts(80)),
    family("no duplicates", SLC, Data::Profile(0, 0, 0), Load::Bursts(80)),
    family("half duplicates", SLC, Data::Profile(50, 15, 80), Load::Bursts(80)),
    family("random contents", SLC, Data::Uniform(150), Load::Bursts(80)),
    family("no idle", SLC, COPIES, Load::Steady(80)),
    family("64 outstanding", SLC, COPIES, Load::Depth(64)),
    family("1 outstanding", SLC, COPIES, Load::Depth(1)),
    Family {
        name: "overwrites",
        flash: SLC,
        data: COPIES,
        load: Load::Bursts(30),
        overwrites: true,
    },
    family("MLC-2", "ses-mlc2", COPIES, Load::Bursts(80)),
    family("TLC, fast hashes", "tlc", COPIES, Load::Bursts(80)),
];

impl Family {
    /// How many kinds of data it has.
    pub fn variants(&self) -> usize {
        if matches!(self.data, Data::Table3) { PRESETS.len() } else { 1 }
    }

    /// The drive and the requests.
    pub fn build(
        &self,
        settings: &Settings<'_>,
        variant: usize,
        seed: u64,
    ) -> Result<(DriveSpec, Vec<Request>)> {
        let mut spec = self.drive(settings)?;
        spec.seed = seed;
        let contents = self.contents(settings, &spec, variant)?;
        let requests = self.requests(settings, &mut spec, contents)?;
        Ok((spec, requests))
    }

    fn drive(&self, settings: &Settings<'_>) -> Result<DriveSpec> {
        let mut spec = DriveSpec::preset(self.flash).expect("families name presets that exist");
        let spare_percent = if self.overwrites { 15 } else { 0 };
        fit(&mut spec, settings, &Beside { pages_per_block: 256, blocks: 9, spare_percent })?;
        spec.ftl.journal = false;
        spec.precondition =
            if self.overwrites { Precondition::Prefill } else { Precondition::None };
        if let Load::Depth(depth) = self.load {
            close(&mut spec, depth);
        }
        Ok(spec)
    }

    fn contents(
        &self,
        settings: &Settings<'_>,
        spec: &DriveSpec,
        variant: usize,
    ) -> Result<Box<dyn Iterator<Item = Identity>>> {
        let (pages, seed) = (spec.workload.requests, spec.seed);
        let profile = match self.data {
            Data::Table3 => PRESETS[variant].profile,
            Data::Uniform(percent) => {
                let mut values = UniformContent::new(pages * percent / 100, seed);
                return Ok(Box::new(std::iter::from_fn(move || values.next())));
            }
            Data::Profile(0, ..) => {
                return Ok(Box::new((0..pages).map(move |at| Identity::of_number(seed, at))));
            }
            Data::Profile(duplicates, hot, share) => ContentProfile {
                duplicate_ratio: Ratio::percent(duplicates),
                hot_fingerprint_ratio: Ratio::percent(hot),
                hot_share: Ratio::percent(share),
            },
        };
        let refused = |problem: String| LabError::Refused { id: settings.id.to_owned(), problem };
        let set = profile.data_set(pages, seed).map_err(|error| refused(error.to_string()))?;
        Ok(Box::new(set))
    }

    /// Writes of every page in order, or of random pages, with reads of written ones in between.
    fn requests(
        &self,
        settings: &Settings<'_>,
        spec: &mut DriveSpec,
        mut contents: Box<dyn Iterator<Item = Identity>>,
    ) -> Result<Vec<Request>> {
        let pages = spec.workload.requests;
        let bytes = u64::from(spec.geometry.page_bytes);
        let reads = settings.number("reads_percent")?;
        let (burst, gap_us) = (settings.number("burst")?, settings.number("gap_us")?);
        let (percent, gap_us) = match self.load {
            Load::Bursts(percent) => (percent, gap_us),
            Load::Steady(percent) => (percent, 0),
            Load::Depth(_) => (100, 0),
        };
        // A request is a write in (100 - reads) of 100 cases, and eight packages program.
        let packages = u64::from(spec.geometry.packages);
        let mean_ns = spec.timing.program_latency_ns * (100 - reads) / packages / percent;
        let mut random = RandomStreams::new(spec.seed).stream("families");
        let mut written = 0;
        let mut time_ns = 0;
        let mut all: Vec<Request> = Vec::new();
        while written < pages {
            let read = written != 0 && random.below(100) < reads;
            let page = match (read, self.overwrites) {
                (true, false) => random.below(written),
                (_, true) => random.below(pages),
                (false, false) => written,
            };
            time_ns += 2 * random.below(mean_ns);
            if (all.len() as u64).is_multiple_of(burst) {
                time_ns += gap_us * 1000;
            }
            let write = (!read).then(|| contents.next());
            all.push(Request { time_ns, ..of_page(page, bytes, write) });
            written += u64::from(!read);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::find;
    use crate::settings::Options;

    #[test]
    fn a_drive_that_is_filled_once_has_no_space_for_overwrites() {
        let set = vec![("pages".to_owned(), (1 << 20).into())];
        let options = Options { set, ..Options::default() };
        let settings = Settings::new(find("beyond/gleaner").unwrap()[0], &options).unwrap();
        for family in FAMILIES {
            let geometry = family.drive(&settings).unwrap().geometry;
            let row = u64::from(geometry.planes()) * 256;
            let spare = if family.overwrites { (1 << 20) * 15 / 100 / row } else { 0 };
            let blocks = u64::from(geometry.blocks_per_plane);
            assert_eq!(blocks, (1 << 20) / row + 9 + spare, "{}", family.name);
        }
    }
}
