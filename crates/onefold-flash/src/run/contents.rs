//! What written requests hold.
//! Room: onefold-flash.
//! Data sets (`profile` and those of the papers) end, as what a run writes does. Endless writes do
//! not: each is then a page of a data set as large as the part of the drive that is addressed,
//! picked at random, and a page without duplicate is new every time (the method of `DEDISbench`).
//! So what is on the drive at any time has about the duplicates that the data set has.

use onefold_workload::Identity;
use onefold_workload::content::{HistogramContent, UniformContent};

use crate::run::RunError;
use crate::spec::{ContentKind, DriveSpec, Precondition};

/// Identities of written requests.
pub(crate) enum Contents {
    /// Those of the trace, or fresh ones.
    Given,
    /// Drawn from a number of values.
    Uniform(UniformContent),
    /// Drawn from a data set without end.
    Endless(HistogramContent),
    /// A data set, page by page.
    Set(Box<dyn Iterator<Item = Identity> + Send>),
}

impl Contents {
    /// The contents of a generated workload with so many writes.
    pub(crate) fn of(spec: &DriveSpec, writes: impl FnOnce() -> u64) -> Result<Self, RunError> {
        let refused = |error: &dyn std::fmt::Display| RunError::Workload(error.to_string());
        let profile = match spec.workload.content {
            ContentKind::Unique => return Ok(Self::Given),
            ContentKind::Uniform => {
                let values = UniformContent::new(spec.workload.content_values, spec.seed);
                return Ok(Self::Uniform(values));
            }
            _ => spec.content_profile().expect("every other kind has a profile"),
        };
        if spec.precondition == Precondition::Steady {
            let requests = spec.footprint_pages() / u64::from(spec.workload.request_pages);
            let histogram = profile.histogram(requests).map_err(|error| refused(&error))?;
            return Ok(Self::Endless(histogram.content(spec.seed)));
        }
        let set = profile.data_set(writes(), spec.seed).map_err(|error| refused(&error))?;
        Ok(Self::Set(Box::new(set)))
    }

    /// Whether the same content is written more than once.
    pub(crate) const fn repeats(&self) -> bool {
        !matches!(self, Self::Given)
    }

    /// What the next write holds; `given` is what its trace says.
    pub(crate) fn next(&mut self, given: Option<Identity>) -> Option<Identity> {
        match self {
            Self::Given => given,
            Self::Uniform(values) => values.next(),
            Self::Endless(draws) => draws.next(),
            Self::Set(set) => set.next(),
        }
    }
}
