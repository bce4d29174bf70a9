//! Every policy by name, with its options; and one type that is any of them.
//! Room: onefold-flash.   In: a name and a TOML table.   Out: a policy.

use onefold_code::Truncation;
use onefold_content::FingerprintKind;
use toml::Table;

use crate::dedup::block_separation::{self, BlockSeparation};
use crate::dedup::caftl_offline::{self, CaftlOffline};
use crate::dedup::caftl_online::{self, CaftlOnline};
use crate::dedup::codeword;
use crate::dedup::crc_compare::{self, CrcCompare};
use crate::dedup::engine::Engine;
use crate::dedup::fingerprints::Fingerprinting;
use crate::dedup::gleaner::{self, Gleaner};
use crate::dedup::none::NoDedup;
use crate::dedup::options::{OptionInfo, Options, PolicyError, hint};
use crate::dedup::ses::Ses;
use crate::dedup::ses_device::{self, DeviceSide, SesDevice};
use crate::dedup::ses_host::{self, HostSide, SesHost, Wanted};
use crate::dedup::site::Site;
use crate::dedup::{Look, Offline, Pair, Policy, Prepared, Verdict};
use crate::op::Work;

/// A policy that can be named in a specification.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInfo {
    /// The name.
    pub name: &'static str,
    /// When it works, and by what.
    pub summary: &'static str,
    /// Where it is described.
    pub source: &'static str,
    /// Its options.
    pub options: &'static [OptionInfo],
    /// Whether it keeps some pages in blocks apart, so that each plane fills one more.
    pub apart: bool,
}

/// Every policy.
pub const POLICIES: &[PolicyInfo] = &[
    PolicyInfo { name: "none", summary: "the baseline", source: "", options: &[], apart: false },
    PolicyInfo {
        name: "caftl-online",
        summary: "inline, by a strong hash on the hash engine",
        source: "CAFTL (FAST'11), as Park & Shin (JSTS 2015) describe it",
        options: caftl_online::OPTIONS,
        apart: false,
    },
    PolicyInfo {
        name: "caftl-offline",
        summary: "idle, by a strong hash of every page read back",
        source: "CAFTL (FAST'11), as Park & Shin (JSTS 2015) describe it",
        options: caftl_offline::OPTIONS,
        apart: false,
    },
    PolicyInfo {
        name: "block-separation",
        summary: "idle, by a strong hash; CRC-32 inline keeps likely duplicates in blocks apart",
        source: "Ahn & Shin (FAST'13), as Park & Shin (JSTS 2015) describe it",
        options: block_separation::OPTIONS,
        apart: true,
    },
    PolicyInfo {
        name: "crc-compare",
        summary: "idle, by comparison of pages with the same CRC-32, in blocks apart",
        source: "Park & Shin (JSTS 2015) sec. III",
        options: crc_compare::OPTIONS,
        apart: true,
    },
    PolicyInfo {
        name: "ses-host",
        summary: "inline and idle, by parity of plain data that the host scrambled ahead",
        source: "SES-Dedup (MSST 2019) sec. III",
        options: ses_host::OPTIONS,
        apart: false,
    },
    PolicyInfo {
        name: "ses-device",
        summary: "inline and idle, by parity corrected for the scrambler",
        source: "SES-Dedup (MSST 2019) sec. III",
        options: ses_device::OPTIONS,
        apart: false,
    },
    PolicyInfo {
        name: "gleaner",
        summary: "inline whenever comparing ends before programming would, and idle, by parity",
        source: "this project",
        options: gleaner::OPTIONS,
        apart: false,
    },
    PolicyInfo {
        name: codeword::NAME,
        summary: "inline, by a strong hash of each codeword, with a map of codewords",
        source: "this project; left to future work by SES-Dedup (MSST 2019) sec. IV",
        options: codeword::OPTIONS,
        apart: false,
    },
];

