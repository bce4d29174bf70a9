//! Finding and listing what is in an archive.
//! Room: onefold-archive.
//! Invariants: (1) a damaged entry is an error wherever it may be what was asked for, and nowhere
//! else; (2) listing only goes forward, so it ends, whatever a version says.
//! Cost: 12 bytes of memory per entry of the versions that are kept open, and 16 per other name. A
//! search reads as many entries as their number has bits. The first file that is looked at in a
//! version costs one pass over its entries, which counts hard links.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::content::{Content, OpenFile};
use super::node::{COMPONENTS_MAX, ENTRIES_MAX, Node, VERSIONS_MAX};
use crate::archive::Archive;
use crate::cache::Cache;
use crate::error::ArchiveError;
use crate::format::entry::{Entry, Kind, Metadata, compare_paths, is_within};
use crate::format::log_record::VersionInfo;
use crate::format::version_file::ROW_BYTES;
use crate::version::Version;

/// The name of the link to the newest version.
pub const NEWEST: &[u8] = b"newest";
/// Bytes of the longest name that is shown.
pub const NAME_BYTES_MAX: usize = 255;

/// In a place in a listing: an entry before it was damaged.
const DAMAGED: u64 = 1 << 62;
/// What a version that is kept open counts for apart from its entries.
const VERSION_BYTES: u64 = 4096;
/// What another name of something counts for.
const LINK_BYTES: u64 = 16;

/// How much memory looking about may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrowseMemory {
    /// For tables of entries of versions.
    pub metadata_bytes: u64,
    /// For chunks of content, decompressed, and as much as a quarter of it for what was read ahead.
    pub content_bytes: u64,
}

impl Default for BrowseMemory {
    fn default() -> Self {
        Self { metadata_bytes: 64 << 20, content_bytes: 64 << 20 }
    }
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundKind {
    /// A folder that the archive makes: of versions, a version, or one without an entry.
    Folder,
    /// What an entry says; never a hard link.
    Entry(Kind),
    /// The link to the newest version.
    Newest(u32),
}

/// A node, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its node.
    pub node: Node,
    /// What it is.
    pub kind: FoundKind,
    /// Whose it is, and since when.
    pub metadata: Metadata,
    /// Bytes of content.
    pub size: u64,
    /// Names that it has.
    pub links: u32,
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Where a listing goes on after it.
    pub next: u64,
    /// Its name.
    pub name: Vec<u8>,
    /// What has it.
    pub found: Found,
}

/// A version that is open.
pub(super) struct Opened {
    pub(super) version: Version,
    links: OnceLock<Links>,
}

/// What in a version has several names.
#[derive(Default)]
struct Links {
    /// How many other names an entry has, of those that have any.
    others: HashMap<usize, u32>,
    /// The first name of what is neither file nor folder, by its other ones.
    firsts: HashMap<usize, usize>,
}

/// A folder of a version.
struct Place {
    slot: usize,
    opened: Arc<Opened>,
    path: Vec<u8>,
    /// The first entry that may lie in it.
    first: usize,
}

/// An archive to walk about in, as it was when this was made.
pub struct Browser {
    pub(super) archive: Archive,
    versions: Vec<VersionInfo>,
    open: Mutex<Cache<usize, Arc<Opened>>>,
    pub(super) content: Content,
}

impl Browser {
    /// Look about in an archive.
    pub fn new(archive: Archive, memory: BrowseMemory) -> Result<Self, ArchiveError> {
        let versions: Vec<VersionInfo> = archive.versions().cloned().collect();
        if versions.len() > VERSIONS_MAX {
            let problem = format!("an archive of {VERSIONS_MAX} versions is too large to browse");
            return Err(ArchiveError::Setting(problem));
        }
        let open = Mutex::new(Cache::new(memory.metadata_bytes));
        let content = Content::new(&archive, memory.content_bytes);
        Ok(Self { archive, versions, open, content })
    }

    /// The versions, oldest first.
    pub fn versions(&self) -> &[VersionInfo] {
        &self.versions
    }

    pub(super) fn opened(&self, slot: usize) -> Result<Arc<Opened>, ArchiveError> {
        let info = self.versions.get(slot).ok_or_else(no_node)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = open.get(&slot) {
            return Ok(opened);
        }
        let version = self.archive.version(Some(info.number))?;
        if version.len() > ENTRIES_MAX {
            let problem = format!("version {} has too many entries to browse", info.number);
            return Err(ArchiveError::Setting(problem));
        }
        let bytes = VERSION_BYTES + (version.len() * ROW_BYTES) as u64;
        let opened = Arc::new(Opened { version, links: OnceLock::new() });
        open.put(slot, Arc::clone(&opened), bytes);
        Ok(opened)
    }

