//! A file system while it is mounted.
//! Room: onefold-mount.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use onefold_archive::Browser;

use crate::ahead::{Ahead, Runs, hand_over};
use crate::damage::Damage;
use crate::door::Door;

/// Threads that answer: readers beside each other, and decompressing beside copying.
const THREADS: usize = 2;

/// How it is mounted, for the user alone or for others too.
pub(crate) fn config(allow_other: bool) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        // Archives of others are looked at as well: their programs get nobody's rights, and
        // their devices lead nowhere.
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::FSName("onefold".to_owned()),
        MountOption::Subtype("onefold".to_owned()),
    ];
    if allow_other {
        config.acl = SessionACL::All;
        config.mount_options.push(MountOption::DefaultPermissions);
    }
    config.n_threads = Some(THREADS);
    config
}

/// A file system that is mounted. Dropping it leaves it mounted until the process ends.
pub struct Mounted {
    unmounter: SessionUnmounter,
    /// Answers the kernel.
    thread: JoinHandle<io::Result<()>>,
}

impl Mounted {
    /// Mount at `dir`, for the user alone or for others too. `ended` is called when it is mounted
    /// no longer, whoever unmounted it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn start(
        browser: Browser,
        damage: &Arc<Damage>,
        (dir, allow_other): (&Path, bool),
        ended: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let (browser, (ahead, runs)) = (Arc::new(browser), Ahead::new());
        let door = Door::new(Arc::clone(&browser), Arc::clone(damage), ahead);
        let session = Session::new(door, dir, &config(allow_other))?;
        Self::answering(session, (browser, runs), ended)
    }

    /// Answer all that is asked, and hand over what is to be read next.
    pub(crate) fn answering(
        mut session: Session<Door>,
        (browser, runs): (Arc<Browser>, Runs),
        ended: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let unmounter = session.unmount_callable();
        let kernel = session.notifier();
        // It ends with the mount, when nobody tells it any more of what was read.
        std::thread::Builder::new()
            .name("mount-ahead".to_owned())
            .spawn(move || hand_over(&runs, &browser, &kernel))?;
        let answer = move || {
            let result = session.run();
            ended();
            result
        };
        let thread = std::thread::Builder::new().name("mount".to_owned()).spawn(answer)?;
        Ok(Self { unmounter, thread })
    }

    /// Whether it is mounted no longer.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Unmount it.
    ///
    /// # Errors
    /// It is in use, or cannot be unmounted.
    pub fn unmount(&mut self) -> io::Result<()> {
        self.unmounter.unmount()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_or_gets_rights_and_others_are_asked_for_theirs() {
        let always = [MountOption::RO, MountOption::NoSuid, MountOption::NoDev];
        let checked = MountOption::DefaultPermissions;
        for (allow_other, acl) in [(false, SessionACL::Owner), (true, SessionACL::All)] {
            let config = config(allow_other);
            assert!(always.iter().all(|option| config.mount_options.contains(option)));
            assert_eq!(config.mount_options.contains(&checked), allow_other);
            assert_eq!((config.acl, config.n_threads), (acl, Some(THREADS)));
        }
    }
}
