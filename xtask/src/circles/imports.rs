//! What a file imports from other files of its crate.
//! Room: xtask.   In: Rust.   Out: paths from the crate's root.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use syn::visit::{self, Visit};

/// A module in a file of its own.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Its path from the crate's root.
    pub path: Vec<String>,
    /// Paths that it names, from the crate's root.
    pub uses: BTreeSet<Vec<String>>,
    /// Names that it passes on, with where it has them from.
    pub passes_on: BTreeMap<String, Vec<String>>,
    /// Modules that it declares.
    children: BTreeSet<String>,
}

impl Module {
    /// Reads a file; `name` is its path in `src/` without the ending.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let name = name.strip_suffix("/mod").unwrap_or(name);
        let parts = name.split('/').filter(|&part| part != "lib" && part != "main");
        let mut module = Self { path: parts.map(str::to_owned).collect(), ..Self::default() };
        let file = syn::parse_file(text)?;
        for item in &file.items {
            if let syn::Item::Mod(child) = item {
                module.children.insert(child.ident.to_string());
            }
        }
        module.visit_file(&file);
        Ok(module)
    }

    /// Its file, for people.
    pub fn name(&self) -> String {
        if self.path.is_empty() { "lib".to_owned() } else { self.path.join("/") }
    }

    /// A path from the crate's root; nothing if it leads out of the crate or stays in the file.
    fn whole(&self, path: &[String]) -> Option<Vec<String>> {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let (base, rest) = match path.first()?.as_str() {
            "crate" => (&[][..], &path[1..]),
            "self" => (&self.path[..], &path[1..]),
            "super" => (&self.path[..self.path.len().checked_sub(ups)?], &path[ups..]),
            child if self.children.contains(child) => (&self.path[..], path),
            _ => return None,
        };
        Some(base.iter().chain(rest).cloned().collect())
    }

    fn import(&mut self, tree: &syn::UseTree, before: &[String], passes_on: bool) {
        let with = |name: &syn::Ident| {
            let mut path = before.to_vec();
            path.push(name.to_string());
            path
        };
        match tree {
            syn::UseTree::Path(part) => self.import(&part.tree, &with(&part.ident), passes_on),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, before, passes_on));
            }
            syn::UseTree::Name(name) if name.ident == "self" => self.name_path(before, None),
            syn::UseTree::Name(name) => {
                let path = with(&name.ident);
                self.name_path(&path, passes_on.then(|| name.ident.to_string()));
            }
            syn::UseTree::Rename(name) => {
                let path = with(&name.ident);
                self.name_path(&path, passes_on.then(|| name.rename.to_string()));
            }
            syn::UseTree::Glob(_) => self.name_path(before, None),
        }
    }

    fn name_path(&mut self, path: &[String], passed_on_as: Option<String>) {
        let Some(whole) = self.whole(path) else { return };
        match passed_on_as {
            Some(name) => drop(self.passes_on.insert(name, whole)),
            None => drop(self.uses.insert(whole)),
        }
    }
}

impl Visit<'_> for Module {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        if !is_test(&item.attrs) {
            let passes_on = !matches!(item.vis, syn::Visibility::Inherited);
            self.import(&item.tree, &[], passes_on);
        }
    }

    fn visit_item_mod(&mut self, item: &syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        if path.segments.len() > 1 {
            let parts: Vec<String> =
                path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.name_path(&parts, None);
        }
        visit::visit_path(self, path);
    }
}

/// Whether something is compiled for tests only.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => list.tokens.to_string() == "test",
        _ => false,
    })
}
