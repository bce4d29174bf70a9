//! Generated content, measured back.
//! Room: onefold-workload.

use onefold_sim::Ratio;
use onefold_workload::content::{Measured, ProfileError, UniformContent};
use onefold_workload::{ContentProfile, Histogram, Identity, PRESETS};
use proptest::prelude::*;

#[test]
fn presets_measure_back_as_their_tables_say() {
    for preset in PRESETS {
        let ContentProfile { duplicate_ratio, hot_fingerprint_ratio, hot_share } = preset.profile;
        let pages: Vec<Identity> = preset.profile.data_set(100_000, 1).unwrap().collect();
        let measured = Measured::of(pages.iter().copied());
        assert_eq!(measured.pages, 100_000, "{}", preset.name);
        for (got, want) in [
            (measured.duplicate_ratio(), duplicate_ratio),
            (measured.hot_fingerprint_ratio(), hot_fingerprint_ratio),
            (measured.hot_share(), hot_share),
        ] {
            assert!((got - want.as_f64()).abs() < 2e-4, "{}: {got} is not {want}", preset.name);
        }
        // In random order: the halves have the same share of distinct contents.
        let half = |range: std::ops::Range<usize>| {
            Measured::of(pages[range].iter().copied()).distinct as f64
        };
        let (first, second) = (half(0..50_000), half(50_000..100_000));
        assert!((first / second - 1.0).abs() < 0.02, "{first} and {second}");
    }
    assert_eq!(ContentProfile::named("desktop4"), Some(PRESETS[5].profile));
    assert_eq!(ContentProfile::named("server1"), None);
}

#[test]
fn impossible_profiles_are_named() {
    let profile = |duplicates, fingerprints, share| ContentProfile {
        duplicate_ratio: Ratio::percent(duplicates),
        hot_fingerprint_ratio: Ratio::percent(fingerprints),
        hot_share: Ratio::percent(share),
    };
    let refused = |profile: ContentProfile, words: &str| {
        let error: ProfileError = profile.data_set(1_000, 1).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(profile(101, 10, 50), "duplicate ratio 101/100");
    refused(profile(50, 100, 50), "hot-fingerprint ratio 100/100");
    refused(profile(20, 50, 10), "180 hot contents with 20 redundant pages");
    refused(profile(20, 10, 100), "no hot content");
    refused(profile(80, 10, 0), "hot contents with 0");
    refused(profile(80, 0, 0), "1600 pages of duplicated content");
    assert_eq!(profile(0, 10, 50).data_set(10, 1).unwrap().len(), 10);
    assert_eq!(ContentProfile::named("laptop2"), Some(PRESETS[1].profile));
    assert_eq!(ContentProfile::named("laptop"), None);
    // Half of the pages cold: 500 contents, twice each, and no page is left for another.
    assert_eq!(profile(50, 0, 0).data_set(1000, 1).unwrap().len(), 1000);
    refused(profile(51, 0, 0), "1020 pages of duplicated content in a data set of 1000");
    // A third of the duplicated contents hot: 20 of 60. They have 40 redundant pages at least.
    let share = |of: u64| ContentProfile {
        duplicate_ratio: Ratio::percent(8),
        hot_fingerprint_ratio: Ratio::new(1, 3).unwrap(),
        hot_share: Ratio::new(of, 80).unwrap(),
    };
    assert!(share(40).data_set(1000, 1).is_ok(), "two redundant pages for each of 20");
    refused(share(39), "21 hot contents with 39 redundant pages");
    // 200 cold contents twice, 100 hot ones three times: 700 pages, of which 400 are redundant.
    let full = |of: u64| ContentProfile {
        duplicate_ratio: Ratio::new(400, of).unwrap(),
        hot_fingerprint_ratio: Ratio::new(1, 3).unwrap(),
        hot_share: Ratio::new(1, 2).unwrap(),
    };
    assert_eq!(full(700).data_set(700, 1).unwrap().len(), 700);
    let error = full(699).data_set(699, 1).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("700 pages of duplicated content in a data set of 699"), "{error}");
    let large = profile(0, 0, 0).data_set((1 << 32) + 1, 1).map(|_| ()).unwrap_err();
    assert!(large.to_string().contains("4294967297 pages: expected at most 2^32"), "{large}");
}

