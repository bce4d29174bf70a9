//! `onefold scrambler`: dumps made and seen through again, and what is refused.
//! Room: onefold.

use std::fs;
use std::path::Path;

use onefold_code::gf2::Poly;
use onefold_code::{
    BitOrder, Form, GeneratorSpec, LfsrSpec, PRESET_NAMES, Rng, ScramblerSpec, SeedMap, SeedSource,
};

use super::harness::{Said, Sandbox, noise};

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn ok(sandbox: &Sandbox, line: &str) -> Said {
    sandbox.ok(&words(line))
}

/// Make a dump with bit errors, infer, and make both clean dumps: they must be the same.
fn round_trip(sandbox: &Sandbox, scrambler: &str, how: &str) -> serde_json::Value {
    ok(sandbox, &format!("scrambler make {scrambler} {how} --rber 1e-3 -o noisy -f"));
    let pages = how.split(" --pages").next().unwrap();
    let infer = format!("scrambler infer noisy {pages}");
    let found = ok(sandbox, &format!("{infer} -o found.toml -f --json")).json();
    assert_eq!((&found["found"], &found["schema_version"]), (&true.into(), &1.into()));
    let rber = found["raw_bit_error_rate"].as_f64().unwrap();
    assert!((9e-4..1.1e-3).contains(&rber), "{scrambler}: {rber}");
    ok(sandbox, &format!("scrambler make {scrambler} {how} -o clean -f"));
    ok(sandbox, &format!("scrambler make --file found.toml {how} -o again -f"));
    let (clean, again) = (sandbox.path("clean"), sandbox.path("again"));
    assert!(fs::read(clean).unwrap() == fs::read(again).unwrap(), "{scrambler} {how}");
    found
}

#[test]
fn every_preset_is_recovered_and_makes_the_same_dump() {
    let sandbox = Sandbox::new();
    for name in PRESET_NAMES {
        // The ring has 2048 page starts, which a dump must show twice.
        let pages = if name == "marvell-ring15" { 2100 } else { 600 };
        let how = format!("--page-size 4K --pages {pages}");
        let found = round_trip(&sandbox, &format!("--preset {name}"), &how);
        assert_eq!(found["pages"]["in_dump"], pages, "{name}");
        let (needed, verified) = (&found["pages"]["needed"], &found["pages"]["verified"]);
        let sum = needed.as_u64().unwrap() + verified.as_u64().unwrap();
        assert_eq!(sum, pages, "{name}");
        let expect = match name {
            "lba-prbs31" => ("x^31 + x^28 + 1", "0x90000001"),
            "macronix-8003" => ("x^16 + x^15 + x + 1", "0x18003"),
            _ if name.starts_with("macronix") => continue,
            _ => ("x^15 + x + 1", "0x8003"),
        };
        assert_eq!(found["register"]["polynomial"], expect.0, "{name}");
        assert_eq!(found["register"]["polynomial_hex"], expect.1, "{name}");
    }
}

/// A register of an irreducible polynomial, laid out in any way, seeded linearly.
fn any_scrambler(rng: &mut Rng) -> ScramblerSpec {
    let degree = 8 + rng.below(25) as u32;
    let seed = |rng: &mut Rng| rng.next_u64() >> (64 - degree);
    let polynomial = loop {
        let polynomial = Poly::monic(degree, seed(rng) | 1).unwrap();
        if polynomial.is_primitive() {
            break polynomial;
        }
    };
    let register = LfsrSpec {
        form: if rng.below(2) == 0 { Form::Fibonacci } else { Form::Galois },
        bit_order: if rng.below(2) == 0 { BitOrder::Lsb } else { BitOrder::Msb },
        word_bytes: 1 << rng.below(4),
        warmup_bits: rng.below(100) as u32,
        ..LfsrSpec::fibonacci(polynomial)
    };
    ScramblerSpec {
        name: "any".into(),
        seed_source: SeedSource::Lba,
        restart_bytes: 0,
        generator: GeneratorSpec::Lfsr(register),
        seed_map: SeedMap::linear(seed(rng), (0..64).map(|_| seed(rng)).collect()),
    }
}

#[test]
fn random_polynomials_are_recovered_with_out_of_band_bytes_and_known_data() {
    let sandbox = Sandbox::new();
    fs::write(sandbox.path("page"), noise(3, 2000)).unwrap();
    let mut rng = Rng::new(1);
    for _ in 0..12 {
        let spec = any_scrambler(&mut rng);
        fs::write(sandbox.path("any.toml"), spec.to_toml()).unwrap();
        let how = "--page-size 2000 --oob 64 --first-address 0x12340 --known page --pages 96";
        let found = round_trip(&sandbox, "--file any.toml", how);
        let GeneratorSpec::Lfsr(register) = spec.canonical().generator else { panic!() };
        let json = &found["register"];
        assert_eq!(json["length"], register.polynomial.degree());
        assert_eq!(json["polynomial"], register.polynomial.to_string());
        assert_eq!(json["word_bytes"], register.word_bytes);
        assert_eq!(found["seed_rule"]["kind"], "linear");
        assert!(found["chance_log2"].as_f64().unwrap() < -32.0);
    }
}

