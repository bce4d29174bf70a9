//! LZ4 units against three decoders in software, and against a plain reading of the format.

use onefold_block::SplitMix64;
use onefold_content::{Codec, Compression, Compressor, Decompressor};

use super::{Answer, ask, bench, bytes, dose, framed};

/// A block: what the format says, without any care for speed. `None` if it is not valid or yields
/// more than `limit` bytes.
pub fn plain_decode(block: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut rest = block.iter().copied();
    let mut out = Vec::new();
    loop {
        let token = usize::from(rest.next()?);
        let literals = length(token >> 4, &mut rest)?;
        for _ in 0..literals {
            out.push(rest.next()?);
        }
        if out.len() > limit {
            return None;
        }
        if rest.len() == 0 {
            return Some(out);
        }
        let distance = usize::from(rest.next()?) | usize::from(rest.next()?) << 8;
        if distance == 0 || distance > out.len() {
            return None;
        }
        let copied = length(token & 15, &mut rest)? + 4;
        if out.len() + copied > limit {
            return None;
        }
        for _ in 0..copied {
            out.push(out[out.len() - distance]);
        }
    }
}

fn length(nibble: usize, rest: &mut impl Iterator<Item = u8>) -> Option<usize> {
    let (mut length, mut more) = (nibble, if nibble == 15 { 255 } else { 0 });
    while more == 255 {
        more = usize::from(rest.next()?);
        length += more;
    }
    Some(length)
}

/// Contents of every kind: noise, runs, text of few words, records, and mixtures; and what is hard
/// for an encoder: matches of 4 bytes without pause, runs at each border of a length.
pub fn contents(random: &mut SplitMix64, size: usize) -> Vec<u8> {
    let kind = random.below(8);
    let alphabet = 1 + random.below(if kind == 0 { 256 } else { 6 });
    let period = 1 + random.below(40) as usize;
    let mut all: Vec<u8> = Vec::with_capacity(size + 300);
    while all.len() < size {
        match kind {
            0 => all.extend(bytes(random, 64)),
            1 => all.push(random.below(alphabet) as u8),
            2 => all.extend(vec![0; 1 + random.below(600) as usize]),
            3 => all.push(if all.len() < period {
                random.next_u64() as u8
            } else {
                all[all.len() - period]
            }),
            4 => {
                let words: [&[u8]; 5] = [b"block ", b"deduplicated ", b"a", b"tables, ", b"\n"];
                all.extend(words[random.below(5) as usize]);
            }
            // Copies from anywhere before, of lengths around the borders, after few literals.
            5 | 6 => {
                let literals = [0, 1, 3, 14, 15, 16, 269, 270, 271][random.below(9) as usize];
                let literals = if kind == 5 { random.below(3) } else { literals };
                all.extend(bytes(random, literals));
                let length = [4, 5, 7, 8, 9, 16, 18, 19, 20, 273, 274, 275];
                let length = length[random.below(if kind == 5 { 3 } else { 12 }) as usize];
                if all.len() > 4 {
                    let from = random.below(all.len() as u64) as usize;
                    (from..from + length).for_each(|at| all.push(all[at]));
                }
            }
            // Half noise, half zeros, as the mix of the pool's own measurements.
            _ => {
                all.extend(bytes(random, 256));
                all.extend([0; 256]);
            }
        }
    }
    all.truncate(size);
    all
}

fn blocks(random: &mut SplitMix64, few: usize) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = (0..70).map(|size| contents(random, size)).collect();
    for size in [4093, 4096, 65_535, 65_536] {
        all.push(contents(random, size));
    }
    all.extend((0..dose(few)).map(|_| {
        let most = 1 << random.below(15);
        let size = 1 + random.below(most) as usize;
        contents(random, size)
    }));
    all
}

/// What a unit made of a block.
pub struct Coded {
    /// As it was, or not valid.
    pub raw: bool,
    pub cycles: u32,
    pub bytes: Vec<u8>,
}

