//! Functions that are too long. Relies on rustfmt: a function ends at the first brace in the
//! column in which it began.
//! Room: xtask.

use super::tree::is_test;

/// Most lines of a function, from its `fn` to its closing brace.
const LINES_MAX: usize = 70;

/// What may stand before `fn`, once visibility is taken off.
const QUALIFIERS: [&str; 6] = ["const ", "async ", "unsafe ", "extern \"C\" ", "default ", ""];

/// Functions longer than [`LINES_MAX`], those of tests aside.
pub fn long(path: &str, text: &str) -> Vec<(usize, String)> {
    if is_test(path) {
        return Vec::new();
    }
    let lines: Vec<&str> = text.lines().take_while(|line| !opens_tests(line)).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let Some(length) = length(&lines[at..]) else { continue };
        if length > LINES_MAX {
            let what = format!("function `{name}` has {length} lines, at most {LINES_MAX}");
            found.push((at + 1, what));
        }
    }
    found
}

/// Whether the module of tests begins here: it is the last thing in a file.
fn opens_tests(line: &str) -> bool {
    line == "mod tests {"
}

/// The name, if a function begins in this line.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("pub") {
        rest = match after.strip_prefix('(') {
            Some(scope) => scope.split_once(") ")?.1,
            None => after.strip_prefix(' ')?,
        };
    }
    while let Some(after) =
        QUALIFIERS.iter().filter(|q| !q.is_empty()).find_map(|q| rest.strip_prefix(q))
    {
        rest = after;
    }
    let name = rest.strip_prefix("fn ")?;
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    (end > 0).then(|| &name[..end])
}

/// Lines up to the closing brace; none for a function without a body.
fn length(lines: &[&str]) -> Option<usize> {
    let first = lines.first()?;
    let indent = &first[..first.len() - first.trim_start().len()];
    if first.ends_with('}') || first.ends_with(';') {
        return Some(1);
    }
    for (number, line) in (1..).zip(lines).skip(1) {
        let Some(rest) = line.strip_prefix(indent) else { continue };
        if rest == "}" {
            return Some(number);
        }
        if rest.starts_with(')') && rest.ends_with(';') {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(head: &str, statements: usize) -> String {
        format!("{head}\n{}}}\n", "    x();\n".repeat(statements))
    }

    #[test]
    fn seventy_lines_are_the_most() {
        assert!(long("src/a.rs", &function("fn a() {", 68)).is_empty());
        let found = long("src/a.rs", &function("fn a() {", 69));
        assert_eq!(found, [(1, "function `a` has 71 lines, at most 70".to_owned())]);
    }

    #[test]
    fn heads_of_all_forms_are_known() {
        for head in [
            "fn a() {",
            "pub fn a<T>(x: T) {",
            "pub(crate) const fn a() {",
            "pub(in crate::x) async unsafe fn a() {",
            "    extern \"C\" fn a() {",
            "unsafe extern \"C\" fn a() {",
            "fn a(",
        ] {
            assert_eq!(function_name(head), Some("a"), "{head}");
        }
        for other in ["let fn_a = 1;", "// fn a() {", "type A = fn (u8);", "publish fn a() {"] {
            assert_eq!(function_name(other), None, "{other}");
        }
    }

    #[test]
    fn methods_and_declarations_are_measured_by_their_own_braces() {
        let body = "        x();\n".repeat(80);
        let method = format!("impl A {{\n    fn a(\n        &self,\n    ) {{\n{body}    }}\n}}\n");
        assert_eq!(long("src/a.rs", &method)[0].0, 2);
        let rest = "    // words\n".repeat(80);
        let declared = format!("trait A {{\n    fn a(\n        &self,\n    );\n{rest}}}\n");
        assert!(long("src/a.rs", &declared).is_empty());
        let declared = format!("trait A {{\n    fn a(&self);\n{rest}}}\n");
        assert!(long("src/a.rs", &declared).is_empty());
    }

    #[test]
    fn tests_may_be_long() {
        let test = function("fn a() {", 100);
        assert!(long("crates/a/tests/it/b.rs", &test).is_empty());
        let indented = test.replace('\n', "\n    ");
        let module = format!("fn b() {{}}\n\n#[cfg(test)]\nmod tests {{\n    {indented}}}\n");
        assert!(long("src/a.rs", &module).is_empty());
    }
}
