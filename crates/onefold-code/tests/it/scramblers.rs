//! Known answers of real controllers, and the laws of scramblers.
//! Room: onefold-code.

use onefold_code::gf2::Poly;
use onefold_code::{
    BitOrder, CodeError, Form, GeneratorSpec, Kernel, Lfsr, LfsrSpec, PRESET_NAMES, PageAddress,
    ScramblerSpec, SeedMap, SeedSource, preset,
};
use proptest::prelude::*;

fn keystream(spec: &ScramblerSpec, page: u64, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    spec.scramble(page, &mut buffer).unwrap();
    buffer
}

/// Bit by bit from the description alone: the slow twin of every register.
fn slow_keystream(register: &LfsrSpec, seed: u64, bytes: usize) -> Vec<u8> {
    let mut lfsr = Lfsr::new_any_period(register.polynomial, register.form, seed).unwrap();
    for _ in 0..register.warmup_bits {
        lfsr.step();
    }
    let padded = bytes.next_multiple_of(8);
    let mut out: Vec<u8> = (0..padded)
        .map(|_| {
            let byte = (0..8).fold(0u8, |byte, i| {
                byte | lfsr.step() << if register.bit_order == BitOrder::Lsb { i } else { 7 - i }
            });
            if register.inverted { !byte } else { byte }
        })
        .collect();
    out.chunks_mut(register.word_bytes as usize).for_each(<[u8]>::reverse);
    out.truncate(bytes);
    out
}

fn step15(mut s: u32, n: u32) -> u32 {
    for _ in 0..n {
        s = s >> 1 | ((s ^ s >> 1) & 1) << 14;
    }
    s
}

/// The first and last entries of the tables in the Linux driver.
#[test]
fn allwinner_ecc_seed_tables_follow_from_the_page_seeds() {
    let SeedMap::Table { seeds } = preset("allwinner-1024").unwrap().seed_map else { panic!() };
    assert_eq!(seeds.len(), 128);
    let ecc512 = [0x3346, 0x367f, 0x1f18, 0x769a, 0x4f64, 0x068c, 0x2ef1, 0x6b64];
    let ecc1024 = [0x2cf5, 0x35f1, 0x63a4, 0x5274, 0x2bd2, 0x778b, 0x7285, 0x32b6];
    let tail512 = [0x44c4, 0x7266, 0x2f41, 0x3ccc, 0x045e, 0x7d40, 0x7c66, 0x0fa0];
    let tail1024 = [0x145b, 0x407e, 0x062b, 0x57a5, 0x53f9, 0x5659, 0x4410, 0x3ccd];
    for i in 0..8 {
        for (seed, step, expect) in [
            (seeds[i], 512, ecc512[i]),
            (seeds[i], 1024, ecc1024[i]),
            (seeds[120 + i], 512, tail512[i]),
            (seeds[120 + i], 1024, tail1024[i]),
        ] {
            let poly: Poly = "x^15 + x + 1".parse().unwrap();
            let mut lfsr = Lfsr::new(poly, Form::Fibonacci, seed).unwrap();
            lfsr.leap(step * 8 + 15);
            assert_eq!(lfsr.state(), expect);
            assert_eq!(u64::from(step15(seed as u32, step as u32 * 8 + 15)), expect);
        }
    }
}

/// Published first bytes of the PRBS-15 of Samsung's recommendation, start value 0x576a, which is
/// the first Allwinner seed with its bits turned around.
#[test]
fn samsung_and_allwinner_first_bytes() {
    let expect = [0xcf, 0x7e, 0xd4, 0x20, 0x5f, 0x58, 0x38, 0x3a];
    for name in ["samsung-prbs15", "allwinner-1024", "allwinner-512"] {
        assert_eq!(keystream(&preset(name).unwrap(), 0, 8), expect, "{name}");
    }
    let SeedMap::Table { seeds } = preset("samsung-prbs15").unwrap().seed_map else { panic!() };
    let published = [0x576au16, 0x05e8, 0x629d, 0x45a3, 0x649c, 0x4bf0, 0x2342, 0x272e];
    for (seed, start) in seeds.iter().zip(published) {
        assert_eq!(*seed, u64::from(start.reverse_bits() >> 1));
    }
}

