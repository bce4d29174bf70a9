//! The kernel's questions about a mounted archive, answered by walking about in it.
//! Room: onefold-mount.   In: requests of FUSE.   Out: `Browser`.
//! Nothing here changes while it is mounted, so the kernel may keep all that it is told.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};
use onefold_archive::{
    ArchiveError, Browser, Found, FoundKind, Kind, Listed, Metadata, Node, OpenFile,
};

use crate::ahead::Ahead;
use crate::damage::Damage;
use crate::recent::Recent;

/// How long the kernel may keep what it is told.
const KEEP: Duration = Duration::from_hours(24);
/// Bytes that one read asks for at most.
const READ_AHEAD: u32 = 1 << 20;
/// Of a place in a listing: `.` and `..` come before what the archive lists.
const DOTS: u64 = 2;

/// An archive, as the kernel sees it.
pub struct Door {
    browser: Arc<Browser>,
    damage: Arc<Damage>,
    ahead: Ahead,
    /// The kernel reads files without opening them, which saves two questions for each.
    recent: Recent<OpenFile>,
    /// Whether it lists folders in the same way.
    lists_unopened: bool,
    uid: u32,
    gid: u32,
}

impl Door {
    /// Answer from `browser`; damage that is met is named, and kept in `damage`; what was read is
    /// told to `ahead`.
    pub fn new(browser: Arc<Browser>, damage: Arc<Damage>, ahead: Ahead) -> Self {
        Self {
            browser,
            damage,
            ahead,
            recent: Recent::default(),
            lists_unopened: false,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    /// Name what is wrong; what the kernel is told of it.
    fn failed(&self, error: &ArchiveError) -> Errno {
        match error {
            // Nobody was given such a number.
            ArchiveError::Setting(_) => Errno::ESTALE,
            error => {
                self.damage.meet(error);
                Errno::EIO
            }
        }
    }

    fn node(number: INodeNo) -> Result<Node, Errno> {
        Node::of(number.0).ok_or(Errno::ESTALE)
    }

    fn found(&self, number: INodeNo) -> Result<Found, Errno> {
        let node = Self::node(number)?;
        self.browser.node(node).map_err(|error| self.failed(&error))
    }

    fn open_file(&self, number: INodeNo) -> Result<OpenFile, Errno> {
        let node = Self::node(number)?;
        self.browser.open(node).map_err(|error| self.failed(&error))
    }

    /// What `stat` says of it.
    fn attributes(&self, found: &Found) -> Result<FileAttr, Errno> {
        let number = found.node.number().ok_or(Errno::EOVERFLOW)?;
        let metadata = &found.metadata;
        let made_here = !matches!(found.kind, FoundKind::Entry(_));
        let time = time(metadata.mtime_s, metadata.mtime_ns);
        let rdev = match &found.kind {
            FoundKind::Entry(Kind::CharDevice { number } | Kind::BlockDevice { number }) => *number,
            _ => 0,
        };
        Ok(FileAttr {
            ino: INodeNo(number),
            size: found.size,
            blocks: found.size.div_ceil(512),
            // Neither is kept.
            atime: time,
            ctime: time,
            mtime: time,
            crtime: time,
            kind: file_type(&found.kind),
            perm: if matches!(file_type(&found.kind), FileType::Symlink) {
                0o777
            } else {
                (metadata.mode & 0o7777) as u16
            },
            nlink: found.links,
            uid: if made_here { self.uid } else { metadata.uid },
            gid: if made_here { self.gid } else { metadata.gid },
            rdev: device(rdev),
            blksize: 128 << 10,
            flags: 0,
        })
    }

    /// Hand out the names in a folder from a place on; `add` says when it has enough.
    fn list(
        &self,
        folder: INodeNo,
        from: u64,
        add: &mut dyn FnMut(u64, &[u8], &FileAttr) -> bool,
    ) -> Result<(), Errno> {
        let node = Self::node(folder)?;
        // Of `..` the kernel knows better.
        for (place, name) in [b".".as_slice(), b".."].into_iter().enumerate() {
            let place = place as u64;
            if from <= place && add(place + 1, name, &self.attributes(&self.found(folder)?)?) {
                return Ok(());
            }
        }
        let mut refused = None;
        let mut added = from < DOTS;
        let mut take = |listed: Listed| match self.attributes(&listed.found) {
            Ok(attributes) => {
                let full = add(listed.next + DOTS, &listed.name, &attributes);
                added |= !full;
                !full
            }
            Err(errno) => {
                refused = Some(errno);
                false
            }
        };
        let mut meet = |error: &ArchiveError| self.damage.meet(error);
        let end = self.browser.list(node, from.saturating_sub(DOTS), &mut meet, &mut take);
        match (end, refused) {
            // What was added is told first; the kernel asks again, and then gets the error.
            _ if added => Ok(()),
            (_, Some(errno)) => Err(errno),
            (end, None) => end.map_err(|error| self.failed(&error)),
        }
    }
}

/// Answer a question about an attribute: its size, or itself if it fits.
fn answer(reply: ReplyXattr, value: &[u8], size: u32) {
    match u32::try_from(value.len()) {
        Ok(len) if size == 0 => reply.size(len),
        Ok(len) if len <= size => reply.data(value),
        _ => reply.error(Errno::ERANGE),
    }
}

fn file_type(kind: &FoundKind) -> FileType {
    match kind {
        FoundKind::Folder | FoundKind::Entry(Kind::Directory) => FileType::Directory,
        FoundKind::Newest(_) | FoundKind::Entry(Kind::Symlink { .. }) => FileType::Symlink,
        // A hard link is never found: it is the file.
        FoundKind::Entry(Kind::File | Kind::HardLink { .. }) => FileType::RegularFile,
        FoundKind::Entry(Kind::Fifo) => FileType::NamedPipe,
        FoundKind::Entry(Kind::CharDevice { .. }) => FileType::CharDevice,
        FoundKind::Entry(Kind::BlockDevice { .. }) => FileType::BlockDevice,
    }
}

/// A device's number as the kernel's 32 bits have it.
fn device(number: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

fn time(seconds: i64, nanoseconds: u32) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let moment =
        if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    let moment = moment.and_then(|at| at.checked_add(Duration::from_nanos(nanoseconds.into())));
    moment.unwrap_or(UNIX_EPOCH)
}

impl Filesystem for Door {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Each is a matter of speed: a kernel that lacks one does without.
        for wanted in [
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_CACHE_SYMLINKS,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        let can = config.capabilities();
        if !can.contains(InitFlags::FUSE_NO_OPEN_SUPPORT) {
            return Err(std::io::Error::other("this takes Linux 3.16 or later"));
        }
        self.lists_unopened = can.contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        if let Err(most) = config.set_max_readahead(READ_AHEAD) {
            let _ = config.set_max_readahead(most);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = Self::node(parent).and_then(|parent| {
            let found = self.browser.find(parent, name.as_bytes());
            found.map_err(|error| self.failed(&error))?.ok_or(Errno::ENOENT)
        });
        match found.and_then(|found| self.attributes(&found)) {
            Ok(attributes) => reply.entry(&KEEP, &attributes, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.found(number).and_then(|found| self.attributes(&found)) {
            Ok(attributes) => reply.attr(&KEEP, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.found(number).map(|found| found.kind) {
            Ok(FoundKind::Newest(version)) => reply.data(version.to_string().as_bytes()),
            Ok(FoundKind::Entry(Kind::Symlink { target })) => reply.data(&target),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(errno) => reply.error(errno),
        }
    }

    /// Asked once: from then on the kernel keeps what it reads, and opens nothing.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = match self.recent.file(number.0, || self.open_file(number)) {
            Ok(file) => file,
            Err(errno) => return reply.error(errno),
        };
        let mut bytes = Vec::with_capacity((size as usize).min(READ_AHEAD as usize));
        // All of it or an error: what a shorter answer lacks reads as zeroes.
        match self.browser.read(&file, offset, size as usize, &mut bytes) {
            Ok(()) => {
                reply.data(&bytes);
                if offset == 0
                    && let Ok(node) = Self::node(number)
                {
                    self.ahead.saw(node, file.size());
                }
            }
            Err(error) => {
                self.damage.meet_in(&file, &error);
                reply.error(Errno::EIO);
            }
        }
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.lists_unopened {
            return reply.error(Errno::ENOSYS);
        }
        let keep = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
        reply.opened(FileHandle(0), keep);
    }

    fn readdir(
        &self,
        _: &Request,
        folder: INodeNo,
        _: FileHandle,
        from: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.list(folder, from, &mut |next, name, attributes| {
            reply.add(attributes.ino, next, attributes.kind, OsStr::from_bytes(name))
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        folder: INodeNo,
        _: FileHandle,
        from: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.list(folder, from, &mut |next, name, attributes| {
            let name = OsStr::from_bytes(name);
            reply.add(attributes.ino, next, name, &KEEP, attributes, Generation(0))
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let bytes: u64 = self.browser.versions().iter().map(|info| info.totals.logical_bytes).sum();
        let files: u64 = self.browser.versions().iter().map(|info| info.totals.entries).sum();
        // Full: nothing can be written.
        reply.statfs(bytes.div_ceil(4096), 0, 0, files, 0, 4096, 255, 4096);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.found(number) {
            Ok(Found { metadata: Metadata { xattrs, .. }, .. }) => {
                match xattrs.iter().find(|(known, _)| known == name.as_bytes()) {
                    Some((_, value)) => answer(reply, value, size),
                    None => reply.error(Errno::ENODATA),
                }
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        match self.found(number) {
            Ok(Found { metadata: Metadata { xattrs, .. }, .. }) => {
                let names = xattrs.iter().flat_map(|(name, _)| name.iter().chain(&[0])).copied();
                answer(reply, &names.collect::<Vec<u8>>(), size);
            }
            Err(errno) => reply.error(errno),
        }
    }
}

#[cfg(test)]
mod tests;
