//! What units of a store hold that requests cover in part: pages of a drive, chunks of a server.
//! Room: onefold-workload.   In: pieces of requests.   Out: the content of whole units.
//! A unit is a list of extents, each a range of bytes of some content: that of a request, or that
//! of the unit before. Units are equal if their lists are, so a piece never makes two units equal
//! that differ elsewhere. Units that came to the same bytes by different pieces count as different:
//! identities do not say more.
//! Invariants: extents cover the unit, in order, and neighbours that continue each other are one.
//! Cost: some 100 bytes for each unit written in pieces since it was last written whole.

use std::collections::BTreeMap;

use onefold_block::seeded::mix64;

use crate::request::Identity;

/// What a request writes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First byte in the unit.
    pub from: u32,
    /// The byte after the last.
    pub to: u32,
    /// Bytes of a unit.
    pub unit_bytes: u32,
    /// Where in the content of the request its first byte is.
    pub at: u64,
    /// The content of the request, where that is known.
    pub identity: Option<Identity>,
    /// A number that no other unit has: the content where none is known.
    pub number: u64,
}

/// Numbers of units that nobody gave an identity, far from those of preconditioning.
const FRESH: u128 = 1 << 120;

/// The content that only this number has.
pub const fn fresh(number: u64) -> u128 {
    FRESH + number as u128
}

impl Piece {
    /// Whether other bytes of the unit stay as they are.
    pub const fn is_partial(&self) -> bool {
        self.from > 0 || self.to < self.unit_bytes
    }

    /// The content that it is a part of.
    pub fn content(&self) -> u128 {
        match self.identity {
            None => fresh(self.number),
            Some(identity) => spread(u128::from_le_bytes(*identity.as_bytes())),
        }
    }

    /// The content of a unit that it covers. Units of one request differ unless two requests
    /// agree as a whole; the same bytes of one content are the same wherever they lie.
    pub fn whole(&self) -> u128 {
        if self.identity.is_none() {
            return self.content();
        }
        let (index, rest) =
            (self.at / u64::from(self.unit_bytes), self.at % u64::from(self.unit_bytes));
        let other = if rest == 0 { 0 } else { mix64(rest) | 1 };
        let high = (u128::from(index) + u128::from(other)) << 64;
        let low = if self.at == 0 { 0 } else { mix64(self.at) };
        self.content().wrapping_add(high).wrapping_add(low.into())
    }
}

/// The content that an identity stands for: models take a half of it for a fingerprint, or some
/// bits. An identity of which 32 bits are zero is a number or a short digest, and no digest of 16
/// bytes but for one in 2^30: it is spread over all bits, one to one. Zeroes stay what they are.
fn spread(identity: u128) -> u128 {
    let mut words = (0..4).map(|word| (identity >> (32 * word)) as u32);
    if identity == ZEROES || words.all(|word| word != 0) {
        return identity;
    }
    let (mut low, mut high) = (identity as u64, (identity >> 64) as u64);
    for _ in 0..2 {
        high ^= mix64(low);
        low ^= mix64(high);
    }
    u128::from(high) << 64 | u128::from(low)
}

/// Bytes of a unit that are bytes of some content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// First byte in the unit, and the one after the last.
    from: u32,
    to: u32,
    /// The content.
    identity: u128,
    /// The first byte in the content.
    at: u64,
}

impl Extent {
    /// The part of it that lies within these bytes of the unit.
    fn within(self, from: u32, to: u32) -> Option<Self> {
        let (first, last) = (self.from.max(from), self.to.min(to));
        let skipped = u64::from(first.saturating_sub(self.from));
        (first < last).then_some(Self { from: first, to: last, at: self.at + skipped, ..self })
    }

    fn continues(&self, before: &Self) -> bool {
        let length = u64::from(before.to - before.from);
        self.identity == before.identity && self.at == before.at + length
    }
}

/// What never written units hold.
pub const ZEROES: u128 = 0;

/// The units that were written in pieces.
#[derive(Clone, Debug, Default)]
pub struct Composed {
    units: BTreeMap<u32, Vec<Extent>>,
}

impl Composed {
    /// The unit has been written whole, or forgotten.
    pub fn replaced(&mut self, unit: u32) {
        if !self.units.is_empty() {
            self.units.remove(&unit);
        }
    }

