//! What every policy decides, keeps and takes of memory when all is asked of it that can be, of
//! objects of different sizes and with a restart in the middle: as `lives.txt` has it.
//! `ONEFOLD_UPDATE=1` writes that file anew; a change of it is a change of what policies decide.

use std::fmt::Write as _;
use std::path::Path;

use onefold_block::SplitMix64;
use onefold_block::kept_text::assert_text;
use onefold_cache::registry::Setting;
use onefold_cache::trace::Future;
use onefold_cache::{Access, Capacity, Choice, Policy};

const POLICIES: [&str; 51] = [
    "fifo",
    "lru",
    "lfu",
    "clock",
    "clock:rounds=3",
    "2q",
    "2q:newcomers=0.1,ghosts=2",
    "arc",
    "lirs",
    "lirs:long=0.2",
    "s3-fifo",
    "s3-fifo:small=0.3,ghosts=0.2,promote=1",
    "sieve",
    "w-tinylfu",
    "w-tinylfu:window=0.2,protected=0.5,memory=1,sample=3,counter=7,margin=2",
    "w-tinylfu:window=0,protected=0",
    "larc",
    "reject-first",
    "reject-first:remember=0.3",
    "dynamic-random",
    "dynamic-random:fills=0.3,period=4,corrections=7,probability=0.5,step=2",
    "lazy-lfu:d=0",
    "lazy-lfu:m=1.5,d=1",
    "lazy-lfu:m=1.2,d=1,half_life=3",
    "flashield:memory=0.3,reads=1",
    "flashield:memory=0.2,reads=2",
    "plc",
    "plc:threshold=1,delay=3,priority=2,f=const1",
    "plc:threshold=2,f=const2,references=0,reset=0",
    "plc:threshold=1,f=linear,delayed=0",
    "plc:threshold=1,f=log",
    "plc:threshold=1,rules=literal",
    "plc:filter=0,compare=0",
    "plc:threshold=0,delay=0,compare=0",
    "plc:threshold=0",
    "plc:threshold=0,f=const2",
    "toll",
    "toll:memory=0,hits=0.3",
    "toll:memory=0.3,hits=0.2,look=4",
    "toll:memory=0.3,memory_mib=1,hits=0,fills=0.4,purse=0.2,period=8,steep=2",
    "toll:memory=0.2,hits=0.5,fills=2,purse=1,period=20,steep=0",
    "toll:memory=0.1,hits=0.1,slow=5,fast=0.5,horizon=2,floor=0.5,doubt=1,believe=0.9",
    "toll:memory=0.1,hits=0.1,slow=2,fast=2,horizon=8,floor=4,doubt=9,believe=0",
    "toll:memory=0.9,hits=0.1,look=1",
    "toll:memory=0,hits=0",
    "toll:memory=0.3,hits=0.5,fills=2,window=0.3",
    "toll:memory=0.3,hits=0.5,fills=2,window=1",
    "belady",
    "belady:bypass=0",
    "static",
    "lirs:long=0.9",
];
const CAPACITIES: [Capacity; 3] = [
    Capacity { bytes: 150, objects: 40 },
    Capacity { bytes: 40, objects: 20 },
    Capacity { bytes: 9, objects: 3 },
];
const OPERATIONS: usize = 1_500;

enum Asked {
    Access(Access),
    Batch(Vec<Access>),
    Pass(Access),
    Allocate(Access),
    Remove(u64),
    Forget(u64),
    References(u64, u32),
}

/// Popular keys that drift; where `large`, some keys are no numbers that count from 0.
fn draw(random: &mut SplitMix64, at: usize, large: bool) -> Access {
    let popular = random.below(9) * random.below(9) + (at / 500) as u64 * 20;
    let number = if random.chance(1, 20) { 200 + at as u64 } else { popular };
    let key = if large && number.is_multiple_of(5) { number << 40 } else { number };
    Access { key, size: 1 + (number % 7) as u32 }
}

