//! Outcomes that must not change by themselves: designed codes, what decoders say, how many rounds
//! they take, searches with a budget, the random stream, and reports of recovery.
//! Room: onefold-code.
//! A number here is a CRC-64 over all outcomes of a table, or the outcome itself. Laws elsewhere
//! say what is right; this says that it is still the same.

use onefold_code::gf2::Poly;
use onefold_code::infer::{DumpMaker, InferOptions, Known, infer};
use onefold_code::{
    BitOrder, Decoded, GeneratorSpec, LDPC_NAMES, LdpcDecoder, LfsrSpec, QcLdpc, Rng,
    ScramblerSpec, SeedMap, SeedSource, Shape, crc64, ldpc_by_name, preset,
};

fn digest_of(code: &QcLdpc) -> u64 {
    let entries = code.columns().iter().flatten();
    let bytes = entries.flat_map(|e| [e.row.to_le_bytes(), e.shift.to_le_bytes()].concat());
    crc64(&bytes.collect::<Vec<u8>>())
}

/// A test for each row of a table, so that each is quick.
macro_rules! each {
    ($check:ident: $($name:ident = $row:literal,)*) => {
        $(#[test]
        fn $name() {
            $check($row);
        })*
    };
}

fn named_code_is_the_designed_one(at: usize) {
    let name = LDPC_NAMES[at];
    let code = ldpc_by_name(name).unwrap();
    let found = format!("{name} {:016x} {} {:.4}", digest_of(&code), code.girth(), code.rate());
    assert_eq!(found, CODES[at]);
}

each! { named_code_is_the_designed_one:
    the_code_ses_is_the_designed_one = 0,
    the_code_1k_32_33_is_the_designed_one = 1,
    the_code_2k_32_33_is_the_designed_one = 2,
    the_code_4k_32_33_is_the_designed_one = 3,
    the_code_1k_15_16_is_the_designed_one = 4,
    the_code_2k_15_16_is_the_designed_one = 5,
    the_code_4k_15_16_is_the_designed_one = 6,
    the_code_1k_8_9_is_the_designed_one = 7,
    the_code_2k_8_9_is_the_designed_one = 8,
    the_code_4k_8_9_is_the_designed_one = 9,
}

#[test]
fn every_named_code_has_a_row() {
    assert_eq!(LDPC_NAMES.len(), CODES.len());
}

#[test]
fn other_shapes_are_designed_alike() {
    let mut found = Vec::new();
    for (rows, data_blocks, weight, seed) in [
        (1, 2, 3, 1),
        (2, 4, 3, 2),
        (3, 10, 4, 3),
        (6, 20, 5, 4),
        (7, 40, 6, 5),
        (8, 128, 4, 6),
        (9, 30, 3, 7),
        (21, 40, 3, 8),
        (42, 20, 6, 9),
    ] {
        let shape = Shape { circulant: 64, rows, data_blocks, weight, seed };
        found.push(match QcLdpc::design("any", shape) {
            Ok(code) => format!("{rows} {:016x} {}", digest_of(&code), code.girth()),
            Err(error) => format!("{rows} {error}"),
        });
    }
    assert_eq!(found, SHAPES, "{found:#?}");
}

