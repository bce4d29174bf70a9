//! V1 to V4: write amplification in the steady state beside its closed form.
//! Room: onefold-flash.

use onefold_block::SplitMix64;

use onefold_flash::Geometry;
use onefold_flash::dedup::{NoDedup, Policy};
use onefold_flash::ftl::{Counters, Ftl, FtlError, FtlSettings, Temperature, VictimRule};
use onefold_flash::nand::{BlankNand, Nand};
use onefold_flash::op::{Driver, OpKind, Untimed};

use super::laws;
pub use super::plane::plane;

/// One comparison.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which validation it belongs to.
    pub id: &'static str,
    /// What was measured.
    pub what: String,
    /// The closed form.
    pub theory: f64,
    /// The measurement.
    pub measured: f64,
}

impl Row {
    /// Measured over theory, less one.
    pub fn deviation(&self) -> f64 {
        self.measured / self.theory - 1.0
    }
}

/// How much is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Blocks of the drive, of one plane.
    pub blocks: u32,
    /// Times that the drive is overwritten before measuring.
    pub warm: u32,
    /// Times that it is overwritten while measuring.
    pub measured: u32,
}

/// Settings with as many logical pages as make the effective alpha what is asked for.
///
/// # Errors
/// [`FtlError::Settings`] if there is no such number.
pub fn with_alpha(
    geometry: Geometry,
    alpha: f64,
    settings: FtlSettings,
) -> Result<FtlSettings, FtlError> {
    let mut found = FtlSettings { logical_pages: geometry.pages() / 4, ..settings };
    // What is usable depends a little on the amplification, and so on what is mapped.
    for _ in 0..6 {
        let ftl = Ftl::format(BlankNand::new(geometry), NoDedup, found)?;
        let usable = ftl.effective_alpha() * f64::from(found.logical_pages);
        found.logical_pages = (usable / alpha).round() as u32;
    }
    Ok(found)
}

/// Write amplification between two states of the counters.
pub fn waf_between(before: &Counters, after: &Counters) -> f64 {
    let programmed = |counters: &Counters| counters.ops.all(OpKind::Program);
    (programmed(after) - programmed(before)) as f64
        / (after.host_pages_written - before.host_pages_written) as f64
}

/// Writes pages drawn by `draw` until the steady state, and measures from there.
///
/// # Errors
/// Those of [`Ftl::write`].
pub fn measure<N: Nand, P: Policy<N::Page>>(
    ftl: &mut Ftl<N, P>,
    scale: Scale,
    d: &mut impl Driver,
    draw: &mut dyn FnMut() -> (u32, N::Page),
) -> Result<f64, FtlError> {
    let logical = u64::from(ftl.settings().logical_pages);
    let mut write = |ftl: &mut Ftl<N, P>| {
        let (lpn, page) = draw();
        ftl.write(lpn, &page, d)
    };
    for _ in 0..logical * u64::from(scale.warm) {
        write(ftl)?;
    }
    let before = *ftl.counters();
    for _ in 0..logical * u64::from(scale.measured) {
        write(ftl)?;
    }
    Ok(waf_between(&before, ftl.counters()))
}

/// Write amplification of uniform random writes to a full drive.
///
/// # Errors
/// Those of [`Ftl::write`].
pub fn uniform(geometry: Geometry, settings: FtlSettings, scale: Scale) -> Result<f64, FtlError> {
    let mut ftl = Ftl::format(BlankNand::new(geometry), NoDedup, settings)?;
    let logical = settings.logical_pages;
    for lpn in 0..logical {
        ftl.write(lpn, &(), &mut Untimed)?;
    }
    let mut random = SplitMix64::new(settings.seed ^ 7);
    measure(&mut ftl, scale, &mut Untimed, &mut || (random.below(u64::from(logical)) as u32, ()))
}

