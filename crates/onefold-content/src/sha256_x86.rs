//! SHA-256 compression of 8 (AVX2) or 16 (AVX-512) messages in parallel.
//! Room: onefold-content.   In: one message per lane.   Out: the lanes' states, advanced.
//! Source: [fips-180-4] sec. 4.1.2 (functions), 4.2.2 (constants), 6.2.2 (rounds).
//! Cost: AVX-512 has a rotate and a three-input logic instruction, which halve the work per
//! round; the loads are transposed in registers, 4 % of the time.

use crate::sha256_lanes::States;

/// The round constants.
#[rustfmt::skip]
static K: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4,
    0xab1c_5ed5, 0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe,
    0x9bdc_06a7, 0xc19b_f174, 0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f,
    0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da, 0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7,
    0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967, 0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc,
    0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85, 0xa2bf_e8a1, 0xa81a_664b,
    0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070, 0x19a4_c116,
    0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7,
    0xc671_78f2,
];

/// One round; the caller rotates the names of the working variables rather than their values.
macro_rules! round {
    ($w:expr, $k:expr, $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        let t1 = add(add($h, big1($e)), add(choose($e, $f, $g), add($w, set($k))));
        $d = add($d, t1);
        $h = add(t1, add(big0($a), majority($a, $b, $c)));
    };
}

/// Sixteen rounds on the message words `$w` with the constants `$k`.
macro_rules! rounds {
    ($w:ident, $k:expr, $a:ident, $b:ident, $c:ident, $d:ident, $e:ident, $f:ident, $g:ident,
     $h:ident) => {
        for i in [0, 8] {
            round!($w[i], $k[i], $a $b $c $d $e $f $g $h);
            round!($w[i + 1], $k[i + 1], $h $a $b $c $d $e $f $g);
            round!($w[i + 2], $k[i + 2], $g $h $a $b $c $d $e $f);
            round!($w[i + 3], $k[i + 3], $f $g $h $a $b $c $d $e);
            round!($w[i + 4], $k[i + 4], $e $f $g $h $a $b $c $d);
            round!($w[i + 5], $k[i + 5], $d $e $f $g $h $a $b $c);
            round!($w[i + 6], $k[i + 6], $c $d $e $f $g $h $a $b);
            round!($w[i + 7], $k[i + 7], $b $c $d $e $f $g $h $a);
        }
    };
}

/// The next sixteen message words in place of the last.
macro_rules! schedule {
    ($w:ident, $($i:literal)+) => {$(
        $w[$i] = add(
            add($w[$i], small0($w[($i + 1) % 16])),
            add($w[($i + 9) % 16], small1($w[($i + 14) % 16])),
        );
    )+};
}

