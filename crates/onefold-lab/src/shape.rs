//! Words about curves as predicates: each answers whether it is so, and by which figures.
//! Room: onefold-lab.

use crate::row::show;

/// Which way a curve goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Up.
    Rises,
    /// Down.
    Falls,
}

/// Whether a curve goes one way from point to point, but for steps back of at most `slack`; and the
/// largest step back with its place.
pub fn goes(way: Way, curve: &[(f64, f64)], slack: f64) -> (bool, String) {
    let sign = if way == Way::Rises { -1.0 } else { 1.0 };
    let back = |pair: &[(f64, f64)]| (sign * (pair[1].1 - pair[0].1), pair[0], pair[1]);
    let worst = curve.windows(2).map(back).max_by(|a, b| a.0.total_cmp(&b.0));
    let Some((step, from, to)) = worst else { return (false, "no curve".to_owned()) };
    let (first, last) = (curve[0].1, curve[curve.len() - 1].1);
    let ends = format!("from {} to {}", show(first), show(last));
    if step > slack {
        let (at, then) = (show(from.0), show(to.0));
        return (
            false,
            format!("{ends}, but {} to {} from {at} to {then}", show(from.1), show(to.1)),
        );
    }
    (true, ends)
}

/// Whether one curve is above another at every place, by more than `margin` times its height; and
/// the place where it is so the least.
pub fn above(upper: &[(f64, f64)], lower: &[(f64, f64)], margin: f64) -> (bool, String) {
    let both = upper.iter().zip(lower);
    let nearest = both.map(|(u, l)| (u.1 / l.1 - 1.0, u.0, u.1, l.1));
    let nearest = nearest.min_by(|a, b| a.0.total_cmp(&b.0));
    let Some((by, at, u, l)) = nearest else { return (false, "no curve".to_owned()) };
    (by > margin, format!("least at {}: {} against {}", show(at), show(u), show(l)))
}

/// The height of a curve at a place; no number where it has none.
pub fn at(curve: &[(f64, f64)], place: f64) -> f64 {
    let there = curve.iter().find(|point| point.0.total_cmp(&place).is_eq());
    there.map_or(f64::NAN, |point| point.1)
}

/// How much a curve spans: its highest over its lowest.
pub fn span(curve: &[(f64, f64)]) -> f64 {
    let ends = curve.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &(_, value)| {
        (low.min(value), high.max(value))
    });
    ends.1 / ends.0
}

/// How well a straight line fits, as the square of the correlation; 1 is a straight line.
pub fn straight(curve: &[(f64, f64)]) -> f64 {
    let n = curve.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| curve.iter().map(of).sum::<f64>() / n;
    let (mx, my) = (mean(|p| p.0), mean(|p| p.1));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| curve.iter().map(|&(x, y)| of(x - mx, y - my)).sum::<f64>();
    let (xx, yy, xy) = (sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y));
    xy * xy / (xx * yy)
}

/// All of several answers, and what each says.
pub fn all(answers: impl IntoIterator<Item = (String, (bool, String))>) -> (bool, String) {
    let mut holds = true;
    let words = answers.into_iter().map(|(name, (one, figure))| {
        holds &= one;
        format!("{name} {figure}")
    });
    let words: Vec<String> = words.collect();
    (holds && !words.is_empty(), words.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_predicate_can_fail() {
        let rising = [(1.0, 1.0), (2.0, 3.0), (4.0, 7.0)];
        let bent = [(1.0, 1.0), (2.0, 3.0), (4.0, 2.0)];
        assert!(goes(Way::Rises, &rising, 0.0).0 && !goes(Way::Falls, &rising, 0.0).0);
        assert!(!goes(Way::Rises, &bent, 0.5).0 && goes(Way::Rises, &bent, 1.0).0);
        assert!(goes(Way::Rises, &bent, 0.5).1.ends_with("but 3 to 2 from 2 to 4"));
        assert!(!goes(Way::Rises, &[], 0.0).0);
        assert!(!above(&rising, &bent, 0.0).0 && above(&[(0.0, 2.0)], &[(0.0, 1.0)], 0.5).0);
        assert!((straight(&rising) - 1.0).abs() < 1e-9 && straight(&bent) < 0.5);
        assert!((span(&rising) - 7.0).abs() < 1e-9);
        assert!((at(&bent, 2.0) - 3.0).abs() < 1e-9 && at(&bent, 3.0).is_nan());
        let answers =
            |b| all([("a".to_owned(), (true, "1".into())), ("b".to_owned(), (b, "2".into()))]);
        assert_eq!((answers(true).0, answers(false)), (true, (false, "a 1; b 2".into())));
        assert!(!all([]).0);
    }

    #[test]
    fn figures_name_the_step_back_and_the_place_that_decide() {
        let curve = [(1.0, 5.0), (2.0, 7.0), (3.0, 6.5), (4.0, 3.0), (5.0, 2.0)];
        let (falls, figure) = goes(Way::Falls, &curve, 1.9);
        assert_eq!((falls, figure.as_str()), (false, "from 5 to 2, but 5 to 7 from 1 to 2"));
        assert_eq!(goes(Way::Falls, &curve, 2.0), (true, "from 5 to 2".to_owned()));
        let (rises, figure) = goes(Way::Rises, &curve, 3.0);
        assert_eq!((rises, figure.as_str()), (false, "from 5 to 2, but 6.5 to 3 from 3 to 4"));
        let lower = [(1.0, 4.0), (2.0, 4.0), (3.0, 5.0), (4.0, 2.0), (5.0, 1.0)];
        assert_eq!(above(&curve, &lower, 0.2), (true, "least at 1: 5 against 4".to_owned()));
        assert!(!above(&curve, &lower, 0.25).0, "more than the margin, not as much");
        assert_eq!(above(&[], &lower, 0.0), (false, "no curve".to_owned()));
        // A line explains 81 of the 90 by which these differ from their mean, in squares.
        let near = [(0.0, 0.0), (1.0, 3.0), (2.0, 3.0), (3.0, 6.0)];
        assert!((straight(&near) - 0.9).abs() < 1e-9, "{}", straight(&near));
        assert!((span(&[(0.0, 4.0), (1.0, 2.0), (2.0, 8.0)]) - 4.0).abs() < 1e-9);
    }
}
