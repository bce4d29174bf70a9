//! Laws of parity fingerprints and of the page codec.
//! Room: onefold-code.

use onefold_code::{
    Bch, CodeError, GeneratorSpec, PageAddress, PageCode, PageCodec, PageStatus, ParityFingerprint,
    Rng, ScramblerSpec, SeedMap, SeedSource, Truncation, ldpc_by_name, preset,
};

fn codes() -> Vec<PageCode> {
    vec![
        PageCode::Ldpc(ldpc_by_name("ses-33x256").unwrap()),
        PageCode::Ldpc(ldpc_by_name("qc-2k-8/9").unwrap()),
        PageCode::Bch(Bch::t18_1k()),
        PageCode::Crc32 { data_bytes: 4096 },
    ]
}

fn scramblers() -> Vec<ScramblerSpec> {
    let lba = preset("lba-prbs31").unwrap();
    let with = |source| ScramblerSpec { seed_source: source, ..lba.clone() };
    let GeneratorSpec::Lfsr(register) = lba.generator else { panic!() };
    vec![
        with(SeedSource::Lba),
        with(SeedSource::PhysicalPageInBlock),
        with(SeedSource::PageColumnErase),
        preset("allwinner-1024").unwrap(),
        preset("marvell-ring15").unwrap(),
        preset("macronix-8453").unwrap(),
        ScramblerSpec {
            generator: GeneratorSpec::Lfsr(onefold_code::LfsrSpec { inverted: true, ..register }),
            ..lba.clone()
        },
        ScramblerSpec {
            generator: GeneratorSpec::AddRotate { increment: 0x35ac_ca53, rotate: 1 },
            seed_map: SeedMap::address_bits(32, 1),
            ..lba
        },
    ]
}

/// Same data under two addresses: different stored bits, same corrected parity and fingerprint.
#[test]
fn same_data_same_fingerprint_under_every_scrambler_and_code() {
    let mut rng = Rng::new(11);
    for code in codes() {
        for spec in scramblers() {
            let scrambler = spec.compile().unwrap();
            for (truncation, name) in Truncation::ALL {
                let fp = ParityFingerprint::new(code.clone(), scrambler.clone(), 8192, truncation)
                    .unwrap();
                let mut data = vec![0u8; 8192];
                rng.fill(&mut data);
                let mut plain = vec![0u8; fp.parity_bytes()];
                code.encode_page(&data, &mut plain).unwrap();
                let expect = fp.of_data(&data).unwrap();
                let mut stored = Vec::new();
                for page in [3u32, 10] {
                    let address = PageAddress {
                        lba: u64::from(page) * 77,
                        page_in_block: page,
                        column: 2,
                        erase_count: 900,
                    };
                    let mut flash = data.clone();
                    let seed = scrambler.scramble(&address, &mut flash).unwrap();
                    let mut parity = vec![0u8; fp.parity_bytes()];
                    code.encode_page(&flash, &mut parity).unwrap();
                    assert_ne!(parity, plain);
                    assert_eq!(
                        fp.of_stored(seed, &parity).unwrap(),
                        expect,
                        "{name} {}",
                        spec.name
                    );
                    let mut full = vec![0u8; fp.kept_bytes()];
                    fp.full_of_stored(seed, &parity, &mut full).unwrap();
                    assert_eq!(truncation.shorten(&full), expect);
                    fp.correct_parity(seed, &mut parity).unwrap();
                    assert_eq!(parity, plain, "{}", spec.name);
                    stored.push(flash);
                }
                assert_ne!(stored[0], stored[1], "{}", spec.name);
            }
        }
    }
}

/// A self-seeded drive stores equal data equally wherever it lies; the seed is stored beside it.
#[test]
fn self_seeded_pages_are_equal_when_stored() {
    let spec = ScramblerSpec {
        seed_source: SeedSource::SelfSeeded,
        seed_map: SeedMap::address_bits(31, 0),
        ..preset("lba-prbs31").unwrap()
    };
    let scrambler = spec.compile().unwrap();
    let code = PageCode::Bch(Bch::t18_1k());
    let fp =
        ParityFingerprint::new(code.clone(), scrambler.clone(), 4096, Truncation::Crc64).unwrap();
    let data = [9u8; 4096];
    let (mut a, mut b) = (data, data);
    let seed = scrambler.scramble(&PageAddress::of(1), &mut a).unwrap();
    assert_eq!(scrambler.scramble(&PageAddress::of(2), &mut b).unwrap(), seed);
    assert_eq!(a, b);
    let mut parity = vec![0u8; fp.parity_bytes()];
    code.encode_page(&a, &mut parity).unwrap();
    assert_eq!(fp.of_stored(seed, &parity).unwrap(), fp.of_data(&data).unwrap());
}

