//! Specifications: printed and read back, layered, and refused with what is accepted.
//! Room: onefold-flash.

use onefold_flash::dedup::{Kind, POLICIES};
use onefold_flash::spec::keys::{Accepts, KEYS, TABLES};
use onefold_flash::spec::{BlockCount, PRESET_NAMES, SpecBuilder, VictimName};
use onefold_flash::{DriveSpec, Geometry};
use toml::Table;

fn preset(name: &str) -> DriveSpec {
    DriveSpec::preset(name).expect("a preset of the list")
}

fn with(assignments: &[&str]) -> Result<DriveSpec, String> {
    let builder = SpecBuilder::preset("ses-slc").map_err(|error| error.to_string())?;
    assignments
        .iter()
        .try_fold(builder, |builder, assignment| builder.set(assignment))
        .and_then(SpecBuilder::build)
        .map_err(|error| error.to_string())
}

fn from_file(text: &str) -> Result<DriveSpec, String> {
    SpecBuilder::preset("ses-slc")
        .and_then(|builder| builder.file("drive.toml", text))
        .and_then(SpecBuilder::build)
        .map_err(|error| error.to_string())
}

#[test]
fn every_preset_is_printed_and_read_back_as_itself() {
    for name in PRESET_NAMES {
        let spec = preset(name);
        spec.check().expect("presets are drives");
        let text = spec.to_commented_toml();
        assert_eq!(from_file(&text).expect("printed text is accepted"), spec, "{name}");
        assert!(text.lines().all(|line| line.len() <= 100), "{name}");
        for (table, _) in TABLES {
            assert!(table.is_empty() || text.contains(&format!("[{table}]")), "{table}");
        }
        let keys = text.lines().filter(|line| line.contains(" = ") && !line.starts_with('#'));
        assert_eq!(keys.count(), KEYS.len() + spec.dedup.options.len(), "{name}");
    }
}

#[test]
fn options_of_a_policy_are_told_with_their_defaults() {
    let text = with(&["dedup.policy=gleaner", "dedup.rounds=whole"]).unwrap().to_commented_toml();
    let told = "\
# Whether equal strong hashes are enough to share, where the engine outruns reads; where-sooner
# or never.
# trust = \"where-sooner\"
";
    assert!(text.contains(told), "{text}");
    // What is set stands as it is, and is told of as well.
    assert!(text.contains("those since the last one, or all;\n# incremental or whole.\nrounds ="));
    for info in POLICIES {
        let policy = format!("dedup.policy={}", info.name);
        let spec = with(&[&policy]).unwrap();
        let text = spec.to_commented_toml();
        assert_eq!(from_file(&text).expect("printed text is accepted"), spec, "{}", info.name);
        for option in info.options {
            // Its default is one: without the sign it is the same as without it.
            let line = format!("{} = {}", option.key, option.default_text());
            assert!(text.contains(&format!("\n# {line}\n")), "{}: {line}", info.name);
            with(&[&policy, &format!("dedup.{line}")]).expect("a default is accepted");
        }
    }
}

#[test]
fn options_of_a_policy_survive_printing_and_reading_whatever_their_names() {
    for info in POLICIES {
        let mut spec = preset("ses-slc");
        info.name.clone_into(&mut spec.dedup.policy);
        for option in info.options {
            let text = match option.kind {
                Kind::Ranges => "[[3, 9], [20, 20]]".to_owned(),
                Kind::Switch(on) => (!on).to_string(),
                Kind::Word(words) => format!("\"{}\"", words[words.len() - 1]),
                Kind::Share(_) | Kind::Multiple(_) => "0.5".to_owned(),
                Kind::Count { .. } if option.key == "codeword_bytes" => "512".to_owned(),
                Kind::Count { max, .. } => max.to_string(),
            };
            let value = text.parse().expect("a value");
            spec.dedup.options.insert(option.key.to_owned(), value);
        }
        let read = from_file(&spec.to_commented_toml()).expect("printed text is accepted");
        assert_eq!(read, spec, "{}", info.name);
    }
    // Another policy takes the options of the first one with it.
    let first = with(&["policy=\"ses-host\"", "dedup.lba_ranges=[[1, 2]]"]).expect("accepted");
    assert_eq!(first.dedup.options.len(), 1);
    let other = with(&["policy=\"ses-host\"", "dedup.lba_ranges=[[1, 2]]", "policy=\"none\""]);
    assert!(other.expect("accepted").dedup.options.is_empty());
}

#[test]
fn the_list_of_keys_is_that_of_the_types() {
    let values = Table::try_from(preset("tlc")).expect("a table");
    let mut paths: Vec<String> = Vec::new();
    for (name, value) in &values {
        match value.as_table() {
            None => paths.push(name.clone()),
            Some(table) => paths.extend(table.keys().map(|key| format!("{name}.{key}"))),
        }
    }
    let mut listed: Vec<&str> = KEYS.iter().map(|key| key.path).collect();
    paths.sort_unstable();
    listed.sort_unstable();
    assert_eq!(paths, listed);
    assert!(KEYS.iter().all(|key| TABLES.iter().any(|(table, _)| *table == key.table())));
}

#[test]
fn seed_drives_are_those_of_the_papers() {
    for (name, read, program) in [
        ("ses-slc", 23_400, 262_600),
        ("ses-mlc1", 33_500, 390_000),
        ("ses-mlc2", 43_300, 1_084_400),
    ] {
        let spec = preset(name);
        assert_eq!(spec.geometry.capacity_bytes(), 32 << 30);
        assert_eq!((spec.timing.read_latency_ns, spec.timing.program_latency_ns), (read, program));
        assert_eq!(spec.gc_reserve_blocks(), 13, "5 % of 256 blocks");
    }
    let park = preset("park-shin");
    assert_eq!((park.geometry.page_bytes, park.controller.light_hash_ns), (4096, 13_000));
}

