//! How many tests passed and failed, as test programs print it.
//! Room: xtask.

/// What tests came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub passed: u64,
    pub failed: u64,
    /// By the words of the call.
    pub left_out: u64,
}

impl Count {
    /// Add what one line of a test program's output says, if it is a result.
    pub fn take(&mut self, line: &str) {
        let Some(result) = line.trim_start().strip_prefix("test result: ") else { return };
        for part in result.split([';', '.']) {
            let mut words = part.split_ascii_whitespace();
            let number = words.next().and_then(|word| word.parse::<u64>().ok());
            match (number, words.next()) {
                (Some(number), Some("passed")) => self.passed += number,
                (Some(number), Some("failed")) => self.failed += number,
                (Some(number), Some("filtered")) => self.left_out += number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_programs_are_added_up() {
        let mut count = Count::default();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; \
             finished in 0.51s",
            "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out",
            "a test said: 5 passed; 5 failed",
        ] {
            count.take(line);
        }
        assert_eq!(count, Count { passed: 15, failed: 2, left_out: 7 });
    }
}