pub fn coded(args: &[&str], input: Vec<u8>) -> Option<Vec<Coded>> {
    let answers = ask(bench()?, args, input);
    let mut answers = Answer(&answers);
    let mut all = Vec::new();
    while !answers.0.is_empty() {
        let raw = answers.bytes(1) == [1];
        let cycles = answers.u32();
        let size = answers.u32() as usize;
        all.push(Coded { raw, cycles, bytes: answers.bytes(size).to_vec() });
    }
    Some(all)
}

#[test]
fn what_the_encoder_writes_every_decoder_reads() {
    let random = &mut SplitMix64::new(11);
    let all = blocks(random, 200);
    let Some(paced) = coded(&["enc"], framed(&all)) else { return };
    let stalled = coded(&["enc", "77"], framed(&all)).unwrap();
    let backwards: Vec<Vec<u8>> = all.iter().rev().cloned().collect();
    let backwards = coded(&["enc"], framed(&backwards)).unwrap();
    assert_eq!(paced.len(), all.len());
    let mut raw = 0;
    for (at, block) in all.iter().enumerate() {
        let coded = &paced[at];
        let name = format!("block {at} of {} bytes", block.len());
        let other = &backwards[all.len() - 1 - at];
        assert!(coded.bytes == stalled[at].bytes && coded.raw == stalled[at].raw, "{name}: stalls");
        assert!(coded.bytes == other.bytes && coded.raw == other.raw, "{name}: order");
        if coded.raw {
            raw += 1;
            assert!(coded.bytes == *block, "{name}: raw");
            continue;
        }
        assert!(coded.bytes.len() < block.len(), "{name}: {} bytes", coded.bytes.len());
        assert!(plain_decode(&coded.bytes, block.len()).as_ref() == Some(block), "{name}: plain");
        let flex = lz4_flex::block::decompress(&coded.bytes, block.len()).ok();
        assert!(flex.as_ref() == Some(block), "{name}: lz4_flex");
        let mut out = vec![0; block.len()];
        Decompressor::new().decompress_into(Codec::Lz4, &coded.bytes, &mut out).unwrap();
        assert!(out == *block, "{name}: liblz4");
    }
    assert!(raw > 10 && raw < all.len() * 3 / 4, "{raw} of {} do not shrink", all.len());
}

#[test]
fn the_encoder_keeps_its_pace_and_is_nearly_as_good_as_software() {
    let random = &mut SplitMix64::new(12);
    let mut ours = Compressor::new(Compression::Lz4);
    for size in [4096, 32_768] {
        let all: Vec<Vec<u8>> = (0..60).map(|_| contents(random, size)).collect();
        let Some(units) = coded(&["enc"], framed(&all)) else { return };
        let (mut hardware, mut software) = (0, 0);
        for (block, unit) in all.iter().zip(&units) {
            let mut out = Vec::new();
            ours.compress_into(block, &mut out, size - 1);
            software += if out.is_empty() { size } else { out.len() };
            hardware += unit.bytes.len();
        }
        assert!(hardware as f64 <= 1.1 * software as f64, "{hardware} {software}");
        // The first one waits for the table to be emptied, and each may end later than it must
        // because the one before it did.
        let cycles: u64 = units.iter().skip(1).map(|unit| u64::from(unit.cycles)).sum();
        let bytes = (size * (all.len() - 1)) as f64;
        assert!(cycles as f64 <= 1.02 * bytes, "{cycles} cycles for {bytes} bytes of {size}");
    }
}

/// Blocks with limits, as the bench takes them.
fn limited(blocks: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let frame = |(limit, block): &(usize, Vec<u8>)| {
        let mut frame = (*limit as u32).to_le_bytes().to_vec();
        frame.extend(framed(std::slice::from_ref(block)));
        frame
    };
    blocks.iter().flat_map(frame).collect()
}

