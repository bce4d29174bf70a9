//! Content with a measured histogram of copies, as `DEDISbench` uses them.
//! Room: onefold-workload.   In: lines `duplicates contents`.   Out: [`Identity`]s without end.
//! Source: Paulo, Reis, Pereira and Sousa, "`DEDISbench`", OTM 2012. A line says how many contents
//! have so many duplicates beside themselves; 0 are the unique ones. Each draw picks a page of
//! the measured data set at random; a unique page is new content every time.
//! Cost: a binary search over the lines per draw.

use std::io::{self, BufRead};

use onefold_sim::{RandomStream, RandomStreams};

use crate::request::Identity;

/// How many contents have how many copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    classes: Vec<Class>,
    pages: u64,
    duplicated: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    copies: u64,
    /// Pages of this and all earlier classes.
    pages_to_here: u64,
    /// Pages of this class.
    pages: u64,
    /// Number of its first content.
    first: u64,
}

/// A histogram that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistogramError {
    /// The input failed.
    #[error("reading the histogram")]
    Read(#[from] io::Error),
    /// A line that is not two numbers, or too large.
    #[error("line {line} `{got}`: expected the number of duplicates and the number of contents")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What it holds.
        got: String,
    },
    /// No page at all.
    #[error("the histogram has no pages")]
    Empty,
}

impl Histogram {
    /// Reads lines `duplicates contents`.
    pub fn read(input: impl BufRead) -> Result<Self, HistogramError> {
        let mut entries = Vec::new();
        for (index, line) in input.lines().enumerate() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            let refused =
                || HistogramError::Line { line: index + 1, got: line.chars().take(60).collect() };
            let mut numbers = line.split_ascii_whitespace().map(str::parse::<u64>);
            let (Some(Ok(duplicates)), Some(Ok(contents)), None) =
                (numbers.next(), numbers.next(), numbers.next())
            else {
                return Err(refused());
            };
            entries.push((duplicates, contents));
            if Self::new(&entries).is_none() {
                return Err(refused());
            }
        }
        let found = Self::new(&entries).filter(|found| found.pages > 0);
        found.ok_or(HistogramError::Empty)
    }

    /// A histogram of (duplicates, contents); `None` if it has 2^64 pages or more.
    pub fn new(entries: &[(u64, u64)]) -> Option<Self> {
        let mut found = Self { classes: Vec::new(), pages: 0, duplicated: 0 };
        for &(duplicates, contents) in entries.iter().filter(|entry| entry.1 > 0) {
            let copies = duplicates.checked_add(1)?;
            let pages = copies.checked_mul(contents)?;
            found.pages = found.pages.checked_add(pages)?;
            let first = found.duplicated;
            found.classes.push(Class { copies, pages_to_here: found.pages, pages, first });
            if copies > 1 {
                found.duplicated += contents;
            }
        }
        Some(found)
    }

    /// Pages of the measured data set.
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// Redundant pages of the measured data set, of all its pages.
    pub fn duplicate_ratio(&self) -> f64 {
        let redundant = |class: &Class| class.pages - class.pages / class.copies;
        self.classes.iter().map(redundant).sum::<u64>() as f64 / self.pages.max(1) as f64
    }

    /// Content drawn from this histogram. It must have pages.
    pub fn content(&self, seed: u64) -> HistogramContent {
        assert!(self.pages > 0, "there must be some content");
        let stream = RandomStreams::new(seed).stream("content.histogram");
        HistogramContent { histogram: self.clone(), seed, stream, unique: 0 }
    }
}

/// An endless draw from a [`Histogram`].
#[derive(Clone, Debug)]
pub struct HistogramContent {
    histogram: Histogram,
    seed: u64,
    stream: RandomStream,
    unique: u64,
}

impl Iterator for HistogramContent {
    type Item = Identity;

    fn next(&mut self) -> Option<Identity> {
        let page = self.stream.below(self.histogram.pages);
        let at = self.histogram.classes.partition_point(|class| class.pages_to_here <= page);
        let class = self.histogram.classes[at];
        let number = if class.copies == 1 {
            self.unique += 1;
            // Numbers from above, so that they never meet those of duplicated contents.
            u64::MAX - self.unique
        } else {
            class.first + (page - (class.pages_to_here - class.pages)) / class.copies
        };
        Some(Identity::of_number(self.seed, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_classes_and_pages_add_up() {
        let found = Histogram::read(&b"0 3\n\n  1 2 \n4 0\n2 5\n"[..]).unwrap();
        let class =
            |copies, pages_to_here, pages, first| Class { copies, pages_to_here, pages, first };
        // Numbers are of duplicated contents: two of the second class come before the third.
        let classes = [class(1, 3, 3, 0), class(2, 7, 4, 0), class(3, 22, 15, 2)];
        assert_eq!(found, Histogram { classes: classes.to_vec(), pages: 22, duplicated: 7 });
        assert!((found.duplicate_ratio() - 12.0 / 22.0).abs() < 1e-12);
        for (text, line, got) in
            [("0 5\n1 x\n", 2, "1 x"), ("1 2 3\n", 1, "1 2 3"), ("\n5\n", 2, "5")]
        {
            let error = Histogram::read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("line {line} `{got}`: expected")), "{error}");
        }
        for text in ["", "\n", "5 0\n"] {
            assert!(matches!(Histogram::read(text.as_bytes()), Err(HistogramError::Empty)));
        }
        // No sign: a sum of no floating-point numbers is -0.0, and would be told so.
        let nothing = Histogram::new(&[]).unwrap().duplicate_ratio();
        assert_eq!(nothing.to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn pages_of_a_content_are_the_same_and_unique_ones_are_new_each_time() {
        let histogram = Histogram::new(&[(1, 2), (0, 1), (2, 1)]).unwrap();
        let mut content = histogram.content(7);
        let mut pages = RandomStreams::new(7).stream("content.histogram");
        let mut unique = 0;
        for _ in 0..200 {
            // Pages 0 to 3 are of two contents, page 4 is unique, pages 5 to 7 are of the third.
            let number = match pages.below(8) {
                page @ 0..=3 => page / 2,
                4 => {
                    unique += 1;
                    u64::MAX - unique
                }
                _ => 2,
            };
            assert_eq!(content.next(), Some(Identity::of_number(7, number)));
        }
        assert!(unique > 10);
    }
}
