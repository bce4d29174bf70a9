//! Extents as devices tell them, made into what replies hold.
//! Room: onefold-nbd.
//! Invariants: whatever a device answers, (1) runs of a read add up to exactly its length;
//! (2) extents of a block status are at least one, none empty, and not more than asked about.

use std::io;

use onefold_block::{BlockError, Extent, ExtentKind};

/// A run of equal kind in a read.
pub(super) type Run = (ExtentKind, u32);

/// What a query of block status returns.
pub(super) type Extents = Result<Vec<Extent>, BlockError>;

/// Bytes asked about at once, so that a device never makes a list without bound.
const WINDOW_BYTES: u64 = 64 << 20;
/// So often a device is asked for one reply. Clients go on where it ended.
const WINDOWS_MAX: u64 = 256;

/// Runs of data and zeroes for a read of `len` bytes; zeroes shorter than `min_hole` count as
/// data, and so does what the device did not describe.
pub(super) fn read_runs(extents: Vec<Extent>, len: u32, min_hole: u32) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut left = len;
    for extent in extents {
        let taken = extent.len_bytes.min(u64::from(left)) as u32;
        let zero = extent.kind != ExtentKind::Data && taken >= min_hole;
        push(&mut runs, if zero { ExtentKind::Hole } else { ExtentKind::Data }, taken);
        left -= taken;
    }
    push(&mut runs, ExtentKind::Data, left);
    runs
}

fn push(runs: &mut Vec<Run>, kind: ExtentKind, len: u32) {
    match runs.last_mut() {
        _ if len == 0 => {}
        Some((last, sum)) if *last == kind => *sum += len,
        _ => runs.push((kind, len)),
    }
}

/// Up to `limit` extents from `offset`, together at most `len` bytes, neighbours of one kind
/// joined. `query` asks the device about one window.
pub(super) fn collect(
    offset: u64,
    len: u64,
    limit: usize,
    query: impl Fn(u64, u64) -> Extents,
) -> Extents {
    let len = len.min(WINDOWS_MAX * WINDOW_BYTES);
    let mut list: Vec<Extent> = Vec::new();
    let mut done = 0;
    while done < len {
        let window = WINDOW_BYTES.min(len - done);
        let mut told = 0;
        for extent in query(offset + done, window)? {
            let full = list.len() == limit;
            let len_bytes = extent.len_bytes.min(window - told);
            told += len_bytes;
            match list.last_mut() {
                _ if len_bytes == 0 => {}
                Some(last) if last.kind == extent.kind => last.len_bytes += len_bytes,
                _ if full => return Ok(list),
                _ => list.push(Extent { len_bytes, kind: extent.kind }),
            }
        }
        if told == 0 {
            return Err(BlockError::Io {
                context: "block status".to_owned(),
                source: io::Error::other("the device described nothing"),
            });
        }
        done += told;
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: ExtentKind = ExtentKind::Data;
    const HOLE: ExtentKind = ExtentKind::Hole;

    fn extent(kind: ExtentKind, len_bytes: u64) -> Extent {
        Extent { len_bytes, kind }
    }

    #[test]
    fn short_holes_and_the_undescribed_rest_are_data() {
        let told = vec![extent(DATA, 10), extent(HOLE, 3), extent(HOLE, 20), extent(DATA, 1)];
        assert_eq!(read_runs(told, 50, 8), [(DATA, 13), (HOLE, 20), (DATA, 17)]);
        assert_eq!(read_runs(vec![extent(HOLE, 99)], 50, 8), [(HOLE, 50)]);
        assert_eq!(read_runs(Vec::new(), 50, 8), [(DATA, 50)]);
    }

    /// What is asked of a device that answers each question with these lengths of data.
    fn asked(len: u64, answers: &[&[u64]]) -> (Vec<(u64, u64)>, Vec<Extent>) {
        let questions = std::cell::RefCell::new(Vec::new());
        let list = collect(5, len, 9, |at, window| {
            let mut questions = questions.borrow_mut();
            questions.push((at, window));
            Ok(answers[questions.len() - 1].iter().map(|&len| extent(DATA, len)).collect())
        });
        (questions.into_inner(), list.unwrap())
    }

    #[test]
    fn a_device_is_asked_about_what_is_left_and_at_most_a_window() {
        let window = WINDOW_BYTES;
        let (questions, list) =
            asked(3 * window, &[&[window], &[1, 2], &[window + 9], &[99, window]]);
        let (second, third, fourth) = (5 + window, 8 + window, 8 + 2 * window);
        let rest = window - 3;
        assert_eq!(questions, [(5, window), (second, window), (third, window), (fourth, rest)]);
        assert_eq!(list, [extent(DATA, 3 * window)], "never more than was asked about");
    }

    #[test]
    fn a_hole_of_just_the_least_length_is_told_in_a_read() {
        let told = vec![extent(HOLE, 8), extent(DATA, 1), extent(HOLE, 7)];
        assert_eq!(read_runs(told, 16, 8), [(HOLE, 8), (DATA, 8)]);
    }

    #[test]
    fn windows_are_joined_and_the_limit_is_kept() {
        let all_hole = |_, window| Ok(vec![extent(HOLE, window)]);
        let list = collect(0, u64::from(u32::MAX), 4, all_hole).unwrap();
        assert_eq!(list, [extent(HOLE, u64::from(u32::MAX))]);
        let list = collect(0, u64::MAX, 4, all_hole).unwrap();
        assert_eq!(list, [extent(HOLE, WINDOWS_MAX * WINDOW_BYTES)], "nobody waits for all of it");
        let striped =
            |at: u64, _| Ok(vec![extent(if at.is_multiple_of(2) { DATA } else { HOLE }, 1)]);
        let three = [extent(DATA, 1), extent(HOLE, 1), extent(DATA, 1)];
        assert_eq!(collect(0, 100, 3, striped).unwrap(), three);
        let nothing_between = |_, _| Ok(vec![extent(DATA, 1), extent(HOLE, 0), extent(DATA, 1)]);
        assert_eq!(collect(0, 2, 3, nothing_between).unwrap(), [extent(DATA, 2)]);
        assert_eq!(collect(0, 100, 1, striped).unwrap(), [extent(DATA, 1)]);
        assert!(collect(0, 100, 3, |_, _| Ok(Vec::new())).is_err());
    }
}
