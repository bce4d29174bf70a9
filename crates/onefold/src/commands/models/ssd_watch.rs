//! What is seen of an emulated drive while it is served.
//! Room: onefold.
//! Invariant: the drive is lent to whoever looks, and comes back when it stops.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use onefold_block::wrappers::DeviceCounters;
use onefold_flash::drive::{OpenDrive, Picture};
use onefold_metrics::{ExportSample, Sample};
use serde_json::{Value, json};

use crate::watch::{Source, process_sample};

/// Most blocks that are drawn one by one; of larger drives several share a cell.
const CELLS_MAX: u32 = 4096;
/// How the export without a name is called.
const NAMELESS: &str = "(drive)";

/// A drive that others may look at.
#[derive(Clone)]
pub struct LentDrive(Arc<Mutex<Option<OpenDrive>>>);

impl LentDrive {
    /// Lend it.
    pub fn new(open: OpenDrive) -> Self {
        Self(Arc::new(Mutex::new(Some(open))))
    }

    /// Look at it, while it is there.
    pub fn look<T>(&self, look: impl FnOnce(&OpenDrive) -> T) -> Option<T> {
        let lent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lent.as_ref().map(look)
    }

    /// Have it back; nobody sees it any more.
    pub fn take(&self) -> Option<OpenDrive> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What was asked of each export.
pub type Meters = Vec<(&'static str, Arc<DeviceCounters>)>;

/// A drive, its exports, and its clients.
pub struct DriveSource {
    title: String,
    drive: LentDrive,
    exports: Meters,
    connections: Box<dyn Fn() -> u64 + Send + Sync>,
    started: SystemTime,
}

impl DriveSource {
    /// The drive in a folder, with these exports and so many clients.
    pub fn new(
        folder: &Path,
        drive: &LentDrive,
        exports: Meters,
        connections: Box<dyn Fn() -> u64 + Send + Sync>,
    ) -> Self {
        let title = format!("drive {}", folder.display());
        Self { title, drive: drive.clone(), exports, connections, started: SystemTime::now() }
    }
}

impl Source for DriveSource {
    fn title(&self) -> String {
        self.title.clone()
    }

    fn sample(&self) -> Sample {
        let export = |(name, counters): &(&str, Arc<DeviceCounters>)| {
            let name = if name.is_empty() { NAMELESS } else { name };
            ExportSample { name: name.to_owned(), counters: Arc::clone(counters) }
        };
        Sample {
            drive: self.drive.look(OpenDrive::health),
            exports: self.exports.iter().map(export).collect(),
            connections: (self.connections)(),
            process: process_sample(self.started),
            ..Sample::default()
        }
    }

    fn drive(&self) -> Option<Value> {
        let picture = self.drive.look(|open| {
            open.device().with_ftl(|ftl| Picture::of(ftl.blocks(), ftl.geometry(), CELLS_MAX))
        });
        picture.map(|picture| json!(picture))
    }
}