proptest! {
    /// Every profile that is accepted measures back to the nearest page.
    #[test]
    fn accepted_profiles_are_met(
        pages in 1_u64..5_000, d in 0_u64..=1000, h in 0_u64..1000, r in 0_u64..=1000,
    ) {
        let [duplicate_ratio, hot_fingerprint_ratio, hot_share] = [d, h, r].map(Ratio::permille);
        let profile = ContentProfile { duplicate_ratio, hot_fingerprint_ratio, hot_share };
        if let Ok(content) = profile.data_set(pages, 9) {
            let measured = Measured::of(content);
            let redundant = duplicate_ratio.of(pages);
            prop_assert_eq!(measured.pages, pages);
            prop_assert_eq!(measured.pages - measured.distinct, redundant);
            prop_assert_eq!(measured.hot_redundant, hot_share.of(redundant));
            let hot = hot_fingerprint_ratio.as_f64() * measured.duplicated as f64;
            prop_assert!((measured.hot as f64 - hot).abs() <= 1.0, "{:?}", measured);
        }
    }
}

#[test]
fn uniform_content_repeats_as_the_balls_in_boxes_do() {
    // 2 draws a value: a share e^-2 of the values is never drawn.
    let measured = Measured::of(UniformContent::new(10_000, 3).take(20_000));
    let missing = 1.0 - measured.distinct as f64 / 10_000.0;
    assert!((missing - (-2.0_f64).exp()).abs() < 0.01, "{missing}");
}

#[test]
fn the_histogram_of_a_profile_has_its_data_set() {
    for preset in PRESETS {
        let pages = 50_000;
        let histogram = preset.profile.histogram(pages).unwrap();
        assert_eq!(histogram.pages(), pages, "{}", preset.name);
        let stated = preset.profile.duplicate_ratio.as_f64();
        assert!((histogram.duplicate_ratio() - stated).abs() < 2e-5, "{}", preset.name);
        // What was drawn last has about as many duplicates, however long that goes on.
        let drawn: Vec<Identity> = histogram.content(3).skip(200_000).take(50_000).collect();
        let measured = Measured::of(drawn);
        let redundant = 1.0 - measured.distinct as f64 / measured.pages as f64;
        assert!((redundant / stated - 1.0).abs() < 0.1, "{}: {redundant}", preset.name);
    }
}

#[test]
fn histograms_draw_each_class_as_often_as_it_has_pages() {
    // 6000 unique pages, 1000 contents twice, 20 contents a hundred times.
    let histogram = Histogram::read(&b"0 6000\n1 1000\n\n99 20\n"[..]).unwrap();
    assert_eq!(histogram.pages(), 10_000);
    assert!((histogram.duplicate_ratio() - 0.298).abs() < 1e-9);
    let drawn: Vec<Identity> = histogram.content(4).take(100_000).collect();
    assert_eq!(drawn, histogram.content(4).take(100_000).collect::<Vec<_>>());
    let mut counts = std::collections::BTreeMap::new();
    for identity in drawn {
        *counts.entry(identity).or_insert(0_u64) += 1;
    }
    // Ten times the data set: unique pages stay unique, pairs come 20 times, the rest 1000 times.
    let unique = counts.values().filter(|&&n| n == 1).count();
    assert!((59_400..60_600).contains(&unique), "{unique}");
    let hot: Vec<u64> = counts.values().copied().filter(|&n| n > 500).collect();
    assert_eq!(hot.len(), 20);
    assert!(hot.iter().all(|n| (850..1150).contains(n)), "{hot:?}");
    assert_eq!(counts.len() - unique - hot.len(), 1000);

    // 2^64 less one page are accepted, one more is not.
    let most = Histogram::new(&[(0, u64::MAX)]).unwrap();
    assert_eq!(most.pages(), u64::MAX);
    assert!(most.duplicate_ratio().abs() < f64::EPSILON);
    assert!(Histogram::new(&[(0, u64::MAX), (0, 1)]).is_none());
    assert!(Histogram::new(&[(1, 1 << 63)]).is_none());
    assert_eq!(
        Histogram::new(&[(1, (1 << 63) - 1), (0, 1)]).map(|all| all.pages()),
        Some(u64::MAX)
    );
    let long = "x".repeat(61);
    let error = Histogram::read(long.as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("line 1 `{}`: expected", "x".repeat(60))), "{error}");
    for (text, words) in [
        ("0 5\n1 x\n", "line 2 `1 x`"),
        ("1 2 3\n", "line 1"),
        ("18446744073709551615 2\n", "line 1"),
        ("", "no pages"),
        ("5 0\n", "no pages"),
    ] {
        let error = Histogram::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