/// By code and number of errors: what each of the three decoders said, after how many rounds.
fn decoders_say_the_same_for_ever(at: usize) {
    let (name, most) = [("ses-33x256", 14), ("qc-1k-32/33", 12), ("qc-1k-15/16", 40)][at];
    let code = ldpc_by_name(name).unwrap();
    let mut rng = Rng::new(77);
    let mut outcomes = Vec::new();
    let mut counts = [0; 3];
    let mut decoders =
        [20, 6].map(|limit| LdpcDecoder::new(code.clone()).with_max_iterations(limit));
    for round in 0..24 {
        let mut data = vec![0; code.data_bytes()];
        rng.fill(&mut data);
        let mut parity = vec![0; code.parity_bytes()];
        code.encode(&data, &mut parity).unwrap();
        let mut soft: Vec<i8> =
            (0..code.codeword_bits()).map(|_| 1 + rng.below(40) as i8).collect();
        let errors = round * most / 24;
        for _ in 0..errors {
            let at = rng.below(code.codeword_bits() as u64) as usize;
            match data.get_mut(at / 8) {
                Some(byte) => *byte ^= 1 << (at % 8),
                None => parity[at / 8 - code.data_bytes()] ^= 1 << (at % 8),
            }
            soft[at] = rng.below(9) as i8;
        }
        let bytes: Vec<u8> = data.iter().chain(&parity).copied().collect();
        for (at, value) in soft.iter_mut().enumerate() {
            *value *= if bytes[at / 8] >> (at % 8) & 1 == 1 { -1 } else { 1 };
        }
        for decoder in &mut decoders {
            for (way, count) in counts.iter_mut().enumerate() {
                let (mut d, mut p) = (data.clone(), parity.clone());
                let said = match way {
                    0 => decoder.decode(&mut d, &mut p),
                    1 => decoder.decode_soft(&soft, &mut d, &mut p),
                    _ => decoder.decode_flip(&mut d, &mut p),
                };
                let said = said.unwrap();
                *count += usize::from(matches!(said, Decoded::Corrected(_)));
                let line = format!("{errors} {way} {said:?} {};", decoder.iterations());
                outcomes.extend_from_slice(line.as_bytes());
                outcomes.extend([d, p].concat());
            }
        }
    }
    let found = format!("{name} {counts:?} {:016x}", crc64(&outcomes));
    assert_eq!(found, DECODERS[at]);
}

each! { decoders_say_the_same_for_ever:
    decoders_of_ses_say_the_same_for_ever = 0,
    decoders_of_1k_32_33_say_the_same_for_ever = 1,
    decoders_of_1k_15_16_say_the_same_for_ever = 2,
}

/// Twelve errors within one circulant, where flipping meets many equal candidates.
#[test]
fn flipping_tries_candidates_one_by_one() {
    let mut found = Vec::new();
    for name in ["ses-33x256", "qc-1k-32/33", "qc-1k-8/9"] {
        let code = ldpc_by_name(name).unwrap();
        let mut decoder = LdpcDecoder::new(code.clone());
        let mut outcomes = Vec::new();
        let mut rng = Rng::new(5);
        for _ in 0..40 {
            let (mut data, mut parity) =
                (vec![0u8; code.data_bytes()], vec![0u8; code.parity_bytes()]);
            for _ in 0..2 + rng.below(5) {
                let at = rng.below(96);
                data[at as usize / 8] ^= 1 << (at % 8);
            }
            let said = decoder.decode_flip(&mut data, &mut parity).unwrap();
            let ones: u32 = data.iter().chain(&parity).map(|byte| byte.count_ones()).sum();
            outcomes.extend(format!("{said:?} {} {ones};", decoder.iterations()).into_bytes());
        }
        found.push(format!("{name} {:016x}", crc64(&outcomes)));
    }
    assert_eq!(found, FLIPS, "{found:#?}");
}

fn search_ends_with_its_budget_and_finds_the_same_words(at: usize) {
    let (name, weight) = [("ses-33x256", 6), ("qc-1k-32/33", 6), ("qc-1k-15/16", 5)][at];
    let code = ldpc_by_name(name).unwrap();
    let mut found = Vec::new();
    for budget in [0, 1, 33, 34, 200, 3000, 40_000] {
        let report = code.distance_report(weight, budget);
        found.push(format!(
            "{name} {budget}: {:?} {} {:?}",
            report.lowest_found, report.proven_at_least, report.example
        ));
    }
    let digest = crc64(found.concat().as_bytes());
    assert_eq!(digest, SEARCHES[at], "{found:#?}\n{digest:#018x}");
}

each! { search_ends_with_its_budget_and_finds_the_same_words:
    a_search_in_the_code_ses_finds_the_same_words = 0,
    a_search_in_the_code_1k_32_33_finds_the_same_words = 1,
    a_search_in_the_code_1k_15_16_finds_the_same_words = 2,
}

