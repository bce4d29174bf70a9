//! How a command fails: a message for people, a hint at what to do, an exit status for programs.
//! Room: onefold.

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use onefold_block::BlockError;
use onefold_control::Fault;
use onefold_pool::PoolError;

/// What commands return.
pub type Result<T> = std::result::Result<T, Failure>;

/// Why a command ends without having done all that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    status: u8,
    /// What was wrong, and with what.
    pub message: String,
    /// What to do next.
    pub hints: Vec<String>,
    /// Whether a server has the pool: it may be asked instead, once it listens.
    pub held_by_a_server: bool,
}

impl Failure {
    fn new(status: u8, message: String, hints: Vec<String>) -> Self {
        Self { status, message, hints, held_by_a_server: false }
    }

    /// Usage or input that cannot be used: nothing was done. Exit status 2.
    pub fn nothing_done(message: impl Into<String>) -> Self {
        Self::new(2, message.into(), Vec::new())
    }

    /// What was asked about is bad, or work failed half-way. Exit status 1.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(1, message.into(), Vec::new())
    }

    /// A signal ended it; `left` says what there is now. Exit status 128 and the signal's number.
    pub fn interrupted(signal: i32, left: &str) -> Self {
        let message = if left.is_empty() { String::new() } else { format!("; {left}") };
        let status = u8::try_from(128 + signal).unwrap_or(1);
        Self::new(status, format!("interrupted{message}"), Vec::new())
    }

    /// With what there is now.
    #[must_use]
    pub fn left(mut self, what: &str) -> Self {
        self.message = format!("{}; {what}", self.message);
        self
    }

    /// With what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// As it travels from a server.
    pub fn into_fault(self) -> Fault {
        let Self { status, message, hints, .. } = self;
        Fault { message, hints, exit_status: status }
    }

    /// What came from a server.
    pub fn of_fault(fault: Fault) -> Self {
        Self::new(fault.exit_status, fault.message, fault.hints)
    }

    /// The exit status.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.status)
    }

    /// A pool's error, with the pool's name and what to do about it.
    pub fn pool(pool: &Path, error: PoolError) -> Self {
        let at = pool.display();
        match error {
            PoolError::NoPool | PoolError::NotEmpty(_) if has_lost_its_supers(pool) => {
                lost_its_supers(pool)
            }
            PoolError::NoPool if pool.is_dir() => {
                let message = format!("'{at}' is no pool: it has neither super.0 nor super.1");
                let failure = Self::nothing_done(message);
                let empty = pool.read_dir().is_ok_and(|mut entries| entries.next().is_none());
                if empty {
                    failure.hint(format!("make one there with: onefold pool create {at}"))
                } else {
                    failure.hint("make one in an empty folder with: onefold pool create FOLDER")
                }
            }
            PoolError::NotEmpty(name) => Self::nothing_done(format!(
                "'{at}' is neither a pool nor empty: it already holds '{name}'"
            ))
            .hint("name a folder that is empty or does not exist"),
            PoolError::Locked { holder } => locked(pool, &holder),
            error @ PoolError::NewerFormat { .. } => {
                Self::nothing_done(format!("pool '{at}': {error}"))
                    .hint("use the onefold that wrote it, or a later one")
            }
            error @ PoolError::CheckGaveWay => Self::bad(format!("pool '{at}': {error}"))
                .hint("nothing is known of it; give the disk space, and check again")
                .hint("a stopped pool is checked without any: onefold pool drain"),
            error if is_about_the_request(&error) => Self::nothing_done(error.to_string()),
            error @ PoolError::ShrinkLosesData { .. } => Self::nothing_done(error.to_string())
                .hint("--discard throws that data away; `onefold volume export` keeps a copy"),
            error if error.is_corruption() => Self::bad(format!("pool '{at}': {error}"))
                .hint(format!("for a list of all damage: onefold pool check {at}")),
            error if error.is_no_space() => Self::bad(format!("pool '{at}': {error}"))
                .hint("what was flushed is safe; make room on the disk, then go on"),
            error => Self::bad(format!("pool '{at}': {error}")),
        }
    }

    /// A failed transfer to or from a volume.
    pub fn volume(name: &str, error: &BlockError) -> Self {
        let failure = Self::bad(format!("volume '{name}': {error}"));
        match error {
            BlockError::NoSpace(_) => {
                failure.hint("what was flushed is safe; make room on the disk, then go on")
            }
            _ => failure,
        }
    }

    /// A system call that failed before anything was done.
    pub fn unusable(what: &str, path: &Path, error: impl Display) -> Self {
        Self::nothing_done(format!("cannot {what} '{}': {error}", path.display()))
    }

    /// A system call that failed while work was under way.
    pub fn broke(what: &str, path: &Path, error: impl Display) -> Self {
        Self::bad(format!("cannot {what} '{}': {error}", path.display()))
    }
}

/// Whether this is a pool with data, but for what says where they are.
fn has_lost_its_supers(pool: &Path) -> bool {
    let has = |name: &str| pool.join(name).exists();
    let mut containers = pool.join("containers").read_dir().into_iter().flatten().flatten();
    !has("super.0")
        && !has("super.1")
        && has("journal")
        && has("map")
        && containers.any(|entry| entry.path().extension().is_some_and(|end| end == "container"))
}

fn lost_its_supers(pool: &Path) -> Failure {
    let at = pool.display();
    Failure::nothing_done(format!(
        "'{at}' is a pool that has lost super.0 and super.1; its map, journal and containers are \
         there"
    ))
    .hint("put either of the two back, from a copy or snapshot of the folder; nothing was changed")
}

