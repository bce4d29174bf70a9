//! Design of quasi-cyclic parity-check matrices: column by column, never closing a 4-cycle,
//! avoiding codewords of weight 4, and closing as few 6-cycles as can be found.
//! Room: onefold-code.   In: `Shape`.   Out: entries of every block column.
//! Source: progressive edge growth in the spirit of [peg-05], with the difference tables of
//! [qc-ldpc-04]; all columns have nearly one weight, so fewest 6-cycles is also best ACE.
//! Invariants: (1) no difference of shifts occurs twice for a pair of block rows, hence girth at
//! least 6; (2) same shape, same matrix.

use crate::error::CodeError;
use crate::rng::Rng;

/// One circulant permutation: bit i of the block column meets check i + shift of the block row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    /// Block row.
    pub row: u16,
    /// Cyclic shift, below the circulant size.
    pub shift: u16,
}

/// What a code is made of; it determines the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bits of a circulant: 64 or 256.
    pub circulant: usize,
    /// Block rows: parity bits / circulant, at most 64.
    pub rows: usize,
    /// Block columns of data.
    pub data_blocks: usize,
    /// Ones per data column; parity columns have 3, so that they can be inverted.
    pub weight: usize,
    /// Seed of the design.
    pub seed: u64,
}

/// Tries per column before giving up on the design.
const TRIES: usize = 60_000;
/// Valid candidates compared per column.
const CANDIDATES: usize = 6;

/// Which block column joins two checks, by row pair and shift difference.
#[derive(Debug, Clone)]
pub(crate) struct Pairs {
    z: usize,
    rows: usize,
    /// [row a][row b][(shift b - shift a) mod z]: column + 1 and the shift in row a.
    joined: Vec<(u32, u16)>,
    /// Block columns meeting each row: (column, shift).
    pub(crate) by_row: Vec<Vec<(u32, u16)>>,
    pub(crate) columns: Vec<Vec<Entry>>,
    /// Two bits have two checks in common, so that `joined` tells of one pair of them only.
    pub(crate) crowded: bool,
}

/// A check: block row and place within it.
pub(crate) type Check = (u16, u16);

impl Pairs {
    pub(crate) fn new(z: usize, rows: usize) -> Self {
        Self {
            z,
            rows,
            joined: vec![(0, 0); rows * rows * z],
            by_row: vec![Vec::new(); rows],
            columns: Vec::new(),
            crowded: false,
        }
    }

    fn slot(&self, a: Entry, b: Entry) -> usize {
        let difference = (usize::from(b.shift) + self.z - usize::from(a.shift)) % self.z;
        (usize::from(a.row) * self.rows + usize::from(b.row)) * self.z + difference
    }

    /// Whether the column would share two checks with itself or another.
    fn closes_4_cycle(&self, column: &[Entry]) -> bool {
        let mut fresh = Vec::with_capacity(column.len() * column.len());
        for (i, &a) in column.iter().enumerate() {
            for (j, &b) in column.iter().enumerate().filter(|(j, _)| *j != i) {
                let slot = self.slot(a, b);
                if self.joined[slot].0 != 0 || fresh.contains(&slot) || (i < j && a == b) {
                    return true;
                }
                fresh.push(slot);
            }
        }
        false
    }

    pub(crate) fn push(&mut self, column: Vec<Entry>) {
        let number = self.columns.len() as u32;
        self.crowded |= self.closes_4_cycle(&column);
        for (i, &a) in column.iter().enumerate() {
            for (_, &b) in column.iter().enumerate().filter(|(j, _)| *j != i) {
                let slot = self.slot(a, b);
                self.joined[slot] = (number + 1, a.shift);
            }
            self.by_row[usize::from(a.row)].push((number, a.shift));
        }
        self.columns.push(column);
    }

    fn pop(&mut self) {
        let column = self.columns.pop().expect("pop follows push");
        for (i, &a) in column.iter().enumerate() {
            for (_, &b) in column.iter().enumerate().filter(|(j, _)| *j != i) {
                let slot = self.slot(a, b);
                self.joined[slot] = (0, 0);
            }
            self.by_row[usize::from(a.row)].pop();
        }
    }