/// The syndrome from the definition of the matrix: a set bit adds the checks of its column.
#[test]
fn a_syndrome_is_the_sum_of_the_columns_of_the_set_bits() {
    let mut rng = Rng::new(13);
    for name in ["ses-33x256", "qc-1k-32/33", "qc-2k-8/9"] {
        let code = ldpc_by_name(name).unwrap();
        let z = code.shape().circulant;
        let mut word = vec![0u8; code.data_bytes() + code.parity_bytes()];
        let mut expected = vec![0u64; code.parity_bytes() / 8];
        for _ in 0..50 {
            let at = rng.below(code.codeword_bits() as u64) as usize;
            word[at / 8] ^= 1 << (at % 8);
            for entry in &code.columns()[at / z] {
                let check = usize::from(entry.row) * z + (at + usize::from(entry.shift)) % z;
                expected[check / 64] ^= 1 << (check % 64);
            }
            let (data, parity) = word.split_at(code.data_bytes());
            assert_eq!(code.syndrome_slow(data, parity).unwrap(), expected, "{name}");
        }
    }
}

#[test]
fn the_random_stream_is_the_published_one() {
    // xoshiro256** from the state that splitmix64 makes of 0.
    let mut rng = Rng::new(0);
    let first = [0x99ec_5f36_cb75_f2b4, 0xbf6e_1f78_4956_452a, 0x1a5f_849d_4933_e6e0];
    assert_eq!([rng.next_u64(), rng.next_u64(), rng.next_u64()], first);
    let mut rng = Rng::new(1);
    let below: Vec<u64> = (0..8).map(|_| rng.below(10)).collect();
    let units: Vec<u64> = (0..4).map(|_| (rng.unit() * 1e6) as u64).collect();
    let normals: Vec<i64> = (0..4).map(|_| (rng.normal() * 1e6) as i64).collect();
    let gaps: Vec<usize> = (0..6).map(|_| rng.gap(0.01)).collect();
    let mut bytes = [0; 13];
    rng.fill(&mut bytes);
    let flipped = rng.flip_bits(&mut bytes, 0.2);
    let all = format!("{below:?} {units:?} {normals:?} {gaps:?} {flipped} {bytes:?}");
    assert_eq!(all, STREAM);
    assert_eq!(Rng::new(2).flip_bits(&mut [0; 9], 0.0), 0);
    let mut sum = [0u32; 2];
    for _ in 0..2000 {
        let mut page = [0u8; 8];
        sum[0] += rng.flip_bits(&mut page, 0.25) as u32;
        sum[1] += page.iter().map(|byte| byte.count_ones()).sum::<u32>();
    }
    assert_eq!(sum[0], sum[1], "every flip is of another bit");
    assert!((31_000..33_000).contains(&sum[0]), "a quarter of 128,000: {}", sum[0]);
}

fn dump(spec: &ScramblerSpec, size: usize, pages: usize, rber: f64) -> Vec<u8> {
    let mut maker = DumpMaker::new(spec, 0, 0, rber, 3).unwrap();
    let zeros = vec![0; size];
    (0..pages).flat_map(|_| maker.page(&zeros).unwrap().to_vec()).collect()
}

fn registers() -> Vec<(&'static str, ScramblerSpec)> {
    let base = preset("lba-prbs31").unwrap();
    let GeneratorSpec::Lfsr(lfsr) = base.generator else { panic!("a register") };
    let with =
        |register| ScramblerSpec { generator: GeneratorSpec::Lfsr(register), ..base.clone() };
    let seeds = SeedMap::Table { seeds: vec![0x1234, 0x777, 0x4321, 0x555, 0x10] };
    let prbs9 = LfsrSpec::fibonacci("x^9 + x^4 + 1".parse().unwrap());
    let small = ScramblerSpec {
        generator: GeneratorSpec::Lfsr(prbs9),
        seed_map: SeedMap::Table { seeds: vec![0x1ff] },
        ..base.clone()
    };
    let restarts = |bytes| ScramblerSpec { restart_bytes: bytes, ..with(lfsr) };
    let ring = |bytes: u32, step: u64| ScramblerSpec {
        generator: GeneratorSpec::Ring { register: lfsr, ring_seed: 0x2b75, ring_bytes: bytes },
        seed_map: SeedMap::Table {
            seeds: (0..12).map(|page| page * step % u64::from(bytes)).collect(),
        },
        ..base.clone()
    };
    vec![
        ("plain", with(lfsr)),
        ("complemented", with(LfsrSpec { inverted: true, ..lfsr })),
        ("turned", with(LfsrSpec { bit_order: BitOrder::Msb, word_bytes: 4, ..lfsr })),
        ("table", ScramblerSpec { seed_map: seeds, ..with(lfsr) }),
        ("constant", small.clone()),
        ("restarts 104", restarts(104)),
        ("restarts 520", restarts(520)),
        ("restarts 1016", restarts(1016)),
        ("restarts 96", ScramblerSpec { restart_bytes: 96, ..small }),
        ("ring 2048", ring(2048, 76)),
        ("ring 1536", ring(1536, 333)),
        ("ring 4096", ring(4096, 1000)),
    ]
}

