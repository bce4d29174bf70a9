//! Whether what is replaced can stand behind a switch: it is one whole expression, or whole
//! statements that bind no name. Only the compiler knows whether the types fit.
//! Room: xtask.

use std::ops::Range;

use anyhow::{Result, bail, ensure};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Look for `range` of a parsed file, which has no spaces around it, among its expressions and
/// statements.
pub fn check(file: &syn::File, range: &Range<usize>) -> Result<()> {
    let mut finder = Finder { range, found: None };
    finder.visit_file(file);
    match finder.found {
        Some(Found::Whole) => Ok(()),
        Some(Found::Binding) => bail!("it binds a name, which nothing after it would know"),
        Some(Found::Condition) => bail!("`let` in a condition cannot stand behind a switch"),
        Some(Found::Early) => bail!("the compiler must know it, or it is a test"),
        None => bail!("it is neither one whole expression nor whole statements"),
    }
}

/// Check that what takes its place can be parsed.
pub fn check_other(with: &str, statement: bool) -> Result<()> {
    let block = format!("{{ {with} }}");
    ensure!(syn::parse_str::<syn::Block>(&block).is_ok(), "`{with}` cannot be parsed");
    ensure!(statement || !with.trim().is_empty(), "nothing takes the place of an expression");
    Ok(())
}

/// What a range was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Whole,
    /// Statements with a name that is bound.
    Binding,
    /// Part of a condition with `let` in it.
    Condition,
    /// In a constant, a function that is one, or a test.
    Early,
}

struct Finder<'a> {
    range: &'a Range<usize>,
    found: Option<Found>,
}

impl Finder<'_> {
    fn holds(&self, span: proc_macro2::Span) -> bool {
        let bytes = span.byte_range();
        bytes.start <= self.range.start && self.range.end <= bytes.end
    }

    fn is(&self, span: proc_macro2::Span) -> bool {
        span.byte_range() == *self.range
    }

    fn find(&mut self, found: Found) {
        self.found.get_or_insert(found);
    }

    /// Note that nothing within can be changed while the program runs.
    fn early(&mut self, span: proc_macro2::Span) {
        if self.holds(span) {
            self.find(Found::Early);
        }
    }
}

/// Whether `let` stands in a condition.
fn has_let(condition: &syn::Expr) -> bool {
    match condition {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(both) => has_let(&both.left) || has_let(&both.right),
        syn::Expr::Paren(inner) => has_let(&inner.expr),
        _ => false,
    }
}

fn binds(statement: &syn::Stmt) -> bool {
    match statement {
        syn::Stmt::Local(local) => !matches!(local.pat, syn::Pat::Wild(_)),
        syn::Stmt::Item(_) => true,
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr(&mut self, expression: &'ast syn::Expr) {
        if self.is(expression.span()) {
            let found = if has_let(expression) { Found::Condition } else { Found::Whole };
            self.find(found);
        } else if self.holds(expression.span()) {
            visit::visit_expr(self, expression);
        }
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        let inside = |statement: &&syn::Stmt| {
            let bytes = statement.span().byte_range();
            self.range.start <= bytes.start && bytes.end <= self.range.end
        };
        let some: Vec<&syn::Stmt> = block.stmts.iter().filter(inside).collect();
        let bytes = |statement: &syn::Stmt| statement.span().byte_range();
        if let (Some(first), Some(last)) = (some.first(), some.last())
            && (bytes(first).start, bytes(last).end) == (self.range.start, self.range.end)
        {
            let binds = some.iter().any(|statement| binds(statement));
            // With the value of the block at their end they are a block themselves.
            let has_value = matches!(last, syn::Stmt::Expr(_, None));
            let to_the_end = block.stmts.last().is_some_and(|all| std::ptr::eq(all, *last));
            let loose = binds && !(has_value && to_the_end);
            self.find(if loose { Found::Binding } else { Found::Whole });
        } else {
            visit::visit_block(self, block);
        }
    }

    /// Those that are like calls have expressions between commas.
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        type Arguments = Punctuated<syn::Expr, syn::Token![,]>;
        if let Ok(arguments) = call.parse_body_with(Arguments::parse_terminated) {
            for argument in &arguments {
                self.visit_expr(argument);
            }
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if item.sig.constness.is_some() || super::sites::is_test(&item.attrs) {
            self.early(item.span());
        }
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if item.sig.constness.is_some() {
            self.early(item.span());
        }
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if super::sites::is_test(&item.attrs) {
            self.early(item.span());
        }
        visit::visit_item_mod(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.early(item.span());
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.early(item.span());
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.early(item.span());
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.early(item.span());
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.early(item.span());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
const A: u64 = 1 + 2;
fn f(x: u64) -> u64 {
    let y = x * 3 + 4;
    note(y)?;
    store(x);
    let _ = v(14);
    if let Some(z) = w && z > 5 { return 6; }
    match g(x, y) { 7 => h.iter().map(|n| n - 8), _ => matches!(y, 9) }
    assert!(x < 10, \"{}\", y);
    x - y
}
const fn k() -> u64 { 11 + 12 }
#[cfg(test)]
mod tests { fn t() { u(13); } }
";

    fn said(replace: &str) -> String {
        let file = syn::parse_file(TEXT).unwrap();
        let start = TEXT.find(replace).unwrap();
        let range = start..start + replace.len();
        check(&file, &range).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn whole_expressions_and_statements_can_be_replaced() {
        for whole in [
            "x * 3 + 4",
            "x * 3",
            "note(y)?;",
            "note(y)?;\n    store(x);",
            "note(y)",
            "let _ = v(14);",
            "z > 5",
            "return 6;",
            "return 6",
            "n - 8",
            "h.iter()",
            "x < 10",
            "x - y",
            "if let Some(z) = w && z > 5 { return 6; }",
            "assert!(x < 10, \"{}\", y);\n    x - y",
        ] {
            assert_eq!(said(whole), "", "{whole}");
        }
    }

    #[test]
    fn what_cannot_stand_behind_a_switch_is_told_why() {
        for (part, why) in [
            ("3 + 4", "neither"),
            ("note(y)?;\n    store(x)", "neither"),
            ("* 3", "neither"),
            ("(y)?;", "neither"),
            ("let y = x * 3 + 4;", "binds a name"),
            ("let y = x * 3 + 4;\n    note(y)?;", "binds a name"),
            ("let Some(z) = w", "`let` in a condition"),
            ("let Some(z) = w && z > 5", "`let` in a condition"),
            ("Some(z)", "neither"),
            (".iter()", "neither"),
            ("7 => h.iter().map(|n| n - 8),", "neither"),
            ("1 + 2", "must know"),
            ("11 + 12", "must know"),
            ("u(13);", "or it is a test"),
        ] {
            let said = said(part);
            assert!(said.contains(why), "{part}: {said}");
        }
    }

    #[test]
    fn what_takes_the_place_must_be_there_and_parse() {
        assert!(check_other("a < b", false).is_ok() && check_other("", true).is_ok());
        assert!(check_other("f(); g();", true).is_ok());
        for with in ["", "a <", "f();)"] {
            assert!(check_other(with, false).is_err(), "{with}");
        }
    }
}
