//! Exports that are not known yet while clients may already come.
//! Room: onefold.
//! A client that asks before they are known waits: the server listens before its pool is made, so
//! that nothing is made for a server that could not listen.

use std::sync::{Arc, OnceLock};

use onefold_block::BlockDevice;
use onefold_nbd::{Client, Compared, ExportEntry, Exports};

/// A table of exports that is filled once.
#[derive(Default)]
pub struct LateExports {
    table: OnceLock<Box<dyn Exports>>,
}

impl LateExports {
    /// These are the exports; clients that wait are answered now. Only the first table
    /// counts.
    pub fn fill(&self, table: impl Exports + 'static) {
        let _ = self.table.set(Box::new(table));
    }
}

impl Exports for LateExports {
    fn list(&self, client: &Client) -> Vec<ExportEntry> {
        self.table.wait().list(client)
    }

    fn open(&self, name: &str, client: &Client) -> Option<Arc<dyn BlockDevice>> {
        self.table.wait().open(name, client)
    }

    fn changes_listed(&self, name: &str, client: &Client) -> Vec<String> {
        self.table.wait().changes_listed(name, client)
    }

    fn compared(&self, name: &str, since: &str, client: &Client) -> Option<Compared> {
        self.table.wait().compared(name, since, client)
    }

    fn refusal(&self, name: &str, client: &Client) -> Option<String> {
        self.table.wait().refusal(name, client)
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::MemDevice;
    use onefold_nbd::ExportTable;

    use super::*;

    #[test]
    fn who_asks_early_waits_for_the_answer() {
        let exports = Arc::new(LateExports::default());
        let asking = Arc::clone(&exports);
        let early = std::thread::spawn(move || {
            let client = &Client::Local;
            (asking.open("v", client).is_some(), asking.list(client).len())
        });
        exports.fill(ExportTable::new().with("v", "", Arc::new(MemDevice::new(512))));
        assert_eq!(early.join().unwrap(), (true, 1));
        exports.fill(ExportTable::new());
        assert!(exports.open("v", &Client::Local).is_some(), "only the first table counts");
    }
}