#[test]
fn unknown_data_are_seen_through_where_pages_of_one_value_are_among_them() {
    let sandbox = Sandbox::new();
    let make = "scrambler make --preset lba-prbs31 --page-size 1K --pages 200";
    let infer = "scrambler infer dump --page-size 1024 --known unknown --json";
    let write = |page: &dyn Fn(u64) -> Vec<u8>, rber: &str| {
        let pages: Vec<u8> = (0..200).flat_map(page).collect();
        fs::write(sandbox.path("data"), pages).unwrap();
        ok(&sandbox, &format!("{make} --known data --rber {rber} -o dump -f"));
    };
    write(&|page| if page % 3 == 0 { vec![0; 1024] } else { noise(page, 1024) }, "1e-3");
    let found = ok(&sandbox, infer).json();
    assert_eq!(found["register"]["polynomial"], "x^31 + x^28 + 1");
    assert_eq!(found["pages"]["explained"], 67);

    write(&|page| noise(page % 20, 1024), "0");
    let said = sandbox.onefold(&words(infer));
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert_eq!(said.json()["found"], false);
    assert_eq!(said.json()["polynomial"], "x^31 + x^28 + 1");

    write(&|page| noise(page, 1024), "0");
    let said = sandbox.onefold(&words(infer));
    assert_eq!((said.code, &said.json()["polynomial"]), (Some(1), &serde_json::Value::Null));
}

#[test]
fn what_is_no_linear_scrambler_ends_with_1_and_leaves_no_file() {
    let sandbox = Sandbox::new();
    let add = ScramblerSpec {
        name: "add".into(),
        seed_source: SeedSource::Lba,
        restart_bytes: 0,
        generator: GeneratorSpec::AddRotate { increment: 0x35ac_ca53, rotate: 1 },
        seed_map: SeedMap::address_bits(32, 0x1234),
    };
    fs::write(sandbox.path("add.toml"), add.to_toml()).unwrap();
    let size = "--page-size 4K";
    ok(&sandbox, &format!("scrambler make --file add.toml {size} --pages 64 -o add"));
    // Too short to show that the starts in the ring repeat.
    let ring = "scrambler make --preset marvell-ring15";
    ok(&sandbox, &format!("{ring} {size} --pages 300 -o ring"));
    fs::write(sandbox.path("plain"), vec![0; 64 << 12]).unwrap();
    for (dump, reason) in [
        ("add", "no linear generator of up to 64 bits explains the dump"),
        ("ring", "the register is x^15 + x + 1, but the seeds of 300 pages are neither"),
        ("plain", "it is not scrambled"),
    ] {
        let said = sandbox.onefold(&words(&format!("scrambler infer {dump} {size} -o found.toml")));
        assert_eq!((said.code, said.text()), (Some(1), ""), "{dump}: {}", said.err);
        assert!(said.err.contains(reason), "{}", said.err);
        assert!(!sandbox.path("found.toml").exists());
        assert_eq!(said.err.contains("hint: a wrong --page-size"), dump == "add", "{}", said.err);
    }
}