/// What is asked; `offline` are requests alone, and removals.
fn asked(offline: bool) -> Vec<Asked> {
    let mut random = SplitMix64::new(11);
    let operation = |at| {
        let access = draw(&mut random, at, !offline);
        match random.below(100) {
            0..2 => Asked::Remove(access.key),
            2..4 => Asked::Forget(access.key),
            4..7 if !offline => Asked::Pass(access),
            7..10 => Asked::Allocate(access),
            10..14 => Asked::References(access.key, random.below(6) as u32),
            14..17 => Asked::Batch((0..30).map(|_| draw(&mut random, at, !offline)).collect()),
            _ => Asked::Access(access),
        }
    };
    (0..OPERATIONS).map(operation).collect()
}

/// What one is told and decides, as a line of text.
fn ask(policy: &mut dyn Policy, asked: &Asked, told: &mut String) {
    match asked {
        Asked::Access(access) => {
            write!(told, "{:?}", policy.access(access.key, access.size)).unwrap();
        }
        Asked::Batch(batch) => {
            let mut outcomes = Vec::new();
            policy.access_batch(batch, &mut outcomes);
            write!(told, "{outcomes:?}").unwrap();
        }
        Asked::Pass(access) => {
            if !policy.contains(access.key) {
                policy.pass(access.key, access.size);
            }
        }
        Asked::Allocate(access) => {
            write!(told, "{:?}", policy.allocate(access.key, access.size)).unwrap();
        }
        Asked::Remove(key) => write!(told, "{}", policy.remove(*key)).unwrap(),
        Asked::Forget(key) => write!(told, "{}", policy.forget(*key)).unwrap(),
        Asked::References(key, references) => policy.set_references(*key, *references),
    }
    let (len, bytes, capacity) = (policy.len(), policy.bytes(), policy.capacity());
    assert!(bytes <= capacity, "{bytes} bytes of {capacity}");
    writeln!(told, "; {len} of {bytes} bytes").unwrap();
}

fn life(text: &str, capacity: Capacity, asked: &[Asked]) -> String {
    let requests: Vec<Access> = asked
        .iter()
        .flat_map(|asked| match asked {
            Asked::Access(access) => vec![*access],
            Asked::Batch(batch) => batch.clone(),
            _ => Vec::new(),
        })
        .collect();
    let choice = Choice::parse(text).unwrap();
    let future = choice.entry().offline.then(|| Future::of(&requests));
    let setting = Setting { capacity, seed: 3, future: future.as_ref() };
    let make = || choice.make(setting).unwrap();
    let (mut policy, mut told) = (make(), String::new());
    for (at, asked) in asked.iter().enumerate() {
        ask(&mut *policy, asked, &mut told);
        if at == OPERATIONS / 2 && future.is_none() {
            let (state, kept) = (policy.export(), policy.dump());
            writeln!(told, "{:?}", policy.counters()).unwrap();
            policy = make();
            // What was known before goes.
            (500..520).for_each(|key| _ = policy.access(key, 1));
            policy.import(&state).unwrap();
            assert_eq!(policy.dump(), kept, "{text}");
        }
    }
    writeln!(told, "{:?} {:?}", policy.dump(), policy.export()).unwrap();
    let counters = policy.counters();
    let counts = [counters.hits, counters.writes, counters.written_bytes, counters.evictions];
    let memory = [policy.memory_bytes(), policy.history_bytes()];
    format!("{counts:?} {memory:?} {:08x}", crc32fast::hash(told.as_bytes()))
}

#[test]
fn all_that_policies_decide_about_objects_of_different_sizes_is_what_it_was() {
    let [online, offline] = [false, true].map(asked);
    let mut told = String::from(
        "Hits, writes, bytes written and evictions since the restart; bytes of memory, and of them \
         those that\ngrow with all objects; a hash of all decisions.\n",
    );
    for text in POLICIES {
        writeln!(told, "\n{text}").unwrap();
        let asked = if text.starts_with("belady") || text == "static" { &offline } else { &online };
        for capacity in CAPACITIES {
            writeln!(told, "{:>4}: {}", capacity.bytes, life(text, capacity, asked)).unwrap();
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/lives.txt");
    assert_text(&path, &told, std::env::var_os("ONEFOLD_UPDATE").is_some());
}
