//! The numbers of the model, its draws, and their exact boundaries.
//! Room: onefold-flash.

use std::collections::BTreeSet;

use super::*;

const BITS: u64 = 8 * 8512;

fn flat(rate: f64) -> WearModel {
    WearModel { fresh_rate: rate, noise_share: 0.25, seed: 9, ..WearModel::none() }
}

fn places(model: &WearModel, rate: f64, reading: &Reading) -> Vec<u64> {
    let mut places = Vec::new();
    model.errors(rate, reading, BITS, |bit| places.push(bit));
    places
}

#[test]
fn as_many_errors_as_the_rate_says() {
    let model = flat(1e-3);
    let pages = 2000;
    let total: usize = (0..pages)
        .map(|ppn| places(&model, 1e-3, &Reading { ppn, erases: 3, reads: 7 }).len())
        .sum();
    let expected = f64::from(pages) * BITS as f64 * 1e-3;
    // Five standard deviations of a Poisson count.
    assert!((total as f64 - expected).abs() < 5.0 * expected.sqrt(), "{total} of {expected}");
}

#[test]
fn errors_are_those_of_the_cells_and_a_lower_rate_finds_a_subset() {
    let model = flat(1e-3);
    let reading = Reading { ppn: 5, erases: 3, reads: 7 };
    let high = places(&model, 2e-3, &reading);
    assert_eq!(high, places(&model, 2e-3, &reading), "the same reading twice");
    let low: BTreeSet<u64> = places(&model, 5e-4, &reading).into_iter().collect();
    assert!(low.is_subset(&high.iter().copied().collect()) && low.len() < high.len());
    let again: BTreeSet<u64> =
        places(&model, 2e-3, &Reading { reads: 8, ..reading }).into_iter().collect();
    let same = high.iter().filter(|bit| again.contains(bit)).count();
    assert!(same * 2 > high.len() && same < high.len(), "cells stay, noise does not");
    let anew = places(&model, 2e-3, &Reading { erases: 4, ..reading });
    assert_ne!(anew, high, "another program has other errors");
}

#[test]
fn wear_time_and_reads_raise_the_rate_and_retries_lower_it() {
    for name in ["slc", "mlc", "tlc"] {
        let model = WearModel::preset(name).expect("a preset");
        let year = YEAR_S as u64;
        let rated = model.rated_cycles;
        let new = model.rate(0, 0, 0, 0);
        assert!((new - model.fresh_rate).abs() < 1e-15);
        let worn = model.rate(rated, 0, 0, 0);
        let old = model.rate(rated, year, 0, 0);
        let read = model.rate(rated, year, 1_000_000, 0);
        assert!(new < worn && worn < old && old < read, "{name}");
        assert!((old - worn - model.retention_rate).abs() < 1e-9, "{name}: a year at rating");
        let retried = model.rate(rated, year, 1_000_000, model.retries);
        assert!(worn < retried && retried < read, "{name}");
        assert!(model.rate(u32::MAX, u64::MAX, u64::MAX, 0) <= RATE_MAX);
    }
    assert_eq!(WearModel::preset("qlc"), None);
    assert!(WEAR_NAMES.iter().all(|name| WearModel::preset(name).is_some()));
}

#[test]
fn blocks_fail_as_often_as_the_model_says() {
    let model = WearModel::preset("mlc").expect("a preset").with_seed(4);
    let blocks = 20_000;
    let bad = (0..blocks).filter(|&b| model.is_factory_bad(b)).count();
    assert!((60..=140).contains(&bad), "{bad} of 100 expected");
    let early = (0..blocks).filter(|&b| model.end_of_life(b, 64).0 <= model.rated_cycles).count();
    assert!((220..=380).contains(&early), "{early} of 300 expected");
    let by_program = (0..blocks).filter(|&b| model.end_of_life(b, 64).1.is_some()).count();
    assert!((9_500..=10_500).contains(&by_program), "{by_program} of 10,000 expected");
    assert_eq!(WearModel::none().end_of_life(3, 64), (u32::MAX, None));
}

/// The table of docs/ssd-format.md, and what the kinds of flash have in common.
#[test]
fn the_presets_are_those_of_the_documentation() {
    for (name, rated_cycles, fresh_rate, worn_rate, retention_rate, disturb_rate, retries) in [
        ("slc", 100_000, 1e-9, 1e-7, 4e-7, 1e-12, 2),
        ("mlc", 3_000, 1e-7, 5e-5, 4e-4, 2e-9, 6),
        ("tlc", 1_500, 1e-6, 2e-4, 1.5e-3, 4e-9, 8),
    ] {
        let expected = WearModel {
            rated_cycles,
            fresh_rate,
            worn_rate,
            worn_exponent: 2.0,
            retention_rate,
            retention_exponent: 1.2,
            disturb_rate,
            plain_factor: 1.0,
            similar_factor: 1.0,
            noise_share: 0.1,
            retries,
            retry_gain: 0.5,
            factory_bad: 0.005,
            grown_bad: 0.015,
            grown_shape: 3.0,
            seed: 0,
        };
        assert_eq!(WearModel::preset(name), Some(expected), "{name}");
    }
    assert_eq!(WearModel::preset("none"), Some(WearModel::none()));
}

