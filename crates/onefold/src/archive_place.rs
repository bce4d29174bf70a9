//! Where an archive is: in a folder, or in an object store.
//! Room: onefold.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use onefold_archive::{
    Archive, ArchiveError, ArchiveIdentity, ArchiveSettings, LockKind, NewKey, RepairReport,
    Secret, SecretKind,
};

#[cfg(not(feature = "s3"))]
use crate::failure::Failure;
use crate::failure::Result;

/// What a place in S3 begins with. One with a slash too few is told, and no folder of that name
/// made.
const S3_SCHEME: &str = "s3:";
/// What a folder may begin with.
const FILE_SCHEME: &str = "file://";

type Outcome<T> = std::result::Result<T, ArchiveError>;

/// Where an archive is, or is to be.
pub enum Place<'a> {
    /// A folder of this machine.
    Folder(&'a Path),
    /// A place in an object store.
    #[cfg(feature = "s3")]
    Bucket(bucket::Bucket),
}

/// A folder that is named by its address is meant as if it were named by its path.
pub fn parse(text: &OsStr) -> PathBuf {
    let path = text.as_bytes().strip_prefix(FILE_SCHEME.as_bytes());
    let path = path.filter(|path| path.starts_with(b"/"));
    PathBuf::from(path.map_or(text, OsStr::from_bytes))
}

/// Whether it is in an object store.
pub fn is_remote(store: &Path) -> bool {
    store.as_os_str().as_bytes().starts_with(S3_SCHEME.as_bytes())
}

impl<'a> Place<'a> {
    /// The place that was named.
    pub fn of(store: &'a Path) -> Result<Self> {
        if !is_remote(store) {
            return Ok(Self::Folder(store));
        }
        #[cfg(feature = "s3")]
        return bucket::Bucket::open(store).map(Self::Bucket);
        #[cfg(not(feature = "s3"))]
        Err(Failure::nothing_done("this onefold was built without object stores")
            .hint("build it with: cargo build --release --features s3"))
    }

    /// What opens the archive, if it is encrypted.
    pub fn secret_kind(&self) -> Outcome<Option<SecretKind>> {
        match self {
            Self::Folder(path) => Archive::secret_kind_at(path),
            #[cfg(feature = "s3")]
            Self::Bucket(bucket) => Archive::secret_kind_in(&bucket.to_look()),
        }
    }

    /// Open the archive for what `kind` says, locked against what would disturb it.
    pub fn open(&self, kind: LockKind, secret: Option<&Secret>) -> Outcome<Archive> {
        match self {
            Self::Folder(path) => Archive::open_at_with(path, kind, secret),
            #[cfg(feature = "s3")]
            Self::Bucket(bucket) => Archive::open_with(bucket.locked(kind)?, secret),
        }
    }

    /// Check the archive, and repair it if told to.
    pub fn check(&self, repair: bool, secret: Option<&Secret>) -> Outcome<RepairReport> {
        match self {
            Self::Folder(path) => Archive::check_at(path, repair, secret),
            #[cfg(feature = "s3")]
            Self::Bucket(bucket) => {
                let kind = if repair { LockKind::Remove } else { LockKind::Read };
                Archive::check_with(bucket.locked(kind)?, repair, secret)
            }
        }
    }

    /// Make an archive. A folder is there already, and may get a settings file beside it.
    pub fn create(
        &self,
        settings: &ArchiveSettings,
        identity: ArchiveIdentity,
        key: Option<&NewKey<'_>>,
        beside: Option<&str>,
    ) -> Outcome<()> {
        match self {
            Self::Folder(path) => Archive::create_at(path, settings, identity, key, beside),
            #[cfg(feature = "s3")]
            Self::Bucket(bucket) => {
                let folder = bucket.locked(LockKind::Remove)?;
                Archive::create_with(&*folder, settings, identity, key)
            }
        }
    }
}

#[cfg(feature = "s3")]
mod bucket {
    use std::ffi::OsString;
    use std::path::Path;
    use std::sync::Arc;

