//! Reading trees: every path below the given ones, in order, into a version.
//! Room: onefold-archive.
//! Invariant: what cannot be read is named and left out; all else goes on.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Component, PathBuf};

use rustix::fs::FileType;

use super::exclude::Excludes;
use super::holes::Holes;
use super::status::{Id, Moment, Status};
use super::walk::{CHANGED, Found, walk};
use super::xattrs::{self, Xattrs};
use crate::adder::Adder;
use crate::chunk_stream::Source;
use crate::error::ArchiveError;
use crate::format::entry::{Entry, Kind, Metadata, Recipe, Stamp, compare_paths, is_within};

/// Where a tree is, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The path in the system.
    pub path: PathBuf,
    /// The path in the version; empty if what is in the folder goes to the top.
    pub stored: Vec<u8>,
}

/// What of a tree to take.
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    /// Do not descend into folders on other file systems than that of their root.
    pub one_file_system: bool,
    /// Leave out what matches.
    pub exclude: Excludes,
    /// Of folders that a program marked as its cache (`CACHEDIR.TAG`), keep the mark alone.
    pub exclude_caches: bool,
    /// Device and inode of a folder to leave out: the archive's own.
    pub skip: Option<(u64, u64)>,
}

/// Something that could not be done for one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The path, for people.
    pub path: String,
    /// What went wrong.
    pub problem: String,
}

/// What a scan came by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanReport {
    /// What could not be read, or changed meanwhile.
    pub problems: Vec<Problem>,
    /// Sockets, which have no content and are left out.
    pub sockets: u64,
    /// Bytes of files read.
    pub bytes: u64,
    /// Files read, or taken over.
    pub files: u64,
    /// Of these, files that are as they were in the last version, and were not read.
    pub unchanged: u64,
}

/// Where each path goes in a version: as it is written, without what leads out of the tree.
/// `/srv/ann` is stored as `srv/ann`, `../x` as `x`, and what is in `.` goes to the top.
pub fn roots(paths: &[PathBuf]) -> Result<Vec<Root>, ArchiveError> {
    let mut roots = Vec::new();
    for path in paths {
        let mut parts: Vec<&OsStr> = Vec::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => parts.push(name),
                Component::ParentDir => parts.clear(),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        let stored = parts.join(OsStr::new("/")).into_vec();
        roots.push(Root { path: path.clone(), stored });
    }
    roots.sort_by(|a, b| compare_paths(&a.stored, &b.stored));
    for pair in roots.windows(2) {
        let [first, second] = pair else { continue };
        if first.stored.is_empty() || is_within(&second.stored, &first.stored) {
            return Err(ArchiveError::Setting(format!(
                "'{}' and '{}' would be stored one inside the other",
                first.path.display(),
                second.path.display()
            )));
        }
    }
    Ok(roots)
}

/// The bytes of all files below the roots, as far as they can be listed. Stops when told to.
pub fn measure(roots: &[Root], options: &ScanOptions, stop: &dyn Fn() -> bool) -> Option<u64> {
    let mut bytes = 0;
    let mut visit = |found: &Found<'_>| {
        if found.status.kind.is_file() {
            bytes += found.status.len;
        }
        if stop() { Err(ArchiveError::Interrupted) } else { Ok(()) }
    };
    for root in roots {
        // What goes wrong is told by who adds them.
        walk(root, options, &mut visit, &mut Vec::new()).ok()?;
    }
    Some(bytes)
}

/// Add everything below the roots. `progress` is told the bytes read so far, and answers whether
/// to go on.
pub fn add_trees(
    adder: &mut Adder<'_>,
    roots: &[Root],
    options: &ScanOptions,
    progress: &mut Progress<'_>,
) -> Result<ScanReport, ArchiveError> {
    let mut report = ScanReport::default();
    let mut unlisted = Vec::new();
    let mut links = Links::default();
    for root in roots {
        let mut visit = |found: &Found<'_>| {
            if !progress(&report) {
                return Err(ArchiveError::Interrupted);
            }
            add_path(adder, found, &mut links, &mut report, progress)
        };
        walk(root, options, &mut visit, &mut unlisted)?;
    }
    report.problems.append(&mut unlisted);
    Ok(report)
}

/// Hears how far a scan is, and answers whether to go on.
type Progress<'a> = dyn FnMut(&ScanReport) -> bool + 'a;

/// What has several names, by device and inode.
#[derive(Default)]
struct Links {
    files: HashMap<Id, Linked>,
    /// What is neither file nor folder: the number that its names share.
    others: HashMap<Id, (Born, u64)>,
    /// Numbers that were given.
    numbers: u64,
}

/// A file of which one name is in the version.
struct Linked {
    /// That name.
    stored: Vec<u8>,
    born: Born,
}

/// Tells a file from another one that got its inode when it was deleted: when it was made, or
/// where nobody knows that, when it was last changed in any way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Born {
    Made(Moment),
    Changed(Moment),
}

