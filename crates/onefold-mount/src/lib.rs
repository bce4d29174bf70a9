//! Door: an archive as a file system. The kernel's questions are answered by walking about in it,
//! and small files that are likely to be read next are handed over before it asks.

mod ahead;
mod damage;
mod door;
mod mounted;
mod recent;

pub use damage::Damage;
pub use mounted::Mounted;
