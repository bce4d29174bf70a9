//! How often near-duplicate pages get one fingerprint, by code and truncation: the table of
//! Room: onefold-code.
//! docs/codes.md. Run: `cargo run --release -p onefold-code --example collisions [-- TRIALS]`
//! Pages of 8 KiB, random content; each count is of pairs that differ and yet collide.

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

use std::collections::HashSet;

use onefold_code::{Bch, CodeError, PageCode, Rng, Truncation, ldpc_by_name};

const PAGE: usize = 8192;
const CODEWORD: usize = 1024;
const KEPT: usize = PAGE / CODEWORD * 4;

const CHANGES: [&str; 5] = [
    "one bit flipped",
    "one byte changed",
    "one codeword replaced",
    "tiled pages (8 equal codewords), against each other",
    "two codewords swapped",
];

fn main() -> Result<(), CodeError> {
    let trials: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(100_000);
    let codes = [
        ("ses-33x256", PageCode::Ldpc(ldpc_by_name("ses-33x256")?)),
        ("qc-1k-32/33", PageCode::Ldpc(ldpc_by_name("qc-1k-32/33")?)),
        ("bch-t18-1k", PageCode::Bch(Bch::t18_1k())),
    ];
    println!("| code | change | whole 32 B | crc64 | byte8 | cw2 | exclusive-or fold |");
    println!("|---|---|---|---|---|---|---|");
    for (name, code) in &codes {
        for (change, words) in CHANGES.iter().enumerate() {
            let counts = measure(code, change, trials)?;
            let cells: Vec<String> = counts.iter().map(|&c| share(c, trials)).collect();
            println!("| `{name}` | {words} | {} |", cells.join(" | "));
        }
    }
    println!();
    println!("| code | pairs of bits of one codeword | of these, same 4 kept bytes |");
    println!("|---|---|---|");
    for (name, code) in &codes {
        println!("| `{name}` | {} | {} |", 8192u64 * 8191 / 2, pairs(code)?);
    }
    Ok(())
}

fn share(count: u64, trials: u64) -> String {
    if count == 0 { "0".into() } else { format!("{:.3} %", 100.0 * count as f64 / trials as f64) }
}

/// The four kept parity bytes of every codeword.
fn kept(code: &PageCode, page: &[u8]) -> Result<[u8; KEPT], CodeError> {
    let mut parity = [0u8; PAGE / CODEWORD * 32];
    code.encode_page(page, &mut parity)?;
    let mut out = [0u8; KEPT];
    for (k, p) in out.chunks_exact_mut(4).zip(parity.chunks_exact(32)) {
        k.copy_from_slice(&p[..4]);
    }
    Ok(out)
}

/// The whole fingerprint and its four shortened forms.
fn forms(kept: [u8; KEPT]) -> ([u8; KEPT], [u64; 4]) {
    let fold = kept
        .chunks_exact(8)
        .fold(0u64, |sum, word| sum ^ u64::from_le_bytes(word.try_into().expect("eight bytes")));
    let [a, b, c] = Truncation::ALL.map(|(t, _)| t.shorten(&kept));
    (kept, [a, b, c, fold])
}

fn measure(code: &PageCode, change: usize, trials: u64) -> Result<[u64; 5], CodeError> {
    let mut rng = Rng::new(change as u64 + 1);
    let mut base = vec![0u8; PAGE];
    rng.fill(&mut base);
    let of_base = forms(kept(code, &base)?);
    let mut counts = [0u64; 5];
    let mut seen: [HashSet<Vec<u8>>; 5] = Default::default();
    for _ in 0..trials {
        let mut page = base.clone();
        let place = rng.below(PAGE as u64) as usize;
        match change {
            0 => page[place] ^= 1 << rng.below(8),
            1 => page[place] ^= 1 + rng.below(255) as u8,
            2 => rng.fill(&mut page[place / CODEWORD * CODEWORD..][..CODEWORD]),
            3 => {
                rng.fill(&mut page[..CODEWORD]);
                for i in 1..PAGE / CODEWORD {
                    page.copy_within(..CODEWORD, i * CODEWORD);
                }
            }
            _ => {
                let other = (place / CODEWORD + 1 + rng.below(7) as usize) % 8;
                for i in 0..CODEWORD {
                    page.swap(place / CODEWORD * CODEWORD + i, other * CODEWORD + i);
                }
            }
        }
        let (whole, short) = forms(kept(code, &page)?);
        if change == 3 {
            let mut values = vec![whole.to_vec()];
            values.extend(short.map(|s| s.to_le_bytes().to_vec()));
            for ((count, seen), value) in counts.iter_mut().zip(&mut seen).zip(values) {
                *count += u64::from(!seen.insert(value));
            }
        } else {
            counts[0] += u64::from(whole == of_base.0);
            for i in 0..4 {
                counts[i + 1] += u64::from(short[i] == of_base.1[i]);
            }
        }
    }
    Ok(counts)
}

/// Pairs of data bits of a codeword whose joint change leaves the four kept bytes as they are.
fn pairs(code: &PageCode) -> Result<u64, CodeError> {
    let mut columns = Vec::with_capacity(CODEWORD * 8);
    for bit in 0..CODEWORD * 8 {
        let mut page = vec![0u8; CODEWORD];
        page[bit / 8] = 1 << (bit % 8);
        let mut parity = [0u8; 32];
        code.encode_page(&page, &mut parity)?;
        columns.push(u32::from_le_bytes([parity[0], parity[1], parity[2], parity[3]]));
    }
    columns.sort_unstable();
    let runs = columns.chunk_by(|a, b| a == b);
    Ok(runs.map(|run| run.len() as u64 * (run.len() as u64 - 1) / 2).sum())
}
