//! Scramblers of known controllers, by name.
//! Room: onefold-code.
//! Source: the seeds, polynomials and rules below were read in public drivers and sample code;
//! docs/scramblers.md says where each comes from and what is known of its layout.

use super::address::{SeedMap, SeedSource};
use super::generator::{BitOrder, GeneratorSpec, LfsrSpec};
use super::lfsr::Form;
use super::spec::ScramblerSpec;
use crate::error::CodeError;
use crate::gf2::Poly;

/// Names that [`preset`] knows.
pub const PRESET_NAMES: [&str; 10] = [
    "allwinner-1024",
    "allwinner-512",
    "allwinner-boot0",
    "samsung-prbs15",
    "marvell-ring15",
    "macronix-8003",
    "macronix-8453",
    "macronix-8113",
    "macronix-8723",
    "lba-prbs31",
];

/// Page seeds of the Allwinner NAND controller; bit-reversed within 15 bits they are the start
/// values of Samsung's recommendation.
#[rustfmt::skip]
pub(crate) const ALLWINNER_SEEDS: [u16; 128] = [
    0x2b75, 0x0bd0, 0x5ca3, 0x62d1, 0x1c93, 0x07e9, 0x2162, 0x3a72,
    0x0d67, 0x67f9, 0x1be7, 0x077d, 0x032f, 0x0dac, 0x2716, 0x2436,
    0x7922, 0x1510, 0x3860, 0x5287, 0x480f, 0x4252, 0x1789, 0x5a2d,
    0x2a49, 0x5e10, 0x437f, 0x4b4e, 0x2f45, 0x216e, 0x5cb7, 0x7130,
    0x2a3f, 0x60e4, 0x4dc9, 0x0ef0, 0x0f52, 0x1bb9, 0x6211, 0x7a56,
    0x226d, 0x4ea7, 0x6f36, 0x3692, 0x38bf, 0x0c62, 0x05eb, 0x4c55,
    0x60f4, 0x728c, 0x3b6f, 0x2037, 0x7f69, 0x0936, 0x651a, 0x4ceb,
    0x6218, 0x79f3, 0x383f, 0x18d9, 0x4f05, 0x5c82, 0x2912, 0x6f17,
    0x6856, 0x5938, 0x1007, 0x61ab, 0x3e7f, 0x57c2, 0x542f, 0x4f62,
    0x7454, 0x2eac, 0x7739, 0x42d4, 0x2f90, 0x435a, 0x2e52, 0x2064,
    0x637c, 0x66ad, 0x2c90, 0x0bad, 0x759c, 0x0029, 0x0986, 0x7126,
    0x1ca7, 0x1605, 0x386a, 0x27f5, 0x1380, 0x6d75, 0x24c3, 0x0f8e,
    0x2b7a, 0x1418, 0x1fd1, 0x7dc1, 0x2d8e, 0x43af, 0x2267, 0x7da3,
    0x4e3d, 0x1338, 0x50db, 0x454d, 0x764d, 0x40a3, 0x42e6, 0x262b,
    0x2d2e, 0x1aea, 0x2e17, 0x173d, 0x3a6e, 0x71bf, 0x25f9, 0x0a5d,
    0x7c57, 0x0fbe, 0x46ce, 0x4939, 0x6b17, 0x37bb, 0x3e91, 0x76db,
];

/// Seeds of Macronix's sample code; its array has a sixteenth entry that is 0.
const MACRONIX_SEEDS: [u16; 16] = [
    0x11a3, 0x20b3, 0x30a4, 0x4434, 0x55a2, 0x6176, 0x7ee7, 0x828a, 0x1939, 0x4a7a, 0xb2ba, 0xc0ac,
    0x2dd8, 0xe2e7, 0x1565, 0x0000,
];

