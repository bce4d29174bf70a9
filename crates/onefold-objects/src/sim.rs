//! An object store in memory that loses requests, answers and objects on command, the same way
//! every time.
//! Room: onefold-objects.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::objects::{Expect, Listed, ObjectError, Objects, Stored, Tail};

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The client dies before its request is out.
    DiesBefore,
    /// The client dies after its request had its effect.
    DiesAfter,
    /// The request is lost; the client goes on.
    RequestLost,
    /// The request has its effect, but its answer is lost; the client goes on.
    AnswerLost,
    /// The answer is lost, and the client's own repetition is what is answered.
    Repeated,
}

/// A store. Clones are the same store.
#[derive(Clone, Debug, Default)]
pub struct SimObjects {
    world: Arc<Mutex<World>>,
}

#[derive(Clone, Debug, Default)]
struct World {
    objects: BTreeMap<String, Object>,
    /// Requests so far.
    requests: u64,
    /// What each was, for the message of a failing test and to count by kind.
    log: Vec<String>,
    /// What was sent in parts and is no object yet: by what names the upload, the name that it is
    /// for, and its parts by number.
    uploads: BTreeMap<String, (String, BTreeMap<usize, Vec<u8>>)>,
    puts: u64,
    loss: Option<(u64, Loss)>,
    dead: bool,
    now_s: i64,
    read_only: bool,
}

#[derive(Clone, Debug)]
struct Object {
    bytes: Vec<u8>,
    tag: String,
    modified_s: i64,
}

impl Object {
    fn stored(&self) -> Stored {
        Stored { bytes: self.bytes.len() as u64, tag: self.tag.clone() }
    }
}

impl World {
    fn put(&mut self, name: &str, bytes: Vec<u8>) -> String {
        self.puts += 1;
        let tag = format!("tag-{}", self.puts);
        let object = Object { bytes, tag: tag.clone(), modified_s: self.now_s };
        self.objects.insert(name.to_owned(), object);
        tag
    }

    /// The parts of an upload.
    fn upload(
        &mut self,
        name: &str,
        upload: &str,
    ) -> Result<&mut BTreeMap<usize, Vec<u8>>, ObjectError> {
        match self.uploads.get_mut(upload) {
            Some((of, parts)) if of == name => Ok(parts),
            _ => Err(ObjectError::Failed("there is no such upload".to_owned())),
        }
    }
}

impl SimObjects {
    /// An empty store without faults, at the beginning of time.
    pub fn new() -> Self {
        Self::default()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Let something go wrong with request number `request` (the first ever is 1).
    pub fn lose(&self, request: u64, loss: Loss) {
        self.world().loss = Some((request, loss));
    }

    /// Whether a request was lost as planned.
    pub fn has_lost(&self) -> bool {
        let world = self.world();
        world.loss.is_some_and(|(request, _)| world.requests >= request)
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.world().requests
    }

    /// The requests so far, as `put log.0` and the like.
    pub fn log(&self) -> Vec<String> {
        self.world().log.clone()
    }

    /// The same objects in a store of their own, for another client: no faults, nothing counted.
    #[must_use]
    pub fn after_crash(&self) -> Self {
        let World { objects, uploads, puts, now_s, .. } = self.world().clone();
        let world = World { objects, uploads, puts, now_s, ..World::default() };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// Let time pass.
    pub fn pass_s(&self, seconds: i64) {
        self.world().now_s += seconds;
    }

    /// Refuse whatever would change anything.
    pub fn set_read_only(&self) {
        self.world().read_only = true;
    }

    /// The names and bytes of all objects.
    pub fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let world = self.world();
        world.objects.iter().map(|(name, object)| (name.clone(), object.bytes.clone())).collect()
    }

    /// The names for which something was sent in parts that was neither completed nor given up.
    pub fn unfinished(&self) -> Vec<String> {
        self.world().uploads.values().map(|(name, _)| name.clone()).collect()
    }

    /// Change the bytes of an object behind everybody's back, or take it away.
    pub fn damage(&self, name: &str, change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) {
        let mut world = self.world();
        let object = world.objects.remove(name);
        let mut object = object.unwrap_or_else(|| panic!("there is no object {name}"));
        if let Some(bytes) = change(std::mem::take(&mut object.bytes)) {
            world.puts += 1;
            let tag = format!("tag-{}", world.puts);
            world.objects.insert(name.to_owned(), Object { bytes, tag, ..object });
        }
    }

    /// Count a request, and let it happen as far as it is planned to.
    fn request<T>(
        &self,
        what: String,
        changes: bool,
        mut act: impl FnMut(&mut World) -> Result<T, ObjectError>,
    ) -> Result<T, ObjectError> {
        let mut world = self.world();
        let failed = |text: &str| ObjectError::Failed(text.to_owned());
        if world.dead {
            return Err(failed("the client is dead"));
        }
        world.requests += 1;
        world.log.push(what);
        let loss = world.loss.filter(|(request, _)| *request == world.requests);
        if changes && world.read_only {
            return Err(ObjectError::Refused("access denied".to_owned()));
        }
        match loss.map(|(_, loss)| loss) {
            None => act(&mut world),
            Some(Loss::RequestLost) => Err(failed("the request was lost")),
            Some(Loss::AnswerLost) => {
                let _ = act(&mut world);
                Err(failed("the answer was lost"))
            }
            Some(Loss::Repeated) => {
                let _ = act(&mut world);
                act(&mut world)
            }
            Some(loss) => {
                if loss == Loss::DiesAfter {
                    let _ = act(&mut world);
                }
                world.dead = true;
                Err(failed("the client died"))
            }
        }
    }
}

impl Objects for SimObjects {
    fn tail(&self, name: &str, at_most: u64) -> Result<Tail, ObjectError> {
        self.request(format!("tail {name}"), false, |world| {
            let object = world.objects.get(name).ok_or(ObjectError::NotFound)?;
            let skipped = object.bytes.len().saturating_sub(at_most as usize);
            Ok(Tail { stored: object.stored(), bytes: object.bytes[skipped..].to_vec() })
        })
    }

