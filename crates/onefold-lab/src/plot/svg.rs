//! Drawing a chart.
//! Room: onefold-lab.
//! Colours differ in lightness as well as in hue, and lines in their marks, so that neither
//! colour blindness nor grey paper hides which is which. A dark page turns paper and ink around.

use std::fmt::Write as _;

use super::axis::Axis;
use super::{Chart, Style};
use crate::row::show;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 356.0;
/// Where the plot ends and the legend begins.
const RIGHT: f64 = 560.0;
/// Space between the groups of bars, of a group's width.
const GAP: f64 = 0.25;

const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#8c8c8c"];

const STYLE: &str = "\
<style>
text { font: 13px Helvetica, Arial, 'DejaVu Sans', sans-serif; fill: #222 }
.title { font-size: 16px; font-weight: bold }
.paper { fill: #ffffff }
.grid { stroke: #ddd }
.axis { stroke: #555 }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd }
  .paper { fill: #16181d }
  .grid { stroke: #3a3d45 }
  .axis { stroke: #999 }
}
</style>
";

/// A drawing in the making.
pub struct Svg {
    out: String,
}

/// Where the text of a label sits at its place.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// Draws a chart.
    pub fn draw(chart: &Chart) -> String {
        let mut svg = Self { out: String::new() };
        let _ = writeln!(
            svg.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(&chart.title)
        );
        svg.out.push_str(STYLE);
        let _ = writeln!(svg.out, "<rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>");
        let (x, title) = (LEFT, escape(&chart.title));
        let _ = writeln!(svg.out, "<text class=\"title\" x=\"{x}\" y=\"28\">{title}</text>");
        let values = chart.series.iter().flat_map(|series| series.points.iter().map(|p| p.1));
        let y = Axis::linear(values, BOTTOM, TOP);
        svg.y_axis(chart, &y);
        match chart.style {
            Style::Lines => svg.lines(chart, &y),
            Style::Bars => svg.bars(chart, &y),
        }
        svg.text(f64::midpoint(LEFT, RIGHT), HEIGHT - 14.0, Anchor::Middle, &chart.x_label);
        svg.legend(chart);
        svg.out.push_str("</svg>\n");
        svg.out
    }

    fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        let _ = writeln!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    /// A text that ends at its place and comes from the lower left.
    fn slanted(&mut self, x: f64, y: f64, text: &str) {
        let text = escape(text);
        let _ = writeln!(
            self.out,
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-24)\" text-anchor=\"end\">{text}</text>"
        );
    }

    fn rule(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let _ = writeln!(
            self.out,
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    fn y_axis(&mut self, chart: &Chart, y: &Axis) {
        for &mark in &y.marks {
            let at = y.place(mark);
            let class = if mark == 0.0 { "axis" } else { "grid" };
            self.rule(class, (LEFT, at), (RIGHT, at));
            self.text(LEFT - 8.0, at + 4.5, Anchor::End, &show(mark));
        }
        self.rule("axis", (LEFT, TOP), (LEFT, BOTTOM));
        let middle = f64::midpoint(TOP, BOTTOM);
        let _ = writeln!(
            self.out,
            "<text transform=\"translate(20 {middle:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            escape(&chart.y_label)
        );
    }

    fn lines(&mut self, chart: &Chart, y: &Axis) {
        let values = || chart.series.iter().flat_map(|series| series.points.iter().map(|p| p.0));
        let (from, to) = (LEFT + 14.0, RIGHT - 14.0);
        let x = if chart.log2_x {
            Axis::log2(values(), from, to)
        } else {
            Axis::linear(values(), from, to)
        };
        for &mark in &x.marks {
            let at = x.place(mark);
            self.rule("axis", (at, BOTTOM), (at, BOTTOM + 5.0));
            self.text(at, BOTTOM + 20.0, Anchor::Middle, &show(mark));
        }
        for (number, series) in chart.series.iter().enumerate() {
            let finite = series.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
            let places: Vec<(f64, f64)> =
                finite.map(|&(px, py)| (x.place(px), y.place(py))).collect();
            let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let (path, number) = (path.join(" "), painted(chart, number));
            let colour = colour(number);
            let dash = if series.printed { " stroke-dasharray=\"6 4\"" } else { "" };
            let _ = writeln!(
                self.out,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash} \
                 points=\"{path}\"/>"
            );
            for place in places {
                self.mark(number, series.printed, place);
            }
        }
    }

    /// A mark of the series: disc, square, diamond or triangle, hollow for printed numbers.
    fn mark(&mut self, series: usize, printed: bool, (x, y): (f64, f64)) {
        let colour = colour(series);
        let paint = if printed {
            format!("class=\"paper\" stroke=\"{colour}\" stroke-width=\"2\"")
        } else {
            format!("fill=\"{colour}\"")
        };
        let corners: &[(f64, f64)] = match series % 4 {
            0 => {
                let _ = writeln!(self.out, "<circle {paint} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>");
                return;
            }
            1 => &[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)],
            2 => &[(0.0, -5.5), (5.5, 0.0), (0.0, 5.5), (-5.5, 0.0)],
            _ => &[(0.0, -5.0), (5.0, 4.0), (-5.0, 4.0)],
        };
        let corners: Vec<String> =
            corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
        let _ = writeln!(self.out, "<polygon {paint} points=\"{}\"/>", corners.join(" "));
    }

    fn bars(&mut self, chart: &Chart, y: &Axis) {
        let group = (RIGHT - LEFT) / chart.groups.len().max(1) as f64;
        let bar = group * (1.0 - GAP) / chart.series.len().max(1) as f64;
        let zero = y.place(0.0);
        for (number, series) in chart.series.iter().enumerate() {
            for &(at, value) in &series.points {
                if !value.is_finite() || at < 0.0 || at >= chart.groups.len() as f64 {
                    continue;
                }
                let left = LEFT + group * (at + GAP / 2.0) + bar * number as f64;
                let (top, bottom) = (y.place(value).min(zero), y.place(value).max(zero));
                // A bar of nothing is still a line, so that its place does not look forgotten.
                let height = (bottom - top).max(1.0);
                let _ = writeln!(
                    self.out,
                    "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" {}/>",
                    bottom - height,
                    (bar - 1.0).max(1.0),
                    filling(painted(chart, number), series.printed)
                );
            }
        }
        // Names with a word that is wider than its group would run into each other.
        let wide = |name: &String| name.split(' ').any(|word| word.len() as f64 * 7.0 > group);
        let slanted = chart.groups.iter().any(wide);
        for (at, name) in chart.groups.iter().enumerate() {
            let middle = LEFT + group * (at as f64 + 0.5);
            if slanted {
                self.slanted(middle + 4.0, BOTTOM + 14.0, name);
                continue;
            }
            for (line, words) in wrap(name, (group / 7.5) as usize).iter().enumerate() {
                let down = BOTTOM + 18.0 + 14.0 * line as f64;
                self.text(middle, down, Anchor::Middle, words);
            }
        }
    }

    fn legend(&mut self, chart: &Chart) {
        for (number, series) in chart.series.iter().enumerate() {
            let at = (RIGHT + 24.0, TOP + 10.0 + 22.0 * number as f64);
            match chart.style {
                Style::Lines => self.mark(painted(chart, number), series.printed, at),
                Style::Bars => {
                    let _ = writeln!(
                        self.out,
                        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" {}/>",
                        at.0 - 6.0,
                        at.1 - 6.0,
                        filling(painted(chart, number), series.printed)
                    );
                }
            }
            self.text(at.0 + 14.0, at.1 + 4.5, Anchor::Start, &series.name);
        }
    }
}

/// The series whose colour a series has: printed numbers are painted like those beside them, whose
/// names begin with the same words.
fn painted(chart: &Chart, number: usize) -> usize {
    let series = &chart.series[number];
    let words = |name: &str| name.rsplit_once(", ").map(|(words, _)| words.to_owned());
    let beside =
        |other: &super::Series| !other.printed && words(&other.name) == words(&series.name);
    match words(&series.name) {
        Some(_) if series.printed => chart.series.iter().position(beside).unwrap_or(number),
        _ => number,
    }
}

/// How a bar is painted: hollow for printed numbers.
fn filling(series: usize, printed: bool) -> String {
    let colour = colour(series);
    if printed {
        format!("class=\"paper\" stroke=\"{colour}\" stroke-width=\"1.5\"")
    } else {
        format!("fill=\"{colour}\"")
    }
}

fn colour(series: usize) -> &'static str {
    COLOURS[series % COLOURS.len()]
}

/// Words in lines of about so many characters.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
