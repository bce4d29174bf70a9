//! Second step: the state of the register at the start of every page, and where it restarts.
//! Room: onefold-code.   In: pages, register.   Out: one state per page that follows it.
//! Source: any 64 bits free of errors give the state, which the next 64 confirm and the whole
//! page then verifies; bit errors only cost a further try.

use super::Pages;
use super::generator::Layout;
use super::report::InferError;
use crate::cpu::Kernel;
use crate::gf2::{LinearMap, Poly};
use crate::scramble::{Form, KeyStream, Lfsr, LfsrSpec};

/// Words tried for an error-free start.
pub(super) const TRIES: usize = 64;
/// Largest share of differing bits of a page that still follows the register, in percent.
pub(super) const PAGE_ERRORS_PERCENT: u64 = 3;
/// Share of pages that may not follow it, in percent, when the data are known.
const STRAY_PAGES_PERCENT: usize = 10;

/// States of the pages that follow the register.
#[derive(Debug)]
pub(super) struct PageStates {
    /// (address, state), ascending by address.
    pub(super) states: Vec<(u64, u64)>,
    pub(super) restart_bytes: u32,
    pub(super) inverted: bool,
    pub(super) explained: usize,
    pub(super) bits_checked: u64,
    pub(super) bit_errors: u64,
}

pub(super) struct Recovery<'a> {
    pages: &'a Pages<'a>,
    pub(super) layout: &'a Layout,
    length: u32,
    /// The canonical stream: least significant bit first, never complemented.
    pub(super) stream: KeyStream,
    pub(super) kernel: Kernel,
    /// Advances a state by one word, and takes it back by one.
    word: LinearMap,
    back: LinearMap,
    pub(super) page: Vec<u64>,
    pub(super) made: Vec<u8>,
}

pub(super) fn recover_states(pages: &Pages<'_>, layout: &Layout) -> Result<PageStates, InferError> {
    let mut recovery = Recovery::new(pages, layout);
    let restart = recovery.find_restart();
    let mut found = PageStates {
        states: Vec::with_capacity(pages.count),
        restart_bytes: restart as u32,
        inverted: layout.inverted,
        explained: 0,
        bits_checked: 0,
        bit_errors: 0,
    };
    let mut first_stray = None;
    for page in 0..pages.count {
        match recovery.state(page, restart) {
            Some((state, errors)) => {
                found.states.push((pages.address(page), state));
                found.bits_checked += pages.words() as u64 * 64;
                found.bit_errors += errors;
            }
            None => first_stray = first_stray.or(Some(page)),
        }
    }
    found.explained = found.states.len();
    let unexplained = pages.count - found.explained;
    if !pages.unknown() && unexplained * 100 > pages.count * STRAY_PAGES_PERCENT {
        return Err(InferError::Contradictory {
            polynomial: layout.polynomial,
            first: first_stray.unwrap_or(0),
            unexplained,
            pages: pages.count,
        });
    }
    Ok(found)
}

impl<'a> Recovery<'a> {
    pub(super) fn new(pages: &'a Pages<'a>, layout: &'a Layout) -> Self {
        let register = LfsrSpec { allow_reducible: true, ..LfsrSpec::fibonacci(layout.polynomial) };
        let word = step_map(layout.polynomial, 64);
        let back = word.inverse().expect("a register with a constant term can be run backwards");
        Self {
            pages,
            layout,
            length: layout.polynomial.degree(),
            stream: KeyStream::new(&register),
            kernel: Kernel::best(),
            word,
            back,
            page: vec![0; pages.words()],
            made: vec![0; pages.words() * 8],
        }
    }

    /// The map that runs the register on by `bits`.
    pub(super) fn step(&self, bits: u64) -> LinearMap {
        step_map(self.layout.polynomial, bits)
    }

    /// State at a word of the loaded page, if the next word confirms it.
    pub(super) fn state_at(&self, word_index: usize) -> Option<u64> {
        let state = self.window(self.page[word_index]);
        let next = self.window(*self.page.get(word_index + 1)?);
        let differ = (self.word.apply(state) ^ next).count_ones();
        (differ <= self.length / 8).then_some(state)
    }

    /// Loads a page as key stream.
    pub(super) fn load(&mut self, page: usize, complement: bool) {
        self.pages.read(page, 0, &mut self.page);
        self.layout.to_stream(&mut self.page);
        if complement {
            self.page.iter_mut().for_each(|w| *w = !*w);
        }
    }

    /// First bits of a word as a state.
    fn window(&self, word: u64) -> u64 {
        word & (u64::MAX >> (64 - self.length))
    }

    /// State at the start of the loaded page, from an error-free pair of words.
    fn candidate(&self, word_index: usize) -> Option<u64> {
        let mut state = self.state_at(word_index)?;
        for _ in 0..word_index {
            state = self.back.apply(state);
        }
        Some(state)
    }

    /// Makes the key stream of a state over the page.
    fn make(&mut self, state: u64, restart: usize) {
        self.made.fill(0);
        self.stream.xor(self.kernel, state, restart, &mut self.made);
    }

    /// Differing bits of words `from..to` of the page and the made key stream.
    fn errors(&self, from: usize, to: usize) -> u64 {
        self.page[from..to]
            .iter()
            .zip(self.made[from * 8..to * 8].chunks_exact(8))
            .map(|(&w, bytes)| {
                let made = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
                u64::from((w ^ made).count_ones())
            })
            .sum()
    }

