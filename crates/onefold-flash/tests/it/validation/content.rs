//! V5 policy by policy: the closed forms of deduplicated content, for those that miss nothing
//! inline and for those that find it when idle.
//! Room: onefold-flash.   Source: docs/ssd-validation.md, V5.

use onefold_block::SplitMix64;

use onefold_flash::dedup::{AnyPolicy, Identities, Policy, Site};
use onefold_flash::ftl::{Ftl, FtlError, FtlSettings};
use onefold_flash::nand::{Identity, Nand};

use super::kinds::{Array, array, none, untimed};
use super::laws;
use super::perfect::PerfectTable;
use super::plane::plane;
use super::steady::{Row, Scale, measure, waf_between};

/// A policy by name, with options that leave nothing out.
pub type Case = (&'static str, &'static str);

/// Policies that share every duplicate at once, as units are always idle without time. Tables of
/// sets keep entries of dead pages: with four for each page no live one is pushed out.
pub const INLINE: &[Case] = &[
    ("caftl-online", ""),
    ("ses-host", "table_share = 4"),
    ("ses-device", "table_share = 4"),
    ("gleaner", "table_share = 4"),
];

/// Policies, and ways of working, that find duplicates in idle moments.
pub const IDLE: &[Case] = &[
    ("caftl-online", "prehash = true"),
    ("caftl-online", "sample_one_in = 4\nbackground = true"),
    ("caftl-offline", ""),
    ("block-separation", ""),
    ("block-separation", "hash_unique = false"),
    ("crc-compare", ""),
    ("ses-host", "inline = false"),
    ("ses-device", ""),
    ("gleaner", "rounds = 'whole'"),
    ("gleaner", ""),
];

/// Pages of a block.
const NP: u32 = 64;
/// Idle moments while the drive is overwritten once.
const MOMENTS: u32 = 4;

/// What is written where: uniform places, uniform contents.
struct Draws {
    random: SplitMix64,
    logical: u32,
    contents: u64,
}

impl Draws {
    fn new(logical: u32, ratio: f64) -> Self {
        let contents = (f64::from(logical) / ratio) as u64;
        Self { random: SplitMix64::new(13), logical, contents }
    }

    fn content(&mut self) -> Identity {
        Identity::of_number(self.random.below(self.contents))
    }

    fn next(&mut self) -> (u32, Identity) {
        let lpn = self.random.below(u64::from(self.logical)) as u32;
        (lpn, self.content())
    }

    fn live_pages(&self) -> f64 {
        laws::dedup_live_pages(f64::from(self.logical), self.contents as f64)
    }

    fn fill<P: Policy<Identity>>(&mut self, ftl: &mut Ftl<Array, P>) -> Result<(), FtlError> {
        for lpn in 0..self.logical {
            let page = self.content();
            ftl.write(lpn, &page, &mut untimed())?;
        }
        Ok(())
    }
}

/// Logical pages with a drive of so many blocks, if there were no over-provisioning.
fn full(blocks: u32) -> Result<u32, FtlError> {
    let logical_pages = plane(blocks, NP).pages() / 4;
    let settings = FtlSettings { logical_pages, ..FtlSettings::default() };
    let ftl = Ftl::format(array(plane(blocks, NP)), none(), settings)?;
    Ok((ftl.effective_alpha() * f64::from(logical_pages)) as u32)
}

fn policy((name, options): Case, blocks: u32) -> Result<AnyPolicy<Identities>, FtlError> {
    let site = Site::new(plane(blocks, NP), None);
    let refused = |error: &dyn std::fmt::Display| FtlError::Settings(error.to_string());
    let options = options.parse().map_err(|error: toml::de::Error| refused(&error))?;
    AnyPolicy::new::<Identity>(name, &options, &site, Identities).map_err(|error| refused(&error))
}

/// Contents drawn from `logical / ratio`, deduplicated inline by a table without misses.
///
/// # Errors
/// Those of the FTL.
pub fn perfect(scale: Scale, ratio: f64) -> Result<Vec<Row>, FtlError> {
    at_once("", scale, ratio, PerfectTable::new(100, 3))
}

