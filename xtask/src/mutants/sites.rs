//! Where a line of code can be broken in a small way, and how.
//! Room: xtask.
//! Comparisons, sums, `&&` and `||`, conditions, whole numbers, calls whose answer nobody uses, and
//! functions that have nothing to return. What must be known at compile time is left alone, and so
//! are patterns, macros and tests; and also what no test could see: how much memory a buffer is
//! given in advance, and what stands in one before it is filled.

use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A change of a few characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The bytes of the file that are replaced; empty where something is put in.
    pub range: Range<usize>,
    /// What takes their place.
    pub with: String,
    /// Whether both are statements rather than expressions.
    pub statement: bool,
    /// What is done, in words.
    pub what: String,
}

/// All changes that can be made in a file, in order of their places.
pub fn of(text: &str) -> syn::Result<Vec<Change>> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder { text, found: Vec::new() };
    finder.visit_file(&file);
    let mut found = finder.found;
    found.sort_by_key(|change| (change.range.start, change.range.end));
    Ok(found)
}

struct Finder<'a> {
    text: &'a str,
    found: Vec<Change>,
}

impl Finder<'_> {
    fn source(&self, span: Span) -> &str {
        &self.text[span.byte_range()]
    }

    fn add(&mut self, span: Span, with: String, what: String) {
        self.found.push(Change { range: span.byte_range(), with, statement: false, what });
    }

    /// Put `return VALUE` at the beginning of a function that gives nothing back.
    fn hollow(&mut self, output: &syn::ReturnType, block: &syn::Block) {
        let value = match output {
            syn::ReturnType::Default => "return;",
            syn::ReturnType::Type(_, kind) if is_result_of_nothing(kind) => "return Ok(());",
            syn::ReturnType::Type(_, kind) if self.source(kind.span()) == "bool" => "return false;",
            syn::ReturnType::Type(..) => return,
        };
        if block.stmts.is_empty() {
            return;
        }
        let start = block.brace_token.span.open().byte_range().end;
        let what = format!("the function begins with `{value}`");
        let with = value.to_owned();
        self.found.push(Change { range: start..start, with, statement: true, what });
    }
}

/// Whether attributes keep something out of the program, or make it a test.
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        path.is_ident("test")
            || path.is_ident("cfg")
                && attribute.parse_args::<syn::Path>().is_ok_and(|flag| flag.is_ident("test"))
    })
}

/// Whether a type is some `Result<()>` or `Result<(), E>`, whatever it is called.
fn is_result_of_nothing(kind: &syn::Type) -> bool {
    let syn::Type::Path(path) = kind else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
    let first = arguments.args.first();
    let is_unit =
        |kind: &syn::Type| matches!(kind, syn::Type::Tuple(unit) if unit.elems.is_empty());
    last.ident.to_string().ends_with("Result")
        && matches!(first, Some(syn::GenericArgument::Type(kind)) if is_unit(kind))
}

/// Whether `let` stands in a condition, which nothing can be put around.
fn has_let(condition: &syn::Expr) -> bool {
    match condition {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(both) => has_let(&both.left) || has_let(&both.right),
        _ => false,
    }
}

