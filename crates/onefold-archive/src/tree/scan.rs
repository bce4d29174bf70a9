//! Reading trees: every path below the given ones, in order, into a version.
//! Room: onefold-archive.
//! Invariant: what cannot be read is named and left out; all else goes on.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;

use super::exclude::{CACHE_TAG, Excludes, is_cache};
use super::holes::Holes;
use crate::adder::Adder;
use crate::chunk_stream::Source;
use crate::error::ArchiveError;
use crate::format::entry::{Entry, Kind, Metadata, Recipe, Stamp, compare_paths, is_within};

/// Largest extended attribute that is kept, in bytes: Linux has none that is larger.
const XATTR_BYTES_MAX: usize = 64 << 10;

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
    let mut visit = |path: &Path, _: &[u8], metadata: &fs::Metadata| {
        if metadata.is_file() {
            bytes += metadata.len();
        }
        let _ = path;
        if stop() { Err(ArchiveError::Interrupted) } else { Ok(()) }
    };
    let mut ignore = |_: &Path, _: String| {};
    for root in roots {
        walk(root, options, &mut visit, &mut ignore).ok()?;
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
    let mut links = std::collections::HashMap::new();
    for root in roots {
        let mut visit = |path: &Path, stored: &[u8], metadata: &fs::Metadata| {
            if !progress(&report) {
                return Err(ArchiveError::Interrupted);
            }
            add_path(adder, (path, stored), metadata, &mut links, &mut report, progress)
        };
        walk(root, options, &mut visit, &mut |path, problem| {
            unlisted.push(Problem { path: path.display().to_string(), problem });
        })?;
    }
    report.problems.append(&mut unlisted);
    Ok(report)
}

/// Hears how far a scan is, and answers whether to go on.
type Progress<'a> = dyn FnMut(&ScanReport) -> bool + 'a;
type Visit<'a> = dyn FnMut(&Path, &[u8], &fs::Metadata) -> Result<(), ArchiveError> + 'a;
type Trouble<'a> = dyn FnMut(&Path, String) + 'a;

/// Visit everything below a root: a folder before what is in it, names by their bytes.
fn walk(
    root: &Root,
    options: &ScanOptions,
    visit: &mut Visit<'_>,
    trouble: &mut Trouble<'_>,
) -> Result<(), ArchiveError> {
    let top = match if root.stored.is_empty() {
        fs::metadata(&root.path)
    } else {
        fs::symlink_metadata(&root.path)
    } {
        Ok(metadata) => metadata,
        Err(error) => {
            trouble(&root.path, error.to_string());
            return Ok(());
        }
    };
    if !root.stored.is_empty() {
        visit(&root.path, &root.stored, &top)?;
    }
    let mut stack = Vec::new();
    if top.is_dir() && options.skip != Some((top.dev(), top.ino())) {
        let names = names(&root.path, options, trouble);
        stack.push((root.path.clone(), root.stored.clone(), names));
    }
    while let Some((folder, folder_stored, rest)) = stack.last_mut() {
        let Some(name) = rest.next() else {
            stack.pop();
            continue;
        };
        let path = folder.join(&name);
        let mut stored = folder_stored.clone();
        if !stored.is_empty() {
            stored.push(b'/');
        }
        stored.extend_from_slice(name.as_bytes());
        if options.exclude.matches(&stored, name.as_bytes()) {
            continue;
        }
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) => {
                trouble(&path, error.to_string());
                continue;
            }
        };
        if options.skip == Some((metadata.dev(), metadata.ino())) {
            continue;
        }
        visit(&path, &stored, &metadata)?;
        if metadata.is_dir() && (!options.one_file_system || metadata.dev() == top.dev()) {
            let names = names(&path, options, trouble);
            stack.push((path, stored, names));
        }
    }
    Ok(())
}

fn names(
    folder: &Path,
    options: &ScanOptions,
    trouble: &mut Trouble<'_>,
) -> std::vec::IntoIter<OsString> {
    let mut names = Vec::new();
    if options.exclude_caches && is_cache(folder) {
        return vec![OsString::from(CACHE_TAG)].into_iter();
    }
    let listed = fs::read_dir(folder).and_then(|entries| {
        for entry in entries {
            names.push(entry?.file_name());
        }
        Ok(())
    });
    if let Err(error) = listed {
        trouble(folder, format!("cannot list it: {error}"));
    }
    names.sort_unstable();
    names.into_iter()
}

/// Files with several names, by device and inode.
type Links = std::collections::HashMap<(u64, u64), Linked>;

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
    Made(SystemTime),
    Changed(i64, i64),
}

impl Born {
    fn of(metadata: &fs::Metadata) -> Self {
        let changed = Self::Changed(metadata.ctime(), metadata.ctime_nsec());
        metadata.created().map_or(changed, Self::Made)
    }
}

/// Other names of this file may come.
fn remember(links: &mut Links, metadata: &fs::Metadata, stored: &[u8]) {
    let linked = Linked { stored: stored.to_vec(), born: Born::of(metadata) };
    links.insert((metadata.dev(), metadata.ino()), linked);
}

