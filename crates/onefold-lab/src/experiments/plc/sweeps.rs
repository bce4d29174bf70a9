//! PLC-Cache Fig. 10 to 24: size of the cache, popularity, size of a container, threshold, delay.
//! Room: onefold-lab.
//! Source: [plc-cache] sec. V.C and V.D.

use onefold_cache::simulate::Run;
use onefold_cache::workload::WorkloadSpec;

use super::{FAMILIES, Family, Job, VOLUMES, Volume, put_triple, run_all, times_less, triple};
use crate::error::Result;
use crate::row::show;
use crate::series::{Data, Line};
use crate::settings::Settings;
use crate::shape::{Way, above, all, goes, span, straight};

const BOTH: [&str; 2] = ["lru", "plc"];
const NAMES: [&str; 2] = ["LRU", "PLC"];
/// Containers below which Fig. 18's text gives a range of hit rates, in KiB.
const RANGE_BELOW_KIB: u64 = 4096;
/// Latencies that differ by less are the same, in percent.
const SAME_PERCENT: f64 = 1.0;
/// A curve is almost a straight line if the square of its correlation is at least so large.
const STRAIGHT: f64 = 0.95;
/// A curve that spans less, highest over lowest, hardly depends on what it is over.
const FLAT: f64 = 1.5;
/// A curve that spans less is level.
const LEVEL: f64 = 1.05;

type Curve = Vec<(f64, f64)>;

fn cache_size(settings: &Settings<'_>) -> Result<f64> {
    Ok(settings.real("cache_percent")? / 100.0)
}

/// The curves of a policy under a setting: latency, bytes written, hit rate.
fn curves(data: &Data, lines: &[Line; 3], of: &str, setting: &str) -> [Curve; 3] {
    lines.each_ref().map(|line| data.curve(&line.of(of).under(setting)))
}

/// Both volumes of the calibrated family.
fn both_volumes() -> [String; 2] {
    VOLUMES.map(|volume| format!("{}, {}", Family::Calibrated.name(), volume.name()))
}

/// Fig. 10 to 12.
pub fn sizes(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let percents = settings.numbers("sizes_percent")?;
    let sizes: Vec<f64> = percents.iter().map(|&percent| percent as f64 / 100.0).collect();
    let mut jobs = Vec::new();
    for family in FAMILIES {
        for volume in VOLUMES {
            jobs.push(Job::new(settings, family, volume, &BOTH, &sizes)?);
        }
    }
    let lines = triple("cache", "% of data");
    let crossover_of = Line::new("largest cache with which PLC hits as often as LRU", "%");
    let crossover_of = crossover_of.over("read", "").of("PLC");
    for (job, done) in jobs.iter().zip(run_all(settings, &jobs)?) {
        let (lru, plc) = done.runs.split_at(sizes.len());
        let (family, volume) = (job.label.0.as_str(), job.label.1.as_str());
        if family == Family::Calibrated.name() {
            for (runs, name) in [(lru, NAMES[0]), (plc, NAMES[1])] {
                for (run, &percent) in runs.iter().zip(&percents) {
                    put_triple(settings, &lines, (name, &job.setting()), percent, run, data)?;
                }
            }
        }
        let last = crossover(&hit_rates(lru), &hit_rates(plc), &percents) as f64;
        let line = crossover_of.under(family);
        if (family, volume) == (Family::Calibrated.name(), Volume::Stated.name()) {
            data.beside(("crossover", "cache_ratio"), &line, volume, last)?;
        } else {
            data.put(&line, volume, last);
        }
    }
    size_shapes(&lines, data)
}

fn size_shapes(lines: &[Line; 3], data: &mut Data) -> Result<()> {
    let (mut latency, mut writes, mut hits) = (Vec::new(), Vec::new(), Vec::new());
    for setting in both_volumes() {
        let [lru, plc] = NAMES.map(|name| curves(data, lines, name, &setting));
        latency.push((format!("{setting}: LRU"), line(Way::Falls, &lru[0])));
        latency.push(("PLC".to_owned(), line(Way::Falls, &plc[0])));
        latency.push(("LRU above PLC".to_owned(), above(&lru[0], &plc[0], 0.0)));
        let spans = span(&plc[1]);
        let spans = (spans_less(spans, FLAT), format!("spans {} times", show(spans)));
        writes.push((format!("{setting}: PLC"), spans));
        writes.push(("LRU".to_owned(), goes(Way::Falls, &lru[1], 0.0)));
        hits.push((format!("{setting}: LRU"), line(Way::Rises, &lru[2])));
        hits.push(("PLC".to_owned(), line(Way::Rises, &plc[2])));
    }
    for (shape, answers) in [("latency", latency), ("writes", writes), ("hits", hits)] {
        let (holds, figure) = all(answers);
        data.shows(shape, holds, figure)?;
    }
    Ok(())
}

