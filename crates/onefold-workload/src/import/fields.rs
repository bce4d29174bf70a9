//! Fields of a line and the numbers in them, without regular expressions or allocation.
//! Room: onefold-workload.
//! Invariant: a number is digits and nothing else, and fits.

use super::Problem;
use super::error::shown;

/// The fields of a line, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    rest: Option<&'a [u8]>,
    blanks: bool,
}

impl<'a> Fields<'a> {
    /// Fields between commas; blanks around them do not count.
    pub const fn comma(line: &'a [u8]) -> Self {
        Self { rest: Some(line), blanks: false }
    }

    /// Fields between blanks.
    pub const fn blank(line: &'a [u8]) -> Self {
        Self { rest: Some(line), blanks: true }
    }

    /// The next field, if there is one.
    pub fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        if self.blanks {
            let rest = rest.trim_ascii_start();
            if rest.is_empty() {
                self.rest = None;
                return None;
            }
            let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            let (field, rest) = rest.split_at(end);
            self.rest = Some(rest);
            return Some(field);
        }
        let Some(end) = rest.iter().position(|&byte| byte == b',') else {
            self.rest = None;
            return Some(rest.trim_ascii());
        };
        let (field, rest) = rest.split_at(end);
        self.rest = rest.get(1..);
        Some(field.trim_ascii())
    }

    /// The next field, which must be there.
    pub fn take(&mut self, field: &'static str) -> Result<&'a [u8], Problem> {
        self.next().ok_or(Problem::Missing { field })
    }

    /// The next field, which must be a number.
    pub fn number(&mut self, field: &'static str) -> Result<u64, Problem> {
        decimal(field, self.take(field)?)
    }

    /// The next field, which must be a number below 2^32.
    pub fn number32(&mut self, field: &'static str) -> Result<u32, Problem> {
        let text = self.take(field)?;
        u32::try_from(decimal(field, text)?)
            .map_err(|_| Problem::value(field, text, "a whole number below 2^32"))
    }

    /// That the line ends here.
    pub fn end(&mut self) -> Result<(), Problem> {
        match self.next() {
            None => Ok(()),
            Some(got) => Err(Problem::Surplus { got: shown(got) }),
        }
    }
}

/// A whole number below 2^64.
pub(super) fn decimal(field: &'static str, text: &[u8]) -> Result<u64, Problem> {
    let refused = || Problem::value(field, text, "a whole number below 2^64");
    if text.is_empty() || text.len() > 20 {
        return Err(refused());
    }
    let mut value = 0_u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(refused());
        }
        let longer = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit)));
        value = longer.ok_or_else(refused)?;
    }
    Ok(value)
}

/// Seconds with up to nine decimals, as nanoseconds.
pub(super) fn seconds(field: &'static str, text: &[u8]) -> Result<u64, Problem> {
    let refused = || Problem::value(field, text, "seconds with up to nine decimals");
    let dot = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
    let (whole, fraction) = text.split_at(dot);
    let fraction = fraction.get(1..).unwrap_or(&[]);
    if fraction.len() > 9 {
        return Err(refused());
    }
    let whole = decimal(field, whole).map_err(|_| refused())?;
    let digits =
        if fraction.is_empty() { 0 } else { decimal(field, fraction).map_err(|_| refused())? };
    let ns = digits * 10_u64.pow(9 - fraction.len() as u32);
    whole.checked_mul(1_000_000_000).and_then(|s| s.checked_add(ns)).ok_or_else(refused)
}

/// The value of a hex digit.
pub(super) const fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Fills `out` from twice as many hex digits; `None` if it is anything else.
pub(super) fn hex(text: &[u8], out: &mut [u8]) -> Option<()> {
    if text.len() != out.len() * 2 {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        let &[high, low] = pair else { return None };
        *byte = (hex_digit(high)? << 4) | hex_digit(low)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_split_as_people_expect() {
        let all = |mut fields: Fields<'static>| {
            let mut all = Vec::new();
            while let Some(field) = fields.next() {
                all.push(String::from_utf8(field.to_vec()).unwrap());
            }
            all
        };
        assert_eq!(all(Fields::comma(b"a, b,,c,")), ["a", "b", "", "c", ""]);
        assert_eq!(all(Fields::blank(b"  a \t b  ")), ["a", "b"]);
        assert!(all(Fields::blank(b"  ")).is_empty());
        assert!(matches!(Fields::blank(b" a b").end(), Err(Problem::Surplus { .. })));
    }

    #[test]
    fn numbers_are_digits_that_fit() {
        assert_eq!(decimal("n", b"18446744073709551615"), Ok(u64::MAX));
        for bad in ["", "18446744073709551616", "-1", "+1", "1.0", "0x1", " 1", "1e3"] {
            assert!(decimal("n", bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(seconds("t", b"12.000000345"), Ok(12_000_000_345));
        assert_eq!(
            (seconds("t", b"7"), seconds("t", b"7.5")),
            (Ok(7_000_000_000), Ok(7_500_000_000))
        );
        for bad in ["", ".5", "1.0000000001", "1.2.3", "1.-2", "99999999999.0"] {
            assert!(seconds("t", bad.as_bytes()).is_err(), "{bad}");
        }
        let mut out = [0; 2];
        assert_eq!((hex(b"aF09", &mut out), out), (Some(()), [0xaf, 0x09]));
        assert!(hex(b"aF0", &mut out).is_none() && hex(b"aF0g", &mut out).is_none());
    }
}
