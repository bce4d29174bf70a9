//! Laws of the array of bytes: what was stored comes back, through every code and scrambler.
//! Room: onefold-flash.

use onefold_block::SplitMix64;
use onefold_code::{
    GeneratorSpec, LDPC_NAMES, PRESET_NAMES, ParityFingerprint, ScramblerSpec, SeedMap, SeedSource,
    Truncation, preset,
};
use onefold_flash::Geometry;
use onefold_flash::nand::bytes::{BCH_NAME, ChannelSpec, MemStore, PageBytes};
use onefold_flash::nand::{ByteNand, Nand, NandError, Oob, PageKey, Payload, WearModel};
use proptest::prelude::*;

pub const PAGE: usize = 8192;

pub fn geometry(oob_bytes: u32) -> Geometry {
    Geometry {
        channels: 1,
        packages: 1,
        dies_per_package: 1,
        planes_per_die: 2,
        blocks_per_plane: 4,
        pages_per_block: 4,
        page_bytes: PAGE as u32,
        oob_bytes,
    }
}

/// The presets, and one generator of each kind with every seed source.
pub fn scramblers() -> Vec<Option<ScramblerSpec>> {
    let mut all: Vec<Option<ScramblerSpec>> =
        PRESET_NAMES.iter().map(|name| preset(name).ok()).collect();
    let sources = [
        SeedSource::Lba,
        SeedSource::PhysicalPageInBlock,
        SeedSource::PageColumnErase,
        SeedSource::SelfSeeded,
    ];
    for seed_source in sources {
        let name = format!("prbs31-{}", seed_source.name());
        let prbs = preset("lba-prbs31").expect("a preset");
        all.push(Some(ScramblerSpec { name, seed_source, ..prbs }));
        all.push(Some(ScramblerSpec {
            name: format!("add-rotate-{}", seed_source.name()),
            seed_source,
            restart_bytes: 0,
            generator: GeneratorSpec::AddRotate { increment: 0x9e37_79b9, rotate: 7 },
            seed_map: SeedMap::address_bits(32, 0x1234_5678),
        }));
    }
    all.push(None);
    all
}

fn nand(code: &str, scrambler: Option<ScramblerSpec>, oob: u32) -> ByteNand<MemStore> {
    let channel = ChannelSpec { code: code.to_owned(), scrambler };
    ByteNand::in_memory(geometry(oob), &channel, WearModel::none()).expect("fits")
}

fn oob(lpn: u32, seq: u64) -> Oob {
    Oob { key: PageKey::Data(lpn), seq, seed: u64::from(lpn), tag: seq * 3 + 1 }
}

/// Stores pages, moves them twice to other places, and reads them everywhere.
fn round_trip(nand: &mut ByteNand<MemStore>, random: &mut SplitMix64, what: &str) {
    let survives = nand.channel().survives_moves();
    for page in 0..3 {
        let (lpn, at) = (random.below(32) as u32, page);
        let data = PageBytes::from(random.bytes(PAGE));
        nand.program(at, Payload::Data(&data), &oob(lpn, u64::from(at) + 1)).expect("programmed");
        assert_eq!(nand.read(at).expect("read"), data, "{what}: page {at}");
        // Elsewhere in its block each time, so that a seed of the place changes.
        let (second, third) = (4 + page, 8 + page);
        let key = PageKey::Shared(lpn + 5);
        for (from, to) in [(at, second), (second, third)] {
            let tag = nand.copy(from, to, key, u64::from(to) + 100).expect("copied");
            assert_eq!(tag, u64::from(at + 1) * 3 + 1, "{what}: the tag travels");
            assert_eq!(nand.read(to).expect("read"), data, "{what}: page {at} at {to}");
            let found = nand.read_oob(to).expect("read");
            let moved = Oob { key, seq: u64::from(to) + 100, seed: u64::from(lpn), tag };
            assert_eq!(found, moved, "{what}");
        }
    }
    let (as_stored, encoded) = (nand.health().copies_as_stored, nand.health().copies_encoded);
    assert_eq!((as_stored, encoded), if survives { (6, 0) } else { (0, 6) }, "{what}");
}

