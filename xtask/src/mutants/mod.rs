//! `cargo xtask mutants`: do the tests notice when a line is wrong?
//! Room: xtask.
//! 1. Changes are found in a crate's sources (`sites`), or taken from the list of those that were
//!    chosen by hand (`breakages`, a command of its own).
//! 2. A copy of the tree gets all of them at once, each behind a switch, and is built once.
//! 3. The unchanged tests are run once, and note which test comes by which switch (`reach`).
//! 4. For each change the tests that come by run with its switch on, the quickest first, up to the
//!    first that fails.

pub mod breakages;
mod chosen;
pub mod equivalent;
mod programs;
mod reach;
mod schema;
mod sites;
pub mod tree;
mod whole;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::programs::{Built, Outcome, Program, Wanted};
use self::reach::Reach;
use self::schema::{Mutant, apart, line_of};
use self::tree::{Copy, Places};

const USAGE: &str = "\
usage: cargo xtask mutants CRATE [--under PATHS] [--sample N] [--seed S] [--minutes M]
                           [--quick SECONDS [--again]]

  CRATE              break its sources at N random places (60), and count what its tests notice
  --under PATHS      only files whose path in crates/CRATE/src/ begins with one of these, which
                     commas separate
  --sample N         how many
  --seed S           which ones (1)
  --minutes M        stop after so many minutes of trying (30)
  --quick SECONDS    leave out tests that take longer: with a sample of all changes, the list of
                     those that only slow tests can notice, or none
  --again            try what these do not notice once more, by all tests
";

/// Longest run of tests with one change; a loop that no longer ends is noticed by it.
const LIMIT: Duration = Duration::from_mins(2);

/// The same where tests are quick, in times that one of them may take.
const QUICK_RUNS: u32 = 40;

/// The name of the copy in the target folder.
const COPY: &str = "mutants";

struct Options {
    package: Option<String>,
    under: String,
    sample: Option<usize>,
    seed: u64,
    minutes: u64,
    quick: Option<Duration>,
    again: bool,
}

/// Run the command. Returns true: what was not noticed is counted, and is no failure.
pub fn run(args: &[String]) -> Result<bool> {
    let Some(options) = options(args)? else {
        print!("{USAGE}");
        return Ok(true);
    };
    let root = crate::root()?;
    let copy = Copy::refresh(&root, COPY)?;
    let package = options.package.as_deref().context(USAGE)?;
    let mutants = random(&root, package, &options)?;
    let Trial { mut mutants, programs, .. } =
        build(&root, &copy, (package, &Wanted::All), mutants)?;
    let refused =
        mutants.iter().map(|mutant| mutant.id).max().unwrap_or(0) as usize - mutants.len();
    mutants.sort_by_key(|mutant| mutant.id);
    let mut seen = try_all(&root, &programs, &mutants, &options)?;
    if options.again {
        try_again(&root, &programs, &mut seen)?;
    }
    report(package, &options, &seen, mutants.len(), refused);
    Ok(true)
}

/// The options, or none if help is asked for.
fn options(args: &[String]) -> Result<Option<Options>> {
    let mut options = Options {
        package: None,
        under: String::new(),
        sample: None,
        seed: 1,
        minutes: 30,
        quick: None,
        again: false,
    };
    let mut words = args.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word {
            "--under" => options.under = String::from(value()?),
            "--sample" => options.sample = Some(value()?.parse().context("--sample")?),
            "--seed" => options.seed = value()?.parse().context("--seed")?,
            "--minutes" => options.minutes = value()?.parse().context("--minutes")?,
            "--quick" => {
                let seconds = value()?.parse().context("--quick")?;
                options.quick = Some(Duration::try_from_secs_f64(seconds).context("--quick")?);
            }
            "--again" => options.again = true,
            "-h" | "--help" => return Ok(None),
            name if !name.starts_with('-') && options.package.is_none() => {
                options.package = Some(name.to_owned());
            }
            other => bail!("unknown: {other}\n\n{USAGE}"),
        }
    }
    if options.package.is_none() {
        return Ok(None);
    }
    if options.again && options.quick.is_none() {
        bail!("--again needs --quick: without it all tests are run anyway\n\n{USAGE}");
    }
    Ok(Some(options))
}

