//! A store before whose answers something happens, or to whose answers.

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
type OnTheWay = dyn Fn(&str, &mut Vec<u8>) + Send + Sync;

/// A store that does something before each look at it, and to what it then says of an object of
/// that name. Changes go straight to it: whoever makes one has looked at the lock before.
pub struct Preceded {
    store: SimObjects,
    before: Box<Before>,
    on_the_way: Box<OnTheWay>,
}

impl Preceded {
    pub fn new(
        store: &SimObjects,
        before: impl Fn(&SimObjects, Look<'_>) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let on_the_way = Box::new(|_: &str, _: &mut Vec<u8>| ());
        Arc::new(Self { store: store.clone(), before: Box::new(before), on_the_way })
    }

    /// One of which what is read may be another by the time that it comes.
    pub fn damaged_on_the_way(
        store: &SimObjects,
        on_the_way: impl Fn(&str, &mut Vec<u8>) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let before = Box::new(|_: &SimObjects, _: Look<'_>| ());
        Arc::new(Self { store: store.clone(), before, on_the_way: Box::new(on_the_way) })
    }

    fn look(&self, look: Look<'_>) -> &SimObjects {
        (self.before)(&self.store, look);
        &self.store
    }
}

impl Objects for Preceded {
    fn tail(&self, name: &str, at_most: u64) -> Result<Tail, ObjectError> {
        let mut tail = self.look(Look::Tail).tail(name, at_most)?;
        (self.on_the_way)(name, &mut tail.bytes);
        Ok(tail)
    }

    fn get(&self, name: &str, range: Range<u64>, tag: &str) -> Result<Vec<u8>, ObjectError> {
        let mut bytes = self.look(Look::Get(name)).get(name, range, tag)?;
        (self.on_the_way)(name, &mut bytes);
        Ok(bytes)
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
