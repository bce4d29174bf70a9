//! A folder whose every operation is a point, before it and after it.
//! Room: onefold-block.

use std::sync::Arc;

use super::point;
use crate::media::{Folder, Media, MediaError};

/// Wraps a folder.
pub struct PointFolder(Arc<dyn Folder>);

impl PointFolder {
    /// The same folder, with points.
    pub fn new(inner: Arc<dyn Folder>) -> Self {
        Self(inner)
    }
}

/// Run an operation between two points.
fn within<T>(action: &'static str, name: &str, operation: impl FnOnce() -> T) -> T {
    point(format_args!("before {action} of {name}"));
    let result = operation();
    point(format_args!("after {action} of {name}"));
    result
}

impl Folder for PointFolder {
    fn open(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        let inner = within("open", name, || self.0.open(name))?;
        Ok(Arc::new(PointMedia { name: name.to_owned(), inner }))
    }

    fn create(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        let inner = within("create", name, || self.0.create(name))?;
        Ok(Arc::new(PointMedia { name: name.to_owned(), inner }))
    }

    fn remove(&self, name: &str) -> Result<(), MediaError> {
        within("remove", name, || self.0.remove(name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        within("rename", from, || self.0.rename(from, to))
    }

    fn list(&self) -> Result<Vec<String>, MediaError> {
        within("list", "folder", || self.0.list())
    }

    fn sync_names(&self) -> Result<(), MediaError> {
        within("sync", "folder", || self.0.sync_names())
    }

    fn gives_pages_back(&self) -> bool {
        self.0.gives_pages_back()
    }

    fn subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        Ok(Arc::new(Self(self.0.subfolder(name)?)))
    }

    fn existing_subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        Ok(Arc::new(Self(self.0.existing_subfolder(name)?)))
    }

    fn remove_subfolder(&self, name: &str) -> Result<(), MediaError> {
        within("remove", name, || self.0.remove_subfolder(name))
    }
}

struct PointMedia {
    name: String,
    inner: Arc<dyn Media>,
}

impl Media for PointMedia {
    fn len(&self) -> Result<u64, MediaError> {
        within("len", &self.name, || self.inner.len())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        within("read", &self.name, || self.inner.read(offset, buf))
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        within("write", &self.name, || self.inner.write(offset, data))
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        within("set_len", &self.name, || self.inner.set_len(len))
    }

    fn sync(&self) -> Result<(), MediaError> {
        within("sync", &self.name, || self.inner.sync())
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        within("reserve", &self.name, || self.inner.reserve(offset, len))
    }

    fn punch(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        within("punch", &self.name, || self.inner.punch(offset, len))
    }

    fn next_data(&self, offset: u64) -> Result<Option<u64>, MediaError> {
        within("next data", &self.name, || self.inner.next_data(offset))
    }

    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        within("allocated", &self.name, || self.inner.allocated_bytes())
    }
}
