//! The report for people: tables of at most 100 columns, the answer in the last lines.
//! Room: onefold-estimate.

use std::fmt::Write as _;

use onefold_block::ByteSize;

use crate::options::Method;
use crate::report::{Copies, Group, Interval, Report, SizeReport};

/// Widest line.
const WIDTH: usize = 100;
/// Problems named before the rest is only counted.
const PROBLEMS: usize = 10;

impl Report {
    /// As text for people, with `rows` rows in each list. Ends with a line feed.
    pub fn to_text(&self, rows: usize) -> String {
        let mut out = Vec::new();
        self.input_text(&mut out);
        self.problem_text(&mut out);
        if self.input.bytes > 0 {
            self.size_text(&mut out);
            self.compression_text(&mut out);
            self.copies_text(&mut out);
            group_text(&mut out, "extension", &self.by_extension, rows);
            group_text(&mut out, "top folder", &self.by_folder, rows);
            self.file_text(&mut out, rows);
        }
        self.note_text(&mut out);
        out.push(String::new());
        out.push(self.answer.line.clone());
        out.push(format!("next: {}\n", self.answer.next));
        out.join("\n")
    }

    fn input_text(&self, out: &mut Vec<String>) {
        let input = &self.input;
        let (bytes, seconds) = (size(input.bytes), self.elapsed_ns as f64 / 1e9);
        let rate = if seconds > 0.0 { input.bytes as f64 / seconds } else { 0.0 };
        out.push(format!(
            "{bytes} in {} and {}, read in {} ({}/s)",
            plural(input.files, "file"),
            plural(input.folders, "folder"),
            duration(seconds),
            size(rate as u64)
        ));
        let mut also = Vec::new();
        if input.hole_bytes > 0 {
            also.push(format!("{} in holes, which take no space today", size(input.hole_bytes)));
        }
        if input.hard_links > 0 {
            let links = plural(input.hard_links, "further hard link");
            also.push(format!("{links} ({}) counted once", size(input.hard_link_bytes)));
        }
        if input.symlinks > 0 {
            also.push(format!("{} not followed", plural(input.symlinks, "symbolic link")));
        }
        for line in also {
            out.push(format!("  {line}"));
        }
    }

    fn problem_text(&self, out: &mut Vec<String>) {
        let p = &self.problems;
        let counts = [
            (p.unreadable_files, "unreadable file"),
            (p.unreadable_folders, "unreadable folder"),
            (p.read_errors, "file with read errors"),
            (p.changed_files, "file that changed meanwhile"),
            (p.special_files, "special file"),
        ];
        let some: Vec<String> =
            counts.iter().filter(|(n, _)| *n > 0).map(|&(n, what)| plural(n, what)).collect();
        if some.is_empty() {
            return;
        }
        out.push(format!("  skipped: {}", some.join(", ")));
        if p.unread_bytes > 0 {
            out.push(format!("    {} not read", size(p.unread_bytes)));
        }
        for problem in p.named.iter().take(PROBLEMS) {
            let reason = &problem.reason;
            let room = (WIDTH - 6).saturating_sub(reason.chars().count()).max(30);
            out.push(format!("    {}: {reason}", shortened(&problem.path, room)));
        }
        let total: u64 = counts.iter().map(|(n, _)| n).sum();
        if total > PROBLEMS as u64 && p.named.len() > PROBLEMS {
            out.push(format!("    and {} more", number(total - PROBLEMS as u64)));
        }
    }

