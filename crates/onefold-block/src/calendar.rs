//! Dates of the Gregorian calendar, before it was in use as well.
//! Room: onefold-block.

/// A day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// The year; 0 is the one before the year 1.
    pub year: i64,
    /// 1 is January.
    pub month: u8,
    /// 1 is the first day of a month.
    pub day: u8,
}

/// The date of a day that is counted from 1970-01-01, which is 0.
pub const fn date_of(day: i64) -> Date {
    // Days are counted from 0000-03-01, so that leap days end years of 400-year eras.
    let shifted = day + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    // 0 is March.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    Date { year: era * 400 + year + carry, month: month as u8, day: day as u8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_eight_centuries_has_its_date() {
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let mut day = -135_140;
        for year in 1600..2400 {
            let february = if is_leap(year) { 29 } else { 28 };
            let lens = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, len) in (1..).zip(lens) {
                for of_month in 1..=len {
                    assert_eq!(date_of(day), Date { year, month, day: of_month });
                    day += 1;
                }
            }
        }
        assert_eq!(day, 157_054);
    }
}
