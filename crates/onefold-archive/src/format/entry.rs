//! One path of a version: what it is, its metadata, and where its recipe begins.
//! Room: onefold-archive.
//! Invariant: a decoded path is relative, without empty, `.` and `..` components.

use std::cmp::Ordering;

use super::bytes::{checked, checksum};
use onefold_block::bytes::Writer;

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Directory,
    /// A file with content.
    File,
    /// A symbolic link.
    Symlink {
        /// What it says, byte for byte.
        target: Vec<u8>,
    },
    /// Another name of a file that comes earlier in the version.
    HardLink {
        /// The first name.
        target: Vec<u8>,
    },
    /// A named pipe.
    Fifo,
    /// A character device.
    CharDevice {
        /// Its device number.
        number: u64,
    },
    /// A block device.
    BlockDevice {
        /// Its device number.
        number: u64,
    },
}

impl Kind {
    const fn id(&self) -> u8 {
        match self {
            Self::Directory => 1,
            Self::File => 2,
            Self::Symlink { .. } => 3,
            Self::HardLink { .. } => 4,
            Self::Fifo => 5,
            Self::CharDevice { .. } => 6,
            Self::BlockDevice { .. } => 7,
        }
    }

    /// The letter that `ls -l` shows.
    pub const fn letter(&self) -> char {
        match self {
            Self::Directory => 'd',
            Self::File | Self::HardLink { .. } => '-',
            Self::Symlink { .. } => 'l',
            Self::Fifo => 'p',
            Self::CharDevice { .. } => 'c',
            Self::BlockDevice { .. } => 'b',
        }
    }

    /// A word for JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::File => "file",
            Self::Symlink { .. } => "symlink",
            Self::HardLink { .. } => "hardlink",
            Self::Fifo => "fifo",
            Self::CharDevice { .. } => "char_device",
            Self::BlockDevice { .. } => "block_device",
        }
    }

    /// Whether there is content to read.
    pub const fn has_content(&self) -> bool {
        matches!(self, Self::File | Self::HardLink { .. })
    }
}

/// Who owns a path and when it changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Permission bits, with set-user-ID, set-group-ID and sticky.
    pub mode: u32,
    /// User number.
    pub uid: u32,
    /// Group number.
    pub gid: u32,
    /// Last change of the content, seconds since 1970.
    pub mtime_s: i64,
    /// Nanoseconds past that.
    pub mtime_ns: u32,
    /// Extended attributes, by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// How to tell that a file was not touched since it was added. All zero if that cannot be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Its inode's number. Of what is neither file nor folder: see [`Entry::shared`].
    pub inode: u64,
    /// Last change of content or metadata, seconds since 1970.
    pub ctime_s: i64,
    /// Nanoseconds past that.
    pub ctime_ns: u32,
}

/// Where the chunk references of a file are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// Bytes of content.
    pub size: u64,
    /// First byte of the first reference in the version's file.
    pub at: u64,
    /// Number of references.
    pub chunks: u64,
}

/// One path of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The path, relative, components separated by `/`; any bytes but NUL.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Who owns it and when it changed.
    pub metadata: Metadata,
    /// How to tell whether it was touched since, for files; which entries are names of one thing,
    /// for what is neither file nor folder.
    pub stamp: Stamp,
    /// Where its content is, for files and hard links.
    pub recipe: Recipe,
}

impl Entry {
    /// The number that the names of one symbolic link, pipe or device share in a version; none if
    /// it has no other one there, or was added by a build from before 2026-11-30.
    pub fn shared(&self) -> Option<u64> {
        let is_other = !matches!(self.kind, Kind::Directory | Kind::File | Kind::HardLink { .. });
        Some(self.stamp.inode).filter(|&number| is_other && number != 0)
    }

    /// Whether all but the path is the same, as it is of two names of one thing.
    pub fn is_like(&self, other: &Self) -> bool {
        self.kind == other.kind && self.metadata == other.metadata
    }
}

/// Whether a path may stand in a version: relative, and going nowhere but down.
pub fn is_valid_path(path: &[u8]) -> bool {
    !path.contains(&0)
        && path
            .split(|&byte| byte == b'/')
            .all(|part| !part.is_empty() && part != b"." && part != b"..")
}

/// The order of paths in a version: a folder, then what is in it, names by their bytes.
pub fn compare_paths(a: &[u8], b: &[u8]) -> Ordering {
    a.split(|&byte| byte == b'/').cmp(b.split(|&byte| byte == b'/'))
}

