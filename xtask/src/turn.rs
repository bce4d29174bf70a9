//! Whose turn it is, where a commit has only a share of everything checked.
//! Room: xtask.

use std::path::Path;

use anyhow::{Context, Result};

/// What takes its turn is had by one commit out of so many.
pub const TURNS: u64 = 6;

/// The share that a run has of what takes its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All of it.
    Whole,
    /// What has this turn.
    Turn(u64),
}

impl Share {
    /// The one that the commit decides.
    pub fn of_this_commit() -> Result<Self> {
        Ok(Self::Turn(commit_number(&crate::root()?)? % TURNS))
    }

    /// Whether the run has what comes at this place of a list.
    pub fn has(self, place: u64) -> bool {
        match self {
            Self::Whole => true,
            Self::Turn(turn) => place % TURNS == turn,
        }
    }
}

/// A number that is another one with each commit, and as likely any among those of one turn.
pub fn choice(root: &Path) -> Result<u64> {
    Ok(commit_number(root)? / TURNS)
}

fn commit_number(root: &Path) -> Result<u64> {
    let output = std::process::Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(root)
        .output()
        .context("cannot run git")?;
    let hash = String::from_utf8_lossy(&output.stdout);
    let digits = hash.get(..15).context("git tells no commit")?;
    u64::from_str_radix(digits, 16).context("git tells no commit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_its_turn() {
        for place in 0..12 {
            let turns = (0..TURNS).filter(|&turn| Share::Turn(turn).has(place));
            assert_eq!(turns.count(), 1);
            assert!(Share::Whole.has(place));
        }
        let had = (0..TURNS).filter(|&place| Share::Turn(3).has(place));
        assert_eq!(had.collect::<Vec<_>>(), [3]);
    }
}
