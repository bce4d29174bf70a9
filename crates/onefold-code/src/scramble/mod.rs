//! Scramblers: from a page's address to its key stream.
//! Room: onefold-code.   In: a description, an address, a page.   Out: the page, scrambled.

mod address;
mod generator;
mod keystream;
#[cfg(target_arch = "x86_64")]
mod keystream_x86;
mod lfsr;
mod presets;
mod scrambler;
mod spec;
mod text;

pub use address::{PageAddress, SeedMap, SeedSource};
pub use generator::{BitOrder, GeneratorSpec, LfsrSpec};
pub use lfsr::{Form, Lfsr};
pub use presets::{PRESET_NAMES, preset};
pub use scrambler::Scrambler;
pub use spec::ScramblerSpec;

pub(crate) use keystream::{Tables as KeyStream, lay_out_body as lay_out_words};