/// A valid block that no encoder would write: random sequences with distances of every size.
fn odd_block(random: &mut SplitMix64) -> Vec<u8> {
    let (mut block, mut size) = (Vec::new(), 0_u64);
    let push_length = |block: &mut Vec<u8>, length: u64| {
        if length >= 15 {
            block.extend(vec![255; (length as usize - 15) / 255]);
            block.push(((length - 15) % 255) as u8);
        }
    };
    let lengths = [0, 1, 2, 7, 8, 9, 14, 15, 16, 24, 269, 270, 271, 526];
    for _ in 0..random.below(30) {
        let literals = lengths[random.below(14) as usize].max(u64::from(size == 0));
        let copied = lengths[random.below(14) as usize];
        block.push((literals.min(15) << 4 | copied.min(15)) as u8);
        push_length(&mut block, literals);
        block.extend(bytes(random, literals));
        size += literals;
        let near = size.min([4, 20, 70_000][random.below(3) as usize]);
        block.extend(((1 + random.below(near)) as u16).to_le_bytes());
        push_length(&mut block, copied);
        size += copied + 4;
    }
    let literals = lengths[random.below(14) as usize];
    block.push((literals.min(15) << 4) as u8);
    push_length(&mut block, literals);
    block.extend(bytes(random, literals));
    block
}

fn check_decoder(all: &[(usize, Vec<u8>)]) -> Option<(usize, usize)> {
    let mut good = 0;
    for args in [&["dec"][..], &["dec", "5"]] {
        let answers = coded(args, limited(all))?;
        assert_eq!(answers.len(), all.len());
        good = 0;
        for (at, ((limit, block), answer)) in all.iter().zip(&answers).enumerate() {
            let expected = plain_decode(block, *limit);
            assert!(answer.bytes.len() <= *limit, "{at}: {} of {limit}", answer.bytes.len());
            assert_eq!(answer.raw, expected.is_none(), "{at}, {args:?}: {block:x?}");
            if let Some(expected) = expected {
                good += 1;
                assert!(answer.bytes == expected, "{at}, {args:?}: {block:x?}");
            }
        }
    }
    Some((good, all.len() - good))
}

#[test]
fn the_decoder_reads_what_any_encoder_writes() {
    let random = &mut SplitMix64::new(13);
    let mut ours = Compressor::new(Compression::Lz4);
    let mut all = Vec::new();
    for block in blocks(random, 150) {
        let mut out = Vec::new();
        if ours.compress_into(&block, &mut out, 2 * block.len() + 64) == Codec::Lz4 {
            all.push((block.len(), out));
        }
        all.push((65_536, lz4_flex::block::compress(&block)));
    }
    all.extend((0..dose(300)).map(|_| (65_536, odd_block(random))));
    let Some((good, bad)) = check_decoder(&all) else { return };
    assert_eq!(bad, 0, "{good} are valid");
}

#[test]
fn the_decoder_refuses_what_is_not_valid_and_goes_on() {
    let random = &mut SplitMix64::new(14);
    let mut all = vec![(100, Vec::new()), (0, vec![0]), (65_536, vec![255; 300])];
    while all.len() < dose(3000) {
        let mut block = odd_block(random);
        if block.len() > 500 {
            continue;
        }
        for _ in 0..random.below(4) {
            let at = random.below(block.len() as u64) as usize;
            match random.below(4) {
                0 => block[at] ^= 1 << random.below(8),
                1 => block[at] = 255 * random.below(2) as u8,
                2 => drop(block.drain(at..)),
                _ => block.insert(at, random.next_u64() as u8),
            }
            if block.is_empty() {
                block.push(0);
            }
        }
        let whole = plain_decode(&block, 65_536).map_or(65_536, |out| out.len() as u64);
        // A limit that is right, one too small, or any.
        let limit = [whole, whole.saturating_sub(1), random.below(65_537), 65_536];
        all.push((limit[random.below(4) as usize] as usize, block));
    }
    let Some((good, bad)) = check_decoder(&all) else { return };
    assert!(good > all.len() / 10 && bad > all.len() / 4, "{good} valid, {bad} not");
}