/// Lines that cannot be done, and what the message must name.
const REFUSED: [(&str, &[&str]); 24] = [
    ("infer dump --page-size 1000", &["'dump'", "81,920 bytes", "--page-size", "1000 bytes"]),
    ("infer dump --page-size 1K --oob 16", &["--oob", "1040 bytes"]),
    ("infer empty --page-size 1K", &["'empty'", "0 bytes", "positive multiple"]),
    ("infer dump", &["--page-size <SIZE>"]),
    ("infer dump --page-size 32", &["--page-size", "32 B", "64 B", "16 MiB"]),
    ("infer dump --page-size 40K", &["2 usable pages", "at least 4"]),
    ("infer nowhere --page-size 1K", &["cannot read 'nowhere'"]),
    ("infer . --page-size 1K", &["cannot read '.'"]),
    ("infer dump --page-size 1K --known zeroes", &["'zeroes'", "--known takes zeros, unknown"]),
    ("infer dump --page-size 1K --known odd", &["--known 'odd'", "999", "1024", "81920"]),
    ("infer dump --page-size 1K --first-address -1", &["--first-address", "0x1000"]),
    ("infer dump --page-size 1K --first-address 0xffffffffffffffff", &["--first-address", "2^64"]),
    ("infer dump --page-size 1K -o -", &["-o"]),
    ("infer dump --page-size 1K -o dump", &["'dump' exists already", "--force"]),
    ("make --preset samsung --page-size 1K --pages 9 -o new", &["--preset", "samsung-prbs15"]),
    ("make --page-size 1K --pages 9 -o new", &["--preset <NAME>", "--file <FILE>"]),
    (
        "make --preset lba-prbs31 --file odd --page-size 1K --pages 9 -o new",
        &["--preset <NAME>", "cannot be used with", "--file <FILE>"],
    ),
    ("make --file odd --page-size 1K --pages 9 -o new", &["'odd'"]),
    ("make --file bad.toml --page-size 1K --pages 9 -o new", &["'bad.toml'", "allow_reducible"]),
    ("make --preset lba-prbs31 --page-size 1K --pages 0 -o new", &["--pages", "1.."]),
    ("make --preset lba-prbs31 --page-size 1K --pages 9 --rber 0.6 -o new", &["--rber", "0.5"]),
    ("make --preset lba-prbs31 --page-size 1K --pages 9 --known unknown -o new", &["--known"]),
    (
        "make --file found.toml --page-size 1K --pages 9 --first-address 120 -o new",
        &["--first-address", "address: 0x80", "mask 0x7f"],
    ),
    ("show samsung", &["<PRESET>", "samsung-prbs15"]),
];

#[test]
fn bad_input_is_named_with_what_is_accepted() {
    let sandbox = Sandbox::new();
    let make = "scrambler make --preset lba-prbs31 --page-size 1K";
    ok(&sandbox, &format!("{make} --pages 80 -o dump"));
    ok(&sandbox, "scrambler infer dump --page-size 1K -o found.toml");
    fs::write(sandbox.path("empty"), "").unwrap();
    fs::write(sandbox.path("odd"), [0xff; 999]).unwrap();
    let found = fs::read_to_string(sandbox.path("found.toml")).unwrap();
    let reducible = found.replace("x^31 + x^28 + 1", "x^31 + x^3 + x + 1");
    fs::write(sandbox.path("bad.toml"), reducible).unwrap();
    for (line, named) in REFUSED {
        let said = sandbox.onefold(&words(&format!("scrambler {line}")));
        assert_eq!((said.code, said.text()), (Some(2), ""), "{line}: {}", said.err);
        for name in named {
            assert!(said.err.contains(name), "{line}: no {name} in:\n{}", said.err);
        }
        assert!(!sandbox.path("new").exists(), "{line}");
    }
}

#[test]
fn presets_are_listed_and_shown_as_files_that_make_accepts() {
    let sandbox = Sandbox::new();
    let list = ok(&sandbox, "scrambler list");
    let json = ok(&sandbox, "scrambler list --json").json();
    assert_eq!(json["scramblers"].as_array().unwrap().len(), PRESET_NAMES.len());
    let make = "--page-size 512 --oob 16 --pages 40 -o -";
    for name in PRESET_NAMES {
        assert!(list.text().lines().any(|line| line.starts_with(&format!("{name} "))), "{name}");
        let shown = ok(&sandbox, &format!("scrambler show {name}"));
        fs::write(sandbox.path("shown.toml"), shown.out).unwrap();
        let by_name = ok(&sandbox, &format!("scrambler make --preset {name} {make}"));
        let by_file = ok(&sandbox, &format!("scrambler make --file shown.toml {make}"));
        assert_eq!(by_name.out.len(), 40 * 528);
        assert!(by_name.out == by_file.out, "{name}");
    }
}

#[test]
fn same_seed_same_errors() {
    let sandbox = Sandbox::new();
    let make = "scrambler make --preset allwinner-512 --page-size 1K --pages 20 --rber 1e-2 -o -";
    let [a, b, c] =
        ["7", "7", "0x8"].map(|seed| ok(&sandbox, &format!("{make} --seed {seed}")).out);
    assert!(a == b && a != c);
}

/// Types the commands of docs/scramblers.md, in their order, and compares what they say.
#[test]
fn the_page_says_what_the_commands_say() {
    let sandbox = Sandbox::new();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scramblers.md");
    let page = fs::read_to_string(page).unwrap();
    let blocks = page.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut typed = 0;
    for run in blocks.flat_map(|block| block.split("$ onefold ").skip(1)) {
        let (line, expected) = run.split_once('\n').unwrap();
        let said = sandbox.onefold(&words(line));
        assert_eq!(format!("{}{}", said.text(), said.err), expected, "onefold {line}");
        typed += 1;
    }
    assert!(typed >= 5, "only {typed} commands on the page");
}