/// Random changes in a crate, numbered from 1.
fn random(root: &Path, package: &str, options: &Options) -> Result<Vec<Mutant>> {
    let under = |path: &str| {
        let mut starts = options.under.split(',');
        starts.any(|start| path.starts_with(&format!("crates/{package}/src/{start}")))
    };
    let list = std::fs::read_to_string(root.join(equivalent::PATH)).context(equivalent::PATH)?;
    let known = equivalent::parse(&list)?;
    let mut texts = BTreeMap::new();
    let mut all = Vec::new();
    for path in crate::files::paths(root)? {
        if tree::is_source(package, &path) && under(&path) {
            let text = std::fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
            let mut found = sites::of(&text).with_context(|| path.clone())?;
            found.retain(|change| !known.iter().any(|entry| entry.is_of(&path, &text, change)));
            all.extend(found.into_iter().map(|change| (path.clone(), change)));
            texts.insert(path, text);
        }
    }
    if all.is_empty() {
        bail!("nothing to break in {package} under '{}'", options.under);
    }
    let mut kept: BTreeMap<String, Vec<sites::Change>> = BTreeMap::new();
    let mut left = options.sample.unwrap_or(60);
    for at in shuffled(all.len(), options.seed) {
        if left == 0 {
            break;
        }
        let (path, change) = all[at].clone();
        let changes = kept.entry(path).or_default();
        let before = changes.len();
        changes.push(change);
        *changes = apart(std::mem::take(changes));
        left -= usize::from(changes.len() > before);
    }
    let placed = kept.into_iter().flat_map(|(file, changes)| {
        let lines: Vec<usize> =
            changes.iter().map(|change| line_of(&texts[&file], change.range.start)).collect();
        changes.into_iter().zip(lines).map(move |(change, line)| (file.clone(), line, change))
    });
    let numbered = (1..).zip(placed);
    Ok(numbered.map(|(id, (file, line, change))| Mutant { id, file, line, change }).collect())
}

/// The numbers below `count` in an order that the seed decides (Fisher and Yates).
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut state = seed;
    let mut draw = |below: usize| {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % below as u64) as usize
    };
    let mut order: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        order.swap(at, draw(at + 1));
    }
    order
}

/// A crate with its changes, built.
struct Trial {
    mutants: Vec<Mutant>,
    programs: Vec<Program>,
}

/// Build the tests with all changes that the compiler accepts.
fn build(
    root: &Path,
    copy: &Copy,
    (package, wanted): (&str, &Wanted),
    mut mutants: Vec<Mutant>,
) -> Result<Trial> {
    let target = tree::target(root);
    // Each build names at least one change that is left out; most are named by the first.
    for _ in 0..8 {
        let places: Places = copy.write(root, package, &mutants)?;
        match programs::build(&copy.root, (package, wanted), &target, &places)? {
            Built::Programs(programs) => return Ok(Trial { mutants, programs }),
            Built::Refused(refused) => {
                println!("{package}: the compiler refuses {} changes", refused.len());
                mutants.retain(|mutant| !refused.contains(&mutant.id));
            }
        }
    }
    bail!("{package}: after eight builds the compiler still refuses changes")
}

/// What became of one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Noticed,
    /// Noticed, because the tests no longer end.
    Endless,
    Survived,
    NotReached,
}

impl Fate {
    fn is_noticed(self) -> bool {
        matches!(self, Self::Noticed | Self::Endless)
    }
}

fn try_all<'a>(
    root: &Path,
    programs: &[Program],
    mutants: &'a [Mutant],
    options: &Options,
) -> Result<Vec<(&'a Mutant, Fate)>> {
    let reached = reached(root, programs, options.quick)?;
    let limit = options.quick.map_or(LIMIT, |quick| LIMIT.min(QUICK_RUNS * quick));
    let end = Instant::now() + Duration::from_mins(options.minutes);
    let mut fates = Vec::new();
    for at in shuffled(mutants.len(), 1) {
        if Instant::now() > end {
            println!("the time is over: {} of {} were tried", fates.len(), mutants.len());
            break;
        }
        let mutant = &mutants[at];
        let fate = fate(mutant, programs, &reached, limit)?;
        if !fate.is_noticed() {
            println!("{}:{}: {fate:?}: {}", mutant.file, mutant.line, mutant.change.what);
        }
        fates.push((mutant, fate));
    }
    Ok(fates)
}

