//! A store before whose answers something happens.

use std::ops::Range;
use std::sync::Arc;

use onefold_objects::SimObjects;
use onefold_objects::objects::{Expect, Listed, ObjectError, Objects, Tail};

/// A request that changes nothing.
#[derive(Clone, Copy, Debug)]
pub enum Look<'a> {
    Tail,
    /// Of the object of this name.
    Get(&'a str),
    List,
}

type Before = dyn Fn(&SimObjects, Look<'_>) + Send + Sync;

/// A store that does something before each look at it. Changes go straight to it: whoever makes one
/// has looked at the lock before.
pub struct Preceded {
    store: SimObjects,
    before: Box<Before>,
}

impl Preceded {
    pub fn new(
        store: &SimObjects,
        before: impl Fn(&SimObjects, Look<'_>) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { store: store.clone(), before: Box::new(before) })
    }

    fn look(&self, look: Look<'_>) -> &SimObjects {
        (self.before)(&self.store, look);
        &self.store
    }
}

impl Objects for Preceded {
    fn tail(&self, name: &str, at_most: u64) -> Result<Tail, ObjectError> {
        self.look(Look::Tail).tail(name, at_most)
    }

    fn get(&self, name: &str, range: Range<u64>, tag: &str) -> Result<Vec<u8>, ObjectError> {
        self.look(Look::Get(name)).get(name, range, tag)
    }

    fn put(&self, name: &str, bytes: &[u8], expect: &Expect) -> Result<String, ObjectError> {
        self.store.put(name, bytes, expect)
    }

    fn begin(&self, name: &str) -> Result<String, ObjectError> {
        self.store.begin(name)
    }

    fn part(&self, name: &str, id: &str, n: usize, bytes: &[u8]) -> Result<String, ObjectError> {
        self.store.part(name, id, n, bytes)
    }

    fn complete(&self, name: &str, id: &str, tags: &[String]) -> Result<String, ObjectError> {
        self.store.complete(name, id, tags)
    }

    fn abort(&self, name: &str, id: &str) -> Result<(), ObjectError> {
        self.store.abort(name, id)
    }

    fn remove(&self, name: &str) -> Result<(), ObjectError> {
        self.store.remove(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<Listed>, ObjectError> {
        self.look(Look::List).list(folder)
    }

    fn address(&self, name: &str) -> String {
        self.store.address(name)
    }
}
