//! Columns that line up, and numbers that people can read.
//! Room: onefold.

/// Which side of a column its cells lean on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows whose columns line up; cells are plain text.
pub struct Table {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these columns and no rows yet.
    pub fn new(aligns: &[Align]) -> Self {
        Self { aligns: aligns.to_vec(), rows: Vec::new() }
    }

    /// One more row; missing cells are empty.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut row: Vec<String> = cells.into_iter().map(Into::into).collect();
        row.resize(self.aligns.len(), String::new());
        self.rows.push(row);
    }

    /// The lines, each beginning with `indent` spaces and without blanks at its end.
    pub fn lines(&self, indent: usize) -> Vec<String> {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.aligns.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let mut line = " ".repeat(indent);
            for ((cell, align), width) in row.iter().zip(&self.aligns).zip(&widths) {
                let pad = " ".repeat(width - cell.chars().count());
                let (first, then) = match align {
                    Align::Left => (cell, &pad),
                    Align::Right => (&pad, cell),
                };
                line.extend([first.as_str(), then.as_str(), "  "]);
            }
            line.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

/// A count with commas between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share from 0 to 1 as a percentage.
pub fn percent(share: f64) -> String {
    // Rounded first: what rounds to nothing has no sign.
    format!("{:.1} %", (share * 1000.0).round() / 10.0 + 0.0)
}

/// A number of things with the right word.
pub fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_in_no_blanks() {
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
        table.row(["a", "1"]);
        table.row(["long", "1000", "x"]);
        assert_eq!(table.lines(1), [" a        1", " long  1000  x"]);
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(percent(0.7695), "77.0 %");
        assert_eq!([-0.000_4, -0.0, -0.0123].map(percent), ["0.0 %", "0.0 %", "-1.2 %"]);
        assert_eq!(plural(1, "problem", "problems"), "1 problem");
    }
}