fn recovery_reports_the_same(at: usize) {
    let (name, spec) = registers().swap_remove(at);
    let mut found = Vec::new();
    for (size, pages, rber) in
        [(1024, 40, 0.0), (2048, 64, 1e-3), (1024, 64, 4e-3), (64, 60, 0.0), (4096, 40, 1e-2)]
    {
        let dump = dump(&spec, size, pages, rber);
        let text = match infer(&dump, InferOptions::zeros(size)) {
            Ok(inference) => format!("{inference}\n{}", inference.spec.to_toml()),
            Err(error) => error.to_string(),
        };
        found.push(format!("--- {name}, {pages} of {size} at {rber}\n{text}\n"));
    }
    let digest = crc64(found.concat().as_bytes());
    assert_eq!(digest, REPORTS[at], "{}\n{digest:#018x}", found.concat());
}

each! { recovery_reports_the_same:
    a_plain_register_is_reported_as_before = 0,
    a_complemented_register_is_reported_as_before = 1,
    a_turned_register_is_reported_as_before = 2,
    a_table_of_seeds_is_reported_as_before = 3,
    one_seed_is_reported_as_before = 4,
    restarts_of_104_bytes_are_reported_as_before = 5,
    restarts_of_520_bytes_are_reported_as_before = 6,
    restarts_of_1016_bytes_are_reported_as_before = 7,
    restarts_of_one_seed_are_reported_as_before = 8,
    a_ring_of_2048_bytes_is_reported_as_before = 9,
    a_ring_of_1536_bytes_is_reported_as_before = 10,
    a_ring_of_4096_bytes_is_reported_as_before = 11,
}

#[test]
fn recovery_without_known_data_reports_the_same() {
    let spec = preset("lba-prbs31").unwrap();
    let mut found = Vec::new();
    for (constant, repeats, pages) in
        [(0, 0, 30), (1, 0, 60), (4, 0, 60), (0, 7, 40), (2, 3, 41), (9, 1, 20)]
    {
        let mut maker = DumpMaker::new(&spec, 0, 0, 1e-4, 9).unwrap();
        let mut dump = Vec::new();
        for page in 0..pages {
            let mut data = vec![if page % 2 == 0 { 0 } else { 0xff }; 512];
            if page % 10 >= constant {
                let seed = if repeats > 0 { page % repeats } else { page };
                Rng::new(seed).fill(&mut data);
            }
            dump.extend_from_slice(maker.page(&data).unwrap());
        }
        let options = InferOptions { known: Known::Unknown, ..InferOptions::zeros(512) };
        let text = match infer(&dump, options) {
            Ok(inference) => inference.to_string(),
            Err(error) => error.to_string(),
        };
        found.push(format!("--- {constant} {repeats} {pages}\n{text}\n"));
    }
    let digest = crc64(found.concat().as_bytes());
    assert_eq!(digest, UNKNOWN, "{}\n{digest:#018x}", found.concat());
}

