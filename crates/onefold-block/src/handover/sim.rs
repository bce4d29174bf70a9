//! Such memory for tests: kept, lost or damaged as the test says.
//! Room: onefold-block.
//! The regions are files without a name, so that a copy can be taken of them in the midst of things
//! just as a kill would leave them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{MemfdFlags, memfd_create};

use super::{Handover, Region};
use crate::media::MediaError;

/// Simulated memory that outlives processes. Clones are the same memory.
#[derive(Clone, Debug, Default)]
pub struct SimHandover {
    regions: Arc<Mutex<BTreeMap<String, Arc<File>>>>,
    boot: u8,
    /// Regions that may be made, if there is a limit.
    room: Arc<Mutex<Option<usize>>>,
}

fn failed(name: &str, source: io::Error) -> MediaError {
    MediaError::Io { action: "use", name: name.to_owned(), source }
}

impl SimHandover {
    /// No regions.
    pub fn new() -> Self {
        Self::default()
    }

    fn regions(&self) -> MutexGuard<'_, BTreeMap<String, Arc<File>>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a process that is killed now leaves to the next.
    ///
    /// # Panics
    /// Where the system has no memory for it.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        let copy = Self { boot: self.boot, ..Self::default() };
        for (name, file) in &*self.regions() {
            let bytes = read_all(file).expect("a region can be read");
            let to = file_of(&bytes).expect("memory for a copy");
            copy.regions().insert(name.clone(), Arc::new(to));
        }
        copy
    }

    /// The same regions, as if the machine had been started again without losing them.
    #[must_use]
    pub fn after_boot(&self) -> Self {
        Self { boot: self.boot + 1, ..self.after_kill() }
    }

    /// Flip bits: `mask` of the byte at `at` of a region.
    ///
    /// # Panics
    /// If there is no such byte.
    pub fn damage(&self, name: &str, at: u64, mask: u8) {
        let regions = self.regions();
        let file = regions.get(name).expect("a region of that name");
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).expect("a byte of the region");
        file.write_all_at(&[byte[0] ^ mask], at).expect("the same byte");
    }

    /// Let no more than so many regions be there.
    pub fn limit(&self, regions: usize) {
        *self.room.lock().unwrap_or_else(PoisonError::into_inner) = Some(regions);
    }
}

fn read_all(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.metadata()?.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn file_of(bytes: &[u8]) -> io::Result<File> {
    let file = File::from(memfd_create("onefold", MemfdFlags::CLOEXEC)?);
    file.set_len(bytes.len() as u64)?;
    // Holes stay holes: most of a region is never touched.
    for (number, page) in bytes.chunks(4096).enumerate() {
        if page.iter().any(|&byte| byte != 0) {
            file.write_all_at(page, number as u64 * 4096)?;
        }
    }
    Ok(file)
}

impl Handover for SimHandover {
    fn boot(&self) -> [u8; 16] {
        // Zeroes are no run of a machine.
        [self.boot + 1; 16]
    }

    fn create(&self, name: &str, bytes: usize) -> Result<Region, MediaError> {
        let room = *self.room.lock().unwrap_or_else(PoisonError::into_inner);
        let mut regions = self.regions();
        if room.is_some_and(|room| regions.len() >= room) {
            return Err(MediaError::NoSpace { name: name.to_owned() });
        }
        let make = || {
            let file = File::from(memfd_create("onefold", MemfdFlags::CLOEXEC)?);
            file.set_len(bytes as u64)?;
            Ok((Region::map(&file, bytes)?, file))
        };
        let (region, file) = make().map_err(|error| failed(name, error))?;
        regions.insert(name.to_owned(), Arc::new(file));
        Ok(region)
    }

    fn open(&self, name: &str) -> Result<Region, MediaError> {
        let regions = self.regions();
        let Some(file) = regions.get(name) else {
            return Err(MediaError::NotFound { name: name.to_owned() });
        };
        let open = || Region::map(file, file.metadata()?.len() as usize);
        open().map_err(|error| failed(name, error))
    }

    fn remove(&self, name: &str) -> Result<(), MediaError> {
        self.regions().remove(name);
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>, MediaError> {
        Ok(self.regions().keys().cloned().collect())
    }
}