#[test]
fn pages_come_back_through_every_scrambler_and_seed_source() {
    let mut random = SplitMix64::new(1);
    for scrambler in scramblers() {
        let what = scrambler.as_ref().map_or("no scrambler".to_owned(), |s| s.name.clone());
        for code in ["ses-33x256", BCH_NAME] {
            let mut nand = nand(code, scrambler.clone(), 320);
            round_trip(&mut nand, &mut random, &format!("{code}, {what}"));
        }
    }
}

#[test]
fn pages_come_back_through_every_code() {
    let mut random = SplitMix64::new(2);
    for code in LDPC_NAMES {
        let mut nand = nand(code, preset("lba-prbs31").ok(), 2048);
        round_trip(&mut nand, &mut random, code);
    }
}

#[test]
fn the_ftl_s_own_pages_come_back_with_their_length() {
    let mut random = SplitMix64::new(3);
    for scrambler in scramblers() {
        let mut nand = nand(BCH_NAME, scrambler, 320);
        for (at, len) in [0, 1, 100, PAGE].into_iter().enumerate() {
            let bytes = random.bytes(len);
            let oob = Oob { key: PageKey::Map(7), seq: at as u64, seed: 1 << 40, tag: 0 };
            nand.program(at as u32, Payload::Meta(&bytes), &oob).expect("programmed");
            nand.copy(at as u32, at as u32 + 4, PageKey::Map(7), 50 + at as u64).expect("copied");
            assert_eq!(nand.read_meta(at as u32).expect("read"), bytes);
            assert_eq!(nand.read_meta(at as u32 + 4).expect("read"), bytes, "moved");
            assert_eq!(nand.read_oob(at as u32 + 4).expect("read").seed, 1 << 40);
        }
    }
}

#[test]
fn fingerprints_from_stored_parity_do_not_depend_on_the_seed() {
    let mut random = SplitMix64::new(4);
    for scrambler in scramblers().into_iter().flatten() {
        let what = scrambler.name.clone();
        let mut nand = nand("ses-33x256", Some(scrambler.clone()), 320);
        let code = nand.channel().code().clone();
        let compiled = scrambler.compile().expect("compiled");
        let made = ParityFingerprint::new(code, compiled, PAGE, Truncation::Crc64);
        let fingerprint = made.expect("8 KiB pages");
        let data = PageBytes::from(random.bytes(PAGE));
        let expected = fingerprint.of_data(&data).expect("a page");
        for at in 0..3 {
            nand.program(at, Payload::Data(&data), &oob(at * 9 + 2, 1)).expect("programmed");
            nand.copy(at, at + 4, PageKey::Data(1), 2).expect("copied");
            for place in [at, at + 4] {
                let stored = nand.stored_parity(place).expect("read");
                assert_eq!(stored.fingerprint(&fingerprint).expect("fits"), expected, "{what}");
            }
        }
    }
}

#[test]
fn what_is_in_the_cells_is_scrambled() {
    use onefold_flash::nand::bytes::Store as _;
    let zeroes = PageBytes::zeroes(PAGE);
    for (scrambler, plain) in [(None, true), (preset("lba-prbs31").ok(), false)] {
        let mut nand = nand("ses-33x256", scrambler, 320);
        nand.program(0, Payload::Data(&zeroes), &oob(1, 1)).expect("programmed");
        let (mut data, mut spare) = (vec![1; PAGE], vec![0; 320]);
        nand.store().read_page(0, &mut data, &mut spare).expect("read");
        let ones: u32 = data.iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(ones == 0, plain);
        assert!(plain || (30_000..36_000).contains(&ones), "{ones} of 65,536 bits");
    }
}

#[test]
fn what_nand_forbids_is_refused() {
    let mut nand = nand(BCH_NAME, None, 320);
    let data = PageBytes::zeroes(PAGE);
    let program =
        |nand: &mut ByteNand<MemStore>, at| nand.program(at, Payload::Data(&data), &oob(0, 1));
    let forbidden = |said: Result<(), NandError>| matches!(said, Err(NandError::Forbidden { .. }));
    assert!(forbidden(program(&mut nand, 1)), "out of order");
    program(&mut nand, 0).expect("the first page");
    assert!(forbidden(program(&mut nand, 0)), "twice");
    assert!(matches!(nand.read(1), Err(NandError::Erased { ppn: 1 })));
    assert!(matches!(nand.read_oob(1), Err(NandError::Erased { ppn: 1 })));
    assert!(matches!(nand.copy(1, 4, PageKey::Data(0), 1), Err(NandError::Erased { ppn: 1 })));
    nand.erase(0).expect("erased");
    assert!(matches!(nand.read(0), Err(NandError::Erased { ppn: 0 })));
    program(&mut nand, 0).expect("the first page again");
    assert_eq!(nand.block(0).erases, 1);
}

