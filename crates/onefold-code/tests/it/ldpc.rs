//! Laws of the LDPC codes: H c = 0, linearity, decoding, equal kernels.
//! Room: onefold-code.

use onefold_code::{
    CodeError, Decoded, Entry, Kernel, LDPC_NAMES, LdpcDecoder, QcLdpc, Rng, Shape, ldpc_by_name,
};

/// What a decoder said, and the data and parity that it left.
type Outcome = (Decoded, Vec<u8>, Vec<u8>);

fn random_word(code: &QcLdpc, rng: &mut Rng) -> (Vec<u8>, Vec<u8>) {
    let mut data = vec![0; code.data_bytes()];
    rng.fill(&mut data);
    let mut parity = vec![0; code.parity_bytes()];
    code.encode(&data, &mut parity).unwrap();
    (data, parity)
}

#[test]
fn every_named_code_encodes_codewords_linearly() {
    let mut rng = Rng::new(1);
    for name in LDPC_NAMES {
        let code = ldpc_by_name(name).unwrap();
        assert!(code.girth() >= 6, "{name}");
        let (d, pd) = random_word(&code, &mut rng);
        let (s, ps) = random_word(&code, &mut rng);
        assert!(code.syndrome_slow(&d, &pd).unwrap().iter().all(|&w| w == 0), "{name}");
        let xor = |a: &[u8], b: &[u8]| -> Vec<u8> { a.iter().zip(b).map(|(x, y)| x ^ y).collect() };
        for kernel in Kernel::available() {
            let code = code.clone().with_kernel(kernel);
            let mut parity = vec![0; code.parity_bytes()];
            code.encode(&xor(&d, &s), &mut parity).unwrap();
            assert_eq!(parity, xor(&pd, &ps), "{name} {kernel}");
            let mut dense = vec![0; code.parity_bytes()];
            code.encode_dense(&xor(&d, &s), &mut dense).unwrap();
            assert_eq!(parity, dense, "{name} {kernel}");
            let mut sparse = vec![0; code.parity_bytes()];
            code.encode_sparse(&xor(&d, &s), &mut sparse).unwrap();
            assert_eq!(parity, sparse, "{name} {kernel}");
            assert!(code.is_codeword(&d, &pd).unwrap());
            let mut broken = pd.clone();
            broken[3] ^= 16;
            assert!(!code.is_codeword(&d, &broken).unwrap());
        }
    }
}

#[test]
fn decoders_agree_on_every_kernel_and_correct_few_errors() {
    let mut rng = Rng::new(2);
    for name in ["ses-33x256", "qc-1k-32/33", "qc-1k-8/9"] {
        let code = ldpc_by_name(name).unwrap();
        let (data, parity) = random_word(&code, &mut rng);
        let mut decoders: Vec<LdpcDecoder> = Kernel::available()
            .into_iter()
            .map(|kernel| LdpcDecoder::new(code.clone().with_kernel(kernel)))
            .collect();
        let mut corrected = 0;
        for errors in 0..12usize {
            let (mut bad_data, mut bad_parity) = (data.clone(), parity.clone());
            let mut soft = vec![0i8; code.codeword_bits()];
            for place in 0..errors {
                let at = rng.below(code.codeword_bits() as u64) as usize;
                match bad_data.get_mut(at / 8) {
                    Some(byte) => *byte ^= 1 << (at % 8),
                    None => bad_parity[at / 8 - data.len()] ^= 1 << (at % 8),
                }
                soft[at] = if place % 2 == 0 { 3 } else { 7 };
            }
            let bit = |at: usize| {
                bad_data.iter().chain(&bad_parity).nth(at / 8).unwrap() >> (at % 8) & 1 == 1
            };
            for (at, value) in soft.iter_mut().enumerate() {
                let size = if *value == 0 { 15 } else { *value };
                *value = if bit(at) { -size } else { size };
            }
            let mut first: Option<Vec<Outcome>> = None;
            for decoder in &mut decoders {
                let mut run = |way: usize| {
                    let (mut d, mut p) = (bad_data.clone(), bad_parity.clone());
                    let said = match way {
                        0 => decoder.decode(&mut d, &mut p),
                        1 => decoder.decode_soft(&soft, &mut d, &mut p),
                        _ => decoder.decode_flip(&mut d, &mut p),
                    };
                    (said.unwrap(), d, p)
                };
                let results: Vec<_> = (0..3).map(&mut run).collect();
                for (said, d, p) in &results {
                    match said {
                        Decoded::Failed => assert!((d, p) == (&bad_data, &bad_parity)),
                        Decoded::Clean => assert!(errors == 0),
                        Decoded::Corrected(n) => {
                            assert!(*n > 0 && code.is_codeword(d, p).unwrap());
                            corrected += usize::from(*d == data);
                        }
                    }
                }
                if errors <= 2 {
                    assert!(results.iter().all(|(_, d, p)| *d == data && *p == parity), "{name}");
                }
                assert_eq!(&results, first.get_or_insert_with(|| results.clone()));
            }
        }
        assert!(corrected >= 12 * decoders.len(), "{name}: {corrected}");
    }
}

