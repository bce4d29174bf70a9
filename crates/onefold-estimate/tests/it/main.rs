//! The estimator as its callers see it: trees in, reports out.
//! Room: onefold-estimate.

#![allow(clippy::disallowed_methods, reason = "tests take their dose from the environment")]

mod exact;
mod golden;
mod inside;
mod merge;
mod odd;
mod sampled;
mod tree;
mod twin;
mod words;
