//! Laws of the BCH codes.
//! Room: onefold-code.

use onefold_code::gf2::Poly;
use onefold_code::{Bch, CodeError, Decoded, Kernel, Rng};
use proptest::prelude::*;

fn toy() -> Bch {
    Bch::new(Poly::from_bits(0x11d).unwrap(), 2, 16).unwrap()
}

fn flip(data: &mut [u8], parity: &mut [u8], at: usize) {
    let n = data.len();
    match data.get_mut(at / 8) {
        Some(byte) => *byte ^= 1 << (at % 8),
        None => parity[at / 8 - n] ^= 1 << (at % 8),
    }
}

/// All 144 single and all 10,296 double errors of a code with t = 2.
#[test]
fn toy_code_corrects_every_pattern_of_one_and_two() {
    let code = toy();
    assert_eq!((code.parity_bits(), code.codeword_bits()), (16, 144));
    let mut data = [0u8; 16];
    Rng::new(3).fill(&mut data);
    let mut parity = [0u8; 2];
    code.encode(&data, &mut parity).unwrap();
    for a in 0..144 {
        for b in a..144 {
            let (mut d, mut p) = (data, parity);
            flip(&mut d, &mut p, a);
            if b != a {
                flip(&mut d, &mut p, b);
            }
            let said = code.decode(&mut d, &mut p).unwrap();
            assert_eq!(said, Decoded::Corrected(1 + usize::from(a != b)), "{a} {b}");
            assert_eq!((d, p), (data, parity), "{a} {b}");
        }
    }
}

/// Three errors in a code with t = 2: failed and untouched, or another codeword.
#[test]
fn too_many_errors_fail_or_land_on_a_codeword() {
    let code = toy();
    let (mut failed, mut landed) = (0, 0);
    for a in 0..40 {
        for b in a + 1..70 {
            for c in [100, 143] {
                let (mut d, mut p) = ([0u8; 16], [0u8; 2]);
                for at in [a, b, c] {
                    flip(&mut d, &mut p, at);
                }
                let before = (d, p);
                match code.decode(&mut d, &mut p).unwrap() {
                    Decoded::Failed => {
                        failed += 1;
                        assert_eq!((d, p), before);
                    }
                    Decoded::Clean => panic!("three errors of a distance-5 code look clean"),
                    Decoded::Corrected(_) => {
                        landed += 1;
                        let mut again = [0u8; 2];
                        code.encode(&d, &mut again).unwrap();
                        assert_eq!(again, p);
                    }
                }
            }
        }
    }
    assert!(failed > 0 && landed > 0, "{failed} {landed}");
}

#[test]
fn the_code_in_the_ldpc_budget() {
    let code = Bch::t18_1k();
    assert_eq!((code.parity_bits(), code.parity_bytes(), code.codeword_bits()), (252, 32, 8444));
    let mut padded = [0u8; 32];
    padded[31] = 0xf0;
    assert_eq!(code.decode(&mut [0; 1024], &mut padded).unwrap(), Decoded::Corrected(4));
    assert_eq!(padded, [0; 32]);
}

