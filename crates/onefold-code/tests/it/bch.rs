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