/// Whether a curve goes one way almost in a straight line.
fn line(way: Way, curve: &Curve) -> (bool, String) {
    let (goes, figure) = goes(way, curve, 0.0);
    let r2 = straight(curve);
    (goes && is_straight(r2), format!("{figure}, r2 {}", show(r2)))
}

fn is_straight(r2: f64) -> bool {
    r2 >= STRAIGHT
}

/// Whether a curve's highest is less than so many times its lowest.
fn spans_less(spans: f64, times: f64) -> bool {
    spans < times
}

fn hit_rates(runs: &[Run]) -> Vec<f64> {
    runs.iter().map(|run| run.hit_rate).collect()
}

/// The largest size up to which PLC hits at least as often; 0 if there is none.
fn crossover(lru: &[f64], plc: &[f64], percents: &[u64]) -> u64 {
    let as_often = |(lru, plc): &(&f64, &f64)| plc >= lru;
    let count = lru.iter().zip(plc).take_while(as_often).count();
    count.checked_sub(1).map_or(0, |last| percents[last])
}

/// Fig. 13 to 15.
pub fn popularity(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let size = cache_size(settings)?;
    let plain = Job::new(settings, Family::Uncorrelated, Volume::Implied, &BOTH, &[size])?;
    let alphas = settings.numbers("alphas_percent")?;
    let mut jobs = Vec::new();
    for (reading, formula) in [("formula", true), ("text", false)] {
        for &alpha in &alphas {
            let alpha = alpha as f64 / 100.0;
            let zipf_exponent = if formula { 1.0 - alpha } else { alpha };
            let workload = WorkloadSpec { zipf_exponent, ..plain.workload };
            jobs.push((alpha, reading, Job { workload, ..plain.clone() }));
        }
    }
    let lines = triple("alpha", "");
    let runs = run_all(settings, &jobs.iter().map(|job| job.2.clone()).collect::<Vec<_>>())?;
    for ((alpha, reading, _), done) in jobs.iter().zip(runs) {
        for (run, name) in done.runs.iter().zip(NAMES) {
            put_triple(settings, &lines, (name, reading), *alpha, run, data)?;
        }
    }
    for (shape, decide) in [
        ("more-with-alpha", alpha_gives as fn(&Data, &[Line; 3], &str) -> (bool, String)),
        ("plc-better", plc_is_better),
    ] {
        // The formula is what all other figures are run by.
        let (holds, figure) = decide(data, &lines, "formula");
        let (text, other) = decide(data, &lines, "text");
        let text = if text { "holds" } else { "fails" };
        let figure = format!("by the formula: {figure}; by the text it {text}: {other}");
        data.shows(shape, holds, figure)?;
    }
    Ok(())
}

fn alpha_gives(data: &Data, lines: &[Line; 3], reading: &str) -> (bool, String) {
    let mut answers = Vec::new();
    for name in NAMES {
        let ways = [Way::Falls, Way::Falls, Way::Rises];
        let of = curves(data, lines, name, reading);
        for ((curve, way), what) in of.iter().zip(ways).zip(["ms", "GB", "% hits"]) {
            answers.push((format!("{name} {what}"), goes(way, curve, 0.0)));
        }
    }
    all(answers)
}

fn plc_is_better(data: &Data, lines: &[Line; 3], reading: &str) -> (bool, String) {
    let [lru, plc] = NAMES.map(|name| curves(data, lines, name, reading));
    let [of_lru, of_plc] = [span(&lru[0]), span(&plc[0])];
    let words = format!("{} times, LRU's {}", show(of_plc), show(of_lru));
    all([
        ("LRU above PLC in ms".to_owned(), above(&lru[0], &plc[0], 0.0)),
        ("in GB".to_owned(), above(&lru[1], &plc[1], 0.0)),
        ("PLC's latency spans".to_owned(), (spans_less(of_plc, of_lru), words)),
    ])
}

