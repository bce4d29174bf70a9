//! Plain pages in the cells: what similar neighbours cost, and pages that are kept apart from them.
//! Room: onefold-flash.   Source: [ses-dedup] sec. III.

use onefold_block::SplitMix64;
use onefold_code::preset;
use onefold_flash::dedup::{AnyPolicy, Bytes};
use onefold_flash::ftl::Durability;
use onefold_flash::nand::bytes::{BCH_NAME, ChannelSpec, MemStore, PageBytes};
use onefold_flash::nand::{
    ByteNand, Faults, Identity, IdentityNand, Nand, Oob, PageKey, Pattern, Payload, PowerCut,
    WearModel,
};
use onefold_flash::{Ftl, FtlSettings, Geometry};

use crate::support::none_of_bytes;
use crate::validation::kinds::untimed;

const PAGE: usize = 1024;
const LOGICAL: u32 = 200;

type Drive = Ftl<ByteNand<MemStore>, AnyPolicy<Bytes>>;

fn geometry() -> Geometry {
    Geometry {
        channels: 1,
        packages: 1,
        dies_per_package: 1,
        planes_per_die: 4,
        blocks_per_plane: 14,
        pages_per_block: 8,
        page_bytes: PAGE as u32,
        oob_bytes: 96,
    }
}

fn nand(wear: WearModel) -> ByteNand<MemStore> {
    let channel = ChannelSpec { code: BCH_NAME.into(), scrambler: preset("lba-prbs31").ok() };
    ByteNand::in_memory(geometry(), &channel, wear).expect("fits")
}

fn drive(spread_patterns: bool) -> Drive {
    let settings = FtlSettings {
        logical_pages: LOGICAL,
        gc_reserve_blocks: 3,
        durability: Durability::Journal,
        spread_patterns,
        ..FtlSettings::default()
    };
    Ftl::format(nand(WearModel::none()), none_of_bytes(), settings).expect("fits")
}

/// A page of a family: the family's bytes, and a tenth that is its own.
fn page(family: u64, own: u64) -> Vec<u8> {
    let mut page = SplitMix64::new(family).bytes(64).repeat(PAGE / 64);
    page[..PAGE / 10].copy_from_slice(&SplitMix64::new(1_000_000 + own).bytes(PAGE / 10));
    page
}

fn mean_likeness(drive: &mut Drive) -> f64 {
    let places: Vec<u32> = (0..LOGICAL).filter_map(|lpn| drive.locate(lpn)).collect();
    let sum: f64 = places.iter().map(|&ppn| drive.nand().likeness_of(ppn).expect("there")).sum();
    sum / places.len() as f64
}

/// Three families in random order, each logical page once, then over and over.
fn filled(spread: bool, plain: bool, rewritten: u32) -> Drive {
    let mut drive = drive(spread);
    let mut random = SplitMix64::new(11);
    let mut holds = vec![Vec::new(); LOGICAL as usize];
    for number in 0..LOGICAL + rewritten {
        let lpn = if number < LOGICAL { number } else { random.below(u64::from(LOGICAL)) as u32 };
        let bytes = page(random.below(3), u64::from(number));
        holds[lpn as usize].clone_from(&bytes);
        let page = if plain { PageBytes::plain_on_flash(bytes) } else { PageBytes::from(bytes) };
        drive.write(lpn, &page, &mut untimed()).expect("written");
    }
    for (lpn, bytes) in (0..).zip(&holds) {
        let read = drive.read(lpn, &mut untimed()).expect("read").expect("stored");
        assert_eq!(&read[..], &bytes[..], "page {lpn}");
    }
    drive.check_invariants();
    drive
}

#[test]
fn similar_pages_meet_in_turn_and_hardly_ever_where_they_are_spread() {
    let (in_turn, spread) =
        (mean_likeness(&mut filled(false, true, 0)), mean_likeness(&mut filled(true, true, 0)));
    // One neighbour in three is of the same family, and nine tenths of it the same. What is left
    // is what random patterns of 512 bits have in common.
    assert!((0.2..0.4).contains(&in_turn), "{in_turn}");
    assert!(spread < in_turn / 3.0, "{spread} of {in_turn}");
}

