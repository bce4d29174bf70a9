//! A quasi-cyclic LDPC code ready to encode, check and decode.
//! Room: onefold-code.   In: data.   Out: parity.
//! Invariants: (1) H (data, parity) = 0; (2) parity(d xor s) = parity(d) xor parity(s);
//! (3) the sparse and the dense way give the same parity.

use super::design::{Entry, Pairs, Shape, check_shape, columns};
use super::sparse::SparsePlan;
use crate::clmul::{Dense256, circulant_inverse, circulant_mul_acc, dense64, dense256};
use crate::cpu::{Kernel, Level};
use crate::error::CodeError;

/// Most words of parity: 64 block rows of 64 bits.
pub(crate) const MAX_PARITY_WORDS: usize = 64;

/// How the syndrome becomes parity: multiplication by the inverse of the parity part.
#[derive(Debug, Clone)]
enum Inverse {
    /// By block row of the syndrome: a column of circulants, padded to a multiple of 8.
    Words { matrix: Vec<u64>, padded: usize },
    /// One circulant of 256 bits, and the generator's dense circulants.
    Quad { inverse: Dense256, generator: Dense256 },
}

/// A systematic quasi-cyclic LDPC code.
#[derive(Debug, Clone)]
pub struct QcLdpc {
    name: String,
    shape: Shape,
    pub(super) pairs: Pairs,
    plan: SparsePlan,
    inverse: Inverse,
    pub(super) kernel: Kernel,
}

impl QcLdpc {
    /// Designs the code of `shape`; deterministic.
    ///
    /// # Errors
    /// [`CodeError::NoSuchCode`] where the shape is impossible or the search finds none,
    /// [`CodeError::NotInvertible`] where no choice of parity columns works.
    pub fn design(name: &str, shape: Shape) -> Result<Self, CodeError> {
        let designed = columns(&shape)?.columns;
        let (parity, data) = designed.split_at(shape.rows);
        let mut order = data.to_vec();
        order.extend_from_slice(parity);
        Self::from_columns(name, shape, order)
    }

    /// A code from its block columns: data columns first, then one parity column per block row.
    ///
    /// # Errors
    /// [`CodeError::NoSuchCode`] for a wrong number of columns or entries out of range,
    /// [`CodeError::NotInvertible`] when the parity part is singular.
    pub fn from_columns(
        name: &str,
        shape: Shape,
        columns: Vec<Vec<Entry>>,
    ) -> Result<Self, CodeError> {
        check_shape(&shape)?;
        let (z, rows) = (shape.circulant, shape.rows);
        let in_range = |e: &Entry| usize::from(e.row) < rows && usize::from(e.shift) < z;
        if columns.len() != shape.data_blocks + rows || !columns.iter().flatten().all(in_range) {
            return Err(CodeError::NoSuchCode {
                reason: format!(
                    "{} columns; accepted: {} with rows below {rows} and shifts below {z}",
                    columns.len(),
                    shape.data_blocks + rows
                ),
            });
        }
        let kernel = Kernel::best();
        let mut pairs = Pairs::new(z, rows);
        for column in columns {
            pairs.push(column);
        }
        let (data, parity) = pairs.columns.split_at(shape.data_blocks);
        let plan = SparsePlan::new(z, rows, data);
        let inverse =
            invert(kernel, z, rows, data, parity).ok_or(CodeError::NotInvertible { size: z })?;
        Ok(Self { name: name.to_owned(), shape, plan, inverse, kernel, pairs })
    }

    /// The same code on another instruction set.
    #[must_use]
    pub fn with_kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// Name of the code.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the code is made of.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Data bytes of a codeword.
    pub fn data_bytes(&self) -> usize {
        self.shape.data_blocks * self.shape.circulant / 8
    }

    /// Parity bytes of a codeword.
    pub fn parity_bytes(&self) -> usize {
        self.shape.rows * self.shape.circulant / 8
    }

    /// Bits of a codeword.
    pub fn codeword_bits(&self) -> usize {
        (self.data_bytes() + self.parity_bytes()) * 8
    }

