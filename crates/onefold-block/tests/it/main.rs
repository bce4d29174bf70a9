//! Integration tests of the ground floor, as one binary.
//! Room: onefold-block.

#![allow(clippy::disallowed_methods, reason = "tests take their dose from the environment")]
#![expect(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod conformance;
mod files;
mod folder_lock;
mod folder_store;
mod golden;
mod handover;
mod laws;
mod mem_container_store;
mod mutants;
mod private_files;
mod sim;
mod sim_crash;
mod small_file;
mod store_layer;
mod wrappers;
