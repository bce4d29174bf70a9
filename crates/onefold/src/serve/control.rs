//! The socket in the folder of a store that is served: for what its owner says beside NBD.
//! Room: onefold.   In: one line, of one connection.   Out: one line: `ok`, or `error` and why.
//! Invariants: (1) whoever may change the folder may say something, and nobody else  (2) clients
//! are heard one by one, each for a second at most, and longer lines are none.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use onefold_control::socket::{self, Bound};
use rustix::net::{Shutdown, shutdown};

/// The longest line.
const LINE_BYTES_MAX: u64 = 64;
/// The longest answer.
const ANSWER_BYTES_MAX: u64 = 4096;
/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Clients that are heard first, as far as anybody waits for them.
const WAITING_MAX: u32 = 16;

/// What is said of a line: nothing, or why not.
pub type Answer = Result<(), String>;

/// A socket that is listened to, until this is dropped.
pub struct Control {
    bound: Arc<Bound>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Listens in a folder that this process owns.
    pub fn start(path: &Path, hear: impl Fn(&str) -> Answer + Send + 'static) -> io::Result<Self> {
        let bound = Arc::new(Bound::new(path)?);
        let of_thread = Arc::clone(&bound);
        let run = move || {
            while let Ok((client, _)) = of_thread.listener.accept() {
                if let Err(error) = serve(client, &hear) {
                    tracing::debug!("a client of the control socket: {error}");
                }
            }
        };
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(run)?;
        Ok(Self { bound, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // The thread's wait for the next client ends by this.
        let _ = shutdown(&self.bound.listener, Shutdown::Both);
        let failed = |_| tracing::error!("the thread of the control socket has failed");
        self.thread.take().map_or(Ok(()), JoinHandle::join).unwrap_or_else(failed);
    }
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
    let mut byte = [0; 1];
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
    let Some(mut server) = socket::connect(path)? else { return Ok(None) };
    // Others may be heard first.
    server.set_read_timeout(Some(PATIENCE * WAITING_MAX))?;
    server.write_all(format!("{said}\n").as_bytes())?;
    let mut answer = String::new();
    server.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
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
        assert!(!folder.path().join(socket::NAME).exists());
    }

    #[test]
    fn who_serves_again_is_heard_where_a_killed_process_was() {
        let (folder, control, _) = heard();
        let (at, left) = (folder.path().join(socket::NAME), folder.path().join("left"));
        std::fs::rename(&at, &left).unwrap();
        drop(control);
        std::fs::rename(left, &at).unwrap();
        assert_eq!(tell(folder.path(), "good").unwrap(), None);
        let again = Control::start(folder.path(), |_| Ok(())).unwrap();
        assert_eq!(tell(folder.path(), "any").unwrap(), Some(Ok(())));
        drop(again);
    }
}
