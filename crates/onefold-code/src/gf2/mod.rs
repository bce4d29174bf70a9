//! Algebra over GF(2): polynomials, linear maps as tables, Berlekamp-Massey.
//! Room: onefold-code.

mod linear;
mod massey;
mod poly;

pub use linear::{AffineFit, LinearMap, solve_columns};
pub use massey::{Massey, berlekamp_massey};
pub use poly::{ParsePolyError, Poly};
