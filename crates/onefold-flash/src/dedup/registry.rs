//! Every policy by name: the table, and one type that is any of them.
//! Room: onefold-flash.   In: a name and a TOML table.   Out: a policy.
//! A policy is a file with its `INFO`, its options and `make`, and a row of [`table!`]; who parses,
//! prints, helps or documents goes by [`POLICIES`].

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
use crate::dedup::info::PolicyInfo;
use crate::dedup::none::{self, NoDedup};
use crate::dedup::options::{Options, PolicyError, hint};
use crate::dedup::ses_device::{self, SesDevice};
use crate::dedup::ses_host::{self, SesHost};
use crate::dedup::site::Site;
use crate::dedup::wanted::Wanted;
use crate::dedup::{Look, Offline, Pair, Policy, Prepared, Verdict};
use crate::op::Work;

/// The table: each policy's variant, file and type, in the order in which they are listed. It is
/// handed to the macro named, behind what else that is given.
macro_rules! table {
    ($then:ident $with:tt) => {
        $then! {
            $with
            None = none: NoDedup;
            CaftlOnline = caftl_online: CaftlOnline<F>;
            CaftlOffline = caftl_offline: CaftlOffline<F>;
            BlockSeparation = block_separation: BlockSeparation<F>;
            CrcCompare = crc_compare: CrcCompare<F>;
            SesHost = ses_host: SesHost<F>;
            SesDevice = ses_device: SesDevice<F>;
            Gleaner = gleaner: Gleaner<F>;
            // Decides as `caftl-online` does, of what is smaller.
            Codeword = codeword: CaftlOnline<F>;
        }
    };
}

macro_rules! declare {
    (() $($variant:ident = $file:ident: $policy:ty;)*) => {
        /// Every policy.
        pub const POLICIES: &[PolicyInfo] = &[$($file::INFO),*];

        /// Any of the policies.
        #[derive(Clone, Debug)]
        pub enum AnyPolicy<F> {
            $(
                #[doc = concat!("The one in `", stringify!($file), ".rs`.")]
                $variant(Box<$policy>),
            )*
        }

        /// The policy of that name, which is in the table.
        fn make<F>(name: &str, fingerprints: F, options: &Options, site: &Site) -> AnyPolicy<F> {
            $(
                if name == $file::INFO.name {
                    return AnyPolicy::$variant(Box::new($file::make(fingerprints, options, site)));
                }
            )*
            unreachable!("{name} is in the table")
        }
    };
}

table!(declare());

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
    let parity = info.has("compression");
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
    Ok(info.wants.and_then(|wants| wants(&options)))
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
        if let Some(error) = info.refuses.and_then(|refuses| refuses(&options, site)) {
            return Err(error);
        }
        let truncation = if info.has("truncation") { options.word("truncation") } else { "crc64" };
        let sha1 = info.has("hash") && options.word("hash") == "sha1";
        fingerprints.configure(
            Truncation::by_name(truncation).expect("the option takes only names of truncations"),
            if sha1 { FingerprintKind::Sha1 } else { FingerprintKind::Sha256 },
        );
        if info.has("compression") {
            fingerprints.compress(Engine::of(&options));
        }
        Ok(make(info.name, fingerprints, &options, site))
    }
}

/// Calls the policy inside.
macro_rules! inside {
    ($self:expr, $policy:ident => $call:expr) => {
        table!(dispatch($self, $policy => $call))
    };
}

macro_rules! dispatch {
    (
        ($self:expr, $policy:ident => $call:expr)
        $($variant:ident = $file:ident: $type:ty;)*
    ) => {
        match $self { $(AnyPolicy::$variant($policy) => $call,)* }
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
