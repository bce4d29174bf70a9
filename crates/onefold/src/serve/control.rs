//! The socket in the folder of a store that is served: for what its owner says beside NBD.
//! Room: onefold.   In: one line, of one connection.   Out: one line: `ok`, or `error` and why.
//! Invariants: (1) whoever may change the folder may say something, and nobody else  (2) clients
//! are heard one by one, each for a second at most, and longer lines are none  (3) a socket that a
//! killed process left is replaced, and nothing else is ever removed.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{Mode, chmod, fchmod};
use rustix::net::socket;
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketType, bind, listen, shutdown};

/// The socket, in the folder.
const NAME: &str = "control";
/// The longest line.
const LINE_BYTES_MAX: u64 = 64;
/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Clients that wait to be heard.
const BACKLOG: i32 = 16;
const SET_GROUP_ID: u32 = 0o2000;
const GROUP_WRITES: u32 = 0o020;

/// What is said of a line: nothing, or why not.
pub type Answer = Result<(), String>;

/// A socket that is listened to, until this is dropped.
pub struct Control {
    listener: Arc<UnixListener>,
    thread: Option<JoinHandle<()>>,
    folder: File,
}

impl Control {
    /// Listens in a folder that this process owns.
    pub fn start(path: &Path, hear: impl Fn(&str) -> Answer + Send + 'static) -> io::Result<Self> {
        let folder = File::open(path)?;
        let listener = Arc::new(bound(&folder)?);
        let of_thread = Arc::clone(&listener);
        let run = move || {
            while let Ok((client, _)) = of_thread.accept() {
                if let Err(error) = serve(client, &hear) {
                    tracing::debug!("a client of the control socket: {error}");
                }
            }
        };
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(run)?;
        Ok(Self { listener, thread: Some(thread), folder })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // The thread's wait for the next client ends by this.
        let _ = shutdown(&self.listener, Shutdown::Both);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of the control socket has failed");
        }
        let _ = std::fs::remove_file(within(&self.folder));
    }
}

/// The socket by a short name: that of a folder may be longer than an address of a socket.
fn within(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()))
}

fn bound(folder: &File) -> io::Result<UnixListener> {
    let path = within(folder);
    if std::fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket()) {
        std::fs::remove_file(&path)?;
    }
    // A folder that is shared with a group gives what is made in it to the group.
    let mode = folder.metadata()?.mode();
    let shared = mode & SET_GROUP_ID != 0 && mode & GROUP_WRITES != 0;
    let made: OwnedFd = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    // The file is made with the mode of the socket: there is no moment at which others may connect.
    fchmod(&made, Mode::RUSR | Mode::WUSR)?;
    bind(&made, &SocketAddrUnix::new(&path)?)?;
    if shared {
        chmod(&path, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP)?;
    }
    listen(&made, BACKLOG)?;
    Ok(UnixListener::from(made))
}

fn serve(mut client: UnixStream, hear: &impl Fn(&str) -> Answer) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let line = line(&mut client)?;
    let answer = match line.as_deref().map_or_else(|| Err("no line".to_owned()), hear) {
        Ok(()) => "ok\n".to_owned(),
        Err(why) => format!("error {why}\n"),
    };
    client.write_all(answer.as_bytes())
}

/// One line, without its end; nothing if it is too long or never ends.
fn line(from: &mut UnixStream) -> io::Result<Option<String>> {
    let mut got = Vec::new();
    let mut from = from.take(LINE_BYTES_MAX);
    let mut byte = [0];
    while from.read(&mut byte)? == 1 {
        if byte == *b"\n" {
            return Ok(String::from_utf8(got).ok());
        }
        got.extend(byte);
    }
    Ok(None)
}

/// Says a line to whoever serves the store in a folder. `None` if nobody does.
pub fn tell(path: &Path, said: &str) -> io::Result<Option<Answer>> {
    let folder = File::open(path)?;
    let mut server = match UnixStream::connect(within(&folder)) {
        Ok(server) => server,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    // Others may be heard first.
    server.set_read_timeout(Some(PATIENCE * BACKLOG.unsigned_abs()))?;
    server.write_all(format!("{said}\n").as_bytes())?;
    let mut answer = String::new();
    server.take(4096).read_to_string(&mut answer)?;
    let answer = answer.trim_end();
    Ok(Some(match answer.strip_prefix("error ") {
        Some(why) => Err(why.to_owned()),
        None if answer == "ok" => Ok(()),
        None => Err(format!("an answer that makes no sense: '{answer}'")),
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn heard() -> (tempfile::TempDir, Control, Arc<Mutex<Vec<String>>>) {
        let folder = tempfile::tempdir().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let of_control = Arc::clone(&said);
        let control = Control::start(folder.path(), move |line| {
            of_control.lock().unwrap().push(line.to_owned());
            if line == "good" { Ok(()) } else { Err(format!("'{line}' is nothing")) }
        });
        (folder, control.unwrap(), said)
    }

    #[test]
    fn a_line_is_heard_and_answered() {
        let (folder, control, said) = heard();
        assert_eq!(tell(folder.path(), "good").unwrap(), Some(Ok(())));
        assert_eq!(tell(folder.path(), "bad").unwrap(), Some(Err("'bad' is nothing".to_owned())));
        // It may be answered, or find the connection closed on what nobody read.
        let _ = tell(folder.path(), &"x".repeat(100));
        assert_eq!(*said.lock().unwrap(), ["good", "bad"]);
        drop(control);
        assert_eq!(tell(folder.path(), "good").unwrap(), None);
        assert!(!folder.path().join(NAME).exists());
    }

    #[test]
    fn what_a_killed_process_left_is_replaced_and_a_file_is_not() {
        let (folder, control, _) = heard();
        // A process that was killed leaves its socket, and nobody listens to it.
        let left = folder.path().join("left");
        std::fs::rename(folder.path().join(NAME), &left).unwrap();
        drop(control);
        std::fs::rename(left, folder.path().join(NAME)).unwrap();
        assert_eq!(tell(folder.path(), "good").unwrap(), None);
        let again = Control::start(folder.path(), |_| Ok(())).unwrap();
        assert_eq!(tell(folder.path(), "any").unwrap(), Some(Ok(())));
        drop(again);
        std::fs::write(folder.path().join(NAME), "a file").unwrap();
        assert!(Control::start(folder.path(), |_| Ok(())).is_err());
        assert_eq!(std::fs::read(folder.path().join(NAME)).unwrap(), b"a file");
    }

    #[test]
    fn only_the_owner_connects_and_a_deep_folder_is_no_trouble() {
        let top = tempfile::tempdir().unwrap();
        let deep = top.path().join("a".repeat(100)).join("b".repeat(100));
        std::fs::create_dir_all(&deep).unwrap();
        let control = Control::start(&deep, |_| Ok(())).unwrap();
        assert_eq!(std::fs::metadata(deep.join(NAME)).unwrap().mode() & 0o777, 0o600);
        assert_eq!(tell(&deep, "any").unwrap(), Some(Ok(())));
        drop(control);
    }
}