/// The preset called `name`.
///
/// # Errors
/// [`CodeError::UnknownPreset`] with the list of names.
pub fn preset(name: &str) -> Result<ScramblerSpec, CodeError> {
    let prbs15 = LfsrSpec { warmup_bits: 15, ..LfsrSpec::fibonacci(poly(15, 0b11)) };
    let spec = |source, restart, generator, map| ScramblerSpec {
        name: name.to_owned(),
        seed_source: source,
        restart_bytes: restart,
        generator,
        seed_map: map,
    };
    let in_block = SeedSource::PhysicalPageInBlock;
    let page_seeds =
        || SeedMap::Table { seeds: ALLWINNER_SEEDS.iter().map(|&s| u64::from(s)).collect() };
    Ok(match name {
        "allwinner-1024" => spec(in_block, 1024, GeneratorSpec::Lfsr(prbs15), page_seeds()),
        "allwinner-512" => spec(in_block, 512, GeneratorSpec::Lfsr(prbs15), page_seeds()),
        "allwinner-boot0" => spec(
            in_block,
            1024,
            GeneratorSpec::Lfsr(prbs15),
            SeedMap::Table { seeds: vec![0x4a80] },
        ),
        "samsung-prbs15" => spec(in_block, 0, GeneratorSpec::Lfsr(prbs15), page_seeds()),
        "marvell-ring15" => marvell_ring(name, prbs15),
        "macronix-8003" => macronix(name, 0x8003),
        "macronix-8453" => macronix(name, 0x8453),
        "macronix-8113" => macronix(name, 0x8113),
        "macronix-8723" => macronix(name, 0x8723),
        "lba-prbs31" => ScramblerSpec {
            name: name.to_owned(),
            ..ScramblerSpec::lba_lfsr(poly(31, 1 << 28 | 1), 0x2b75_0bd1)?
        },
        _ => {
            return Err(CodeError::UnknownPreset {
                name: name.to_owned(),
                accepted: PRESET_NAMES.join(", "),
            });
        }
    })
}

fn poly(degree: u32, low: u64) -> Poly {
    Poly::monic(degree, low).expect("preset polynomials fit their degree")
}

/// 4 KiB ring; a page starts at the little-endian 16-bit word at twice its number in the block,
/// rounded down to 4 bytes.
fn marvell_ring(name: &str, register: LfsrSpec) -> ScramblerSpec {
    const RING_BYTES: u32 = 4096;
    let generator = GeneratorSpec::Ring { register, ring_seed: 0x2b75, ring_bytes: RING_BYTES };
    let whole_ring = ScramblerSpec {
        name: name.to_owned(),
        seed_source: SeedSource::PhysicalPageInBlock,
        restart_bytes: 0,
        generator,
        seed_map: SeedMap::Table { seeds: vec![0] },
    };
    let mut ring = vec![0u8; RING_BYTES as usize];
    whole_ring.compile().expect("the preset is well formed").apply(0, &mut ring);
    let seeds = ring
        .chunks_exact(2)
        .map(|pair| u64::from(u16::from_le_bytes([pair[0], pair[1]]) & (RING_BYTES as u16 - 4)))
        .collect();
    ScramblerSpec { seed_map: SeedMap::Table { seeds }, ..whole_ring }
}

/// One of the four 16-stage registers, for chunk 0: it shifts left, which is this crate's Galois
/// form with the bits of the state turned around, and it puts out the bit after the step.
fn macronix(name: &str, taps: u64) -> ScramblerSpec {
    let register = LfsrSpec {
        polynomial: poly(16, taps),
        form: Form::Galois,
        bit_order: BitOrder::Lsb,
        word_bytes: 1,
        warmup_bits: 1,
        inverted: false,
        allow_reducible: true,
    };
    let seeds = (0..256usize)
        .map(|page| u64::from((MACRONIX_SEEDS[page & 15] >> (page >> 4)).reverse_bits()))
        .collect();
    ScramblerSpec {
        name: name.to_owned(),
        seed_source: SeedSource::PhysicalPageInBlock,
        restart_bytes: 0,
        generator: GeneratorSpec::Lfsr(register),
        seed_map: SeedMap::Table { seeds },
    }
}
