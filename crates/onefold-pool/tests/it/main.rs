//! The pool against a plain model: reads, crashes, faults, damage.

mod crash;
mod model;
mod support;
