//! How much a cache's device can still take: as it was said, or as the drive itself tells by SMART.
//! Room: onefold.
//! No drive tells how much it can take. It tells which part of that was used, and how much was
//! written so far; both together give what is asked for.

mod drive;
mod smart;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use onefold_block::ByteSize;
use onefold_cache::tier::WearBudget;

use crate::args::{Thousandths, TierArgs};

/// Between two times that a drive is asked.
const PERIOD: Duration = Duration::from_hours(24);
const DAYS_PER_YEAR: f64 = 365.25;

/// Where it is known from how much a device can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endurance {
    /// It was said: bytes in the device's life.
    Bytes(ByteSize),
    /// The drive is asked: this one, or that beneath the cache's folder.
    Smart(Option<PathBuf>),
}

impl FromStr for Endurance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "smart" => Ok(Self::Smart(None)),
            // A name that begins otherwise could be taken for an option by who is asked.
            Some(("smart", drive)) if drive.starts_with('/') => Ok(Self::Smart(Some(drive.into()))),
            Some(("smart", _)) => Err("expected the path of a drive, as in smart:/dev/sda".into()),
            _ => text.parse().map(Self::Bytes).map_err(|error: onefold_block::ParseSizeError| {
                format!("{error}; or smart, to ask the drive, or smart:/dev/DRIVE")
            }),
        }
    }
}

impl fmt::Display for Endurance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(size) => write!(f, "{}", size.bytes()),
            Self::Smart(None) => f.write_str("smart"),
            Self::Smart(Some(drive)) => write!(f, "smart:{}", drive.display()),
        }
    }
}

/// What a device can take.
#[derive(Clone, Debug, PartialEq)]
pub struct Life {
    /// In all.
    pub total: ByteSize,
    /// Of that, what it still can.
    pub left: ByteSize,
    /// The drive that told, if one did.
    pub drive: Option<Drive>,
}

/// What a drive tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    /// Its path.
    pub device: String,
    /// What its maker calls it.
    pub model: String,
    /// Per cent of its life that were used; more than 100 where it outlives it.
    pub used_percent: u64,
    /// Bytes that were written to it.
    pub written: ByteSize,
}

impl Life {
    /// What follows from what a drive tells.
    fn of(drive: Drive) -> Result<Self, String> {
        let Drive { device, model, used_percent, written } = &drive;
        if *used_percent == 0 || written.bytes() == 0 {
            return Err(format!(
                "'{device}' ({model}) has used {used_percent} % of its life, with {written} \
                 written: too little to tell how much it can take; name the bytes (TBW) of its \
                 data sheet"
            ));
        }
        let total = u128::from(written.bytes()) * 100 / u128::from(*used_percent);
        let total = u64::try_from(total).unwrap_or(u64::MAX);
        let left = ByteSize(total.saturating_sub(written.bytes()));
        Ok(Self { total: ByteSize(total), left, drive: Some(drive) })
    }

    /// Years that it lasts if so many bytes are written a day.
    pub fn years(&self, per_day: u64) -> f64 {
        self.left.bytes() as f64 / (per_day.max(1) as f64 * DAYS_PER_YEAR)
    }
}

/// What is known of a device's life, or why it is not; `None` if nobody asks for it.
pub type KnownLife = Option<Result<Life, String>>;

/// Find out what the device of the cache in `folder` can take.
pub fn ask(endurance: Option<&Endurance>, folder: &Path) -> KnownLife {
    let drive = match endurance? {
        Endurance::Bytes(size) => return Some(Ok(Life { total: *size, left: *size, drive: None })),
        Endurance::Smart(Some(drive)) => Ok(drive.clone()),
        Endurance::Smart(None) => drive::beneath(folder, Path::new("/sys")),
    };
    let life = drive.and_then(|drive| smart::ask(&drive)).and_then(Life::of);
    Some(life.map_err(|why| format!("the life of the cache's device is not known: {why}")))
}

/// What a cache may write a day, by its options.
///
/// # Errors
/// It follows from the life of a device of which that is not known.
pub fn budget(args: &TierArgs, life: &KnownLife) -> Result<Option<WearBudget>, String> {
    if let Some(Thousandths(times)) = args.cache_writes_per_day {
        return Ok(Some(WearBudget::Share(times)));
    }
    args.cache_years.map(|years| budget_of(years, life)).transpose()
}

/// What may be written a day if a device is to last for so many thousandths of a year.
///
/// # Errors
/// Its life is not known.
pub fn budget_of(years: Thousandths, life: &KnownLife) -> Result<WearBudget, String> {
    let life = life.clone().unwrap_or_else(|| Err(NO_ENDURANCE.to_owned()))?;
    let days = f64::from(years.0) / 1000.0 * DAYS_PER_YEAR;
    // No byte at all would look like no budget.
    Ok(WearBudget::Bytes(((life.left.bytes() as f64 / days) as u64).max(1)))
}

/// Said where years are asked for, and nothing to take them from.
const NO_ENDURANCE: &str = "its device is to last for years, but nothing says how much it can take \
                            (--cache-endurance)";

/// What is known of the life of a cache's device, asked for again now and then.
pub struct Watched {
    args: TierArgs,
    told: Mutex<(Instant, KnownLife)>,
}