#[test]
fn bad_codes_are_named() {
    let poly = |bits| Poly::from_bits(bits).unwrap();
    assert!(matches!(Bch::new(poly(0x11b), 2, 16), Err(CodeError::Field { .. })));
    assert!(matches!(Bch::new(poly(0x4443), 19, 1024), Err(CodeError::NoSuchCode { .. })));
    assert!(matches!(Bch::new(poly(0x11d), 2, 32), Err(CodeError::NoSuchCode { .. })));
    assert!(matches!(Bch::new(poly(0x11d), 2, 15), Err(CodeError::NoSuchCode { .. })));
    let code = toy();
    let error = code.encode(&[0; 17], &mut [0; 2]).unwrap_err();
    assert_eq!(error, CodeError::Length { what: "data", got: 17, accepted: 16 });
    assert!(code.decode(&mut [0; 16], &mut [0; 3]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn up_to_t_errors_are_corrected(seed: u64, errors in 0usize..=18) {
        let code = Bch::t18_1k();
        let mut rng = Rng::new(seed);
        let (mut data, mut parity) = ([0u8; 1024], [0u8; 32]);
        rng.fill(&mut data);
        code.encode(&data, &mut parity).unwrap();
        prop_assert_eq!(&code.encode_slow(&data)[..], &parity[..]);
        for kernel in Kernel::available() {
            let mut other = [0u8; 32];
            code.clone().with_kernel(kernel).encode(&data, &mut other).unwrap();
            prop_assert_eq!(other, parity, "{}", kernel);
        }
        let mut places = std::collections::BTreeSet::new();
        while places.len() < errors {
            places.insert(rng.below(8444) as usize);
        }
        let (mut d, mut p) = (data, parity);
        for &at in &places {
            flip(&mut d, &mut p, at);
        }
        let said = code.decode(&mut d, &mut p).unwrap();
        let expect = if errors == 0 { Decoded::Clean } else { Decoded::Corrected(errors) };
        prop_assert_eq!(said, expect);
        prop_assert_eq!((d, p), (data, parity));
    }

    #[test]
    fn parity_is_linear(seed: u64) {
        let code = Bch::t18_1k();
        let mut rng = Rng::new(seed);
        let (mut d, mut s) = ([0u8; 1024], [0u8; 1024]);
        rng.fill(&mut d);
        rng.fill(&mut s);
        let parity = |data: &[u8]| {
            let mut parity = [0u8; 32];
            code.encode(data, &mut parity).unwrap();
            parity
        };
        let sum: Vec<u8> = d.iter().zip(&s).map(|(a, b)| a ^ b).collect();
        let (pd, ps) = (parity(&d), parity(&s));
        let expect: Vec<u8> = pd.iter().zip(ps).map(|(a, b)| a ^ b).collect();
        prop_assert_eq!(parity(&sum).to_vec(), expect);
    }
}

/// Fields of many sizes, and as many errors as there is room for: parities that end inside a byte,
/// at one, and at a word.
#[test]
fn every_field_and_strength_corrects_what_it_says_and_clears_what_is_beyond_the_parity() {
    let mut rng = Rng::new(9);
    let mut seen = std::collections::BTreeSet::new();
    for field in [0x11d, 0x211, 0x409, 0x805, 0x1053, 0x201b] {
        for t in 1..=32 {
            let Ok(code) = Bch::new(Poly::from_bits(field).unwrap(), t, 16) else { continue };
            assert_eq!((code.t(), code.data_bytes()), (t, 16));
            seen.insert(code.parity_bits() % 64);
            let mut data = [0u8; 16];
            rng.fill(&mut data);
            let mut parity = vec![0; code.parity_bytes()];
            code.encode(&data, &mut parity).unwrap();
            assert_eq!(parity, code.encode_slow(&data), "{field:x} {t}");
            for errors in [0, 1, 2, t - 1, t].into_iter().filter(|&errors| errors <= t) {
                let (mut d, mut p) = (data, parity.clone());
                let mut places = std::collections::BTreeSet::new();
                while places.len() < errors {
                    places.insert(rng.below(code.codeword_bits() as u64));
                }
                for at in places {
                    // Parity first, as the decoder counts.
                    let at = (at as usize + data.len() * 8) % code.codeword_bits();
                    flip(&mut d, &mut p, at);
                }
                let unused = code.parity_bytes() * 8 - code.parity_bits();
                let beyond = usize::from(unused > 0);
                *p.last_mut().unwrap() |= if unused > 0 { 0x80 } else { 0 };
                let expected = match errors + beyond {
                    0 => Decoded::Clean,
                    count => Decoded::Corrected(count),
                };
                assert_eq!(
                    code.decode(&mut d, &mut p).unwrap(),
                    expected,
                    "{field:x} {t} {errors}"
                );
                assert_eq!((d, &p), (data, &parity), "{field:x} {t} {errors}");
            }
        }
    }
    assert!(seen.len() > 20 && seen.contains(&0) && seen.contains(&63), "{seen:?}");
}

#[test]
fn what_is_refused_is_told_with_what_is_accepted() {
    let said = |field, t, bytes| {
        let made = Bch::new(Poly::from_bits(field).unwrap(), t, bytes);
        made.map_or_else(|error| error.to_string(), |code| code.name().to_owned())
    };
    let found = [
        said(0x11d, 0, 16),
        said(0x201b, 20, 16),
        said(0x201b, 19, 16),
        said(0x11d, 2, 0),
        said(0x11d, 2, 17),
        said(0x11d, 2, 32),
        said(0x211, 2, 48),
        said(0x211, 2, 64),
    ];
    assert_eq!(found, REFUSALS, "{found:#?}");
}

const REFUSALS: [&str; 8] = [
    "code: t: 0 needs 0 parity bits; accepted: 1 to 256",
    "code: t: 20 needs 260 parity bits; accepted: 1 to 256",
    "bch-t19-16",
    "code: data: 0 bytes; accepted: a positive multiple of 16 up to 16 bytes",
    "code: data: 17 bytes; accepted: a positive multiple of 16 up to 16 bytes",
    "code: data: 32 bytes; accepted: a positive multiple of 16 up to 16 bytes",
    "bch-t2-48",
    "code: data: 64 bytes; accepted: a positive multiple of 16 up to 48 bytes",
];
