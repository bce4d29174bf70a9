//! What a drive has acknowledged and no page of its flash says yet, seen from outside.
//! Room: onefold-flash.   In: an `Inspection`, the drive's memory.   Out: `Pending`.

use onefold_block::handover::Handover;
use serde::Serialize;

use super::inspect::Inspection;
use super::kept;

/// How often memory that changes while it is looked at is looked at again.
const ATTEMPTS: usize = 8;

/// Records of the journal that are in memory and in no page: what was trimmed, and which logical
/// pages share a page. The next flush stores them; a power cut before it takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pending {
    /// How many can be read.
    pub records: u64,
    /// Logical pages written that wait to be packed with others.
    pub pages: u64,
    /// Why there may have been more, if so.
    pub lost: Option<String>,
}

impl Pending {
    /// What is in the memory of a drive, whether a process has it open or was killed. Nothing is
    /// changed.
    pub fn of(drive: &Inspection, memory: &dyn Handover) -> Self {
        let look = || {
            let opening = drive.health.power_cycles;
            let left = kept::left(memory, drive.id, opening, drive.spec.packs());
            let records = left.records.len() as u64;
            let pages = left.pages.iter().map(|(lpns, _)| lpns.len() as u64).sum();
            Self { records, pages, lost: left.lost }
        };
        let mut pending = look();
        // A process that has the drive open may empty it meanwhile.
        for _ in 1..ATTEMPTS {
            if pending.lost.is_none() {
                break;
            }
            pending = look();
        }
        pending
    }
}
