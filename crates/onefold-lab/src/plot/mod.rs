//! Charts as SVG, readable on light and dark pages.
//! Room: onefold-lab.   In: [`Series`] and a [`Drawing`] of a spec.   Out: SVG text, the same for
//! the same numbers.
//! Invariants: (1) a chart shows numbers of series and nothing else: axes say their quantities and
//! units, ranges are error bars  (2) what a paper prints is hollow, in the colour of what stands
//! beside it  (3) colours and marks are those of [`palette`].

mod axis;
pub mod palette;
mod svg;

use serde::Deserialize;

use crate::series::{At, Series};
use palette::Look;
use svg::Svg;

/// How points are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// A line for each series.
    #[default]
    Lines,
    /// Bars side by side, a group for each place.
    Bars,
}

/// Which series of an experiment a chart shows, and how; a `[[chart]]` of its spec.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drawing {
    /// The name of the file; of a single chart the experiment's.
    #[serde(default)]
    pub file: String,
    /// The heading.
    pub title: String,
    /// The quantity that is drawn.
    pub quantity: String,
    /// The settings that are drawn; all if there are none.
    #[serde(default)]
    pub settings: Vec<String>,
    /// Whose series are not drawn.
    #[serde(default)]
    pub hide: Vec<String>,
    /// Lines or bars.
    #[serde(default)]
    pub style: Style,
    /// Whether doublings are equal steps.
    #[serde(default)]
    pub doubling: bool,
    /// Whose numbers all others are divided by, place by place.
    #[serde(default)]
    pub relative_to: String,
}

/// A number on a chart.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Dot {
    x: f64,
    y: f64,
    range: Option<(f64, f64)>,
}

/// A series on a chart, or several that lie on each other.
#[derive(Clone, Debug, PartialEq)]
struct Drawn {
    name: String,
    look: Look,
    /// Which setting it is of; lines of different ones are broken differently.
    setting: usize,
    dots: Vec<Dot>,
    /// What is printed, for some of them.
    printed: Vec<(f64, f64)>,
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The heading.
    pub title: String,
    x_label: String,
    y_label: String,
    style: Style,
    doubling: bool,
    /// Names of the places, where they are names.
    groups: Vec<String>,
    drawn: Vec<Drawn>,
}

impl Drawing {
    /// Draws the series that it is about.
    pub fn draw(&self, all: &[Series]) -> Chart {
        let wanted = |series: &&Series| {
            series.line.quantity.name == self.quantity
                && (self.settings.is_empty() || self.settings.contains(&series.line.setting))
        };
        let base: Vec<&Series> = all.iter().filter(wanted).collect();
        let shown = base.iter().filter(|series| !self.hide.contains(&series.line.of));
        let shown: Vec<&Series> = shown.copied().collect();
        let mut settings: Vec<&str> = Vec::new();
        let mut groups: Vec<String> = Vec::new();
        for series in &shown {
            if !settings.contains(&series.line.setting.as_str()) {
                settings.push(&series.line.setting);
            }
            for point in &series.points {
                let label = point.at.label();
                let named = self.style == Style::Bars || matches!(point.at, At::Name(_));
                if named && !groups.contains(&label) {
                    groups.push(label);
                }
            }
        }
        let mut drawn = Vec::new();
        for (number, series) in shown.iter().enumerate() {
            let setting = settings.iter().position(|s| *s == series.line.setting).unwrap_or(0);
            let name =
                if settings.len() > 1 { series.line.label() } else { series.line.of.clone() };
            let look = palette::of(&series.line.of, number);
            let (dots, printed) = self.dots(series, &base, &groups);
            drawn.push(Drawn { name, look, setting, dots, printed });
        }
        let title = match settings.as_slice() {
            [setting] if !setting.is_empty() => format!("{} ({setting})", self.title),
            _ => self.title.clone(),
        };
        let first = shown.first().map(|series| &series.line);
        let over = first.and_then(|line| line.over.as_ref());
        let y = first.map_or_else(String::new, |line| line.quantity.label());
        Chart {
            title,
            x_label: over.map_or_else(String::new, crate::series::Quantity::label),
            y_label: match (self.relative_to.as_str(), first) {
                ("", _) | (_, None) => y,
                (to, Some(line)) => format!("{} (that of {to} = 1)", line.quantity.name),
            },
            style: self.style,
            doubling: self.doubling,
            groups,
            drawn: if self.style == Style::Lines { joined(drawn) } else { drawn },
        }
    }

