//! The page with the figures, `docs/performance.md`: groups measured anew replace their sections,
//! the others stay.
//! Room: onefold-bench.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use crate::report::{Row, table};

const HEAD: &str = "\
# Performance

Written by `cargo xtask bench GROUP --write-docs`. Every figure stands beside a reference that was
measured in turn with it, in the same run; medians of rounds, except for the engine, where the
round that took least counts. `verdict` compares `measured` with `goal`. A share is the
reference's CPU seconds over ours, or our speed over the reference's where a client is involved.
Speeds in process are of undisturbed time: the wall clock less the time in
which a thread was ready to run and other programs had all cores. GB are 10^9 bytes, GiB 2^30.

Data is half compressible, as fio's `buffer_compress_percentage=50` makes it: each 512 bytes are
256 random ones and 256 zeroes. Duplicates are spread as with `dedupe_mode=working_set`; fio's
default puts every duplicate next to its original, which no index is needed to find.
";

/// Sections in the order in which they stand.
pub const GROUPS: [(&str, &str); 11] = [
    ("engine", "The engine in process"),
    ("nbd", "Over NBD, on a Unix socket"),
    ("stored", "Stored bytes"),
    ("memory", "Memory"),
    ("space", "Space won back"),
    ("index", "Duplicates with little memory"),
    ("snapshots", "Snapshots"),
    ("cache", "The cache before a pool"),
    ("throttled", "The cache between two throttled devices"),
    ("estimate", "The estimator"),
    ("archive", "Archives"),
];

/// Replace the sections of the groups that `rows` are of.
pub fn write(path: &Path, rows: &[Row], rounds: usize, machine: &str) -> Result<()> {
    let old = std::fs::read_to_string(path).unwrap_or_default();
    std::fs::write(path, page(&old, rows, rounds, machine))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn page(old: &str, rows: &[Row], rounds: usize, machine: &str) -> String {
    let mut sections: BTreeMap<&str, String> = BTreeMap::new();
    for section in old.split("\n## ").skip(1) {
        let (title, body) = section.split_once('\n').unwrap_or((section, ""));
        sections.insert(title, body.trim().to_owned());
    }
    for (group, title) in GROUPS {
        let ours: Vec<Row> = rows.iter().filter(|row| row.group == group).cloned().collect();
        if !ours.is_empty() {
            let command = format!("`cargo xtask bench {group} --rounds {rounds}` on\n{machine}.");
            let picture = if group == "space" { crate::space::PICTURE } else { "" };
            let table = table(&ours);
            sections.insert(title, format!("{command}\n{picture}\n{}", table.trim_end()));
        }
    }
    let mut page = HEAD.to_owned();
    for (_, title) in GROUPS {
        if let Some(body) = sections.get(title) {
            page.extend(["\n## ", title, "\n\n", body, "\n"]);
        }
    }
    // What is not measured here was written by hand, and stays as it is.
    let is_group =
        |section: &&str| GROUPS.iter().any(|(_, title)| section.lines().next() == Some(title));
    for section in old.split("\n## ").skip(1).filter(|section| !is_group(section)) {
        page.extend(["\n## ", section.trim_end(), "\n"]);
    }
    page
}

/// This machine, in words: processor, cores, kernel, and how busy it is.
pub fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let field = |name: &str| {
        let line = cpu.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model = field("model name").unwrap_or_else(|| "an unknown processor".to_owned());
    let family = field("cpu family").map_or_else(String::new, |family| format!(" family {family}"));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split_ascii_whitespace().next().unwrap_or("unknown");
    format!("{model}{family}, {cores} cores, Linux {}, load {load}", kernel.trim())
}

#[cfg(test)]
mod tests {
    use crate::report::Unit;

    use super::*;

    #[test]
    fn sections_measured_anew_replace_the_old_ones_only() {
        let row = |group, value| Row::new(group, "thing", value, Unit::Times);
        let first = page("", &[row("stored", 1.5), row("engine", 7.5)], 5, "a box");
        assert!(first.find("7.50x").unwrap() < first.find("1.50x").unwrap(), "{first}");
        let second = page(&first, &[row("stored", 2.5)], 5, "another box");
        assert!(second.contains("7.50x") && second.contains("2.50x"), "{second}");
        assert!(
            !second.contains("1.50x") && second.contains("bench stored --rounds 5` on\nanother")
        );
        assert_eq!(page(&second, &[], 5, "x"), second, "nothing measured, nothing changed");
        let by_hand = format!("{second}\n## By hand\n\ntext\n\n## Another\n\nmore\n");
        assert_eq!(page(&by_hand, &[], 5, "x"), by_hand, "nor what was written by hand");
    }

    #[test]
    fn the_machine_is_described() {
        assert!(machine().contains(" cores, Linux "));
    }
}
