//! Recovery of scramblers from dumps: infer(dump(scrambler)) = scrambler, or a clear refusal.
//! Room: onefold-code.

use onefold_code::gf2::Poly;
use onefold_code::infer::{
    DumpMaker, InferError, InferOptions, Inference, Known, SeedRuleKind, infer,
};
use onefold_code::{
    BitOrder, Form, GeneratorSpec, LfsrSpec, PageAddress, Rng, ScramblerSpec, SeedMap, SeedSource,
    preset,
};
use proptest::prelude::*;

/// Pages of `data(page)` at consecutive addresses, with bit errors.
fn dump_of(
    spec: &ScramblerSpec,
    page_size: usize,
    first: u64,
    pages: usize,
    rber: f64,
    data: impl Fn(usize, &mut [u8]),
) -> Vec<u8> {
    let mut maker = DumpMaker::new(spec, first, 0, rber, 99).unwrap();
    let mut dump = Vec::new();
    for i in 0..pages {
        let mut page = vec![0u8; page_size];
        data(i, &mut page);
        dump.extend_from_slice(maker.page(&page).unwrap());
    }
    dump
}

fn zeros(spec: &ScramblerSpec, page_size: usize, pages: usize, rber: f64) -> Vec<u8> {
    dump_of(spec, page_size, 0, pages, rber, |_, _| {})
}

fn same_register(found: &Inference, spec: &ScramblerSpec) {
    let GeneratorSpec::Lfsr(found) = found.spec.generator else { panic!() };
    let GeneratorSpec::Lfsr(expect) = spec.canonical().generator else { panic!() };
    assert_eq!(found, expect);
}

/// A random primitive polynomial of the given degree.
fn primitive(degree: u32, rng: &mut Rng) -> Poly {
    loop {
        let low = (rng.next_u64() % (1 << degree)) | 1;
        let poly = Poly::monic(degree, low).unwrap();
        if poly.is_primitive() {
            return poly;
        }
    }
}