/// The same right after preconditioning, nothing written before.
///
/// # Errors
/// Those of [`Ftl::write`].
pub fn preconditioned(
    geometry: Geometry,
    settings: FtlSettings,
    scale: Scale,
) -> Result<f64, FtlError> {
    let mut ftl = Ftl::format(BlankNand::new(geometry), NoDedup, settings)?;
    ftl.precondition_steady(|_| ())?;
    let logical = u64::from(settings.logical_pages);
    let mut random = SplitMix64::new(settings.seed ^ 7);
    measure(&mut ftl, Scale { warm: 0, ..scale }, &mut Untimed, &mut || {
        (random.below(logical) as u32, ())
    })
}

/// V8: an instant steady state beside one that was written.
///
/// # Errors
/// Those of [`uniform`].
pub fn v8(scale: Scale, pages: u32) -> Result<Vec<Row>, FtlError> {
    let geometry = plane(scale.blocks, pages);
    let mut rows = Vec::new();
    for (name, victim) in [
        ("greedy", VictimRule::Greedy),
        ("FIFO", VictimRule::Fifo),
        ("best of 4", VictimRule::DChoices(4)),
    ] {
        for over in [0.07, 0.15, 0.28] {
            let settings = FtlSettings { victim, ..FtlSettings::default() };
            let settings = with_alpha(geometry, 1.0 + over, settings)?;
            let theory = uniform(geometry, settings, scale)?;
            let measured = preconditioned(geometry, settings, scale)?;
            let percent = over * 100.0;
            let what = format!(
                "{name}, Np {pages}, over-provisioning {percent:.0} %: written against instant"
            );
            rows.push(Row { id: "V8", what, theory, measured });
        }
    }
    Ok(rows)
}

const OVER_PROVISIONING: [f64; 4] = [0.07, 0.15, 0.28, 0.50];

/// V1: greedy and FIFO cleaning.
///
/// # Errors
/// Those of [`uniform`].
pub fn v1(scale: Scale, sizes: &[u32]) -> Result<Vec<Row>, FtlError> {
    let mut rows = Vec::new();
    for &pages in sizes {
        let geometry = plane(scale.blocks, pages);
        for over in OVER_PROVISIONING {
            let alpha = 1.0 + over;
            let rules = [
                ("greedy", VictimRule::Greedy, laws::greedy(alpha, pages)),
                ("FIFO", VictimRule::Fifo, laws::fifo(alpha)),
            ];
            for (name, victim, theory) in rules {
                let settings = FtlSettings { victim, ..FtlSettings::default() };
                let settings = with_alpha(geometry, alpha, settings)?;
                let measured = uniform(geometry, settings, scale)?;
                let percent = over * 100.0;
                let what = format!("{name}, Np {pages}, over-provisioning {percent:.0} %");
                rows.push(Row { id: "V1", what, theory, measured });
            }
        }
    }
    Ok(rows)
}

/// V2: sequential overwriting, TRIM of everything, and TRIM of a share.
///
/// # Errors
/// Those of [`uniform`].
pub fn v2(scale: Scale) -> Result<Vec<Row>, FtlError> {
    let geometry = plane(scale.blocks, 64);
    let settings = with_alpha(geometry, 1.15, FtlSettings::default())?;
    let logical = settings.logical_pages;
    let mut rows = Vec::new();
    let mut row = |what: &str, theory, measured| {
        rows.push(Row { id: "V2", what: what.into(), theory, measured });
    };
    let mut ftl = Ftl::format(BlankNand::new(geometry), NoDedup, settings)?;
    for lpn in (0..logical).cycle().take(3 * logical as usize) {
        ftl.write(lpn, &(), &mut Untimed)?;
    }
    row("sequential overwriting", 1.0, ftl.counters().waf(None));
    let mut random = SplitMix64::new(5);
    for _ in 0..logical {
        ftl.write(random.below(u64::from(logical)) as u32, &(), &mut Untimed)?;
    }
    ftl.trim_range(0, logical, &mut Untimed)?;
    let before = *ftl.counters();
    for lpn in 0..logical {
        ftl.write(lpn, &(), &mut Untimed)?;
    }
    row("all trimmed, then written", 1.0, waf_between(&before, ftl.counters()));
    for percent in [10, 25] {
        let share = f64::from(percent) / 100.0;
        let kept = (f64::from(logical) * (1.0 - share)) as u32;
        ftl.trim_range(kept, logical - kept, &mut Untimed)?;
        let measured = measure(&mut ftl, scale, &mut Untimed, &mut || {
            (random.below(u64::from(kept)) as u32, ())
        })?;
        let theory = laws::greedy(1.15 / (1.0 - share), 64);
        row(&format!("TRIM of {percent} %, greedy at alpha/(1-t)"), theory, measured);
    }
    Ok(rows)
}

