//! A folder that does something else in the midst of a media operation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use onefold_block::{Folder, Media, MediaError, SimFolder};

/// What is to happen once, and within which operation.
type Deed = Box<dyn FnOnce() + Send>;
type Wanted = fn(name: &str, len: usize) -> bool;

/// What is to happen within media operations. Clones share it.
#[derive(Clone, Default)]
pub struct Hook(Arc<Mutex<Option<(Wanted, Deed)>>>, Arc<Mutex<Option<Always>>>, Arc<AtomicU64>);

/// What is to happen before and after every change of the media.
type Always = Box<dyn FnMut() + Send>;

impl Hook {
    /// Do `deed`, in a thread of its own, after the next read of whose file and length `wanted`
    /// says so, before it returns.
    pub fn within_read(&self, wanted: Wanted, deed: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some((wanted, Box::new(deed)));
    }

    /// Do `deed` before and after every operation that changes the media or makes it durable.
    pub fn around_changes(&self, deed: impl FnMut() + Send + 'static) {
        *self.1.lock().unwrap() = Some(Box::new(deed));
    }

    fn around<T>(&self, change: impl FnOnce() -> T) -> T {
        let tell = || {
            // Not for the changes that it makes itself.
            let deed = self.1.lock().unwrap().take();
            if let Some(mut deed) = deed {
                deed();
                self.1.lock().unwrap().get_or_insert(deed);
            }
        };
        tell();
        let result = change();
        tell();
        result
    }

    /// Whether it has happened.
    pub fn is_done(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }

    /// Reads of containers so far.
    pub fn container_reads(&self) -> u64 {
        self.2.load(Ordering::Relaxed)
    }

    fn was_read(&self, name: &str, len: usize) {
        self.2.fetch_add(u64::from(name.ends_with(".container")), Ordering::Relaxed);
        let deed = self.0.lock().unwrap().take_if(|(wanted, _)| wanted(name, len));
        if let Some((_, deed)) = deed {
            std::thread::spawn(deed).join().unwrap();
        }
    }
}

/// A simulated folder with a hook.
pub struct HookedFolder {
    inner: Arc<dyn Folder>,
    hook: Hook,
}

impl HookedFolder {
    pub fn new(inner: SimFolder, hook: &Hook) -> Self {
        Self { inner: Arc::new(inner), hook: hook.clone() }
    }

    fn media(&self, name: &str, inner: Arc<dyn Media>) -> Arc<dyn Media> {
        Arc::new(HookedMedia { name: name.to_owned(), inner, hook: self.hook.clone() })
    }
}

impl Folder for HookedFolder {
    fn open(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        Ok(self.media(name, self.inner.open(name)?))
    }

    fn create(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        Ok(self.media(name, self.hook.around(|| self.inner.create(name))?))
    }

    fn remove(&self, name: &str) -> Result<(), MediaError> {
        self.hook.around(|| self.inner.remove(name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        self.inner.rename(from, to)
    }

    fn list(&self) -> Result<Vec<String>, MediaError> {
        self.inner.list()
    }

    fn sync_names(&self) -> Result<(), MediaError> {
        self.hook.around(|| self.inner.sync_names())
    }

    fn subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        Ok(Arc::new(Self { inner: self.inner.subfolder(name)?, hook: self.hook.clone() }))
    }

    fn existing_subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        Ok(Arc::new(Self { inner: self.inner.existing_subfolder(name)?, hook: self.hook.clone() }))
    }

    fn remove_subfolder(&self, name: &str) -> Result<(), MediaError> {
        self.hook.around(|| self.inner.remove_subfolder(name))
    }
}

struct HookedMedia {
    name: String,
    inner: Arc<dyn Media>,
    hook: Hook,
}

impl Media for HookedMedia {
    fn len(&self) -> Result<u64, MediaError> {
        self.inner.len()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.inner.read(offset, buf)?;
        self.hook.was_read(&self.name, buf.len());
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        self.hook.around(|| self.inner.write(offset, data))
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        self.hook.around(|| self.inner.set_len(len))
    }

    fn sync(&self) -> Result<(), MediaError> {
        self.hook.around(|| self.inner.sync())
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        self.inner.reserve(offset, len)
    }
}
