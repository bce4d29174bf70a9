//! The rows of the seed's experiments as tab-separated text, published beside measured.
//! Room: onefold-cache.
//! `cargo run --release -p onefold-cache --example plc_rows quick|full [seed]`

use onefold_cache::experiments::{Published, Scale, all};

const PUBLISHED: &str = include_str!("../../../experiments/plc-cache/published.toml");

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let full = args.first().is_some_and(|arg| arg == "full");
    let scale = if full { Scale::Full } else { Scale::Quick };
    let seed = args.get(1).and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let published = Published::from_toml(PUBLISHED).expect("the file of published figures");
    for row in all(&published, scale, seed).expect("runs of known policies") {
        let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
        let (published, measured) = (number(row.published), number(row.measured));
        println!(
            "{}\t{}\t{}\t{published}\t{measured}\t{}\t{}",
            row.place, row.row, row.column, row.unit, row.note
        );
    }
}