    /// Data bits per codeword bit.
    pub fn rate(&self) -> f64 {
        self.data_bytes() as f64 * 8.0 / self.codeword_bits() as f64
    }

    /// Entries of every block column.
    pub fn columns(&self) -> &[Vec<Entry>] {
        &self.pairs.columns
    }

    pub(super) fn words(&self) -> usize {
        self.shape.rows * self.shape.circulant / 64
    }

    pub(super) fn check_lengths(&self, data: usize, parity: usize) -> Result<(), CodeError> {
        if data != self.data_bytes() {
            return Err(CodeError::Length { what: "data", got: data, accepted: self.data_bytes() });
        }
        if parity != self.parity_bytes() {
            let accepted = self.parity_bytes();
            return Err(CodeError::Length { what: "parity", got: parity, accepted });
        }
        Ok(())
    }

    /// Writes the parity of `data`, whichever way is fastest here.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn encode(&self, data: &[u8], parity: &mut [u8]) -> Result<(), CodeError> {
        self.check_lengths(data.len(), parity.len())?;
        let mut words = [0u64; MAX_PARITY_WORDS];
        self.parity_words(data, &mut words);
        store_words(&words, parity);
        Ok(())
    }

    /// Writes the parity of `data` by the dense generator, as hardware without the sparse matrix
    /// would; only codes of one circulant of 256 bits have it (others use the sparse way).
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn encode_dense(&self, data: &[u8], parity: &mut [u8]) -> Result<(), CodeError> {
        let Inverse::Quad { generator, .. } = &self.inverse else {
            return self.encode(data, parity);
        };
        self.check_lengths(data.len(), parity.len())?;
        store_words(&dense256(self.kernel, generator, data), parity);
        Ok(())
    }

    /// Writes the parity of `data` by the sparse matrix and the inverse of its parity part.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn encode_sparse(&self, data: &[u8], parity: &mut [u8]) -> Result<(), CodeError> {
        self.check_lengths(data.len(), parity.len())?;
        let mut words = [0u64; MAX_PARITY_WORDS];
        self.parity_words_sparse(data, &mut words);
        store_words(&words, parity);
        Ok(())
    }

    /// Parity of checked `data` as words.
    fn parity_words(&self, data: &[u8], out: &mut [u64; MAX_PARITY_WORDS]) {
        match &self.inverse {
            // With four multipliers at once the dense generator wins over unaligned rotations.
            Inverse::Quad { generator, .. } if self.kernel.level() == Level::Avx512 => {
                out[..4].copy_from_slice(&dense256(self.kernel, generator, data));
            }
            _ => self.parity_words_sparse(data, out),
        }
    }

    fn parity_words_sparse(&self, data: &[u8], out: &mut [u64; MAX_PARITY_WORDS]) {
        let mut syndrome = [0u64; MAX_PARITY_WORDS];
        let used = self.words();
        self.plan.run(self.kernel, data, &mut syndrome[..used]);
        match &self.inverse {
            Inverse::Words { matrix, padded } => {
                let (x, y) = (&syndrome[..used], &mut out[..*padded]);
                dense64(self.kernel, matrix, *padded, x, y);
            }
            Inverse::Quad { inverse, .. } => {
                let mut bytes = [0u8; 32];
                store_words(&syndrome[..4], &mut bytes);
                out[..4].copy_from_slice(&dense256(self.kernel, inverse, &bytes));
            }
        }
    }

    /// Whether (data, parity) is a codeword.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn is_codeword(&self, data: &[u8], parity: &[u8]) -> Result<bool, CodeError> {
        self.check_lengths(data.len(), parity.len())?;
        let mut words = [0u64; MAX_PARITY_WORDS];
        self.parity_words(data, &mut words);
        Ok(parity.chunks_exact(8).zip(words).all(|(bytes, word)| bytes == word.to_le_bytes()))
    }

    /// The syndrome H (data, parity) as words, from the definition, bit by bit: the slow twin.
    ///
    /// # Errors
    /// [`CodeError::Length`].
    pub fn syndrome_slow(&self, data: &[u8], parity: &[u8]) -> Result<Vec<u64>, CodeError> {
        self.check_lengths(data.len(), parity.len())?;
        let z = self.shape.circulant;
        let mut syndrome = vec![0u64; self.words()];
        for (i, byte) in data.iter().chain(parity).enumerate() {
            for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                let at = i * 8 + bit;
                for (row, place) in self.pairs.checks((at / z) as u32, (at % z) as u16) {
                    let check = usize::from(row) * z + usize::from(place);
                    syndrome[check / 64] ^= 1 << (check % 64);
                }
            }
        }
        Ok(syndrome)
    }
}

