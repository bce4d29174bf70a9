//! Words as a shell reads them.
//! Room: onefold.

/// Quote a word for a shell, if it needs that.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_bite() {
        assert_eq!(quoted("nbd://127.0.0.1:10809/main"), "nbd://127.0.0.1:10809/main");
        assert_eq!(quoted("nbd+unix:///main?socket=/s"), "'nbd+unix:///main?socket=/s'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
