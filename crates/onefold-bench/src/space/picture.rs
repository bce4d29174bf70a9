//! The picture: stored over live against bytes written, with reclaim and without.
//! Room: onefold-bench.

use std::path::Path;

use anyhow::{Context, Result};
use onefold_lab::plot::{Drawing, Style};
use onefold_lab::{At, Kind, Line, Point, Series};

use super::churn::Sample;

/// Beside docs/performance.md.
pub const FILE: &str = "plots/space.svg";
const QUANTITY: &str = "Stored over live";

/// One curve.
pub struct Curve {
    /// Whose.
    pub name: String,
    /// Its points.
    pub samples: Vec<Sample>,
}

/// Draw the curves as SVG.
pub fn draw(curves: &[Curve]) -> String {
    let series: Vec<Series> = curves.iter().map(series).collect();
    let drawing = Drawing {
        file: String::new(),
        title: "Stored bytes for each live one, as a full volume is overwritten".to_owned(),
        quantity: QUANTITY.to_owned(),
        settings: Vec::new(),
        hide: Vec::new(),
        style: Style::Lines,
        doubling: false,
        relative_to: String::new(),
    };
    drawing.draw(&series).svg()
}

fn series(curve: &Curve) -> Series {
    let line = Line::new(QUANTITY, "").over("Overwritten", "times the volume");
    let point = |sample: &Sample| Point {
        at: At::Number(sample.overwrites),
        measured: Some(sample.stored_over_live),
        range: None,
        published: None,
        deviation: None,
        kind: Kind::Measured,
        note: String::new(),
    };
    // Four for each time that the volume is overwritten are enough to see.
    let points = curve.samples.iter().skip(3).step_by(4).map(point).collect();
    Series { line: line.of(&curve.name), seeds: Vec::new(), points }
}

/// Put the picture beside the page of documentation.
pub fn write(page: &Path, svg: &str) -> Result<()> {
    let path = page.with_file_name(FILE);
    std::fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))
}
