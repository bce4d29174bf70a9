//! The rules that every metric keeps, and the forms in which they are told.
//! Room: onefold-metrics.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;

use onefold_block::wrappers::{DeviceCounters, ManualClock, StatsDevice};
use onefold_block::{BlockDevice as _, ByteSize, SimFolder};
use onefold_metrics::{ExportSample, Format, Kind, Sample, all, json};
use onefold_pool::{OpenOptions, Pool, PoolIdentity, PoolSettings};

fn sample() -> Sample {
    let folder = SimFolder::new();
    let identity = PoolIdentity { uuid: [1; 16], key: [2; 32] };
    Pool::create(&folder, &PoolSettings::default(), identity).unwrap();
    let pool = Pool::open(&folder, &OpenOptions::default()).unwrap();
    let volume = pool.create_volume("a", ByteSize(8 << 20)).unwrap();
    pool.create_volume("b", ByteSize(8 << 20)).unwrap();
    let counters = Arc::<DeviceCounters>::default();
    let clock = Arc::new(ManualClock::default());
    let device = StatsDevice::timed(volume, Arc::clone(&counters), clock);
    device.write_at(0, &vec![7; 65_536], false).unwrap();
    device.write_at(65_536, &vec![7; 65_536], false).unwrap();
    device.read_at(0, &mut [0; 4096]).unwrap();
    device.read_at(1 << 40, &mut [0; 4096]).unwrap_err();
    let status = pool.status().unwrap();
    let export = ExportSample { name: "quoted \"\\\n name".to_owned(), counters };
    Sample { pool: Some(status), exports: vec![export], connections: 3, ..Sample::default() }
}

#[test]
fn names_say_what_is_counted_and_how() {
    let mut names = BTreeSet::new();
    for metric in all() {
        let name = metric.name;
        assert!(names.insert(name), "{name} is there twice");
        assert!(name.starts_with("onefold_"), "{name}");
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        assert!(name.bytes().all(plain), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
        assert!(!metric.help.ends_with('.') && metric.help.is_ascii(), "{name}");
        assert!(metric.help.starts_with(|first: char| first.is_uppercase() || first == '1'));
        let unit = metric.unit().map(|unit| format!("_{unit}")).unwrap_or_default();
        let total = if metric.kind == Kind::Counter { "_total" } else { "" };
        assert_eq!(format!("{}{unit}{total}", metric.base()), name);
    }
}

#[test]
fn a_sample_is_told_in_three_forms_with_the_same_numbers() {
    let sample = sample();
    let open = Format::accepted(Some("application/openmetrics-text;version=1.0.0,*/*;q=0.1"));
    let text = Format::accepted(Some("text/plain"));
    assert_eq!((open, text, Format::accepted(None)), (Format::OpenMetrics, Format::Text, text));
    let (open, text) = (open.write(&sample), text.write(&sample));
    assert!(open.ends_with("# EOF\n") && !text.contains("EOF") && !text.contains("# UNIT"));
    assert!(open.contains("# TYPE onefold_export_bytes counter\n"));
    assert!(text.contains("# TYPE onefold_export_bytes_total counter\n"));
    let export = "{export=\"quoted \\\"\\\\\\n name\",verb=\"write\"}";
    for line in [
        "onefold_pool_logical_bytes 131072".to_owned(),
        "onefold_pool_unique_bytes 4096".to_owned(),
        "onefold_pool_chunks_duplicate_total 31".to_owned(),
        "onefold_volume_mapped_bytes{volume=\"a\"} 131072".to_owned(),
        "onefold_connections 3".to_owned(),
        format!("onefold_export_requests_total{export} 2"),
        format!("onefold_export_bytes_total{export} 131072"),
        format!("onefold_export_request_duration_seconds_count{export} 2"),
    ] {
        let of = |form: &str| form.lines().any(|found| found == line);
        assert!(of(&open) && of(&text), "{line}\n{text}");
    }
    // What a metric is, is said in whole in both forms, under the name that each has for it.
    let told = all().filter(|metric| text.contains(&format!("\n# TYPE {} ", metric.name)));
    let help = |name: &str, help| format!("# HELP {name} {help}\n");
    let mut count = 0;
    for metric in told {
        assert!(text.contains(&help(metric.name, metric.help)), "{}", metric.name);
        let unit = metric.unit().map(|unit| format!("_{unit}")).unwrap_or_default();
        let name = format!("{}{unit}", metric.base());
        assert!(open.contains(&help(&name, metric.help)), "{name}");
        count += 1;
    }
    assert!(count > 20, "{count}");
    // What failed is counted, and its bytes are not.
    let read = export.replace("write", "read");
    assert!(text.contains(&format!("onefold_export_errors_total{read} 1\n")));
    assert!(text.contains(&format!("onefold_export_bytes_total{read} 4096\n")));
    assert!(text.contains("_bucket{le=\"+Inf\","));
    let values = json::values(&sample);
    assert_eq!(values["onefold_pool_logical_bytes"], 131_072);
    let written = &values["onefold_export_requests_total"][1];
    assert_eq!((&written["verb"], &written["value"]), (&"write".into(), &2.into()));
    let described = json::described(&sample, &serde_json::json!([]));
    assert_eq!(described["metrics"].as_array().unwrap().len(), values.len());
    assert_eq!(described["time_bounds_seconds"].as_array().unwrap().len(), json::bounds().len());
}

#[test]
fn what_a_server_has_not_got_is_not_told() {
    let nothing = Format::Text.write(&Sample::default());
    assert!(!nothing.contains("onefold_pool_") && !nothing.contains("onefold_cache_"));
    assert!(nothing.contains("onefold_process_memory_bytes 0\n"));
}

/// With the feature `drive`, as in a test of the whole workspace.
#[cfg(feature = "drive")]
#[test]
fn the_reference_of_metrics_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    // What stands before is written by hand.
    let mark = "\n## The pool\n";
    let before = page.split(mark).next().unwrap_or_default();
    let fresh = format!("{before}{}", onefold_metrics::document::tables(all()));
    if std::env::var_os("ONEFOLD_UPDATE").is_some() {
        std::fs::write(path, &fresh).unwrap();
        return;
    }
    let stale = "ONEFOLD_UPDATE=1 cargo test -p onefold-metrics --features drive writes it anew";
    assert!(page == fresh, "{path} is stale; {stale}");
}

#[test]
fn dashboards_and_the_page_ask_for_nothing_that_is_not_told() {
    let known: BTreeSet<&str> = all().map(|metric| metric.name).collect();
    for path in ["../../docs/grafana.json", "../onefold/src/watch/page.html"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut asked = 0;
        for word in text.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_') {
            let name = word.strip_suffix("_bucket").unwrap_or(word);
            // One that is put together ends in the middle.
            if !name.starts_with("onefold_") || name.ends_with('_') {
                continue;
            }
            let of_a_drive = name.starts_with("onefold_drive_") && !cfg!(feature = "drive");
            assert!(of_a_drive || known.contains(name), "{}: {name}", path.display());
            asked += 1;
        }
        assert!(asked > 10, "{}", path.display());
    }
}