/// Each ECC step of a page restarts; the bytes after one step continue into the ECC bytes with
/// the states of the driver's table.
#[test]
fn allwinner_restarts_every_ecc_step() {
    for (name, step) in [("allwinner-512", 512), ("allwinner-1024", 1024)] {
        let stream = keystream(&preset(name).unwrap(), 3, 4096);
        assert!(stream.chunks(step).all(|part| part == &stream[..step]));
    }
    let whole = keystream(&preset("samsung-prbs15").unwrap(), 0, 520);
    assert_eq!((whole[512], whole[513]), (0x46, step15(0x3346, 8) as u8));
}

/// Page starts: word at 2 * page of the ring, low 12 bits, rounded down to 4.
#[test]
fn marvell_ring_starts_and_wraps() {
    let spec = preset("marvell-ring15").unwrap();
    let ring = slow_keystream(
        &LfsrSpec { warmup_bits: 15, ..LfsrSpec::fibonacci("x^15 + x + 1".parse().unwrap()) },
        0x2b75,
        4096,
    );
    assert_eq!(ring[..8], [0xcf, 0x7e, 0xd4, 0x20, 0x5f, 0x58, 0x38, 0x3a]);
    for page in [0u64, 1, 2, 127] {
        let at = 2 * page as usize;
        let start = (usize::from(ring[at + 1]) << 8 | usize::from(ring[at])) & 0xffc;
        let stream = keystream(&spec, page, 8832);
        assert!((0..8832).all(|i| stream[i] == ring[(start + i) % 4096]), "page {page}");
    }
    assert_eq!(keystream(&spec, 0, 1)[0], ring[0xecc]);
}

/// The sample code's register, written the way it writes it: shifting left.
#[test]
fn macronix_registers_match_the_left_shifting_form() {
    for taps in [0x8003u16, 0x8453, 0x8113, 0x8723] {
        let spec = preset(&format!("macronix-{taps:04x}")).unwrap();
        for (page, seed) in [(0u64, 0x11a3u16), (6, 0x7ee7), (0x23, 0x4434 >> 2), (15, 0)] {
            let (mut s, mut expect) = (seed, vec![0u8; 300]);
            for bit in 0..2400 {
                s = (s << 1) ^ if s >> 15 == 1 { taps } else { 0 };
                expect[bit / 8] |= ((s >> 15) as u8) << (bit % 8);
            }
            assert_eq!(keystream(&spec, page, 300), expect, "{taps:#x} page {page}");
        }
    }
}

#[test]
fn presets_compile_and_survive_text() {
    for name in PRESET_NAMES {
        let spec = preset(name).unwrap();
        assert_eq!(ScramblerSpec::from_toml(&spec.to_toml()).unwrap(), spec, "{name}");
        spec.compile().unwrap();
    }
    let error = preset("phison").unwrap_err().to_string();
    assert!(error.contains("phison") && error.contains("allwinner-1024"), "{error}");
}

#[test]
fn bad_descriptions_name_the_field() {
    let good = preset("allwinner-512").unwrap();
    let text = good.to_toml();
    let refuse = |from: &str, to: &str| {
        assert!(text.contains(from), "{from} not in {text}");
        ScramblerSpec::from_toml(&text.replacen(from, to, 1)).unwrap_err()
    };
    assert!(matches!(refuse("x^15 + x + 1", "x^15 + x"), CodeError::PolynomialSingular { .. }));
    assert!(matches!(refuse("x^15 + x + 1", "x^16 + 1"), CodeError::PolynomialReducible { .. }));
    assert!(matches!(refuse("x^15 + x + 1", "1"), CodeError::PolynomialDegree { .. }));
    assert!(matches!(refuse("x^15 + x + 1", "x^3 + x + 1"), CodeError::SeedTooWide { .. }));
    assert!(matches!(refuse("word_bytes = 1", "word_bytes = 3"), CodeError::Field { .. }));
    assert!(refuse("x^15 + x + 1", "x^70 + 1").to_string().contains("x^70"));
    assert!(refuse("seed_source", "sead_source").to_string().contains("sead_source"));
}

