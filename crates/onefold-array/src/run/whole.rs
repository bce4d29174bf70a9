//! Drives of a server that are simulated whole: those of data and those of the table.
//! Room: onefold-array.

use onefold_flash::DriveSpec;
use onefold_flash::run as flash;
use onefold_flash::spec::{PRESET_NAMES, SpecBuilder as DriveBuilder};
use onefold_sim::SimTime;

use super::RunError;
use super::drives::{Drives, Waiter};
use crate::spec::ServerSpec;

/// The key that names the drives of data.
const DATA: &str = "ssd.model";
/// The key that names those of the table.
const TABLE: &str = "table_ssd.model";
/// Drives of the table have numbers from here on.
const TABLE_FROM: u32 = 1 << 16;
/// What tells the seeds of the table's drives from those of the others.
const TABLE_SEED: u64 = 0x7ab1e;

/// Both, where they are.
#[derive(Default)]
pub struct Whole {
    /// Data drives.
    pub data: Option<Drives>,
    /// Table drives.
    pub table: Option<Drives>,
}

impl Whole {
    /// The drives of a description; those that were read from files come with it.
    ///
    /// # Errors
    /// [`RunError::Drive`].
    pub fn new(
        spec: &ServerSpec,
        data: Option<DriveSpec>,
        table: Option<DriveSpec>,
    ) -> Result<Self, RunError> {
        let data = one((DATA, &spec.ssd.model), data)?;
        let table = one((TABLE, &spec.table_ssd.model), table)?;
        let drives = |key, drive: &DriveSpec, count, container_bytes, seed| {
            let drives = Drives::new(drive, count, container_bytes, seed);
            drives.map_err(|error| RunError::Drive(key, error.to_string()))
        };
        let (ssd, seed) = (&spec.ssd, spec.seed);
        let data = data.map(|drive| drives(DATA, &drive, ssd.count, ssd.container_bytes, seed));
        let (count, seed) = (spec.table_ssd.count, seed ^ TABLE_SEED);
        let table = table.map(|drive| drives(TABLE, &drive, count, 0, seed));
        Ok(Self { data: data.transpose()?, table: table.transpose()? })
    }

    fn both(&mut self) -> impl Iterator<Item = (u32, &mut Drives)> {
        let data = self.data.iter_mut().map(|drives| (0, drives));
        data.chain(self.table.iter_mut().map(|drives| (TABLE_FROM, drives)))
    }

    /// Whether a drive has not answered all that it was asked.
    pub fn is_asked(&self) -> bool {
        [&self.data, &self.table].into_iter().flatten().any(Drives::is_asked)
    }

    /// Measuring begins.
    pub fn restart_account(&mut self, now: SimTime) {
        self.both().for_each(|(_, drives)| drives.restart_account(now));
    }

    /// When a drive has to be looked at that nobody looks at before, with its number: call it again
    /// until there is none.
    pub fn next_look(&mut self, now: SimTime) -> Option<(SimTime, u32)> {
        self.both()
            .find_map(|(from, drives)| drives.next_look(now).map(|(at, drive)| (at, from + drive)))
    }

    /// It is time to look at a drive; who waits for a request that was answered.
    ///
    /// # Errors
    /// [`RunError::Drive`].
    pub fn look(&mut self, now: SimTime, at: u32, to: &mut Vec<Waiter>) -> Result<(), RunError> {
        let of_table = at >= TABLE_FROM;
        let (drives, at) =
            if of_table { (&mut self.table, at - TABLE_FROM) } else { (&mut self.data, at) };
        let done = drives.as_mut().map_or(Ok(()), |drives| drives.look(now, at, to));
        done.map_err(if of_table { table_failed } else { data_failed })
    }
}

/// What data drives fail of.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub fn data_failed(error: flash::RunError) -> RunError {
    RunError::Drive(DATA, error.to_string())
}

/// What table drives fail of.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub fn table_failed(error: flash::RunError) -> RunError {
    RunError::Drive(TABLE, error.to_string())
}

/// The drive that a key names: one that was read from its file, or a preset.
fn one(
    (key, model): (&'static str, &str),
    read: Option<DriveSpec>,
) -> Result<Option<DriveSpec>, RunError> {
    let wrong = |error: &dyn std::fmt::Display| RunError::Drive(key, error.to_string());
    match (model, read) {
        ("", None) => Ok(None),
        ("", Some(_)) => Err(wrong(&"it is empty, and there is a drive")),
        (_, Some(drive)) => Ok(Some(drive)),
        (name, None) if PRESET_NAMES.contains(&name) => {
            let builder = DriveBuilder::preset(name).map_err(|error| wrong(&error))?;
            builder.build().map(Some).map_err(|error| wrong(&error))
        }
        (name, None) => {
            let names = PRESET_NAMES.join(", ");
            Err(wrong(&format!("`{name}` is no preset of a drive ({names}), and no file of one")))
        }
    }
}