fn store_words(words: &[u64], bytes: &mut [u8]) {
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
}

/// The block columns as circulants (first row index, words), summed where entries coincide.
fn circulants(z: usize, rows: usize, column: &[Entry]) -> Vec<Vec<u64>> {
    let mut out = vec![vec![0u64; z / 64]; rows];
    for e in column {
        out[usize::from(e.row)][usize::from(e.shift) / 64] ^= 1 << (e.shift % 64);
    }
    out
}

fn invert(
    kernel: Kernel,
    z: usize,
    rows: usize,
    data: &[Vec<Entry>],
    parity: &[Vec<Entry>],
) -> Option<Inverse> {
    if z == 256 {
        let quad = |words: &[u64]| -> [u64; 4] { words.try_into().expect("four words") };
        let inverse = circulant_inverse(kernel, &circulants(z, 1, &parity[0])[0])?;
        let generator = data
            .iter()
            .map(|column| {
                let mut product = [0; 4];
                circulant_mul_acc(kernel, &mut product, &inverse, &circulants(z, 1, column)[0]);
                product
            })
            .collect();
        return Some(Inverse::Quad {
            inverse: Dense256::new(vec![quad(&inverse)]),
            generator: Dense256::new(generator),
        });
    }
    // Gauss-Jordan over the ring of 64-bit circulants, a local ring: an element is a unit exactly
    // when its weight is odd, so unit pivots suffice.
    let mut left = vec![vec![0u64; rows]; rows];
    for (j, column) in parity.iter().enumerate() {
        for (i, c) in circulants(z, rows, column).into_iter().enumerate() {
            left[i][j] = c[0];
        }
    }
    let right = invert_ring(kernel, left)?;
    let padded = rows.next_multiple_of(8);
    let mut matrix = vec![0; rows * padded];
    for (i, row) in right.iter().enumerate() {
        for (j, &c) in row.iter().enumerate() {
            matrix[j * padded + i] = c;
        }
    }
    Some(Inverse::Words { matrix, padded })
}

/// Inverse of a square matrix of 64-bit circulants.
fn invert_ring(kernel: Kernel, mut left: Vec<Vec<u64>>) -> Option<Vec<Vec<u64>>> {
    let n = left.len();
    let mut right: Vec<Vec<u64>> =
        (0..n).map(|i| (0..n).map(|j| u64::from(i == j)).collect()).collect();
    let mul = |a: u64, b: u64| {
        let mut acc = [0];
        circulant_mul_acc(kernel, &mut acc, &[a], &[b]);
        acc[0]
    };
    for column in 0..n {
        let pivot = (column..n).find(|&r| left[r][column].count_ones() % 2 == 1)?;
        left.swap(column, pivot);
        right.swap(column, pivot);
        let inverse = circulant_inverse(kernel, &[left[column][column]])?[0];
        for side in [&mut left, &mut right] {
            side[column].iter_mut().for_each(|x| *x = mul(*x, inverse));
        }
        let (pivot_left, pivot_right) = (left[column].clone(), right[column].clone());
        for r in (0..n).filter(|&r| r != column) {
            let factor = left[r][column];
            if factor == 0 {
                continue;
            }
            for (x, &p) in left[r].iter_mut().zip(&pivot_left) {
                *x ^= mul(factor, p);
            }
            for (x, &p) in right[r].iter_mut().zip(&pivot_right) {
                *x ^= mul(factor, p);
            }
        }
    }
    Some(right)
}
