//! What stands for files and folders of a pool that are missing: nothing can be read from them.
//! Room: onefold-pool.

use std::io;
use std::sync::Arc;

use onefold_block::{Folder, Media, MediaError};

/// A file that is not there, by its name.
pub struct NoFile(pub String);

/// A folder that is not there.
pub struct NoFolder;

/// What whoever wants to change such a thing is told.
pub fn refused(action: &'static str, name: &str) -> MediaError {
    let source = io::ErrorKind::ReadOnlyFilesystem.into();
    MediaError::Io { action, name: name.to_owned(), source }
}

impl Media for NoFile {
    fn len(&self) -> Result<u64, MediaError> {
        Ok(0)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        if buf.is_empty() {
            return Ok(());
        }
        let end = offset.saturating_add(buf.len() as u64);
        Err(MediaError::Truncated { name: self.0.clone(), len: 0, offset, end })
    }

    fn write(&self, _offset: u64, _data: &[u8]) -> Result<(), MediaError> {
        Err(refused("write", &self.0))
    }

    fn set_len(&self, _len: u64) -> Result<(), MediaError> {
        Err(refused("set the length of", &self.0))
    }

    fn sync(&self) -> Result<(), MediaError> {
        Err(refused("sync", &self.0))
    }
}

impl Folder for NoFolder {
    fn open(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        Err(MediaError::NotFound { name: name.to_owned() })
    }

    fn create(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        Err(refused("create", name))
    }

    fn remove(&self, name: &str) -> Result<(), MediaError> {
        Err(refused("remove", name))
    }

    fn rename(&self, from: &str, _to: &str) -> Result<(), MediaError> {
        Err(refused("rename", from))
    }

    fn list(&self) -> Result<Vec<String>, MediaError> {
        Ok(Vec::new())
    }

    fn sync_names(&self) -> Result<(), MediaError> {
        Err(refused("sync names in", "the folder"))
    }

    fn subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        Err(refused("create", name))
    }

    fn existing_subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        Err(MediaError::NotFound { name: name.to_owned() })
    }

    fn remove_subfolder(&self, name: &str) -> Result<(), MediaError> {
        Err(refused("remove", name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_missing_is_empty_and_takes_nothing() {
        let file = NoFile("journal".to_owned());
        assert_eq!(file.len().unwrap(), 0);
        file.read(12, &mut []).unwrap();
        match file.read(8, &mut [0; 4]) {
            Err(MediaError::Truncated { name, len: 0, offset: 8, end: 12 }) => {
                assert_eq!(name, "journal");
            }
            other => panic!("{other:?}"),
        }
        for refused in [file.write(0, &[1]), file.set_len(0), file.sync()] {
            assert!(refused.unwrap_err().to_string().contains("journal"));
        }
    }

    #[test]
    fn a_folder_that_is_missing_has_no_files_and_takes_none() {
        assert_eq!(NoFolder.list().unwrap(), Vec::<String>::new());
        let missing = |found: Result<(), MediaError>| {
            assert!(matches!(found, Err(MediaError::NotFound { name }) if name == "a"));
        };
        missing(NoFolder.open("a").map(drop));
        missing(NoFolder.existing_subfolder("a").map(drop));
        let refused = |done: Result<(), MediaError>| {
            assert!(matches!(done, Err(MediaError::Io { .. })), "{done:?}");
        };
        refused(NoFolder.create("a").map(drop));
        refused(NoFolder.subfolder("a").map(drop));
        refused(NoFolder.remove("a"));
        refused(NoFolder.remove_subfolder("a"));
        refused(NoFolder.rename("a", "b"));
        refused(NoFolder.sync_names());
    }
}