/// V3: choosing the emptiest of d blocks.
///
/// # Errors
/// Those of [`uniform`].
pub fn v3(scale: Scale, draws: &[u32]) -> Result<Vec<Row>, FtlError> {
    let geometry = plane(scale.blocks, 64);
    let mut rows = Vec::new();
    for &d in draws {
        let settings = FtlSettings { victim: VictimRule::DChoices(d), ..FtlSettings::default() };
        let settings = with_alpha(geometry, 1.15, settings)?;
        let measured = uniform(geometry, settings, scale)?;
        let theory = laws::d_choices(1.15, 64, d);
        let what = format!("best of {d} drawn, Np 64, over-provisioning 15 %");
        rows.push(Row { id: "V3", what, theory, measured });
    }
    Ok(rows)
}

/// V4: 80 % of the writes on 20 % of the data, in pools of their own and in one.
///
/// # Errors
/// Those of [`uniform`].
pub fn v4(scale: Scale, pages: u32) -> Result<Vec<Row>, FtlError> {
    let geometry = plane(scale.blocks, pages);
    let mut rows = Vec::new();
    for over in [0.07, 0.15, 0.28] {
        let alpha = 1.0 + over;
        let pool = |alpha: f64| laws::greedy(alpha, pages);
        let (theory, _) = laws::two_pools(alpha, 0.8, 0.2, pool);
        for separate in [true, false] {
            let hot = |logical: u32| Temperature::HotRange {
                hot_pages: logical / 5,
                hot_writes_permille: 800,
            };
            let mut settings = FtlSettings::default();
            if separate {
                settings.temperature = hot(geometry.pages() / 4);
            }
            settings = with_alpha(geometry, alpha, settings)?;
            let logical = settings.logical_pages;
            if separate {
                settings.temperature = hot(logical);
            }
            let measured = skewed(geometry, settings, scale)?;
            let how = if separate { "separated" } else { "one pool (must be more)" };
            let percent = over * 100.0;
            let what = format!("80/20 {how}, Np {pages}, over-provisioning {percent:.0} %");
            rows.push(Row { id: "V4", what, theory, measured });
        }
    }
    Ok(rows)
}

fn skewed(geometry: Geometry, settings: FtlSettings, scale: Scale) -> Result<f64, FtlError> {
    let mut ftl = Ftl::format(BlankNand::new(geometry), NoDedup, settings)?;
    let logical = u64::from(settings.logical_pages);
    for lpn in 0..settings.logical_pages {
        ftl.write(lpn, &(), &mut Untimed)?;
    }
    let hot = logical / 5;
    let mut random = SplitMix64::new(11);
    // The cold four fifths see a fifth of the writes: they need longer to settle.
    let scale = Scale { warm: 3 * scale.warm, measured: 2 * scale.measured, ..scale };
    measure(&mut ftl, scale, &mut Untimed, &mut || {
        let lpn =
            if random.chance(4, 5) { random.below(hot) } else { hot + random.below(logical - hot) };
        (lpn as u32, ())
    })
}