    /// The bit (block column, place) that joins two checks, if one does; one of several where the
    /// columns are crowded.
    pub(crate) fn join(&self, p: Check, q: Check) -> Option<(u32, u16)> {
        let entry = |c: Check| Entry { row: c.0, shift: c.1 };
        match self.joined[self.slot(entry(p), entry(q))] {
            (0, _) => None,
            (number, shift) => Some((number - 1, self.back(p.1, shift))),
        }
    }

    /// Place of the bit whose entry with `shift` meets check place `check`.
    pub(crate) fn back(&self, check: u16, shift: u16) -> u16 {
        ((usize::from(check) + self.z - usize::from(shift)) % self.z) as u16
    }

    /// The checks of bit `place` of block column `column`.
    pub(crate) fn checks(&self, column: u32, place: u16) -> impl Iterator<Item = Check> + '_ {
        self.columns[column as usize]
            .iter()
            .map(move |e| (e.row, ((usize::from(place) + usize::from(e.shift)) % self.z) as u16))
    }

    /// 6-cycles through bit 0 of the last column, and codewords of weight 4 through it (only
    /// columns of weight 3 can make those).
    fn short_cycles(&self) -> (usize, usize) {
        let number = self.columns.len() as u32 - 1;
        let own: Vec<Check> = self.checks(number, 0).collect();
        let (mut six, mut four) = (0, 0);
        for (i, &a) in own.iter().enumerate() {
            for &b in &own[i + 1..] {
                let third = own.iter().copied().find(|&c| own.len() == 3 && c != a && c != b);
                for &(column, shift) in &self.by_row[usize::from(a.0)] {
                    let place = self.back(a.1, shift);
                    if (column, place) == (number, 0) {
                        continue;
                    }
                    let others: Vec<Check> =
                        self.checks(column, place).filter(|&c| c != a).collect();
                    for &d in others.iter().filter(|&&d| d != b) {
                        let Some(bit) = self.join(b, d) else { continue };
                        if bit == (column, place) {
                            continue;
                        }
                        six += 1;
                        four += usize::from(self.closes_word(third, &others, d, b, bit));
                    }
                }
            }
        }
        (six, four)
    }

    /// Whether {a,b,c}, {a,d,e}, {b,d,f} and a bit on {c,e,f} form a codeword of weight 4.
    fn closes_word(
        &self,
        third: Option<Check>,
        others: &[Check],
        d: Check,
        b: Check,
        bit: (u32, u16),
    ) -> bool {
        let (Some(c), [_, _]) = (third, others) else { return false };
        let e = if others[0] == d { others[1] } else { others[0] };
        let rest: Vec<Check> = self.checks(bit.0, bit.1).filter(|&x| x != b && x != d).collect();
        let &[f] = rest.as_slice() else { return false };
        if c == e || c == f || e == f {
            return false;
        }
        self.join(c, e).is_some_and(|(column, place)| {
            self.columns[column as usize].len() == 3 && self.checks(column, place).any(|x| x == f)
        })
    }
}

/// Block rows of parity column `number`. Modulo x + 1 the parity part becomes the circulant of
/// 1 + x^a + x^b over the block rows, which must be coprime to x^rows + 1 to be invertible.
fn parity_rows(rows: usize, number: usize) -> [usize; 3] {
    let (a, b) = match rows {
        r if r % 3 != 0 => (1, 2),
        r if r % 7 != 0 => (1, 3),
        _ => (1, 1),
    };
    [number % rows, (number + a) % rows, (number + b) % rows]
}

/// A random column of `weight` entries on the least loaded rows.
fn draw(pairs: &Pairs, weight: usize, rng: &mut Rng) -> Vec<Entry> {
    let rows = pairs.rows as u64;
    let least = pairs.by_row.iter().map(Vec::len).min().unwrap_or(0);
    let shift = |rng: &mut Rng| rng.below(pairs.z as u64) as u16;
    let mut column: Vec<Entry> = Vec::with_capacity(weight);
    while column.len() < weight {
        let row = rng.below(rows) as u16;
        let load = pairs.by_row[usize::from(row)].len();
        if load > least + 3 + weight && rng.below(16) != 0 {
            continue;
        }
        // Two entries in one row are needed only where there are few rows.
        let doubled = column.iter().any(|e| e.row == row);
        if doubled && (pairs.rows > 8 || (pairs.rows > 1 && rng.below(3) != 0)) {
            continue;
        }
        column.push(Entry { row, shift: shift(rng) });
    }
    column
}

