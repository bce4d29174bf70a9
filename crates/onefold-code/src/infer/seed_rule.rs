//! Third step: how the state follows from the address.
//! Room: onefold-code.   In: (address, state) pairs.   Out: a linear map or a table.
//! Invariants: every page that a rule was not derived from must agree with it, and there must be
//! enough of them that chance is ruled out.

use super::report::{InferError, SeedRuleKind};
use super::states::PageStates;
use crate::gf2::{AffineFit, Poly};
use crate::scramble::SeedMap;

/// Bits of verification below which a rule is not believed.
const EVIDENCE_BITS: usize = 32;

pub(super) struct SeedRule {
    pub(super) map: SeedMap,
    pub(super) kind: SeedRuleKind,
    pub(super) pages_needed: usize,
    pub(super) pages_verified: usize,
}

pub(super) fn fit_seed_rule(found: &PageStates, polynomial: Poly) -> Result<SeedRule, InferError> {
    let length = polynomial.degree() as usize;
    let states = &found.states;
    let evidence = EVIDENCE_BITS.div_ceil(length).max(2);
    if states.len() <= evidence {
        return Err(InferError::TooFewPages { pages: states.len(), needed: evidence + 2 });
    }
    if let Some(rule) = affine(states).or_else(|| table(states, evidence)) {
        if rule.pages_verified < evidence {
            let needed = rule.pages_needed + evidence;
            return Err(InferError::TooFewPages { pages: states.len(), needed });
        }
        return Ok(rule);
    }
    Err(InferError::NoSeedRule { polynomial, pages: states.len() })
}

/// A linear map of the address bits plus a constant.
fn affine(states: &[(u64, u64)]) -> Option<SeedRule> {
    let mut fit = AffineFit::default();
    let mut verified = 0;
    for &(address, state) in states {
        match fit.predict(address) {
            Some(predicted) if predicted == state => verified += 1,
            Some(_) => return None,
            None => {
                fit.add(address, state);
            }
        }
    }
    let (mask, columns) = fit.columns();
    let (first, state) = states[0];
    let constant = columns
        .iter()
        .enumerate()
        .filter(|(bit, _)| first & mask & 1 << bit != 0)
        .fold(state, |sum, (_, column)| sum ^ column);
    if columns.iter().all(|&c| c == 0) {
        return Some(SeedRule {
            map: SeedMap::Table { seeds: vec![state] },
            kind: SeedRuleKind::Constant,
            pages_needed: 1,
            pages_verified: states.len() - 1,
        });
    }
    Some(SeedRule {
        map: SeedMap::Linear { mask, base: first & !mask, constant, columns },
        kind: SeedRuleKind::Linear { address_bits: mask.count_ones() },
        pages_needed: fit.unknowns(),
        pages_verified: verified,
    })
}

/// The shortest table that repeats over the dump.
fn table(states: &[(u64, u64)], evidence: usize) -> Option<SeedRule> {
    let (first, last) = (states.first()?.0, states.last()?.0);
    let span = last.checked_sub(first)? + 1;
    let mut by_offset: Vec<Option<u64>> = vec![None; usize::try_from(span).ok()?];
    for &(address, state) in states {
        by_offset[(address - first) as usize] = Some(state);
    }
    let limit = by_offset.len().checked_sub(evidence)?;
    for period in 2..=limit {
        let repeats = by_offset
            .iter()
            .zip(&by_offset[period..])
            .all(|(a, b)| a.is_none() || b.is_none() || a == b);
        if !repeats {
            continue;
        }
        let mut seeds = vec![None; period];
        let mut seen = 0;
        for &(address, state) in states {
            let slot = &mut seeds[(address % period as u64) as usize];
            match *slot {
                Some(seed) if seed != state => return None,
                Some(_) => seen += 1,
                None => *slot = Some(state),
            }
        }
        let Some(seeds) = seeds.into_iter().collect::<Option<Vec<u64>>>() else { continue };
        if seen < evidence {
            continue;
        }
        return Some(SeedRule {
            map: SeedMap::Table { seeds },
            kind: SeedRuleKind::Table { period: period as u64 },
            pages_needed: states.len() - seen,
            pages_verified: seen,
        });
    }
    None
}