/// The formula of docs/ssd-format.md, written once more.
#[test]
fn the_rate_is_that_of_the_formula() {
    let model = WearModel::preset("tlc").expect("a preset");
    for (erases, age_s, reads, retry) in [
        (0, 0, 0, 0),
        (1, 0, 0, 0),
        (1500, 0, 0, 0),
        (750, 3600, 0, 0),
        (750, 7200, 10_000, 0),
        (1500, 31_557_600, 123_456, 3),
        (3000, 86_400, 1, 8),
        (0, 31_557_600, 1_000_000, 1),
    ] {
        let c = f64::from(erases) / 1500.0;
        let hours = age_s as f64 / 3600.0;
        let drifted = 1.5e-3 * c.powf(1.2) * (1.0 + hours).ln() / 8767.0_f64.ln()
            + 4e-9 * (0.1 + 0.9 * c) * reads as f64;
        let expected = 1e-6 + 2e-4 * c * c + 0.5_f64.powi(retry) * drifted;
        let found = model.rate(erases, age_s, reads, retry as u32);
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    }
    assert!((model.percentage_used(375.0) - 25.0).abs() < 1e-12);
    assert!((model.percentage_used(3000.0) - 200.0).abs() < 1e-12, "beyond the rating");
}

const DRAWN: &str = "\
bad [71, 691, 794, 862, 1330, 1338, 1442]
ends (9981, None)
ends (8027, Some(14))
ends (8013, None)
ends (11280, Some(0))
ends (12245, Some(16))
ends (8386, Some(47))
wrong [8726, 41208, 56665, 38543, 56357, 23865, 14228, 48275, 13313, 16053, 26143, 25969]
luck 4587446909228236288
wrong [8726, 41208, 56665, 38543, 56357, 34330, 25574, 62861, 53831, 20036, 55746, 56042]
luck 4587446909228236288
wrong [8726, 41208, 56665, 38543, 56357, 16292, 16805, 5954]
luck 4587446909228236288
";

/// What a drive's cells do is drawn from its seed for ever: another draw is another drive.
#[test]
fn chance_is_the_same_in_every_version() {
    let model = WearModel::preset("mlc").expect("a preset").with_seed(7);
    let mut lines = Vec::new();
    let mut line = |what: &str, drawn: &dyn std::fmt::Debug| {
        lines.push(format!("{what} {drawn:?}\n"));
    };
    line("bad", &(0..1500).filter(|&block| model.is_factory_bad(block)).collect::<Vec<_>>());
    for block in 0..6 {
        line("ends", &model.end_of_life(block, 64));
    }
    let noisy = WearModel { noise_share: 0.5, ..model };
    for reads in [0, 1, u64::MAX] {
        let reading = Reading { ppn: 77, erases: 5, reads };
        line("wrong", &places(&noisy, 1e-4, &reading));
        line("luck", &noisy.luck(&reading).to_bits());
    }
    assert_eq!(lines.concat(), DRAWN);
}

#[test]
fn a_share_is_met_by_draws_below_it_alone() {
    let model = flat(0.0);
    for block in 0..50 {
        let drawn = model.stream(1, block, 0).uniform();
        let with = |factory_bad| WearModel { factory_bad, ..flat(0.0) };
        assert!(!with(drawn).is_factory_bad(block as u32), "block {block}");
        assert!(with(drawn.next_up()).is_factory_bad(block as u32), "block {block}");
    }
}

/// A block fails at one of its pages or at an erase; where none fails ever, none does.
#[test]
fn the_page_that_fails_is_one_of_the_block_s() {
    let model = WearModel { grown_bad: 0.5, ..WearModel::preset("slc").expect("a preset") };
    let ends: Vec<(u32, Option<u32>)> =
        (0..3000).map(|block| model.end_of_life(block, 3)).collect();
    let pages: BTreeSet<Option<u32>> = ends.iter().map(|end| end.1).collect();
    assert_eq!(pages, [None, Some(0), Some(1), Some(2)].into());
    assert!(ends.iter().all(|end| end.0 >= 1));
    let certain = WearModel { grown_bad: 1.0, rated_cycles: 1, ..model };
    assert!((0..100).all(|block| certain.end_of_life(block, 3).0 == 1), "not before the first");
    let never = WearModel { grown_bad: 0.0, ..certain };
    assert!((0..100).all(|block| never.end_of_life(block, 3) == (u32::MAX, None)));
}

/// A place goes wrong at the rate that is drawn for it plus the least there is.
#[test]
fn a_place_goes_wrong_above_its_rate_and_not_at_it() {
    let model = WearModel { noise_share: 0.0, ..flat(0.0) };
    for ppn in 0..50 {
        let reading = Reading { ppn, erases: 3, reads: 7 };
        let first = -model.stream(3, ppn.into(), 3).uniform().ln() / BITS as f64;
        assert_eq!(places(&model, first, &reading).len(), 0, "page {ppn}");
        assert_eq!(places(&model, first.next_up(), &reading).len(), 1, "page {ppn}");
    }
}

#[test]
fn no_more_errors_are_looked_for_than_the_most() {
    let model = WearModel { noise_share: 0.0, ..flat(0.0) };
    let reading = Reading { ppn: 1, erases: 3, reads: 7 };
    for (rate, expected) in [(0.5, 1 << 16), (0.0, 0)] {
        let mut told = 0;
        let wrong = model.errors(rate, &reading, 1 << 20, |bit| {
            assert!(bit < 1 << 20);
            told += 1;
        });
        assert_eq!((wrong, told), (expected, expected), "at {rate}");
    }
}