impl Born {
    fn of(status: &Status) -> Self {
        status.made.map_or(Self::Changed(status.ctime), Self::Made)
    }
}

/// Other names of this file may come.
fn remember(links: &mut Links, status: &Status, stored: &[u8]) {
    let linked = Linked { stored: stored.to_vec(), born: Born::of(status) };
    links.files.insert(status.id, linked);
}

/// What the entries of the names of something that is neither file nor folder share: 0 if there is
/// no other name.
fn shared(links: &mut Links, status: &Status) -> u64 {
    if !status.has_other_names() {
        return 0;
    }
    let (born, next) = (Born::of(status), links.numbers + 1);
    match links.others.get(&status.id) {
        Some(&(known, number)) if known == born => number,
        _ => {
            links.numbers = next;
            links.others.insert(status.id, (born, next));
            next
        }
    }
}

fn add_path(
    adder: &mut Adder<'_>,
    found: &Found<'_>,
    links: &mut Links,
    report: &mut ScanReport,
    progress: &mut Progress<'_>,
) -> Result<(), ArchiveError> {
    let kind = match kind_of(found, links) {
        Ok(Some(kind)) => kind,
        Ok(None) => {
            report.sockets += 1;
            return Ok(());
        }
        Err(error) => {
            report.problems.push(found.problem(error.to_string()));
            return Ok(());
        }
    };
    let xattrs = found.xattrs().unwrap_or_else(|error| {
        report.problems.push(found.problem(format!("{NO_XATTRS}: {error}")));
        Vec::new()
    });
    let mut entry = entry_of(found.stored, kind, &found.status, xattrs);
    match entry.kind {
        Kind::File => {}
        Kind::Directory | Kind::HardLink { .. } => return adder.entry(entry),
        _ => {
            entry.stamp.inode = shared(links, &found.status);
            return adder.entry(entry);
        }
    }
    let (len, linked) = (found.status.len, found.status.has_other_names());
    if adder.unchanged_file(&entry, len, linked)? {
        report.bytes += len;
        report.files += 1;
        report.unchanged += 1;
        if linked {
            remember(links, &found.status, found.stored);
        }
        return Ok(());
    }
    let before = report.bytes;
    let mut goes_on = |bytes| {
        report.bytes = before + bytes;
        progress(report)
    };
    let added = add_file(adder, found, entry, &mut goes_on)?;
    report.bytes = before;
    match added {
        Ok(added) => {
            report.problems.extend(added.problem.map(|problem| found.problem(problem)));
            report.bytes += added.bytes;
            report.files += 1;
            if added.status.has_other_names() {
                remember(links, &added.status, found.stored);
            }
        }
        Err(error) => report.problems.push(found.problem(error.to_string())),
    }
    Ok(())
}

const NO_XATTRS: &str = "its extended attributes cannot be read";

fn entry_of(stored: &[u8], kind: Kind, status: &Status, xattrs: Xattrs) -> Entry {
    // How to tell later whether a file was touched.
    let stamp = match kind {
        Kind::File => {
            let (ctime_s, ctime_ns) = status.ctime;
            Stamp { inode: status.id.1, ctime_s, ctime_ns }
        }
        _ => Stamp::default(),
    };
    let &Status { mode, uid, gid, mtime: (mtime_s, mtime_ns), .. } = status;
    let metadata = Metadata { mode, uid, gid, mtime_s, mtime_ns, xattrs };
    Entry { path: stored.to_vec(), kind, metadata, stamp, recipe: Recipe::default() }
}

/// What a path is; `None` for a socket, which is nothing to keep.
fn kind_of(found: &Found<'_>, links: &Links) -> std::io::Result<Option<Kind>> {
    Ok(Some(match found.status.kind {
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink { target: found.target()? },
        FileType::Fifo => Kind::Fifo,
        FileType::CharacterDevice => Kind::CharDevice { number: found.status.device },
        FileType::BlockDevice => Kind::BlockDevice { number: found.status.device },
        FileType::Socket => return Ok(None),
        FileType::RegularFile | FileType::Unknown => file_or_link(&found.status, links),
    }))
}

fn file_or_link(status: &Status, links: &Links) -> Kind {
    match links.files.get(&status.id) {
        Some(first) if first.born == Born::of(status) => {
            Kind::HardLink { target: first.stored.clone() }
        }
        _ => Kind::File,
    }
}

/// A file that was read.
struct Added {
    bytes: u64,
    /// What it was when it was opened.
    status: Status,
    problem: Option<String>,
}

