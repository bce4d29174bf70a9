//! One number as a row of a list: a view of a point.
//! Room: onefold-lab.

use crate::series::{At, Point, Series};

/// A point and the series that it is of.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The series.
    pub series: &'a Series,
    /// The point.
    pub point: &'a Point,
}

impl Row<'_> {
    /// Whose it is, under what.
    pub fn name(&self) -> String {
        self.series.line.label()
    }

    /// What it is, and where on its line.
    pub fn column(&self) -> String {
        let quantity = &self.series.line.quantity.name;
        match (&self.point.at, &self.series.line.over) {
            (At::Number(_), Some(over)) => {
                let unit = if over.unit.is_empty() { &over.name } else { &over.unit };
                format!("{quantity} at {} {unit}", self.point.at.label())
            }
            (At::Alone, _) => quantity.clone(),
            (at, _) => format!("{quantity}, {}", at.label()),
        }
    }

    /// The unit of its numbers.
    pub fn unit(&self) -> &str {
        match &self.point.published {
            Some(printed) => &printed.unit,
            None => &self.series.line.quantity.unit,
        }
    }
}

/// All points of some series.
pub fn rows(series: &[Series]) -> impl Iterator<Item = Row<'_>> {
    series.iter().flat_map(|series| series.points.iter().map(move |point| Row { series, point }))
}

/// A number for people: about three significant digits, without zeros at its end.
pub fn show(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size >= 10_000.0 => 0,
        _ if size >= 100.0 => 1,
        _ if size >= 1.0 => 2,
        _ if size >= 0.1 => 3,
        _ => 5,
    };
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text.as_str()
    };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_keep_their_meaning() {
        for (value, text) in [
            (0.0, "0"),
            (-0.000_001, "0"),
            (4_194_304.0, "4194304"),
            (1084.4, "1084.4"),
            (12_345.6, "12346"),
            (128.0, "128"),
            (17.28, "17.28"),
            (-1.5, "-1.5"),
            (0.3526, "0.353"),
            (0.004_55, "0.00455"),
        ] {
            assert_eq!(show(value), text);
        }
    }
}
