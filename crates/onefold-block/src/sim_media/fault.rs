//! What can be made to go wrong on simulated media, and the record of what was done to them.
//! Room: onefold-block.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// The operations kept in the log; older ones are forgotten, with their number said.
const LOG_OPS_MAX: usize = 1 << 16;

/// What is done to simulated media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Open a media by name. Not counted.
    Open,
    /// Read bytes. Not counted.
    Read,
    /// Write bytes.
    Write,
    /// Cut or extend.
    SetLen,
    /// Make a media durable.
    Sync,
    /// Set space aside.
    Reserve,
    /// Give the space of a range back.
    Punch,
    /// Make or empty a media, or make a subfolder.
    Create,
    /// Remove a name.
    Remove,
    /// Give a media another name.
    Rename,
    /// Make names durable.
    SyncNames,
}

impl OpKind {
    /// The operations that are counted, and at which the power can be cut.
    pub const COUNTED: [Self; 9] = [
        Self::Write,
        Self::SetLen,
        Self::Sync,
        Self::Reserve,
        Self::Punch,
        Self::Create,
        Self::Remove,
        Self::Rename,
        Self::SyncNames,
    ];

    /// As error messages name it.
    pub(super) const fn action(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::SetLen => "set the length of",
            Self::Sync => "sync",
            Self::Reserve => "reserve space in",
            Self::Punch => "punch a hole in",
            Self::Create => "create",
            Self::Remove => "remove",
            Self::Rename => "rename",
            Self::SyncNames => "sync names in",
        }
    }
}

/// The error that a planned fault answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The device failed (EIO).
    Eio,
    /// The device is full (ENOSPC). Reads and syncs report it as an I/O error.
    Enospc,
}

/// Faults to come.
#[derive(Debug, Default)]
pub(super) struct FaultPlan {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    kinds: Vec<OpKind>,
    /// Operations of these kinds still to pass before the fault.
    left: u64,
    forever: bool,
    fault: FaultKind,
}

impl FaultPlan {
    pub(super) fn add(&mut self, kinds: &[OpKind], nth: u64, forever: bool, fault: FaultKind) {
        assert!(nth > 0, "the next operation is the first");
        self.rules.push(Rule { kinds: kinds.to_vec(), left: nth, forever, fault });
    }

    /// The fault of this operation, if one is planned; every rule counts every operation.
    pub(super) fn next(&mut self, kind: OpKind) -> Option<FaultKind> {
        let mut hit = None;
        for rule in self.rules.iter_mut().filter(|rule| rule.kinds.contains(&kind)) {
            if rule.left == 1 {
                hit = hit.or(Some(rule.fault));
            }
            if rule.left > 1 || !rule.forever {
                rule.left = rule.left.saturating_sub(1);
            }
        }
        hit
    }
}

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Failed(FaultKind),
    PowerLost,
}

#[derive(Debug)]
struct Entry {
    kind: OpKind,
    name: Arc<str>,
    offset: u64,
    len: u64,
    outcome: Outcome,
}

/// The counted operations so far.
#[derive(Debug, Default)]
pub(super) struct OpLog {
    entries: VecDeque<Entry>,
    count: u64,
}

impl OpLog {
    /// Number of operations counted, forgotten ones included.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn push(
        &mut self,
        kind: OpKind,
        name: &Arc<str>,
        (offset, len): (u64, u64),
        outcome: Outcome,
    ) {
        if self.entries.len() == LOG_OPS_MAX {
            self.entries.pop_front();
        }
        self.count += 1;
        self.entries.push_back(Entry { kind, name: Arc::clone(name), offset, len, outcome });
    }

    /// Give the last operation another outcome.
    pub(super) fn amend(&mut self, outcome: Outcome) {
        if let Some(entry) = self.entries.back_mut() {
            entry.outcome = outcome;
        }
    }
}

impl fmt::Display for OpLog {
    /// One line per operation: its number, what it did to which bytes of what, and how it ended.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forgotten = self.count - self.entries.len() as u64;
        if forgotten > 0 {
            writeln!(f, "({forgotten} earlier operations are not shown)")?;
        }
        for (number, entry) in (forgotten + 1..).zip(&self.entries) {
            let mut line = format!("{number:>6} {:?} {}", entry.kind, entry.name);
            match entry.kind {
                OpKind::Write | OpKind::Reserve | OpKind::Punch => {
                    let end = entry.offset.saturating_add(entry.len);
                    write!(line, " bytes {}..{end}", entry.offset)?;
                }
                OpKind::SetLen => write!(line, " to {}", entry.len)?,
                _ => {}
            }
            match entry.outcome {
                Outcome::Done => {}
                Outcome::Failed(fault) => write!(line, " -> {fault:?}")?,
                Outcome::PowerLost => line.push_str(" -> power lost"),
            }
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_forgets_its_beginning_and_says_so() {
        let mut log = OpLog::default();
        let name: Arc<str> = "a".into();
        for number in 0..LOG_OPS_MAX as u64 {
            log.push(OpKind::Write, &name, (number, 1), Outcome::Done);
        }
        assert!(log.to_string().starts_with("     1 Write a bytes 0..1\n"));
        log.push(OpKind::Sync, &name, (0, 0), Outcome::Done);
        let text = log.to_string();
        let beginning = "(1 earlier operations are not shown)\n     2 Write a bytes 1..2\n";
        assert!(text.starts_with(beginning), "{}", &text[..80]);
        assert!(text.ends_with(" 65537 Sync a\n"));
        assert_eq!((text.lines().count(), log.count()), (LOG_OPS_MAX + 1, 65_537));
    }

    #[test]
    fn each_rule_counts_for_itself_and_the_first_one_wins() {
        let mut plan = FaultPlan::default();
        plan.add(&[OpKind::Write, OpKind::Sync], 3, false, FaultKind::Enospc);
        plan.add(&[OpKind::Write], 2, true, FaultKind::Eio);
        let (eio, full) = (Some(FaultKind::Eio), Some(FaultKind::Enospc));
        let asked = [OpKind::Write, OpKind::Sync, OpKind::Write, OpKind::Sync, OpKind::Write];
        assert_eq!(asked.map(|kind| plan.next(kind)), [None, None, full, None, eio]);
        assert_eq!(plan.next(OpKind::Punch), None);
    }
}
