//! Small runs, held word for word: what each part of a drive decides, and how long it takes.
//! Room: onefold-flash.

mod around;
mod drives;
mod laws;
mod policies;
pub(super) mod told;
mod workloads;
