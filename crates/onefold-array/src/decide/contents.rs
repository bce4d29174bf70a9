//! What is stored, and what each address holds.
//! Room: onefold-array.
//! Invariants: a content is stored once, whoever asks first and in whatever order; the compressed
//! size of a content is a function of its number and the root seed only.
//! Cost: 4 bytes an address and one bit a content.
//!
//! A content is a number: two chunks are equal if and only if their numbers are. At the start each
//! address holds a content of its own, with the address as its number, and all of them are stored.

use std::hint::black_box;

use onefold_block::SplitMix64;

/// The identity of a chunk's bytes.
pub type Content = u32;

/// What an address holds that was never written, or was given up: zeros that nobody stores.
pub const NOTHING: Content = Content::MAX;

/// Contents and addresses.
#[derive(Clone, Debug)]
pub struct Contents {
    held: Vec<Content>,
    stored: Vec<u64>,
    /// What was looked for by an oracle, which knows of contents that are on their way.
    expected: Vec<u64>,
    unique: u64,
    duplicates: u64,
}

impl Contents {
    /// So many addresses, each with a content of its own.
    pub fn new(addresses: u32) -> Self {
        let stored: Vec<u64> = (0..addresses.div_ceil(64))
            .map(|word| match addresses - word * 64 {
                64.. => u64::MAX,
                rest => (1 << rest) - 1,
            })
            .collect();
        let (held, expected) = ((0..addresses).collect(), stored.clone());
        Self { held, stored, expected, unique: 0, duplicates: 0 }
    }

    /// Whether a content is stored.
    pub fn is_stored(&self, content: Content) -> bool {
        let word = self.stored.get(content as usize / 64);
        word.is_some_and(|word| word >> (content % 64) & 1 == 1)
    }

    /// Looks a written chunk up: true if its content was not stored, and is from now on.
    pub fn claim(&mut self, content: Content) -> bool {
        let new = set(&mut self.stored, content);
        *(if new { &mut self.unique } else { &mut self.duplicates }) += 1;
        new
    }

    /// Reads what chunks with these addresses and contents will need, so that its memory is near.
    /// It lies anywhere: a processor fetches many such lines at once in a loop that only reads, and
    /// one at a time between work that depends on them.
    pub fn touch(&self, chunks: impl Iterator<Item = (u32, Content)>) {
        let word = |content: Content| self.stored.get(content as usize / 64).copied();
        let read = chunks.fold(0, |all, (address, content)| {
            all ^ word(content).unwrap_or(0) ^ u64::from(self.held[address as usize])
        });
        black_box(read);
    }

    /// Whether a chunk that is on its way will be the first with its content: what an oracle says,
    /// if it is asked in the order in which chunks are looked up.
    pub fn expect(&mut self, content: Content) -> bool {
        set(&mut self.expected, content)
    }

    /// An address holds another content from now on.
    pub fn hold(&mut self, address: u64, content: Content) {
        self.held[address as usize] = content;
    }

    /// An address that comes into being holds this, which is stored unless it is nothing.
    pub fn begin(&mut self, address: u64, content: Content) {
        if self.held.len() <= address as usize {
            self.held.resize(address as usize + 1, NOTHING);
        }
        self.held[address as usize] = content;
        if content != NOTHING {
            set(&mut self.stored, content);
            set(&mut self.expected, content);
        }
    }

    /// What an address holds.
    pub fn held(&self, address: u64) -> Content {
        self.held[address as usize]
    }

    /// Chunks that were new, and chunks that were not.
    pub const fn found(&self) -> (u64, u64) {
        (self.unique, self.duplicates)
    }

    /// A number that depends on which contents are stored, and not on the order they came in.
    pub fn digest(&self) -> u64 {
        let used = self.stored.iter().enumerate().filter(|(_, word)| **word != 0);
        used.fold(0, |sum, (at, &word)| {
            let mixed = SplitMix64::new(word ^ (at as u64).rotate_left(40)).next_u64();
            sum.wrapping_add(mixed)
        })
    }
}

/// Sets a bit of a list that grows; true if it was not set.
fn set(bits: &mut Vec<u64>, number: Content) -> bool {
    let at = number as usize / 64;
    if at >= bits.len() {
        bits.resize((at + 1).next_power_of_two(), 0);
    }
    let bit = 1 << (number % 64);
    let new = bits[at] & bit == 0;
    bits[at] |= bit;
    new
}

/// How contents compress.
#[derive(Clone, Copy, Debug)]
pub struct Compressibility {
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Mean size after compression, as a share of the chunk.
    pub mean: f64,
    /// Half the width of its uniform distribution.
    pub spread: f64,
    /// Root of the random numbers.
    pub seed: u64,
}

impl Compressibility {
    /// Bytes of a content after compression: at least 1, at most the chunk; 0 of nothing.
    pub fn compressed(&self, content: Content) -> u64 {
        if content == NOTHING {
            return 0;
        }
        let draw = SplitMix64::new(self.seed ^ (u64::from(content) << 20 | 0x5eed)).next_u64();
        let unit = (draw >> 11) as f64 / (1_u64 << 53) as f64;
        let share = (self.mean + self.spread * (2.0 * unit - 1.0)).clamp(0.01, 1.0);
        ((share * self.chunk_bytes as f64) as u64).clamp(1, self.chunk_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_claimed_once_and_addresses_begin_with_their_own() {
        let mut contents = Contents::new(70);
        assert!((0..70).all(|c| contents.is_stored(c) && contents.held(u64::from(c)) == c));
        assert!(!contents.is_stored(70));
        let empty = contents.digest();
        assert!(contents.claim(200) && !contents.claim(200) && !contents.claim(69));
        assert_eq!(contents.found(), (1, 2));
        assert_ne!(contents.digest(), empty);
        contents.hold(3, 200);
        assert_eq!(contents.held(3), 200);
        contents.begin(75, 300);
        contents.begin(80, NOTHING);
        assert_eq!([75, 76, 80].map(|at| contents.held(at)), [300, NOTHING, NOTHING]);
        assert!(contents.is_stored(300) && !contents.is_stored(NOTHING));
        assert_eq!(contents.found(), (1, 2));
    }

    #[test]
    fn sizes_keep_their_mean_and_range() {
        let sizes = Compressibility { chunk_bytes: 4096, mean: 0.5, spread: 0.3, seed: 4 };
        let all: Vec<u64> = (0..50_000).map(|content| sizes.compressed(content)).collect();
        let mean = all.iter().sum::<u64>() as f64 / all.len() as f64;
        assert!((mean / 2048.0 - 1.0).abs() < 0.01, "{mean}");
        assert!(all.iter().all(|size| (819..=3277).contains(size)));
        assert_eq!(sizes.compressed(7), all[7]);
    }
}
