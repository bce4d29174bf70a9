//! Long-term reconfiguration: which units an engine should have for the work of the last window.
//! Room: onefold-array.
//! Source: [ajdari-talk], Key Idea #3.
//! Invariants: the mix fits the board; no other mix that fits carries more of the same work.

use crate::spec::EngineSpec;

/// Units of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Hash units.
    pub hash: u32,
    /// Compression units.
    pub compress: u32,
    /// Decompression units.
    pub decompress: u32,
}

/// Bytes of work, uncompressed, in the proportion in which they come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// To be hashed.
    pub hash: f64,
    /// To be compressed.
    pub compress: f64,
    /// To be decompressed to.
    pub decompress: f64,
}

impl Mix {
    /// What a description says.
    pub const fn of(engine: &EngineSpec) -> Self {
        Self {
            hash: engine.hash_units,
            compress: engine.compress_units,
            decompress: engine.decompress_units,
        }
    }

    /// How many times a second this mix does the work: what the scarcest unit allows.
    pub fn carries(self, demand: Demand, engine: &EngineSpec) -> f64 {
        let times = |units: u32, rate: f64, bytes: f64| {
            if bytes > 0.0 { f64::from(units) * rate / bytes } else { f64::INFINITY }
        };
        times(self.hash, engine.hash_bytes_per_s(), demand.hash)
            .min(times(self.compress, engine.compress_bytes_per_s(), demand.compress))
            .min(times(self.decompress, engine.decompress_bytes_per_s(), demand.decompress))
    }
}

/// The mix that carries most of this work on the board, with at least one unit of each kind that
/// the engine has now. `None` if there is no work.
pub fn solve(demand: Demand, engine: &EngineSpec) -> Option<Mix> {
    let now = Mix::of(engine);
    let units = |times: f64, rate: f64, bytes: f64, now: u32| {
        let needed = (times * bytes / rate).ceil();
        (needed.min(1e9) as u32).max(u32::from(now > 0))
    };
    let mix = |times: f64| Mix {
        hash: units(times, engine.hash_bytes_per_s(), demand.hash, now.hash),
        compress: units(times, engine.compress_bytes_per_s(), demand.compress, now.compress),
        decompress: units(
            times,
            engine.decompress_bytes_per_s(),
            demand.decompress,
            now.decompress,
        ),
    };
    let fits =
        |mix: Mix| engine.luts_of(mix.hash, mix.compress, mix.decompress) <= engine.unit_luts();
    if demand.hash + demand.compress + demand.decompress <= 0.0 || !fits(mix(0.0)) {
        return None;
    }
    // The most that a mix carries steps up where one more unit of some kind comes in: halving the
    // interval until its ends have the same mix finds the last step that fits.
    let (mut low, mut high) = (0.0, 1.0);
    while fits(mix(high)) {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        *(if fits(mix(middle)) { &mut low } else { &mut high }) = middle;
    }
    Some(mix(low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SpecBuilder;
    use onefold_block::SplitMix64;

    #[test]
    fn no_mix_that_fits_carries_more() {
        let mut engine = SpecBuilder::preset("cidr").unwrap().build().unwrap().engine;
        engine.luts = 100_000;
        engine.usable_share = 1.0;
        let mut random = SplitMix64::new(3);
        for _ in 0..50 {
            let mut bytes = || random.below(1000) as f64;
            let demand = Demand { hash: bytes(), compress: bytes(), decompress: bytes() };
            let best = solve(demand, &engine).unwrap();
            assert!(engine.luts_of(best.hash, best.compress, best.decompress) <= 100_000.0);
            let carried = best.carries(demand, &engine);
            for hash in 1..38 {
                for compress in 1..34 {
                    let rest = 100_000.0 - engine.luts_of(hash, compress, 0);
                    if rest < engine.decompress_unit_luts as f64 {
                        continue;
                    }
                    let decompress = (rest / engine.decompress_unit_luts as f64) as u32;
                    let other = Mix { hash, compress, decompress };
                    assert!(
                        other.carries(demand, &engine) <= carried * (1.0 + 1e-9),
                        "{demand:?}: {other:?} beats {best:?}"
                    );
                }
            }
        }
        assert_eq!(solve(Demand::default(), &engine), None);
    }
}