/// Any of the policies.
#[derive(Clone, Debug)]
pub enum AnyPolicy<F> {
    /// `none`.
    None(Box<NoDedup>),
    /// `caftl-online`, and `codeword`, which decides as it does of what is smaller.
    CaftlOnline(Box<CaftlOnline<F>>),
    /// `caftl-offline`.
    CaftlOffline(Box<CaftlOffline<F>>),
    /// `block-separation`.
    BlockSeparation(Box<BlockSeparation<F>>),
    /// `crc-compare`.
    CrcCompare(Box<CrcCompare<F>>),
    /// `ses-host`.
    SesHost(Box<SesHost<F>>),
    /// `ses-device`.
    SesDevice(Box<SesDevice<F>>),
    /// `gleaner`.
    Gleaner(Box<Gleaner<F>>),
}

/// The description of the policy called `name`.
///
/// # Errors
/// [`PolicyError::UnknownPolicy`].
pub fn policy_info(name: &str) -> Result<&'static PolicyInfo, PolicyError> {
    POLICIES.iter().find(|info| info.name == name).ok_or_else(|| PolicyError::UnknownPolicy {
        name: name.to_owned(),
        hint: hint(name, POLICIES.iter().map(|info| info.name)),
        accepted: POLICIES.iter().map(|info| info.name).collect::<Vec<_>>().join(", "),
    })
}

/// Checks name and options without building anything.
///
/// # Errors
/// [`PolicyError`].
pub fn check_policy(name: &str, options: &Table) -> Result<(), PolicyError> {
    let info = policy_info(name)?;
    Options::check(info.name, info.options, options).map(drop)
}

/// Whether a policy works on a drive whose engine compresses pages to be packed. Fingerprints of
/// plain content do, and those of parity if they are of what the engine puts out: a fragment begins
/// with a codeword, but a flash page of fragments has the parity of all of them.
///
/// # Errors
/// [`PolicyError`], most of all [`PolicyError::Packed`].
pub fn check_engine(name: &str, options: &Table, engine: Engine) -> Result<(), PolicyError> {
    let info = policy_info(name)?;
    let policy = info.name;
    if engine == Engine::None {
        return Ok(());
    }
    let parity = info.options.iter().any(|option| option.key == "compression");
    let options = Options::check(policy, info.options, options)?;
    if parity && Engine::of(&options) != engine {
        let place = Engine::NAMES[engine as usize];
        let why = format!(
            "its fingerprint must be that of what the engine puts out: expected \
             dedup.compression = \"{place}\", as ftl.compression"
        );
        let set = Some(format!("dedup.compression={place}"));
        return Err(PolicyError::Packed { policy, why, set });
    }
    Ok(())
}

/// What the host scrambles ahead of a drive with this policy; `None` if nothing: the policy does
/// not go by plain data on flash, or a compression engine is before the drive's scrambler.
///
/// # Errors
/// [`PolicyError`].
pub fn host_wants(name: &str, options: &Table) -> Result<Option<Wanted>, PolicyError> {
    let info = policy_info(name)?;
    let options = Options::check(info.name, info.options, options)?;
    let scrambles = info.name == "ses-host" && ses_host::scrambles(&options);
    Ok(scrambles.then(|| Wanted::new(&options)))
}

impl<F> AnyPolicy<F> {
    /// The policy called `name` with these options, for a drive of this kind.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn new<Page>(
        name: &str,
        options: &Table,
        site: &Site,
        mut fingerprints: F,
    ) -> Result<Self, PolicyError>
    where
        F: Fingerprinting<Page>,
    {
        let info = policy_info(name)?;
        let options = Options::check(info.name, info.options, options)?;
        let has = |key: &str| info.options.iter().any(|option| option.key == key);
        let truncation = if has("truncation") { options.word("truncation") } else { "crc64" };
        let sha1 = has("hash") && options.word("hash") == "sha1";
        fingerprints.configure(
            Truncation::by_name(truncation).expect("the option takes only names of truncations"),
            if sha1 { FingerprintKind::Sha1 } else { FingerprintKind::Sha256 },
        );
        if has("compression") {
            fingerprints.compress(Engine::of(&options));
        }
        let f = fingerprints;
        Ok(match info.name {
            "none" => Self::None(Box::new(NoDedup)),
            "caftl-online" | codeword::NAME => {
                Self::CaftlOnline(Box::new(CaftlOnline::new(f, &options, site)))
            }
            "caftl-offline" => Self::CaftlOffline(Box::new(CaftlOffline::new(f, &options, site))),
            "block-separation" => {
                Self::BlockSeparation(Box::new(BlockSeparation::new(f, &options, site)))
            }
            "crc-compare" => Self::CrcCompare(Box::new(CrcCompare::new(f, &options, site))),
            "ses-host" => {
                let design = HostSide::new(f, &options, site)?;
                Self::SesHost(Box::new(Ses::new(design, &options, site)))
            }
            "ses-device" => {
                let design = DeviceSide::new(f, &options);
                Self::SesDevice(Box::new(Ses::new(design, &options, site)))
            }
            "gleaner" => Self::Gleaner(Box::new(Gleaner::new(f, &options, site))),
            other => unreachable!("{other} is in the list"),
        })
    }
}

