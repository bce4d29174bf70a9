//! Published figures, read from their file.
//! Room: onefold-cache.

use thiserror::Error;

/// One published figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its identifier.
    pub id: String,
    /// Table, figure or section.
    pub place: String,
    /// Row.
    pub row: String,
    /// Column.
    pub column: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    figures: Vec<Figure>,
}

/// A file of figures that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PublishedError {
    /// No TOML.
    #[error("published figures: {0}")]
    Toml(String),
    /// An entry without a field.
    #[error("published figure {number}: no `{field}`")]
    Field {
        /// Which entry, from 1.
        number: usize,
        /// Which field.
        field: &'static str,
    },
    /// A setting that the runs need is not there.
    #[error("published figures: no {place}, {row}, {column}")]
    Missing {
        /// Table, figure or section.
        place: String,
        /// Row.
        row: String,
        /// Column.
        column: String,
    },
}

impl Published {
    /// Reads `[[result]]` entries with id, where, row, col, value and unit.
    pub fn from_toml(text: &str) -> Result<Self, PublishedError> {
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| PublishedError::Toml(error.message().to_owned()))?;
        let entries = table.get("result").and_then(toml::Value::as_array);
        let entries = entries.map(Vec::as_slice).unwrap_or_default();
        let figures = entries.iter().enumerate().map(|(at, entry)| {
            let missing = |field| PublishedError::Field { number: at + 1, field };
            let text = |field: &'static str| {
                entry.get(field).and_then(toml::Value::as_str).unwrap_or_default().to_owned()
            };
            let value = entry.get("value").and_then(|value| {
                value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
            });
            let (id, place) = (text("id"), text("where"));
            if id.is_empty() || place.is_empty() {
                return Err(missing(if id.is_empty() { "id" } else { "where" }));
            }
            let value = value.ok_or(missing("value"))?;
            Ok(Figure {
                id,
                place,
                row: text("row"),
                column: text("col"),
                value,
                unit: text("unit"),
            })
        });
        Ok(Self { figures: figures.collect::<Result<_, _>>()? })
    }

    /// The figure of this place, row and column.
    pub fn find(&self, place: &str, row: &str, column: &str) -> Option<&Figure> {
        self.figures.iter().find(|f| f.place == place && f.row == row && f.column == column)
    }

    /// The value of a figure that the runs need.
    pub fn setting(&self, place: &str, row: &str, column: &str) -> Result<f64, PublishedError> {
        let missing = || PublishedError::Missing {
            place: place.to_owned(),
            row: row.to_owned(),
            column: column.to_owned(),
        };
        self.find(place, row, column).map(|figure| figure.value).ok_or_else(missing)
    }
}
