//! Second step, other way: pages cut from one fixed ring of key stream.
//! Room: onefold-code.   In: pages, register.   Out: the ring, and where every page starts in it.
//! Source: each page follows the register up to the end of the ring and then goes on at its
//! beginning, the same state for every page; going from there shows the ring's length.

use std::collections::HashMap;

use super::Pages;
use super::generator::Layout;
use super::states::{PAGE_ERRORS_PERCENT, PageStates, Recovery, TRIES};
use crate::scramble::GeneratorSpec;

/// Longest ring looked for, in bytes.
const RING_MAX: usize = 1 << 16;
/// Pages searched for the end of the ring, and how many must agree.
const SAMPLE_PAGES: usize = 64;
const AGREEING: usize = 3;

/// The ring generator of a dump and its pages' starts, if that is what it is.
pub(super) fn recover_ring(
    pages: &Pages<'_>,
    layout: &Layout,
) -> Option<(GeneratorSpec, PageStates)> {
    // A page may start at any byte, so bytes must lie as they come.
    if layout.word_bytes != 1 {
        return None;
    }
    let mut recovery = Recovery::new(pages, layout);
    let (ring_seed, ring_bytes) = find_ring(pages, &mut recovery)?;
    let mut ring = vec![0u8; ring_bytes];
    recovery.stream.xor(recovery.kernel, ring_seed, 0, &mut ring);
    let positions = positions(&recovery, ring_seed, ring_bytes);
    let mut found = PageStates {
        states: Vec::with_capacity(pages.count),
        restart_bytes: 0,
        inverted: layout.inverted,
        explained: 0,
        bits_checked: 0,
        bit_errors: 0,
    };
    let bits = pages.words() as u64 * 64;
    for page in 0..pages.count {
        recovery.load(page, layout.inverted);
        let start = (0..TRIES.min(pages.words() - 1)).find_map(|word| {
            let at = *positions.get(&recovery.state_at(word)?)?;
            let start = (at + ring_bytes - word * 8 % ring_bytes) % ring_bytes;
            let errors = errors(&recovery.page, &ring, start);
            (errors * 100 <= bits * PAGE_ERRORS_PERCENT).then_some((start, errors))
        });
        if let Some((start, errors)) = start {
            found.states.push((pages.address(page), start as u64));
            found.bits_checked += bits;
            found.bit_errors += errors;
        }
    }
    found.explained = found.states.len();
    let register = layout.register(layout.inverted);
    let generator = GeneratorSpec::Ring { register, ring_seed, ring_bytes: ring_bytes as u32 };
    (found.explained * 10 >= pages.count * 9).then_some((generator, found))
}

/// Byte position in the ring of every state.
fn positions(recovery: &Recovery<'_>, ring_seed: u64, length: usize) -> HashMap<u64, usize> {
    let step = recovery.step(8);
    let mut state = ring_seed;
    let mut positions = HashMap::with_capacity(length);
    for at in 0..length {
        positions.entry(state).or_insert(at);
        state = step.apply(state);
    }
    positions
}

fn errors(page: &[u64], ring: &[u8], start: usize) -> u64 {
    let mut at = start;
    let mut sum = 0;
    for byte in page.iter().flat_map(|w| w.to_le_bytes()) {
        sum += u64::from((byte ^ ring[at]).count_ones());
        at = if at + 1 == ring.len() { 0 } else { at + 1 };
    }
    sum
}

/// State at the beginning of the ring, and the ring's length in bytes.
fn find_ring(pages: &Pages<'_>, recovery: &mut Recovery<'_>) -> Option<(u64, usize)> {
    let mut ends: Vec<(u64, usize, u64)> = Vec::new();
    let stride = pages.count.div_ceil(SAMPLE_PAGES).max(1);
    for page in (0..pages.count).step_by(stride) {
        recovery.load(page, recovery.layout.inverted);
        ends.extend(end_of_ring(recovery));
    }
    let (seed, _) = most_common(ends.iter().map(|&(first, ..)| first))?;
    let positions = positions(recovery, seed, RING_MAX);
    let lengths = ends
        .iter()
        .filter(|&&(first, ..)| first == seed)
        .filter_map(|&(_, bytes, start)| positions.get(&start).map(|&at| at + bytes));
    let (length, agree) = most_common(lengths)?;
    (agree >= AGREEING && length % 8 == 0).then_some((seed, length))
}

fn most_common<T: Copy + Eq + std::hash::Hash + Ord>(
    values: impl Iterator<Item = T>,
) -> Option<(T, usize)> {
    let mut counts = HashMap::new();
    for value in values {
        *counts.entry(value).or_insert(0usize) += 1;
    }
    counts.into_iter().max_by_key(|&(value, count)| (count, std::cmp::Reverse(value)))
}

/// For the loaded page: the state after the first break, the byte of the break, and the state at
/// the start of the page.
fn end_of_ring(recovery: &mut Recovery<'_>) -> Option<(u64, usize, u64)> {
    const AROUND: usize = 24;
    let words = recovery.page.len();
    let (start, end) = recovery.first_break()?;
    let from = end.max(1) - 1;
    // A state after the break, taken back as if the register had always run.
    let (word, later) = (end + 1..(end + 8).min(words - 1))
        .find_map(|word| Some((word, recovery.state_at(word)?)))?;
    let back = recovery.step(64).inverse()?.power((word - from) as u64);
    let virtual_state = back.apply(later);
    let mut after = [0u8; AROUND];
    recovery.stream.xor(recovery.kernel, virtual_state, 0, &mut after);
    let stored: Vec<u8> = recovery.page[from..].iter().flat_map(|w| w.to_le_bytes()).collect();
    let before = &recovery.made[from * 8..];
    let size = AROUND.min(stored.len());
    let differ =
        |a: &[u8], b: &[u8]| -> u32 { a.iter().zip(b).map(|(x, y)| (x ^ y).count_ones()).sum() };
    let cut = (0..=size).min_by_key(|&cut| {
        differ(&stored[..cut], &before[..cut]) + differ(&stored[cut..size], &after[cut..size])
    })?;
    let first = recovery.step(8).power(cut as u64).apply(virtual_state);
    Some((first, from * 8 + cut, start))
}