/// Calls the policy inside.
macro_rules! inside {
    ($self:expr, $policy:ident => $call:expr) => {
        match $self {
            AnyPolicy::None($policy) => $call,
            AnyPolicy::CaftlOnline($policy) => $call,
            AnyPolicy::CaftlOffline($policy) => $call,
            AnyPolicy::BlockSeparation($policy) => $call,
            AnyPolicy::CrcCompare($policy) => $call,
            AnyPolicy::SesHost($policy) => $call,
            AnyPolicy::SesDevice($policy) => $call,
            AnyPolicy::Gleaner($policy) => $call,
        }
    };
}

impl<Page, F: Fingerprinting<Page>> Policy<Page> for AnyPolicy<F> {
    #[inline]
    fn prepare(
        &mut self,
        lpn: u32,
        page: &Page,
        prepared: &mut Prepared,
        look: &mut impl Look,
    ) -> Option<Work> {
        inside!(self, policy => policy.prepare(lpn, page, prepared, look))
    }

    fn decide(
        &mut self,
        lpn: u32,
        page: &Page,
        prepared: Prepared,
        look: &mut impl Look,
    ) -> Verdict {
        inside!(self, policy => policy.decide(lpn, page, prepared, look))
    }

    fn stored(&mut self, ppn: u32, tag: u64) {
        inside!(self, policy => Policy::<Page>::stored(&mut **policy, ppn, tag));
    }

    fn recovered(&mut self, ppn: u32, tag: u64) {
        inside!(self, policy => Policy::<Page>::recovered(&mut **policy, ppn, tag));
    }

    fn moved(&mut self, from: u32, to: u32, tag: u64) {
        inside!(self, policy => Policy::<Page>::moved(&mut **policy, from, to, tag));
    }

    fn died(&mut self, ppn: u32) {
        inside!(self, policy => Policy::<Page>::died(&mut **policy, ppn));
    }

    fn compared(&mut self, candidate: u32, equal: bool) {
        inside!(self, policy => Policy::<Page>::compared(&mut **policy, candidate, equal));
    }

    fn next_offline(&mut self, look: &mut impl Look) -> Option<Offline> {
        inside!(self, policy => Policy::<Page>::next_offline(&mut **policy, look))
    }

    fn scanned(&mut self, ppn: u32, page: &Page, look: &mut impl Look) {
        inside!(self, policy => policy.scanned(ppn, page, look));
    }

    fn tag_read(&mut self, ppn: u32, tag: u64) {
        inside!(self, policy => Policy::<Page>::tag_read(&mut **policy, ppn, tag));
    }

    fn settled(&mut self, pair: Pair, merged: bool) {
        inside!(self, policy => Policy::<Page>::settled(&mut **policy, pair, merged));
    }

    fn expect_write(&mut self, page: &Page) {
        inside!(self, policy => policy.expect_write(page));
    }

    fn expect_deaths(&self, ppns: &[u32]) {
        inside!(self, policy => Policy::<Page>::expect_deaths(&**policy, ppns));
    }

    fn expect_move(&self, ppn: u32) {
        inside!(self, policy => Policy::<Page>::expect_move(&**policy, ppn));
    }

    fn dram(&self) -> Vec<(&'static str, u64)> {
        inside!(self, policy => Policy::<Page>::dram(&**policy))
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        inside!(self, policy => Policy::<Page>::report(&**policy))
    }
}