/// Builds the block columns of `shape`: data columns first, then `rows` parity columns (not yet
/// known to be invertible).
pub(crate) fn columns(shape: &Shape) -> Result<Pairs, CodeError> {
    check_shape(shape)?;
    let mut rng = Rng::new(shape.seed);
    let mut pairs = Pairs::new(shape.circulant, shape.rows);
    let total = shape.data_blocks + shape.rows;
    for number in 0..total {
        // Parity columns are laid first, while there is room, and moved to the end afterwards.
        let weight = if number < shape.rows { 3 } else { shape.weight };
        let mut best: Option<((usize, usize), Vec<Entry>)> = None;
        let mut valid = 0;
        for _ in 0..TRIES {
            let column: Vec<Entry> = if number < shape.rows {
                let shift = |rng: &mut Rng| rng.below(shape.circulant as u64) as u16;
                parity_rows(shape.rows, number)
                    .map(|row| Entry { row: row as u16, shift: shift(&mut rng) })
                    .to_vec()
            } else {
                draw(&pairs, weight, &mut rng)
            };
            if pairs.closes_4_cycle(&column) {
                continue;
            }
            pairs.push(column.clone());
            let (six, four) = pairs.short_cycles();
            pairs.pop();
            valid += 1;
            if best.as_ref().is_none_or(|(score, _)| (four, six) < *score) {
                best = Some(((four, six), column));
            }
            if valid >= CANDIDATES && best.as_ref().is_some_and(|((four, _), _)| *four == 0)
                || valid >= 40 * CANDIDATES
            {
                break;
            }
        }
        let Some((_, column)) = best else {
            return Err(CodeError::NoSuchCode {
                reason: format!(
                    "no column {number} of {total} without 4-cycles was found; accepted: fewer \
                     columns, a smaller weight or another seed"
                ),
            });
        };
        pairs.push(column);
    }
    Ok(pairs)
}

pub(super) fn check_shape(shape: &Shape) -> Result<(), CodeError> {
    let &Shape { circulant: z, rows, data_blocks, weight, .. } = shape;
    let refuse = |reason: String| Err(CodeError::NoSuchCode { reason });
    if z != 64 && z != 256 {
        return refuse(format!("circulant: {z} bits; accepted: 64 or 256"));
    }
    if z == 256 && data_blocks > 32 {
        return refuse(format!("data_blocks: {data_blocks} of 256 bits; accepted: at most 32"));
    }
    if rows == 0 || rows > 64 || (z == 256 && rows != 1) {
        return refuse(format!(
            "rows: {rows} block rows of {z} bits; accepted: 1 to 64 of 64 bits, or 1 of 256"
        ));
    }
    if data_blocks == 0 || data_blocks > 4096 || data_blocks * z % 128 != 0 {
        return refuse(format!("data_blocks: {data_blocks}; accepted: 1 to 4096, whole 16 bytes"));
    }
    if !(3..=6).contains(&weight) {
        return refuse(format!("weight: {weight}; accepted: 3 to 6"));
    }
    // Every column uses weight * (weight - 1) ordered check pairs per place, and there are
    // m (m - 1) of them per place times rows.
    let m = rows * z;
    let needed = data_blocks * weight * (weight - 1) + rows * 6;
    if needed > rows * (m - 1) {
        return refuse(format!(
            "weight: {weight} needs {needed} differences for girth 6 and {m} checks have {}",
            rows * (m - 1)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_shapes_say_why() {
        let shape = Shape { circulant: 256, rows: 1, data_blocks: 32, weight: 4, seed: 1 };
        let error = columns(&shape).unwrap_err().to_string();
        assert!(error.contains("390 differences") && error.contains("255"), "{error}");
        for bad in [
            Shape { circulant: 100, ..shape },
            Shape { rows: 2, ..shape },
            Shape { weight: 2, ..shape },
            Shape { data_blocks: 0, ..shape },
        ] {
            assert!(matches!(columns(&bad), Err(CodeError::NoSuchCode { .. })));
        }
    }
}
