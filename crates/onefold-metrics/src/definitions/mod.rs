//! All metrics, a file for each subject.
//! Room: onefold-metrics.
//!
//! A new one is a row in the table of its subject: how it behaves, its name, its help, and what it
//! is of a sample. `[status "..."]` says where `pool status --json` shows the same number; tests
//! compare the two.

mod cache;
#[cfg(feature = "drive")]
mod drive;
mod exports;
mod pool;
mod process;

use crate::definition::{Definition, Point};

/// A row of a subject that is one thing: `KIND "name" [status "path"] "help" => |subject| value;`
macro_rules! rows {
    ($subject:path; $($kind:ident $name:literal $([status $status:literal])? $help:literal
        => $read:expr;)+) => {
        &[$(
            $crate::definition::Definition {
                name: $name,
                kind: $crate::definition::Kind::$kind,
                help: $help,
                labels: &[],
                status: rows!(@status $($status)?),
                read: |sample| {
                    let Some(subject) = $subject(sample) else { return Vec::new() };
                    $crate::definitions::one($crate::definitions::applied(subject, $read))
                },
            },
        )+]
    };
    (@status $status:literal) => { Some($status) };
    (@status) => { None };
}
use rows;

/// `read` of a subject: it lets a row's closure know what it is given.
fn applied<S: ?Sized, N: Into<crate::Number>>(
    subject: &S,
    read: impl Fn(&S) -> N,
) -> crate::Number {
    read(subject).into()
}

/// The values of a metric that is of one thing.
fn one(number: crate::Number) -> Vec<Point> {
    vec![Point { labels: Vec::new(), number }]
}

/// A value of a metric with labels.
fn point<const N: usize>(labels: [&str; N], number: impl Into<crate::Number>) -> Point {
    Point { labels: labels.map(str::to_owned).into(), number: number.into() }
}

/// Every metric, in the order in which they are shown.
pub fn all() -> impl Iterator<Item = &'static Definition> {
    let subjects = [pool::METRICS, pool::LABELLED, exports::METRICS, cache::METRICS];
    #[cfg(feature = "drive")]
    let drive = [drive::METRICS, drive::LABELLED];
    #[cfg(not(feature = "drive"))]
    let drive: [&[Definition]; 0] = [];
    subjects.into_iter().chain(drive).chain([process::METRICS]).flatten()
}
