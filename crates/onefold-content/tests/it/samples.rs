//! Blocks of many characters, from noise to zeros, for all tests.
//! Room: onefold-content.

use proptest::prelude::*;

/// Noise that depends on the seed only.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Blocks made of runs, copies from further back and noise: what makes an encoder err.
pub fn block(len_max: usize) -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        (any::<u64>(), 0..600_usize).prop_map(|(seed, len)| Part::Noise(seed, len)),
        (any::<u8>(), 0..900_usize).prop_map(|(byte, len)| Part::Run(byte, len)),
        (any::<u16>(), 0..300_usize).prop_map(|(back, len)| Part::Copy(back.into(), len)),
        (0..20_usize, 0..30_usize).prop_map(|(back, len)| Part::Copy(back, len)),
    ];
    prop::collection::vec(part, 0..60).prop_map(move |parts| {
        let mut out = Vec::new();
        for part in parts {
            match part {
                Part::Noise(seed, len) => out.extend(noise(seed, len)),
                Part::Run(byte, len) => out.resize(out.len() + len, byte),
                Part::Copy(back, len) => {
                    let from = out.len().saturating_sub(back + 1);
                    for i in from..from + len {
                        out.push(out.get(i).copied().unwrap_or(7));
                    }
                }
            }
        }
        out.truncate(len_max);
        out
    })
}

#[derive(Clone, Debug)]
enum Part {
    Noise(u64, usize),
    Run(u8, usize),
    Copy(usize, usize),
}
