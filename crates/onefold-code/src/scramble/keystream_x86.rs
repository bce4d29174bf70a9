//! The key stream loops compiled for wider instruction sets.
//! Room: onefold-code.
//! Invariants: each function is entered only with a `Kernel` of its level, and a `Kernel` exists
//! only where the machine has the instructions.

use super::BitOrder;
use super::keystream::{Buffer, extend_body, lay_out_body, xor_body};
use crate::cpu::{Kernel, Level};

macro_rules! variants {
    ($($outer:ident / $inner:ident: $feature:literal, $levels:pat,
       $body:ident($($arg:ident: $ty:ty),*);)*) => {$(
        #[target_feature(enable = $feature)]
        fn $inner($($arg: $ty),*) {
            $body($($arg),*);
        }

        #[allow(clippy::too_many_arguments, reason = "the arguments of the loop it wraps")]
        pub(super) fn $outer(kernel: Kernel, $($arg: $ty),*) {
            assert!(matches!(kernel.level(), $levels));
            // SAFETY: a kernel of this level exists only where the machine has the features.
            unsafe { $inner($($arg),*) }
        }
    )*};
}

variants! {
    extend_avx2 / extend_avx2_inner: "avx2", Level::Avx2 | Level::Avx512,
        extend_body(b: &mut Buffer, length: usize, taps: &[usize], have: usize, want: usize);
    lay_out_avx2 / lay_out_avx2_inner: "avx2", Level::Avx2 | Level::Avx512,
        lay_out_body(words: &mut [u64], order: BitOrder, word_bytes: u8, inverted: bool);
    xor_avx2 / xor_avx2_inner: "avx2", Level::Avx2 | Level::Avx512,
        xor_body(words: &Buffer, bytes: &mut [u8]);
}
