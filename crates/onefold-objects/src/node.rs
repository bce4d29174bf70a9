//! A file: in memory while it is written, in the store once it was put.
//! Room: onefold-objects.
//! A new file that becomes long is sent in parts while it is written, and in memory are its last
//! ones only, one of them whole at least. Of what was sent before, nothing can be read, changed or
//! renamed until all of it has its name: an error says so. Whoever writes a long file writes it
//! from front to back.
//! Invariants: (1) bytes that are not in the store are in memory, or in parts of an upload that
//! nobody but their file knows, whoever drops their handle, as long as a folder of the place is
//! open; (2) a put replaces what this folder knows of, and nothing that somebody else has put
//! since; (3) nothing is under a name before all of it is there, and an upload that does not come
//! to that is given up with its file.
//! Locks: names before a node, a node before what is known; never the other way.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use onefold_block::MediaError;

use crate::blocks::{Blocks, Piece};
use crate::lease::Lease;
use crate::objects::{Expect, ObjectError, Objects, Stored};
use crate::upload::{PARTS_MAX, Sender, Upload};

/// Bytes at the end of a file that are read with its length.
pub const TAIL_BYTES: u64 = 64 << 10;
/// Bytes that are read at least, where the file has them.
const BLOCK_BYTES: u64 = 16 << 10;
/// The same where the last read ended.
pub const AHEAD_BYTES: u64 = 128 << 10;
/// Bytes of a file that stay in memory after it was put: a log is written again and again.
const STAY_BYTES: usize = 256 << 10;
/// Most bytes of a file in memory: those of one that is written again in its place.
pub const MEMORY_BYTES_MAX: u64 = 4 << 30;
/// Bytes of a request where a whole file is read.
const READ_BYTES: u64 = 8 << 20;

/// What all files and folders of a place share.
pub struct Shared {
    pub objects: Arc<dyn Objects>,
    pub guard: Option<Arc<Lease>>,
    pub blocks: Blocks,
    pub names: Mutex<Names>,
    /// Bytes of each part of a file that is sent in parts.
    pub part_bytes: usize,
    known: Mutex<Known>,
    next_id: AtomicU64,
}

/// What is open, or not in the store yet, by name with folders.
#[derive(Default)]
pub struct Names {
    pub nodes: HashMap<String, Held>,
    /// Folders that are there.
    pub folders: HashSet<String>,
    /// Names whose objects go when those of their folder are made durable.
    pub doomed: BTreeSet<String>,
}

/// A file that somebody has open, or that has to be put.
pub enum Held {
    Kept(Arc<Node>),
    Open(Weak<Node>),
}

impl Held {
    pub fn node(&self) -> Option<Arc<Node>> {
        match self {
            Self::Kept(node) => Some(Arc::clone(node)),
            Self::Open(node) => node.upgrade(),
        }
    }
}

/// The objects of each folder that was listed, with their names in it, as far as is known.
type Known = HashMap<String, BTreeMap<String, Stored>>;

/// Folder and name of a file.
pub fn split(name: &str) -> (&str, &str) {
    name.split_at(name.rfind('/').map_or(0, |slash| slash + 1))
}

impl Shared {
    pub fn new(objects: Arc<dyn Objects>, guard: Option<Arc<Lease>>, part_bytes: usize) -> Self {
        Self {
            objects,
            guard,
            blocks: Blocks::default(),
            names: Mutex::default(),
            part_bytes,
            known: Mutex::default(),
            next_id: AtomicU64::new(0),
        }
    }

    pub fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error about a file.
    pub fn error(&self, error: ObjectError, action: &'static str, name: &str) -> MediaError {
        error.of(action, self.objects.address(name))
    }

    /// Refuse to change anything once others may have been let in.
    pub fn may_change(&self, action: &'static str, name: &str) -> Result<(), MediaError> {
        let held = self.guard.as_ref().map_or(Ok(()), |lease| lease.must_hold());
        held.map_err(|error| self.error(error, action, name))
    }