#[test]
fn seed_sources_differ_where_they_should() {
    let base = ScramblerSpec::lba_lfsr("x^31 + x^28 + 1".parse().unwrap(), 1).unwrap();
    let with = |source| ScramblerSpec { seed_source: source, ..base.clone() }.compile().unwrap();
    let data = [7u8; 64];
    let seed = |source, address: PageAddress| with(source).seed(&address, &data).unwrap();
    let a = PageAddress { lba: 5, page_in_block: 3, column: 16, erase_count: 100 };
    let moved = PageAddress { page_in_block: 9, ..a };
    let worn = PageAddress { erase_count: 101, ..a };
    assert_eq!(seed(SeedSource::Lba, a), seed(SeedSource::Lba, moved));
    assert_ne!(
        seed(SeedSource::PhysicalPageInBlock, a),
        seed(SeedSource::PhysicalPageInBlock, moved)
    );
    assert_eq!(seed(SeedSource::PageColumnErase, a), 0x77 ^ 1);
    assert_eq!(seed(SeedSource::PageColumnErase, worn), 0x78 ^ 1);
    assert_eq!(seed(SeedSource::SelfSeeded, a), seed(SeedSource::SelfSeeded, moved));
    assert!(SeedSource::Lba.check_host_side().is_ok());
    for source in
        [SeedSource::PhysicalPageInBlock, SeedSource::PageColumnErase, SeedSource::SelfSeeded]
    {
        let refusal = source.check_host_side().unwrap_err().to_string();
        assert!(refusal.contains(source.name()), "{refusal}");
    }
    let scrambler = with(SeedSource::SelfSeeded);
    let mut page = data;
    let stored = scrambler.scramble(&a, &mut page).unwrap();
    assert_ne!(page, data);
    assert_eq!(scrambler.descramble(&a, None, &mut page), Err(CodeError::SeedNotStored));
    scrambler.descramble(&moved, Some(stored), &mut page).unwrap();
    assert_eq!(page, data);
}

#[test]
fn addresses_outside_an_inferred_rule_are_refused() {
    let mut spec = ScramblerSpec::lba_lfsr("x^15 + x + 1".parse().unwrap(), 1).unwrap();
    spec.seed_map =
        SeedMap::Linear { mask: 0xff, base: 0x100, constant: 3, columns: vec![1, 2, 4] };
    let scrambler = spec.compile().unwrap();
    assert_eq!(scrambler.seed(&PageAddress::of(0x105), &[]).unwrap(), 3 ^ 5);
    assert!(matches!(
        scrambler.seed(&PageAddress::of(0x205), &[]),
        Err(CodeError::AddressNotCovered { address: 0x205, base: 0x100, mask: 0xff })
    ));
}

/// A register description with any length, wiring and byte layout; not always irreducible.
fn any_register() -> impl Strategy<Value = LfsrSpec> {
    (1u32..=64, any::<u64>(), any::<[bool; 3]>(), 0usize..4, 0u32..200).prop_map(
        |(degree, low, [galois, msb, inverted], word, warmup_bits)| LfsrSpec {
            polynomial: Poly::monic(degree, (low & (u64::MAX >> (64 - degree))) | 1).unwrap(),
            form: if galois { Form::Galois } else { Form::Fibonacci },
            bit_order: if msb { BitOrder::Msb } else { BitOrder::Lsb },
            word_bytes: [1, 2, 4, 8][word],
            warmup_bits,
            inverted,
            allow_reducible: true,
        },
    )
}

