//! What several experiments run alike, once for all that are run with the same options.
//! Room: onefold-lab.   In: [`crate::Settings::once`].
//! Invariants: (1) what is kept goes by a name, the size and every parameter with its value, so
//! that no result depends on what was run before  (2) an error is not kept: it names the
//! experiment that met it.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Result;

/// Results by what they are results of. A copy refers to the same ones.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    slots: Arc<Mutex<BTreeMap<String, Slot>>>,
}

/// Locked while it is filled: who wants the same meanwhile waits for it.
type Slot = Arc<Mutex<Option<Arc<dyn Any + Send + Sync>>>>;

impl Shared {
    /// What is kept under this key, or else what `run` returns, which is kept from now on.
    pub(crate) fn once<T: Send + Sync + 'static>(
        &self,
        key: String,
        run: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        let slot = Slot::clone(locked(&self.slots).entry(key).or_default());
        let mut kept = locked(&slot);
        if let Some(found) = kept.clone().and_then(|found| found.downcast().ok()) {
            return Ok(found);
        }
        let made = Arc::new(run()?);
        *kept = Some(Arc::<T>::clone(&made));
        Ok(made)
    }
}

/// A run that panicked has left nothing behind.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
