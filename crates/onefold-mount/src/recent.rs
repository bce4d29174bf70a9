//! Files that were read lately, for a kernel that says which file to read and not which open one.
//! Room: onefold-mount.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// How many are kept. Each knows its path and where its blocks begin.
const FILES: usize = 64;

/// Files by their number; the first that came is the first that goes.
pub struct Recent<F>(Mutex<Kept<F>>);

struct Kept<F> {
    files: HashMap<u64, Arc<F>>,
    order: VecDeque<u64>,
}

impl<F> Default for Recent<F> {
    fn default() -> Self {
        Self(Mutex::new(Kept { files: HashMap::new(), order: VecDeque::new() }))
    }
}

impl<F> Recent<F> {
    /// The file of a number, opened if it was not lately.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn file<E>(&self, number: u64, open: impl FnOnce() -> Result<F, E>) -> Result<Arc<F>, E> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = kept().files.get(&number) {
            return Ok(Arc::clone(file));
        }
        // Without the lock: others read meanwhile.
        let file = Arc::new(open()?);
        let mut kept = kept();
        if kept.files.insert(number, Arc::clone(&file)).is_none() {
            kept.order.push_back(number);
            if kept.order.len() > FILES
                && let Some(first) = kept.order.pop_front()
            {
                kept.files.remove(&first);
            }
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_file_and_no_more_than_some_are_kept() {
        let recent = Recent::<u64>::default();
        let mut opened = Vec::new();
        for number in (0..200).flat_map(|number| [number, number, number / 2]) {
            let file = recent.file(number, || {
                opened.push(number);
                Ok::<_, ()>(number)
            });
            assert_eq!(file.as_deref(), Ok(&number));
            let kept = recent.0.lock().unwrap();
            assert!(kept.files.len() <= FILES && kept.order.len() == kept.files.len());
        }
        assert_eq!(recent.0.lock().unwrap().files.len(), FILES);
        // What was read just now is not opened again, and what is long ago is.
        assert!((200..400).contains(&opened.len()), "{}", opened.len());
        assert_eq!(recent.file(7, || Err("gone")).unwrap_err(), "gone");
        assert_eq!(recent.file(7, || Ok::<_, ()>(7)).as_deref(), Ok(&7), "an error is not kept");
    }
}