/// Whether `path` is `folder` or lies in it.
pub fn is_within(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// The entry's bytes as they stand at `position`.
pub fn encode(entry: &Entry, position: u64) -> Vec<u8> {
    let mut out = Writer::default();
    out.u64(position);
    out.u8(entry.kind.id());
    let Metadata { mode, uid, gid, mtime_s, mtime_ns, ref xattrs } = entry.metadata;
    for field in [mode, uid, gid, mtime_ns] {
        out.u32(field);
    }
    out.bytes(&mtime_s.to_le_bytes());
    out.u64(entry.stamp.inode);
    out.bytes(&entry.stamp.ctime_s.to_le_bytes());
    out.u32(entry.stamp.ctime_ns);
    for field in [entry.recipe.size, entry.recipe.at, entry.recipe.chunks] {
        out.u64(field);
    }
    out.sized(&entry.path);
    match &entry.kind {
        Kind::Symlink { target } | Kind::HardLink { target } => out.sized(target),
        Kind::CharDevice { number } | Kind::BlockDevice { number } => out.u64(*number),
        Kind::Directory | Kind::File | Kind::Fifo => {}
    }
    out.u32(xattrs.len() as u32);
    for (name, value) in xattrs {
        out.sized(name);
        out.sized(value);
    }
    checksum(&mut out);
    out.0
}

/// The entry at `position`; `None` if it is damaged or cannot be.
pub fn decode(bytes: &[u8], position: u64) -> Option<Entry> {
    let mut reader = checked(bytes)?;
    if reader.u64()? != position {
        return None;
    }
    let kind = reader.u8()?;
    let (mode, uid, gid, mtime_ns) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
    let mtime_s = i64::from_le_bytes(reader.array()?);
    let inode = reader.u64()?;
    let ctime_s = i64::from_le_bytes(reader.array()?);
    let stamp = Stamp { inode, ctime_s, ctime_ns: reader.u32()? };
    let recipe = Recipe { size: reader.u64()?, at: reader.u64()?, chunks: reader.u64()? };
    let path = reader.sized()?.to_vec();
    let kind = match kind {
        1 => Kind::Directory,
        2 => Kind::File,
        3 => Kind::Symlink { target: reader.sized()?.to_vec() },
        4 => Kind::HardLink { target: reader.sized()?.to_vec() },
        5 => Kind::Fifo,
        6 => Kind::CharDevice { number: reader.u64()? },
        7 => Kind::BlockDevice { number: reader.u64()? },
        _ => return None,
    };
    let mut xattrs = Vec::new();
    for _ in 0..reader.u32()? {
        xattrs.push((reader.sized()?.to_vec(), reader.sized()?.to_vec()));
    }
    let linked = !matches!(&kind, Kind::HardLink { target } if !is_valid_path(target));
    let metadata = Metadata { mode, uid, gid, mtime_s, mtime_ns, xattrs };
    let valid = linked && is_valid_path(&path) && mtime_ns < 1_000_000_000;
    (valid && reader.remaining() == 0).then_some(Entry { path, kind, metadata, stamp, recipe })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_elsewhere_are_no_paths() {
        for good in ["a", "a/b", "...", "a/..b", ".hidden", "a b", "\u{fffd}"] {
            assert!(is_valid_path(good.as_bytes()), "{good}");
        }
        for bad in ["", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a\0b"] {
            assert!(!is_valid_path(bad.as_bytes()), "{bad}");
        }
        assert!(is_valid_path(b"\xff\xfe/\x01"));
    }

    #[test]
    fn a_folder_comes_before_what_is_in_it_and_that_before_its_neighbours() {
        let sorted: [&[u8]; 6] = [b"a", b"a/z", b"a/z/b", b"a b", b"a.b", b"b"];
        for pair in sorted.windows(2) {
            assert_eq!(compare_paths(pair[0], pair[1]), Ordering::Less, "{pair:?}");
        }
        assert!(is_within(b"a/z", b"a") && is_within(b"a", b"a") && !is_within(b"a b", b"a"));
    }

    #[test]
    fn a_time_of_a_whole_second_and_more_is_none() {
        for (mtime_ns, valid) in [(999_999_999, true), (1_000_000_000, false)] {
            let entry = Entry {
                path: b"a".to_vec(),
                kind: Kind::File,
                metadata: Metadata { mtime_ns, ..Metadata::default() },
                stamp: Stamp::default(),
                recipe: Recipe::default(),
            };
            assert_eq!(decode(&encode(&entry, 1), 1).is_some(), valid, "{mtime_ns}");
        }
    }

    #[test]
    fn entries_come_back_and_damage_is_noticed() {
        let target = b"x/\xff".to_vec();
        let kinds = [
            Kind::Directory,
            Kind::File,
            Kind::Symlink { target: b"../../etc".to_vec() },
            Kind::HardLink { target },
            Kind::Fifo,
            Kind::CharDevice { number: 0x0103 },
            Kind::BlockDevice { number: 1 << 40 },
        ];
        for kind in kinds {
            let metadata = Metadata {
                mode: 0o4755,
                uid: 1,
                gid: 2,
                mtime_s: -5,
                mtime_ns: 999_999_999,
                xattrs: vec![(b"user.a".to_vec(), b"\0b".to_vec())],
            };
            let recipe = Recipe { size: 10, at: 40, chunks: 1 };
            let stamp = Stamp { inode: 1 << 50, ctime_s: -7, ctime_ns: 8 };
            let entry = Entry { path: b"d/\xfe".to_vec(), kind, metadata, stamp, recipe };
            let bytes = encode(&entry, 77);
            assert_eq!(decode(&bytes, 77), Some(entry));
            assert_eq!(decode(&bytes, 78), None);
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert_eq!(decode(&damaged, 77), None, "byte {at}");
            }
        }
        let evil = Entry {
            path: b"a/../b".to_vec(),
            kind: Kind::Directory,
            metadata: Metadata::default(),
            stamp: Stamp::default(),
            recipe: Recipe::default(),
        };
        assert_eq!(decode(&encode(&evil, 0), 0), None, "right checksum, wrong path");
    }
}
