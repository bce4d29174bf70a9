//! The pool against a plain model: reads, crashes, faults, damage.

#![allow(clippy::disallowed_methods, reason = "tests take their dose from the environment")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod alone;
mod asked;
mod between;
mod check_beside;
mod collisions;
mod copy_on_write;
mod crash;
mod cut_short;
mod damage;
mod deduplication;
mod device;
mod differ;
mod doubt;
mod endless;
mod faults;
mod given_up;
mod handover;
mod harmed;
mod harmed_wide;
mod hooks;
mod index_memory;
mod left_behind;
mod lost_blocks;
mod maintained;
mod meanwhile;
mod mended;
mod model;
mod notes;
mod noticed;
mod opening;
mod operations;
mod parallel;
mod parsers;
mod punch;
mod quiet;
mod received;
mod recovery;
mod reduction;
mod remade;
mod repair;
mod repair_journal;
mod repair_undone;
mod rescue;
mod scrub;
mod slots;
mod snapshots;
mod space;
mod streams;
mod support;
mod table;
mod undone;
mod volumes;
mod winning;
