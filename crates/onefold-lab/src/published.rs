//! The numbers that a paper prints, and what its pictures show.
//! Room: onefold-lab.   In: `published.toml`.
//! Invariant: a number that is referred to is there; nothing is looked up by position.

use serde::Deserialize;

use crate::error::{LabError, Result};
use crate::row::{Kind, Row};

/// What kind of number a paper prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A parameter of the model.
    Param,
    /// A property of the data.
    Workload,
    /// What came out.
    Result,
    /// What the text says without measuring it.
    Claim,
}

/// One printed number.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Number {
    /// Its name in the collection of all published numbers.
    pub id: String,
    /// Where it is printed.
    #[serde(rename = "where")]
    pub place: String,
    /// Its row.
    pub row: String,
    /// Its column.
    pub column: String,
    /// The number.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// What kind of number it is.
    pub kind: Role,
    /// Under which conditions it holds.
    #[serde(default)]
    pub config: String,
}

/// What a picture shows, where no numbers are printed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// In words.
    pub says: String,
}

/// Everything that a table or figure says.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Its numbers.
    #[serde(default, rename = "row")]
    pub numbers: Vec<Number>,
    /// Its shapes.
    #[serde(default, rename = "shape")]
    pub shapes: Vec<Shape>,
    #[serde(skip)]
    id: String,
}

impl Published {
    /// Reads what experiment `id` is compared with.
    pub fn parse(id: &str, text: &str) -> Result<Self> {
        let mut published: Self = toml::from_str(text).map_err(|error| LabError::File {
            id: id.to_owned(),
            file: "published.toml",
            problem: error.to_string(),
        })?;
        id.clone_into(&mut published.id);
        Ok(published)
    }

    /// The number of a row and column; of several, the first.
    pub fn number(&self, row: &str, column: &str) -> Result<&Number> {
        let found = self.numbers.iter().find(|n| n.row == row && n.column == column);
        found.ok_or_else(|| LabError::NoPublished {
            id: self.id.clone(),
            row: row.to_owned(),
            column: column.to_owned(),
        })
    }

    /// The value of a row and column.
    pub fn value(&self, row: &str, column: &str) -> Result<f64> {
        self.number(row, column).map(|number| number.value)
    }

    /// A measured number beside the published one.
    pub fn row(&self, row: &str, column: &str, measured: f64) -> Result<Row> {
        self.number(row, column).map(|number| self.beside(number, Some(measured)))
    }

    /// A published number that cannot be measured, and why.
    pub fn not_reproducible(&self, row: &str, column: &str, why: &str) -> Result<Row> {
        let row = self.beside(self.number(row, column)?, None);
        Ok(row.kind(Kind::NotReproducible).note(why))
    }

    /// A measured number beside this published one, for tables in which names repeat.
    pub fn beside(&self, number: &Number, measured: Option<f64>) -> Row {
        Row {
            id: self.id.clone(),
            place: number.place.clone(),
            row: number.row.clone(),
            column: number.column.clone(),
            published: Some(number.value),
            measured,
            unit: number.unit.clone(),
            deviation: measured.map(|measured| measured - number.value),
            kind: Kind::Predicted,
            note: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_name_and_set_beside() {
        let text = "[[row]]\nid = 'x-1'\nwhere = 'Table 1'\nrow = 'a'\ncolumn = 'b'\nvalue = 2\n\
                    unit = '%'\nkind = 'result'\n[[shape]]\nsays = 'It falls.'\n";
        let published = Published::parse("p/t", text).unwrap();
        let row = published.row("a", "b", 2.5).unwrap();
        assert_eq!((row.published, row.measured, row.deviation), (Some(2.0), Some(2.5), Some(0.5)));
        assert_eq!(
            (row.id.as_str(), row.place.as_str(), row.unit.as_str()),
            ("p/t", "Table 1", "%")
        );
        let row = published.not_reproducible("a", "b", "no input").unwrap();
        assert_eq!((row.measured, row.deviation, row.kind), (None, None, Kind::NotReproducible));
        let error = published.row("a", "c", 0.0).unwrap_err().to_string();
        assert_eq!(error, "experiments/p/t/published.toml: no row `a` with column `c`");
        assert!(Published::parse("p/t", &text.replace("kind", "sort")).is_err());
    }
}
