//! Signs: what the entries of `gleaner`'s tables keep of a fingerprint, and of their use.
//! Room: onefold-flash.
//! A sign is 14 bits of fingerprint beside the set's number, and in the two upper bits the hits
//! that the entry has left to lose. 0 is that of a free way.

use onefold_block::seeded::mix64;

/// Bits of fingerprint in a sign.
pub(crate) const SIGN_BITS: u32 = 14;
/// Those bits.
pub(crate) const SIGN: u16 = (1 << SIGN_BITS) - 1;
/// Hits that are remembered of an entry.
const COUNT_MAX: u16 = 3;

/// Where an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub set: u32,
    pub way: u8,
}

/// The entries of a set that may be of a fingerprint.
#[derive(Clone, Debug)]
pub(crate) struct Candidates {
    set: u32,
    /// A bit for each way.
    ways: u64,
}

impl Candidates {
    /// Those of a set, of at most 64 ways, that have this sign.
    #[inline]
    pub fn of(set: u32, signs: &[u16], wanted: u16) -> Self {
        let bit = |(way, sign): (usize, &u16)| u64::from(sign & SIGN == wanted) << way;
        Self { set, ways: signs.iter().enumerate().map(bit).sum() }
    }
}

impl Iterator for Candidates {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        let way = self.ways.trailing_zeros();
        self.ways &= self.ways.checked_sub(1)?;
        Some(Slot { set: self.set, way: way as u8 })
    }
}

/// The set, of so many, that a fingerprint belongs to, and its sign there.
#[inline]
pub(crate) fn place(fingerprint: u64, sets: usize) -> (usize, u16) {
    let product = u128::from(mix64(fingerprint)) * sets as u128;
    // The lower half is what the choice of the set has not used up.
    let sign = ((product as u64) >> (64 - SIGN_BITS)) as u16;
    ((product >> 64) as usize, sign.max(1))
}

/// The entry of a sign was of use: it is safe from two more rounds of a hand.
#[inline]
pub(crate) fn hit(sign: &mut u16) {
    let count = ((*sign >> SIGN_BITS) + 2).min(COUNT_MAX);
    *sign = *sign & SIGN | count << SIGN_BITS;
}