    /// The objects in a folder, by a listing that is made now.
    pub fn list(&self, folder: &str) -> Result<Vec<String>, MediaError> {
        // Held meanwhile: what is put beside it is entered after it.
        let mut known = self.known();
        let listed = self.objects.list(folder).map_err(|e| self.error(e, "list", folder))?;
        let files: BTreeMap<_, _> =
            listed.into_iter().map(|listed| (listed.name, listed.stored)).collect();
        let names = files.keys().cloned().collect();
        // In the place itself lies what is written again: there, the first look is what later
        // writes are based on, and what others have put since is not replaced.
        if !(folder.is_empty() && known.contains_key(folder)) {
            known.insert(folder.to_owned(), files);
        }
        Ok(names)
    }

    /// What is known of the object of that name; the folder is listed if it was not yet.
    pub fn known_object(&self, name: &str) -> Result<Option<Stored>, MediaError> {
        let (folder, file) = split(name);
        if let Some(files) = self.known().get(folder) {
            return Ok(files.get(file).cloned());
        }
        self.list(folder)?;
        Ok(self.known().get(folder).and_then(|files| files.get(file).cloned()))
    }

    /// What a name holds from now on.
    pub fn learn(&self, name: &str, stored: Option<Stored>) {
        let (folder, file) = split(name);
        if let Some(files) = self.known().get_mut(folder) {
            match stored {
                Some(stored) => files.insert(file.to_owned(), stored),
                None => files.remove(file),
            };
        }
    }

    /// Remove the object of a name.
    pub fn remove(&self, name: &str) -> Result<(), MediaError> {
        self.may_change("remove", name)?;
        self.objects.remove(name).map_err(|e| self.error(e, "remove", name))?;
        self.learn(name, None);
        Ok(())
    }

    /// Put an object in the place of what is known under its name. A refusal may be the answer to
    /// the client's own repetition of a request whose first answer was lost: then what is there is
    /// what was to be put.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<Stored, MediaError> {
        if bytes.len() > self.part_bytes / 4 * 5 {
            let before = self.known_object(name)?;
            let put = self.sender().put(name, bytes, before.as_ref());
            return self.done(name, put);
        }
        let expect = match self.known_object(name)? {
            None => Expect::Nothing,
            Some(Stored { tag, .. }) if tag.is_empty() => Expect::Anything,
            Some(Stored { tag, .. }) => Expect::Tag(tag),
        };
        self.may_change("write", name)?;
        let len = bytes.len() as u64;
        let failed = |error| self.error(error, "write", name);
        let stored = match self.objects.put(name, bytes, &expect) {
            Ok(tag) => Stored { bytes: len, tag },
            Err(ObjectError::Conflict) => {
                let found = self.objects.tail(name, len.max(1)).map_err(|error| match error {
                    ObjectError::NotFound => failed(ObjectError::Conflict),
                    error => failed(error),
                })?;
                if found.stored.bytes != len || found.bytes != bytes {
                    return Err(failed(ObjectError::Conflict));
                }
                found.stored
            }
            Err(error) => return Err(failed(error)),
        };
        self.learn(name, Some(stored.clone()));
        Ok(stored)
    }

    fn sender(&self) -> Sender<'_> {
        let (objects, guard) = (&*self.objects, self.guard.as_deref());
        Sender { objects, guard, part_bytes: self.part_bytes }
    }

    /// What came of putting a file in parts.
    fn done(&self, name: &str, put: Result<Stored, ObjectError>) -> Result<Stored, MediaError> {
        let stored = put.map_err(|error| self.error(error, "write", name))?;
        self.learn(name, Some(stored.clone()));
        Ok(stored)
    }

    /// Keep a file as long as it has to be put, and no longer than it is open otherwise.
    pub fn settle(&self, node: &Arc<Node>) {
        let mut names = self.names();
        let state = node.state();
        let Some(name) = &state.name else { return };
        let held = if state.must_be_put() {
            Held::Kept(Arc::clone(node))
        } else {
            Held::Open(Arc::downgrade(node))
        };
        names.nodes.insert(name.clone(), held);
    }
}

/// A file.
pub struct Node {
    pub id: u64,
    pub shared: Arc<Shared>,
    state: Mutex<State>,
}

