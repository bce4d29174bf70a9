//! Hardware descriptions against what they describe: the Verilated bench is a process of its own,
//! with bytes on a pipe. Without Verilator these tests say so and pass.

use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use onefold_array::spec::keys::KEYS;
use onefold_block::SplitMix64;
use onefold_content::{FingerprintKind, Fingerprinter};

fn rtl() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtl")
}

/// The bench, built once; nothing if there is no Verilator.
fn bench() -> Option<&'static Path> {
    static BENCH: OnceLock<Option<PathBuf>> = OnceLock::new();
    BENCH.get_or_init(build).as_deref()
}

fn build() -> Option<PathBuf> {
    if Command::new("verilator").arg("--version").output().is_err() {
        println!("skipped, for want of verilator: apt-get install verilator");
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rtl");
    let mut command = Command::new("verilator");
    command.args(["-Wall", "--cc", "--exe", "--build", "-O3", "-CFLAGS", "-O1"]);
    command.args(["--top-module", "bench", "-o", "bench", "--Mdir"]).arg(&folder);
    let sources = std::fs::read_dir(rtl()).unwrap().map(|entry| entry.unwrap().path());
    command.args(sources.filter(|path| path.extension().is_some_and(|e| e == "sv")));
    command.arg(rtl().join("harness/bench.sv")).arg(rtl().join("harness/main.cpp"));
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(folder.join("bench"))
}

/// What a module of the bench answers.
fn ask(bench: &Path, args: &[&str], input: Vec<u8>) -> Vec<u8> {
    let mut child = Command::new(bench)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let out = child.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    assert!(out.status.success(), "{args:?}: {}", out.status);
    out.stdout
}

fn framed(messages: &[Vec<u8>]) -> Vec<u8> {
    let frame = |message: &Vec<u8>| {
        let mut frame = (message.len() as u32).to_le_bytes().to_vec();
        frame.extend(message);
        frame
    };
    messages.iter().flat_map(frame).collect()
}

fn bytes(random: &mut SplitMix64, count: u64) -> Vec<u8> {
    (0..count).map(|_| random.next_u64() as u8).collect()
}

/// Lengths around every border of the padding, the vectors of FIPS 180-4, and random chunks: as
/// many as `ONEFOLD_TEST_CHUNKS` says.
fn messages(random: &mut SplitMix64) -> Vec<Vec<u8>> {
    let chunks = std::env::var("ONEFOLD_TEST_CHUNKS")
        .map_or(24, |text| text.parse().expect("a number of chunks"));
    let two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    let mut all = vec![b"abc".to_vec(), two_blocks.into(), vec![b'a'; 20_000]];
    all.extend((0..=130).map(|length| bytes(random, length)));
    all.extend((0..chunks).map(|_| {
        let length = 1 + random.below(65_536);
        bytes(random, length)
    }));
    all
}

#[test]
fn a_hash_unit_computes_sha_256_at_any_pace() {
    let Some(bench) = bench() else { return };
    let all = messages(&mut SplitMix64::new(1));
    let hasher = Fingerprinter::new(FingerprintKind::Sha256);
    for args in [&["sha"][..], &["sha", "77"]] {
        let answers = ask(bench, args, framed(&all));
        assert_eq!(answers.len(), 36 * all.len());
        for (message, answer) in all.iter().zip(answers.chunks(36)) {
            let expected = hasher.hash(message);
            assert_eq!(answer[..32], expected.as_bytes()[..], "{args:?}: {} bytes", message.len());
            let cycles = u64::from(u32::from_le_bytes(answer[32..].try_into().unwrap()));
            // The padding is a bit and 8 bytes of length.
            let blocks = (message.len() as u64 + 9).div_ceil(64);
            let stalls = args.len() > 1;
            assert!(cycles == 65 * blocks || stalls && cycles > 65 * blocks, "{cycles} {blocks}");
        }
    }
}

#[test]
fn an_array_answers_every_chunk_and_its_units_do_not_idle() {
    let Some(bench) = bench() else { return };
    let random = &mut SplitMix64::new(2);
    let equal: Vec<Vec<u8>> = (0..120).map(|_| bytes(random, 4096)).collect();
    for (all, busiest) in [(equal, true), (messages(random), false)] {
        let answers = ask(bench, &["array"], framed(&all));
        assert_eq!(answers.len(), 36 * all.len() + 52);
        let hasher = Fingerprinter::new(FingerprintKind::Sha256);
        let mut seen = vec![false; all.len()];
        for answer in answers.chunks(36).take(all.len()) {
            let number = u32::from_le_bytes(answer[32..].try_into().unwrap()) as usize;
            assert!(!std::mem::replace(&mut seen[number], true), "{number} twice");
            assert_eq!(answer[..32], hasher.hash(&all[number]).as_bytes()[..], "{number}");
        }
        let word = |from_end: usize| {
            let at = answers.len() - from_end;
            u64::from_le_bytes(answers[at..at + 8].try_into().unwrap())
        };
        let (cycles, busy) = (word(16), word(8));
        assert!(!busiest || busy as f64 > 0.95 * 4.0 * cycles as f64, "{busy} of 4 x {cycles}");
    }
}

#[test]
fn an_arbiter_grants_one_who_asks_and_starves_nobody() {
    let Some(bench) = bench() else { return };
    let random = &mut SplitMix64::new(3);
    let mut input = Vec::new();
    let mut asked = 0_u8;
    for _ in 0..200_000 {
        // Requests come at random and stay; they go with their grant, below.
        input.extend([
            random.next_u64() as u8 & random.next_u64() as u8,
            u8::from(random.below(4) > 0),
        ]);
    }
    // Who asks goes on asking: the bench sees all who have asked and not been served. Since that
    // hangs on its answers, a plain arbiter says beforehand who is served.
    let (mut last, mut held) = (7_u32, None);
    let mut expected = Vec::new();
    for cycle in input.chunks_mut(2) {
        asked |= cycle[0];
        cycle[0] = asked;
        let next = || (1..=8).map(|ahead| (last + ahead) % 8).find(|at| asked >> at & 1 == 1);
        let granted = held.or_else(next);
        expected.push(granted.map_or(0, |at| 1_u8 << at));
        held = granted;
        if let Some(at) = granted
            && cycle[1] == 1
        {
            (last, held) = (at, None);
            asked &= !(1 << at);
        }
    }
    let grants = ask(bench, &["arbiter"], input.clone());
    assert!(grants == expected, "another grant than in plain round robin");
    let mut waited = [0; 8];
    for (cycle, grant) in input.chunks(2).zip(grants) {
        for (at, waited) in waited.iter_mut().enumerate().filter(|_| cycle[1] == 1 && grant != 0) {
            let waits = cycle[0] >> at & 1 == 1 && grant >> at & 1 == 0;
            *waited = if waits { *waited + 1 } else { 0 };
            assert!(*waited < 8, "{at} waits for {waited} grants");
        }
    }
}

#[test]
fn a_buffer_is_a_queue_of_sixteen() {
    let Some(bench) = bench() else { return };
    let random = &mut SplitMix64::new(4);
    let mut input = Vec::new();
    for cycle in 0..200_000_u32 {
        // Long stretches in which it fills, drains, or does both.
        let (fills, drains) = [(9, 2), (2, 9), (7, 7)][cycle as usize / 500 % 3];
        let flags = u8::from(random.below(10) < fills) | u8::from(random.below(10) < drains) << 1;
        input.extend([flags, random.next_u64() as u8]);
    }
    let answers = ask(bench, &["buffer"], input.clone());
    let mut queue = VecDeque::new();
    let (mut full, mut empty) = (0, 0);
    for (cycle, answer) in input.chunks(2).zip(answers.chunks(2)) {
        let (takes, gives) = (queue.len() < 16, !queue.is_empty());
        full += u32::from(!takes);
        empty += u32::from(!gives);
        assert_eq!(answer[0], u8::from(takes) | u8::from(gives) << 1);
        if gives {
            assert_eq!(answer[1], queue[0]);
        }
        if gives && cycle[0] & 2 != 0 {
            queue.pop_front();
        }
        if takes && cycle[0] & 1 != 0 {
            queue.push_back(cycle[1]);
        }
    }
    assert!(full > 1000 && empty > 1000, "{full} {empty}");
}

#[test]
fn the_model_takes_its_hash_units_from_the_descriptions() {
    let results = std::fs::read_to_string(rtl().join("results.toml")).unwrap();
    let results: toml::Table = results.parse().unwrap();
    let default = |path: &str| {
        let key = KEYS.iter().find(|key| key.path == path).unwrap();
        key.default.parse::<f64>().unwrap()
    };
    let of_4_kib = results["sha256_unit"]["cycles"][0].as_array().unwrap();
    let number = |value: &toml::Value| value.as_integer().unwrap() as f64;
    let rate = number(&of_4_kib[0]) / number(&of_4_kib[1]);
    assert!((default("engine.hash_bytes_per_cycle") - rate).abs() < 0.0005, "{rate}");
    let array = &results["hash_array"];
    let luts = number(&array["luts"]) / number(&array["units"]);
    assert!((default("engine.hash_unit_luts") - luts).abs() <= 1.0, "{luts}");
    assert!(number(&array["busy_permille"]) >= 950.0);
}