    /// The numbers of a series and what is printed beside them.
    fn dots(&self, series: &Series, base: &[&Series], groups: &[String]) -> (Vec<Dot>, Printed) {
        let unit = |at: &At| {
            let whose = |other: &&&Series| {
                other.line.of == self.relative_to && other.line.setting == series.line.setting
            };
            let mut points = base.iter().find(whose).into_iter().flat_map(|other| &other.points);
            let found = points.find(|point| point.at == *at).and_then(|point| point.measured);
            if self.relative_to.is_empty() { 1.0 } else { found.unwrap_or(f64::NAN) }
        };
        let (mut dots, mut printed) = (Vec::new(), Vec::new());
        for point in &series.points {
            let place = groups.iter().position(|group| *group == point.at.label());
            let x = match (&point.at, place) {
                (_, Some(place)) => place as f64,
                (At::Number(at), None) => *at,
                _ => 0.0,
            };
            let unit = unit(&point.at);
            let range = point.range.map(|range| (range.low / unit, range.high / unit));
            let y = point.measured.map(|value| value / unit).filter(|value| value.is_finite());
            dots.extend(y.map(|y| Dot { x, y, range }));
            let same = |of: &&crate::series::Printed| of.unit == series.line.quantity.unit;
            printed.extend(point.published.as_ref().filter(same).map(|p| (x, p.value / unit)));
        }
        (dots, printed)
    }
}

type Printed = Vec<(f64, f64)>;

/// Lines that differ by less than one can see become one with all their names.
fn joined(all: Vec<Drawn>) -> Vec<Drawn> {
    let values = || all.iter().flat_map(|drawn| &drawn.dots).map(|dot| dot.y.abs());
    let seen = values().fold(0.0, f64::max) / 300.0;
    let mut kept: Vec<Drawn> = Vec::new();
    for drawn in all {
        let alike = |other: &&mut Drawn| {
            let near = |(a, b): (&Dot, &Dot)| (a.x - b.x).abs() < 1e-9 && (a.y - b.y).abs() < seen;
            drawn.printed.is_empty()
                && other.printed.is_empty()
                && drawn.dots.len() > 1
                && drawn.dots.len() == other.dots.len()
                && drawn.dots.iter().zip(&other.dots).all(near)
        };
        match kept.iter_mut().find(alike) {
            Some(other) => {
                other.name += ", ";
                other.name += &drawn.name;
            }
            None => kept.push(drawn),
        }
    }
    kept
}

impl Chart {
    /// The chart as a file.
    pub fn svg(&self) -> String {
        Svg::draw(self)
    }

