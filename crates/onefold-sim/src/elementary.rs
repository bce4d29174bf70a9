//! Logarithm and exponential from the four basic operations, so that they round alike everywhere.
//! Room: onefold-sim.
//! Source: the atanh series for the logarithm, the Taylor series for the exponential. The
//! system's `ln` and `exp` may differ in the last bit between libraries; IEEE 754 `+ - * /` do
//! not, and nothing here fuses them.
//! Cost: about twenty multiplications a call.

use std::f64::consts::{LN_2, SQRT_2};

/// Natural logarithm of a positive, finite, normal number; relative error below 1e-14.
pub fn ln(x: f64) -> f64 {
    assert!(x.is_normal() && x > 0.0, "the logarithm takes positive normal numbers, not {x}");
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    exponent as f64 * LN_2 + ln_near_one(mantissa - 1.0)
}

/// ln(1 + d) for d in [-0.3, 0.42], without losing small d.
fn ln_near_one(d: f64) -> f64 {
    let s = d / (2.0 + d);
    let square = s * s;
    // 2 (s + s^3/3 + s^5/5 + ...); |s| <= 0.1766, so 12 terms leave less than 1e-18.
    let mut sum = 0.0;
    for k in (0..12).rev() {
        sum = sum * square + 1.0 / f64::from(2 * k + 1);
    }
    2.0 * s * sum
}

/// e^x for x in [-700, 700]; relative error below 1e-13.
pub fn exp(x: f64) -> f64 {
    assert!(x.abs() <= 700.0, "the exponential takes -700 to 700, not {x}");
    let power = (x / LN_2 + if x < 0.0 { -0.5 } else { 0.5 }) as i64;
    let rest = x - power as f64 * LN_2;
    let scale = f64::from_bits(((power + 1023) as u64) << 52);
    (1.0 + exp_minus_one_small(rest)) * scale
}

/// e^x - 1 for |x| <= 0.5, without losing small x.
fn exp_minus_one_small(x: f64) -> f64 {
    // x (1 + x/2 (1 + x/3 (...))): 0.5^18 / 18! is below 1e-21.
    let mut sum = 1.0;
    for k in (2..=18).rev() {
        sum = 1.0 + sum * x / f64::from(k);
    }
    x * sum
}

/// ln(1 + x) / x, continued to 1 at 0; for x > -1.
pub fn ln_1p_over(x: f64) -> f64 {
    if x.abs() < 1e-12 {
        return 1.0 - x / 2.0;
    }
    if x.abs() < 0.25 { ln_near_one(x) / x } else { ln(1.0 + x) / x }
}

/// (e^x - 1) / x, continued to 1 at 0.
pub fn exp_m1_over(x: f64) -> f64 {
    if x.abs() < 1e-12 {
        return 1.0 + x / 2.0;
    }
    if x.abs() < 0.5 { exp_minus_one_small(x) / x } else { (exp(x) - 1.0) / x }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, want: f64) {
        assert!((got - want).abs() <= 1e-13 * want.abs().max(1e-3), "{got} is not {want}");
    }

    /// The bits of many values, folded: another constant, order or number of terms shows.
    #[test]
    fn they_give_the_same_bits_everywhere() {
        let mut folded = [0u64; 4];
        let mut fold = |at: usize, value: f64| {
            folded[at] = folded[at].rotate_left(7).wrapping_mul(31) ^ value.to_bits();
        };
        for i in 1..3_000 {
            let x = f64::from(i) * 0.0131;
            fold(0, ln(x));
            fold(1, exp(x - 20.0));
            let small = f64::from(i - 1_500) * 5e-4;
            fold(2, ln_1p_over(small));
            fold(3, exp_m1_over(small));
        }
        assert_eq!(folded, FOLDED, "{folded:#x?}");
        assert_eq!([ln(1.0), exp(0.0)].map(f64::to_bits), [0.0f64, 1.0].map(f64::to_bits));
        assert!(std::panic::catch_unwind(|| ln(0.0)).is_err());
        assert!(std::panic::catch_unwind(|| exp(700.1)).is_err() && exp(700.0) > 1e304);
    }

    const FOLDED: [u64; 4] = [
        0xdbac_c4b4_db4e_0d82,
        0x9433_f0ce_7f88_1843,
        0xa8cc_8fa1_dd12_4ec5,
        0xa0b1_198f_2e24_5435,
    ];

    #[test]
    fn they_agree_with_the_system_library() {
        for i in 1..4_000 {
            let x = f64::from(i) * 0.037;
            close(ln(x), x.ln());
            close(ln(1.0 / x), -x.ln());
            close(ln(x * 1e300), (x * 1e300).ln());
            close(exp(x), x.exp());
            close(exp(-x), (-x).exp());
            let small = f64::from(i - 2_000) * 4e-4;
            if small != 0.0 {
                close(ln_1p_over(small), small.ln_1p() / small);
                close(exp_m1_over(small), small.exp_m1() / small);
            }
        }
        close(ln_1p_over(0.0), 1.0);
        close(exp_m1_over(0.0), 1.0);
        close(ln_1p_over(1e-9), 1.0 - 5e-10);
    }
}