/// Add a file's content, and all else that is told of the file that has the name by now; or why it
/// cannot be read. `goes_on` hears the bytes so far.
fn add_file(
    adder: &mut Adder<'_>,
    found: &Found<'_>,
    listed: Entry,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<std::io::Result<Added>, ArchiveError> {
    let (file, status) = match found.open() {
        Ok(opened) => opened,
        Err(error) => return Ok(Err(error)),
    };
    let mut problem = (status.id != found.status.id).then(|| CHANGED.to_owned());
    let xattrs = match xattrs::of_handle(file.as_fd()) {
        Ok(xattrs) => xattrs,
        Err(_) if problem.is_none() => listed.metadata.xattrs,
        Err(errno) => {
            problem = Some(format!("{NO_XATTRS}: {errno}"));
            Vec::new()
        }
    };
    let entry = entry_of(found.stored, Kind::File, &status, xattrs);
    let holes = Holes::of(status.len, status.blocks);
    let mut watched = Watched { file, bytes: 0, holes, goes_on, stopped: false };
    let read = adder.sparse_file(entry, status.has_other_names(), &mut watched)?;
    if watched.stopped {
        return Err(ArchiveError::Interrupted);
    }
    Ok(read.map(|bytes| {
        let same = Status::of(&watched.file)
            .is_ok_and(|now| now.len == bytes && now.mtime == found.status.mtime);
        let problem = problem.or_else(|| (!same).then(|| CHANGED.to_owned()));
        Added { bytes, status, problem }
    }))
}

/// A file that tells how far it is read, and can be stopped.
struct Watched<'a> {
    file: File,
    bytes: u64,
    holes: Holes,
    goes_on: &'a mut dyn FnMut(u64) -> bool,
    stopped: bool,
}

impl Watched<'_> {
    fn goes_on(&mut self) -> std::io::Result<()> {
        if (self.goes_on)(self.bytes) {
            return Ok(());
        }
        self.stopped = true;
        Err(std::io::Error::other("interrupted"))
    }
}

impl Read for Watched<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.goes_on()?;
        let count = self.file.read_at(buf, self.bytes)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

impl Source for Watched<'_> {
    fn zeroes(&mut self) -> u64 {
        self.holes.from(&self.file, self.bytes)
    }

    fn skip(&mut self, zeroes: u64) -> std::io::Result<()> {
        self.goes_on()?;
        self.bytes += zeroes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_got_the_inode_of_a_deleted_one_is_no_other_name_of_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "text").unwrap();
        let folder = File::open(dir.path()).unwrap();
        let status = Status::of_name(folder.as_fd(), c"file", false).unwrap();
        let mut links = Links::default();
        remember(&mut links, &status, b"first");
        let target = b"first".to_vec();
        assert_eq!(file_or_link(&status, &links), Kind::HardLink { target });
        // As if what has the inode now had been made, or changed, at another time than what had it.
        for born in [Born::Made((0, 0)), Born::Changed((status.ctime.0, 1_000_000_000))] {
            for linked in links.files.values_mut() {
                linked.born = born;
            }
            assert_eq!(file_or_link(&status, &links), Kind::File);
        }
    }

    #[test]
    fn names_of_one_thing_share_a_number_and_those_of_another_one_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for (first, second) in [("a", Some("b")), ("c", Some("d")), ("e", None)] {
            std::os::unix::fs::symlink("nowhere", at(first)).unwrap();
            if let Some(second) = second {
                std::fs::hard_link(at(first), at(second)).unwrap();
            }
        }
        let folder = File::open(dir.path()).unwrap();
        let status = |name| Status::of_name(folder.as_fd(), name, false).unwrap();
        let mut links = Links::default();
        let numbers = [c"a", c"d", c"b", c"c", c"e"].map(|name| shared(&mut links, &status(name)));
        assert_eq!(numbers, [1, 2, 1, 2, 0]);
        // What has the inode of a deleted one by now is another thing.
        for (born, _) in links.others.values_mut() {
            *born = Born::Made((0, 0));
        }
        let numbers = [c"a", c"b", c"c"].map(|name| shared(&mut links, &status(name)));
        assert_eq!(numbers, [3, 3, 4]);
    }

    #[test]
    fn roots_lose_what_leads_out_of_the_tree() {
        let stored = |path: &str| {
            let mut found = roots(&[PathBuf::from(path)]).unwrap();
            String::from_utf8(found.remove(0).stored).unwrap()
        };
        let cases = [
            ("/srv/ann", "srv/ann"),
            ("/", ""),
            (".", ""),
            ("./a/./b/", "a/b"),
            ("../../x/y", "x/y"),
            ("a/../b", "b"),
        ];
        for (path, expected) in cases {
            assert_eq!(stored(path), expected, "{path}");
        }
        let both = |a: &str, b: &str| roots(&[a.into(), b.into()]);
        assert!(both("a", "b").is_ok() && both("a", "ab").is_ok());
        for (a, b) in [("a", "a"), ("/a", "../a"), ("a/b", "a"), (".", "x")] {
            assert!(both(a, b).is_err(), "{a} and {b}");
        }
    }
}
