//! A guest's memory, which its monitor hands over as files.
//! Room: onefold-vhost.
//! Invariant: no access to it can fail but by an address that is not in it. What could be taken
//! away under us (a file that may shrink, pages of which there may be none) would end the process
//! with a signal, so it is refused.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{SealFlags, fcntl_get_seals, fstat, fstatfs};
use thiserror::Error;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

use crate::message::Region;

/// The file system of large pages (`hugetlbfs`).
const LARGE_PAGES: i64 = 0x958_458f6;

/// Why memory is refused.
#[derive(Debug, Error)]
pub(crate) enum MemoryError {
    #[error("{files} files for {regions} regions of memory")]
    Files { files: usize, regions: usize },
    #[error("the file of a region of memory ends before the region does")]
    TooShort,
    #[error(
        "memory in a file that could be cut shorter: give the machine memory that is sealed \
         (QEMU: -object memory-backend-memfd,share=on)"
    )]
    NotSealed,
    #[error("memory in large pages, of which there may be none when they are needed")]
    LargePages,
    #[error("regions of memory that overlap, or cannot be mapped: {0}")]
    Unmappable(String),
}

/// What rings and requests are read from.
pub(crate) type Mapped = GuestMemoryMmap<()>;

/// The memory of one guest.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    regions: Vec<Region>,
    mapped: Arc<Mapped>,
}

impl Memory {
    /// Map regions, each of which is in the file at its place.
    pub fn map(regions: Vec<Region>, files: Vec<OwnedFd>) -> Result<Self, MemoryError> {
        if regions.len() != files.len() {
            return Err(MemoryError::Files { files: files.len(), regions: regions.len() });
        }
        let unmappable = |error: &dyn std::fmt::Display| MemoryError::Unmappable(error.to_string());
        let mut mapped = Vec::with_capacity(regions.len());
        for (region, file) in regions.iter().zip(files) {
            check(region, &file)?;
            let at = FileOffset::new(File::from(file), region.file_offset);
            let pages = MmapRegion::from_file(at, region.bytes as usize);
            let pages = pages.map_err(|error| unmappable(&error))?;
            let placed = GuestRegionMmap::new(pages, GuestAddress(region.guest));
            mapped.push(placed.ok_or_else(|| unmappable(&"it wraps around"))?);
        }
        mapped.sort_by_key(|region| vm_memory::GuestMemoryRegion::start_addr(region).0);
        let mapped = Mapped::from_regions(mapped).map_err(|error| unmappable(&error))?;
        Ok(Self { regions, mapped: Arc::new(mapped) })
    }

    /// Where the guest has what the monitor has here.
    pub fn guest_address(&self, monitor: u64) -> Option<GuestAddress> {
        let holds = |region: &&Region| {
            monitor.checked_sub(region.monitor).is_some_and(|into| into < region.bytes)
        };
        let region = self.regions.iter().find(holds)?;
        Some(GuestAddress(region.guest + (monitor - region.monitor)))
    }

    /// The memory itself, for as long as anybody holds it.
    pub fn mapped(&self) -> Arc<Mapped> {
        Arc::clone(&self.mapped)
    }
}

fn check(region: &Region, file: &OwnedFd) -> Result<(), MemoryError> {
    let kind = fstatfs(file).map_err(|error| MemoryError::Unmappable(error.to_string()))?;
    if i64::from(kind.f_type as u32) == LARGE_PAGES {
        return Err(MemoryError::LargePages);
    }
    // Files that know no seals can always be cut.
    let seals = fcntl_get_seals(file).unwrap_or_else(|_| SealFlags::empty());
    if !seals.contains(SealFlags::SHRINK) {
        return Err(MemoryError::NotSealed);
    }
    let found = fstat(file).map_err(|error| MemoryError::Unmappable(error.to_string()))?;
    if region.file_offset + region.bytes > found.st_size as u64 {
        return Err(MemoryError::TooShort);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

    use super::*;

    fn file(bytes: u64, seals: SealFlags) -> OwnedFd {
        let file = memfd_create("guest", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, bytes).unwrap();
        fcntl_add_seals(&file, seals).unwrap();
        file
    }

    const REGION: Region =
        Region { guest: 0x10000, bytes: 0x4000, monitor: 0x7000_0000, file_offset: 0x1000 };

    fn refused(region: Region, file: OwnedFd) -> MemoryError {
        Memory::map(vec![region], vec![file]).unwrap_err()
    }

    #[test]
    fn memory_that_could_be_taken_away_is_refused() {
        let sealed = || file(0x5000, SealFlags::SHRINK);
        assert!(Memory::map(vec![REGION], vec![sealed()]).is_ok());
        assert!(matches!(refused(REGION, file(0x5000, SealFlags::GROW)), MemoryError::NotSealed));
        let plain = tempfile::tempfile().unwrap();
        plain.set_len(0x5000).unwrap();
        assert!(matches!(refused(REGION, plain.into()), MemoryError::NotSealed));
        let longer = Region { bytes: 0x4001, ..REGION };
        assert!(matches!(refused(longer, sealed()), MemoryError::TooShort));
        let inside = Region { file_offset: 0x800, ..REGION };
        assert!(matches!(refused(inside, sealed()), MemoryError::Unmappable(_)));
        let twice = Memory::map(vec![REGION, REGION], vec![sealed(), sealed()]).unwrap_err();
        assert!(matches!(twice, MemoryError::Unmappable(_)), "{twice}");
        let none = Memory::map(vec![REGION], vec![]).unwrap_err();
        assert!(matches!(none, MemoryError::Files { files: 0, regions: 1 }));
    }

    #[test]
    fn addresses_of_the_monitor_are_the_guests_in_whatever_order_regions_come() {
        let sealed = || file(0x5000, SealFlags::SHRINK);
        let lower = Region { guest: 0, monitor: 0x9000_0000, ..REGION };
        let memory = Memory::map(vec![REGION, lower], vec![sealed(), sealed()]).unwrap();
        for (monitor, guest) in [
            (0x7000_0000, Some(0x10000)),
            (0x7000_3fff, Some(0x13fff)),
            (0x7000_4000, None),
            (0x6fff_ffff, None),
            (0x9000_0001, Some(1)),
            (u64::MAX, None),
        ] {
            assert_eq!(memory.guest_address(monitor), guest.map(GuestAddress), "{monitor:x}");
        }
    }
}
