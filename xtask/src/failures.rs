//! What a test program says about what failed in it, to be told again at the end of everything:
//! between it and there are thousands of lines, and who keeps a log may keep only its end.
//! Room: xtask.

/// The longest that is told again of one program, in lines.
const MOST: usize = 80;

/// What a test program says of its failures: the tests' output and their names. Of one that ended
/// before it could, its last lines.
pub fn told(stdout: &str, stderr: &str) -> String {
    let lines: Vec<&str> = stdout.lines().collect();
    let begin = lines.iter().position(|line| *line == "failures:");
    let end = lines.iter().rposition(|line| line.starts_with("test result: "));
    let said: Vec<&str> = match (begin, end) {
        (Some(begin), Some(end)) if begin < end => lines[begin + 1..end].to_vec(),
        _ => lines.into_iter().chain(stderr.lines()).collect(),
    };
    let kept = said.len().saturating_sub(MOST);
    let cut = (kept > 0).then(|| format!("({kept} lines before)\n"));
    cut.unwrap_or_default() + said[kept..].join("\n").trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 3 tests
test a ... ok
test b ... FAILED

failures:

---- b stdout ----
thread 'b' panicked at src/lib.rs:3:5:
no

failures:
    b

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";

    #[test]
    fn failures_are_told_with_their_names_and_nothing_else() {
        let said = "---- b stdout ----\nthread 'b' panicked at src/lib.rs:3:5:\nno\n\n\
                    failures:\n    b";
        assert_eq!(told(OUTPUT, "noise"), said);
    }

    #[test]
    fn of_a_program_that_was_killed_the_last_lines_are_told() {
        let cut = OUTPUT.split_once("failures:").unwrap().0;
        assert_eq!(
            told(cut, "memory allocation failed\n"),
            "running 3 tests\ntest a ... ok\ntest b ... FAILED\n\nmemory allocation failed"
        );
        let long: Vec<String> = (0..MOST + 5).map(|line| line.to_string()).collect();
        let said = told(&long.join("\n"), "");
        assert!(said.starts_with("(5 lines before)\n5\n6\n"), "{said}");
        assert!(said.ends_with("\n84"), "{said}");
    }
}
