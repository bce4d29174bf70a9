//! Linear maps over GF(2) as small tables, and Gaussian elimination.
//! Room: onefold-code.
//! Cost: a map of n input bits is n words; applying it is n/2 exclusive-ors on average.

/// A linear map from up to 64 bits to 64 bits: column i is the image of input bit i.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinearMap {
    /// Images of the input bits.
    pub columns: Vec<u64>,
}

impl LinearMap {
    /// The map that leaves `bits` bits as they are.
    pub fn identity(bits: u32) -> Self {
        Self { columns: (0..bits).map(|i| 1 << i).collect() }
    }

    /// The map that `f` is, if `f` is linear: `f` of each unit vector.
    pub fn of(bits: u32, f: impl Fn(u64) -> u64) -> Self {
        Self { columns: (0..bits).map(|i| f(1 << i)).collect() }
    }

    /// Image of `x`. Bits of `x` beyond the columns count for nothing.
    pub fn apply(&self, x: u64) -> u64 {
        self.columns
            .iter()
            .enumerate()
            .fold(0, |sum, (i, &column)| sum ^ if x >> i & 1 == 1 { column } else { 0 })
    }

    /// First `other`, then `self`.
    #[must_use]
    pub fn after(&self, other: &Self) -> Self {
        Self { columns: other.columns.iter().map(|&c| self.apply(c)).collect() }
    }

    /// The inverse map, if the map is a bijection of n bits.
    pub fn inverse(&self) -> Option<Self> {
        let n = self.columns.len() as u32;
        let columns =
            (0..n).map(|i| solve_columns(&self.columns, 1 << i)).collect::<Option<_>>()?;
        let inverse = Self { columns };
        (inverse.after(self) == Self::identity(n)).then_some(inverse)
    }

    /// `self` applied `power` times; `self` must map n bits to n bits.
    #[must_use]
    pub fn power(&self, power: u64) -> Self {
        let (mut base, mut e) = (self.clone(), power);
        let mut result = Self::identity(self.columns.len() as u32);
        while e != 0 {
            if e & 1 == 1 {
                result = base.after(&result);
            }
            base = base.after(&base.clone());
            e >>= 1;
        }
        result
    }
}

/// Which columns sum to `target`: the lowest-numbered independent ones, or `None`.
pub fn solve_columns(columns: &[u64], target: u64) -> Option<u64> {
    let mut basis: Vec<(u64, u64)> = Vec::new();
    let reduce = |basis: &[(u64, u64)], mut value: u64, mut made_of: u64| {
        for &(b, m) in basis {
            if value ^ b < value {
                value ^= b;
                made_of ^= m;
            }
        }
        (value, made_of)
    };
    for (i, &column) in columns.iter().enumerate() {
        let (value, made_of) = reduce(&basis, column, 1 << i);
        if value != 0 {
            // It has the leading bit of none before it, so that in this order one pass reduces.
            basis.push((value, made_of));
        }
    }
    let (rest, made_of) = reduce(&basis, target, 0);
    (rest == 0).then_some(made_of)
}

/// Fits an affine map point by point: `value = constant + sum of columns of the set input bits`.
#[derive(Debug, Clone, Default)]
pub struct AffineFit {
    /// Reduced differences: (input, image), inputs in echelon form.
    basis: Vec<(u64, u64)>,
    origin: Option<(u64, u64)>,
}

impl AffineFit {
    /// What the points so far say about `x`: `None` if they say nothing.
    pub fn predict(&self, x: u64) -> Option<u64> {
        let (x0, y0) = self.origin?;
        let (rest, image) = self.reduce(x ^ x0);
        (rest == 0).then_some(y0 ^ image)
    }

    fn reduce(&self, mut x: u64) -> (u64, u64) {
        let mut image = 0;
        for &(b, y) in &self.basis {
            if x ^ b < x {
                x ^= b;
                image ^= y;
            }
        }
        (x, image)
    }

    /// Takes a point in. `false` if it contradicts the earlier ones.
    pub fn add(&mut self, x: u64, y: u64) -> bool {
        let Some((x0, y0)) = self.origin else {
            self.origin = Some((x, y));
            return true;
        };
        let (rest, image) = self.reduce(x ^ x0);
        if rest == 0 {
            return y0 ^ image == y;
        }
        let new = (rest, image ^ y ^ y0);
        self.basis.push(new);
        self.basis.sort_unstable_by_key(|row| core::cmp::Reverse(row.0));
        true
    }

