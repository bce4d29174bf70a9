//! What deduplication policies cost the simulation: random writes to a full drive of identities.
//! Room: onefold-flash.
//! `cargo run --release -p onefold-flash --example dedup_speed`: writes a second without time, and
//! the ratio to no deduplication in the same round; medians of five interleaved rounds.
#![expect(clippy::print_stdout, reason = "a tool for people")]

use std::time::Instant;

use onefold_block::SplitMix64;
use onefold_flash::dedup::{AnyPolicy, Identities, POLICIES, Site};
use onefold_flash::nand::{Identity, IdentityNand};
use onefold_flash::{Ftl, FtlSettings, Geometry, Untimed};

const GEOMETRY: Geometry = Geometry {
    channels: 8,
    packages: 8,
    dies_per_package: 1,
    planes_per_die: 8,
    blocks_per_plane: 64,
    pages_per_block: 256,
    page_bytes: 8192,
    oob_bytes: 320,
};
const WRITES: u64 = 1_000_000;
const ROUNDS: usize = 5;

/// Writes a second after the drive was filled; one content in so many of 100 comes again.
fn rate(name: &str, duplicates: u64) -> f64 {
    let site = Site { geometry: GEOMETRY, seed_source: None };
    let policy = AnyPolicy::new::<Identity>(name, &toml::Table::new(), &site, Identities);
    let logical_pages = GEOMETRY.pages() / 100 * 80;
    let settings = FtlSettings { logical_pages, ..FtlSettings::default() };
    let policy = policy.expect("defaults are accepted");
    let mut ftl = Ftl::format(IdentityNand::new(GEOMETRY), policy, settings).expect("fits");
    let mut random = SplitMix64::new(1);
    let mut fresh = 1 << 40;
    let mut content = || {
        fresh += 1;
        let number = if random.below(100) < duplicates { random.below(5000) } else { fresh };
        let mut mixed = SplitMix64::new(number);
        Identity(u128::from(mixed.next_u64()) << 64 | u128::from(mixed.next_u64()))
    };
    for lpn in 0..logical_pages {
        ftl.write(lpn, &content(), &mut Untimed).expect("written");
    }
    let mut places = SplitMix64::new(2);
    let begin = Instant::now();
    for _ in 0..WRITES {
        let lpn = places.below(u64::from(logical_pages)) as u32;
        ftl.write(lpn, &content(), &mut Untimed).expect("written");
    }
    WRITES as f64 / begin.elapsed().as_secs_f64()
}

fn main() {
    for duplicates in [0, 30] {
        let mut ratios = vec![Vec::new(); POLICIES.len()];
        let mut rates = vec![Vec::new(); POLICIES.len()];
        for _ in 0..ROUNDS {
            let all: Vec<f64> = POLICIES.iter().map(|info| rate(info.name, duplicates)).collect();
            for (at, &one) in all.iter().enumerate() {
                rates[at].push(one);
                ratios[at].push(one / all[0]);
            }
        }
        for (at, info) in POLICIES.iter().enumerate() {
            rates[at].sort_by(f64::total_cmp);
            ratios[at].sort_by(f64::total_cmp);
            println!(
                "{duplicates:2} % duplicates  {:18} {:6.2} M writes/s  {:.2} of none",
                info.name,
                rates[at][ROUNDS / 2] / 1e6,
                ratios[at][ROUNDS / 2]
            );
        }
    }
}