impl Watched {
    /// Ask for the first time.
    pub fn begin(args: &TierArgs) -> Self {
        let life =
            args.cache.as_deref().and_then(|folder| ask(args.cache_endurance.as_ref(), folder));
        Self { args: args.clone(), told: Mutex::new((Instant::now(), life)) }
    }

    /// Of a cache of which nobody asks how long its device lasts.
    pub fn of_nothing(args: &TierArgs) -> Self {
        Self { args: args.clone(), told: Mutex::new((Instant::now(), None)) }
    }

    fn told(&self) -> MutexGuard<'_, (Instant, KnownLife)> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of it.
    pub fn life(&self) -> KnownLife {
        self.told().1.clone()
    }

    /// What the cache was asked to be.
    pub const fn args(&self) -> &TierArgs {
        &self.args
    }

    /// Whether the drive is to be asked once more; says so once a day.
    pub fn is_old(&self) -> bool {
        let mut told = self.told();
        let old = matches!(self.args.cache_endurance, Some(Endurance::Smart(_)))
            && told.0.elapsed() >= PERIOD;
        if old {
            told.0 = Instant::now();
        }
        old
    }

    /// Ask once more, which may take as long as the drive takes.
    pub fn renew(&self) {
        let life = Self::begin(&self.args).life();
        self.told().1 = life;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(used_percent: u64, written: u64) -> Drive {
        let (device, model) = ("/dev/x".to_owned(), "X".to_owned());
        Drive { device, model, used_percent, written: ByteSize(written) }
    }

    #[test]
    fn what_is_left_follows_from_what_is_used_and_what_was_written() {
        let life = Life::of(drive(20, 3_000)).unwrap();
        assert_eq!((life.total, life.left), (ByteSize(15_000), ByteSize(12_000)));
        assert!((life.years(12) - 1000.0 / 365.25).abs() < 1e-9);
        for per_day in [0, 1] {
            assert!((life.years(per_day) - 12_000.0 / 365.25).abs() < 1e-9, "{per_day}");
        }
        // One that outlives its rating has nothing left that could be counted on.
        for used in [100, 130, 255] {
            assert_eq!(Life::of(drive(used, 3_000)).unwrap().left, ByteSize(0), "{used}");
        }
        assert!(Life::of(drive(1, u64::MAX)).unwrap().total == ByteSize(u64::MAX));
        let young = Life::of(drive(0, 1 << 40)).unwrap_err();
        assert!(young.contains("has used 0 % of its life, with 1 TiB written"), "{young}");
        assert!(Life::of(drive(5, 0)).is_err(), "nothing can be told of nothing");
    }

    #[test]
    fn endurance_is_a_size_or_a_drive_to_ask() {
        for (text, drive) in [("smart", None), ("smart:/dev/sda", Some("/dev/sda".into()))] {
            let parsed: Endurance = text.parse().unwrap();
            assert_eq!((&parsed, parsed.to_string().as_str()), (&Endurance::Smart(drive), text));
        }
        assert_eq!("600T".parse(), Ok(Endurance::Bytes(ByteSize(600 << 40))));
        assert!("smart:--all".parse::<Endurance>().unwrap_err().contains("smart:/dev/sda"));
        assert!("much".parse::<Endurance>().unwrap_err().contains("or smart, to ask the drive"));
    }

    #[test]
    fn a_drive_is_asked_once_a_day_and_what_was_said_is_not() {
        let watched = |endurance: &str| {
            let flags = ["x", "--cache-endurance", endurance, "--cache", "/nowhere/at/all"];
            Watched::of_nothing(&TierArgs::of(flags))
        };
        for (endurance, is_asked) in [("smart:/dev/x", true), ("600T", false)] {
            let watched = watched(endurance);
            assert!(!watched.is_old());
            watched.told().0 = Instant::now().checked_sub(PERIOD).unwrap();
            assert_eq!(watched.is_old(), is_asked, "{endurance}");
            assert!(!watched.is_old() || !is_asked, "not again at once");
            assert_eq!(watched.life(), None);
        }
        let said = watched("600T");
        said.renew();
        assert_eq!(said.life().unwrap().unwrap().left, ByteSize(600 << 40));
    }

    #[test]
    fn years_are_turned_into_a_budget_by_what_is_left() {
        let of = |flags: &[&str]| TierArgs::of([&["x", "--cache", "f"], flags].concat());
        let life = Some(Life::of(drive(50, 4_000_000)));
        let years = of(&["--cache-years", "2"]);
        let expected = (4_000_000.0 / (2.0 * 365.25)) as u64;
        assert_eq!(budget(&years, &life), Ok(Some(WearBudget::Bytes(expected))));
        assert_eq!(budget(&years, &Some(Life::of(drive(100, 5)))), Ok(Some(WearBudget::Bytes(1))));
        assert_eq!(budget(&years, &Some(Err("why".into()))), Err("why".into()));
        assert!(budget(&years, &None).unwrap_err().contains("nothing says how much"));
        assert_eq!(budget(&of(&[]), &life), Ok(None));
        let share = of(&["--cache-writes-per-day", "0.3"]);
        assert_eq!(budget(&share, &Some(Err("why".into()))), Ok(Some(WearBudget::Share(300))));
    }
}