    /// What in a version has several names.
    fn links<'a>(&self, slot: usize, opened: &'a Arc<Opened>) -> &'a Links {
        let is_new = opened.links.get().is_none();
        let links = opened.links.get_or_init(|| opened.count_links());
        if is_new {
            let bytes = VERSION_BYTES
                + (opened.version.len() * ROW_BYTES) as u64
                + (links.others.len() + links.firsts.len()) as u64 * LINK_BYTES;
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.put(slot, Arc::clone(opened), bytes);
        }
        links
    }

    /// What a node is.
    pub fn node(&self, node: Node) -> Result<Found, ArchiveError> {
        match node {
            Node::Root => {
                let time_s = self.versions.last().map_or(0, |info| info.time_s);
                Ok(folder(node, time_s))
            }
            Node::Newest => self.newest().ok_or_else(no_node),
            Node::Version(slot) => {
                let info = self.versions.get(slot).ok_or_else(no_node)?;
                Ok(folder(node, info.time_s))
            }
            Node::Implied(slot, entry, components) => {
                let opened = self.opened(slot)?;
                opened.prefix(entry, components)?;
                Ok(folder(node, opened.version.info().time_s))
            }
            Node::Entry(slot, index) => {
                let opened = self.opened(slot)?;
                let entry = opened.entry(index)?;
                self.found(slot, &opened, index, entry)
            }
        }
    }

    fn newest(&self) -> Option<Found> {
        let info = self.versions.last()?;
        let mut found = folder(Node::Newest, info.time_s);
        found.metadata.mode = 0o777;
        found.size = info.number.to_string().len() as u64;
        (found.kind, found.links) = (FoundKind::Newest(info.number), 1);
        Some(found)
    }

    /// An entry as it is shown: another name of something as the first one.
    fn found(
        &self,
        slot: usize,
        opened: &Arc<Opened>,
        index: usize,
        entry: Entry,
    ) -> Result<Found, ArchiveError> {
        let (index, entry) = match &entry.kind {
            Kind::HardLink { target } => match opened.position(target)? {
                (index, Some(first)) if !matches!(first.kind, Kind::HardLink { .. }) => {
                    (index, first)
                }
                _ => {
                    let target = String::from_utf8_lossy(target);
                    let problem = format!("it is another name of '{target}', which is not there");
                    return Err(opened.corrupt(&entry.path, &problem));
                }
            },
            _ if entry.shared().is_some() => match self.links(slot, opened).firsts.get(&index) {
                Some(&first) => (first, opened.entry(first)?),
                None => (index, entry),
            },
            _ => (index, entry),
        };
        let links = || {
            let others = self.links(slot, opened).others.get(&index).copied();
            others.unwrap_or_default().saturating_add(1)
        };
        let (size, links) = match &entry.kind {
            Kind::Directory => (0, 2),
            Kind::Symlink { target } => (target.len() as u64, links()),
            _ => (entry.recipe.size, links()),
        };
        let (node, kind) = (Node::Entry(slot, index), FoundKind::Entry(entry.kind));
        Ok(Found { node, kind, metadata: entry.metadata, size, links })
    }

    /// What has a name in a folder.
    pub fn find(&self, parent: Node, name: &[u8]) -> Result<Option<Found>, ArchiveError> {
        let Place { slot, opened, mut path, .. } = match parent {
            Node::Root if name == NEWEST => return Ok(self.newest()),
            Node::Root => {
                // As it is listed and in no other way: without zeroes in front, or a sign.
                let wanted = |info: &VersionInfo| info.number.to_string().as_bytes() == name;
                return match self.versions.iter().position(wanted) {
                    Some(slot) => self.node(Node::Version(slot)).map(Some),
                    None => Ok(None),
                };
            }
            Node::Newest => return Ok(None),
            _ => self.place(parent)?,
        };
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        match opened.position(&path)? {
            (index, Some(entry)) => self.found(slot, &opened, index, entry).map(Some),
            (index, None) if index < opened.version.len() => {
                let entry = opened.entry(index)?;
                let components = components(&path);
                let is_folder = is_within(&entry.path, &path) && components <= COMPONENTS_MAX;
                let node = Node::Implied(slot, index, components);
                Ok(is_folder.then(|| folder(node, opened.version.info().time_s)))
            }
            _ => Ok(None),
        }
    }

    /// Where a folder of a version is.
    fn place(&self, folder: Node) -> Result<Place, ArchiveError> {
        let (slot, (path, first), opened) = match folder {
            Node::Root | Node::Newest => return Err(no_node()),
            Node::Version(slot) => (slot, (Vec::new(), 0), self.opened(slot)?),
            Node::Entry(slot, entry) => {
                let opened = self.opened(slot)?;
                (slot, (opened.entry(entry)?.path, entry + 1), opened)
            }
            Node::Implied(slot, entry, components) => {
                let opened = self.opened(slot)?;
                (slot, (opened.prefix(entry, components)?, entry), opened)
            }
        };
        Ok(Place { slot, opened, path, first })
    }

    /// The names in a folder from `from` on, 0 for all of them, until `take` wants no more; a place
    /// that no name was given as the next is where the names end, or between two of them. A
    /// damaged entry, and one whose name is too long, is told to `damaged` and passed over; if
    /// there was one, a listing that comes to its end and that no name was taken of is an error.
    pub fn list(
        &self,
        parent: Node,
        from: u64,
        damaged: &mut dyn FnMut(&ArchiveError),
        take: &mut dyn FnMut(Listed) -> bool,
    ) -> Result<(), ArchiveError> {
        if parent == Node::Root {
            return self.list_versions(from, take);
        }
        let Place { slot, opened, path, first } = self.place(parent)?;
        let mut was_damaged = from & DAMAGED;
        let len = opened.version.len();
        let mut index = first.max((from & !DAMAGED) as usize).min(len);
        let mut taken = false;
        let skip = if path.is_empty() { 0 } else { path.len() + 1 };
        let mut last = opened.last_before(index, first, skip);
        while index < len {
            let entry = match opened.entry(index) {
                Ok(entry) if !path.is_empty() && !is_within(&entry.path, &path) => break,
                Ok(entry) => entry,
                Err(error) => {
                    damaged(&error);
                    (was_damaged, index) = (DAMAGED, index + 1);
                    continue;
                }
            };
            let (child, is_below) = child_of(&entry.path, skip);
            let name = child.get(skip..).unwrap_or_default().to_vec();
            // What is damaged may have come between a folder and the rest of what is in it.
            if last.as_ref() == Some(&name) {
                index = opened.end_of(index, child);
                continue;
            }
            let next = match entry.kind {
                Kind::Directory => opened.end_of(index, child),
                _ if is_below => opened.end_of(index, child),
                _ => index + 1,
            };
            // A path again that is the folder's own: out of order.
            let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
            let components = components(child);
            let found = if !fits || is_below && components > COMPONENTS_MAX {
                Err(opened.corrupt(&entry.path, "it cannot be shown: a name is too long"))
            } else if is_below {
                let node = Node::Implied(slot, index, components);
                Ok(folder(node, opened.version.info().time_s))
            } else {
                self.found(slot, &opened, index, entry)
            };
            last = Some(name.clone());
            match found {
                Ok(found) => {
                    if !take(Listed { next: next as u64 | was_damaged, name, found }) {
                        return Ok(());
                    }
                    taken = true;
                }
                Err(error) => {
                    damaged(&error);
                    was_damaged = DAMAGED;
                }
            }
            index = next;
        }
        if was_damaged != 0 && !taken {
            return Err(opened.corrupt(&path, "something in this folder cannot be listed"));
        }
        Ok(())
    }

    fn list_versions(
        &self,
        from: u64,
        take: &mut dyn FnMut(Listed) -> bool,
    ) -> Result<(), ArchiveError> {
        for (slot, info) in self.versions.iter().enumerate().skip(from as usize) {
            let (name, found) = (info.number.to_string(), self.node(Node::Version(slot))?);
            if !take(Listed { next: slot as u64 + 1, name: name.into_bytes(), found }) {
                return Ok(());
            }
        }
        let next = self.versions.len() as u64 + 1;
        if let Some(found) = self.newest().filter(|_| from < next) {
            take(Listed { next, name: NEWEST.to_vec(), found });
        }
        Ok(())
    }

    /// Open a file to be read.
    pub fn open(&self, node: Node) -> Result<OpenFile, ArchiveError> {
        let Node::Entry(slot, index) = node else { return Err(no_node()) };
        let entry = self.opened(slot)?.entry(index)?;
        if entry.kind != Kind::File {
            return Err(no_node());
        }
        Ok(OpenFile::new(slot, &entry))
    }

    /// Bytes of a file from `offset` on, at most `len`, fewer at its end, into `out`. On an error
    /// some may be there, and are good.
    pub fn read(
        &self,
        file: &OpenFile,
        offset: u64,
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ArchiveError> {
        let opened = self.opened(file.slot)?;
        self.content.read(&opened.version, file, offset, len, out)
    }
}

