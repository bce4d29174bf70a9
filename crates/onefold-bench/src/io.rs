//! Bytes that a process has moved to and from files, as its system calls ask for them.
//! Room: onefold-bench.
//! Source: proc(5) on `io`: `rchar` and `wchar`, which count what comes from memory, too.

use anyhow::{Context, Result};

/// Bytes moved so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
}

impl Moved {
    /// By this process.
    pub fn here() -> Result<Self> {
        Self::told("/proc/self/io")
    }

    /// By the process of this number.
    pub fn by(process: u32) -> Result<Self> {
        Self::told(&format!("/proc/{process}/io"))
    }

    fn told(path: &str) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|number| number.trim().parse().ok()).context("no count of bytes")
        };
        Ok(Self { read: field("rchar:")?, written: field("wchar:")? })
    }

    /// What came after `before`.
    pub const fn since(self, before: Self) -> Self {
        Self { read: self.read - before.read, written: self.written - before.written }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_and_read_is_counted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let before = Moved::here().unwrap();
        std::fs::write(file.path(), vec![1; 100_000]).unwrap();
        let written = Moved::here().unwrap().since(before).written;
        assert!((100_000..10_000_000).contains(&written), "{written}");
        assert_eq!(std::fs::read(file.path()).unwrap().len(), 100_000);
        assert!(Moved::by(std::process::id()).unwrap().since(before).read >= 100_000);
        assert!(Moved::by(u32::MAX).is_err());
    }
}
