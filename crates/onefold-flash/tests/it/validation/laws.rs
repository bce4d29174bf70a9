//! Closed forms of write amplification and deduplication that the FTL is measured against.
//! Room: onefold-flash.
//! Source: [desnoyers-12] (FIFO, greedy); [van-houdt-13] (random and d choices); Poisson occupancy
//! (deduplication). In all of them `alpha` is usable physical pages over mapped logical pages.

use onefold_flash::theory::d_choices_shares;
pub use onefold_flash::theory::{fifo, greedy, two_pools};

/// Pages programmed for each page of the host where so many of them, compressed, fill a flash page
/// and a victim's are packed anew: the drive is one of as many times more and smaller pages.
/// `alpha` is that of the drive without compression.
pub fn packed(alpha: f64, pages_per_block: u32, together: u32) -> f64 {
    let k = f64::from(together);
    greedy(alpha * k, pages_per_block * together) / k
}

/// Write amplification of choosing the emptiest of `draws` blocks drawn at random.
///
/// The fixed point of the mean field of Van Houdt. One draw is random cleaning.
pub fn d_choices(alpha: f64, pages_per_block: u32, draws: u32) -> f64 {
    let n = f64::from(pages_per_block);
    let shares = d_choices_shares(n / alpha, pages_per_block, draws);
    let mut live = 0.0;
    let mut below = 0.0_f64;
    for (j, share) in shares.iter().enumerate() {
        let upto = (below + share).min(1.0);
        live += j as f64 * (least_of(draws, upto) - least_of(draws, below));
        below = upto;
    }
    n / (n - live)
}

/// The chance that the least of so many draws is among the lowest `share`.
fn least_of(draws: u32, share: f64) -> f64 {
    1.0 - (1.0 - share).powi(draws as i32)
}

/// Live unique pages when `logical` pages hold contents drawn uniformly from `contents`.
pub fn dedup_live_pages(logical: f64, contents: f64) -> f64 {
    contents * (1.0 - (-logical / contents).exp())
}

/// Share of writes whose content is nowhere on the drive, and must be programmed.
pub fn dedup_unique_share(logical: f64, contents: f64) -> f64 {
    (-logical / contents).exp()
}

#[test]
fn d_choices_fall_from_random_to_greedy() {
    for alpha in [1.07, 1.15, 1.5] {
        let falling: Vec<f64> =
            [1, 2, 4, 10, 100].iter().map(|&d| d_choices(alpha, 64, d)).collect();
        assert!(falling.is_sorted_by(|a, b| a > b), "{falling:?}");
        let limit = greedy(alpha, 64);
        assert!((falling[4] / limit - 1.0).abs() < 0.02, "{falling:?} against {limit}");
    }
}

#[test]
fn dedup_forms_agree_in_their_limits() {
    assert!((dedup_live_pages(1000.0, 1e9) - 1000.0).abs() < 0.005);
    assert!((dedup_live_pages(1e6, 10.0) - 10.0).abs() < 5e-7);
    assert!((dedup_unique_share(1.0, 1.0) - 0.367_879).abs() < 5.1e-7);
}
