//! Small runs, held word for word: what each part of a drive decides, and how long it takes.
//! Room: onefold-flash.

mod around;
mod drives;
mod policies;
mod told;
mod workloads;
