//! The pool against a plain model: reads, crashes, faults, damage.

mod collisions;
mod crash;
mod damage;
mod faults;
mod model;
mod parallel;
mod reduction;
mod support;
mod volumes;
