//! A folder whose files are objects of the same names, with the same bytes.
//! Room: onefold-objects.
//! A file that is new, or has another name, is put when the names of its folder are made durable; a
//! change of one that is there when it is synced. An object that marks a folder keeps an empty one
//! from vanishing; it is not listed.
//! What was removed, or replaced under its name, cannot be read any more but for what of it is in
//! memory: whoever removes has the place alone ([`crate::lease`]).

use std::sync::Arc;

use onefold_block::{FOLDER_MARK, Folder, Media, MediaError, check_file_name};

use crate::lease::Lease;
use crate::media::ObjectMedia;
use crate::node::{Held, Node, Shared, TAIL_BYTES, split};
use crate::objects::Objects;
use crate::upload::PART_BYTES;

/// A folder in an object store.
pub struct ObjectFolder {
    shared: Arc<Shared>,
    last: Arc<Last>,
    /// Its path, empty or with a `/` at its end.
    path: String,
    reads_at_once: usize,
}

/// Goes with the last folder of a place. What was never put is forgotten then: files and what they
/// share, the lock with it, would keep each other for ever.
struct Last(Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        let nodes = std::mem::take(&mut self.0.names().nodes);
        drop(nodes);
    }
}

impl ObjectFolder {
    /// The folder of all of a place. Nothing is changed once `guard` has run out.
    pub fn new(objects: Arc<dyn Objects>, guard: Option<Arc<Lease>>) -> Self {
        Self::in_parts(objects, guard, PART_BYTES)
    }

    /// The same, where files are sent in parts of so many bytes: those that are longer than two of
    /// them while they are written. Stores have a smallest size of parts (S3: 5 MiB).
    pub fn in_parts(
        objects: Arc<dyn Objects>,
        guard: Option<Arc<Lease>>,
        part_bytes: usize,
    ) -> Self {
        let shared = Arc::new(Shared::new(objects, guard, part_bytes));
        let last = Arc::new(Last(Arc::clone(&shared)));
        Self { shared, last, path: String::new(), reads_at_once: 1 }
    }

    /// The same, that says that so many reads at once are worth it.
    #[must_use]
    pub fn with_reads_at_once(self, reads_at_once: usize) -> Self {
        Self { reads_at_once, ..self }
    }

    fn full(&self, action: &'static str, name: &str) -> Result<String, MediaError> {
        let full = format!("{}{name}", self.path);
        match check_file_name(name) {
            Ok(()) => Ok(full),
            Err(source) => {
                Err(MediaError::Io { action, name: self.shared.objects.address(&full), source })
            }
        }
    }

    fn not_found(&self, full: &str) -> MediaError {
        MediaError::NotFound { name: self.shared.objects.address(full) }
    }

    fn at(&self, path: String) -> Arc<dyn Folder> {
        let (shared, last) = (Arc::clone(&self.shared), Arc::clone(&self.last));
        Arc::new(Self { shared, last, path, reads_at_once: self.reads_at_once })
    }

    /// The file of that name.
    fn node(&self, full: &str) -> Result<Arc<Node>, MediaError> {
        {
            let names = self.shared.names();
            if names.doomed.contains(full) {
                return Err(self.not_found(full));
            }
            if let Some(node) = names.nodes.get(full).and_then(Held::node) {
                return Ok(node);
            }
        }
        // What a name of the place itself held when it was first looked at is what may be replaced.
        let known = self.shared.known_object(full)?;
        // What lies in inner folders is written once: what a listing said of it still holds.
        let known = known.filter(|_| !self.path.is_empty());
        let (stored, tail) = if let Some(stored) = known {
            (stored, None)
        } else {
            let tail = self.shared.objects.tail(full, TAIL_BYTES);
            let tail = tail.map_err(|e| self.shared.error(e, "open", full))?;
            (tail.stored, Some(tail.bytes))
        };
        let mut names = self.shared.names();
        // Somebody may have been faster.
        if let Some(node) = names.nodes.get(full).and_then(Held::node) {
            return Ok(node);
        }
        let node = Node::stored(&self.shared, full, stored.clone());
        if let Some(bytes) = tail {
            let start = stored.bytes - bytes.len() as u64;
            self.shared.blocks.keep(node.id, true, (start, Arc::new(bytes)));
        }
        names.nodes.insert(full.to_owned(), Held::Open(Arc::downgrade(&node)));
        Ok(node)
    }

    fn is_folder(&self, full: &str) -> bool {
        self.shared.names().folders.contains(&format!("{full}/"))
    }
}

impl Folder for ObjectFolder {
    fn open(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        let full = self.full("open", name)?;
        Ok(Arc::new(ObjectMedia(self.node(&full)?)))
    }

    fn create(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        let full = self.full("create", name)?;
        // What is there is replaced, and nothing else: so it must be known.
        self.shared.known_object(&full)?;
        let node = Node::create(&self.shared, &full);
        let mut names = self.shared.names();
        names.doomed.remove(&full);
        let old = names.nodes.insert(full, Held::Kept(Arc::clone(&node)));
        // The old one may have to be given up, which takes a request.
        drop(names);
        if let Some(old) = old.as_ref().and_then(Held::node) {
            old.state().name = None;
        }
        Ok(Arc::new(ObjectMedia(node)))
    }

