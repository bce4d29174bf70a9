//! Drawing a chart.
//! Room: onefold-lab.
//! Written by hand rather than with a library: those that are kept up draw on canvases or need a
//! browser, and those that write SVG bring fonts along (docs/dependencies.md). A dark page turns
//! paper and ink around.

use super::axis::Axis;
use super::palette::{Look, Mark};
use super::{Chart, Dot, Drawn, Style};
use crate::row::show;

const WIDTH: f64 = 800.0;
/// Where slanted names need no more.
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 356.0;
/// Where the plot ends and the legend begins.
const RIGHT: f64 = 570.0;
/// Between the ends of the axis and the first and last point of a line.
const INSET: f64 = 14.0;
/// Between the axis and names below it, and between these and what the axis shows.
const BELOW: f64 = 14.0;
/// Of a character, more than less.
const CHARACTER: f64 = 7.0;
/// Characters of a line of the legend.
const LEGEND: usize = 26;
/// Space between the groups of bars, of a group's width.
const GAP: f64 = 0.25;
/// How lines of the first, second, third and fourth setting are broken.
const DASHES: [&str; 4] =
    ["", " stroke-dasharray=\"8 4\"", " stroke-dasharray=\"2 3\"", " stroke-dasharray=\"9 3 2 3\""];

