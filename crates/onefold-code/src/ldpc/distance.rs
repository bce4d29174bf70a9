//! How good a code's matrix is: girth, and a search for codewords of low weight.
//! Room: onefold-code.
//! Source: depth-first search that settles one unsatisfied check at a time; by cyclic symmetry
//! only bit 0 of each block column needs to be a starting point.
//! Cost: bounded by the node budget.

use super::code::QcLdpc;
use super::design::{Check, Pairs};

/// What the search for low-weight codewords found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistanceReport {
    /// Length of the shortest cycle of the Tanner graph.
    pub girth: usize,
    /// Lowest weight of a codeword found: an upper bound on the minimum distance.
    pub lowest_found: Option<usize>,
    /// Bits (block column, place) of that codeword.
    pub example: Vec<(u32, u16)>,
    /// Every weight below this was searched completely: a lower bound on the minimum distance.
    pub proven_at_least: usize,
}

struct Search<'a> {
    pairs: &'a Pairs,
    budget: u64,
    /// Largest column weight.
    widest: usize,
    chosen: Vec<(u32, u16)>,
    unsatisfied: Vec<Check>,
}

impl QcLdpc {
    /// Girth, and the lowest codeword weight up to `max_weight` within `budget` search nodes.
    pub fn distance_report(&self, max_weight: usize, budget: u64) -> DistanceReport {
        let mut search = Search {
            pairs: &self.pairs,
            budget,
            widest: self.columns().iter().map(Vec::len).max().unwrap_or(0),
            chosen: Vec::new(),
            unsatisfied: Vec::new(),
        };
        let mut report = DistanceReport {
            girth: self.girth(),
            lowest_found: None,
            example: Vec::new(),
            proven_at_least: 2,
        };
        for weight in 2..=max_weight {
            let found = (0..self.columns().len() as u32).any(|column| search.start(column, weight));
            if found {
                report.lowest_found = Some(weight);
                report.example.clone_from(&search.chosen);
                break;
            }
            if search.budget == 0 {
                break;
            }
            report.proven_at_least = weight + 1;
        }
        report
    }

    /// Length of the shortest cycle of the Tanner graph (4 to 12; 12 also stands for longer).
    pub fn girth(&self) -> usize {
        let columns = self.columns().len() as u32;
        (0..columns).map(|column| self.shortest_cycle(column)).min().unwrap_or(12)
    }

    /// Shortest cycle through bit 0 of a block column, by breadth-first search of its branches.
    fn shortest_cycle(&self, column: u32) -> usize {
        let pairs = &self.pairs;
        // For each check reached: the branch (entry of the root) that it belongs to.
        let mut seen = std::collections::HashMap::new();
        let mut frontier = Vec::new();
        for (branch, check) in pairs.checks(column, 0).enumerate() {
            if seen.insert(check, branch).is_some() {
                return 2;
            }
            frontier.push((check, (column, 0u16), branch));
        }
        for depth in 1..3 {
            let mut next = Vec::new();
            let mut closing = None;
            for &(check, from, branch) in &frontier {
                for &(other, shift) in &pairs.by_row[usize::from(check.0)] {
                    let bit = (other, pairs.back(check.1, shift));
                    if bit == from || bit == (column, 0) {
                        continue;
                    }
                    for far in pairs.checks(bit.0, bit.1).filter(|&c| c != check) {
                        match seen.get(&far) {
                            Some(&b) if b != branch => closing = Some(4 * depth),
                            Some(_) => {}
                            None => next.push((far, bit, branch)),
                        }
                    }
                }
            }
            if let Some(length) = closing {
                return length;
            }
            for &(check, _, branch) in &next {
                if seen.insert(check, branch).is_some_and(|b| b != branch) {
                    closing = Some(4 * depth + 2);
                }
            }
            if let Some(length) = closing {
                return length;
            }
            frontier = next;
        }
        12
    }
}

impl Search<'_> {
    fn start(&mut self, column: u32, weight: usize) -> bool {
        self.chosen.clear();
        self.unsatisfied.clear();
        self.toggle(column, 0);
        self.chosen.push((column, 0));
        self.extend(weight - 1)
    }

    fn toggle(&mut self, column: u32, place: u16) {
        for check in self.pairs.checks(column, place) {
            match self.unsatisfied.iter().position(|&c| c == check) {
                Some(at) => {
                    self.unsatisfied.swap_remove(at);
                }
                None => self.unsatisfied.push(check),
            }
        }
    }

    /// Tries to satisfy every check with at most `left` more bits.
    fn extend(&mut self, left: usize) -> bool {
        if self.unsatisfied.is_empty() {
            return true;
        }
        if left == 0 || self.budget == 0 || self.unsatisfied.len() > self.widest * left {
            return false;
        }
        self.budget -= 1;
        let first = self.unsatisfied[0];
        let pairs = self.pairs;
        // What a bit leaves unsatisfied must not be more than the ones after it can meet.
        let (unsatisfied, others_meet) = (self.unsatisfied.len(), self.widest * (left - 1));
        let must_meet =
            |weight: usize| (unsatisfied + weight).saturating_sub(others_meet).div_ceil(2);
        // A bit that must meet two unsatisfied checks or more is found by its pair of checks.
        if must_meet(self.widest) >= 2 && !pairs.crowded {
            let mut candidates: Vec<(u32, u16)> = self.unsatisfied[1..]
                .iter()
                .filter_map(|&other| pairs.join(first, other))
                .collect();
            // One of a lighter column may need to meet no other than the first.
            let met = candidates.len();
            for &(column, shift) in &pairs.by_row[usize::from(first.0)] {
                let bit = (column, pairs.back(first.1, shift));
                let light = must_meet(pairs.columns[column as usize].len()) < 2;
                if light && !candidates[..met].contains(&bit) {
                    candidates.push(bit);
                }
            }
            return candidates.into_iter().any(|bit| self.try_bit(bit, left));
        }
        pairs.by_row[usize::from(first.0)]
            .iter()
            .any(|&(column, shift)| self.try_bit((column, pairs.back(first.1, shift)), left))
    }

    fn try_bit(&mut self, bit: (u32, u16), left: usize) -> bool {
        // Starting points are tried in order, so that earlier block columns are already excluded
        // as members: a word that holds one was found from there, up to rotation.
        if bit.0 < self.chosen[0].0 || self.chosen.contains(&bit) {
            return false;
        }
        let before = self.unsatisfied.clone();
        self.toggle(bit.0, bit.1);
        self.chosen.push(bit);
        if self.extend(left - 1) {
            return true;
        }
        self.chosen.pop();
        self.unsatisfied = before;
        false
    }
}