/// Fig. 16 to 18.
pub fn containers(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let size = cache_size(settings)?;
    let plain = Job::new(settings, Family::Calibrated, Volume::Implied, &BOTH, &[size])?;
    let kib = settings.numbers("container_kib")?;
    let jobs: Vec<Job> = kib
        .iter()
        .map(|&kib| {
            let workload = WorkloadSpec { container_kib: kib as u32, ..plain.workload };
            Job { workload, ..plain.clone() }
        })
        .collect();
    let (mut least, mut most) = (100.0_f64, 0.0_f64);
    let (lines, setting) = (triple("container", "KiB"), plain.setting());
    for (done, kib) in run_all(settings, &jobs)?.iter().zip(kib) {
        for (run, name) in done.runs.iter().zip(NAMES) {
            put_triple(settings, &lines, (name, &setting), kib, run, data)?;
            if kib < RANGE_BELOW_KIB {
                least = least.min(run.hit_rate * 100.0);
                most = most.max(run.hit_rate * 100.0);
            }
        }
    }
    for (column, name, value) in
        [("min", "least hit rate", least), ("max", "highest hit rate", most)]
    {
        let line = Line::new(&format!("{name} below 4 MiB"), "%").of("LRU and PLC").under(&setting);
        data.beside(("hit_rate", column), &line, (), value)?;
    }
    container_shapes(&lines, &setting, data)
}

fn container_shapes(lines: &[Line; 3], setting: &str, data: &mut Data) -> Result<()> {
    let [lru, plc] = NAMES.map(|name| curves(data, lines, name, setting));
    let named = |of: [(bool, String); 2]| NAMES.map(str::to_owned).into_iter().zip(of);
    let grows = [&lru[0], &plc[0]].map(|curve| goes(Way::Rises, &beyond(curve, 1024), 0.0));
    let (holds, figure) = all(named(grows));
    data.shows("latency-grows", holds, figure)?;
    let by = grows_more(&lru[1], &plc[1]);
    let written = [&lru[1], &plc[1]].map(|curve| goes(Way::Rises, curve, 0.0));
    let (holds, figure) = all(named(written).chain([("LRU more:".to_owned(), by)]));
    data.shows("writes-grow", holds, figure)?;
    let drops = [&lru[2], &plc[2]].map(drops_later);
    let (holds, figure) = all(named(drops));
    data.shows("hits-drop", holds, figure)
}

/// The part of a curve from a place on.
fn beyond(curve: &Curve, place: u64) -> Curve {
    curve.iter().copied().filter(|(at, _)| *at >= place as f64).collect()
}

/// How much more the last point of a curve is than its first; no number without points.
fn rise(curve: &[(f64, f64)]) -> f64 {
    let (Some(first), Some(last)) = (curve.first(), curve.last()) else { return f64::NAN };
    last.1 - first.1
}

fn grows_more(curve: &Curve, than: &Curve) -> (bool, String) {
    let (by, theirs) = (rise(curve), rise(than));
    (by > theirs, format!("by {}, {} GB", show(by), show(theirs)))
}

/// By how much a curve falls up to a place, and from there on.
fn falls_by(curve: &Curve, place: u64) -> (f64, f64) {
    let later = beyond(curve, place);
    let up_to = curve.first().zip(later.first());
    (up_to.map_or(f64::NAN, |(first, there)| first.1 - there.1), -rise(&later))
}

/// Whether a curve falls beyond 4 MiB, and by more than up to there.
fn drops_later(curve: &Curve) -> (bool, String) {
    let (before, after) = falls_by(curve, RANGE_BELOW_KIB);
    let figure = format!("{} points up to 4 MiB, {} beyond", show(before), show(after));
    (after > before && after > 0.0, figure)
}

/// PLC over a setting, in both volumes: label, and runs.
fn setting(
    settings: &Settings<'_>,
    name: &str,
    values: &[u64],
    data: &mut Data,
) -> Result<Vec<(Volume, Vec<Run>)>> {
    let size = cache_size(settings)?;
    let policies: Vec<String> = values.iter().map(|value| format!("plc:{name}={value}")).collect();
    let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
    let job = |volume| Job::new(settings, Family::Calibrated, volume, &policies, &[size]);
    let jobs: Vec<Job> = VOLUMES.into_iter().map(job).collect::<Result<_>>()?;
    let done = run_all(settings, &jobs)?;
    let lines = triple(name, "");
    let mut found = Vec::new();
    for ((job, done), volume) in jobs.iter().zip(done).zip(VOLUMES) {
        for (run, &value) in done.runs.iter().zip(values) {
            put_triple(settings, &lines, ("PLC", &job.setting()), value, run, data)?;
        }
        found.push((volume, done.runs));
    }
    Ok(found)
}

