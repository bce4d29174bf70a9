//! The estimator as its callers see it: trees in, reports out.
//! Room: onefold-estimate.

mod exact;
mod merge;
mod odd;
mod sampled;
mod tree;
mod twin;