/// Try what was not noticed once more, by all tests.
fn try_again(root: &Path, programs: &[Program], seen: &mut [(&Mutant, Fate)]) -> Result<()> {
    println!("those that were not noticed, by all tests:");
    let reached = reached(root, programs, None)?;
    for (mutant, fate) in seen.iter_mut().filter(|(_, fate)| !fate.is_noticed()) {
        *fate = self::fate(mutant, programs, &reached, LIMIT)?;
        println!("{}:{}: {fate:?}: {}", mutant.file, mutant.line, mutant.change.what);
    }
    Ok(())
}

/// Run all tests unchanged, and note which come by which switch.
fn reached(root: &Path, programs: &[Program], quick: Option<Duration>) -> Result<Vec<Reach>> {
    let folder = tree::target(root).join(COPY);
    programs.iter().map(|program| Reach::of(program, &folder, quick)).collect()
}

fn fate(mutant: &Mutant, programs: &[Program], reached: &[Reach], limit: Duration) -> Result<Fate> {
    let mut fate = Fate::NotReached;
    for (program, reach) in programs.iter().zip(reached) {
        for some in reach.batches_by(mutant.id) {
            match program.run(mutant.id, &some, limit)? {
                Outcome::Passed => fate = Fate::Survived,
                Outcome::Failed => return Ok(Fate::Noticed),
                Outcome::TooLong => return Ok(Fate::Endless),
            }
        }
    }
    Ok(fate)
}

fn report(package: &str, options: &Options, seen: &[(&Mutant, Fate)], all: usize, refused: usize) {
    let noticed = seen.iter().filter(|(_, fate)| fate.is_noticed()).count();
    let endless = seen.iter().filter(|(_, fate)| *fate == Fate::Endless).count();
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (mutant, fate) in seen.iter().filter(|(_, fate)| !fate.is_noticed()) {
        let reach = if *fate == Fate::NotReached { " (no test comes by)" } else { "" };
        let line = format!("line {}: {}{reach}", mutant.line, mutant.change.what);
        files.entry(&mutant.file).or_default().push(line);
    }
    println!("\nsurvivors by file:");
    for (file, lines) in files {
        println!("  {file}");
        for line in lines {
            println!("    {line}");
        }
    }
    println!(
        "{package} {}: {noticed} of {} noticed, {endless} by tests that did not end, {:.1} % (seed \
         {}, {} of {all} tried, {refused} did not compile)",
        options.under,
        seen.len(),
        100.0 * noticed as f64 / seen.len().max(1) as f64,
        options.seed,
        seen.len(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_order() {
        let order = shuffled(50, 7);
        assert_eq!(order, shuffled(50, 7));
        assert_ne!(order, shuffled(50, 8));
        let mut sorted = order;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn options_are_read_and_unknown_ones_refused() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let read = options(&words("onefold-nbd --sample 5 --seed 3")).unwrap().unwrap();
        assert_eq!(
            (read.package.as_deref(), read.sample, read.seed),
            (Some("onefold-nbd"), Some(5), 3)
        );
        assert_eq!(read.quick, None);
        let read = options(&words("onefold-nbd --quick 0.5")).unwrap().unwrap();
        assert_eq!(read.quick, Some(Duration::from_millis(500)));
        assert!(!read.again && options(&words("x --quick 1 --again")).unwrap().unwrap().again);
        assert!(options(&words("onefold-nbd --again")).is_err(), "nothing was left out");
        assert!(options(&words("onefold-nbd --quick -1")).is_err());
        assert!(options(&words("--sample 5")).unwrap().is_none());
        assert!(options(&words("onefold-nbd --sampel 5")).is_err());
        assert!(options(&words("--help")).unwrap().is_none());
    }
}