    fn remove(&self, name: &str) -> Result<(), MediaError> {
        let full = self.full("remove", name)?;
        let known = self.shared.known_object(&full)?;
        let node = {
            let mut names = self.shared.names();
            if names.doomed.contains(&full) {
                return Err(self.not_found(&full));
            }
            names.nodes.remove(&full).as_ref().and_then(Held::node)
        };
        if let Some(node) = &node {
            node.state().name = None;
        } else if known.is_none() {
            return Err(self.not_found(&full));
        }
        if known.is_some() { self.shared.remove(&full) } else { Ok(()) }
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        let (from, to) = (self.full("rename", from)?, self.full("rename", to)?);
        let node = self.node(&from)?;
        if from == to {
            return Ok(());
        }
        if self.is_folder(&to) {
            let source = std::io::ErrorKind::IsADirectory.into();
            let name = self.shared.objects.address(&to);
            return Err(MediaError::Io { action: "rename to", name, source });
        }
        // What is there is replaced, and nothing else: so the folder must be known.
        let has_object = self.shared.known_object(&from)?.is_some();
        let mut names = self.shared.names();
        node.rename(&mut node.state(), &to)?;
        names.nodes.remove(&from);
        names.doomed.remove(&to);
        if has_object {
            names.doomed.insert(from);
        }
        let old = names.nodes.insert(to, Held::Kept(node));
        drop(names);
        if let Some(old) = old.as_ref().and_then(Held::node) {
            old.state().name = None;
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>, MediaError> {
        let mut found = self.shared.list(&self.path)?;
        let mut names = self.shared.names();
        names.nodes.retain(|_, held| held.node().is_some());
        found.retain(|name| {
            name != FOLDER_MARK && !names.doomed.contains(&format!("{}{name}", self.path))
        });
        for (full, held) in &names.nodes {
            let (folder, name) = split(full);
            if folder == self.path && held.node().is_some_and(|node| node.state().is_unnamed) {
                found.push(name.to_owned());
            }
        }
        drop(names);
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn sync_names(&self) -> Result<(), MediaError> {
        let (mut nodes, doomed) = {
            let names = self.shared.names();
            let is_here = |full: &str| split(full).0 == self.path;
            let kept = names.nodes.iter().filter_map(|(full, held)| match held {
                Held::Kept(node) if is_here(full) => Some(Arc::clone(node)),
                _ => None,
            });
            let doomed = names.doomed.iter().filter(|full| is_here(full)).cloned();
            (kept.collect::<Vec<_>>(), doomed.collect::<Vec<_>>())
        };
        nodes.sort_unstable_by_key(|node| node.id);
        for node in nodes {
            let put = {
                let mut state = node.state();
                if state.is_unnamed { node.put(&mut state) } else { Ok(()) }
            };
            self.shared.settle(&node);
            put?;
        }
        // After what has their bytes under another name.
        for full in doomed {
            self.shared.remove(&full)?;
            self.shared.names().doomed.remove(&full);
        }
        Ok(())
    }

    fn reads_at_once(&self) -> usize {
        self.reads_at_once
    }

    fn subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        match self.existing_subfolder(name) {
            Err(MediaError::NotFound { .. }) => {}
            found => return found,
        }
        let path = format!("{}/", self.full("make", name)?);
        self.shared.put(&format!("{path}{FOLDER_MARK}"), &[])?;
        self.shared.names().folders.insert(path.clone());
        Ok(self.at(path))
    }

    fn existing_subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        let path = format!("{}/", self.full("open", name)?);
        if !self.shared.names().folders.contains(&path) {
            if self.shared.list(&path)?.is_empty() {
                return Err(self.not_found(&path));
            }
            self.shared.names().folders.insert(path.clone());
        }
        Ok(self.at(path))
    }

    fn remove_subfolder(&self, name: &str) -> Result<(), MediaError> {
        let path = format!("{}/", self.full("remove", name)?);
        self.existing_subfolder(name)?;
        let stored = self.shared.list(&path)?;
        let is_inside = |full: &String| full.starts_with(&path);
        let is_named = {
            let names = self.shared.names();
            let live = |(_, held): &(&String, &Held)| held.node().is_some();
            names.nodes.iter().filter(live).any(|(full, _)| is_inside(full))
                || names.folders.iter().any(|inner| is_inside(inner) && *inner != path)
        };
        if is_named || stored.iter().any(|name| name != FOLDER_MARK) {
            let source = std::io::ErrorKind::DirectoryNotEmpty.into();
            let name = self.shared.objects.address(&path);
            return Err(MediaError::Io { action: "remove", name, source });
        }
        let mark = format!("{path}{FOLDER_MARK}");
        if self.shared.known_object(&mark)?.is_some() {
            self.shared.remove(&mark)?;
        }
        self.shared.names().folders.remove(&path);
        Ok(())
    }
}