/// A report of everything that a register can be.
#[test]
fn a_report_names_order_complement_restart_and_seed() {
    let (_, spec) = registers().swap_remove(2);
    let register = |spec: &ScramblerSpec| match spec.generator {
        GeneratorSpec::Lfsr(register) => register,
        _ => panic!("a register"),
    };
    let spec = ScramblerSpec {
        generator: GeneratorSpec::Lfsr(LfsrSpec { inverted: true, ..register(&spec) }),
        restart_bytes: 256,
        seed_source: SeedSource::Lba,
        ..spec
    };
    let text = infer(&dump(&spec, 1024, 40, 0.0), InferOptions::zeros(1024)).unwrap().to_string();
    assert_eq!(text, REPORT);
    assert_eq!(register(&spec).polynomial, "x^31 + x^28 + 1".parse::<Poly>().unwrap());
}

const CODES: [&str; 10] = [
    "ses-33x256 098797153ae7d896 6 0.9697",
    "qc-1k-32/33 9f665c172da544ae 6 0.9697",
    "qc-2k-32/33 e628827649eee455 6 0.9697",
    "qc-4k-32/33 a87073b097287aad 6 0.9697",
    "qc-1k-15/16 f5b3033b294f64cb 6 0.9343",
    "qc-2k-15/16 4af4535dff3b0288 6 0.9377",
    "qc-4k-15/16 680e377cf7296b15 6 0.9377",
    "qc-1k-8/9 1e9f0c254e8c1af9 6 0.8889",
    "qc-2k-8/9 19583b0b04ab1cbc 6 0.8889",
    "qc-4k-8/9 8daeb439c8e90bb4 6 0.8889",
];
const SHAPES: [&str; 9] = [
    "1 e0133f38c5cd0c61 6",
    "2 86cad56278dde8e7 6",
    "3 7a214a05b82c0eb0 6",
    "6 9cdd4376ffd91122 6",
    "7 35320348785c23ca 6",
    "8 bc7bd3105e1c865f 6",
    "9 2a79a719231b3f33 6",
    "21 6ddc3808ed43f1c4 8",
    "42 1fb8d5c620fd22ee 6",
];
const DECODERS: [&str; 3] = [
    "ses-33x256 [28, 24, 21] c1cac89912e0ac2f",
    "qc-1k-32/33 [39, 28, 31] b263a4e35c2e3084",
    "qc-1k-15/16 [46, 38, 27] 959f98f61b1220fb",
];
const FLIPS: [&str; 3] =
    ["ses-33x256 a03819b96d8de3d7", "qc-1k-32/33 4cc2a57c15c12f45", "qc-1k-8/9 c25027d04e7683a5"];
const SEARCHES: [u64; 3] = [0xb97c_9d60_343a_7ce7, 0x9a24_b081_f6ed_a007, 0x486f_fa1f_ee81_c6d8];
const STREAM: &str = "[7, 5, 5, 3, 6, 1, 0, 3] [867152, 551709, 932572, 957218] \
                      [-1130964, 1045904, -408975, 282016] [61, 68, 93, 42, 51, 23] 20 \
                      [231, 114, 222, 15, 2, 89, 56, 243, 204, 24, 205, 90, 202]";
const REPORTS: [u64; 12] = [
    0x5f17_7238_8baf_1027,
    0xc29a_395f_de57_d5db,
    0x7e97_f6f5_4970_6ca9,
    0xc026_267c_422d_10b2,
    0x1119_7462_8c43_0534,
    0xe1c5_b931_7ce0_d226,
    0x0318_8cc0_b68e_fde5,
    0xa4f1_e1ce_e902_9f9b,
    0x1fec_7230_6d0b_737e,
    0x7310_cf99_6c29_cf86,
    0x539a_818b_41b0_1ade,
    0xbe36_f970_3f3e_b676,
];
const UNKNOWN: u64 = 0xac4b_5f6c_1c70_198e;
const REPORT: &str = "\
register length      31
polynomial           x^31 + x^28 + 1
bit order            most significant first
byte order           reversed in words of 4 bytes
key stream           complemented
restarts             every 256 bytes
seed                 linear in 6 address bits (mask 0x3f, base 0x0)
pages                40 in the dump, 40 explained, 7 needed, 33 verified
raw bit error rate   0.00e0 (0 of 327680 bits)
odds of chance       below 2^-1023";
