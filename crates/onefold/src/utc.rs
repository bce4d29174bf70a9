//! Moments as people write them.
//! Room: onefold.

use onefold_block::calendar::date_of;

const DAY_S: i64 = 24 * 3600;

/// A moment in UTC, from seconds since 1970.
pub fn utc_text(time_s: i64) -> String {
    let date = date_of(time_s.div_euclid(DAY_S));
    let second = time_s.rem_euclid(DAY_S);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let (year, month, day) = (date.year, date.month, date.day);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_as_dates() {
        let cases = [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (1_234_567_890, "2009-02-13 23:31:30"),
        ];
        for (time, text) in cases {
            assert_eq!(utc_text(time), text);
        }
    }
}