    fn get(&self, name: &str, range: Range<u64>, tag: &str) -> Result<Vec<u8>, ObjectError> {
        self.request(format!("get {name}"), false, |world| {
            let object = world.objects.get(name).ok_or(ObjectError::NotFound)?;
            if object.tag != tag {
                return Err(ObjectError::Conflict);
            }
            let end = object.bytes.len().min(range.end as usize);
            Ok(object.bytes.get(range.start as usize..end).unwrap_or_default().to_vec())
        })
    }

    fn put(&self, name: &str, bytes: &[u8], expect: &Expect) -> Result<String, ObjectError> {
        self.request(format!("put {name}"), true, |world| {
            let found = world.objects.get(name);
            let is_expected = match expect {
                Expect::Anything => true,
                Expect::Nothing => found.is_none(),
                Expect::Tag(tag) => found.is_some_and(|found| found.tag == *tag),
            };
            if !is_expected {
                return Err(ObjectError::Conflict);
            }
            Ok(world.put(name, bytes.to_vec()))
        })
    }

    fn begin(&self, name: &str) -> Result<String, ObjectError> {
        self.request(format!("begin {name}"), true, |world| {
            world.puts += 1;
            let id = format!("upload-{}", world.puts);
            world.uploads.insert(id.clone(), (name.to_owned(), BTreeMap::new()));
            Ok(id)
        })
    }

    fn part(
        &self,
        name: &str,
        upload: &str,
        number: usize,
        bytes: &[u8],
    ) -> Result<String, ObjectError> {
        self.request(format!("part {name} {number}"), true, |world| {
            world.upload(name, upload)?.insert(number, bytes.to_vec());
            Ok(format!("part-{number}-{}", bytes.len()))
        })
    }

    fn complete(&self, name: &str, upload: &str, tags: &[String]) -> Result<String, ObjectError> {
        self.request(format!("complete {name}"), true, |world| {
            let parts = world.upload(name, upload)?;
            let sent = parts.iter().map(|(number, bytes)| format!("part-{number}-{}", bytes.len()));
            if !sent.eq(tags.iter().cloned()) {
                return Err(ObjectError::Failed("these are not its parts".to_owned()));
            }
            let bytes = std::mem::take(parts).into_values().flatten().collect();
            world.uploads.remove(upload);
            Ok(world.put(name, bytes))
        })
    }

    fn abort(&self, name: &str, upload: &str) -> Result<(), ObjectError> {
        self.request(format!("abort {name}"), true, |world| {
            world.upload(name, upload)?;
            world.uploads.remove(upload);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> Result<(), ObjectError> {
        self.request(format!("remove {name}"), true, |world| {
            world.objects.remove(name);
            Ok(())
        })
    }

    fn list(&self, folder: &str) -> Result<Vec<Listed>, ObjectError> {
        self.request(format!("list {folder}"), false, |world| {
            let inside = world.objects.iter().filter_map(|(name, object)| {
                let name = name.strip_prefix(folder).filter(|name| !name.contains('/'))?;
                let (stored, modified_s) = (object.stored(), object.modified_s);
                Some(Listed { name: name.to_owned(), stored, modified_s })
            });
            // A store may list in any order.
            Ok(inside.rev().collect())
        })
    }

    fn address(&self, name: &str) -> String {
        format!("sim:{name}")
    }
}
