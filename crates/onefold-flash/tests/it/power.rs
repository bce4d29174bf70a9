//! V9: power cuts at random flash operations, against a plain map.
//! Room: onefold-flash.   Full size: `validate power` in `examples/validate.rs`.

use crate::validation::power;
use onefold_flash::ftl::Durability;

#[test]
fn nothing_that_was_flushed_is_lost() {
    for seed in 0..300 {
        if let Err(what) = power::check(seed, Durability::Journal) {
            panic!("{what}");
        }
    }
}

#[test]
fn with_power_loss_protection_nothing_that_was_written_is_lost() {
    for seed in 0..100 {
        if let Err(what) = power::check(seed, Durability::Protected) {
            panic!("{what}");
        }
    }
}

/// Whatever a power cut takes of pages that wait to be packed, of packed pages and of those that
/// collection packs anew: what was flushed is there, and nothing that was never written.
#[test]
fn nothing_that_was_flushed_is_lost_from_packed_pages() {
    let (mut compressed, mut shared) = (0, 0);
    for seed in 0..300 {
        let ordeal = power::check_packed(seed, Durability::Journal);
        let ordeal = ordeal.unwrap_or_else(|what| panic!("{what}"));
        compressed += ordeal.compressed;
        shared += ordeal.shared;
    }
    assert!(compressed > 100_000 && shared > 10_000, "{compressed} {shared}");
}

#[test]
fn with_power_loss_protection_nothing_that_waits_to_be_packed_is_lost() {
    // The last ones lose their last good blocks while pages wait, between a flush and a cut.
    for seed in (0..100).chain([588, 1089, 1616, 1888, 2229, 2312, 2493, 3132, 3167, 3375]) {
        let ordeal = power::check_packed(seed, Durability::Protected);
        ordeal.unwrap_or_else(|what| panic!("{what}"));
    }
}

/// The same where the map names codewords, which wait, share, move and are packed one by one.
#[test]
fn nothing_that_was_flushed_is_lost_from_mapped_codewords() {
    let (mut packed, mut shared) = (0, 0);
    for seed in 0..200 {
        let ordeal = power::check_codewords(seed, Durability::Journal);
        let ordeal = ordeal.unwrap_or_else(|what| panic!("{what}"));
        packed += ordeal.compressed;
        shared += ordeal.shared;
    }
    assert!(packed > 100_000 && shared > 10_000, "{packed} {shared}");
}

#[test]
fn with_power_loss_protection_no_codeword_that_waits_is_lost() {
    for seed in 0..100 {
        let ordeal = power::check_codewords(seed, Durability::Protected);
        ordeal.unwrap_or_else(|what| panic!("{what}"));
    }
}

#[test]
fn without_a_journal_shared_and_trimmed_pages_are_lost() {
    // [park-shin] section II: deduplication makes the mapping the only witness of where data is.
    let lost = (0..50).filter(|&seed| power::check(seed, Durability::NoJournal).is_err());
    assert!(lost.count() > 25);
}
