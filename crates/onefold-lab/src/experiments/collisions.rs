//! How often pages that are nearly alike get the same shortened fingerprint.
//! Room: onefold-lab.
//! Source: ours. [ses-dedup] sec. V.B keeps a quarter of a fingerprint without saying which; every
//! collision costs a byte comparison that finds a difference. Pages of 8 KiB under the paper's
//! rate of 32/33: eight codewords of 1 KiB, four bytes of each parity.

use std::collections::HashSet;

use onefold_code::{CodeError, KEPT_BYTES, PageCode, Rng, Truncation, ldpc_by_name};

use crate::error::{LabError, Result};
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;

const PAGE: usize = 8192;
const CODEWORD: usize = 1024;
const PARITY: usize = 32;

/// How the second page differs from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Bit,
    Byte,
    Codeword,
    Tiled,
    Swapped,
}

const CHANGES: [(Change, &str); 5] = [
    (Change::Bit, "one bit flipped"),
    (Change::Byte, "one byte changed"),
    (Change::Codeword, "one codeword replaced"),
    (Change::Tiled, "tiled pages"),
    (Change::Swapped, "two codewords swapped"),
];

/// The shortenings, the whole, and one that nobody should use.
const FORMS: [&str; 5] = ["whole 32 bytes", "crc64", "byte8", "cw2", "exclusive-or fold"];

/// Counts collisions of every change under every shortening.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let refused = |error: CodeError| LabError::Refused {
        id: settings.id.to_owned(),
        problem: error.to_string(),
    };
    let code = ldpc_by_name(settings.spec.text("code", settings.options.full)?);
    let code = PageCode::Ldpc(code.map_err(refused)?);
    let (trials, seed) = (settings.number("trials")?, settings.number("seed")?);
    let counts = settings.sweep(&CHANGES, |(change, _)| count(&code, *change, trials, seed));
    let (read, write) = (settings.real("read_us")?, settings.real("write_us")?);
    let line = Line::new("pairs that collide", "%").over("how the second page differs", "");
    for ((_, change), counts) in CHANGES.iter().zip(counts) {
        for (form, count) in FORMS.iter().zip(counts.map_err(refused)?) {
            let share = count as f64 / trials as f64;
            let point = data.put(&line.of(form), *change, 100.0 * share);
            if count != 0 {
                let cost = show(100.0 * share * read / write);
                point.note(format!("{cost} % of an SLC write in vain comparisons"));
            }
        }
    }
    Ok(())
}

/// Pairs that differ and yet collide, by form.
fn count(
    code: &PageCode,
    change: Change,
    trials: u64,
    seed: u64,
) -> std::result::Result<[u64; 5], CodeError> {
    let mut random = Rng::new(seed ^ ((change as u64 + 1) << 32));
    let mut base = vec![0; PAGE];
    random.fill(&mut base);
    let of_base = forms(code, &base)?;
    let mut seen: [HashSet<Vec<u8>>; 5] = Default::default();
    let mut counts = [0; 5];
    for _ in 0..trials {
        let page = changed(&base, change, &mut random);
        let of_page = forms(code, &page)?;
        for ((count, seen), (form, of_base)) in
            counts.iter_mut().zip(&mut seen).zip(of_page.into_iter().zip(&of_base))
        {
            // Tiled pages are compared with each other, the rest with the page they came from.
            let collides = match change {
                Change::Tiled => !seen.insert(form),
                _ => form == *of_base,
            };
            *count += u64::from(collides);
        }
    }
    Ok(counts)
}

fn changed(base: &[u8], change: Change, random: &mut Rng) -> Vec<u8> {
    let mut page = base.to_vec();
    let place = random.below(PAGE as u64) as usize;
    let first = place / CODEWORD;
    match change {
        Change::Bit => page[place] ^= 1 << random.below(8),
        Change::Byte => page[place] ^= 1 + random.below(255) as u8,
        Change::Codeword => random.fill(&mut page[first * CODEWORD..][..CODEWORD]),
        Change::Tiled => {
            random.fill(&mut page[..CODEWORD]);
            for at in 1..PAGE / CODEWORD {
                page.copy_within(..CODEWORD, at * CODEWORD);
            }
        }
        Change::Swapped => {
            let second = (first + 1 + random.below(7) as usize) % 8;
            for at in 0..CODEWORD {
                page.swap(first * CODEWORD + at, second * CODEWORD + at);
            }
        }
    }
    page
}

/// The kept bytes of a page, whole and shortened, in the order of [`FORMS`].
fn forms(code: &PageCode, page: &[u8]) -> std::result::Result<[Vec<u8>; 5], CodeError> {
    let mut parity = [0; PAGE / CODEWORD * PARITY];
    code.encode_page(page, &mut parity)?;
    let kept: Vec<u8> =
        parity.chunks_exact(PARITY).flat_map(|parity| &parity[..KEPT_BYTES]).copied().collect();
    let mut fold = vec![0; 8];
    for (at, byte) in kept.iter().enumerate() {
        fold[at % 8] ^= byte;
    }
    let short = |way: Truncation| way.shorten(&kept).to_le_bytes().to_vec();
    let (crc64, byte8, cw2) =
        (short(Truncation::Crc64), short(Truncation::Byte8), short(Truncation::Cw2));
    Ok([kept, crc64, byte8, cw2, fold])
}