/// Registers shorter and longer than a word, one after another by the same scrambler.
#[test]
fn some_registers_equal_bit_by_bit_and_seeds_leave_nothing_behind() {
    for (degree, low) in [(7, 3), (9, 0x11), (15, 3), (31, 9), (32, 0x40_0007), (64, 0x1b)] {
        for (form, bit_order, word_bytes, warmup_bits) in [
            (Form::Fibonacci, BitOrder::Lsb, 1, 0),
            (Form::Galois, BitOrder::Msb, 2, 5),
            (Form::Fibonacci, BitOrder::Msb, 8, 70),
        ] {
            let polynomial = Poly::monic(degree, low).unwrap();
            let register = LfsrSpec {
                form,
                bit_order,
                word_bytes,
                warmup_bits,
                ..LfsrSpec::fibonacci(polynomial)
            };
            let spec = ScramblerSpec {
                name: "any".into(),
                seed_source: SeedSource::Lba,
                restart_bytes: 0,
                generator: GeneratorSpec::Lfsr(register),
                seed_map: SeedMap::address_bits(degree, 0),
            };
            for kernel in Kernel::available() {
                let scrambler = spec.compile().unwrap().with_kernel(kernel);
                for seed in [1, u64::MAX >> (64 - degree), 0x55, 0] {
                    let mut page = vec![0u8; 1001];
                    scrambler.apply(seed, &mut page);
                    assert!(
                        page == slow_keystream(&register, seed, 1001),
                        "{kernel} {degree} {seed}"
                    );
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn wide_words_equal_bit_by_bit(
        register in any_register(), seed: u64, bytes in 0usize..20_000, restart in 0u32..3000,
    ) {
        let bits = register.polynomial.degree();
        let seed = seed & (u64::MAX >> (64 - bits));
        let restart_bytes = if restart < 1500 { 0 } else { restart };
        let spec = ScramblerSpec {
            name: "any".into(),
            seed_source: SeedSource::Lba,
            restart_bytes,
            generator: GeneratorSpec::Lfsr(register),
            seed_map: SeedMap::address_bits(bits, 0),
        };
        let segment = if restart_bytes == 0 { bytes.max(1) } else { restart_bytes as usize };
        let once = slow_keystream(&register, seed, segment.min(bytes));
        for kernel in Kernel::available() {
            let mut page = vec![0u8; bytes];
            spec.compile().unwrap().with_kernel(kernel).apply(seed, &mut page);
            for part in page.chunks(segment) {
                prop_assert!(part == &once[..part.len()], "{kernel}");
            }
        }
        let mut canonical = vec![0u8; bytes];
        let other = spec.canonical();
        other.scramble(seed, &mut canonical).unwrap();
        let mut page = vec![0u8; bytes];
        spec.scramble(seed, &mut page).unwrap();
        prop_assert_eq!(page, canonical);
        prop_assert_eq!(ScramblerSpec::from_toml(&other.to_toml()).unwrap(), other);
    }

    #[test]
    fn descramble_undoes_scramble(
        name in prop::sample::select(PRESET_NAMES.to_vec()),
        page: u32, data in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        let scrambler = preset(name).unwrap().compile().unwrap();
        let address = PageAddress::of(u64::from(page));
        let mut copy = data.clone();
        scrambler.scramble(&address, &mut copy).unwrap();
        scrambler.descramble(&address, None, &mut copy).unwrap();
        prop_assert_eq!(data, copy);
    }

    #[test]
    fn key_streams_add(register in any_register(), a: u64, b: u64) {
        let bits = register.polynomial.degree();
        let (a, b) = (a & (u64::MAX >> (64 - bits)), b & (u64::MAX >> (64 - bits)));
        let scrambler = ScramblerSpec {
            generator: GeneratorSpec::Lfsr(register),
            seed_map: SeedMap::address_bits(bits, 0),
            ..preset("lba-prbs31").unwrap()
        }
        .compile()
        .unwrap();
        let mut page = [0u8; 1000];
        for seed in [a, b, a ^ b, 0] {
            scrambler.apply(seed, &mut page);
        }
        prop_assert_eq!(page, [0u8; 1000]);
    }
}

#[test]
fn add_rotate_words() {
    let spec = ScramblerSpec {
        generator: GeneratorSpec::AddRotate { increment: 0x35ac_ca53, rotate: 1 },
        seed_map: SeedMap::address_bits(32, 0),
        ..preset("lba-prbs31").unwrap()
    };
    let stream = keystream(&spec, 0x1234_5678, 10);
    assert_eq!(stream[..4], [0x78, 0x56, 0x34, 0x12]);
    let next = 0x1234_5678u32.wrapping_add(0x35ac_ca53).rotate_left(1);
    assert_eq!(stream[4..8], next.to_le_bytes());
    assert_eq!(ScramblerSpec::from_toml(&spec.to_toml()).unwrap(), spec);
}

#[test]
fn rings_are_whole_words_up_to_sixteen_mebibytes() {
    let base = preset("marvell-ring15").unwrap();
    let GeneratorSpec::Ring { register, .. } = base.generator else { panic!("a ring") };
    let with = |ring_seed, ring_bytes| ScramblerSpec {
        generator: GeneratorSpec::Ring { register, ring_seed, ring_bytes },
        seed_map: SeedMap::Table { seeds: vec![0] },
        ..base.clone()
    };
    for (bytes, bits) in [
        (8, 3),
        (16, 4),
        (24, 5),
        (4096, 12),
        (4104, 13),
        (1 << 23, 23),
        ((1 << 23) + 8, 24),
        (1 << 24, 24),
    ] {
        assert_eq!(with(1, bytes).check(), Ok(()), "{bytes}");
        assert_eq!(with(1, bytes).generator.seed_bits(), bits, "{bytes}");
    }
    for bytes in [0, 1, 7, 9, 4092, (1 << 24) + 8] {
        assert!(matches!(with(1, bytes).check(), Err(CodeError::Field { .. })), "{bytes}");
    }
    assert_eq!(with(0x7fff, 8).check(), Ok(()));
    assert_eq!(with(0x8000, 8).check(), Err(CodeError::SeedTooWide { seed: 0x8000, bits: 15 }));
    assert!(!with(1, 8).generator.is_linear());
}

#[test]
fn seed_maps_have_at_least_one_seed_and_at_most_64_columns() {
    let base = preset("lba-prbs31").unwrap();
    let check = |seed_map| ScramblerSpec { seed_map, ..base.clone() }.check();
    assert!(matches!(check(SeedMap::Table { seeds: vec![] }), Err(CodeError::Field { .. })));
    assert_eq!(check(SeedMap::Table { seeds: vec![(1 << 31) - 1] }), Ok(()));
    assert!(matches!(
        check(SeedMap::Table { seeds: vec![0, 1 << 31] }),
        Err(CodeError::SeedTooWide { bits: 31, .. })
    ));
    assert!(matches!(
        check(SeedMap::linear(1 << 31, vec![])),
        Err(CodeError::SeedTooWide { bits: 31, .. })
    ));
    assert_eq!(check(SeedMap::linear(1, vec![1; 64])), Ok(()));
    assert!(matches!(check(SeedMap::linear(1, vec![1; 65])), Err(CodeError::Field { .. })));
}

/// Every register length at the sizes where the recurrence goes over to wider words, and where a
/// page is longer than the buffer.
#[test]
fn pages_around_the_size_of_the_buffer_equal_bit_by_bit() {
    for length in [1u32, 2, 7, 8, 9, 31, 63, 64] {
        let polynomial = Poly::monic(length, 1).unwrap();
        let register = LfsrSpec { allow_reducible: true, ..LfsrSpec::fibonacci(polynomial) };
        let spec = ScramblerSpec {
            generator: GeneratorSpec::Lfsr(register),
            seed_map: SeedMap::address_bits(length, 0),
            ..preset("lba-prbs31").unwrap()
        };
        let seed = 0x9e37_79b9_7f4a_7c15 & (u64::MAX >> (64 - length));
        let slow = slow_keystream(&register, seed, 17_000);
        for bytes in [1, 8, 63, 64, 65, 511, 512, 520, 8184, 8191, 8192, 8193, 8200, 17_000] {
            for kernel in Kernel::available() {
                let mut page = vec![0u8; bytes];
                spec.compile().unwrap().with_kernel(kernel).apply(seed, &mut page);
                assert!(page == slow[..bytes], "{length} {bytes} {kernel}");
            }
        }
    }
}
