//! Closed forms of cleaning that a drive itself needs: to be filled with its steady state in an
//! instant, and to split its spare space between two pools.
//! Room: onefold-flash.
//! Source: [desnoyers-12] (FIFO, greedy); [van-houdt-13] (d choices). In all of them `alpha` is
//! usable physical pages over mapped logical pages. What only tests measure by is theirs.

/// The principal branch of Lambert's W on `[-1/e, 0]`: the `w >= -1` with `w e^w = x`.
fn lambert_w0(x: f64) -> f64 {
    let e = std::f64::consts::E;
    assert!((-1.0 / e - 1e-15..=0.0).contains(&x), "W0 is asked for on [-1/e, 0]");
    let mut w = if x < -0.25 { -1.0 + (2.0 * (1.0 + e * x)).max(0.0).sqrt() } else { x };
    // Halley's method.
    for _ in 0..100 {
        let power = w.exp();
        let miss = w * power - x;
        if w <= -1.0 || miss == 0.0 {
            break;
        }
        let slope = power * (w + 1.0) - (w + 2.0) * miss / (2.0 * w + 2.0);
        let next = w - miss / slope;
        if (next - w).abs() < 1e-15 {
            return next;
        }
        w = next;
    }
    w
}

/// Write amplification of FIFO cleaning under uniform random writes; also the limit of greedy
/// cleaning for large blocks.
pub fn fifo(alpha: f64) -> f64 {
    alpha / (alpha + lambert_w0(-alpha * (-alpha).exp()))
}

/// Write amplification of greedy cleaning of blocks of `pages_per_block` under uniform random
/// writes.
pub fn greedy(alpha: f64, pages_per_block: u32) -> f64 {
    let n = f64::from(pages_per_block);
    let c = (1.0 + 1.0 / (2.0 * n)) * alpha;
    let x0 = 0.5 - n / alpha * lambert_w0(-c * (-c).exp());
    n / (n - (x0 - 1.0))
}

/// Shares of blocks with 0, 1, ... live pages when the emptiest of `draws` is collected and
/// `mean` pages of a block are live.
pub fn d_choices_shares(mean: f64, pages_per_block: u32, draws: u32) -> Vec<f64> {
    // share[j]: share of blocks with j live pages. At the fixed point the flow of blocks from j to
    // j-1 live pages balances those that victims take out below: with A victims chosen per unit of
    // time and cumulative share F(j), 1 - (1 - F(j))^d of the victims have at most j pages, and
    // (j + 1) share[j + 1] * rate is what comes down to j and below.
    let n = pages_per_block as usize;
    let mut low = 0.0;
    let mut high = 1e6;
    // The rate at which one page dies per victim chosen follows from the mean.
    for _ in 0..100 {
        let rate = f64::midpoint(low, high);
        let shares = d_shares(n, draws, rate);
        let live: f64 = shares.iter().enumerate().map(|(j, share)| j as f64 * share).sum();
        // More deaths per victim, fewer live pages.
        if live > mean {
            low = rate;
        } else {
            high = rate;
        }
    }
    d_shares(n, draws, f64::midpoint(low, high))
}

/// Shares of blocks with 0, 1, ... live pages under greedy cleaning of uniform random writes, when
/// `mean` pages of a block are live: proportional to `1/j` down to the count that is collected.
pub fn greedy_shares(mean: f64, pages_per_block: u32) -> Vec<f64> {
    let n = pages_per_block as usize;
    let mut shares = vec![0.0; n + 1];
    if mean >= n as f64 {
        shares[n] = 1.0;
        return shares;
    }
    // sum(j * 1/j) over sum(1/j), added from above until the mean is as low as asked for.
    let (mut count, mut weight) = (0.0, 0.0);
    for j in (1..=n).rev() {
        let (wider, heavier) = (count + 1.0, weight + 1.0 / j as f64);
        if wider / heavier < mean {
            // The last count in part: (count + x) / (weight + x / j) = mean.
            let part = (mean * weight - count) / (1.0 - mean / j as f64);
            shares[j] = part / j as f64;
            break;
        }
        shares[j] = 1.0 / j as f64;
        (count, weight) = (wider, heavier);
    }
    let sum: f64 = shares.iter().sum();
    for share in &mut shares {
        *share /= sum;
    }
    shares
}

/// The chance that the least of so many draws is among the lowest `share`.
fn least_of(draws: u32, share: f64) -> f64 {
    1.0 - (1.0 - share).powi(draws as i32)
}

