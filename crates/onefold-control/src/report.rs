//! What came of an operation: for programs, and in the words that a command says it in.
//! Room: onefold-control.
//! Invariant: a command prints the same whether it did the work itself or asked a server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Around a heading while text is put together.
const BEGIN: char = '\u{2}';
const END: char = '\u{3}';

/// A heading inside text that goes to [`Report::with_text`].
pub fn heading(text: &str) -> String {
    format!("{BEGIN}{text}{END}")
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Report {
    /// For programs: what the operation's schema says, or nothing.
    pub result: Value,
    /// For people: what was asked for.
    pub text: String,
    /// Where in the text headings are: first byte and the one after the last.
    pub headings: Vec<(usize, usize)>,
    /// Things worth knowing beside the text; who reads the result has them there.
    pub asides: Vec<String>,
    /// Things worth knowing.
    pub notes: Vec<String>,
    /// Things to look at.
    pub warnings: Vec<String>,
    /// What is wrong with what was asked about, though it was all done.
    pub fault: Option<Fault>,
}

/// Why something was not done, or what is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// What was wrong, and with what.
    pub message: String,
    /// What to do next.
    #[serde(default)]
    pub hints: Vec<String>,
    /// 2 if nothing was done, 1 if what was asked about is bad or work failed half-way.
    pub exit_status: u8,
}

impl Report {
    /// A note, and nothing else.
    pub fn note(text: impl Into<String>) -> Self {
        Self { notes: vec![text.into()], ..Self::default() }
    }

    /// With a result for programs.
    #[must_use]
    pub fn with_result(mut self, result: &impl Serialize) -> Self {
        // Plain structs of numbers, texts and lists always are JSON.
        self.result = serde_json::to_value(result).unwrap_or_default();
        self
    }

    /// With text for people, in which [`heading`]s are.
    #[must_use]
    pub fn with_text(mut self, marked: &str) -> Self {
        let mut begin = 0;
        for letter in marked.chars() {
            match letter {
                BEGIN => begin = self.text.len(),
                END => self.headings.push((begin, self.text.len())),
                letter => self.text.push(letter),
            }
        }
        self
    }

    /// The text with its headings dressed up.
    pub fn dressed(&self, dress: impl Fn(&str) -> String) -> String {
        let (mut out, mut at) = (String::new(), 0);
        for &(begin, end) in &self.headings {
            let (Some(before), Some(head)) = (self.text.get(at..begin), self.text.get(begin..end))
            else {
                continue;
            };
            out.push_str(before);
            out.push_str(&dress(head));
            at = end;
        }
        out + self.text.get(at..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_found_again_and_forged_ones_do_no_harm() {
        let marked = format!("{} p\n  a\n{}\n", heading("POOL"), heading("DATA"));
        let mut report = Report::default().with_text(&marked);
        assert_eq!(report.text, "POOL p\n  a\nDATA\n");
        assert_eq!(report.dressed(|head| format!("<{head}>")), "<POOL> p\n  a\n<DATA>\n");
        // The end of a heading that never began is that of one from the front.
        assert_eq!(Report::default().with_text("ab\u{3}c").headings, [(0, 2)]);
        report.headings = vec![(3, 1), (9, 1000), (0, usize::MAX)];
        assert_eq!(report.dressed(str::to_owned), report.text);
        let again: Report = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        assert_eq!(again, report);
    }
}
