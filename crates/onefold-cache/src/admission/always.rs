//! Every object that was missed is written.
//! Room: onefold-cache.

use crate::policy::{Admission, Incoming};

/// Admits everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Always;

impl Admission for Always {
    fn miss(&mut self, _: &mut Incoming) -> bool {
        true
    }
}
