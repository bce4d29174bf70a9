//! What there is to know of a policy by its name.
//! Room: onefold-flash.

use crate::dedup::options::{OptionInfo, Options, PolicyError};
use crate::dedup::site::Site;
use crate::dedup::wanted::Wanted;
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
    /// The work that it waits for before it decides on a page, where that is all of time that it
    /// decides by; `None` if it looks at the clock, or at what is idle.
    pub(crate) awaits: Option<&'static [Work]>,
    /// What its host scrambles ahead of the drive, if it ever does.
    pub(crate) wants: Option<fn(&Options) -> Option<Wanted>>,
    /// Why it cannot work on a drive, if there are drives on which it cannot.
    pub(crate) refuses: Option<fn(&Options, &Site) -> Option<PolicyError>>,
}

impl PolicyInfo {
    /// Whether it has an option.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.options.iter().any(|option| option.key == key)
    }
}