/// Shares of blocks by live pages, 0 to `n`, when every page dies at `rate` per victim and victims
/// come back full. For each `j`: what falls to `j` or below, `(j+1) rate share[j+1]`, equals the
/// victims with at most `j` live pages, `1 - (1 - F(j))^d`. Solved from `F(n) = 1` down.
fn d_shares(n: usize, draws: u32, rate: f64) -> Vec<f64> {
    let mut shares = vec![0.0; n + 1];
    let mut upto = 1.0_f64;
    for j in (0..n).rev() {
        // share[j+1] = upto - x with x = F(j).
        let k = (j + 1) as f64 * rate;
        let (mut low, mut high) = (0.0, upto);
        for _ in 0..80 {
            let x = f64::midpoint(low, high);
            if k * (upto - x) > least_of(draws, x) {
                low = x;
            } else {
                high = x;
            }
        }
        let x = f64::midpoint(low, high);
        shares[j + 1] = upto - x;
        upto = x;
    }
    shares[0] = upto;
    shares
}

/// Two classes of data in pools of their own: the least write amplification over all splits of the
/// spare space, and the share of the spare space that the hot pool gets then.
///
/// `hot_writes` of the writes go to `hot_data` of the data; `pool` is the write amplification of
/// one pool, such as [`fifo`].
pub fn two_pools(
    alpha: f64,
    hot_writes: f64,
    hot_data: f64,
    pool: impl Fn(f64) -> f64,
) -> (f64, f64) {
    let spare = alpha - 1.0;
    let cost = |hot_spare: f64| {
        let hot = pool(1.0 + spare * hot_spare / hot_data);
        let cold = pool(1.0 + spare * (1.0 - hot_spare) / (1.0 - hot_data));
        hot_writes * hot + (1.0 - hot_writes) * cold
    };
    // Golden section: the cost has one minimum.
    let golden = (5.0_f64.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (1e-3, 1.0 - 1e-3);
    for _ in 0..100 {
        let (left, right) = (high - golden * (high - low), low + golden * (high - low));
        if cost(left) < cost(right) {
            high = right;
        } else {
            low = left;
        }
    }
    let best = f64::midpoint(low, high);
    (cost(best), best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(measured: f64, expected: f64, digits: i32) {
        let unit = 10.0_f64.powi(-digits);
        assert!(
            (measured - expected).abs() <= 0.5001 * unit,
            "{measured} is not {expected} to {digits} digits"
        );
    }

    #[test]
    fn lambert_inverts_its_definition() {
        for step in 0..=1000 {
            let w = -1.0 + f64::from(step) / 1000.0;
            let back = lambert_w0(w * w.exp());
            assert!((back - w).abs() < 1e-6, "{back} is not {w}");
        }
        near(lambert_w0(-0.2), -0.259_171_1, 7);
    }

    #[test]
    fn the_published_table_comes_out() {
        let table = [
            (1.05, [10.67, 9.19, 9.88, 10.26]),
            (1.07, [7.82, 7.00, 7.39, 7.60]),
            (1.10, [5.68, 5.24, 5.45, 5.56]),
            (1.15, [4.02, 3.80, 3.90, 3.96]),
            (1.20, [3.19, 3.05, 3.12, 3.15]),
            (1.28, [2.48, 2.40, 2.44, 2.46]),
            (1.50, [1.72, 1.68, 1.70, 1.71]),
        ];
        for (alpha, [wide, np64, np128, np256]) in table {
            near(fifo(alpha), wide, 2);
            near(greedy(alpha, 64), np64, 2);
            near(greedy(alpha, 128), np128, 2);
            near(greedy(alpha, 256), np256, 2);
        }
        let pools = [
            (1.07, 0.8, 0.2, 5.11),
            (1.07, 0.9, 0.1, 3.19),
            (1.15, 0.8, 0.2, 2.80),
            (1.15, 0.9, 0.1, 1.91),
            (1.28, 0.8, 0.2, 1.85),
            (1.28, 0.9, 0.1, 1.40),
        ];
        for (alpha, writes, data, expected) in pools {
            near(two_pools(alpha, writes, data, |alpha| greedy(alpha, 256)).0, expected, 2);
        }
        // a reserve of 5 % leaves next to nothing of 7 % over-provisioning.
        assert!((greedy(1.012, 256) / 35.7 - 1.0).abs() < 0.03);
    }

    #[test]
    fn shares_sum_to_one_and_have_the_mean_asked_for() {
        for mean in [20.0, 45.5, 60.0, 63.9] {
            for shares in [greedy_shares(mean, 64), d_choices_shares(mean, 64, 5)] {
                let sum: f64 = shares.iter().sum();
                let live: f64 = (0..).zip(&shares).map(|(j, s)| f64::from(j) * s).sum();
                assert!((sum - 1.0).abs() < 1e-9 && (live - mean).abs() < 1e-3, "{sum} {live}");
            }
        }
    }

    #[test]
    fn blocks_that_are_full_on_average_are_all_full() {
        for mean in [49.0, 50.0] {
            let shares = greedy_shares(mean, 49);
            assert!(shares[..49].iter().all(|&share| share.to_bits() == 0), "{shares:?}");
            assert_eq!(shares[49].to_bits(), 1.0_f64.to_bits());
        }
    }
}