fn any_spec(degree: u32, rng: &mut Rng) -> ScramblerSpec {
    let register = LfsrSpec {
        form: if rng.below(2) == 0 { Form::Fibonacci } else { Form::Galois },
        bit_order: if rng.below(2) == 0 { BitOrder::Lsb } else { BitOrder::Msb },
        word_bytes: [1, 2, 4, 8][rng.below(4) as usize],
        warmup_bits: rng.below(100) as u32,
        inverted: rng.below(4) == 0,
        ..LfsrSpec::fibonacci(primitive(degree, rng))
    };
    let seed = |rng: &mut Rng| rng.next_u64() & ((1 << degree) - 1);
    let seed_map = if rng.below(2) == 0 {
        let constant = seed(rng);
        SeedMap::linear(constant, (0..8).map(|_| seed(rng)).collect())
    } else {
        // A table of two seeds is also linear in address bit 0.
        let period = 3 + rng.below(40);
        SeedMap::Table { seeds: (0..period).map(|_| seed(rng)).collect() }
    };
    ScramblerSpec {
        name: "random".into(),
        seed_source: SeedSource::Lba,
        restart_bytes: [0, 0, 256, 512][rng.below(4) as usize],
        generator: GeneratorSpec::Lfsr(register),
        seed_map,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn infer_undoes_dump(seed: u64, degree in 8u32..=32, errors in 0usize..3) {
        let mut rng = Rng::new(seed);
        let spec = any_spec(degree, &mut rng);
        let rber = [0.0, 1e-4, 1e-3][errors];
        let dump = zeros(&spec, 1024, 128, rber);
        let found = infer(&dump, InferOptions::zeros(1024)).unwrap();
        same_register(&found, &spec);
        prop_assert_eq!(found.spec.restart_bytes, spec.restart_bytes);
        prop_assert!((found.raw_bit_error_rate() - rber).abs() < 3e-4);
        // The seed rule gives the same pages, also ones that were not in the dump.
        let limit = match found.rule {
            SeedRuleKind::Table { .. } => 5000,
            _ => 128,
        };
        let again = ScramblerSpec::from_toml(&found.spec.to_toml()).unwrap().compile().unwrap();
        let original = spec.compile().unwrap();
        for page in (0..limit).step_by(7) {
            let (mut a, mut b) = ([0u8; 1024], [0u8; 1024]);
            again.scramble(&PageAddress::of(page), &mut a).unwrap();
            original.scramble(&PageAddress::of(page), &mut b).unwrap();
            prop_assert!(a == b, "page {page}");
        }
        match (&spec.canonical().seed_map, &found.spec.seed_map) {
            (SeedMap::Linear { constant: c1, columns: k1, .. },
             SeedMap::Linear { constant: c2, columns: k2, .. }) => {
                prop_assert_eq!((c1, &k1[..7]), (c2, &k2[..7]));
                // One page for the constant and one for each of the 7 bits that vary.
                prop_assert_eq!((found.pages_needed, found.pages_verified), (8, 120));
            }
            (SeedMap::Table { seeds: s1 }, SeedMap::Table { seeds: s2 }) => {
                prop_assert_eq!(s1, s2);
            }
            (_, other) => prop_assert!(false, "{other:?}"),
        }
    }
}

#[test]
fn presets_are_recovered_with_bit_errors() {
    for name in
        ["allwinner-1024", "allwinner-512", "samsung-prbs15", "macronix-8003", "macronix-8723"]
    {
        let spec = preset(name).unwrap();
        let dump = zeros(&spec, 4096, 600, 1e-3);
        let found = infer(&dump, InferOptions::zeros(4096)).unwrap();
        same_register(&found, &spec);
        assert_eq!(found.spec.restart_bytes, spec.restart_bytes, "{name}");
        let SeedMap::Table { seeds } = spec.canonical().seed_map else { panic!() };
        assert_eq!(found.spec.seed_map, SeedMap::Table { seeds }, "{name}");
        let text = found.to_string();
        assert!(text.contains("table with a period of") && text.contains("600 in the dump"));
    }
}

#[test]
fn known_data_out_of_band_and_other_first_addresses() {
    let spec = preset("lba-prbs31").unwrap();
    let written = |page: usize, out: &mut [u8]| {
        out.iter_mut().enumerate().for_each(|(i, b)| *b = (i * 7 + page * 13) as u8);
    };
    let first = 0x12_3450;
    let plain = dump_of(&spec, 2048, first, 40, 5e-4, written);
    let mut dump = Vec::new();
    let mut known = vec![0u8; 2048 * 40];
    for (i, page) in plain.chunks(2048).enumerate() {
        dump.extend_from_slice(page);
        dump.extend_from_slice(&[0xa5; 64]);
        written(i, &mut known[i * 2048..(i + 1) * 2048]);
    }
    let options = InferOptions {
        oob: 64,
        known: Known::Bytes(&known),
        first_address: first,
        ..InferOptions::zeros(2048)
    };
    let found = infer(&dump, options).unwrap();
    same_register(&found, &spec);
    let scrambler = found.spec.compile().unwrap();
    for page in 0..40 {
        let address = PageAddress::of(first + page);
        let expect = spec.compile().unwrap().seed(&address, &[]).unwrap();
        assert_eq!(scrambler.seed(&address, &[]).unwrap(), expect);
    }
    assert!(scrambler.seed(&PageAddress::of(1 << 40), &[]).is_err());
    let error = infer(&dump, InferOptions { known: Known::Bytes(&known[1..]), ..options });
    assert_eq!(
        error.unwrap_err(),
        InferError::KnownLength { got: 81_919, page: 2048, all: 81_920 }
    );
}

#[test]
fn a_ring_is_recovered_with_bit_errors() {
    let spec = preset("marvell-ring15").unwrap();
    for page_size in [4096, 8192] {
        let dump = zeros(&spec, page_size, 300, 1e-3);
        // The ring has 2048 page starts; a dump this short shows only that it does not repeat.
        let error = infer(&dump, InferOptions::zeros(page_size)).unwrap_err();
        assert!(matches!(error, InferError::NoSeedRule { pages: 300, .. }), "{error:?}");
        let SeedMap::Table { seeds } = spec.seed_map.clone() else { panic!() };
        let block = ScramblerSpec {
            seed_map: SeedMap::Table { seeds: seeds[..128].to_vec() },
            ..spec.clone()
        };
        let dump = zeros(&block, page_size, 300, 1e-3);
        let found = infer(&dump, InferOptions::zeros(page_size)).unwrap();
        assert_eq!(found.rule, SeedRuleKind::Table { period: 128 });
        let (again, original) = (found.spec.compile().unwrap(), block.compile().unwrap());
        for page in 0..128 {
            let (mut a, mut b) = ([0u8; 9000], [0u8; 9000]);
            again.scramble(&PageAddress::of(page), &mut a).unwrap();
            original.scramble(&PageAddress::of(page), &mut b).unwrap();
            assert!(a == b, "page {page}");
        }
        assert!(found.to_string().contains("ring                 4096 bytes"));
    }
}

/// Pages shorter than what is tried for a start, with one among them that follows nothing.
#[test]
fn a_short_ring_is_recovered_from_short_pages_with_a_stray_one() {
    let GeneratorSpec::Lfsr(register) = preset("lba-prbs31").unwrap().generator else { panic!() };
    for (page_size, ring_bytes) in [(256, 160), (400, 328)] {
        let spec = ScramblerSpec {
            generator: GeneratorSpec::Ring { register, ring_seed: 0x2b75, ring_bytes },
            seed_map: SeedMap::Table {
                seeds: (0..7).map(|page| page * 24 % u64::from(ring_bytes)).collect(),
            },
            ..preset("lba-prbs31").unwrap()
        };
        let mut dump = zeros(&spec, page_size, 63, 0.0);
        Rng::new(8).fill(&mut dump[30 * page_size..31 * page_size]);
        let found = infer(&dump, InferOptions::zeros(page_size)).unwrap();
        assert_eq!((found.pages_explained, found.pages_in_dump), (62, 63), "{found}");
        assert_eq!(found.rule, SeedRuleKind::Table { period: 7 });
        let GeneratorSpec::Ring { ring_bytes: length, .. } = found.spec.generator else { panic!() };
        assert_eq!(length, ring_bytes);
    }
}

/// Pages that begin like their ring and go on as noise, as torn ones do.
#[test]
fn a_torn_page_of_a_ring_does_not_count_and_many_refuse_the_dump() {
    let spec = preset("marvell-ring15").unwrap();
    let SeedMap::Table { seeds } = spec.seed_map.clone() else { panic!() };
    let seed_map = SeedMap::Table { seeds: seeds[..64].to_vec() };
    let whole = zeros(&ScramblerSpec { seed_map, ..spec }, 4096, 300, 0.0);
    let torn = |every: usize| {
        let mut dump = whole.clone();
        for page in (0..300).step_by(every) {
            Rng::new(page as u64).fill(&mut dump[page * 4096 + 1024..(page + 1) * 4096]);
        }
        infer(&dump, InferOptions::zeros(4096))
    };
    let found = torn(25).unwrap();
    assert_eq!((found.pages_in_dump, found.pages_explained), (300, 288));
    assert_eq!((found.rule, found.bit_errors), (SeedRuleKind::Table { period: 64 }, 0));
    let error = torn(5).unwrap_err();
    assert!(matches!(error, InferError::Contradictory { pages: 300, .. }), "{error:?}");
}

#[test]
fn made_dumps_have_out_of_band_bytes_and_errors() {
    let spec = preset("lba-prbs31").unwrap();
    let mut maker = DumpMaker::new(&spec, 7, 16, 0.0, 1).unwrap();
    let mut expect = vec![3u8; 64];
    let page = maker.page(&expect).unwrap().to_vec();
    spec.scramble(7, &mut expect).unwrap();
    assert_eq!((&page[..64], &page[64..]), (&expect[..], &[0xff; 16][..]));
    assert!(DumpMaker::new(&spec, 0, 0, 0.6, 1).is_err());
    let mut noisy = DumpMaker::new(&spec, 7, 16, 0.5, 1).unwrap();
    assert_ne!(noisy.page(&[3u8; 64]).unwrap(), page);
}

#[test]
fn a_register_that_starts_again_is_found_wherever_it_does() {
    let polynomial = primitive(15, &mut Rng::new(8));
    for restart_bytes in [33, 40, 41, 63, 64, 72, 100, 255, 256, 500, 511, 512, 700, 960] {
        let spec = ScramblerSpec {
            name: "again".into(),
            seed_source: SeedSource::Lba,
            restart_bytes,
            generator: GeneratorSpec::Lfsr(LfsrSpec::fibonacci(polynomial)),
            seed_map: SeedMap::Table { seeds: (1..=16).map(|seed| seed * 1999).collect() },
        };
        for rber in [0.0, 1e-3] {
            let found = infer(&zeros(&spec, 1024, 48, rber), InferOptions::zeros(1024));
            let found = found.unwrap_or_else(|error| panic!("{restart_bytes}, {rber}: {error}"));
            assert_eq!(found.spec.restart_bytes, restart_bytes, "{rber}");
            assert_eq!(found.spec.seed_map, spec.seed_map, "{restart_bytes}, {rber}");
        }
    }
}

#[test]
fn a_stray_page_does_not_matter_but_many_do() {
    let spec = preset("lba-prbs31").unwrap();
    let mut dump = zeros(&spec, 1024, 100, 0.0);
    Rng::new(5).fill(&mut dump[40 * 1024..43 * 1024]);
    let found = infer(&dump, InferOptions::zeros(1024)).unwrap();
    assert_eq!((found.pages_in_dump, found.pages_explained), (100, 97));
    Rng::new(6).fill(&mut dump[50 * 1024..80 * 1024]);
    let error = infer(&dump, InferOptions::zeros(1024)).unwrap_err();
    assert!(
        matches!(error, InferError::Contradictory { first: 40, unexplained: 33, pages: 100, .. }),
        "{error:?}"
    );
    assert!(!error.is_bad_input());
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let refuse = |dump: &[u8], options| infer(dump, options).unwrap_err();
    let zeros_at = InferOptions::zeros;
    let mut random = vec![0u8; 64 * 1024];
    Rng::new(1).fill(&mut random);
    assert!(matches!(refuse(&random, zeros_at(1024)), InferError::NotLinear { .. }));
    let add = ScramblerSpec {
        generator: GeneratorSpec::AddRotate { increment: 0x35ac_ca53, rotate: 1 },
        seed_map: SeedMap::address_bits(32, 0x1234),
        ..preset("lba-prbs31").unwrap()
    };
    let dump = zeros(&add, 1024, 64, 0.0);
    assert!(matches!(refuse(&dump, zeros_at(1024)), InferError::NotLinear { .. }));
    assert_eq!(refuse(&vec![0; 64 * 1024], zeros_at(1024)), InferError::NotScrambled);
    // Of the 22 pages that are looked at, 12 have no key stream at all, or 11.
    let with_zeros = |pages: usize| {
        let mut dump = random.clone();
        dump[..pages * 1024].fill(0);
        refuse(&dump, zeros_at(1024))
    };
    assert_eq!(with_zeros(34), InferError::NotScrambled);
    assert_eq!(with_zeros(33), InferError::NotLinear { windows: 88 });
    let bad = [
        refuse(&random, zeros_at(1000)),
        refuse(&[], zeros_at(1024)),
        refuse(&random, zeros_at(32)),
        refuse(&random[..3072], zeros_at(1024)),
    ];
    assert!(bad.iter().all(InferError::is_bad_input), "{bad:?}");
    assert_eq!(bad[0], InferError::DumpLength { got: 65536, page: 1000 });
    assert_eq!(bad[3], InferError::TooFewPages { pages: 3, needed: 4 });
    // Seeds that are added as integers are neither linear nor, in so short a dump, periodic.
    let sum = ScramblerSpec {
        seed_map: SeedMap::Table { seeds: (0..4096u64).map(|i| i * 0x9e37 + 77).collect() },
        ..preset("lba-prbs31").unwrap()
    };
    let error = refuse(&zeros(&sum, 1024, 64, 0.0), zeros_at(1024));
    assert!(matches!(error, InferError::NoSeedRule { pages: 64, .. }), "{error:?}");
}

/// Unknown data: pages of constant fill among others are enough; without them, equal pages give
/// the register alone; without those, nothing.
#[test]
fn unknown_data_as_far_as_it_goes() {
    let spec = preset("lba-prbs31").unwrap();
    let options = InferOptions { known: Known::Unknown, ..InferOptions::zeros(1024) };
    let random = |page: usize, out: &mut [u8]| Rng::new(page as u64).fill(out);
    let mixed = |page: usize, out: &mut [u8]| match page % 5 {
        0 => {}
        1 => out.fill(0xff),
        _ => random(page, out),
    };
    let dump = dump_of(&spec, 1024, 0, 200, 1e-3, mixed);
    let found = infer(&dump, options).unwrap();
    same_register(&found, &spec);
    assert_eq!(found.pages_explained, 80);
    let (again, original) = (found.spec.compile().unwrap(), spec.compile().unwrap());
    for page in 0..200 {
        let seed = again.seed(&PageAddress::of(page), &[]).unwrap();
        assert_eq!(seed, original.seed(&PageAddress::of(page), &[]).unwrap(), "page {page}");
    }
    let repeats = |page: usize, out: &mut [u8]| random(page % 20, out);
    let dump = dump_of(&spec, 1024, 0, 60, 0.0, repeats);
    let error = infer(&dump, options).unwrap_err();
    assert!(matches!(error, InferError::OnlyDifferences { .. }), "{error:?}");
    assert!(error.to_string().contains("x^31 + x^28 + 1"), "{error}");
    let dump = dump_of(&spec, 1024, 0, 60, 0.0, random);
    assert!(matches!(infer(&dump, options), Err(InferError::NotLinear { .. })));
}

#[test]
fn a_ring_is_recovered_from_few_pages_with_bit_errors() {
    let spec = preset("marvell-ring15").unwrap();
    let SeedMap::Table { seeds } = spec.seed_map.clone() else { panic!() };
    let spec = ScramblerSpec { seed_map: SeedMap::Table { seeds: seeds[..9].to_vec() }, ..spec };
    let dump = zeros(&spec, 4096, 27, 1e-3);
    let found = infer(&dump, InferOptions::zeros(4096)).unwrap();
    let GeneratorSpec::Ring { ring_bytes, .. } = found.spec.generator else { panic!() };
    assert_eq!((ring_bytes, found.rule), (4096, SeedRuleKind::Table { period: 9 }));
    let (again, original) = (found.spec.compile().unwrap(), spec.compile().unwrap());
    for page in 0..9 {
        let (mut a, mut b) = ([0u8; 5000], [0u8; 5000]);
        again.scramble(&PageAddress::of(page), &mut a).unwrap();
        original.scramble(&PageAddress::of(page), &mut b).unwrap();
        assert!(a == b, "page {page}");
    }
    assert!((found.raw_bit_error_rate() - 1e-3).abs() < 3e-4);
}
