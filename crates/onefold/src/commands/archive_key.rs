//! What opens encrypted archives: read from files, asked for, made, and changed.
//! Room: onefold.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;

use onefold_archive::{Argon2Cost, LockKind, NewKey, Secret, SecretKind};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::archive::{failure, open};
use crate::archive_place::Place;
use crate::args::{ArchiveCreateArgs, ArchiveKeyArgs, KeyArgs};
use crate::failure::{Failure, Result};
use crate::out_file::OutFile;
use crate::output::Printer;

/// Bytes of a key file that is made.
const KEY_FILE_BYTES: usize = 64;
/// Longest passphrase and key file that are read, in bytes.
const SECRET_BYTES_MAX: u64 = 1 << 20;

/// What opens the archive, if it is encrypted.
pub fn secret(store: &Path, place: &Place<'_>, args: &KeyArgs) -> Result<Option<Secret>> {
    match place.secret_kind() {
        Ok(None) => Ok(None),
        Ok(Some(SecretKind::KeyFile)) => args.key_file.as_deref().map(key_file).transpose(),
        Ok(Some(SecretKind::Passphrase)) => match &args.passphrase_file {
            Some(path) => passphrase_of(path).map(Some),
            None => Terminal::open().map_or(Ok(None), |mut terminal| {
                terminal.ask(&format!("passphrase of archive '{}': ", store.display())).map(Some)
            }),
        },
        // Its settings are lost: what is given is for a repair, which says what is wrong.
        Err(_) => match (&args.key_file, &args.passphrase_file) {
            (Some(path), _) => key_file(path).map(Some),
            (None, Some(path)) => passphrase_of(path).map(Some),
            (None, None) => Ok(None),
        },
    }
}

/// What is going to open a new archive, if it is to be encrypted.
pub fn secret_to_create(args: &ArchiveCreateArgs) -> Result<Option<Secret>> {
    let KeyArgs { passphrase_file, key_file } = &args.key;
    if passphrase_file.is_none() && key_file.is_none() && !args.encrypt {
        return Ok(None);
    }
    new_secret(passphrase_file.as_deref(), key_file.as_deref()).map(Some)
}

fn chosen_secret(passphrase_file: Option<&Path>, new_key_file: Option<&Path>) -> Result<Secret> {
    match (passphrase_file, new_key_file) {
        (Some(_), Some(_)) => Err(Failure::nothing_done(
            "give a passphrase or a key file, not both: one of them opens the archive",
        )),
        (Some(path), None) => passphrase_of(path),
        (None, Some(path)) => {
            if !path.exists() {
                make_key_file(path)?;
            }
            key_file(path)
        }
        (None, None) => {
            let mut terminal = Terminal::open().ok_or_else(|| {
                Failure::nothing_done("there is no terminal to ask for a passphrase at")
                    .hint("give --passphrase-file FILE or --key-file FILE")
            })?;
            agreed(terminal.ask("new passphrase: ")?, &terminal.ask("the same again: ")?)
        }
    }
}

/// What was typed twice.
fn agreed(first: Secret, second: &Secret) -> Result<Secret> {
    match (&first, second) {
        (Secret::Passphrase(a), Secret::Passphrase(b)) if a == b => Ok(first),
        _ => Err(Failure::nothing_done("the two passphrases differ")),
    }
}

/// A random key for a new secret.
pub fn new_key(secret: &Secret) -> Result<NewKey<'_>> {
    let (mut salt, mut master) = ([0; 16], [0; 32]);
    random(&mut salt)?;
    random(&mut master)?;
    Ok(NewKey { secret, cost: Argon2Cost::default(), salt, master })
}

/// Let another secret open an archive.
pub fn change(args: &ArchiveKeyArgs, printer: &Printer) -> Result<()> {
    let mut archive = open(&args.store, &args.key, LockKind::Remove, printer)?;
    let at = args.store.display();
    if !archive.is_encrypted() {
        return Err(Failure::nothing_done(format!("archive '{at}' is not encrypted")));
    }
    let secret = new_secret(args.new_passphrase_file.as_deref(), args.new_key_file.as_deref())?;
    archive.change_secret(&new_key(&secret)?).map_err(|error| failure(&args.store, error))?;
    printer.note(&format!("another {} opens archive '{at}' now", secret.kind().name()));
    Ok(())
}