/// What an operator is changed to.
fn other(operator: &syn::BinOp) -> Option<(&'static str, &'static str)> {
    Some(match operator {
        syn::BinOp::Lt(_) => ("<", "<="),
        syn::BinOp::Le(_) => ("<=", "<"),
        syn::BinOp::Gt(_) => (">", ">="),
        syn::BinOp::Ge(_) => (">=", ">"),
        syn::BinOp::Eq(_) => ("==", "!="),
        syn::BinOp::Ne(_) => ("!=", "=="),
        syn::BinOp::Add(_) => ("+", "-"),
        syn::BinOp::Sub(_) => ("-", "+"),
        syn::BinOp::And(_) => ("&&", "||"),
        syn::BinOp::Or(_) => ("||", "&&"),
        _ => return None,
    })
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) && item.sig.constness.is_none() {
            self.hollow(&item.sig.output, &item.block);
            self.visit_block(&item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) && item.sig.constness.is_none() {
            self.hollow(&item.sig.output, &item.block);
            self.visit_block(&item.block);
        }
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_expr_repeat(&mut self, _: &'ast syn::ExprRepeat) {}

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if !self.source(call.func.span()).ends_with("::with_capacity") {
            visit::visit_expr_call(self, call);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if !matches!(call.method.to_string().as_str(), "reserve" | "try_reserve" | "reserve_exact")
        {
            visit::visit_expr_method_call(self, call);
        }
    }

    fn visit_expr_binary(&mut self, both: &'ast syn::ExprBinary) {
        let lets = has_let(&both.left) || has_let(&both.right);
        if let (Some((is, becomes)), false) = (other(&both.op), lets) {
            let (left, right) = (self.source(both.left.span()), self.source(both.right.span()));
            let (with, what) =
                (format!("{left} {becomes} {right}"), format!("`{is}` becomes `{becomes}`"));
            self.add(both.span(), with, what);
        }
        visit::visit_expr_binary(self, both);
    }

    fn visit_expr_if(&mut self, choice: &'ast syn::ExprIf) {
        if !has_let(&choice.cond) {
            let condition = self.source(choice.cond.span());
            let with = format!("!({condition})");
            self.add(choice.cond.span(), with, "the condition is negated".to_owned());
        }
        visit::visit_expr_if(self, choice);
    }

    fn visit_expr_lit(&mut self, literal: &'ast syn::ExprLit) {
        if let syn::Lit::Int(number) = &literal.lit {
            let text = self.source(number.span()).to_owned();
            self.add(number.span(), format!("{text} + 1"), format!("`{text}` becomes one more"));
        }
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        if let syn::Stmt::Expr(expression, Some(_)) = statement {
            let called = match expression {
                syn::Expr::Try(tried) => &tried.expr,
                other => other,
            };
            let advance = matches!(called, syn::Expr::MethodCall(call) if call.method == "reserve");
            if let syn::Expr::Call(_) | syn::Expr::MethodCall(_) = called
                && !advance
            {
                let first = self.source(statement.span()).lines().next().unwrap_or_default();
                let what = format!("left out: `{}`", first.trim());
                let range = statement.span().byte_range();
                self.found.push(Change { range, with: String::new(), statement: true, what });
            }
        }
        visit::visit_stmt(self, statement);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(text: &str) -> Vec<String> {
        of(text).unwrap().into_iter().map(|change| change.what).collect()
    }

    #[test]
    fn each_kind_of_change_is_found_once() {
        let text = "fn a(x: u64, y: u64) -> u64 { if x < y { note(x)?; } x + 1 }";
        let expected = [
            "the condition is negated",
            "`<` becomes `<=`",
            "left out: `note(x)?;`",
            "`+` becomes `-`",
            "`1` becomes one more",
        ];
        let mut found = whats(text);
        found.sort();
        let mut expected = expected.map(str::to_owned);
        expected.sort();
        assert_eq!(found, expected);
        assert_eq!(whats("fn a() -> Result<(), E> { b() }").len(), 1);
        assert_eq!(
            whats("fn a() -> io::Result<()> { b() }"),
            ["the function begins with `return Ok(());`"]
        );
    }

    #[test]
    fn what_the_compiler_must_know_is_left_alone() {
        let text = "const A: u64 = 1 + 2;\nstatic B: u8 = 3;\nenum E { X = 4 }\n\
                    const fn c() -> u8 { 5 }\n#[cfg(test)]\nmod tests { fn d() { e(6); } }\n\
                    fn f() -> [u8; 7] { match g { 8 => x, _ => [y; 9] } }\n\
                    #[test]\nfn t() { assert!(1 < 2); }\nfn m() -> u8 { vec![1 + 1] }";
        assert_eq!(whats(text), Vec::<String>::new());
    }

    #[test]
    fn memory_in_advance_is_left_alone() {
        let text = "fn a() -> B { c.reserve(n + 1); let d = Vec::with_capacity(2); [0; 4] }";
        assert_eq!(whats(text), Vec::<String>::new());
    }

    #[test]
    fn conditions_with_let_stay_whole() {
        assert!(whats("fn a() -> u8 { if let Some(x) = y && x { z } else { w } }").is_empty());
    }

    #[test]
    fn a_change_names_the_bytes_that_it_replaces() {
        let text = "fn a() -> X { // \u{e4}\n    b - c }";
        let change = &of(text).unwrap()[0];
        assert_eq!((&text[change.range.clone()], change.with.as_str()), ("b - c", "b + c"));
    }
}