    fn size_text(&self, out: &mut Vec<String>) {
        let sampled = !self.exact;
        let mut head =
            vec!["chunks", "number", "zero", "duplicate", "unique", "dedup", "index RAM"];
        if sampled {
            head.extend(["95 % interval", "kept"]);
        }
        let row = |size_row: &SizeReport| {
            let method = Method::Fixed { chunk_bytes: self.primary_chunk_bytes };
            let mark = if size_row.method == method { " *" } else { "" };
            let mut cells = vec![
                format!("{}{mark}", size_row.method),
                number(size_row.chunks),
                percent(size_row.zero_fraction),
                percent(size_row.duplicate_fraction),
                size(size_row.unique_bytes),
                ratio(size_row.dedup_ratio),
                size(size_row.index_memory_bytes),
            ];
            if sampled {
                cells.push(size_row.dedup_ratio_interval.map_or("exact".to_owned(), between));
                cells.push(match size_row.sampled_one_in {
                    1 => "all".to_owned(),
                    one_in => format!("1 in {one_in}"),
                });
            }
            cells
        };
        let rows: Vec<Vec<String>> = self.chunk_sizes.iter().map(row).collect();
        out.push(String::new());
        out.push("Deduplication by chunk size (* what the rest is for)".to_owned());
        table(out, &head, &rows);
    }

    fn compression_text(&self, out: &mut Vec<String>) {
        let unique = self.primary().unique_bytes;
        let sampled = self.compression.iter().any(|row| row.total_ratio_interval.is_some());
        let mut head = vec!["compression", "stored", "compress", "total", "metadata", "total with"];
        if sampled {
            head.push("95 % interval of total");
        }
        let rows: Vec<Vec<String>> = self
            .compression
            .iter()
            .map(|row| {
                let mut cells = vec![
                    row.compression.clone(),
                    size(row.stored_bytes),
                    ratio(row.compress_ratio),
                    ratio(row.total_ratio),
                    size(row.metadata_bytes),
                    ratio(row.total_ratio_with_metadata),
                ];
                if sampled {
                    cells.push(row.total_ratio_interval.map_or("exact".to_owned(), between));
                }
                cells
            })
            .collect();
        let chunk = ByteSize(u64::from(self.primary_chunk_bytes));
        let unique = size(unique);
        out.push(String::new());
        out.push(format!("Compression of the {unique} that are unique at {chunk}"));
        table(out, &head, &rows);
    }

    fn copies_text(&self, out: &mut Vec<String>) {
        let cells = |name: String, row: &Copies| {
            vec![
                name,
                number(row.allocated_chunks),
                size(row.allocated_bytes),
                size(row.allocated_stored_bytes),
                number(row.referenced_chunks),
                size(row.referenced_bytes),
                size(row.referenced_stored_bytes),
            ]
        };
        let sum = |of: fn(&Copies) -> u64| self.copies.iter().map(of).sum();
        let total = Copies {
            copies_min: 0,
            allocated_chunks: sum(|row| row.allocated_chunks),
            allocated_bytes: sum(|row| row.allocated_bytes),
            allocated_stored_bytes: sum(|row| row.allocated_stored_bytes),
            referenced_chunks: sum(|row| row.referenced_chunks),
            referenced_bytes: sum(|row| row.referenced_bytes),
            referenced_stored_bytes: sum(|row| row.referenced_stored_bytes),
        };
        let mut rows: Vec<Vec<String>> =
            self.copies.iter().map(|row| cells(number(row.copies_min), row)).collect();
        rows.push(cells("total".to_owned(), &total));
        let head = ["copies from", "unique", "size", "stored", "in use", "size", "stored"];
        let about = if self.primary().sampled_one_in > 1 { ", from a sample" } else { "" };
        out.push(String::new());
        out.push(format!("Copies per chunk, zeroes left out{about}"));
        table(out, &head, &rows);
        if let (Some(hot), Some(share)) =
            (self.skew.hot_fraction, self.skew.hot_redundancy_fraction)
        {
            out.push(format!(
                "  {} of the duplicated chunks have more than two copies; \
                 they hold {} of the redundancy",
                percent(hot),
                percent(share)
            ));
        }
    }