    /// State of a page and its bit errors, if the page follows the register.
    fn state(&mut self, page: usize, restart: usize) -> Option<(u64, u64)> {
        let words = self.pages.words();
        let limit = words as u64 * 64 * PAGE_ERRORS_PERCENT / 100;
        // Pages of unknown data may be filled with ones, which complements their key stream.
        let ways: &[bool] = if self.pages.unknown() { &[false, true] } else { &[false] };
        for &flip in ways {
            self.load(page, self.layout.inverted ^ flip);
            let segment = if restart == 0 { words } else { (restart / 8).clamp(1, words) };
            let mut tried = None;
            for at in 0..segment.min(TRIES) {
                let Some(state) = self.candidate(at) else { continue };
                if tried == Some(state) {
                    continue;
                }
                tried = Some(state);
                self.make(state, restart);
                let errors = self.errors(0, words);
                if errors <= limit {
                    return Some((state, errors));
                }
            }
        }
        None
    }

    /// After how many bytes the register starts again from the page's seed; 0 for never.
    fn find_restart(&mut self) -> usize {
        const PAGES: usize = 16;
        let step = self.pages.count.div_ceil(PAGES);
        for page in (0..self.pages.count).step_by(step) {
            // A few words at the end that do not follow are few enough to be taken for errors.
            if self.state(page, 0).is_some_and(|(state, _)| state != 0) && self.follows_to_end() {
                return 0;
            }
        }
        (0..self.pages.count)
            .step_by(step)
            .find_map(|page| {
                [false, true].into_iter().find_map(|flip| {
                    self.load(page, self.layout.inverted ^ flip);
                    self.restart_of_loaded()
                })
            })
            .unwrap_or(0)
    }

    /// Whether so many words with so many differing bits follow a key stream: what does not has
    /// half of them.
    const fn follows(errors: u64, words: usize) -> bool {
        errors * 5 < words as u64 * 64
    }

    /// Whether each word of the page follows the made key stream.
    fn follows_to_end(&self) -> bool {
        (0..self.pages.words()).all(|word| Self::follows(self.errors(word, word + 1), 1))
    }

    /// State at the start of the loaded page, and the first word that does not follow it; the
    /// stream of the state is left in `made`.
    pub(super) fn first_break(&mut self) -> Option<(u64, usize)> {
        const PROBE: usize = 4;
        let words = self.pages.words();
        for at in 0..TRIES.min(words) {
            let Some(state) = self.candidate(at).filter(|&s| s != 0) else { continue };
            self.make(state, 0);
            if Self::follows(self.errors(0, PROBE), PROBE) {
                let end = (0..words).find(|&w| !Self::follows(self.errors(w, w + 1), 1))?;
                return Some((state, end));
            }
        }
        None
    }

    /// Where the loaded page stops following the state of its first words and follows it again
    /// from the start.
    fn restart_of_loaded(&mut self) -> Option<usize> {
        let (_, end) = self.first_break()?;
        let bytes: Vec<u8> = self.page.iter().flat_map(|w| w.to_le_bytes()).collect();
        let head = self.made[..32].to_vec();
        let differ = |r: usize| -> u32 {
            head.iter().zip(&bytes[r..]).map(|(a, b)| (a ^ b).count_ones()).sum()
        };
        let (low, high) = ((end.max(2) - 2) * 8, (end + 1) * 8);
        (low.max(8)..=high.min(bytes.len() - 32))
            .min_by_key(|&r| differ(r))
            .filter(|&r| differ(r) < 26)
    }
}

/// The map that runs a register on by `bits`.
fn step_map(polynomial: Poly, bits: u64) -> LinearMap {
    LinearMap::of(polynomial.degree(), |state| {
        let mut lfsr = Lfsr::new_any_period(polynomial, Form::Fibonacci, state)
            .expect("recovered polynomials have a constant term and the state fits");
        lfsr.leap(bits);
        lfsr.state()
    })
}

#[cfg(test)]
mod tests {
    use super::super::generator::find_generator;
    use super::super::{DumpMaker, InferOptions};
    use super::*;
    use crate::scramble::preset;

    const PAGE: usize = 1024;

    fn with_recovery(check: impl FnOnce(Recovery<'_>)) {
        let spec = preset("lba-prbs31").unwrap();
        let mut maker = DumpMaker::new(&spec, 0, 0, 0.0, 1).unwrap();
        let mut dump = Vec::new();
        for _ in 0..8 {
            dump.extend_from_slice(maker.page(&[0; PAGE]).unwrap());
        }
        let pages = Pages::new(&dump, InferOptions::zeros(PAGE)).unwrap();
        let layout = find_generator(&pages).unwrap();
        check(Recovery::new(&pages, &layout));
    }

    #[test]
    fn a_word_is_no_state_unless_the_next_one_follows_from_it() {
        with_recovery(|mut recovery| {
            recovery.load(3, false);
            let words = recovery.page.len();
            assert!((0..words - 1).all(|word| recovery.state_at(word).is_some()));
            assert_eq!(recovery.state_at(words - 1), None, "nothing confirms the last one");
            let right = recovery.page[7];
            for wrong in [!right, 0, right.rotate_left(17), right ^ 0x5555_5555] {
                recovery.page[7] = wrong;
                assert_eq!((recovery.state_at(6), recovery.state_at(7)), (None, None), "{wrong:x}");
            }
            // A bit or two read wrong in the word that confirms are no reason.
            recovery.page[7] = right ^ 0x11;
            assert!(recovery.state_at(6).is_some());
        });
    }
}