/// The same by one of [`INLINE`].
///
/// # Errors
/// Those of the FTL; [`FtlError::Settings`] for a policy or option that there is not.
pub fn inline(scale: Scale, ratio: f64, case: Case) -> Result<Vec<Row>, FtlError> {
    at_once(&format!("{}: ", case.0), scale, ratio, policy(case, scale.blocks)?)
}

fn at_once<P: Policy<Identity>>(
    who: &str,
    scale: Scale,
    ratio: f64,
    policy: P,
) -> Result<Vec<Row>, FtlError> {
    let full = full(scale.blocks)?;
    // So many logical pages that the unique ones leave 20 % of the drive.
    let unique_share = laws::dedup_live_pages(ratio, 1.0) / ratio;
    let logical = (f64::from(full) / 1.2 / unique_share) as u32;
    let logical = logical.min(full - 8 * NP);
    let mut draws = Draws::new(logical, ratio);
    let settings = FtlSettings { logical_pages: logical, ..FtlSettings::default() };
    let nand = array(plane(scale.blocks, NP));
    let mut ftl = Ftl::format(nand, policy, settings)?;
    draws.fill(&mut ftl)?;
    measure(&mut ftl, Scale { measured: 0, ..scale }, &mut untimed(), &mut || draws.next())?;
    let before = *ftl.counters();
    let live_before = live_pages(&ftl);
    measure(&mut ftl, Scale { warm: 0, ..scale }, &mut untimed(), &mut || draws.next())?;
    let after = *ftl.counters();
    let written = (after.host_pages_written - before.host_pages_written) as f64;
    let inline = (after.inline_pages - before.inline_pages) as f64;
    let live = f64::midpoint(live_before, live_pages(&ftl));
    let unique = laws::dedup_unique_share(f64::from(logical), draws.contents as f64);
    let alpha = ftl.effective_alpha() * f64::from(logical) / draws.live_pages();
    let waf = waf_between(&before, &after) * written / (written - inline);
    let row = |what, theory, measured| {
        let what = format!("{who}{what}, U/K {ratio}");
        Row { id: "V5", what, theory, measured }
    };
    Ok(vec![
        row("share of writes programmed", unique, 1.0 - inline / written),
        row("live pages", draws.live_pages(), live),
        row("amplification of unique writes (band 1 to 1.12)", laws::greedy(alpha, NP), waf),
    ])
}

/// Live pages after idle moments that were long enough, by one of [`IDLE`].
///
/// # Errors
/// Those of the FTL; [`FtlError::Settings`] for a policy or option that there is not.
pub fn idle(scale: Scale, ratio: f64, case: Case) -> Result<Row, FtlError> {
    let full = full(scale.blocks)?;
    // Nothing may be found until the first idle moment.
    let logical = (f64::from(full) * 0.8) as u32;
    let mut draws = Draws::new(logical, ratio);
    let settings = FtlSettings { logical_pages: logical, ..FtlSettings::default() };
    let nand = array(plane(scale.blocks, NP));
    let mut ftl = Ftl::format(nand, policy(case, scale.blocks)?, settings)?;
    draws.fill(&mut ftl)?;
    let mut live = 0.0;
    for moment in 0..MOMENTS * (scale.warm + scale.measured) {
        for _ in 0..logical / MOMENTS {
            let (lpn, page) = draws.next();
            ftl.write(lpn, &page, &mut untimed())?;
        }
        while ftl.deduplicate_step(&mut untimed())? {}
        if moment >= MOMENTS * scale.warm {
            live += live_pages(&ftl) / f64::from(MOMENTS * scale.measured);
        }
    }
    let options = case.1.replace('\n', ", ");
    let what = format!("{} {options}: live pages after idle moments, U/K {ratio}", case.0);
    Ok(Row { id: "V5", what, theory: draws.live_pages(), measured: live })
}

fn live_pages<N: Nand, P: Policy<N::Page>>(ftl: &Ftl<N, P>) -> f64 {
    f64::from(ftl.blocks().live_of_plane(0))
}