const STYLE: &str = "\
<style>
text { font: 13px Helvetica, Arial, 'DejaVu Sans', sans-serif; fill: #222 }
.title { font-size: 16px; font-weight: bold }
.paper, .hollow { fill: #ffffff }
.grid { stroke: #ddd }
.axis { stroke: #555 }
.range { stroke: #444; stroke-width: 1.2; fill: none }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd }
  .paper, .hollow { fill: #16181d }
  .grid { stroke: #3a3d45 }
  .axis { stroke: #999 }
  .range { stroke: #bbb }
}
</style>
";

/// How names are turned that are wider than their places, in degrees, and the sine of that.
#[derive(Clone, Copy)]
struct Slant {
    degrees: i32,
    sine: f64,
}

/// The width of a place that has a name.
fn place_width(chart: &Chart) -> f64 {
    let inset = match chart.style {
        Style::Lines => INSET,
        Style::Bars => 0.0,
    };
    (RIGHT - LEFT - 2.0 * inset) / chart.groups.len().max(1) as f64
}

/// How the names of places are turned; none if each of their words fits.
fn slant(chart: &Chart) -> Option<Slant> {
    let width = place_width(chart);
    let wide = |name: &String| name.split(' ').any(|word| word.len() as f64 * CHARACTER > width);
    // Many names would lie over one another at a small slant.
    let steep = Slant { degrees: -40, sine: 0.643 };
    let slant = if width < 30.0 { steep } else { Slant { degrees: -24, sine: 0.407 } };
    chart.groups.iter().any(wide).then_some(slant)
}

/// The height of a drawing: slanted names end above what the axis shows.
fn height(chart: &Chart) -> f64 {
    let Some(slant) = slant(chart) else { return HEIGHT };
    let longest = chart.groups.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let deep = longest as f64 * CHARACTER * slant.sine;
    (BOTTOM + BELOW + deep + BELOW + 13.0).ceil().max(HEIGHT)
}

/// A drawing in the making.
pub struct Svg {
    out: String,
}

impl Svg {
    /// Draws a chart.
    pub fn draw(chart: &Chart) -> String {
        let mut svg = Self { out: String::new() };
        let (title, height) = (escape(&chart.title), height(chart));
        svg.line(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">"
        ));
        svg.out.push_str(STYLE);
        svg.line(&format!("<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>"));
        svg.line(&format!("<text class=\"title\" x=\"{LEFT}\" y=\"28\">{title}</text>"));
        let of = |drawn: &Drawn| {
            let ranges = drawn.dots.iter().filter_map(|dot| dot.range);
            let mut values: Vec<f64> = ranges.flat_map(|(low, high)| [low, high]).collect();
            values.extend(drawn.dots.iter().map(|dot| dot.y));
            values.extend(drawn.printed.iter().map(|dot| dot.1));
            values
        };
        let y = Axis::linear(chart.drawn.iter().flat_map(of), BOTTOM, TOP);
        svg.y_axis(chart, &y);
        match chart.style {
            Style::Lines => svg.lines(chart, &y),
            Style::Bars => svg.bars(chart, &y),
        }
        svg.text(f64::midpoint(LEFT, RIGHT), height - 8.0, "middle", &chart.x_label);
        svg.legend(chart);
        svg.line("</svg>");
        svg.out
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let text = escape(text);
        self.line(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    /// A text that is turned around the place where it is anchored.
    fn turned(&mut self, (x, y): (f64, f64), degrees: i32, anchor: &str, text: &str) {
        let text = escape(text);
        self.line(&format!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate({degrees})\" \
             text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    fn rule(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.line(&format!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    fn y_axis(&mut self, chart: &Chart, y: &Axis) {
        for &mark in &y.marks {
            let at = y.place(mark);
            let class = if mark == 0.0 { "axis" } else { "grid" };
            self.rule(class, (LEFT, at), (RIGHT, at));
            self.text(LEFT - 8.0, at + 4.5, "end", &show(mark));
        }
        self.rule("axis", (LEFT, TOP), (LEFT, BOTTOM));
        self.turned((20.0, f64::midpoint(TOP, BOTTOM)), -90, "middle", &chart.y_label);
    }

    /// The names of places below the axis: in lines, or slanted if a word is wider than its place.
    fn names(&mut self, chart: &Chart, places: &[f64]) {
        let slant = slant(chart);
        for (name, &middle) in chart.groups.iter().zip(places) {
            if let Some(slant) = slant {
                self.turned((middle + 4.0, BOTTOM + BELOW), slant.degrees, "end", name);
                continue;
            }
            let words = wrap(name, (place_width(chart) / 7.5) as usize);
            for (line, words) in words.iter().enumerate() {
                self.text(middle, BOTTOM + 18.0 + 14.0 * line as f64, "middle", words);
            }
        }
    }

    fn lines(&mut self, chart: &Chart, y: &Axis) {
        let places = |drawn: &Drawn| {
            let printed = drawn.printed.iter().map(|dot| dot.0);
            drawn.dots.iter().map(|dot| dot.x).chain(printed).collect::<Vec<f64>>()
        };
        let values = chart.drawn.iter().flat_map(places);
        let (from, to) = (LEFT + INSET, RIGHT - INSET);
        let doubling = chart.doubling && chart.groups.is_empty();
        let x =
            if doubling { Axis::log2(values, from, to) } else { Axis::linear(values, from, to) };
        if chart.groups.is_empty() {
            for &mark in &x.marks {
                let at = x.place(mark);
                self.rule("axis", (at, BOTTOM), (at, BOTTOM + 5.0));
                self.text(at, BOTTOM + 20.0, "middle", &show(mark));
            }
        } else {
            let places: Vec<f64> = (0..chart.groups.len()).map(|at| x.place(at as f64)).collect();
            self.names(chart, &places);
        }
        for drawn in &chart.drawn {
            let path: Vec<String> = (drawn.dots.iter())
                .map(|dot| format!("{:.1},{:.1}", x.place(dot.x), y.place(dot.y)))
                .collect();
            self.line(&format!(
                "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{} points=\"{}\"/>",
                drawn.look.colour,
                DASHES[drawn.setting % DASHES.len()],
                path.join(" ")
            ));
            for dot in &drawn.dots {
                self.range(x.place(dot.x), dot, y);
                self.mark(drawn.look, false, (x.place(dot.x), y.place(dot.y)));
            }
            for printed in &drawn.printed {
                self.mark(drawn.look, true, (x.place(printed.0), y.place(printed.1)));
            }
        }
    }

    /// An error bar.
    fn range(&mut self, x: f64, dot: &Dot, y: &Axis) {
        let Some((low, high)) = dot.range else { return };
        let (low, high) = (y.place(low), y.place(high));
        let (left, right) = (x - 3.0, x + 3.0);
        self.line(&format!(
            "<path class=\"range\" d=\"M{left:.1} {low:.1}H{right:.1}M{x:.1} {low:.1}V{high:.1}\
             M{left:.1} {high:.1}H{right:.1}\"/>"
        ));
    }

    /// A mark, hollow for a printed number.
    fn mark(&mut self, look: Look, printed: bool, (x, y): (f64, f64)) {
        let paint = paint(look, printed);
        let corners: &[(f64, f64)] = match look.mark {
            Mark::Disc => {
                self.line(&format!("<circle {paint} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"));
                return;
            }
            Mark::Square => &[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)],
            Mark::Diamond => &[(0.0, -5.5), (5.5, 0.0), (0.0, 5.5), (-5.5, 0.0)],
            Mark::Triangle => &[(0.0, -5.0), (5.0, 4.0), (-5.0, 4.0)],
        };
        let corners: Vec<String> =
            corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
        self.line(&format!("<polygon {paint} points=\"{}\"/>", corners.join(" ")));
    }

    /// Bars of every series; what is printed stands beside each of ours.
    fn bars(&mut self, chart: &Chart, y: &Axis) {
        let width = |drawn: &Drawn| 1 + usize::from(!drawn.printed.is_empty());
        let slots: usize = chart.drawn.iter().map(width).sum();
        let group = place_width(chart);
        let bar = group * (1.0 - GAP) / slots.max(1) as f64;
        let left = |at: f64, slot: usize| LEFT + group * (at + GAP / 2.0) + bar * slot as f64;
        let mut slot = 0;
        for drawn in &chart.drawn {
            for dot in &drawn.dots {
                self.bar(drawn.look, false, (left(dot.x, slot), bar), dot.y, y);
                self.range(left(dot.x, slot) + bar / 2.0, dot, y);
            }
            for &(at, value) in &drawn.printed {
                self.bar(drawn.look, true, (left(at, slot + 1), bar), value, y);
            }
            slot += width(drawn);
        }
        let middle = |at: usize| LEFT + group * (at as f64 + 0.5);
        let places: Vec<f64> = (0..chart.groups.len()).map(middle).collect();
        self.names(chart, &places);
    }

    fn bar(&mut self, look: Look, printed: bool, (left, width): (f64, f64), value: f64, y: &Axis) {
        let zero = y.place(0.0);
        let (top, bottom) = (y.place(value).min(zero), y.place(value).max(zero));
        // A bar of nothing is still a line, so that its place does not look forgotten.
        let height = (bottom - top).max(1.0);
        self.line(&format!(
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" {}/>",
            bottom - height,
            (width - 1.0).max(1.0),
            paint(look, printed)
        ));
    }

    fn legend(&mut self, chart: &Chart) {
        let (x, mut y) = (RIGHT + 24.0, TOP + 10.0);
        for drawn in &chart.drawn {
            match chart.style {
                Style::Lines => {
                    let dash = DASHES[drawn.setting % DASHES.len()];
                    let (from, to, colour) = (x - 16.0, x + 16.0, drawn.look.colour);
                    self.line(&format!(
                        "<line x1=\"{from}\" y1=\"{y}\" x2=\"{to}\" y2=\"{y}\" stroke=\"{colour}\" \
                         stroke-width=\"2\"{dash}/>"
                    ));
                    self.mark(drawn.look, false, (x, y));
                }
                Style::Bars => self.key(drawn.look, false, (x, y)),
            }
            for words in wrap(&drawn.name, LEGEND) {
                self.text(x + 22.0, y + 4.5, "start", &words);
                y += 15.0;
            }
            y += 7.0;
        }
        if let Some(drawn) = chart.drawn.iter().find(|drawn| !drawn.printed.is_empty()) {
            match chart.style {
                Style::Lines => self.mark(drawn.look, true, (x, y)),
                Style::Bars => self.key(drawn.look, true, (x, y)),
            }
            self.text(x + 22.0, y + 4.5, "start", "printed");
        }
    }

    fn key(&mut self, look: Look, printed: bool, (x, y): (f64, f64)) {
        let (x, y, paint) = (x - 6.0, y - 6.0, paint(look, printed));
        self.line(&format!("<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\" {paint}/>"));
    }
}

/// How a mark or a bar is painted: hollow for printed numbers.
fn paint(look: Look, printed: bool) -> String {
    if printed {
        format!("class=\"hollow\" stroke=\"{}\" stroke-width=\"1.8\"", look.colour)
    } else {
        format!("fill=\"{}\"", look.colour)
    }
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