#[test]
fn wrong_lengths_and_singular_parity_are_named() {
    let code = ldpc_by_name("ses-33x256").unwrap();
    assert_eq!((code.data_bytes(), code.parity_bytes(), code.codeword_bits()), (1024, 32, 8448));
    let error = code.encode(&[0; 1000], &mut [0; 32]).unwrap_err();
    assert_eq!(error, CodeError::Length { what: "data", got: 1000, accepted: 1024 });
    let error = code.is_codeword(&[0; 1024], &[0; 31]).unwrap_err();
    assert_eq!(error, CodeError::Length { what: "parity", got: 31, accepted: 32 });
    assert_eq!(code.syndrome_slow(&[0; 1024], &[0; 31]), Err(error));
    assert!(code.syndrome_slow(&[0; 1025], &[0; 32]).is_err());
    let mut decoder = LdpcDecoder::new(code.clone());
    assert!(decoder.decode_soft(&[0; 5], &mut [0; 1024], &mut [0; 32]).is_err());
    let shape = Shape { circulant: 256, rows: 1, data_blocks: 1, weight: 3, seed: 0 };
    let e = |shift| Entry { row: 0, shift };
    let even = vec![vec![e(0), e(1), e(5)], vec![e(0), e(9)]];
    assert_eq!(
        QcLdpc::from_columns("even", shape, even).unwrap_err(),
        CodeError::NotInvertible { size: 256 }
    );
    assert!(matches!(
        QcLdpc::from_columns("short", shape, vec![vec![e(0)]]),
        Err(CodeError::NoSuchCode { .. })
    ));
    let odd = |last| vec![vec![e(0), e(1), e(5)], vec![e(0), e(9), e(last)]];
    assert!(QcLdpc::from_columns("odd", shape, odd(255)).is_ok());
    let below = Entry { row: 1, shift: 0 };
    let beside = vec![vec![e(0), e(1), below], vec![e(0), e(9), e(20)]];
    for columns in [odd(256), beside, [odd(255), odd(255)].concat()] {
        let refused = QcLdpc::from_columns("out of range", shape, columns);
        assert!(matches!(refused, Err(CodeError::NoSuchCode { .. })));
    }
    assert!(ldpc_by_name("turbo").unwrap_err().to_string().contains("qc-4k-8/9"));
}

/// One block row means commuting circulants, `h_a h_b + h_b h_a = 0`: a codeword of weight 6 that
/// the search must find; and what it finds must be a codeword.
#[test]
fn distance_search_finds_real_codewords() {
    let code = ldpc_by_name("ses-33x256").unwrap();
    let report = code.distance_report(6, 3_000_000);
    assert_eq!((report.girth, report.lowest_found), (6, Some(6)), "{report:?}");
    let mut word = vec![0u8; 1056];
    for (block, place) in &report.example {
        let at = *block as usize * 256 + usize::from(*place);
        word[at / 8] ^= 1 << (at % 8);
    }
    assert!(code.is_codeword(&word[..1024], &word[1024..]).unwrap());
}

#[test]
fn both_ways_of_encoding_and_the_third_say_the_same() {
    let code = ldpc_by_name("ses-33x256").unwrap();
    let mut rng = Rng::new(21);
    for kernel in Kernel::available() {
        let code = code.clone().with_kernel(kernel);
        let (data, parity) = random_word(&code, &mut rng);
        let encoded = [QcLdpc::encode_dense, QcLdpc::encode_sparse].map(|encode| {
            let mut parity = vec![0; code.parity_bytes()];
            encode(&code, &data, &mut parity).unwrap();
            parity
        });
        assert_eq!(encoded, [parity.clone(), parity], "{kernel}");
    }
}

#[test]
fn shapes_are_refused_from_the_first_that_cannot_be() {
    let refused = |circulant, rows, data_blocks, weight| {
        let shape = Shape { circulant, rows, data_blocks, weight, seed: 1 };
        let error = QcLdpc::from_columns("any", shape, Vec::new()).unwrap_err().to_string();
        ["circulant: ", "data_blocks: ", "rows: ", "weight: "]
            .into_iter()
            .find(|field| error.contains(field))
            .unwrap_or("columns")
    };
    assert_eq!(
        [63, 64, 65].map(|z| refused(z, 8, 128, 4)),
        ["circulant: ", "columns", "circulant: "]
    );
    assert_eq!([32, 33].map(|blocks| refused(256, 1, blocks, 3)), ["columns", "data_blocks: "]);
    assert_eq!([0, 1, 2].map(|rows| refused(256, rows, 1, 3)), ["rows: ", "columns", "rows: "]);
    assert_eq!([64, 65].map(|rows| refused(64, rows, 128, 3)), ["columns", "rows: "]);
    let blocks = [0, 1, 2, 4096, 4097, 4098].map(|blocks| refused(64, 64, blocks, 3));
    let not = "data_blocks: ";
    assert_eq!(blocks, [not, not, "columns", "columns", not, not]);
    assert_eq!(
        [2, 3, 6, 7].map(|w| refused(64, 64, 2, w)),
        ["weight: ", "columns", "columns", "weight: "]
    );
    // As many differences as there are, and two columns more.
    assert_eq!([1522, 1524].map(|blocks| refused(64, 12, blocks, 3)), ["columns", "weight: "]);
}