impl Opened {
    fn entry(&self, index: usize) -> Result<Entry, ArchiveError> {
        if index >= self.version.len() {
            return Err(no_node());
        }
        self.version.entry(index)
    }

    fn corrupt(&self, path: &[u8], problem: &str) -> ArchiveError {
        let path = String::from_utf8_lossy(path);
        let what = format!("version {}", self.version.info().number);
        let problem =
            if path.is_empty() { problem.to_owned() } else { format!("'{path}': {problem}") };
        ArchiveError::corrupt(what, 0, problem)
    }

    /// The first components of an entry's path.
    fn prefix(&self, index: usize, components: usize) -> Result<Vec<u8>, ArchiveError> {
        let mut path = self.entry(index)?.path;
        let slashes = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/');
        let Some(end) = slashes.map(|(at, _)| at).nth(components.saturating_sub(1)) else {
            return Err(no_node());
        };
        path.truncate(end);
        Ok(path)
    }

    /// The first entry from `low` on, below `high`, that can be read.
    fn readable(&self, low: usize, high: usize) -> Option<(usize, Entry)> {
        (low..high).find_map(|index| Some((index, self.version.entry(index).ok()?)))
    }

    /// The index of the entry of this path, or of the first one after it. An error if there is none
    /// and a damaged one may have been it.
    fn position(&self, path: &[u8]) -> Result<(usize, Option<Entry>), ArchiveError> {
        let (mut low, mut high) = (0, self.version.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.readable(middle, high) {
                Some((index, entry)) => match compare_paths(&entry.path, path) {
                    Ordering::Equal => return Ok((index, Some(entry))),
                    Ordering::Less => low = index + 1,
                    Ordering::Greater => high = middle,
                },
                None => high = middle,
            }
        }
        // What comes before it is less. If what comes after it is damaged, it may be that.
        if low < self.version.len() {
            self.version.entry(low)?;
        }
        Ok((low, None))
    }

