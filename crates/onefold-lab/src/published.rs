//! The numbers that a paper prints, and what its pictures show.
//! Room: onefold-lab.   In: `published.toml`.
//! Invariant: a number that is referred to is there; nothing is looked up by position.

use serde::Deserialize;

use crate::error::{LabError, Result};

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

impl Number {
    /// Its row and column in words.
    pub fn name(&self) -> String {
        match self.column.as_str() {
            "value" => self.row.clone(),
            column => format!("{}, {column}", self.row),
        }
    }
}

/// What a picture shows, where no numbers are printed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Its name, by which the experiment says whether it is so.
    pub id: String,
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

    /// What a picture shows, by its name.
    pub fn shape(&self, id: &str) -> Result<&Shape> {
        let found = self.shapes.iter().find(|shape| shape.id == id);
        found.ok_or_else(|| LabError::NoShape { id: self.id.clone(), shape: id.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_shapes_are_found_by_name() {
        let text = "[[row]]\nid = 'x-1'\nwhere = 'Table 1'\nrow = 'a'\ncolumn = 'b'\nvalue = 2\n\
                    unit = '%'\nkind = 'result'\n[[shape]]\nid = 'falls'\nsays = 'It falls.'\n";
        let published = Published::parse("p/t", text).unwrap();
        assert!((published.value("a", "b").unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(published.shape("falls").unwrap().says, "It falls.");
        let error = published.value("a", "c").unwrap_err().to_string();
        assert_eq!(error, "experiments/p/t/published.toml: no row `a` with column `c`");
        let error = published.shape("rises").unwrap_err().to_string();
        assert_eq!(error, "experiments/p/t/published.toml: no shape `rises`");
        assert!(Published::parse("p/t", &text.replace("kind", "sort")).is_err());
    }
}