#[test]
fn the_basis_is_a_few_kib() {
    let ldpc = PageCode::Ldpc(ldpc_by_name("ses-33x256").unwrap());
    let size = |name: &str| {
        let scrambler = preset(name).unwrap().compile().unwrap();
        ParityFingerprint::new(ldpc.clone(), scrambler, 8192, Truncation::Crc64)
            .unwrap()
            .basis_bytes()
    };
    assert_eq!(size("samsung-prbs15"), 16 * 256);
    assert_eq!(size("lba-prbs31"), 32 * 256);
}

/// The three shortenings on hand-made bytes.
#[test]
fn truncations_take_the_bytes_they_say() {
    let kept: Vec<u8> = (0..32).collect();
    assert_eq!(Truncation::Byte8.shorten(&kept), u64::from_le_bytes([0, 4, 8, 12, 16, 20, 24, 28]));
    assert_eq!(Truncation::Cw2.shorten(&kept), u64::from_le_bytes([0, 1, 2, 3, 16, 17, 18, 19]));
    assert_eq!(Truncation::Crc64.shorten(&kept), onefold_code::crc64(&kept));
    assert_eq!(Truncation::Byte8.shorten(&kept[..8]), u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(Truncation::Cw2.shorten(&kept[..4]), 0x0302_0100);
    assert_eq!(Truncation::by_name("cw2"), Ok(Truncation::Cw2));
    assert!(Truncation::by_name("xor").unwrap_err().to_string().contains("byte8"));
}

#[test]
fn sizes_that_do_not_fit_are_named() {
    let code = PageCode::Bch(Bch::t18_1k());
    let scrambler = preset("lba-prbs31").unwrap().compile().unwrap();
    let error = ParityFingerprint::new(code.clone(), scrambler.clone(), 5000, Truncation::Crc64);
    assert_eq!(error.unwrap_err(), CodeError::PageSize { page: 5000, codeword: 1024 });
    let fp = ParityFingerprint::new(code, scrambler, 4096, Truncation::Crc64).unwrap();
    let error = fp.of_stored(1, &[0; 100]).unwrap_err();
    assert_eq!(error, CodeError::Length { what: "page parity", got: 100, accepted: 128 });
}

/// Errors beyond the code's strength: failed or noticed by the CRC, never silently wrong.
#[test]
fn the_page_crc_notices_what_the_code_does_not() {
    let mut rng = Rng::new(21);
    for code in codes() {
        let mut codec = PageCodec::new(code, 8192).unwrap();
        let mut page = vec![0u8; 8192];
        rng.fill(&mut page);
        let mut parity = vec![0u8; codec.parity_bytes()];
        let crc = codec.encode(&page, &mut parity).unwrap();
        for (rber, rounds) in [(0.0, 1), (2e-5, 40), (1e-3, 40), (4e-3, 10)] {
            for _ in 0..rounds {
                let (mut p, mut q) = (page.clone(), parity.clone());
                let flipped = rng.flip_bits(&mut p, rber) + rng.flip_bits(&mut q, rber);
                match codec.decode(&mut p, &mut q, crc).unwrap() {
                    PageStatus::Clean => assert!(p == page && flipped == 0),
                    PageStatus::Corrected(n) => assert!(p == page && n >= 1),
                    PageStatus::Failed { codewords } => assert!(codewords > 0 && flipped > 0),
                    PageStatus::Miscorrected => assert!(p != page),
                }
            }
        }
        assert!(codec.decode(&mut page[..100], &mut parity, crc).is_err());
    }
}

/// A miscorrection made on purpose: a codeword of weight 6 is half received, and its other half
/// is what the decoder finds.
#[test]
fn a_real_miscorrection_is_reported() {
    let code = ldpc_by_name("ses-33x256").unwrap();
    let report = code.distance_report(6, 3_000_000);
    let mut codec = PageCodec::new(PageCode::Ldpc(code), 1024).unwrap();
    let mut parity = [0u8; 32];
    let crc = codec.encode(&[0; 1024], &mut parity).unwrap();
    let mut word = vec![0u8; 1056];
    for (block, place) in &report.example {
        let at = *block as usize * 256 + usize::from(*place);
        word[at / 8] |= 1 << (at % 8);
    }
    let (mut page, mut parity) = (word[..1024].to_vec(), word[1024..].to_vec());
    assert_eq!(codec.decode(&mut page, &mut parity, crc).unwrap(), PageStatus::Miscorrected);
}

#[test]
fn lengths_that_are_off_by_one_are_refused_everywhere() {
    let code = PageCode::Bch(Bch::t18_1k());
    for name in ["lba-prbs31", "marvell-ring15"] {
        let scrambler = preset(name).unwrap().compile().unwrap();
        let fp = ParityFingerprint::new(code.clone(), scrambler, 4096, Truncation::Cw2).unwrap();
        assert_eq!((fp.parity_bytes(), fp.kept_bytes()), (128, 16));
        for len in [127, 129] {
            let refused = CodeError::Length { what: "page parity", got: len, accepted: 128 };
            let mut parity = vec![0; len];
            assert_eq!(fp.correct_parity(1, &mut parity), Err(refused.clone()));
            assert_eq!(fp.of_plain(&parity), Err(refused.clone()));
            assert_eq!(fp.full_of_stored(1, &parity, &mut [0; 16]), Err(refused));
        }
        for len in [15, 17] {
            let refused = CodeError::Length { what: "fingerprint", got: len, accepted: 16 };
            assert_eq!(fp.full_of_stored(1, &[0; 128], &mut vec![0; len]), Err(refused));
        }
        for len in [4095, 4097] {
            let refused = CodeError::Length { what: "page", got: len, accepted: 4096 };
            assert_eq!(fp.of_data(&vec![0; len]), Err(refused));
        }
        let (mut page, mut parity) = (vec![3; 4096], vec![0; 128]);
        fp.code().encode_page(&page, &mut parity).unwrap();
        let plain = parity.clone();
        fp.scrambler().apply(9, &mut page);
        fp.code().encode_page(&page, &mut parity).unwrap();
        assert_ne!(parity, plain);
        fp.correct_parity(9, &mut parity).unwrap();
        assert_eq!(parity, plain);
    }
    let mut codec = PageCodec::new(code, 4096).unwrap();
    for (page, parity) in [(4095, 128), (4097, 128), (4096, 127), (4096, 129), (5120, 160)] {
        let (mut page, mut parity) = (vec![0; page], vec![0; parity]);
        assert!(codec.encode(&page, &mut parity).is_err());
        assert!(codec.decode(&mut page, &mut parity, 0).is_err());
    }
}

/// What was corrected is counted over all codewords, and what failed as well.
#[test]
fn a_page_counts_corrected_bits_and_failed_codewords() {
    let mut codec = PageCodec::new(PageCode::Bch(Bch::t18_1k()), 4096).unwrap();
    let mut parity = vec![0; 128];
    let crc = codec.encode(&[5; 4096], &mut parity).unwrap();
    let mut said = |flips: &[(usize, u8)]| {
        let (mut page, mut parity) = (vec![5; 4096], parity.clone());
        for &(at, bits) in flips {
            page[at] ^= bits;
        }
        codec.decode(&mut page, &mut parity, crc).unwrap()
    };
    assert_eq!(said(&[]), PageStatus::Clean);
    assert_eq!(said(&[(0, 1), (1024, 3), (4095, 0x80)]), PageStatus::Corrected(4));
    let many: Vec<(usize, u8)> = (0..24).map(|i| (i * 41, 0x11)).collect();
    assert_eq!(said(&many), PageStatus::Failed { codewords: 1 });
    let both: Vec<(usize, u8)> =
        many.iter().flat_map(|&(at, b)| [(at, b), (at + 3072, b)]).collect();
    assert_eq!(said(&both), PageStatus::Failed { codewords: 2 });
    let mut checked = PageCodec::new(PageCode::Crc32 { data_bytes: 512 }, 2048).unwrap();
    let mut parity = vec![0; 16];
    let crc = checked.encode(&[7; 2048], &mut parity).unwrap();
    let mut decode = |page: &mut [u8], crc| checked.decode(page, &mut parity.clone(), crc).unwrap();
    assert_eq!(decode(&mut [7; 2048], crc), PageStatus::Clean);
    assert_eq!(decode(&mut [7; 2048], crc ^ 1), PageStatus::Miscorrected);
    let mut page = [7; 2048];
    (page[0], page[600]) = (8, 8);
    assert_eq!(decode(&mut page, crc), PageStatus::Failed { codewords: 2 });
}