    /// The name that a listing that goes on at `index` gave last; `first` is where it began, and
    /// names in it begin at the byte `skip` of paths.
    fn last_before(&self, index: usize, first: usize, skip: usize) -> Option<Vec<u8>> {
        let entry = (first..index).rev().find_map(|index| self.version.entry(index).ok())?;
        let (child, _) = child_of(&entry.path, skip);
        child.get(skip..).map(<[u8]>::to_vec)
    }

    /// The index after a path and everything in it, which begins at `start`.
    fn end_of(&self, start: usize, path: &[u8]) -> usize {
        let len = self.version.len();
        // What cannot be read is outside: the folder around it says that it is damaged.
        let is_in = |index: usize| {
            self.version.entry(index).is_ok_and(|entry| is_within(&entry.path, path))
        };
        let (mut low, mut step) = (start + 1, 1);
        while low + step <= len && is_in(low + step - 1) {
            low += step;
            step *= 2;
        }
        let mut high = (low + step - 1).min(len);
        while low < high {
            let middle = low.midpoint(high);
            if is_in(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// What has several names. Damage shows where an entry is asked for.
    fn count_links(&self) -> Links {
        let mut links = Links::default();
        let mut shared: HashMap<u64, (usize, Entry)> = HashMap::new();
        for (index, entry) in self.version.entries().enumerate() {
            let Ok(entry) = entry else { continue };
            let first = if let Kind::HardLink { target } = &entry.kind {
                self.position(target).ok().and_then(|(first, found)| found.map(|_| first))
            } else if let Some(number) = entry.shared() {
                let (first, known) = shared.entry(number).or_insert_with(|| (index, entry.clone()));
                let is_other = *first != index && known.is_like(&entry);
                is_other.then(|| {
                    links.firsts.insert(index, *first);
                    *first
                })
            } else {
                None
            };
            if let Some(first) = first {
                *links.others.entry(first).or_insert(0) += 1;
            }
        }
        links
    }
}

/// A folder that the archive makes.
fn folder(node: Node, time_s: i64) -> Found {
    let metadata = Metadata { mode: 0o755, mtime_s: time_s, ..Metadata::default() };
    Found { node, kind: FoundKind::Folder, metadata, size: 0, links: 2 }
}

/// The path cut after the name that begins at the byte `skip`, and whether more came after it.
fn child_of(path: &[u8], skip: usize) -> (&[u8], bool) {
    let end = path.get(skip..).and_then(|rest| rest.iter().position(|&byte| byte == b'/'));
    (&path[..end.map_or(path.len(), |end| skip + end)], end.is_some())
}

fn components(path: &[u8]) -> usize {
    path.split(|&byte| byte == b'/').count()
}

/// Nobody was given such a node.
fn no_node() -> ArchiveError {
    ArchiveError::Setting("there is no such file in the archive".to_owned())
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::forged::first_version;
    use crate::format::entry::{Recipe, Stamp};
    use crate::format::log_record::LogEvent;

    /// A folder ends with `/`, what is damaged with `!`, `a=b` is another name of `b`.
    fn browser(paths: &[&str]) -> Browser {
        let (mut archive, mut manifest) = first_version();
        for path in paths {
            // No second has so many nanoseconds.
            let mtime_ns = if path.ends_with('!') { u32::MAX } else { 0 };
            let metadata = Metadata { mtime_ns, ..Metadata::default() };
            let (path, kind) = match path.split_once('=') {
                Some((path, target)) => (path, Kind::HardLink { target: target.into() }),
                None if path.ends_with('/') => (path.trim_end_matches('/'), Kind::Directory),
                None => (path.trim_end_matches('!'), Kind::File),
            };
            let recipe = Recipe { at: manifest.position(), ..Recipe::default() };
            let (path, stamp) = (path.as_bytes().to_vec(), Stamp::default());
            manifest.entry(&Entry { path, kind, metadata, stamp, recipe }).unwrap();
        }
        let info = manifest.finish(VersionInfo::default(), 1).unwrap();
        archive.commit(1, LogEvent::Added(info)).unwrap();
        Browser::new(archive, BrowseMemory::default()).unwrap()
    }

    /// What a listing says, and where it would go on.
    fn listed(browser: &Browser, node: Node, from: u64) -> (String, Vec<String>, bool) {
        let (mut names, mut told) = (Vec::new(), Vec::new());
        let listed =
            browser.list(node, from, &mut |error| told.push(error.to_string()), &mut |listed| {
                let (next, damaged) = (listed.next & !DAMAGED, listed.next & DAMAGED != 0);
                let mark = if damaged { "!" } else { "" };
                names.push(format!("{}>{next}{mark}", String::from_utf8(listed.name).unwrap()));
                true
            });
        (names.join(" "), told, listed.is_ok())
    }

    fn damage(index: usize) -> String {
        format!("entry {index} is damaged")
    }

    #[test]
    fn what_is_damaged_is_told_of_and_passed_over() {
        let check = |paths: &[&str], from, names: &str, bad: &[usize], is_ok| {
            let (found, told, ok) = listed(&browser(paths), Node::Version(0), from);
            assert_eq!((found.as_str(), told.len(), ok), (names, bad.len(), is_ok), "{paths:?}");
            for (told, bad) in told.iter().zip(bad) {
                assert!(told.ends_with(&damage(*bad)), "{told}");
            }
        };
        check(&["a", "b", "c"], 0, "a>1 b>2 c>3", &[], true);
        check(&["a", "b!", "c"], 0, "a>1 c>3!", &[1], true);
        check(&["a!", "b", "c"], 0, "b>2! c>3!", &[0], true);
        check(&["a", "b", "c!"], 0, "a>1 b>2", &[2], true);
        check(&["a!", "b!"], 0, "", &[0, 1], false);
        // A listing that goes on knows what came before.
        check(&["a!", "b"], 2 | DAMAGED, "", &[], false);
        check(&["a!", "b"], 2, "", &[], true);
        check(&["a", "b"], 99, "", &[], true);
        check(&[], 0, "", &[], true);
        // A folder whose content is torn by damage is one folder.
        check(&["a/x", "a/y!", "a/z", "b"], 0, "a>1 b>4!", &[1], true);
        // Looked for in larger and larger steps: the folder itself says what is damaged in it.
        check(&["a/", "a/x", "a/y!", "a/z", "b"], 0, "a>4 b>5", &[], true);
        check(&["a/x", "a/y!", "a/z", "b"], 2, "b>4", &[], true);
        check(&["a/x", "b/y!", "b/z", "c"], 0, "a>1 b>3! c>4!", &[1], true);
        check(&["a/x/1", "a/x/2", "a/y", "b/z", "c"], 0, "a>3 b>4 c>5", &[], true);
    }

    #[test]
    fn folders_hold_what_lies_in_them_and_nothing_else() {
        let many: Vec<String> = (0..40).map(|n| format!("f/{n:02}")).collect();
        for count in 0..40 {
            let mut paths: Vec<&str> = vec!["e"];
            paths.extend(many[..count].iter().map(String::as_str));
            paths.push("g");
            let browser = browser(&paths);
            let (names, _, _) = listed(&browser, Node::Version(0), 0);
            let folder = if count == 0 { String::new() } else { format!("f>{} ", count + 1) };
            assert_eq!(names, format!("e>1 {folder}g>{}", count + 2));
            let found = browser.find(Node::Version(0), b"f").unwrap();
            assert_eq!(found.is_some(), count > 0);
            if let Some(Found { node, kind, .. }) = found {
                assert_eq!((node, kind), (Node::Implied(0, 1, 1), FoundKind::Folder));
                let (names, _, ok) = listed(&browser, node, 0);
                let expected: Vec<String> =
                    (0..count).map(|n| format!("{n:02}>{}", n + 2)).collect();
                assert!(ok && names == expected.join(" "), "{names}");
                let (names, _, _) = listed(&browser, node, count as u64);
                assert_eq!(names, format!("{:02}>{}", count - 1, count + 1));
            }
        }
    }

    #[test]
    fn what_cannot_be_listed_is_named_with_its_folder() {
        let said = |paths: &[&str], node| {
            let listed = browser(paths).list(node, 0, &mut |_| {}, &mut |_| true);
            listed.unwrap_err().to_string()
        };
        let why = "something in this folder cannot be listed";
        let expected = format!("corrupt version 1 at byte 0: {why}");
        assert_eq!(said(&["a!"], Node::Version(0)), expected);
        let expected = format!("corrupt version 1 at byte 0: 'd': {why}");
        assert_eq!(said(&["d/", "d/a!"], Node::Entry(0, 0)), expected);
        // Out of order: a path again that is the folder's own, and a link to nothing.
        let (names, told, ok) = listed(&browser(&["d/", "d/a", "d/"]), Node::Entry(0, 0), 0);
        let why = "corrupt version 1 at byte 0: 'd': it cannot be shown: a name is too long";
        assert_eq!((names.as_str(), told, ok), ("a>2", vec![why.to_owned()], true));
        for target in ["gone", "l", "k"] {
            let link = format!("l={target}");
            let (names, told, ok) = listed(&browser(&["k=a", &link]), Node::Version(0), 0);
            let why = |name: &str, target: &str| {
                let why = format!("'{name}': it is another name of '{target}', which is not there");
                format!("corrupt version 1 at byte 0: {why}")
            };
            assert_eq!((names.as_str(), ok), ("", false));
            assert_eq!(told, [why("k", "a"), why("l", target)]);
        }
    }

    #[test]
    fn what_is_open_counts_for_its_entries_and_its_links() {
        let browser = browser(&["a", "b=a", "c=a", "d", "e!"]);
        let bytes = || browser.open.lock().unwrap().bytes();
        assert_eq!(bytes(), 0);
        browser.opened(0).unwrap();
        assert_eq!(bytes(), 4096 + 5 * 12);
        let links = |name: &[u8]| browser.find(Node::Version(0), name).unwrap().unwrap().links;
        assert_eq!((links(b"d"), links(b"a"), links(b"b")), (1, 3, 3));
        assert_eq!(bytes(), 4096 + 5 * 12 + 16);
        let again = browser.opened(0).unwrap();
        assert!(again.links.get().is_some(), "it is the one that was opened first");
    }

    #[test]
    fn what_a_damaged_entry_may_have_been_is_not_said_to_be_absent() {
        let paths = ["a", "c!", "e", "g!", "i!", "k"];
        let browser = browser(&paths);
        let found = |name: &str| match browser.find(Node::Version(0), name.as_bytes()) {
            Ok(found) => found.is_some().to_string(),
            Err(error) => error.to_string(),
        };
        for name in ["a", "e", "k"] {
            assert_eq!(found(name), "true");
        }
        for name in ["0", "l"] {
            assert_eq!(found(name), "false", "{name}");
        }
        for (name, index) in [("b", 1), ("c", 1), ("d", 1), ("f", 3), ("g", 3), ("h", 3), ("j", 3)]
        {
            assert!(found(name).ends_with(&damage(index)), "{name}: {}", found(name));
        }
    }
}