/// Errors that say what is wrong with the request, and leave the pool as it was.
fn is_about_the_request(error: &PoolError) -> bool {
    matches!(
        error,
        PoolError::NoVolume { .. }
            | PoolError::VolumeExists(_)
            | PoolError::SnapshotName(_)
            | PoolError::NoSnapshot { .. }
            | PoolError::IsSnapshot(_)
            | PoolError::SnapshotHeld(_)
            | PoolError::SnapshotNeeded { .. }
            | PoolError::SnapshotPassed { .. }
            | PoolError::HasSnapshots { .. }
            | PoolError::ChangedSince { .. }
            | PoolError::NoSnapshotNamed(_)
            | PoolError::VolumeName(_)
            | PoolError::VolumeSize { .. }
            | PoolError::Setting(_)
            | PoolError::ReadOnly
    )
}

/// The pool is in use; says by whom, where the system tells.
fn locked(pool: &Path, holder: &str) -> Failure {
    let at = pool.display();
    let in_use = |holder| {
        let failure = Failure::nothing_done(format!("pool '{at}' is in use by {holder}"));
        failure.hint("wait for it, or stop it")
    };
    let number = holder.strip_prefix("process ").map(str::parse::<u32>);
    let Some(Ok(process)) = number else {
        // Of another machine, or unknown.
        return in_use(holder);
    };
    let Some(command) = command_line(process) else { return in_use("another process") };
    let message = format!("pool '{at}' is in use by process {process} ({command})");
    let held_by_a_server = command.split(' ').nth(1) == Some("serve");
    let failure = Failure { held_by_a_server, ..Failure::nothing_done(message) };
    if held_by_a_server {
        return failure.hint(format!("stop it with: onefold pool drain {at}"));
    }
    failure.hint(format!("stop it with: kill {process}"))
}

/// The command line of a process that runs; `None` if there is none, as when the number is old.
fn command_line(process: u32) -> Option<String> {
    words_of(&std::fs::read(format!("/proc/{process}/cmdline")).ok()?)
}

/// A command line as the kernel tells it, its program by name and no more than a line of it.
fn words_of(told: &[u8]) -> Option<String> {
    let words: Vec<String> = told
        .split(|&byte| byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let (program, rest) = words.split_first()?;
    let program = Path::new(program).file_name()?.to_string_lossy().into_owned();
    let line = [&[program], rest].concat().join(" ");
    let short: String = line.chars().take(80).collect();
    Some(if short.len() < line.len() { format!("{short}...") } else { line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_the_status_that_its_kind_has() {
        let statuses = [Failure::bad("x"), Failure::nothing_done("x"), Failure::interrupted(2, "")];
        assert_eq!(statuses.map(|failure| failure.status), [1, 2, 130]);
        assert_eq!(Failure::interrupted(1000, "").status, 1);
        assert_eq!(Failure::interrupted(15, "a part").message, "interrupted; a part");
    }

    #[test]
    fn a_folder_without_a_pool_is_told_for_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let told = || {
            let failure = Failure::pool(folder.path(), PoolError::NoPool);
            format!("{} {}", failure.message, failure.hints.concat())
        };
        assert!(told().contains("neither super.0 nor super.1 make one there with"), "{}", told());
        let pieces =
            ["journal", "map", "containers/0.container"].map(|name| folder.path().join(name));
        std::fs::create_dir(folder.path().join("containers")).unwrap();
        std::fs::write(folder.path().join("containers/other"), "").unwrap();
        for piece in &pieces {
            std::fs::write(piece, "").unwrap();
        }
        assert!(told().contains("has lost super.0 and super.1"), "{}", told());
        for piece in &pieces {
            std::fs::remove_file(piece).unwrap();
            assert!(told().contains("make one in an empty folder"), "{}", told());
            std::fs::write(piece, "").unwrap();
        }
        for name in ["super.0", "super.1"] {
            std::fs::write(folder.path().join(name), "").unwrap();
            assert!(!told().contains("has lost"), "{}", told());
            std::fs::remove_file(folder.path().join(name)).unwrap();
        }
    }

    #[test]
    fn who_holds_a_pool_is_named_as_far_as_that_is_known() {
        let told = |holder: &str| locked(Path::new("p"), holder);
        let own = std::process::id();
        let failure = told(&format!("process {own}"));
        assert!(failure.message.contains(&format!("by process {own} (")), "{}", failure.message);
        assert_eq!(
            (failure.hints.concat(), failure.held_by_a_server),
            (format!("stop it with: kill {own}"), false)
        );
        for holder in ["process 7 on nas; if that has ended, remove 'p/x'", "another process"] {
            assert!(told(holder).message.ends_with(&format!("'p' is in use by {holder}")));
        }
        // No process has that number.
        assert!(told("process 4294967295").message.ends_with("in use by another process"));
    }

    #[test]
    fn a_command_is_shown_by_its_name_and_as_far_as_it_fits_a_line() {
        assert_eq!(words_of(b""), None);
        let served = words_of(b"/usr/bin/onefold\0serve\0\0p\0");
        assert_eq!(served.as_deref(), Some("onefold serve p"));
        let fits = ["x".repeat(39), "\u{e4}".repeat(40)];
        assert_eq!(words_of(fits.join("\0").as_bytes()), Some(fits.join(" ")));
        let longer = [fits.join("\0"), "y".to_owned()].concat();
        assert_eq!(words_of(longer.as_bytes()), Some(fits.join(" ") + "..."));
    }
}
