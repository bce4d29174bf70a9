//! Whether a licence expression can be met with the licences that are accepted.
//! Room: xtask.
//! Expressions are those of SPDX: `AND` binds more tightly than `OR`, `WITH` adds an exception to a
//! licence. An old manifest writes `/` for `OR`.

use anyhow::{Result, bail, ensure};

/// Whether the accepted licences meet the expression. A choice is met by one side of it.
pub fn accepted(expression: &str, licences: &[String]) -> Result<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, licences };
    let met = reader.choice()?;
    ensure!(reader.words.is_empty(), "`{}` is one too many", reader.words.join(" "));
    Ok(met)
}

struct Reader<'a> {
    words: &'a [&'a str],
    licences: &'a [String],
}

impl Reader<'_> {
    fn take(&mut self, word: &str) -> bool {
        let taken = self.words.first() == Some(&word);
        self.words = &self.words[usize::from(taken)..];
        taken
    }

    fn choice(&mut self) -> Result<bool> {
        let mut met = self.all()?;
        while self.take("OR") {
            met |= self.all()?;
        }
        Ok(met)
    }

    fn all(&mut self) -> Result<bool> {
        let mut met = self.one()?;
        while self.take("AND") {
            met &= self.one()?;
        }
        Ok(met)
    }

    fn one(&mut self) -> Result<bool> {
        if self.take("(") {
            let met = self.choice()?;
            ensure!(self.take(")"), "a bracket stays open");
            return Ok(met);
        }
        let mut name = self.name()?.to_owned();
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.name()?);
        }
        Ok(self.licences.contains(&name))
    }

    fn name(&mut self) -> Result<&str> {
        let Some((&first, rest)) = self.words.split_first() else { bail!("a licence is missing") };
        ensure!(!["AND", "OR", "WITH", "(", ")"].contains(&first), "`{first}` stands at its place");
        self.words = rest;
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(expression: &str) -> Option<bool> {
        let licences = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
        accepted(expression, &licences).ok()
    }

    #[test]
    fn choices_need_one_side_and_sums_both() {
        for good in [
            "MIT",
            "MIT OR GPL-2.0",
            "GPL-2.0 OR MIT",
            "GPL-2.0/MIT",
            "MIT AND Apache-2.0",
            "(MIT OR GPL-2.0) AND Apache-2.0",
            "GPL-2.0 AND ISC OR MIT",
            "MIT OR GPL-2.0 AND ISC",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert_eq!(met(good), Some(true), "{good}");
        }
        for bad in [
            "GPL-2.0",
            "MIT AND GPL-2.0",
            "GPL-2.0 AND MIT",
            "(MIT OR GPL-2.0) AND ISC",
            "MIT WITH LLVM-exception",
        ] {
            assert_eq!(met(bad), Some(false), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for broken in ["", "MIT OR", "(MIT", "MIT)", "MIT GPL-2.0", "AND MIT", "MIT WITH"] {
            assert_eq!(met(broken), None, "{broken}");
        }
    }
}
