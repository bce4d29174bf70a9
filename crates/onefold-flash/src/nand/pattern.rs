//! What the cells of a page look like, in 64 bits; and how alike two pages are, exactly.
//! Room: onefold-flash.   In: bytes as the cells hold them.   Out: a sketch, a share.
//! Source: [ses-dedup] sec. III: similar patterns in one block raise raw bit error rates. The paper
//! says neither what is similar nor by how much; both are ours.
//! Invariants: the sketch only chooses a place. What errors are made of is [`likeness`].

/// Bits of a page that sketches have in common by chance are fewer than this, nearly always: 48
/// of 64 at one half each happen once in 24,000 pages.
const ALIKE_MIN: u32 = 48;

/// A sketch of a page: bit `i` is set where most of its 64-bit words have bit `i` set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern(u64);

impl Pattern {
    /// The sketch of a page; bytes past the last whole word do not count.
    pub fn of(page: &[u8]) -> Self {
        let (words, _) = page.as_chunks::<8>();
        // Bit `i` of plane `k` is bit `k` of a count: how many words had bit `i` set.
        let mut planes = [0u64; usize::BITS as usize];
        for &word in words {
            let mut carry = u64::from_le_bytes(word);
            for plane in &mut planes {
                (*plane, carry) = (*plane ^ carry, *plane & carry);
                if carry == 0 {
                    break;
                }
            }
        }
        // More than half, from the highest plane down: above, or still equal.
        let half = words.len() / 2;
        let (mut above, mut equal) = (0, u64::MAX);
        for (bit, plane) in planes.iter().enumerate().rev() {
            let limit = if half >> bit & 1 == 1 { u64::MAX } else { 0 };
            above |= equal & plane & !limit;
            equal &= !(plane ^ limit);
        }
        Self(above)
    }

    /// How alike two sketches are: 0 for what chance does, up to 17 for equal ones.
    pub const fn alike(self, other: Self) -> u32 {
        let agree = 64 - (self.0 ^ other.0).count_ones();
        (agree + 1).saturating_sub(ALIKE_MIN)
    }
}

/// How alike the cells of two pages of one size are: 0 where as many bits differ as agree, or more,
/// as between noise and anything else; 1 for the same bits.
pub fn likeness(one: &[u8], other: &[u8]) -> f64 {
    let bits = 8 * one.len().min(other.len());
    if bits == 0 {
        return 0.0;
    }
    let differ: u64 = one.iter().zip(other).map(|(a, b)| u64::from((a ^ b).count_ones())).sum();
    (1.0 - 2.0 * differ as f64 / bits as f64).max(0.0)
}

#[cfg(test)]
mod tests {
    use onefold_block::SplitMix64;

    use super::*;

    /// The sketch, by counting.
    fn counted(page: &[u8]) -> u64 {
        let (words, _) = page.as_chunks::<8>();
        let set =
            |bit: u32| words.iter().filter(|w| u64::from_le_bytes(**w) >> bit & 1 == 1).count();
        (0..64).filter(|&bit| set(bit) > words.len() / 2).fold(0, |sum, bit| sum | 1 << bit)
    }

    #[test]
    fn a_sketch_is_the_majority_of_each_bit() {
        let mut random = SplitMix64::new(5);
        for words in [0, 1, 2, 3, 7, 8, 128, 1000, 1024] {
            let page = random.bytes(8 * words + 3);
            assert_eq!(Pattern::of(&page).0, counted(&page), "{words} words");
            assert_eq!(Pattern::of(&vec![0xff; 8 * words]).0, if words > 0 { !0 } else { 0 });
        }
    }

    #[test]
    fn equal_pages_are_alike_and_noise_is_like_nothing() {
        let mut random = SplitMix64::new(6);
        let text: Vec<u8> = (0..8192).map(|_| b'a' + (random.next_u64() % 26) as u8).collect();
        let other: Vec<u8> = (0..8192).map(|_| b'a' + (random.next_u64() % 26) as u8).collect();
        let noise = random.bytes(8192);
        let sketch = |page: &[u8]| Pattern::of(page);
        assert_eq!(sketch(&text).alike(sketch(&text)), 17);
        assert!(sketch(&text).alike(sketch(&other)) > 8, "letters look like letters");
        assert_eq!(sketch(&text).alike(sketch(&noise)), 0);
        assert!((likeness(&text, &text) - 1.0).abs() < 1e-12);
        assert!(likeness(&text, &other) > 0.3 && likeness(&text, &noise) < 0.03);
        let inverted: Vec<u8> = text.iter().map(|byte| !byte).collect();
        assert!(likeness(&text, &inverted) <= 0.0 && likeness(&[], &[]) <= 0.0);
        // Half of the page is the same, half noise: half as alike.
        let mut half = text.clone();
        half[4096..].copy_from_slice(&noise[4096..]);
        assert!((likeness(&text, &half) - 0.5).abs() < 0.02);
    }

    #[test]
    fn sketches_of_noise_are_seldom_alike() {
        let mut random = SplitMix64::new(7);
        let sketches: Vec<Pattern> = (0..200).map(|_| Pattern::of(&random.bytes(1024))).collect();
        let pairs = sketches.iter().enumerate();
        let alike = pairs
            .flat_map(|(at, one)| sketches[..at].iter().map(|other| one.alike(*other)))
            .filter(|&alike| alike > 0)
            .count();
        assert!(alike < 10, "{alike} of 19,900 pairs");
    }
}
