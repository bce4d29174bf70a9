//! The seed's experiments, quickly: every published figure that can be measured has its row.

use onefold_cache::experiments::{Published, Scale, all};

const PUBLISHED: &str = include_str!("../../../../experiments/plc-cache/published.toml");

#[test]
fn published_figures_get_measured_ones_beside_them() {
    let published = Published::from_toml(PUBLISHED).unwrap();
    let rows = all(&published, Scale::Quick, 1).unwrap();
    for row in rows.iter().filter(|row| row.kind == "arithmetic") {
        let (published, measured) = (row.published.unwrap(), row.measured.unwrap());
        assert!((measured / published - 1.0).abs() < 0.01, "{row:?}");
    }
    for place in ["Table 1", "Fig 6", "Fig 7", "Fig 8", "Fig 9", "Fig 12 text", "Fig 21 text"] {
        assert!(rows.iter().any(|row| row.place == place && row.published.is_some()), "{place}");
    }
    for figure in 6..=24 {
        let place = format!("Fig {figure}");
        assert!(rows.iter().any(|row| row.place == place), "{place}");
    }
    assert!(rows.iter().all(|row| row.measured.is_none_or(f64::is_finite)));
    assert_eq!(rows, all(&published, Scale::Quick, 1).unwrap());
}

#[test]
fn a_setting_that_is_missing_is_named() {
    let error = all(&Published::default(), Scale::Quick, 1).unwrap_err().to_string();
    assert_eq!(error, "published figures: no Sec I, Intel 520 60GB, TBW");
    let error = Published::from_toml("[[result]]\nid = \"a\"").unwrap_err().to_string();
    assert_eq!(error, "published figure 1: no `where`");
}
