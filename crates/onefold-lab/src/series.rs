//! What an experiment finds: numbers of a quantity, over something, with units, seeds and ranges.
//! Room: onefold-lab.   In: an experiment's calls.   Out: [`Series`] and [`Claim`]s.
//! Rows, tables, charts and JSON are views of this; none of them takes a name apart.
//! Invariants: (1) a line is one series, whoever adds points to it  (2) a published number stands
//! beside one point at most  (3) what kind of number a published one is comes from the spec alone.

use serde::Serialize;

use crate::error::{LabError, Result};
use crate::judged::{Judged, Kind};
use crate::published::{Number, Published, Role};
use crate::settings::Settings;

/// What is measured, and its unit; the unit is empty for plain numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Quantity {
    /// In words.
    pub name: String,
    /// Its unit.
    pub unit: String,
}

impl Quantity {
    fn new(name: &str, unit: &str) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned() }
    }

    /// Name and unit, as an axis says them.
    pub fn label(&self) -> String {
        match self.unit.as_str() {
            "" => self.name.clone(),
            unit => format!("{} ({unit})", self.name),
        }
    }
}

/// Where on its line a point is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum At {
    /// At a number of the quantity that the line is over.
    Number(f64),
    /// At one of its names, such as a workload.
    Name(String),
    /// The only point of its line.
    Alone,
}

impl From<u64> for At {
    fn from(value: u64) -> Self {
        Self::Number(value as f64)
    }
}

impl From<f64> for At {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<&str> for At {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<()> for At {
    fn from((): ()) -> Self {
        Self::Alone
    }
}

impl At {
    /// As tables say it.
    pub fn label(&self) -> String {
        match self {
            Self::Number(value) => crate::row::show(*value),
            Self::Name(name) => name.clone(),
            Self::Alone => String::new(),
        }
    }
}

/// What ties the points of a series together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// What is measured.
    pub quantity: Quantity,
    /// Of whom: a policy, a kind of flash, a data set.
    pub of: String,
    /// Under what, if the same is measured under several things.
    pub setting: String,
    /// What varies along the line; nothing for a single number.
    pub over: Option<Quantity>,
}

impl Line {
    /// A quantity and its unit.
    pub fn new(name: &str, unit: &str) -> Self {
        let quantity = Quantity::new(name, unit);
        Self { quantity, of: String::new(), setting: String::new(), over: None }
    }

    /// The same over something that varies.
    #[must_use]
    pub fn over(&self, name: &str, unit: &str) -> Self {
        Self { over: Some(Quantity::new(name, unit)), ..self.clone() }
    }

    /// The same of someone.
    #[must_use]
    pub fn of(&self, of: &str) -> Self {
        Self { of: of.to_owned(), ..self.clone() }
    }

    /// The same under something.
    #[must_use]
    pub fn under(&self, setting: &str) -> Self {
        Self { setting: setting.to_owned(), ..self.clone() }
    }

    /// Whose it is and under what.
    pub fn label(&self) -> String {
        match (self.of.as_str(), self.setting.as_str()) {
            (of, "") => of.to_owned(),
            ("", setting) => setting.to_owned(),
            (of, setting) => format!("{of}; {setting}"),
        }
    }
}

/// What a range around a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// The least and the most of all runs.
    Extremes,
    /// Where the mean lies with 95 % confidence, by Student's t.
    Confidence95,
}

/// A range around a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// What it is.
    pub spread: Spread,
}

/// A published number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Printed {
    /// Its name in `published.toml`.
    pub id: String,
    /// The table, figure or section that prints it.
    #[serde(rename = "where")]
    pub place: String,
    /// Its row and column there.
    pub name: String,
    /// The number.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Under which conditions it holds.
    pub config: String,
    /// The day on which the kind of number was fixed in the spec; empty for inputs.
    pub fixed: String,
    /// Why it is of that kind.
    pub why: String,
    /// What was chosen after the result had been seen; empty if nothing was.
    pub after: String,
    /// Whether it is one of the paper's main claims.
    pub headline: bool,
}

/// A number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Where on its line.
    pub at: At,
    /// What came out; nothing where a quantity has no value, as the note says.
    pub measured: Option<f64>,
    /// The range around it.
    pub range: Option<Range>,
    /// What a paper prints for it.
    pub published: Option<Printed>,
    /// Measured minus published, in the unit of both.
    pub deviation: Option<f64>,
    /// How it came about.
    pub kind: Kind,
    /// What a reader should know.
    pub note: String,
}