#[test]
fn collection_brings_similar_pages_together_again_and_loses_none() {
    let (in_turn, spread) = (
        mean_likeness(&mut filled(false, true, 1500)),
        mean_likeness(&mut filled(true, true, 1500)),
    );
    println!("{in_turn} {spread}");
    assert!(spread < in_turn * 0.9 && spread > in_turn / 20.0, "{spread} of {in_turn}");
}

/// What the scrambler makes noise of goes where it would go anyway.
#[test]
fn scrambled_pages_are_not_spread() {
    let places = |spread| {
        let drive = filled(spread, false, 300);
        (0..LOGICAL).map(|lpn| drive.locate(lpn)).collect::<Vec<_>>()
    };
    assert_eq!(places(true), places(false));
}

/// The rate of a page by what lies beside it: the same bits on no side, on one, on both.
#[test]
fn a_page_between_two_alike_has_as_many_errors_as_the_model_says() {
    let fresh_rate = 2e-4;
    let wear = WearModel { fresh_rate, similar_factor: 4.0, seed: 3, ..WearModel::none() };
    let mut nand = nand(wear);
    let twin = PageBytes::plain_on_flash(page(1, 1));
    let pages = [
        PageBytes::plain_on_flash(SplitMix64::new(8).bytes(PAGE)),
        twin.clone(),
        PageBytes::plain_on_flash(SplitMix64::new(9).bytes(PAGE)),
        twin.clone(),
        twin.clone(),
        twin.clone(),
    ];
    let mut errors = [0u64; 6];
    let mut bits = [0u64; 6];
    let rounds = 400;
    for round in 0..rounds {
        for (ppn, page) in (0..).zip(&pages) {
            let oob = Oob { key: PageKey::Data(ppn), seq: round, seed: 0, tag: 0 };
            nand.program(ppn, Payload::Data(page), &oob).expect("programmed");
        }
        for ppn in 0..6 {
            let before = *nand.health();
            let _ = nand.read(ppn);
            let after = *nand.health();
            errors[ppn as usize] += after.raw_bit_errors - before.raw_bit_errors;
            bits[ppn as usize] += after.bits_read - before.bits_read;
        }
        nand.erase(0).expect("erased");
    }
    for (ppn, factor) in [(1, 1.0), (3, 2.5), (4, 4.0), (5, 2.5)] {
        let expected = fresh_rate * factor * bits[ppn] as f64;
        let (found, sigma) = (errors[ppn] as f64, expected.sqrt());
        assert!((found - expected).abs() < 5.0 * sigma, "page {ppn}: {found} of {expected}");
    }
}

/// As whoever has an array of any kind asks it.
fn asked<N: Nand>(nand: &N, page: &N::Page) -> Option<Pattern> {
    nand.pattern(page)
}

#[test]
fn arrays_say_what_pages_look_like() {
    let bytes = page(1, 1);
    let pattern = Some(Pattern::of(&bytes));
    let (plain, scrambled) = (PageBytes::plain_on_flash(bytes.clone()), PageBytes::from(bytes));
    let mut scrambling = nand(WearModel::none());
    assert_eq!(scrambling.pattern(&plain), pattern);
    assert_eq!(scrambling.pattern(&scrambled), None);
    assert_eq!(asked(&&mut scrambling, &plain), pattern);
    let channel = ChannelSpec { code: BCH_NAME.into(), scrambler: None };
    let bare = ByteNand::in_memory(geometry(), &channel, WearModel::none()).expect("fits");
    assert_eq!(bare.pattern(&scrambled), pattern, "nothing scrambles it");
    let identities = PowerCut::new(IdentityNand::new(geometry()), Faults::default());
    assert_eq!(identities.pattern(&Identity(7)), None);
}