    /// How many numbers it shows, printed ones among them.
    pub fn numbers(&self) -> usize {
        self.drawn.iter().map(|drawn| drawn.dots.len() + drawn.printed.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(style: Style, dots: &[(f64, f64)], printed: &[(f64, f64)]) -> Chart {
        let dots = dots.iter().map(|&(x, y)| Dot { x, y, range: Some((y - 1.0, y + 1.0)) });
        let drawn = Drawn {
            name: "a < b".to_owned(),
            look: palette::of("LRU", 0),
            setting: 0,
            dots: dots.collect(),
            printed: printed.to_vec(),
        };
        Chart {
            title: "t & u".to_owned(),
            x_label: "x".to_owned(),
            y_label: "y".to_owned(),
            style,
            doubling: true,
            groups: vec!["g".to_owned(), "h".to_owned()],
            drawn: vec![drawn],
        }
    }

    #[test]
    fn words_are_escaped_printed_numbers_hollow_and_ranges_drawn() {
        for style in [Style::Lines, Style::Bars] {
            let svg = chart(style, &[(1.0, 4.0)], &[(1.0, 5.0)]).svg();
            assert!(svg.contains("t &amp; u") && svg.contains("a &lt; b"), "{svg}");
            assert!(svg.contains("class=\"hollow\"") && svg.contains(">printed<"), "{svg}");
            assert_eq!(svg.matches("class=\"range\"").count(), 1, "{svg}");
            assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"));
            assert!(!chart(style, &[(1.0, 4.0)], &[]).svg().contains("class=\"hollow\""));
            assert!(chart(style, &[], &[]).svg().ends_with("</svg>\n"));
        }
    }

    #[test]
    fn what_cannot_be_told_apart_is_one_line_with_two_names() {
        let one = |name: &str, dots: &[(f64, f64)]| Drawn {
            name: name.to_owned(),
            ..chart(Style::Lines, dots, &[]).drawn.remove(0)
        };
        let (low, high) = ([(0.0, 1.0), (1.0, 2.0)], [(0.0, 1.0), (1.0, 300.0)]);
        let kept = joined(vec![one("a", &low), one("b", &high), one("c", &low)]);
        let names: Vec<&str> = kept.iter().map(|drawn| drawn.name.as_str()).collect();
        assert_eq!(names, ["a, c", "b"]);
        // Elsewhere, or with something printed beside one of them, they are two.
        let aside = [(0.0, 1.0), (2.0, 2.0)];
        assert_eq!(joined(vec![one("a", &low), one("b", &high), one("c", &aside)]).len(), 3);
        for printed in [0, 2] {
            let mut all = vec![one("a", &low), one("b", &high), one("c", &low)];
            all[printed].printed.push((0.0, 1.0));
            assert_eq!(joined(all).len(), 3);
        }
        let point = |name| one(name, &[(0.0, 1.0)]);
        assert_eq!(joined(vec![point("a"), point("b")]).len(), 2, "points are no lines");
    }

    #[test]
    fn bars_stand_beside_what_is_printed_and_ranges_end_where_they_are_said_to() {
        let mut one = chart(Style::Bars, &[(0.0, 4.0)], &[(0.0, 5.0)]);
        one.groups.truncate(1);
        let svg = one.svg();
        // From 0 at the bottom, 356, to 5 at the top, 52; three quarters of the width are bars.
        for part in [
            "<rect x=\"132.5\" y=\"112.8\" width=\"186.5\" height=\"243.2\" fill=",
            "<rect x=\"320.0\" y=\"52.0\" width=\"186.5\" height=\"304.0\" class=\"hollow\"",
            "d=\"M223.2 173.6H229.2M226.2 173.6V52.0M223.2 52.0H229.2\"",
        ] {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        one.drawn[0].printed.clear();
        assert!(one.svg().contains("x=\"132.5\" y=\"112.8\" width=\"374.0\""), "{}", one.svg());
        // The axis reaches what is printed.
        assert!(chart(Style::Lines, &[(1.0, 4.0)], &[(1.0, 50.0)]).svg().contains(">50</text>"));
        // A word that is wider than its place is slanted, and one that is not stands level.
        let named = |letters: usize| {
            let mut chart = chart(Style::Lines, &[(0.0, 1.0), (3.0, 2.0)], &[]);
            chart.groups = (0..4).map(|group| format!("{group}").repeat(letters)).collect();
            chart.svg()
        };
        assert!(named(17).contains("translate(88.0 370.0) rotate(-24)"), "{}", named(17));
        // The longest ends above what the axis shows.
        for (letters, height) in [(16, 440), (17, 446), (30, 483)] {
            let svg = named(letters);
            assert!(svg.contains(&format!("viewBox=\"0 0 800 {height}\"")), "{svg}");
        }
        let level = named(16);
        assert!(!level.contains("rotate(-24)") && level.contains(&"0".repeat(16)), "{level}");
    }

    fn series(of: &str, setting: &str, values: &[(f64, f64)]) -> Series {
        let line = crate::series::Line::new("life", "years").over("share", "%");
        let point = |&(at, value): &(f64, f64)| crate::series::Point {
            at: at.into(),
            measured: Some(value),
            range: None,
            published: None,
            deviation: None,
            kind: crate::judged::Kind::Measured,
            note: String::new(),
        };
        let points = values.iter().map(point).collect();
        Series { line: line.of(of).under(setting), seeds: vec![], points }
    }

    #[test]
    fn a_chart_shows_what_its_drawing_names_and_says_under_what_and_beside_whom() {
        let mut ours = series("ours", "SLC", &[(0.0, 4.0), (10.0, 9.0), (20.0, 1.0)]);
        ours.points[1].range(6.0, 12.0, crate::series::Spread::Extremes);
        let mut other = series("other", "SLC", &[(0.0, 8.0)]);
        other.line.quantity.name = "time".to_owned();
        let all = [
            series("none", "SLC", &[(0.0, 2.0), (10.0, 3.0)]),
            ours,
            series("ours", "TLC", &[(0.0, 5.0), (10.0, 6.0)]),
            series("none", "TLC", &[(0.0, 5.0), (10.0, 2.0)]),
            other,
        ];
        let drawing = |text: &str| -> Drawing {
            toml::from_str(&format!("title = 'Life'\nquantity = 'life'\n{text}")).unwrap()
        };
        let dots = |chart: &Chart| -> Vec<(String, Vec<(f64, f64)>)> {
            let of = |drawn: &Drawn| drawn.dots.iter().map(|dot| (dot.x, dot.y)).collect();
            chart.drawn.iter().map(|drawn| (drawn.name.clone(), of(drawn))).collect()
        };
        let slc = drawing("settings = ['SLC']\nhide = ['none']\n").draw(&all);
        assert_eq!(slc.title, "Life (SLC)");
        assert_eq!((slc.x_label.as_str(), slc.y_label.as_str()), ("share (%)", "life (years)"));
        let values = vec![(0.0, 4.0), (10.0, 9.0), (20.0, 1.0)];
        assert_eq!(dots(&slc), [("ours".to_owned(), values)]);
        assert_eq!(slc.drawn[0].dots[1].range, Some((6.0, 12.0)));
        // Beside whom is not drawn, and a place that it has not is left out.
        let beside = drawing("hide = ['none']\nrelative_to = 'none'\n").draw(&all);
        assert_eq!(
            (beside.title.as_str(), beside.y_label.as_str()),
            ("Life", "life (that of none = 1)")
        );
        let expected = [
            ("ours; SLC".to_owned(), vec![(0.0, 2.0), (10.0, 3.0)]),
            ("ours; TLC".to_owned(), vec![(0.0, 1.0), (10.0, 3.0)]),
        ];
        assert_eq!(dots(&beside), expected);
        assert_eq!(beside.drawn[0].dots[1].range, Some((2.0, 4.0)));
        assert_eq!(beside.drawn.iter().map(|one| one.setting).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(beside.numbers(), 4);
        // Bars have a group for each place.
        let bars = drawing("style = 'bars'\nsettings = ['TLC']\n").draw(&all);
        assert_eq!(bars.groups, ["0", "10"]);
        assert_eq!(dots(&bars)[1].1, [(0.0, 5.0), (1.0, 2.0)]);
    }
}
