//! The nearest known word to one that was mistyped.
//! Room: onefold-block.

/// The known word that takes the fewest edits to reach, if these are few for its length.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        // Letters too many or too few are edits: a text without end is not compared with any.
        .filter(|candidate| {
            let longest = candidate.len().max(word.len());
            candidate.len().abs_diff(word.len()) <= longest.div_ceil(3)
        })
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|&(edits, candidate)| edits <= candidate.len().max(word.len()).div_ceil(3))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Letters to insert, remove or replace (Levenshtein), row by row.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.chars().count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_known_ones() {
        for (a, b, edits) in
            [("", "", 0), ("abc", "", 3), ("kitten", "sitting", 3), ("flaw", "lawn", 2)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (edits, edits), "{a} {b}");
        }
    }

    #[test]
    fn only_a_near_word_is_suggested() {
        let known = ["listen", "size", "tls-key"];
        assert_eq!(nearest("lisen", known.into_iter()), Some("listen"));
        assert_eq!(nearest("tls_key", known.into_iter()), Some("tls-key"));
        assert_eq!(nearest("frobnicate", known.into_iter()), None);
        let policies = ["lru", "s3-fifo", "sieve"];
        assert_eq!(nearest("s3fifo", policies.into_iter()), Some("s3-fifo"));
        for (word, known, near) in [
            ("abcdxy", "abcdef", true),
            ("abcxyz", "abcdef", false),
            ("abcd", "abcdef", true),
            ("abcdef", "abcd", true),
            ("abc", "abcdef", false),
            ("abcdxyz", "abcdefg", true),
            ("abcd", "abcdefg", true),
            ("abc", "abcdefg", false),
            ("ab", "xb", true),
            ("ab", "xy", false),
        ] {
            let found = nearest(word, std::iter::once(known));
            assert_eq!(found, near.then_some(known), "{word} {known}");
        }
        assert_eq!(
            nearest("lr", ["lru", "lfu", "l"].into_iter()),
            Some("l"),
            "the first of equals"
        );
        // Comparing these letter by letter would take minutes.
        let endless = "x".repeat(200 << 20);
        assert_eq!(nearest(&endless, known.into_iter()), None);
        assert_eq!(nearest("seive", policies.into_iter()), Some("sieve"));
    }
}