    /// Number of points that were needed: one for the constant and one per independent input.
    pub fn unknowns(&self) -> usize {
        self.basis.len() + usize::from(self.origin.is_some())
    }

    /// A linear map that agrees with every point: the input bits that vary, and their images.
    /// Where the points leave a choice, the lower bit of a dependent group gets 0.
    pub fn columns(&self) -> (u64, Vec<u64>) {
        // Reduced echelon form: no leading bit occurs in another row.
        let mut rows = self.basis.clone();
        for i in 0..rows.len() {
            let (x, y) = rows[i];
            let lead = 1u64 << x.ilog2();
            for (j, row) in rows.iter_mut().enumerate() {
                if j != i && row.0 & lead != 0 {
                    row.0 ^= x;
                    row.1 ^= y;
                }
            }
        }
        let mask = rows.iter().fold(0, |mask, (x, _)| mask | x);
        let mut columns = vec![0; (64 - mask.leading_zeros()) as usize];
        for (x, y) in rows {
            columns[x.ilog2() as usize] = y;
        }
        (mask, columns)
    }

    /// Image of the single input bit `bit`, if the points determine it.
    pub fn column(&self, bit: u32) -> Option<u64> {
        let (rest, image) = self.reduce(1 << bit);
        (rest == 0).then_some(image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn inverse_and_power() {
        let step = LinearMap::of(15, |s| s >> 1 | ((s ^ s >> 1) & 1) << 14);
        let back = step.inverse().unwrap();
        assert_eq!(back.after(&step), LinearMap::identity(15));
        let mut slow = 0x2b75;
        for _ in 0..1000 {
            slow = step.apply(slow);
        }
        assert_eq!(step.power(1000).apply(0x2b75), slow);
        assert_eq!(step.power(32767), LinearMap::identity(15));
        assert!(LinearMap { columns: vec![1, 1] }.inverse().is_none());
    }

    #[test]
    fn columns_that_sum_to_a_target_are_found_where_there_are_any() {
        let mut rng = Rng::new(4);
        for _ in 0..200 {
            let columns: Vec<u64> = (0..6).map(|_| rng.below(32)).collect();
            let sum =
                |set: u64| (0..6).filter(|i| set >> i & 1 == 1).fold(0, |sum, i| sum ^ columns[i]);
            for target in 0..32 {
                let there_is = (0..64).any(|set| sum(set) == target);
                let found = solve_columns(&columns, target);
                assert_eq!(found.is_some(), there_is, "{columns:?} {target}");
                assert!(found.is_none_or(|set| sum(set) == target));
            }
        }
        assert_eq!(solve_columns(&[1, 2, 3], 3), Some(3), "the lowest-numbered ones");
    }

    #[test]
    fn a_fit_in_dependent_inputs_agrees_with_all_its_points() {
        let mut rng = Rng::new(6);
        let map = LinearMap { columns: (0..20).map(|_| rng.next_u64()).collect() };
        for _ in 0..50 {
            let mut fit = AffineFit::default();
            let constant = rng.next_u64();
            let points: Vec<u64> = (0..9).map(|_| rng.below(1 << 20)).collect();
            for &x in &points {
                assert!(fit.add(x, map.apply(x) ^ constant));
            }
            assert_eq!(fit.unknowns(), 9);
            let (mask, columns) = fit.columns();
            let columns = LinearMap { columns };
            let (x0, y0) = (points[0], map.apply(points[0]));
            for &x in &points {
                assert_eq!(columns.apply((x ^ x0) & mask), map.apply(x) ^ y0);
                assert_eq!(fit.predict(x), Some(map.apply(x) ^ constant));
            }
        }
    }

    #[test]
    fn affine_fit_predicts_and_refuses() {
        let map = LinearMap { columns: vec![7, 9, 0x100] };
        let mut fit = AffineFit::default();
        for x in [4u64, 5, 6] {
            assert!(fit.predict(x).is_none());
            assert!(fit.add(x, map.apply(x) ^ 0x55));
        }
        assert_eq!(fit.predict(7), Some(map.apply(7) ^ 0x55));
        assert_eq!((fit.unknowns(), fit.column(0), fit.column(2)), (3, Some(7), None));
        assert!(!fit.add(7, 1));
    }
}
