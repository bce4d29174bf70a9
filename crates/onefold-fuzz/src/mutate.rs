//! Inputs made from others: bits, bytes, numbers, words and pieces changed, the same for a seed.
//! Room: onefold-fuzz.   In: kept inputs, a seed.   Out: an input.

use onefold_block::SplitMix64;

/// Longest input that is made, in bytes.
const BYTES_MAX: usize = 64 << 10;
/// Most changes to one input.
const CHANGES_MAX: u64 = 8;

/// Numbers at which programs go wrong.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    1 << 48,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// Words at which readers of text go wrong.
const WORDS: [&str; 20] = [
    "0",
    "-1",
    "1e308",
    "-0.0",
    "nan",
    "inf",
    "18446744073709551616",
    "9223372036854775808",
    "0x10",
    "1e-320",
    "\"\"",
    "[]",
    "{}",
    "true",
    "1_000",
    "''",
    "[[[[[[[[",
    "\u{0}",
    "\u{feff}",
    "\n",
];

/// An input made from one or two of `kept`, of which there must be one.
pub fn input(kept: &[Vec<u8>], random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = one_of(kept, random).clone();
    for _ in 0..=random.below(CHANGES_MAX) {
        change(&mut bytes, kept, random);
        bytes.truncate(BYTES_MAX);
    }
    bytes
}

fn one_of<'a, T>(all: &'a [T], random: &mut SplitMix64) -> &'a T {
    &all[random.below(all.len() as u64) as usize]
}

/// A place in the input, or its end.
fn place(bytes: &[u8], random: &mut SplitMix64) -> usize {
    random.below(bytes.len() as u64 + 1) as usize
}

/// A short range, longer ones being rarer.
fn range(bytes: &[u8], random: &mut SplitMix64) -> std::ops::Range<usize> {
    let start = place(bytes, random);
    let most = [4, 16, 64, 4096][random.below(4) as usize];
    start..(start + random.below(most) as usize).min(bytes.len())
}

fn change(bytes: &mut Vec<u8>, kept: &[Vec<u8>], random: &mut SplitMix64) {
    match random.below(10) {
        0 => {
            let at = place(bytes, random);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        1 => {
            let at = place(bytes, random);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.next_u64() as u8;
            }
        }
        2 => {
            let range = range(bytes, random);
            bytes.drain(range);
        }
        3 => {
            let again = bytes[range(bytes, random)].to_vec();
            let at = place(bytes, random);
            bytes.splice(at..at, again);
        }
        4 | 5 => number(bytes, random),
        6 => {
            let range = word(bytes, random);
            bytes.splice(range, one_of(&WORDS, random).bytes());
        }
        7 => {
            let other = one_of(kept, random);
            let (from, to) = (range(other, random), range(bytes, random));
            bytes.splice(to, other[from].iter().copied());
        }
        8 => {
            let len = random.below(16) as usize;
            let at = place(bytes, random);
            bytes.splice(at..at, random.bytes(len));
        }
        _ => {
            let at = place(bytes, random);
            bytes.truncate(at);
        }
    }
}

/// Put a number of some width and byte order over what is there, or change it by a little.
fn number(bytes: &mut [u8], random: &mut SplitMix64) {
    let width = [1, 2, 4, 8][random.below(4) as usize];
    let at = place(bytes, random);
    let Some(found) = bytes.get_mut(at..at + width) else { return };
    let mut wide = [0; 8];
    wide[..width].copy_from_slice(found);
    let little = random.chance(1, 2);
    let value = if random.chance(1, 3) {
        let change = random.below(33).wrapping_sub(16);
        u64::from_le_bytes(wide).wrapping_add(change)
    } else {
        *one_of(&NUMBERS, random)
    };
    if little {
        found.copy_from_slice(&value.to_le_bytes()[..width]);
    } else {
        found.copy_from_slice(&value.to_be_bytes()[8 - width..]);
    }
}

/// A number or a name in a text.
fn word(bytes: &[u8], random: &mut SplitMix64) -> std::ops::Range<usize> {
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-+".contains(byte);
    let at = place(bytes, random);
    let before = bytes[..at].iter().rev().take_while(|byte| is_of_word(byte)).count();
    let after = bytes[at..].iter().take_while(|byte| is_of_word(byte)).count();
    at - before..at + after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_inputs_and_others_make_others() {
        let kept = [b"key = 12\n".to_vec(), vec![0; 100], Vec::new()];
        let many = |seed: u64| -> Vec<Vec<u8>> {
            let mut random = SplitMix64::new(seed);
            (0..20_000).map(|_| input(&kept, &mut random)).collect()
        };
        assert_eq!(many(1), many(1));
        assert_ne!(many(1), many(2));
        let made = many(3);
        assert!(made.iter().any(|input| input.len() > 100) && made.iter().any(Vec::is_empty));
        let text = |input: &&Vec<u8>| input.starts_with(b"key = ");
        assert!(made.iter().filter(text).any(|input| input.ends_with(b"nan\n")), "words change");
    }
}
