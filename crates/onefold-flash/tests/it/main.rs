//! Integration tests of the flash room.
//! Room: onefold-flash.

#![allow(clippy::disallowed_methods, reason = "tests take their dose from the environment")]

mod amplification;
mod announced;
mod any_spec;
mod attached;
mod bytes_files;
mod bytes_laws;
mod codeword;
mod collection;
mod conservation;
mod decision_time;
mod dedup_closed_loop;
mod dedup_codewords;
mod dedup_collisions;
mod dedup_every_step;
mod dedup_laws;
mod dedup_memory;
mod dedup_model;
mod dedup_power;
mod dedup_prediction;
mod drive;
mod drive_damage;
mod drive_device;
mod drive_faults;
mod drive_host_side;
mod drive_kill;
mod drive_packing;
mod drive_power;
mod drive_undone;
mod host_scrambler_time;
mod idle_hint;
mod idle_order;
mod issued;
mod on_demand;
mod one_sided;
mod packing;
mod packing_time;
mod power;
mod presets;
mod same_decisions;
mod shared_seeds;
mod spec;
mod spread;
mod steady_state;
mod support;
mod threads;
mod timing;
mod timing_budget;
mod timing_queue;
mod validation;
