//! Girth, and the search for words of low weight, beside all sums of few columns of small codes.
//! Room: onefold-code.

use std::collections::{BTreeSet, HashMap, VecDeque};

use onefold_code::{Entry, QcLdpc, Rng, Shape};

const Z: usize = 64;

fn any_entry(rows: usize, span: u64, rng: &mut Rng) -> Entry {
    let row = rng.below(rows as u64) as u16;
    Entry { row, shift: rng.below(span) as u16 }
}

/// A code with columns of the given weights at random, with shifts below `span`; the last `rows`
/// of them are parity.
fn small_code(rows: usize, weights: &[usize], span: u64, rng: &mut Rng) -> QcLdpc {
    let data_blocks = weights.len() - rows;
    let shape = Shape { circulant: Z, rows, data_blocks, weight: 3, seed: 0 };
    loop {
        let column = |&weight: &usize| {
            let mut column: Vec<Entry> = Vec::new();
            while column.len() < weight {
                let entry = any_entry(rows, span, rng);
                if !column.contains(&entry) {
                    column.push(entry);
                }
            }
            column
        };
        // Half of them have no inverse of their parity columns, where there are two rows.
        if let Ok(code) = QcLdpc::from_columns("small", shape, weights.iter().map(column).collect())
        {
            return code;
        }
    }
}

/// The checks of every bit, block column after block column.
fn checks_of_bits(code: &QcLdpc) -> Vec<u128> {
    let bit = |column: &Vec<Entry>, place: usize| {
        let check = |e: &Entry| usize::from(e.row) * Z + (usize::from(e.shift) + place) % Z;
        column.iter().fold(0, |sum, e| sum ^ 1u128 << check(e))
    };
    code.columns().iter().flat_map(|column| (0..Z).map(move |place| bit(column, place))).collect()
}

/// Calls `f` with the sum of every set of `size` bits of those from `from` on, added to `sum`.
fn each_sum(bits: &[u128], from: usize, size: usize, sum: u128, f: &mut impl FnMut(u128)) {
    if size == 0 {
        return f(sum);
    }
    for at in from..bits.len() {
        each_sum(bits, at + 1, size - 1, sum ^ bits[at], f);
    }
}

/// The lowest weight of a word, if that is at most 6. A word is two sets of at most three bits with
/// one sum, and some rotation of it has bit 0 of a block column in the larger one.
fn lowest_weight(bits: &[u128]) -> Option<usize> {
    (2usize..=6).find(|weight| {
        let (fewer, more) = (weight / 2, weight.div_ceil(2));
        let mut found: HashMap<u128, usize> = HashMap::new();
        for start in (0..bits.len()).step_by(Z) {
            let others = [&bits[..start], &bits[start + 1..]].concat();
            each_sum(&others, 0, more - 1, bits[start], &mut |sum| {
                found.insert(sum, 0);
            });
        }
        each_sum(bits, 0, fewer, 0, &mut |sum| {
            if let Some(times) = found.get_mut(&sum) {
                *times += 1;
            }
        });
        // A set of as many bits is found again itself.
        let alone = usize::from(fewer == more);
        found.values().any(|&times| times > alone)
    })
}

/// The shortest cycle through bit 0 of any block column, by breadth-first search over bits and
/// checks; 12 where there is none below.
fn girth(bits: &[u128]) -> usize {
    let neighbours = |node: usize| -> Vec<usize> {
        match node.checked_sub(bits.len()) {
            None => (0..128).filter(|c| bits[node] >> c & 1 == 1).map(|c| bits.len() + c).collect(),
            Some(check) => (0..bits.len()).filter(|&b| bits[b] >> check & 1 == 1).collect(),
        }
    };
    let mut shortest = 12;
    for start in (0..bits.len()).step_by(Z) {
        let mut far = HashMap::from([(start, (0, start))]);
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            let (distance, before) = far[&node];
            for next in neighbours(node) {
                match far.get(&next) {
                    Some(_) if next == before => {}
                    Some((other, _)) => shortest = shortest.min(distance + other + 1),
                    None => {
                        far.insert(next, (distance + 1, node));
                        queue.push_back(next);
                    }
                }
            }
        }
    }
    shortest
}

#[test]
fn what_the_search_finds_and_proves_is_what_all_sums_of_few_columns_say() {
    let mut rng = Rng::new(31);
    let mut seen = BTreeSet::new();
    // The closer together, the shorter are cycles, and the lighter words.
    for span in [7, 9, 12, 64] {
        for weights in [[3, 3, 3], [4, 4, 3], [4, 3, 5], [5, 4, 3]] {
            let code = small_code(1, &weights, span, &mut rng);
            let bits = checks_of_bits(&code);
            let (lowest, girth) = (lowest_weight(&bits), girth(&bits));
            let report = code.distance_report(6, u64::MAX);
            let said = format!("{:?} {report:?}", code.columns());
            assert_eq!(report.lowest_found, lowest, "{said}");
            assert_eq!(report.proven_at_least, lowest.unwrap_or(7), "{said}");
            assert_eq!(report.girth, girth, "{said}");
            let sum = report.example.iter().fold(0, |sum, &(block, place)| {
                sum ^ bits[block as usize * Z + usize::from(place)]
            });
            assert_eq!((sum, report.example.len()), (0, lowest.unwrap_or(0)), "{said}");
            seen.extend([(girth, lowest)]);
        }
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
}

#[test]
fn the_girth_is_that_of_a_walk_over_bits_and_checks() {
    let mut rng = Rng::new(33);
    let mut seen = BTreeSet::new();
    for rows in [1, 2] {
        for weights in [[2, 2, 1], [2, 3, 1], [1, 2, 1], [3, 3, 3]] {
            for _ in 0..8 {
                let weights = [&weights[..], &[3, 3][..rows - 1]].concat();
                let code = small_code(rows, &weights, Z as u64, &mut rng);
                let expected = girth(&checks_of_bits(&code));
                assert_eq!(code.girth(), expected, "{:?}", code.columns());
                seen.insert(expected);
            }
        }
    }
    assert_eq!(seen, BTreeSet::from([4, 6, 8, 10, 12]));
}

/// The search takes the bits in the order of the columns' entries. Here it comes to a bit of three
/// checks (the last one) of which but one is unsatisfied, while the two bits after it satisfy four
/// checks each.
#[test]
fn a_light_bit_may_satisfy_one_check_where_heavy_ones_come_after_it() {
    // The checks of a word of one bit of each column; the last two are parity.
    let word: [&[u8]; 6] = [b"bxyp", b"bstq", b"xsmu", b"ytnv", b"pmn", b"quv"];
    let shape = Shape { circulant: Z, rows: 2, data_blocks: 4, weight: 4, seed: 0 };
    let mut rng = Rng::new(32);
    let mut left = 5;
    while left > 0 {
        let entries: [Entry; 256] = std::array::from_fn(|_| any_entry(2, Z as u64, &mut rng));
        let column =
            |checks: &&[u8]| checks.iter().map(|&check| entries[usize::from(check)]).collect();
        let Ok(code) = QcLdpc::from_columns("planted", shape, word.iter().map(column).collect())
        else {
            continue;
        };
        if code.girth() < 6 {
            continue;
        }
        let report = code.distance_report(6, 1_000_000);
        assert_eq!((report.lowest_found, report.proven_at_least), (Some(6), 6), "{report:?}");
        left -= 1;
    }
}