#[test]
fn an_out_of_band_area_too_small_is_refused_with_what_would_do() {
    let channel = ChannelSpec { code: "ses-33x256".into(), scrambler: None };
    let made = ByteNand::in_memory(geometry(319), &channel, WearModel::none());
    let said = made.expect_err("refused").to_string();
    assert!(said.contains("at least 320") && said.contains("ses-33x256"), "{said}");
}

/// Flash of which every reading has errors at this rate.
fn worn(code: &str, rate: f64, retries: u32) -> ByteNand<MemStore> {
    let channel = ChannelSpec { code: code.to_owned(), scrambler: preset("lba-prbs31").ok() };
    let wear =
        WearModel { fresh_rate: rate, noise_share: 0.3, retries, seed: 5, ..WearModel::none() };
    ByteNand::in_memory(geometry(320), &channel, wear).expect("fits")
}

#[test]
fn bits_that_are_read_wrong_are_corrected() {
    for code in ["ses-33x256", BCH_NAME] {
        let mut nand = worn(code, 1e-4, 3);
        round_trip(&mut nand, &mut SplitMix64::new(6), code);
        let health = nand.health();
        let measured = health.raw_bit_errors as f64 / health.bits_read as f64;
        assert!(health.corrected_bits > 20 && health.uncorrectable == 0, "{health:?}");
        assert!((5e-5..2e-4).contains(&measured), "{measured}");
    }
}