    /// The content of a unit of which a piece is written over what was there.
    pub fn overlay(&mut self, unit: u32, piece: &Piece, old: u128) -> u128 {
        let whole = Extent { from: 0, to: piece.unit_bytes, identity: old, at: 0 };
        let before = self.units.remove(&unit).unwrap_or_else(|| vec![whole]);
        let new =
            Extent { from: piece.from, to: piece.to, identity: piece.content(), at: piece.at };
        let ahead = before.iter().filter_map(|extent| extent.within(0, piece.from));
        let behind = before.iter().filter_map(|extent| extent.within(piece.to, piece.unit_bytes));
        let mut extents: Vec<Extent> = Vec::with_capacity(before.len() + 2);
        for extent in ahead.chain([new]).chain(behind) {
            match extents.last_mut() {
                Some(last) if extent.continues(last) => last.to = extent.to,
                _ => extents.push(extent),
            }
        }
        let key = key(&extents);
        self.units.insert(unit, extents);
        key
    }
}

/// Tells lists of extents apart; a unit that is all of one content from its start on is that.
fn key(extents: &[Extent]) -> u128 {
    if let [Extent { at: 0, identity, .. }] = extents {
        return *identity;
    }
    let (mut high, mut low) = (0x0c0_4605_ed00, extents.len() as u64);
    for extent in extents {
        let words = [
            extent.identity as u64,
            (extent.identity >> 64) as u64,
            extent.at,
            u64::from(extent.from) << 32 | u64::from(extent.to),
        ];
        for word in words {
            high = mix64(high ^ word.rotate_left(17));
            low = mix64(low.wrapping_add(word) ^ high);
        }
    }
    u128::from(high) << 64 | u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(content: u8, from: u32, to: u32, at: u64) -> Piece {
        let identity = Some(Identity::from_bytes([content; 16]));
        Piece { from, to, unit_bytes: 8192, at, identity, number: 0 }
    }

    #[test]
    fn a_piece_is_partial_unless_it_covers_its_unit_and_says_what_it_holds() {
        let partial = |from, to| piece(1, from, to, 0).is_partial();
        assert!(!partial(0, 8192) && partial(1, 8192) && partial(0, 8191) && partial(1, 8191));
        let one = u128::from_le_bytes([1; 16]);
        assert_eq!(piece(1, 0, 8192, 0).content(), one);
        // The n-th unit of a content is told apart by n in the upper half, and by where it begins
        // in the lower one, which is a fingerprint by itself.
        assert_eq!(piece(1, 0, 8192, 0).whole(), one);
        let at = |high: u64, byte: u64| {
            one.wrapping_add(u128::from(high) << 64).wrapping_add(mix64(byte).into())
        };
        assert_eq!(piece(1, 0, 8192, 3 * 8192).whole(), at(3, 3 * 8192));
        assert_eq!(piece(1, 0, 8192, 512).whole(), at(mix64(512) | 1, 512));
        assert_eq!(piece(1, 0, 8192, 8192 + 512).whole(), at((mix64(512) | 1) + 1, 8192 + 512));
        let unknown = Piece { identity: None, number: 7, ..piece(1, 0, 8192, 8192) };
        assert_eq!((unknown.content(), unknown.whole()), ((1 << 120) + 7, (1 << 120) + 7));
    }

    #[test]
    fn halves_of_different_contents_differ_however_alike_their_identities_are() {
        use std::collections::BTreeSet;
        let of = |identity: u128, at: u64| {
            let identity = Some(Identity::from_bytes(identity.to_le_bytes()));
            Piece { identity, ..piece(1, 0, 8192, at) }.whole()
        };
        // Numbers at each end, short digests, numbers beside a constant; units of one request.
        let numbers = |make: fn(u128) -> u128| (1..=1000).map(make).map(|n| of(n, 0)).collect();
        let families: [Vec<u128>; 6] = [
            numbers(|n| n),
            numbers(|n| n << 64),
            numbers(|n| n << 96),
            numbers(|n| n << 32 | 1),
            numbers(|n| 7 << 64 | n),
            (0..1000).map(|unit| of(u128::from_le_bytes([1; 16]), unit * 8192)).collect(),
        ];
        for family in families {
            let lows: BTreeSet<u64> = family.iter().map(|content| *content as u64).collect();
            let signs: BTreeSet<u32> = family.iter().map(|content| *content as u32).collect();
            let highs: BTreeSet<u64> =
                family.iter().map(|content| (content >> 64) as u64).collect();
            // Units that follow each other may have one upper half, by a carry.
            assert!(lows.len() == 1000 && signs.len() > 998 && highs.len() > 700);
        }
        assert_eq!(of(ZEROES, 0), ZEROES);
        let digest = 0x0001_0000_0001_0000_0001_0000_0001_0000;
        assert_eq!(of(digest, 0), digest, "a digest is itself");
    }

    #[test]
    fn a_unit_that_is_written_whole_is_no_longer_composed() {
        let mut composed = Composed::default();
        composed.replaced(0);
        let half = composed.overlay(0, &piece(1, 0, 4096, 0), 99);
        composed.overlay(1, &piece(1, 0, 4096, 0), 99);
        composed.replaced(0);
        assert_eq!(composed.units.len(), 1);
        // What was there is forgotten: over another content it is another unit.
        assert_eq!(composed.overlay(0, &piece(1, 0, 4096, 0), 99), half);
        composed.replaced(0);
        assert_ne!(composed.overlay(0, &piece(1, 0, 4096, 0), 98), half);
        // Pieces of the content that was there, where it was, change nothing.
        let old = u128::from_le_bytes([9; 16]);
        for (from, to) in [(0, 512), (512, 1024), (8000, 8192)] {
            composed.replaced(5);
            assert_eq!(composed.overlay(5, &piece(9, from, to, u64::from(from)), old), old);
            assert_eq!(composed.units[&5].len(), 1, "one extent, as neighbours continue");
        }
        // Three extents: what was before, the piece, and what was behind it goes on at its place.
        composed.overlay(6, &piece(1, 512, 1024, 7), old);
        let extent = |from, to, identity, at| Extent { from, to, identity, at };
        let one = u128::from_le_bytes([1; 16]);
        let wanted =
            [extent(0, 512, old, 0), extent(512, 1024, one, 7), extent(1024, 8192, old, 1024)];
        assert_eq!(composed.units[&6], wanted);
    }

    /// Contents of composed units are in figures that were published.
    #[test]
    fn composed_units_keep_their_contents() {
        let mut composed = Composed::default();
        let first = composed.overlay(0, &piece(1, 512, 1024, 0), ZEROES);
        // This one goes on where the last one ended, in the unit and in its content.
        let second = composed.overlay(0, &piece(1, 1024, 1536, 512), ZEROES);
        assert_eq!(composed.units[&0].len(), 3, "what was before, both together, and the rest");
        let third = composed.overlay(0, &piece(2, 1536, 8192, 1 << 40), ZEROES);
        assert_eq!([first, second, third], KEYS, "{:#x?}", [first, second, third]);
    }

    const KEYS: [u128; 3] = [
        0xe381_be22_abdf_9e1e_19b4_54f3_4990_e4ca,
        0x0cb1_8aa5_c61f_db47_b5fe_1b3e_6814_761d,
        0x4991_89f4_acd8_4842_3097_a762_777e_e545,
    ];

    #[test]
    fn units_are_equal_if_all_their_pieces_are() {
        let mut composed = Composed::default();
        let mut write = |unit, pieces: &[Piece]| {
            pieces.iter().fold(ZEROES, |old, piece| composed.overlay(unit, piece, old))
        };
        let halves = write(0, &[piece(1, 0, 4096, 0), piece(2, 4096, 8192, 0)]);
        let turned = write(1, &[piece(2, 4096, 8192, 0), piece(1, 0, 4096, 0)]);
        assert_eq!(halves, turned, "in whatever order they came");
        let others = [
            write(2, &[piece(1, 0, 4096, 0), piece(3, 4096, 8192, 0)]),
            write(3, &[piece(3, 0, 4096, 0), piece(2, 4096, 8192, 0)]),
            write(4, &[piece(2, 4096, 8192, 0)]),
            write(5, &[piece(2, 0, 4096, 0), piece(1, 4096, 8192, 0)]),
            write(6, &[piece(1, 0, 4096, 512), piece(2, 4096, 8192, 0)]),
            write(7, &[piece(1, 0, 4096, 0), piece(2, 4096, 8192, 0), piece(1, 512, 1024, 0)]),
        ];
        for (at, other) in others.iter().enumerate() {
            assert!(*other != halves && !others[..at].contains(other), "unit {}", at + 2);
        }
        let again =
            write(8, &[piece(9, 0, 8192, 0), piece(2, 4096, 8192, 0), piece(1, 0, 4096, 0)]);
        assert_eq!(again, halves, "whatever was there before");
        let joined = write(9, &[piece(1, 0, 4096, 0), piece(1, 4096, 8192, 4096)]);
        assert_eq!(joined, piece(1, 0, 8192, 0).content(), "two pieces of one content are whole");
    }
}