    fn file_text(&self, out: &mut Vec<String>, rows: usize) {
        let least = match self.file_lists_least_bytes {
            1 => String::new(),
            bytes => format!(" (files of at least {})", size(bytes)),
        };
        if !self.duplicate_files.is_empty() && rows > 0 {
            out.push(String::new());
            out.push(format!("Largest duplicate files{least}"));
            out.push("  wasted    copies".to_owned());
            for file in self.duplicate_files.iter().take(rows) {
                let (wasted, copies) = (size(file.duplicate_bytes), number(file.copies));
                let [first, second] =
                    [&file.first, &file.second].map(|path| shortened(path, WIDTH - 20));
                out.push(format!("  {wasted:>8}  {copies:>6}  {first}"));
                out.push(format!("{:20}{second}", ""));
            }
        }
        if !self.repeated_files.is_empty() && rows > 0 {
            out.push(String::new());
            out.push(format!("Files with most chunks seen before{least}"));
            let cells = |file: &crate::RepeatedFile| {
                vec![
                    shortened(&file.path, WIDTH - 40),
                    size(file.repeated_bytes),
                    size(file.file_bytes),
                    percent(file.repeated_fraction),
                ]
            };
            let rows: Vec<Vec<String>> = self.repeated_files.iter().take(rows).map(cells).collect();
            table(out, &["file", "seen before", "of", "share"], &rows);
        }
    }

    fn note_text(&self, out: &mut Vec<String>) {
        if !self.exact || !self.complete || !self.notes.is_empty() {
            out.push(String::new());
        }
        for note in &self.notes {
            out.push(format!("note: {note}"));
        }
        if !self.exact {
            let memory = ByteSize(self.memory_bytes);
            let sampled = self.chunk_sizes.iter().filter(|size| size.sampled_one_in > 1);
            let names: Vec<String> = sampled.map(|size| size.method.to_string()).collect();
            out.push(format!(
                "note: the tables of {} are full, each with its share of --memory {memory}: \
                 their numbers come from a sample, see the intervals",
                names.join(", ")
            ));
        }
        if let Some(shard) = self.shard {
            out.push(format!("note: this is shard {shard} only"));
        } else if !self.complete {
            out.push("note: stopped before the end; this is what was known by then".to_owned());
        }
    }
}

fn group_text(out: &mut Vec<String>, what: &str, groups: &[Group], rows: usize) {
    if groups.is_empty() || rows == 0 {
        return;
    }
    let cells = |group: &Group| {
        let share = group.saved_bytes as f64 / (group.bytes.max(1)) as f64;
        vec![
            shortened(&group.name, 40),
            number(group.files),
            size(group.bytes),
            size(group.unique_bytes),
            size(group.stored_bytes),
            percent(share),
        ]
    };
    let shown: Vec<Vec<String>> = groups.iter().take(rows).map(cells).collect();
    out.push(String::new());
    out.push(format!("By {what}"));
    table(out, &[what, "files", "bytes", "unique", "stored", "saved"], &shown);
    if groups.len() > rows {
        let rest: u64 = groups[rows..].iter().map(|group| group.bytes).sum();
        out.push(format!("  and {} in smaller ones", size(rest)));
    }
}

/// Columns as wide as their widest cell, the first one flush left, the others flush right.
fn table(out: &mut Vec<String>, head: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut line = |cells: &[&str]| {
        let mut text = String::from(" ");
        for (column, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
            // Writing to a text cannot fail.
            if column == 0 {
                let _ = write!(text, " {cell:<width$}");
            } else {
                let _ = write!(text, "  {cell:>width$}");
            }
        }
        out.push(text.trim_end().to_owned());
    };
    line(head);
    for row in rows {
        line(&row.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// A size in at most eight columns.
fn size(bytes: u64) -> String {
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 999.5 && unit < 6 {
        value /= 1024.0;
        unit += 1;
    }
    let name = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][unit];
    let digits = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {name}")
}

/// A count with its thousands apart.
fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn plural(count: u64, what: &str) -> String {
    let (noun, rest) = what.split_once(' ').unwrap_or((what, ""));
    let s = if count == 1 { "" } else { "s" };
    match (noun, rest) {
        // "file with read errors", "file that changed": the first word is the noun.
        ("file", rest) if !rest.is_empty() => format!("{} {noun}{s} {rest}", number(count)),
        _ => format!("{} {what}{s}", number(count)),
    }
}

fn percent(fraction: f64) -> String {
    // Rounded first: what rounds to nothing has no sign.
    format!("{:.1} %", (fraction * 1000.0).round() / 10.0 + 0.0)
}

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "all".to_owned(), |value| format!("{value:.2}x"))
}

