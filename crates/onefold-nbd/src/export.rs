//! Which devices a server offers, under which names.
//! Room: onefold-nbd.

use std::sync::Arc;

use onefold_block::{BlockDevice, BlockError, Extent};

use crate::client::Client;

/// Where an export differs from what it was once.
pub trait Changes: Send + Sync {
    /// Extents from `offset` on, at least one, together at most `len` bytes: data where it differs
    /// or may, a hole where it does not.
    fn changes(&self, offset: u64, len: u64) -> Result<Vec<Extent>, BlockError>;
}

/// A device, and where it differs from what it was once.
pub type Compared = (Arc<dyn BlockDevice>, Arc<dyn Changes>);

/// What a client sees of an export in a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportEntry {
    /// The name a client asks for; at most 4096 bytes.
    pub name: String,
    /// A sentence for people; may be empty.
    pub description: String,
}

/// The exports of a server. Asked anew by every client, so volumes may come and go. What a client
/// may not see is for it as if it were not there.
pub trait Exports: Send + Sync {
    /// Every export that the client sees, the default one first.
    fn list(&self, client: &Client) -> Vec<ExportEntry>;

    /// The device of that name; the empty name is the first one listed. `None` if there is none.
    fn open(&self, name: &str, client: &Client) -> Option<Arc<dyn BlockDevice>>;

    /// Names for [`Exports::compared`] that clients are told when they ask for all of the export.
    fn changes_listed(&self, name: &str, client: &Client) -> Vec<String> {
        let _ = (name, client);
        Vec::new()
    }

    /// The device of that name, and where that very device differs from `since`, a name that means
    /// something to whoever offers the exports. `None` if there is no such, or they cannot be
    /// compared.
    fn compared(&self, name: &str, since: &str, client: &Client) -> Option<Compared> {
        let _ = (name, since, client);
        None
    }

    /// Why [`Exports::open`] gives nobody the export of that name, in a sentence for the client, if
    /// that is for another reason than that there is none.
    fn refusal(&self, name: &str, client: &Client) -> Option<String> {
        let _ = (name, client);
        None
    }
}

impl<E: Exports + ?Sized> Exports for Arc<E> {
    fn list(&self, client: &Client) -> Vec<ExportEntry> {
        (**self).list(client)
    }

    fn open(&self, name: &str, client: &Client) -> Option<Arc<dyn BlockDevice>> {
        (**self).open(name, client)
    }

    fn changes_listed(&self, name: &str, client: &Client) -> Vec<String> {
        (**self).changes_listed(name, client)
    }

    fn compared(&self, name: &str, since: &str, client: &Client) -> Option<Compared> {
        (**self).compared(name, since, client)
    }

    fn refusal(&self, name: &str, client: &Client) -> Option<String> {
        (**self).refusal(name, client)
    }
}

/// A fixed list of exports.
#[derive(Default)]
pub struct ExportTable {
    rows: Vec<(ExportEntry, Arc<dyn BlockDevice>)>,
}

impl ExportTable {
    /// No exports yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more export; the first one added is the default.
    #[must_use]
    pub fn with(mut self, name: &str, description: &str, device: Arc<dyn BlockDevice>) -> Self {
        let entry = ExportEntry { name: name.to_owned(), description: description.to_owned() };
        self.rows.push((entry, device));
        self
    }
}

impl Exports for ExportTable {
    fn list(&self, _: &Client) -> Vec<ExportEntry> {
        self.rows.iter().map(|(entry, _)| entry.clone()).collect()
    }

    fn open(&self, name: &str, _: &Client) -> Option<Arc<dyn BlockDevice>> {
        let named = self.rows.iter().find(|(entry, _)| entry.name == name);
        let default = if name.is_empty() { self.rows.first() } else { None };
        named.or(default).map(|(_, device)| Arc::clone(device))
    }
}