/// What is to be done with it.
pub struct State {
    /// Its name with its folders; none once it was removed or replaced.
    pub name: Option<String>,
    /// The name that it had last.
    pub last_name: String,
    pub content: Content,
    /// It was changed since it was put.
    pub is_changed: bool,
    /// Its name is made durable with those of its folder.
    pub is_unnamed: bool,
    /// Where what was fetched last ends.
    fetched_to: u64,
}

/// Where its bytes are.
pub enum Content {
    Here(Vec<u8>),
    /// Parts of a new file, and what comes behind them.
    Sending(Upload, Vec<u8>),
    InStore(Stored),
}

impl State {
    pub const fn must_be_put(&self) -> bool {
        self.is_changed || self.is_unnamed
    }

    /// Whether it may be sent before it is to be durable: nothing has to be there at once then.
    const fn is_sent_early(&self) -> bool {
        self.name.is_some() && self.is_unnamed
    }

    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        match &self.content {
            Content::Here(bytes) => bytes.len() as u64,
            Content::Sending(upload, rest) => upload.bytes() + rest.len() as u64,
            Content::InStore(stored) => stored.bytes,
        }
    }
}

impl Node {
    fn with(shared: &Arc<Shared>, name: &str, content: Content, is_unnamed: bool) -> Arc<Self> {
        let (name, last_name) = (Some(name.to_owned()), name.to_owned());
        let is_changed = false;
        let state = State { name, last_name, content, is_changed, is_unnamed, fetched_to: 0 };
        let id = shared.next_id.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { id, shared: Arc::clone(shared), state: Mutex::new(state) })
    }

    /// A new file, which is in the store once the names of its folder are durable.
    pub fn create(shared: &Arc<Shared>, name: &str) -> Arc<Self> {
        Self::with(shared, name, Content::Here(Vec::new()), true)
    }

    /// One that is in the store.
    pub fn stored(shared: &Arc<Shared>, name: &str, stored: Stored) -> Arc<Self> {
        Self::with(shared, name, Content::InStore(stored), false)
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn address(&self, state: &State) -> String {
        self.shared.objects.address(&state.last_name)
    }

    fn refuse(&self, state: &State, action: &'static str, why: io::Error) -> MediaError {
        MediaError::Io { action, name: self.address(state), source: why }
    }

    pub fn too_large(&self, state: &State, action: &'static str, most: u64) -> MediaError {
        let why = format!("it can have {most} bytes at most");
        self.refuse(state, action, io::Error::new(io::ErrorKind::FileTooLarge, why))
    }

    /// The error of whoever needs what was sent already.
    pub fn is_sent(&self, state: &State, action: &'static str) -> MediaError {
        self.refuse(state, action, io::Error::other("it was sent, and is not complete yet"))
    }

    /// Bytes of the object as it was found; all of them, or an error.
    fn fetch(&self, name: &str, stored: &Stored, offset: u64, len: u64) -> Fetched<Vec<u8>> {
        let bytes = self.shared.objects.get(name, offset..offset + len, &stored.tag)?;
        if bytes.len() as u64 != len {
            let found = bytes.len();
            return Err(ObjectError::Failed(format!("{found} bytes came instead of {len}")));
        }
        Ok(bytes)
    }

    /// Have all of it in memory.
    pub fn bring_here(&self, state: &mut State) -> Result<(), MediaError> {
        let stored = match &state.content {
            Content::Here(_) => return Ok(()),
            Content::Sending(..) => return Err(self.is_sent(state, "read")),
            Content::InStore(stored) => stored,
        };
        if stored.bytes > MEMORY_BYTES_MAX {
            return Err(self.too_large(state, "write", MEMORY_BYTES_MAX));
        }
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < stored.bytes {
            let at = bytes.len() as u64;
            let len = (stored.bytes - at).min(READ_BYTES);
            let part = self.fetch(&state.last_name, stored, at, len);
            bytes.extend(part.map_err(|e| self.shared.error(e, "read", &state.last_name))?);
        }
        state.content = Content::Here(bytes);
        Ok(())
    }

    /// Put it, if there is anything to put.
    pub fn put(&self, state: &mut State) -> Result<(), MediaError> {
        // What has no name is in nobody's way.
        let Some(name) = &state.name else { return Ok(()) };
        let (stored, stays) = match &state.content {
            Content::InStore(_) => return Ok(()),
            Content::Here(bytes) => (self.shared.put(name, bytes)?, bytes.len() <= STAY_BYTES),
            Content::Sending(upload, rest) => {
                let before = self.shared.known_object(name)?;
                let put = self.shared.sender().finish(name, upload, rest, before.as_ref());
                (self.shared.done(name, put)?, false)
            }
        };
        (state.is_changed, state.is_unnamed) = (false, false);
        if !stays {
            state.content = Content::InStore(stored);
        }
        Ok(())
    }

    /// Bytes that a file may have: one that is new and has a name is sent while it is written.
    pub fn most_bytes(&self, state: &State) -> u64 {
        let sent = (self.shared.part_bytes * PARTS_MAX) as u64;
        if state.is_sent_early() { sent } else { MEMORY_BYTES_MAX }
    }

    /// Send what need not be in memory of a new file: all but its last whole part.
    pub fn send(&self, state: &mut State) -> Result<(), MediaError> {
        let (shared, part) = (&self.shared, self.shared.part_bytes);
        let Some(name) = state.name.clone().filter(|_| state.is_sent_early()) else {
            return Ok(());
        };
        let failed = |error| shared.error(error, "write", &name);
        if let Content::Here(bytes) = &mut state.content {
            if bytes.len() < 2 * part {
                return Ok(());
            }
            let upload = shared.sender().begin(&name).map_err(failed)?;
            state.content = Content::Sending(upload, std::mem::take(bytes));
        }
        let Content::Sending(upload, rest) = &mut state.content else { return Ok(()) };
        let (mut sent, mut outcome) = (0, Ok(()));
        while outcome.is_ok() && rest.len() - sent >= 2 * part {
            let part_now = &rest[sent..sent + part];
            outcome = shared.sender().send(&name, upload, part_now).map_err(failed);
            sent += if outcome.is_ok() { part } else { 0 };
        }
        rest.drain(..sent);
        outcome
    }

    /// Give it another name, under which it is not in the store yet.
    pub fn rename(&self, state: &mut State, to: &str) -> Result<(), MediaError> {
        self.bring_here(state)?;
        (state.name, state.last_name) = (Some(to.to_owned()), to.to_owned());
        state.is_unnamed = true;
        Ok(())
    }

    /// Bytes from the store, with some around them that are likely to be read next: at the end of
    /// a file its table, elsewhere what follows. Once more if the object was replaced since it was
    /// looked at.
    pub fn read_stored(&self, mut stored: Stored, offset: u64, wanted: u64) -> Fetched<Piece> {
        let (name, fetched_to) = {
            let state = self.state();
            (state.last_name.clone(), state.fetched_to)
        };
        let goes_on = (fetched_to.saturating_sub(BLOCK_BYTES)..=fetched_to).contains(&offset);
        let least = if goes_on { AHEAD_BYTES } else { BLOCK_BYTES };
        for is_again in [false, true] {
            let end = offset.saturating_add(wanted.max(least)).min(stored.bytes);
            let tail_at = stored.bytes.saturating_sub(TAIL_BYTES);
            let start = if end == stored.bytes { offset.min(tail_at) } else { offset };
            match self.fetch(&name, &stored, start, end.saturating_sub(start)) {
                Ok(bytes) => {
                    self.state().fetched_to = end;
                    return Ok((start, Arc::new(bytes)));
                }
                Err(ObjectError::Conflict) if !is_again => {
                    stored = self.shared.objects.tail(&name, 1)?.stored;
                    self.shared.blocks.forget(self.id);
                    let mut state = self.state();
                    if let Content::InStore(known) = &mut state.content {
                        *known = stored.clone();
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(ObjectError::Conflict)
    }

    pub fn truncated(&self, state: &State, offset: u64, wanted: u64) -> MediaError {
        let (name, len) = (self.address(state), state.len());
        MediaError::Truncated { name, len, offset, end: offset.saturating_add(wanted) }
    }
}

/// What came from the store.
pub type Fetched<T> = Result<T, ObjectError>;

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.blocks.forget(self.id);
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Content::Sending(upload, _) = &state.content {
            self.shared.sender().give_up(&state.last_name, upload);
        }
    }
}
