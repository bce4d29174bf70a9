//! Inputs that nobody meant, for everything that reads bytes from outside: each must end with a
//! result or an error, within memory and allocations that are in proportion to it.
//! Room: onefold-fuzz.   In: a target, a seed.   Out: nothing, or the input that broke it.
//! In the order in which a run meets them: `corpus` has the kept inputs, `mutate` changes them,
//! `targets` take them, `meter` watches what they cost, `run` puts it together.

pub mod corpus;
pub mod meter;
pub mod mutate;
pub mod run;
pub mod targets;