    use onefold_archive::{ArchiveError, LockKind};
    use onefold_block::Folder;
    use onefold_objects::lease::Owner;
    use onefold_objects::{
        LeaseChange, LeaseError, ObjectFolder, Objects, S3Objects, S3Place, Use,
    };
    use rustix::rand::{GetRandomFlags, getrandom};

    use super::Outcome;
    use crate::failure::{Failure, Result};

    /// What has become of a lock, for who waits, or looks at a mounted archive.
    const fn text_of_lock(usage: Use, change: LeaseChange) -> &'static str {
        match (change, usage) {
            (LeaseChange::RanOut, Use::Read) => {
                "the bucket was out of reach for so long that the archive is no longer locked: \
                 what others remove from now on cannot be read any more"
            }
            (LeaseChange::RanOut, Use::Add | Use::Remove) => {
                "the bucket was out of reach for so long that the archive is no longer locked: \
                 nothing is changed any more"
            }
            (LeaseChange::TakenAgain, _) => "the archive is locked again",
        }
    }

    /// Reads of different objects that are made at once.
    const READS_AT_ONCE: usize = 16;

    /// A place in S3.
    pub struct Bucket(Arc<dyn Objects>);

    impl Bucket {
        pub fn open(store: &Path) -> Result<Self> {
            let place = S3Place::parse(store).map_err(Failure::nothing_done)?;
            let text = |(name, value): (OsString, OsString)| {
                Some((name.into_string().ok()?, value.into_string().ok()?))
            };
            let variables = std::env::vars_os().filter_map(text);
            let objects = S3Objects::open(&place, variables).map_err(|problem| {
                Failure::nothing_done(format!("cannot use '{place}': {problem}"))
            })?;
            Ok(Self(Arc::new(objects)))
        }

        /// The place for a look at settings, which are replaced as a whole.
        pub fn to_look(&self) -> ObjectFolder {
            ObjectFolder::new(Arc::clone(&self.0), None)
        }

        /// The place, locked; the lock is given up with the last handle of it.
        pub fn locked(&self, kind: LockKind) -> Outcome<Arc<dyn Folder>> {
            let usage = match kind {
                LockKind::Read => Use::Read,
                LockKind::Add => Use::Add,
                LockKind::Remove => Use::Remove,
            };
            let mut token = [0; 8];
            getrandom(&mut token, GetRandomFlags::empty()).map_err(|errno| ArchiveError::Io {
                context: "draw random numbers".to_owned(),
                source: errno.into(),
            })?;
            let system = rustix::system::uname();
            let host = system.nodename().to_string_lossy();
            let note = format!("process {} on {host}", std::process::id());
            let owner = Owner { token: u64::from_le_bytes(token), note };
            let tell = move |change| tracing::warn!("{}", text_of_lock(usage, change));
            let lease =
                S3Objects::lock(&self.0, usage, &owner, tell).map_err(|error| match error {
                    LeaseError::Held { holder } => ArchiveError::Locked { holder },
                    LeaseError::Store { address, source } => source.of("lock", address).into(),
                    error => ArchiveError::Io {
                        context: "lock".to_owned(),
                        source: std::io::Error::other(error),
                    },
                })?;
            let folder = ObjectFolder::new(Arc::clone(&self.0), Some(Arc::new(lease)));
            Ok(Arc::new(folder.with_reads_at_once(READS_AT_ONCE)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_may_be_named_by_their_address() {
        for (text, path) in [
            ("file:///backup/store", "/backup/store"),
            ("/backup/store", "/backup/store"),
            ("file://host/store", "file://host/store"),
            ("s3://bucket/a", "s3://bucket/a"),
            ("s3:/bucket/a", "s3:/bucket/a"),
            ("./s3:/a", "./s3:/a"),
        ] {
            assert_eq!(parse(OsStr::new(text)), Path::new(path));
            assert_eq!(is_remote(Path::new(path)), path.starts_with("s3"));
        }
    }
}
