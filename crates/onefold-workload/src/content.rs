//! Content from a seed: data sets with the duplicates of real ones.
//! Room: onefold-workload.   Out: [`Identity`]s, in random order.

mod histogram;
mod measure;
mod profile;

pub use histogram::{Histogram, HistogramContent, HistogramError};
pub use measure::Measured;
pub use profile::{ContentProfile, PRESETS, Preset, ProfileError};

use onefold_sim::{RandomStream, RandomStreams};

use crate::request::Identity;

/// Content drawn uniformly from `values` values, without end.
#[derive(Clone, Debug)]
pub struct UniformContent {
    values: u64,
    seed: u64,
    stream: RandomStream,
}

impl UniformContent {
    /// Draws from `values` values, at least one.
    pub fn new(values: u64, seed: u64) -> Self {
        assert!(values > 0, "there must be some content");
        Self { values, seed, stream: RandomStreams::new(seed).stream("content.uniform") }
    }
}

impl Iterator for UniformContent {
    type Item = Identity;

    fn next(&mut self) -> Option<Identity> {
        Some(Identity::of_number(self.seed, self.stream.below(self.values)))
    }
}