fn random(bytes: &mut [u8]) -> Result<()> {
    // Up to 256 bytes come at once or not at all.
    getrandom(bytes, GetRandomFlags::empty())
        .map(drop)
        .map_err(|e| Failure::nothing_done(format!("cannot draw random numbers: {e}")))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let unusable = |e| Failure::unusable("read", path, e);
    let file = File::open(path).map_err(unusable)?;
    file.take(SECRET_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unusable)?;
    Ok(bytes)
}

fn key_file(path: &Path) -> Result<Secret> {
    read(path).map(Secret::KeyFile)
}

fn passphrase_of(path: &Path) -> Result<Secret> {
    let mut bytes = read(path)?;
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    bytes.truncate(end);
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    Ok(Secret::Passphrase(bytes))
}

/// What is to open an archive from now on. It is refused here, before anything is made.
fn new_secret(passphrase_file: Option<&Path>, new_key_file: Option<&Path>) -> Result<Secret> {
    let secret = chosen_secret(passphrase_file, new_key_file)?;
    secret.check().map_err(|error| Failure::nothing_done(error.to_string()))?;
    Ok(secret)
}

/// A new random key, durable before anything is encrypted with it, and whole or not there.
fn make_key_file(path: &Path) -> Result<()> {
    let mut bytes = [0; KEY_FILE_BYTES];
    random(&mut bytes)?;
    let mut file = OutFile::create_private(path, false)?;
    file.write_all(&bytes).map_err(|e| Failure::broke("make the key file", path, e))?;
    file.finish()
}

/// The terminal, where there is one, whatever stdin is.
struct Terminal(BufReader<File>);

/// A line that was typed: what ended it is no part of it.
fn without_its_end(mut line: Vec<u8>) -> Vec<u8> {
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    line
}

impl Terminal {
    fn open() -> Option<Self> {
        let file = File::options().read(true).write(true).open("/dev/tty").ok()?;
        Some(Self(BufReader::new(file)))
    }

    /// A line that is not shown while it is typed.
    fn ask(&mut self, question: &str) -> Result<Secret> {
        let failed =
            |e: std::io::Error| Failure::nothing_done(format!("cannot ask for a passphrase: {e}"));
        let shown = tcgetattr(self.0.get_ref()).map_err(|e| failed(e.into()))?;
        self.0.get_mut().write_all(question.as_bytes()).map_err(failed)?;
        let mut line = Vec::new();
        let read = {
            let mut hidden = shown.clone();
            hidden.local_modes.remove(LocalModes::ECHO);
            hidden.local_modes.insert(LocalModes::ECHONL);
            self.set(&hidden).map_err(failed)?;
            let read = (&mut self.0).take(SECRET_BYTES_MAX).read_until(b'\n', &mut line);
            self.set(&shown).map_err(failed)?;
            read
        };
        read.map_err(failed)?;
        Ok(Secret::Passphrase(without_its_end(line)))
    }

    fn set(&self, modes: &Termios) -> std::io::Result<()> {
        Ok(tcsetattr(self.0.get_ref(), OptionalActions::Flush, modes)?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::OFlags;
    use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};

    use super::*;

    #[test]
    fn a_passphrase_in_a_file_is_its_first_line_whatever_ends_that() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        for (text, expected) in
            [("a b\nc", "a b"), ("a b\r\n", "a b"), ("a b", "a b"), ("a\rb\r\r\n", "a\rb\r")]
        {
            std::fs::write(&path, text).unwrap();
            let Secret::Passphrase(found) = passphrase_of(&path).unwrap() else { panic!("{text}") };
            assert_eq!(found, expected.as_bytes(), "{text:?}");
        }
    }

