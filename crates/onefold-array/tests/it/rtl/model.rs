//! What the model takes from the descriptions.

use onefold_array::spec::keys::KEYS;

use super::rtl;

fn default(path: &str) -> f64 {
    KEYS.iter().find(|key| key.path == path).unwrap().default.parse().unwrap()
}

fn number(value: &toml::Value) -> f64 {
    value.as_integer().unwrap() as f64
}

#[test]
fn the_model_takes_its_units_from_the_descriptions() {
    let results = std::fs::read_to_string(rtl().join("results.toml")).unwrap();
    let results: toml::Table = results.parse().unwrap();
    let of_4_kib = results["sha256_unit"]["cycles"][0].as_array().unwrap();
    let hash = number(&of_4_kib[0]) / number(&of_4_kib[1]);
    // The mean of the two contents that shrink, as cycles: the time of as many bytes of each.
    let coded = |what: &str| {
        let mean = |content: &str| number(&results["lz4"][content][what][0]);
        2.0 * 4096.0 / (mean("half") + mean("text"))
    };
    let index = &results["index_unit"];
    let per_cycle = number(&index["look_ups"]) / number(&index["cycles"]);
    let rates = [
        ("engine.hash_bytes_per_cycle", hash),
        ("engine.compress_bytes_per_cycle", coded("compress")),
        ("engine.decompress_bytes_per_cycle", coded("decompress")),
        ("table.engine_lookups_per_s", 1e6 * default("engine.clock_mhz") * per_cycle),
    ];
    for (key, rate) in rates {
        assert!((default(key) / rate - 1.0).abs() < 0.0005, "{key}: {rate}");
    }
    let areas = [
        ("engine.hash_unit_luts", "hash_array"),
        ("engine.compress_unit_luts", "compress_array"),
        ("engine.decompress_unit_luts", "decompress_array"),
    ];
    for (key, array) in areas {
        let luts = number(&results[array]["luts"]) / number(&results[array]["units"]);
        assert!((default(key) - luts).abs() <= 1.0, "{key}: {luts}");
    }
    for busy in ["hash_busy_permille", "compress_busy_permille", "decompress_busy_permille"] {
        assert!(number(&results["cidr_engine"][busy]) >= 950.0, "{busy}");
    }
    assert!(number(&results["hash_array"]["busy_permille"]) >= 950.0);
}
