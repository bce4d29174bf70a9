//! A drive in the state before its first request.
//! Room: onefold-flash.   In: a specification.   Out: array, FTL and host.

use crate::dedup::{Engine, Policy, Site, check_engine, check_policy, host_wants};
use crate::ftl::Ftl;
use crate::nand::{IdentityNand, Nand, Sizes};
use crate::run::error::RunError;
use crate::run::host_scrambler::HostScrambler;
use crate::run::report::{self, DramReport};
use crate::run::request::SimPage;
use crate::run::source::Source;
use crate::run::steady;
use crate::spec::{DriveSpec, Precondition, WriteBuffer};

/// Whether a drive with its policy can be simulated.
pub(super) fn check(spec: &DriveSpec) -> Result<(), RunError> {
    spec.check()?;
    check_policy(&spec.dedup.policy, &spec.dedup.options)?;
    check_engine(&spec.dedup.policy, &spec.dedup.options, spec.engine())?;
    if spec.packs() && spec.controller.write_buffer == WriteBuffer::Through {
        return Err(RunError::PackingThrough);
    }
    Ok(())
}

/// An array of identities, with the compression engine that the drive has.
pub(super) fn nand(spec: &DriveSpec) -> Result<IdentityNand, RunError> {
    let codewords = spec.codewords();
    if codewords > 1 {
        let sizes = Sizes::codewords(codewords);
        return Ok(IdentityNand::new(spec.geometry).with_sizes(Some(sizes)));
    }
    let engine = match spec.engine() {
        // Where nothing is scrambled, both sides of the scrambler are the same.
        Engine::AfterScrambler if spec.media.scrambler == "none" => Engine::BeforeScrambler,
        engine => engine,
    };
    let sizes = Sizes {
        subpages: spec.ftl.subpages,
        percent: spec.workload.compressed_percent,
        spread: spec.workload.compressed_spread_percent,
        engine,
        plain: host_wants(&spec.dedup.policy, &spec.dedup.options)?,
    };
    Ok(IdentityNand::new(spec.geometry).with_sizes(spec.packs().then_some(sizes)))
}

/// What a policy must know of the drive.
pub(super) fn site(spec: &DriveSpec) -> Site {
    let scrambler = onefold_code::preset(&spec.media.scrambler).ok();
    let seed_source = scrambler.map(|scrambler| scrambler.seed_source);
    spec.site(seed_source)
}

/// A drive in the state before its first request, with its host.
pub(super) type Ready<N, P> = (Ftl<N, P>, (Source, Option<HostScrambler>), DramReport);

pub(super) fn prepared<N, P>(
    spec: &DriveSpec,
    nand: N,
    policy: P,
    mut source: Source,
) -> Result<Ready<N, P>, RunError>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    let mut ftl = Ftl::format(nand, policy, spec.run_settings()).map_err(RunError::Format)?;
    let tables = [ftl.dram(), ftl.policy().dram()].concat();
    let dram = report::dram(spec, &tables)?;
    match spec.precondition {
        Precondition::None => {}
        Precondition::Steady => steady::fill(spec, &mut ftl, &mut source.contents)?,
        Precondition::Prefill => steady::prefill(spec, &mut ftl)?,
    }
    Ok((ftl, (source, HostScrambler::new(spec)?), dram))
}
