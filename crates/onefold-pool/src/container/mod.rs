//! Containers: where they are kept, how they fill, what they hold, who refers to them.
//! Room: onefold-pool.

pub mod buffer;
pub mod directories;
pub mod misses;
pub mod open;
pub mod table;
