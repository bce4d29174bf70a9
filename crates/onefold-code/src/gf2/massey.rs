//! Berlekamp-Massey: the shortest linear recurrence behind a bit sequence.
//! Room: onefold-code.   In: bits.   Out: length and characteristic polynomial.
//! Source: [massey-69]. The polynomial here is the reciprocal of his connection polynomial:
//! `s[t+L] = sum over i < L of c_i s[t+i]`.
//! Cost: O(n L / 64).

use super::Poly;

/// Result of Berlekamp-Massey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Massey {
    /// Linear complexity: length of the shortest register that makes the sequence.
    pub length: usize,
    /// Characteristic polynomial when the length is at most 64; of lower degree than `length`
    /// never, but its constant term is 0 when the sequence is only periodic after some bits.
    pub poly: Option<Poly>,
}

/// Shortest linear recurrence of `bits` (each 0 or 1). Gives up and returns `poly: None` as soon
/// as the length passes 64.
pub fn berlekamp_massey(bits: &[u8]) -> Massey {
    let (mut c, mut b) = (1u128, 1u128);
    let (mut length, mut since) = (0usize, 1u32);
    // Bit i of `window` is s[n - i].
    let mut window = 0u128;
    for (n, &bit) in bits.iter().enumerate() {
        window = window << 1 | u128::from(bit & 1);
        if (c & window).count_ones().is_multiple_of(2) {
            since += 1;
            continue;
        }
        let old = c;
        if since < 128 {
            c ^= b << since;
        }
        if 2 * length <= n {
            length = n + 1 - length;
            b = old;
            since = 1;
        } else {
            since += 1;
        }
        if length > 64 {
            return Massey { length, poly: None };
        }
    }
    // Connection polynomial C(D) of formal degree `length` turned around.
    let poly = (c.reverse_bits() >> (127 - length)) & ((1u128 << (length + 1)) - 1);
    Massey { length, poly: Poly::from_bits(poly) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every recurrence of every length, tried in order: the slow twin.
    fn slow_length(bits: &[u8]) -> usize {
        (0..=bits.len())
            .find(|&len| {
                (0..1u32 << len).any(|taps| {
                    (len..bits.len()).all(|t| {
                        let sum: u32 =
                            (0..len).map(|i| (taps >> i & 1) & u32::from(bits[t - len + i])).sum();
                        sum % 2 == u32::from(bits[t])
                    })
                })
            })
            .unwrap()
    }

    #[test]
    fn agrees_with_search_on_all_short_sequences() {
        for n in 0..=11usize {
            for value in 0..1u32 << n {
                let bits: Vec<u8> = (0..n).map(|i| (value >> i & 1) as u8).collect();
                let fast = berlekamp_massey(&bits);
                assert_eq!(fast.length, slow_length(&bits), "{bits:?}");
                let poly = fast.poly.unwrap().bits();
                for t in fast.length..n {
                    let sum: u32 = (0..=fast.length)
                        .map(|i| (poly >> i & 1) as u32 & u32::from(bits[t - fast.length + i]))
                        .sum();
                    assert_eq!(sum % 2, 0, "{bits:?}");
                }
            }
        }
    }

    /// The same algorithm on lists of bits: lengths beyond any search.
    fn listed_length(bits: &[u8]) -> usize {
        let (mut c, mut b, mut length, mut since) = (vec![1u8], vec![1u8], 0, 1);
        for n in 0..bits.len() {
            let sum: u8 = (0..=length.min(c.len() - 1)).map(|i| c[i] & bits[n - i]).sum();
            if sum.is_multiple_of(2) {
                since += 1;
                continue;
            }
            let old = c.clone();
            c.resize(c.len().max(b.len() + since), 0);
            b.iter().enumerate().for_each(|(i, &x)| c[i + since] ^= x);
            if 2 * length <= n {
                (length, b, since) = (n + 1 - length, old, 1);
            } else {
                since += 1;
            }
        }
        length
    }

    #[test]
    fn agrees_with_lists_on_long_sequences_up_to_length_64() {
        let mut rng = crate::rng::Rng::new(3);
        let mut beyond = 0;
        for round in 0..400 {
            let mut bits = vec![0u8; 256];
            if round % 2 == 0 {
                // A few ones far apart, and registers of lengths around 64.
                for _ in 0..=rng.below(3) {
                    bits[rng.below(256) as usize] = 1;
                }
            } else {
                let length = 60 + rng.below(9) as usize;
                let taps: Vec<u8> = (0..length).map(|_| rng.below(2) as u8).collect();
                for t in 0..256 {
                    bits[t] = if t < length {
                        rng.below(2) as u8
                    } else {
                        (0..length).fold(0, |sum, i| sum ^ taps[i] & bits[t - length + i])
                    };
                }
            }
            let (found, length) = (berlekamp_massey(&bits), listed_length(&bits));
            beyond += usize::from(length > 64);
            assert_eq!(found.poly.is_none(), length > 64, "{bits:?}");
            assert!(found.poly.is_none() || found.length == length, "{bits:?}");
        }
        assert!((50..350).contains(&beyond), "{beyond}");
    }

    #[test]
    fn allwinner_register_from_thirty_bits() {
        let (mut s, mut bits) = (0x76dbu32, Vec::new());
        for _ in 0..30 {
            bits.push((s & 1) as u8);
            s = s >> 1 | ((s ^ s >> 1) & 1) << 14;
        }
        let found = berlekamp_massey(&bits);
        assert_eq!((found.length, found.poly), (15, "x^15 + x + 1".parse().ok()));
    }
}