#[test]
fn keys_are_set_by_path_or_by_name() {
    let spec = with(&[
        "over_provisioning=0.28",
        "ftl.gc_reserve_blocks=4",
        "victim=d-choices",
        "victim_choices = 7",
        "workload=zipf",
        "read_share=1",
        "queue_depth=8",
        "pages_per_block=128",
        "dedup.policy=ses-device",
        "dedup.table_share=0.15",
    ])
    .expect("all of these exist");
    assert_eq!(spec.ftl.over_provisioning.to_bits(), 0.28_f64.to_bits());
    assert_eq!(spec.ftl.gc_reserve_blocks, BlockCount::Blocks(4));
    assert_eq!((spec.ftl.victim, spec.ftl.victim_choices), (VictimName::DChoices, 7));
    assert_eq!((spec.workload.pattern.name(), spec.workload.queue_depth), ("zipf", 8));
    assert_eq!(spec.geometry.pages_per_block, 128);
    assert_eq!(spec.dedup.policy, "ses-device");
    assert_eq!(spec.dedup.options["table_share"].as_float(), Some(0.15));
    let text = spec.to_commented_toml();
    assert_eq!(from_file(&text).expect("options are printed too"), spec);
}

#[test]
fn a_file_may_start_from_a_preset_and_say_little() {
    let spec = from_file("preset = \"tlc\"\n[ftl]\nvictim = \"fifo\"\n").expect("accepted");
    let mut want = preset("tlc");
    want.ftl.victim = VictimName::Fifo;
    assert_eq!(spec, want);
    let dotted = from_file("preset = \"tlc\"\nftl.victim = \"fifo\"\n").expect("accepted");
    assert_eq!(dotted, want);
}

#[test]
fn what_is_wrong_is_named_with_what_is_accepted() {
    for (assignment, parts) in [
        ("over_provisionin=0.1", &["unknown key", "`ftl.over_provisioning`"][..]),
        ("read_latency=25000", &["unknown key", "`timing.read_latency_ns`"]),
        ("timing.read_latency=25000", &["`timing.read_latency_ns`"]),
        ("frobnicate=1", &["unknown key `frobnicate`"]),
        ("victim=gredy", &["greedy, fifo, d-choices or cost-benefit", "did you mean greedy?"]),
        ("read_share=1.5", &["workload.read_share = 1.5", "a number from 0 to 1"]),
        ("read_share=nan", &["a number from 0 to 1"]),
        ("queue_depth=0", &["a whole number from 1 to 65536"]),
        ("queue_depth=1.5", &["a whole number from 1 to 65536"]),
        ("queue_depth=-1", &["a whole number from 1 to 65536"]),
        ("queue_depth=99999999999999999999", &["a whole number from 1 to 65536"]),
        ("gc_reserve_blocks=90%", &["percentage"]),
        ("gc_reserve_blocks=1", &["from 2 to"]),
        ("journal=yes", &["true or false"]),
        ("ftl=1", &["unknown key `ftl`"]),
        ("over_provisioning", &["expected KEY=VALUE"]),
        ("=1", &["unknown key ``"]),
        ("packages=6", &["6 packages cannot be shared evenly by 8 channels"]),
        ("over_provisioning=0", &["logical pages are more than", "ftl.gc_reserve_blocks = 13"]),
        ("scrambler=foo", &["expected none, allwinner-1024"]),
        ("footprint_share=0", &[]),
    ] {
        match with(&[assignment]) {
            Ok(_) => assert!(parts.is_empty(), "{assignment} was accepted"),
            Err(message) => {
                for part in parts {
                    assert!(message.contains(part), "{assignment}: {message}");
                }
            }
        }
    }
    for (text, part) in [
        ("[ftl]\nvictm = \"fifo\"", "'drive.toml': unknown key `ftl.victm`"),
        ("[ftll]\n", "unknown key `ftll`"),
        ("ftl = 3", "`ftl` is a table"),
        ("[ftl.victim]\na = 1", "ftl.victim = "),
        ("a = ", "'drive.toml': TOML parse error at line 1"),
        ("preset = \"sess\"", "unknown preset `sess`: expected ses-slc, "),
        ("preset = 3", "expected ses-slc, "),
    ] {
        let message = from_file(text).expect_err(text);
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn no_value_of_any_key_panics() {
    let values = [
        "0",
        "1",
        "-1",
        "1e308",
        "nan",
        "true",
        "\"x\"",
        "[]",
        "{}",
        "5%",
        "",
        "'",
        "9223372036854775807",
        "1979-05-27",
    ];
    for key in KEYS {
        for value in values {
            let _ = with(&[&format!("{}={value}", key.path)]).map(|spec| spec.to_commented_toml());
        }
        if let Accepts::Whole(min, max) = key.accepts {
            for value in [min, max] {
                let _ = with(&[&format!("{}={value}", key.path)]);
            }
        }
    }
}

#[test]
fn units_follow_the_parallel_unit() {
    for (unit, units) in [("plane", 64), ("die", 8), ("package", 8)] {
        let spec = with(&[&format!("parallel_unit={unit}")]).expect("accepted");
        assert_eq!(spec.parallel_units(), units);
    }
    let spec = with(&["packages=16", "dies_per_package=2"]).expect("accepted");
    assert_eq!(spec.parallel_units(), 16 * 2 * 8);
    let Geometry { channels, .. } = spec.geometry;
    assert_eq!(channels, 8);
}