fn add_path(
    adder: &mut Adder<'_>,
    (path, stored): (&Path, &[u8]),
    metadata: &fs::Metadata,
    links: &mut Links,
    report: &mut ScanReport,
    progress: &mut Progress<'_>,
) -> Result<(), ArchiveError> {
    let problem = |problem: String| Problem { path: path.display().to_string(), problem };
    let kind = match kind_of(path, metadata, links) {
        Ok(Some(kind)) => kind,
        Ok(None) => {
            report.sockets += 1;
            return Ok(());
        }
        Err(error) => {
            report.problems.push(problem(error.to_string()));
            return Ok(());
        }
    };
    let xattrs = xattrs_of(path).unwrap_or_else(|error| {
        let told = format!("its extended attributes cannot be read: {error}");
        report.problems.push(problem(told));
        Vec::new()
    });
    let kept = metadata_of(metadata, xattrs);
    let stamp = stamp_of(&kind, metadata);
    let recipe = Recipe::default();
    let entry = Entry { path: stored.to_vec(), kind, metadata: kept, stamp, recipe };
    if entry.kind != Kind::File {
        return adder.entry(entry);
    }
    let linked = metadata.nlink() > 1;
    if adder.unchanged_file(&entry, metadata.len(), linked)? {
        report.bytes += metadata.len();
        report.files += 1;
        report.unchanged += 1;
        if linked {
            remember(links, metadata, stored);
        }
        return Ok(());
    }
    let before = report.bytes;
    let mut goes_on = |bytes| {
        report.bytes = before + bytes;
        progress(report)
    };
    let added = add_file(adder, path, entry, metadata, &mut goes_on)?;
    report.bytes = before;
    match added {
        Ok((bytes, same)) => {
            if !same {
                let told = "it changed while it was read; stored as it was found";
                report.problems.push(problem(told.to_owned()));
            }
            report.bytes += bytes;
            report.files += 1;
            if linked {
                remember(links, metadata, stored);
            }
        }
        Err(error) => report.problems.push(problem(error.to_string())),
    }
    Ok(())
}

/// How to tell later whether a file was touched.
fn stamp_of(kind: &Kind, metadata: &fs::Metadata) -> Stamp {
    match kind {
        Kind::File => Stamp {
            inode: metadata.ino(),
            ctime_s: metadata.ctime(),
            ctime_ns: metadata.ctime_nsec() as u32,
        },
        _ => Stamp::default(),
    }
}

fn metadata_of(metadata: &fs::Metadata, xattrs: Vec<(Vec<u8>, Vec<u8>)>) -> Metadata {
    Metadata {
        mode: metadata.mode() & 0o7777,
        uid: metadata.uid(),
        gid: metadata.gid(),
        mtime_s: metadata.mtime(),
        mtime_ns: metadata.mtime_nsec() as u32,
        xattrs,
    }
}

/// What a path is; `None` for a socket, which is nothing to keep.
fn kind_of(path: &Path, metadata: &fs::Metadata, links: &Links) -> std::io::Result<Option<Kind>> {
    let kind = metadata.file_type();
    Ok(Some(if kind.is_dir() {
        Kind::Directory
    } else if kind.is_symlink() {
        Kind::Symlink { target: fs::read_link(path)?.into_os_string().into_vec() }
    } else if kind.is_fifo() {
        Kind::Fifo
    } else if kind.is_char_device() {
        Kind::CharDevice { number: metadata.rdev() }
    } else if kind.is_block_device() {
        Kind::BlockDevice { number: metadata.rdev() }
    } else if kind.is_socket() {
        return Ok(None);
    } else {
        match links.get(&(metadata.dev(), metadata.ino())) {
            Some(first) if first.born == Born::of(metadata) => {
                Kind::HardLink { target: first.stored.clone() }
            }
            _ => Kind::File,
        }
    }))
}

/// Add a file's content: the bytes read, and whether it was the same at the end; or why it cannot
/// be read. `goes_on` hears the bytes so far.
fn add_file(
    adder: &mut Adder<'_>,
    path: &Path,
    entry: Entry,
    before: &fs::Metadata,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<std::io::Result<(u64, bool)>, ArchiveError> {
    let file = match open_file(path) {
        Ok(file) => file,
        Err(error) => return Ok(Err(error)),
    };
    let holes = Holes::of(before);
    let mut watched = Watched { file, bytes: 0, holes, goes_on, stopped: false };
    let read = adder.sparse_file(entry, before.nlink() > 1, &mut watched)?;
    if watched.stopped {
        return Err(ArchiveError::Interrupted);
    }
    Ok(read.map(|bytes| {
        let same = watched
            .file
            .metadata()
            .is_ok_and(|now| now.len() == bytes && now.modified().ok() == before.modified().ok());
        (bytes, same)
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

/// Open a file that was one a moment ago, without following a link or waiting for a pipe.
fn open_file(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(std::io::Error::other("it is no file any more"))
    }
}

fn xattrs_of(path: &Path) -> rustix::io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut list = [0; 4096];
    let mut long = Vec::new();
    let names: &[u8] = match rustix::fs::llistxattr(path, &mut list[..]) {
        Ok(len) => &list[..len],
        Err(rustix::io::Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Err(rustix::io::Errno::RANGE) => {
            long.resize(XATTR_BYTES_MAX, 0);
            let len = rustix::fs::llistxattr(path, &mut long[..])?;
            &long[..len]
        }
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; XATTR_BYTES_MAX];
        let len = rustix::fs::lgetxattr(path, OsStr::from_bytes(name), &mut value[..])?;
        value.truncate(len);
        found.push((name.to_vec(), value));
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_got_the_inode_of_a_deleted_one_is_no_other_name_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "text").unwrap();
        let metadata = fs::metadata(&path).unwrap();
        let mut links = Links::new();
        remember(&mut links, &metadata, b"first");
        let target = b"first".to_vec();
        let kind = |links: &Links| kind_of(&path, &metadata, links).unwrap().unwrap();
        assert_eq!(kind(&links), Kind::HardLink { target });
        // As if what has the inode now had been made, or changed, at another time than what had it.
        let earlier = SystemTime::UNIX_EPOCH;
        for born in [Born::Made(earlier), Born::Changed(metadata.ctime(), 1_000_000_000)] {
            for linked in links.values_mut() {
                linked.born = born;
            }
            assert_eq!(kind(&links), Kind::File);
        }
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