impl Point {
    /// The same without the printed number.
    #[must_use]
    pub fn without_printed(&self) -> Self {
        Self { published: None, ..self.clone() }
    }

    /// Adds a note.
    pub fn note(&mut self, note: impl Into<String>) -> &mut Self {
        self.note = note.into();
        self
    }

    /// Adds a range.
    pub fn range(&mut self, low: f64, high: f64, spread: Spread) -> &mut Self {
        self.range = (low.is_finite() && high.is_finite()).then_some(Range { low, high, spread });
        self
    }
}

/// Points of one line, in the order in which they were found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// What ties them together.
    #[serde(flatten)]
    pub line: Line,
    /// Seeds that every point is the mean of.
    pub seeds: Vec<u64>,
    /// The points.
    pub points: Vec<Point>,
}

/// Whether what a picture shows is so here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claim {
    /// Its name in `published.toml`.
    pub id: String,
    /// What the picture shows, in words.
    pub says: String,
    /// Whether it is so here.
    pub holds: bool,
    /// The figures by which that was decided.
    pub figure: String,
}

/// All that an experiment finds.
#[derive(Clone, Debug)]
pub struct Data {
    id: &'static str,
    published: Published,
    judged: Vec<Judged>,
    seeds: Vec<u64>,
    /// Its series.
    pub series: Vec<Series>,
    /// What its pictures show.
    pub claims: Vec<Claim>,
}

impl Data {
    /// Nothing yet.
    pub fn new(settings: &Settings<'_>) -> Self {
        let seeds = settings.numbers("seeds").or_else(|_| Ok(vec![settings.number("seed")?]));
        Self {
            id: settings.id,
            published: settings.published.clone(),
            judged: settings.spec.judged.clone(),
            seeds: seeds.unwrap_or_else(|_: LabError| Vec::new()),
            series: Vec::new(),
            claims: Vec::new(),
        }
    }

    /// Adds a number at a place of a line.
    pub fn put(
        &mut self,
        line: &Line,
        at: impl Into<At>,
        measured: impl Into<Option<f64>>,
    ) -> &mut Point {
        let known = self.series.iter().position(|series| series.line == *line);
        let index = known.unwrap_or_else(|| {
            let (line, seeds) = (line.clone(), self.seeds.clone());
            self.series.push(Series { line, seeds, points: Vec::new() });
            self.series.len() - 1
        });
        let points = &mut self.series[index].points;
        points.push(Point {
            at: at.into(),
            measured: measured.into().filter(|value| value.is_finite()),
            range: None,
            published: None,
            deviation: None,
            kind: Kind::Measured,
            note: String::new(),
        });
        points.last_mut().expect("one was pushed")
    }

    /// Adds a number beside the one that a paper prints in a row and column.
    pub fn beside(
        &mut self,
        (row, column): (&str, &str),
        line: &Line,
        at: impl Into<At>,
        measured: f64,
    ) -> Result<&mut Point> {
        let number = self.published.number(row, column)?.clone();
        self.beside_number(&number, line, at, measured)
    }

    /// The same for tables in which names repeat.
    pub fn beside_number(
        &mut self,
        number: &Number,
        line: &Line,
        at: impl Into<At>,
        measured: f64,
    ) -> Result<&mut Point> {
        let (kind, printed) = self.judge(number)?;
        let point = self.put(line, at, measured);
        point.deviation = Some(measured - number.value);
        (point.kind, point.published) = (kind, Some(printed));
        Ok(point)
    }

    /// The numbers that the paper prints.
    pub fn printed(&self, row: &str, column: &str) -> Result<f64> {
        self.published.value(row, column)
    }

    /// Says whether what a picture shows is so here.
    pub fn shows(&mut self, shape: &str, holds: bool, figure: impl Into<String>) -> Result<()> {
        let shape = self.published.shape(shape)?;
        let (id, says) = (shape.id.clone(), shape.says.clone());
        self.claims.push(Claim { id, says, holds, figure: figure.into() });
        Ok(())
    }

    /// The numbers of a line with their places, where both are numbers.
    pub fn curve(&self, line: &Line) -> Vec<(f64, f64)> {
        let series = self.series.iter().find(|series| series.line == *line);
        let points = series.iter().flat_map(|series| &series.points);
        let number = |point: &Point| match point.at {
            At::Number(at) => Some((at, point.measured?)),
            _ => None,
        };
        points.filter_map(number).collect()
    }

