//! A whole engine against software: commands and chunks in, digests and chunks out.

use onefold_block::SplitMix64;
use onefold_content::{FingerprintKind, Fingerprinter};

use super::lz4::{coded, contents, plain_decode};
use super::{Answer, ask, bench, bytes, dose, framed};

const HASH: u8 = 1;
const COMPRESS: u8 = 2;
const DECOMPRESS: u8 = 4;
/// Largest chunk of the engine in the bench.
const CHUNK: usize = 4096;

struct Command {
    kind: u8,
    limit: u32,
    chunk: Vec<u8>,
}

fn frame(commands: &[Command]) -> Vec<u8> {
    let frame = |command: &Command| {
        let mut frame = vec![command.kind];
        frame.extend(command.limit.to_le_bytes());
        frame.extend(framed(std::slice::from_ref(&command.chunk)));
        frame
    };
    commands.iter().flat_map(frame).collect()
}

/// Cycles, and of those the busy ones of all units that hash, compress and decompress.
struct Spent {
    cycles: u64,
    busy: [u64; 3],
}

/// Runs commands and holds every result against software.
fn check(args: &[&str], commands: &[Command]) -> Option<Spent> {
    let answers = ask(bench()?, args, frame(commands));
    let mut answers = Answer(&answers);
    let written: Vec<&Command> = commands.iter().filter(|c| c.kind & COMPRESS != 0).collect();
    let chunks: Vec<Vec<u8>> = written.iter().map(|command| command.chunk.clone()).collect();
    // One encoder alone: an engine must not give anything else.
    let mut alone = coded(&["enc"], framed(&chunks))?.into_iter();
    let alone: Vec<Option<(bool, Vec<u8>)>> = commands
        .iter()
        .map(|command| {
            let is_written = command.kind & COMPRESS != 0;
            is_written.then(|| alone.next().map(|unit| (unit.raw, unit.bytes)).unwrap())
        })
        .collect();
    let hasher = Fingerprinter::new(FingerprintKind::Sha256);
    let mut open: Vec<u8> = commands.iter().map(|command| command.kind).collect();
    loop {
        let kind = answers.bytes(1)[0];
        if kind == 255 {
            break;
        }
        let number = answers.u32() as usize;
        let size = answers.u32() as usize;
        let result = answers.bytes(size);
        let command = &commands[number];
        let done = match kind {
            0 => {
                assert_eq!(result, hasher.hash(&command.chunk).as_bytes(), "{number}");
                HASH
            }
            1 | 2 => {
                let expected = alone[number].as_ref().map(|(raw, bytes)| (*raw, &bytes[..]));
                assert!(expected == Some((kind == 2, result)), "{number}: {size} bytes");
                COMPRESS
            }
            _ => {
                let expected = plain_decode(&command.chunk, command.limit as usize);
                assert_eq!(kind == 4, expected.is_none(), "{number}");
                assert!(kind == 4 || expected.as_deref() == Some(result), "{number}");
                DECOMPRESS
            }
        };
        assert!(open[number] & done != 0, "{number}: a second or unasked result");
        open[number] &= !done;
    }
    assert!(open.iter().all(|left| *left == 0), "a command without a result");
    let cycles = answers.u64();
    let busy = [answers.u64(), answers.u64(), answers.u64()];
    Some(Spent { cycles, busy })
}

#[test]
fn every_command_has_its_results_and_they_are_those_of_software() {
    let random = &mut SplitMix64::new(31);
    let mut commands = Vec::new();
    for number in 0..dose(150).min(60_000) {
        let size = match number % 3 {
            0 => CHUNK as u64,
            1 => random.below(100),
            _ => 1 + random.below(CHUNK as u64),
        };
        let chunk = contents(random, size as usize);
        let limit = CHUNK as u32;
        match random.below(4) {
            0 => commands.push(Command { kind: HASH, limit, chunk }),
            1 => commands.push(Command { kind: COMPRESS, limit, chunk }),
            2 => commands.push(Command { kind: HASH | COMPRESS, limit, chunk }),
            _ => {
                let mut block = lz4_flex::block::compress(&chunk);
                block.truncate(CHUNK);
                if random.below(4) == 0 {
                    let at = random.below(block.len() as u64) as usize;
                    block[at] ^= 0x10;
                }
                commands.push(Command { kind: DECOMPRESS, limit, chunk: block });
            }
        }
    }
    for args in [&["engine"][..], &["engine", "9"]] {
        let Some(spent) = check(args, &commands) else { return };
        assert!(spent.cycles > 0);
    }
}

/// At least 95 of 100 cycles of so many units.
fn saturated(name: &str, busy: u64, units: u64, cycles: u64) {
    assert!(100 * busy >= 95 * units * cycles, "{name}: {busy} of {units} x {cycles}");
}

#[test]
fn units_of_a_saturated_engine_do_not_idle() {
    let random = &mut SplitMix64::new(32);
    let limit = CHUNK as u32;
    let noise = |random: &mut SplitMix64| bytes(random, CHUNK as u64);
    // Long enough that the begin, in which the encoders empty their tables, does not count.
    let both: Vec<Command> =
        (0..600).map(|_| Command { kind: HASH | COMPRESS, limit, chunk: noise(random) }).collect();
    let Some(spent) = check(&["engine"], &both) else { return };
    saturated("hash", spent.busy[0], 4, spent.cycles);
    saturated("compress", spent.busy[1], 4, spent.cycles);
    // Half noise, half zeros, which the decoders read fastest.
    let reads: Vec<Command> = (0..300)
        .map(|_| {
            let half = (0..8).flat_map(|_| [bytes(random, 256), vec![0; 256]].concat());
            let chunk = lz4_flex::block::compress(&half.collect::<Vec<u8>>());
            Command { kind: DECOMPRESS, limit, chunk }
        })
        .collect();
    let spent = check(&["engine"], &reads).unwrap();
    saturated("decompress", spent.busy[2], 2, spent.cycles);
}
