//! The plot, written as SVG by hand: log-log axes, one line a curve, the Shannon limit.
//! Room: onefold-code.

use std::fmt::Write as _;

use crate::{Point, shannon_limit};

const WIDTH: f64 = 940.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 80.0;
const TOP: f64 = 56.0;
const PLOT_WIDTH: f64 = 520.0;
const PLOT_HEIGHT: f64 = 430.0;
/// Powers of ten of the axes.
const X_RANGE: (f64, f64) = (1e-4, 4e-3);
const Y_RANGE: (f64, f64) = (-7.0, 0.0);

fn x(rber: f64) -> f64 {
    LEFT + PLOT_WIDTH * (rber / X_RANGE.0).log10() / (X_RANGE.1 / X_RANGE.0).log10()
}

fn y(fer: f64) -> f64 {
    let power = fer.max(1e-300).log10().clamp(Y_RANGE.0, Y_RANGE.1);
    TOP + PLOT_HEIGHT * (Y_RANGE.1 - power) / (Y_RANGE.1 - Y_RANGE.0)
}

/// Colour, dash pattern, mark and legend of a curve.
fn style(curve: &str, decoder: &str) -> (&'static str, &'static str, String) {
    let colour = match curve {
        "bch-t18-1k" => "#1b1b1b",
        "ses-33x256" => "#c1440e",
        "qc-1k-32/33" => "#1565c0",
        _ => "#2e7d32",
    };
    let (dash, how) = match decoder {
        "computed" => ("2 4", "computed"),
        "bit flipping" => ("8 5", "bit flipping"),
        "min-sum soft" => ("1 0", "soft (8 levels)"),
        "algebraic" => ("1 0", "hard"),
        _ => ("12 4", "hard"),
    };
    let what = match curve {
        "bch-t18-1k" => "BCH t=18, 1 KiB",
        "ses-33x256" => "LDPC ses-33x256, 1 KiB",
        "qc-1k-32/33" => "LDPC qc-1k-32/33",
        _ => "LDPC qc-4k-32/33",
    };
    (colour, dash, format!("{what}, {how}"))
}

pub fn svg(points: &[Point]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"17\" font-weight=\"bold\">Frame error rate at \
         rate 32/33, by raw bit error rate</text>"
    );
    axes(&mut out);
    let mut legend_at = TOP + 12.0;
    let mut curves: Vec<(&str, &str)> = Vec::new();
    for p in points {
        let curve = (p.curve.as_str(), p.decoder.as_str());
        if !curves.contains(&curve) {
            curves.push(curve);
        }
    }
    for (curve, decoder) in curves {
        let (colour, dash, label) = style(curve, decoder);
        let on_curve = || points.iter().filter(|p| p.curve == curve && p.decoder == decoder);
        let visible = || on_curve().filter(|p| p.fer >= 10f64.powf(Y_RANGE.0));
        let line: Vec<String> =
            visible().map(|p| format!("{:.1},{:.1}", x(p.rber), y(p.fer))).collect();
        let _ = writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-dasharray=\"{dash}\" points=\"{}\"/>",
            line.join(" ")
        );
        if decoder != "computed" {
            for p in visible() {
                let _ = writeln!(
                    out,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.2\" fill=\"{colour}\"/>",
                    x(p.rber),
                    y(p.fer)
                );
            }
        }
        let label = if line.is_empty() { format!("{label}: no failure") } else { label };
        let left = LEFT + PLOT_WIDTH + 16.0;
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{}\" y1=\"{legend_at}\" y2=\"{legend_at}\" \
             stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/>\n\
             <text x=\"{}\" y=\"{}\" font-size=\"11\">{label}</text>",
            left + 34.0,
            left + 40.0,
            legend_at + 4.0
        );
        legend_at += 22.0;
    }
    out.push_str("</svg>\n");
    out
}

fn axes(out: &mut String) {
    let (right, bottom) = (LEFT + PLOT_WIDTH, TOP + PLOT_HEIGHT);
    for power in Y_RANGE.0 as i32..=Y_RANGE.1 as i32 {
        let at = y(10f64.powi(power));
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/>\
             \n<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">10<tspan dy=\"-5\" \
             font-size=\"9\">{power}</tspan></text>",
            LEFT - 8.0,
            at + 5.0
        );
    }
    for rber in [1e-4, 2e-4, 3e-4, 5e-4, 7e-4, 1e-3, 1.5e-3, 2e-3, 3e-3, 4e-3] {
        let at = x(rber);
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" \
             stroke=\"#eeeeee\"/>\n<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\" \
             font-size=\"11\">{}</text>",
            bottom + 18.0,
            format!("{rber:e}").replace("e-", "e\u{2212}")
        );
    }
    let limit = x(shannon_limit(32.0 / 33.0));
    let _ = writeln!(
        out,
        "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{PLOT_WIDTH}\" height=\"{PLOT_HEIGHT}\" \
         fill=\"none\" stroke=\"#444444\"/>\n\
         <line x1=\"{limit:.1}\" x2=\"{limit:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" \
         stroke=\"#8e24aa\" stroke-width=\"1.5\" stroke-dasharray=\"5 4\"/>\n\
         <text transform=\"translate({:.1} {:.1}) rotate(-90)\" font-size=\"11\" \
         fill=\"#8e24aa\">Shannon limit, hard decisions: 3.10e\u{2212}3</text>\n\
         <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">raw bit error rate</text>\n\
         <text transform=\"translate(24 {}) rotate(-90)\" text-anchor=\"middle\">frame error rate \
         (one frame = one codeword)</text>",
        limit - 5.0,
        bottom - 12.0,
        LEFT + PLOT_WIDTH / 2.0,
        bottom + 42.0,
        TOP + PLOT_HEIGHT / 2.0
    );
}