#[test]
fn pages_beyond_correction_are_errors_and_never_other_bytes() {
    let mut random = SplitMix64::new(7);
    for (code, rate) in [("ses-33x256", 5e-4), (BCH_NAME, 1e-3), ("ses-33x256", 0.5)] {
        let mut nand = worn(code, rate, 1);
        let (mut good, mut bad) = (0, 0);
        for round in 0..40 {
            for at in 0..4 {
                let data = PageBytes::from(random.bytes(PAGE));
                nand.program(at, Payload::Data(&data), &oob(at, 1)).expect("programmed");
                for _ in 0..2 {
                    match nand.read(at) {
                        Ok(found) => {
                            assert!(found == data, "{code} at {rate}, round {round}");
                            good += 1;
                        }
                        Err(NandError::Uncorrectable { ppn, retries: 1 }) if ppn == at => bad += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            nand.erase(0).expect("erased");
        }
        println!("{code} at {rate}: {good} read, {bad} errors");
        assert_eq!(nand.health().uncorrectable, bad);
        assert!(bad > 0, "{code} at {rate} is too good");
        assert!(good > 0 || rate > 0.1, "{code} at {rate} is too bad");
    }
}

#[test]
fn retries_bring_back_what_drifted() {
    let lost = |retries| {
        let mlc = WearModel::preset("mlc").expect("a preset");
        let wear = WearModel { retries, disturb_rate: 2e-6, grown_bad: 0.0, ..mlc };
        let channel = ChannelSpec { code: BCH_NAME.into(), scrambler: None };
        let mut nand = ByteNand::in_memory(geometry(320), &channel, wear).expect("fits");
        let data = PageBytes::from(SplitMix64::new(8).bytes(PAGE));
        let block = (0..8).find(|&block| !nand.is_bad(block)).expect("a good block");
        let first = block * 4;
        for _ in 0..2_000 {
            nand.erase(block).expect("erased");
        }
        nand.program(first, Payload::Data(&data), &oob(0, 1)).expect("programmed");
        nand.set_time(365 * 24 * 3600);
        assert!(nand.rate(first) > 1e-4, "a year has raised it to {}", nand.rate(first));
        // Reads that disturb, so that the page drifts ever further.
        let failed = (0..1_500u32).find(|_| nand.read(first).is_err());
        (failed.is_some(), nand.health().retries)
    };
    let (without, none) = lost(0);
    assert!(without && none == 0, "without retries the page is lost");
    let (with, some) = lost(6);
    assert!(!with && some > 0, "with retries it is not: {some}");
}

#[test]
fn worn_blocks_fail_and_then_refuse_everything_but_reads() {
    let wear = WearModel {
        rated_cycles: 40,
        grown_bad: 0.9,
        grown_shape: 2.0,
        seed: 3,
        ..WearModel::none()
    };
    let channel = ChannelSpec { code: BCH_NAME.into(), scrambler: None };
    let mut nand = ByteNand::in_memory(geometry(320), &channel, wear).expect("fits");
    let data = PageBytes::from(SplitMix64::new(9).bytes(PAGE));
    let (mut by_program, mut by_erase) = (0, 0);
    for block in 0..8 {
        let first = block * 4;
        let failed = 'life: loop {
            for at in first..first + 4 {
                match nand.program(at, Payload::Data(&data), &oob(0, 1)) {
                    Ok(()) => {}
                    Err(NandError::Failed { what, .. }) => break 'life (what, at),
                    Err(error) => panic!("{error}"),
                }
            }
            match nand.erase(block) {
                Ok(()) => {}
                Err(NandError::Failed { what, .. }) => break 'life (what, first + 4),
                Err(error) => panic!("{error}"),
            }
            assert!(nand.block(block).erases < 1000, "block {block} lives for ever");
        };
        let (what, programmed) = failed;
        by_program += u32::from(what == "program");
        by_erase += u32::from(what == "erase");
        assert!(nand.is_bad(block), "block {block}");
        assert!(matches!(nand.erase(block), Err(NandError::Forbidden { .. })));
        let again = nand.program(programmed.min(first + 3), Payload::Data(&data), &oob(0, 1));
        assert!(matches!(again, Err(NandError::Forbidden { .. })));
        for at in first..programmed {
            assert_eq!(nand.read(at).expect("still there"), data);
        }
    }
    assert_eq!(by_program, nand.health().program_failures as u32);
    assert_eq!(by_erase, nand.health().erase_failures as u32);
    assert!(by_program > 0 && by_erase > 0, "{by_program} and {by_erase}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is programmed, copied and erased, pages hold what a plain array says.
    #[test]
    fn the_array_is_an_array(seed in any::<u64>(), physical in any::<bool>()) {
        let name = if physical { "samsung-prbs15" } else { "lba-prbs31" };
        let channel = ChannelSpec { code: "ses-33x256".into(), scrambler: preset(name).ok() };
        let wear =
            WearModel { fresh_rate: 2e-5, noise_share: 0.5, retries: 4, ..WearModel::none() };
        let mut nand = ByteNand::in_memory(geometry(320), &channel, wear).expect("fits");
        let mut model: Vec<Option<PageBytes>> = vec![None; 32];
        let mut next = [0u32; 8];
        let mut random = SplitMix64::new(seed);
        for step in 0..60u64 {
            let block = random.below(8) as usize;
            let to = block as u32 * 4 + next[block];
            let stored: Vec<u32> =
                (0..32).filter(|&at| model[at as usize].is_some()).collect();
            match random.below(4) {
                _ if next[block] == 4 => {
                    nand.erase(block as u32).expect("erased");
                    next[block] = 0;
                    model[block * 4..block * 4 + 4].fill(None);
                    continue;
                }
                0 if !stored.is_empty() => {
                    let from = stored[random.below(stored.len() as u64) as usize];
                    nand.copy(from, to, PageKey::Data(1), step).expect("copied");
                    model[to as usize] = model[from as usize].clone();
                }
                _ => {
                    let data = PageBytes::from(random.bytes(PAGE));
                    nand.program(to, Payload::Data(&data), &oob(to, step)).expect("programmed");
                    model[to as usize] = Some(data);
                }
            }
            next[block] += 1;
            // A read decodes: at most steps only what was touched, and now and then all.
            let all = step % 6 == 5;
            for (at, page) in (0..).zip(&model).filter(|(at, _)| all || *at == to) {
                if let Some(page) = page {
                    prop_assert_eq!(&nand.read(at).expect("read"), page);
                } else {
                    let refused = matches!(nand.read(at), Err(NandError::Erased { .. }));
                    prop_assert!(refused, "page {at} is not erased");
                }
            }
        }
    }
}
