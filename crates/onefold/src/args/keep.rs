//! Rules of what to keep, as written.
//! Room: onefold.

use std::time::Duration;

use onefold_block::Keep;

/// Rules of what to keep.
#[derive(Clone, Copy, Debug, clap::Args)]
#[expect(clippy::struct_field_names, reason = "fields are named like their options")]
pub struct KeepArgs {
    /// Keep the newest, so many of them
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    pub keep_last: u32,
    /// Keep one an hour, of so many hours that have one
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    pub keep_hourly: u32,
    /// Keep one a day
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    pub keep_daily: u32,
    /// Keep one a week
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    pub keep_weekly: u32,
    /// Keep one a month
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    pub keep_monthly: u32,
    /// Keep one a year
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    pub keep_yearly: u32,
    /// Keep all that are at most so much older than the newest one: 48h, 10d, 6w, 3m or 1y
    ///
    /// A month is 31 days here, a year 366.
    #[arg(long, value_name = "TIME", default_value = "0h", hide_default_value = true)]
    #[arg(value_parser = parse_age)]
    pub keep_within: i64,
}

impl KeepArgs {
    /// The rules.
    pub const fn keep(&self) -> Keep {
        Keep {
            last: self.keep_last,
            hourly: self.keep_hourly,
            daily: self.keep_daily,
            weekly: self.keep_weekly,
            monthly: self.keep_monthly,
            yearly: self.keep_yearly,
            within_s: self.keep_within,
        }
    }
}

/// A number with h, d, w, m or y, in seconds.
fn parse_age(text: &str) -> Result<i64, String> {
    let refused =
        || format!("bad time `{text}`: expected a number with h, d, w, m or y, as in 10d");
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(refused)?;
    let hours = match unit {
        "h" => 1,
        "d" => 24,
        "w" => 7 * 24,
        "m" => 31 * 24,
        "y" => 366 * 24,
        _ => return Err(refused()),
    };
    let number: u32 = number.parse().map_err(|_| refused())?;
    Ok(i64::from(number) * hours * 3600)
}

/// Snapshots that a server makes by itself.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Snapshots")]
pub struct SnapshotScheduleArgs {
    /// Make a snapshot of every volume each time so much time has passed: 15min, 1h or 1d
    ///
    /// It is called after the time in UTC: main@auto-2026-11-24T12:00:00Z. With rules of what to
    /// keep, those that the server made and that no rule keeps go after each. A volume that an
    /// import has yet to fill (NAME.incomplete) gets none.
    #[arg(long, value_name = "TIME", value_parser = parse_every)]
    #[arg(conflicts_with_all = ["read_only", "rescue"])]
    pub snapshot_every: Option<Duration>,
    /// Which of them stay.
    #[command(flatten)]
    pub keep: KeepArgs,
}

/// A number with s, min, h or d.
pub(super) fn parse_every(text: &str) -> Result<Duration, String> {
    let refused = || format!("bad time `{text}`: expected a number with s, min, h or d, as in 1h");
    let end = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(refused)?;
    let (number, unit) = text.split_at(end);
    let seconds = match unit {
        "s" => 1,
        "min" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return Err(refused()),
    };
    let number: u32 = number.parse().map_err(|_| refused())?;
    if number == 0 {
        return Err(refused());
    }
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_to_keep_is_never_shorter_than_it_says() {
        let days = |text| parse_age(text).map(|seconds| seconds as f64 / 86_400.0).ok();
        let ages = ["12h", "10d", "2w", "1m", "1y", "0d"].map(days);
        assert_eq!(ages, [0.5, 10.0, 14.0, 31.0, 366.0, 0.0].map(Some));
        assert!(days("4294967295y").is_some());
        for bad in ["", "h", "1", "1min", "-1h", "1.5d", "4294967296h", "1\u{e9}"] {
            assert_eq!(days(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_are_numbers_with_a_unit() {
        let every = |text| parse_every(text).map(|time| time.as_secs()).ok();
        assert_eq!([every("90s"), every("15min"), every("1h")], [Some(90), Some(900), Some(3600)]);
        assert_eq!([every("2d"), every("4294967295d").map(|_| 0)], [Some(172_800), Some(0)]);
        for bad in ["", "h", "1", "0h", "1m", "1.5h", "-1h", "1 h", "4294967296s", "1hh"] {
            assert_eq!(every(bad), None, "{bad}");
        }
    }
}