    /// The published numbers that nothing stands beside, each with its kind. Every number and every
    /// shape has to be met once.
    pub fn rest(&self) -> Result<Vec<(Kind, Printed)>> {
        let wrong = |problem: String| LabError::Refused { id: self.id.to_owned(), problem };
        let points = || self.series.iter().flat_map(|series| &series.points);
        let mut rest = Vec::new();
        for number in &self.published.numbers {
            let printed = points().filter_map(|point| point.published.as_ref());
            match printed.filter(|printed| printed.id == number.id).count() {
                1 => {}
                0 => rest.push(self.judge(number)?),
                n => return Err(wrong(format!("`{}` stands beside {n} numbers", number.id))),
            }
        }
        if let Some((kind, left)) = rest.iter().find(|(kind, _)| kind.needs_a_measurement()) {
            return Err(wrong(format!("`{}` is {} and not measured", left.id, kind.word())));
        }
        for shape in &self.published.shapes {
            if self.claims.iter().filter(|claim| claim.id == shape.id).count() != 1 {
                return Err(wrong(format!("shape `{}` is not decided once", shape.id)));
            }
        }
        Ok(rest)
    }

    fn judge(&self, number: &Number) -> Result<(Kind, Printed)> {
        let mut found = self.judged.iter().filter(|judged| judged.is_about(number));
        let input = matches!(number.kind, Role::Param | Role::Workload);
        let judged = match (found.next(), found.next()) {
            (Some(judged), None) => Some(judged),
            (None, _) if input => None,
            (first, _) => {
                let many = if first.is_some() { "more than once" } else { "nowhere" };
                let problem = format!("`{}` is judged {many}", number.id);
                return Err(LabError::File { id: self.id.to_owned(), file: "spec.toml", problem });
            }
        };
        let text = |of: fn(&Judged) -> &String| judged.map_or_else(String::new, |j| of(j).clone());
        let printed = Printed {
            id: number.id.clone(),
            place: number.place.clone(),
            name: number.name(),
            value: number.value,
            unit: number.unit.clone(),
            config: number.config.clone(),
            fixed: judged.map_or_else(String::new, |judged| judged.fixed.to_string()),
            why: text(|judged| &judged.why),
            after: text(|judged| &judged.after),
            headline: judged.is_some_and(|judged| judged.headline),
        };
        Ok((judged.map_or(Kind::Given, |judged| judged.kind), printed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Experiment;
    use crate::settings::Options;

    const SPEC: &str = "about = 'x'\n[[parameter]]\nname = 'seed'\nvalue = 3\nsource = 'free'\n\
                        [[judged]]\nnumbers = ['x-1']\nkind = 'predicted'\nfixed = 2026-11-28\n\
                        why = 'fixed before'\nafter = 'the scale'\nheadline = true\n";
    const PUBLISHED: &str = "\
        [[row]]\nid = 'x-1'\nwhere = 'Fig 1'\nrow = 'a'\ncolumn = 'b'\nvalue = 2\nunit = '%'\n\
        kind = 'result'\nconfig = 'at night'\n\
        [[row]]\nid = 'x-2'\nwhere = 'Table 1'\nrow = 'c'\ncolumn = 'value'\nvalue = 7\n\
        unit = 'us'\nkind = 'param'\n[[shape]]\nid = 'falls'\nsays = 'It falls.'\n";

    /// What an experiment with this spec finds, and what is left of the published numbers.
    fn found(
        spec: &'static str,
        run: impl FnOnce(&mut Data) -> Result<()>,
    ) -> Result<(Data, Vec<(Kind, Printed)>)> {
        let (id, title, published) = ("p/t", "", PUBLISHED);
        let experiment = Experiment { id, title, spec, published, run: |_, _| Ok(()) };
        let options = Options::default();
        let mut data = Data::new(&Settings::new(&experiment, &options)?);
        run(&mut data)?;
        let rest = data.rest()?;
        Ok((data, rest))
    }

    /// All that is wanted, and a line that is half measured.
    fn whole(data: &mut Data) -> Result<()> {
        let line = Line::new("time", "us").over("reads", "%").of("x").under("load");
        data.put(&line, 5_u64, 1.5).range(1.0, 2.0, Spread::Extremes).note("short");
        data.put(&line, 7_u64, None);
        data.put(&line, 8_u64, f64::NAN).range(1.0, f64::INFINITY, Spread::Confidence95);
        data.put(&line, "all", 4.0);
        data.put(&line, 9_u64, 0.5).range(f64::NAN, 1.0, Spread::Confidence95);
        data.beside(("a", "b"), &Line::new("share", "%"), (), 1.5)?;
        data.shows("falls", true, "from 2 to 1")
    }

    #[test]
    fn a_number_stands_beside_the_printed_one_with_its_kind_and_how_far_they_are_apart() {
        let (data, rest) = found(SPEC, whole).unwrap();
        let [line, single] = data.series.as_slice() else { panic!("{data:?}") };
        assert_eq!((line.seeds.as_slice(), line.points.len()), (&[3][..], 5));
        assert_eq!(line.line.label(), "x; load");
        let curve = data.curve(&line.line);
        assert_eq!(curve, [(5.0, 1.5), (9.0, 0.5)], "numbers at numbers");
        let first = &line.points[0];
        let range = Range { low: 1.0, high: 2.0, spread: Spread::Extremes };
        assert_eq!((first.range, first.note.as_str()), (Some(range), "short"));
        assert_eq!((first.kind, first.deviation), (Kind::Measured, None));
        assert!(line.points[2].measured.is_none() && line.points[2].range.is_none());
        assert!(line.points[4].range.is_none(), "no range has an end that is no number");
        let point = &single.points[0];
        let printed = point.published.as_ref().unwrap();
        assert_eq!((point.kind, point.deviation), (Kind::Predicted, Some(-0.5)));
        let words = [&printed.name, &printed.fixed, &printed.why, &printed.after, &printed.config];
        assert_eq!(words, ["a, b", "2026-11-28", "fixed before", "the scale", "at night"]);
        assert!(printed.headline && point.without_printed().published.is_none());
        let claim = Claim {
            id: "falls".into(),
            says: "It falls.".into(),
            holds: true,
            figure: "from 2 to 1".into(),
        };
        assert_eq!(data.claims, [claim]);
        // What nothing stands beside is an input.
        let [(Kind::Given, input)] = rest.as_slice() else { panic!("{rest:?}") };
        assert_eq!((input.name.as_str(), input.fixed.as_str(), input.headline), ("c", "", false));
    }

    #[test]
    fn a_number_or_a_statement_that_is_left_out_or_there_twice_is_refused() {
        let share = Line::new("share", "%");
        let refused = |spec, run: &dyn Fn(&mut Data) -> Result<()>| {
            found(spec, |data| run(data)).unwrap_err().to_string()
        };
        let missing = refused(SPEC, &|data| data.shows("falls", true, ""));
        assert_eq!(missing, "p/t: `x-1` is predicted and not measured");
        let twice = |data: &mut Data| {
            whole(data)?;
            data.beside(("a", "b"), &share, (), 1.5).map(|_| ())
        };
        assert_eq!(refused(SPEC, &twice), "p/t: `x-1` stands beside 2 numbers");
        let unsaid = |data: &mut Data| data.beside(("a", "b"), &share, (), 1.5).map(|_| ());
        assert_eq!(refused(SPEC, &unsaid), "p/t: shape `falls` is not decided once");
        let again = |data: &mut Data| whole(data).and_then(|()| data.shows("falls", false, ""));
        assert_eq!(refused(SPEC, &again), "p/t: shape `falls` is not decided once");
        let nowhere = "about = 'x'\n";
        let error = refused(nowhere, &whole);
        assert_eq!(error, "experiments/p/t/spec.toml: `x-1` is judged nowhere");
        // A judgement that names no number is about none.
        let about = |which: &str| {
            let one = "[[judged]]\nkind = 'derived'\nfixed = 2026-11-28\nwhy = 'y'\n";
            &*Box::leak(format!("{SPEC}{one}{which}").into_boxed_str())
        };
        assert!(found(about(""), whole).is_ok());
        assert!(found(about("columns = ['value']\nnumbers = ['x-1']\n"), whole).is_ok());
        for which in ["columns = ['b']\n", "numbers = ['x-1']\ncolumns = ['a', 'b']\n"] {
            let error = refused(about(which), &whole);
            assert_eq!(error, "experiments/p/t/spec.toml: `x-1` is judged more than once");
        }
        // What the paper does not say enough about may be left out; it must not be measured twice.
        let silent = &*Box::leak(SPEC.replace("predicted", "not-reproducible").into_boxed_str());
        let (_, rest) = found(silent, |data| data.shows("falls", false, "")).unwrap();
        let kinds: Vec<Kind> = rest.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [Kind::NotReproducible, Kind::Given]);
    }
}