fn between(interval: Interval) -> String {
    format!("{:.3}x to {:.3}x", interval.low, interval.high)
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 99.5 => format!("{s:.0} s"),
        s if s < 5970.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// The end of a text that is too long, after an ellipsis.
fn shortened(text: &str, width: usize) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let count = clean.chars().count();
    if count <= width {
        return clean;
    }
    let tail: String = clean.chars().skip(count - (width - 3)).collect();
    format!("...{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!(size(0), "0 B");
        assert_eq!(size(1023), "1.00 KiB");
        assert_eq!(size(1 << 20), "1.00 MiB");
        assert_eq!(size(123 << 20), "123 MiB");
        assert_eq!(size(u64::MAX), "16.0 EiB");
        assert_eq!(plural(1, "folder"), "1 folder");
        assert_eq!(plural(2, "file with read errors"), "2 files with read errors");
        assert_eq!(plural(2, "unreadable file"), "2 unreadable files");
        assert_eq!(shortened("/a/long/path\n", 9), ".../path?");
        assert_eq!(duration(75.4), "75 s");
    }

    #[test]
    fn numbers_round_up_into_the_next_width() {
        for (bytes, text) in [
            (1, "1 B"),
            (999, "999 B"),
            (1000, "0.98 KiB"),
            (10_234, "9.99 KiB"),
            (10_235, "10.0 KiB"),
            (102_348, "99.9 KiB"),
            (102_349, "100 KiB"),
            (1_023_487, "999 KiB"),
            (1_023_488, "0.98 MiB"),
            (1 << 60, "1.00 EiB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
        for (seconds, text) in [
            (0.0, "0.0 s"),
            (9.94, "9.9 s"),
            (9.95, "10 s"),
            (9.96, "10 s"),
            (99.4, "99 s"),
            (99.5, "2 min"),
            (99.6, "2 min"),
            (5969.0, "99 min"),
            (5970.0, "1.7 h"),
            (5971.0, "1.7 h"),
        ] {
            assert_eq!(duration(seconds), text, "{seconds}");
        }
        assert_eq!(
            [0.0, 0.0004, 0.0006, -0.0004, 1.0].map(percent)[..4],
            ["0.0 %", "0.0 %", "0.1 %", "0.0 %"]
        );
        assert_eq!(
            (percent(1.0), ratio(None), ratio(Some(1.0))),
            ("100.0 %".into(), "all".into(), "1.00x".into())
        );
        assert_eq!([12, 123, 1234, 123_456].map(number), ["12", "123", "1,234", "123,456"]);
        assert_eq!(plural(0, "file"), "0 files");
        assert_eq!(plural(1, "file that changed meanwhile"), "1 file that changed meanwhile");
        assert_eq!(
            (shortened("123456", 6), shortened("1234567", 6)),
            ("123456".into(), "...567".into())
        );
        let interval = Interval { low: 1.0, high: 2.5 };
        assert_eq!(between(interval), "1.000x to 2.500x");
    }

    #[test]
    fn columns_line_up() {
        let mut out = Vec::new();
        let rows = vec![vec!["a".to_owned(), "1".to_owned()], vec!["bbb".into(), "100".into()]];
        table(&mut out, &["x", "yy"], &rows);
        assert_eq!(out, ["  x     yy", "  a      1", "  bbb  100"]);
    }
}