    #[test]
    fn a_key_file_is_its_owner_s_and_nothing_of_it_stays_where_it_cannot_be_made() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        make_key_file(&path).unwrap();
        let key = std::fs::metadata(&path).unwrap();
        assert_eq!((key.len(), key.permissions().mode() & 0o777), (64, 0o600));
        let before = std::fs::read(&path).unwrap();
        assert!(make_key_file(&path).is_err() && std::fs::read(&path).unwrap() == before);
        let missing = make_key_file(&folder.path().join("none/key")).unwrap_err();
        assert!(missing.message.contains("none/key"), "{}", missing.message);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    }

    #[test]
    fn the_key_that_ends_a_passphrase_is_no_part_of_it() {
        for (line, passphrase) in [("a b \n", "a b "), ("a\n\n", "a\n"), ("a", "a"), ("", "")] {
            assert_eq!(without_its_end(line.into()), passphrase.as_bytes());
        }
    }

    #[test]
    fn a_passphrase_is_asked_for_at_the_terminal_and_not_shown() {
        use std::sync::mpsc::channel;

        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let open = || {
            let mut options = File::options();
            options.read(true).write(true).custom_flags(OFlags::NOCTTY.bits().cast_signed());
            options.open(name.to_str().unwrap()).unwrap()
        };
        let (slave, mut terminal) = (open(), Terminal(BufReader::new(open())));
        let mut master = File::from(master);
        let shown = tcgetattr(&slave).unwrap().local_modes;
        let (done, is_done) = channel();
        let asked = std::thread::scope(|scope| {
            scope.spawn(move || done.send(terminal.ask("who? ").unwrap()).unwrap());
            let mut question = [0; 5];
            master.read_exact(&mut question).unwrap();
            assert_eq!(&question, b"who? ");
            // What is typed before is not the answer.
            while tcgetattr(&slave).unwrap().local_modes.contains(LocalModes::ECHO) {
                std::thread::yield_now();
            }
            assert!(tcgetattr(&slave).unwrap().local_modes.contains(LocalModes::ECHONL));
            master.write_all(b"se cret\n").unwrap();
            is_done.recv().unwrap()
        });
        assert!(matches!(asked, Secret::Passphrase(text) if text == b"se cret"));
        assert_eq!(tcgetattr(&slave).unwrap().local_modes, shown);
        // What was typed is not there, and its end is.
        let mut seen = [0; 2];
        master.read_exact(&mut seen).unwrap();
        assert_eq!(&seen, b"\r\n");
    }

    #[test]
    fn a_new_passphrase_is_the_same_twice_and_a_new_key_another_each_time() {
        let typed = |text: &str| Secret::Passphrase(text.into());
        assert!(agreed(typed("a"), &typed("a")).is_ok());
        let differ = agreed(typed("a"), &typed("b")).unwrap_err();
        assert_eq!(differ.message, "the two passphrases differ");
        let secret = typed("a");
        let keys = [new_key(&secret).unwrap(), new_key(&secret).unwrap()];
        assert_ne!(keys[0].salt, keys[1].salt);
        assert_ne!(keys[0].master, keys[1].master);
        let mut drawn = [0; 64];
        random(&mut drawn).unwrap();
        assert_ne!(drawn, [0; 64]);
    }

    #[test]
    fn a_secret_is_one_thing_and_made_where_it_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("text"), "words\n").unwrap();
        let both = chosen_secret(Some(&at("text")), Some(&at("key"))).unwrap_err();
        assert!(both.message.starts_with("give a passphrase or a key file, not both"));
        let Secret::KeyFile(made) = new_secret(None, Some(&at("key"))).unwrap() else { panic!() };
        assert!(made.len() == 64 && made != [0; 64]);
        let Secret::KeyFile(found) = new_secret(None, Some(&at("key"))).unwrap() else { panic!() };
        assert_eq!(found, made, "one that is there is not made again");
        std::fs::write(at("short"), [7; 31]).unwrap();
        assert!(new_secret(None, Some(&at("short"))).is_err());
        // All of a file that is too long by a byte is not taken for one that is not.
        std::fs::write(at("long"), vec![7; (1 << 20) + 5]).unwrap();
        assert_eq!(read(&at("long")).unwrap().len(), (1 << 20) + 1);
    }
}