/// Adds a number, beside a printed one where 128 GB are read.
fn add(
    (printed, volume): ((&str, &str), Volume),
    line: &Line,
    value: f64,
    data: &mut Data,
) -> Result<()> {
    let line = line.under(Family::Calibrated.name());
    match volume {
        Volume::Implied => data.beside(printed, &line, volume.name(), value)?,
        Volume::Stated => data.put(&line, volume.name(), value),
    };
    Ok(())
}

fn file_ms(runs: &[Run]) -> Vec<f64> {
    runs.iter().map(|run| run.latency.file_ms).collect()
}

/// The smallest value from which latency is what it is at the end, or is least.
fn settles(values: &[u64], file_ms: &[f64], at: f64) -> u64 {
    let same = |ms: &&f64| is_same((*ms / at - 1.0).abs() * 100.0);
    let settled = file_ms.iter().rev().take_while(same).count().max(1);
    values[values.len() - settled]
}

/// Whether latencies so far apart, in percent, are the same.
fn is_same(apart: f64) -> bool {
    apart <= SAME_PERCENT
}

/// The first value with which latency is the least that there is.
fn falls_until(values: &[u64], file_ms: &[f64]) -> Option<u64> {
    let least = file_ms.iter().copied().fold(f64::INFINITY, f64::min);
    let mut with = values.iter().zip(file_ms);
    with.find(|(_, ms)| is_same((*ms / least - 1.0) * 100.0)).map(|(&value, _)| value)
}

/// Fig. 19 to 21.
pub fn thresholds(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let values = settings.numbers("thresholds")?;
    for (volume, runs) in setting(settings, "threshold", &values, data)? {
        let run_of = |wanted| values.iter().position(|&v| v == wanted).map(|at| &runs[at]);
        let (Some(four), Some(fourteen)) = (run_of(4), run_of(14)) else { continue };
        let lost = (1.0 - fourteen.hit_rate / four.hit_rate) * 100.0;
        let ratio = times_less(four.written_bytes, fourteen.written_bytes);
        let flat = settles(&values, &file_ms(&runs), fourteen.latency.file_ms) as f64;
        for (printed, name, value, unit) in [
            (("threshold 4", "hit_rate"), "hit rate, threshold 4", four.hit_rate * 100.0, "%"),
            (
                ("threshold 14", "hit_rate"),
                "hit rate, threshold 14",
                fourteen.hit_rate * 100.0,
                "%",
            ),
            (("threshold 4->14", "hit_reduction"), "fewer hits with 14 than with 4", lost, "%"),
            (
                ("threshold 4->14", "write_reduction"),
                "fewer writes with 14 than with 4",
                (1.0 - ratio) * 100.0,
                "%",
            ),
            (
                ("latency flat from threshold", "value"),
                "threshold from which latency is level",
                flat,
                "reads",
            ),
        ] {
            let line = Line::new(name, unit).of("PLC").over("read", "");
            add((printed, volume), &line, value, data)?;
        }
    }
    let lines = triple("threshold", "");
    let (mut writes, mut hits) = (Vec::new(), Vec::new());
    for setting in both_volumes() {
        let [_, written, rate] = curves(data, &lines, "PLC", &setting);
        writes.push((setting.clone(), falls_most_below_four(&written)));
        hits.push((setting, goes(Way::Falls, &beyond(&rate, 4), 0.0)));
    }
    let (holds, figure) = all(writes);
    data.shows("writes-fall", holds, figure)?;
    let (holds, figure) = all(hits);
    data.shows("hits-fall", holds, figure)
}

/// Whether a curve falls with the threshold, and more up to 4 than beyond.
fn falls_most_below_four(curve: &Curve) -> (bool, String) {
    let (below, beyond) = falls_by(curve, 4);
    let (falls, figure) = goes(Way::Falls, curve, 0.0);
    let figure = format!("{figure}, {} GB below 4, {} beyond", show(below), show(beyond));
    (falls && below > beyond, figure)
}