/// Defines the detection token of one instruction set and, as `$name`, its compression
/// function on top of the vector operations of `$ops`.
macro_rules! kernel {
    ($token:ident, $name:ident, $ops:ident, $lanes:literal, $features:literal, $detected:expr) => {
        /// Proof that this machine has the instructions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $token(());

        impl $token {
            /// The token, if this machine has the instructions.
            pub(crate) fn detect() -> Option<Self> {
                $detected.then_some(Self(()))
            }

            /// Runs the first `blocks` 64-byte blocks of each input through its lane of `states`.
            ///
            /// # Panics
            /// If an input is shorter than that.
            pub(crate) fn compress(
                self,
                inputs: &[&[u8]; $lanes],
                blocks: usize,
                states: &mut States<$lanes>,
            ) {
                // SAFETY: only `detect` makes a token, and only where the features are present.
                unsafe { $name(inputs, blocks, states) }
            }
        }

        #[target_feature(enable = $features)]
        fn $name(inputs: &[&[u8]; $lanes], blocks: usize, states: &mut States<$lanes>) {
            use $ops::{add, big0, big1, choose, load, majority, set, small0, small1, store};
            let messages = inputs.map(|input| input[..64 * blocks].as_chunks::<64>().0);
            let [mut s0, mut s1, mut s2, mut s3, mut s4, mut s5, mut s6, mut s7] =
                states.each_ref().map(|word| $ops::load_words(word));
            for block in 0..blocks {
                let mut w = load(&messages.map(|message| &message[block]));
                let [mut a, mut b, mut c, mut d] = [s0, s1, s2, s3];
                let [mut e, mut f, mut g, mut h] = [s4, s5, s6, s7];
                let (k, _) = K.as_chunks::<16>();
                rounds!(w, k[0], a, b, c, d, e, f, g, h);
                for k in &k[1..] {
                    schedule!(w, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
                    rounds!(w, k, a, b, c, d, e, f, g, h);
                }
                (s0, s1, s2, s3) = (add(s0, a), add(s1, b), add(s2, c), add(s3, d));
                (s4, s5, s6, s7) = (add(s4, e), add(s5, f), add(s6, g), add(s7, h));
            }
            for (word, vector) in states.iter_mut().zip([s0, s1, s2, s3, s4, s5, s6, s7]) {
                store(word, vector);
            }
        }
    };
}

kernel!(Avx2, compress_avx2, ops256, 8, "avx2", std::arch::is_x86_feature_detected!("avx2"));
kernel!(
    Avx512,
    compress_avx512,
    ops512,
    16,
    "avx512f,avx512bw",
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
);

/// Vector operations on 8 lanes.
mod ops256 {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_loadu_si256, _mm256_or_si256,
        _mm256_permute2x128_si256, _mm256_set1_epi32, _mm256_setr_epi8, _mm256_shuffle_epi8,
        _mm256_slli_epi32, _mm256_srli_epi32, _mm256_storeu_si256, _mm256_unpackhi_epi32,
        _mm256_unpackhi_epi64, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64, _mm256_xor_si256,
    };

    type Vector = __m256i;

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn set(word: u32) -> Vector {
        _mm256_set1_epi32(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn add(a: Vector, b: Vector) -> Vector {
        _mm256_add_epi32(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotate<const RIGHT: i32, const LEFT: i32>(x: Vector) -> Vector {
        const { assert!(RIGHT + LEFT == 32) };
        _mm256_or_si256(_mm256_srli_epi32::<RIGHT>(x), _mm256_slli_epi32::<LEFT>(x))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn xor3(a: Vector, b: Vector, c: Vector) -> Vector {
        _mm256_xor_si256(_mm256_xor_si256(a, b), c)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn big0(x: Vector) -> Vector {
        xor3(rotate::<2, 30>(x), rotate::<13, 19>(x), rotate::<22, 10>(x))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn big1(x: Vector) -> Vector {
        xor3(rotate::<6, 26>(x), rotate::<11, 21>(x), rotate::<25, 7>(x))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn small0(x: Vector) -> Vector {
        xor3(rotate::<7, 25>(x), rotate::<18, 14>(x), _mm256_srli_epi32::<3>(x))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn small1(x: Vector) -> Vector {
        xor3(rotate::<17, 15>(x), rotate::<19, 13>(x), _mm256_srli_epi32::<10>(x))
    }

    /// Each bit from `y` where `x` has a one, else from `z`.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn choose(x: Vector, y: Vector, z: Vector) -> Vector {
        _mm256_xor_si256(z, _mm256_and_si256(x, _mm256_xor_si256(y, z)))
    }

    /// Each bit as most of the three have it.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn majority(x: Vector, y: Vector, z: Vector) -> Vector {
        let both = _mm256_and_si256(x, y);
        _mm256_or_si256(both, _mm256_and_si256(z, _mm256_or_si256(x, y)))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn load_words(words: &[u32; 8]) -> Vector {
        // SAFETY: the array is 32 readable bytes; the load needs no alignment.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn store(words: &mut [u32; 8], vector: Vector) {
        // SAFETY: the array is 32 writable bytes; the store needs no alignment.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), vector) }
    }

    /// The 16 big-endian words of each lane's block, transposed: word i of all lanes in `[i]`.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn load(blocks: &[&[u8; 64]; 8]) -> [Vector; 16] {
        let mut words = [set(0); 16];
        for (half, words) in words.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let mut rows = [set(0); 8];
            for (row, block) in rows.iter_mut().zip(blocks) {
                let bytes = &block[32 * half..32 * half + 32];
                // SAFETY: the slice is 32 readable bytes; the load needs no alignment.
                *row = swap_bytes(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) });
            }
            *words = transpose(&rows);
        }
        words
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn swap_bytes(x: Vector) -> Vector {
        let order = _mm256_setr_epi8(
            3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12, //
            3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12,
        );
        _mm256_shuffle_epi8(x, order)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn transpose(r: &[Vector; 8]) -> [Vector; 8] {
        let mut out = [set(0); 8];
        let mut quads = [[set(0); 4]; 2];
        // quads[i][c], 128-bit half k: column 4k + c of rows 4i to 4i + 3.
        for (quad, r) in quads.iter_mut().zip(r.as_chunks::<4>().0) {
            let (lo01, hi01) =
                (_mm256_unpacklo_epi32(r[0], r[1]), _mm256_unpackhi_epi32(r[0], r[1]));
            let (lo23, hi23) =
                (_mm256_unpacklo_epi32(r[2], r[3]), _mm256_unpackhi_epi32(r[2], r[3]));
            *quad = [
                _mm256_unpacklo_epi64(lo01, lo23),
                _mm256_unpackhi_epi64(lo01, lo23),
                _mm256_unpacklo_epi64(hi01, hi23),
                _mm256_unpackhi_epi64(hi01, hi23),
            ];
        }
        for c in 0..4 {
            out[c] = _mm256_permute2x128_si256::<0x20>(quads[0][c], quads[1][c]);
            out[4 + c] = _mm256_permute2x128_si256::<0x31>(quads[0][c], quads[1][c]);
        }
        out
    }
}

/// Vector operations on 16 lanes.
mod ops512 {
    use std::arch::x86_64::{
        __m512i, _mm_setr_epi8, _mm512_add_epi32, _mm512_broadcast_i32x4, _mm512_loadu_si512,
        _mm512_ror_epi32, _mm512_set1_epi32, _mm512_shuffle_epi8, _mm512_shuffle_i32x4,
        _mm512_srli_epi32, _mm512_storeu_si512, _mm512_ternarylogic_epi32, _mm512_unpackhi_epi32,
        _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    };

    type Vector = __m512i;

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn set(word: u32) -> Vector {
        _mm512_set1_epi32(word.cast_signed())
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn add(a: Vector, b: Vector) -> Vector {
        _mm512_add_epi32(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn xor3(a: Vector, b: Vector, c: Vector) -> Vector {
        _mm512_ternarylogic_epi32::<0x96>(a, b, c)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn big0(x: Vector) -> Vector {
        xor3(_mm512_ror_epi32::<2>(x), _mm512_ror_epi32::<13>(x), _mm512_ror_epi32::<22>(x))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn big1(x: Vector) -> Vector {
        xor3(_mm512_ror_epi32::<6>(x), _mm512_ror_epi32::<11>(x), _mm512_ror_epi32::<25>(x))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn small0(x: Vector) -> Vector {
        xor3(_mm512_ror_epi32::<7>(x), _mm512_ror_epi32::<18>(x), _mm512_srli_epi32::<3>(x))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn small1(x: Vector) -> Vector {
        xor3(_mm512_ror_epi32::<17>(x), _mm512_ror_epi32::<19>(x), _mm512_srli_epi32::<10>(x))
    }

    /// Each bit from `y` where `x` has a one, else from `z`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn choose(x: Vector, y: Vector, z: Vector) -> Vector {
        _mm512_ternarylogic_epi32::<0xCA>(x, y, z)
    }

    /// Each bit as most of the three have it.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn majority(x: Vector, y: Vector, z: Vector) -> Vector {
        _mm512_ternarylogic_epi32::<0xE8>(x, y, z)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn load_words(words: &[u32; 16]) -> Vector {
        // SAFETY: the array is 64 readable bytes; the load needs no alignment.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn store(words: &mut [u32; 16], vector: Vector) {
        // SAFETY: the array is 64 writable bytes; the store needs no alignment.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) }
    }

    /// The 16 big-endian words of each lane's block, transposed: word i of all lanes in `[i]`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn load(blocks: &[&[u8; 64]; 16]) -> [Vector; 16] {
        let mut rows = [set(0); 16];
        for (row, block) in rows.iter_mut().zip(blocks) {
            // SAFETY: the array is 64 readable bytes; the load needs no alignment.
            *row = swap_bytes(unsafe { _mm512_loadu_si512(block.as_ptr().cast()) });
        }
        transpose(&rows)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn swap_bytes(x: Vector) -> Vector {
        let order = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
        _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(order))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn transpose(r: &[Vector; 16]) -> [Vector; 16] {
        let mut out = [set(0); 16];
        let mut quads = [[set(0); 4]; 4];
        // quads[i][c], 128-bit quarter k: column 4k + c of rows 4i to 4i + 3.
        for (quad, r) in quads.iter_mut().zip(r.as_chunks::<4>().0) {
            let (lo01, hi01) =
                (_mm512_unpacklo_epi32(r[0], r[1]), _mm512_unpackhi_epi32(r[0], r[1]));
            let (lo23, hi23) =
                (_mm512_unpacklo_epi32(r[2], r[3]), _mm512_unpackhi_epi32(r[2], r[3]));
            *quad = [
                _mm512_unpacklo_epi64(lo01, lo23),
                _mm512_unpackhi_epi64(lo01, lo23),
                _mm512_unpacklo_epi64(hi01, hi23),
                _mm512_unpackhi_epi64(hi01, hi23),
            ];
        }
        // 4 x 4 transposes of 128-bit quarters: 0x88 takes the even ones, 0xDD the odd ones.
        for c in 0..4 {
            let even01 = _mm512_shuffle_i32x4::<0x88>(quads[0][c], quads[1][c]);
            let odd01 = _mm512_shuffle_i32x4::<0xDD>(quads[0][c], quads[1][c]);
            let even23 = _mm512_shuffle_i32x4::<0x88>(quads[2][c], quads[3][c]);
            let odd23 = _mm512_shuffle_i32x4::<0xDD>(quads[2][c], quads[3][c]);
            out[c] = _mm512_shuffle_i32x4::<0x88>(even01, even23);
            out[4 + c] = _mm512_shuffle_i32x4::<0x88>(odd01, odd23);
            out[8 + c] = _mm512_shuffle_i32x4::<0xDD>(even01, even23);
            out[12 + c] = _mm512_shuffle_i32x4::<0xDD>(odd01, odd23);
        }
        out
    }
}
