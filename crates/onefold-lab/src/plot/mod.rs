//! Charts as SVG, readable on light and dark pages.
//! Room: onefold-lab.   In: [`Chart`].   Out: SVG text, the same for the same chart.

mod axis;
mod svg;

use svg::Svg;

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// One line per series.
    Lines,
    /// Bars side by side, one group per label; a point's x is the number of its group.
    Bars,
}

/// Points of one colour.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What the legend says.
    pub name: String,
    /// Points, by growing x.
    pub points: Vec<(f64, f64)>,
    /// Whether these are numbers that a paper prints: hollow marks and broken lines.
    pub printed: bool,
}

impl Series {
    /// The series of a chart with this name; a new one if there is none.
    pub fn of<'a>(chart: &'a mut Chart, name: &str) -> &'a mut Self {
        let found = chart.series.iter().position(|series| series.name == name);
        let at = found.unwrap_or_else(|| {
            let name = name.to_owned();
            chart.series.push(Self { name, points: Vec::new(), printed: false });
            chart.series.len() - 1
        });
        &mut chart.series[at]
    }
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The heading.
    pub title: String,
    /// What x is, with its unit.
    pub x_label: String,
    /// What y is, with its unit.
    pub y_label: String,
    /// Lines or bars.
    pub style: Style,
    /// Whether x doubles from mark to mark.
    pub log2_x: bool,
    /// Names of the groups of bars.
    pub groups: Vec<String>,
    /// What is drawn.
    pub series: Vec<Series>,
}

impl Chart {
    /// A chart of lines without any yet.
    pub fn lines(title: &str, x_label: &str, y_label: &str) -> Self {
        Self::new(Style::Lines, title, x_label, y_label)
    }

    /// A chart of bars without any yet.
    pub fn bars(title: &str, x_label: &str, y_label: &str) -> Self {
        Self::new(Style::Bars, title, x_label, y_label)
    }

    fn new(style: Style, title: &str, x_label: &str, y_label: &str) -> Self {
        Self {
            title: title.to_owned(),
            x_label: x_label.to_owned(),
            y_label: y_label.to_owned(),
            style,
            log2_x: false,
            groups: Vec::new(),
            series: Vec::new(),
        }
    }

    /// The chart as a file.
    pub fn svg(&self) -> String {
        Svg::draw(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_escaped_and_odd_charts_are_drawn() {
        let mut chart = Chart::lines("a < b & c", "x", "y");
        assert!(chart.svg().contains("a &lt; b &amp; c"));
        Series::of(&mut chart, "one point").points.push((4.0, 0.0));
        Series::of(&mut chart, "no point");
        chart.log2_x = true;
        let svg = chart.svg();
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let mut chart = Chart::bars("t", "x", "y");
        chart.groups = vec!["g".to_owned(), "h".to_owned()];
        Series::of(&mut chart, "s").points = vec![(0.0, 3.0), (1.0, -2.0), (7.0, f64::NAN)];
        let svg = chart.svg();
        assert!(svg.matches("<rect").count() >= 3 && !svg.contains("NaN"), "{svg}");
    }
}