/// Fig. 22 to 24.
pub fn delays(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let values = settings.numbers("delays")?;
    for (volume, runs) in setting(settings, "delay", &values, data)? {
        let until = falls_until(&values, &file_ms(&runs)).map_or(f64::NAN, |value| value as f64);
        let line = Line::new("delay up to which latency falls", "passes").of("PLC");
        let printed = ("latency falls until delay threshold", "value");
        add((printed, volume), &line.over("read", ""), until, data)?;
    }
    let lines = triple("delay", "");
    let (mut writes, mut hits) = (Vec::new(), Vec::new());
    for setting in both_volumes() {
        let [_, written, rate] = curves(data, &lines, "PLC", &setting);
        writes.push((setting.clone(), goes(Way::Falls, &written, 0.0)));
        let spans = span(&rate);
        hits.push((
            setting,
            (spans_less(spans, LEVEL), format!("highest over lowest {}", show(spans))),
        ));
    }
    let (holds, figure) = all(writes);
    data.shows("writes-fall", holds, figure)?;
    let (holds, figure) = all(hits);
    data.shows("hits-level", holds, figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plc_hits_as_often_up_to_the_size_before_the_first_at_which_it_does_not() {
        let last = |plc: [f64; 3]| crossover(&[0.3, 0.5, 0.7], &plc, &[5, 10, 20]);
        assert_eq!(last([0.3, 0.6, 0.69]), 10);
        assert_eq!(last([0.3, 0.5, 0.7]), 20);
        assert_eq!(last([0.2, 0.6, 0.8]), 0, "what comes after a loss does not count");
    }

    #[test]
    fn latency_has_settled_where_it_stays_within_a_percent_of_its_end() {
        let from = |file_ms: [f64; 4]| settles(&[0, 4, 8, 14], &file_ms, 200.0);
        assert_eq!(from([200.0, 203.0, 198.5, 200.0]), 8);
        assert_eq!(from([201.5, 198.5, 201.5, 200.0]), 0);
        assert_eq!(from([200.0, 200.0, 190.0, 200.0]), 14);
        assert!(is_same(1.0) && !is_same(1.1));
        let until = |file_ms: [f64; 4]| falls_until(&[0, 4, 8, 14], &file_ms);
        assert_eq!(until([210.0, 202.5, 201.5, 200.0]), Some(8));
        assert_eq!(until([201.5, 210.0, 200.0, 220.0]), Some(0));
        assert_eq!(falls_until(&[], &[]), None);
    }

    #[test]
    fn a_line_goes_one_way_and_is_almost_straight() {
        let curve = |last: f64| vec![(0.0, 1.0), (1.0, 2.0), (2.0, last)];
        assert_eq!(line(Way::Rises, &curve(3.0)), (true, "from 1 to 3, r2 1".to_owned()));
        assert!(!line(Way::Falls, &curve(3.0)).0 && !line(Way::Rises, &curve(20.0)).0);
        assert!(is_straight(0.95) && !is_straight(0.949));
        assert!(spans_less(1.49, 1.5) && !spans_less(1.5, 1.5));
    }

    #[test]
    fn writes_grow_more_where_the_last_is_further_above_the_first() {
        let curve = |last: f64| vec![(1.0, 2.0), (2.0, 9.0), (4.0, last)];
        assert_eq!(grows_more(&curve(6.0), &curve(5.0)), (true, "by 4, 3 GB".to_owned()));
        assert!(!grows_more(&curve(5.0), &curve(5.0)).0 && rise(&[]).is_nan());
    }

    #[test]
    fn hits_drop_beyond_4_mib_by_more_than_up_to_it() {
        let of = |at: f64, last: f64| {
            drops_later(&vec![(1024.0, 60.0), (4096.0, at), (8192.0, 55.0), (16384.0, last)])
        };
        let figure = "2 points up to 4 MiB, 3 beyond";
        assert_eq!(of(58.0, 55.0), (true, figure.to_owned()));
        assert!(!of(58.0, 56.0).0, "as much");
        assert!(!of(61.0, 61.0).0 && !of(61.0, 61.5).0, "none");
    }

    #[test]
    fn writes_fall_most_below_a_threshold_of_four() {
        let of = |four: f64, eight: f64| {
            falls_most_below_four(&vec![(0.0, 9.0), (2.0, 7.0), (4.0, four), (8.0, eight)])
        };
        assert_eq!(of(5.0, 2.0), (true, "from 9 to 2, 4 GB below 4, 3 beyond".to_owned()));
        assert!(!of(5.0, 1.0).0, "as much");
        assert!(!of(8.0, 7.5).0, "it rises from 2 to 4");
    }
}
