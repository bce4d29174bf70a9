//! `onefold top`: a server in a terminal, second by second.
//! Room: onefold.
//! Invariant: the terminal is as it was when this ends, also by a signal or a panic.

mod boxes;
mod exports;
mod keys;
mod reading;
mod view;

use std::io::IsTerminal as _;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use onefold_control::{Answer, Client, Credentials, Method, PREFIX, client_tls};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde_json::Value;

use crate::args::TopArgs;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::output::colour;
use crate::watch;
use keys::{Looking, Wish};
use reading::{Reading, Readings};

/// Between two readings.
const PERIOD: Duration = Duration::from_secs(1);
/// Between two looks at the keyboard, and so how soon a signal is heard.
const LOOK: Duration = Duration::from_millis(100);

/// The status of what ended with its terminal: 128 and the number of SIGHUP.
const HANGUP: i32 = 129;

/// Where a server is asked.
#[derive(Clone)]
enum Place {
    Pool(std::path::PathBuf),
    Address(SocketAddr, Credentials),
}

/// What whoever asks the server says.
enum Told {
    /// How it is, at a moment since the beginning.
    Reading(Duration, Value),
    /// It does not answer.
    Nothing,
}

/// Show it until somebody leaves.
pub fn run(args: &TopArgs) -> Result<()> {
    let place = place(args)?;
    let client = connect(&place)?;
    if !std::io::stdout().is_terminal() {
        return Err(Failure::nothing_done("top draws on a terminal, and this is none")
            .hint("programs read: onefold pool status POOL --json"));
    }
    interrupt::heed();
    let (to, told) = sync_channel(1);
    let failed = |error| Failure::nothing_done(format!("cannot start a thread: {error}"));
    // It ends with the process: a server that hangs must not keep anybody here.
    let ask = move || ask_on(&place, client, &to);
    std::thread::Builder::new().name("ask".to_owned()).spawn(ask).map_err(failed)?;
    let hangs = std::thread::Builder::new().name("terminal".to_owned()).spawn(end_with_terminal);
    hangs.map_err(failed)?;
    // Restores the terminal when there is a panic, too.
    let mut terminal = ratatui::try_init().map_err(|e| unusable(&e))?;
    let ended = show(&mut terminal, &args.server, &told);
    ratatui::restore();
    ended
}

/// End with the terminal. What reads keys would ask a terminal that is gone again and again, and
/// never return.
fn end_with_terminal() {
    let keys = std::io::stdin();
    let mut gone = [PollFd::new(&keys, PollFlags::empty())];
    loop {
        match poll(&mut gone, None) {
            Err(Errno::INTR) => {}
            Ok(_) if gone[0].revents().contains(PollFlags::HUP) => std::process::exit(HANGUP),
            // No terminal, but a file.
            _ => return,
        }
    }
}

/// What went wrong with the terminal.
fn unusable(error: &std::io::Error) -> Failure {
    Failure::bad(format!("the terminal cannot be used: {error}"))
}

fn show(terminal: &mut DefaultTerminal, title: &str, told: &Receiver<Told>) -> Result<()> {
    let colours = colour(true);
    let (mut readings, mut looking) = (Readings::default(), Looking::default());
    let mut answers = true;
    while !interrupt::asked() {
        for told in told.try_iter() {
            answers = matches!(told, Told::Reading(..));
            if let Told::Reading(at, told) = told
                && !looking.is_held
                && let Some(reading) = Reading::of(at.as_secs_f64(), told)
            {
                readings.push(reading);
            }
        }
        let state = match (answers, looking.is_held) {
            (false, _) => "NO ANSWER, trying again",
            (true, true) => "held",
            (true, false) => "live",
        };
        let scene = view::Scene { title, state, readings: &readings, colours };
        let drawn = |frame: &mut ratatui::Frame<'_>| view::draw(frame, &scene, &mut looking);
        terminal.draw(drawn).map_err(|e| unusable(&e))?;
        #[cfg(debug_assertions)]
        panic_if_a_test_wants_it(&readings);
        // A key or another size is drawn at once, all of those that wait together.
        let mut waits = LOOK;
        while event::poll(waits).map_err(|e| unusable(&e))? {
            match keys::wish(&event::read().map_err(|e| unusable(&e))?) {
                Some(Wish::Leave) => return Ok(()),
                Some(wish) => looking.heed(wish),
                None => {}
            }
            waits = Duration::ZERO;
        }
    }
    Ok(())
}

/// What a test looks at: whether the terminal is usable after a panic.
#[cfg(debug_assertions)]
fn panic_if_a_test_wants_it(readings: &Readings) {
    let wanted = std::env::var_os("ONEFOLD_TEST_TOP_PANICS").is_some();
    assert!(!wanted || readings.last().is_none(), "a test wants this panic");
}

/// Ask again and again, as long as anybody listens.
fn ask_on(place: &Place, client: Client, to: &SyncSender<Told>) {
    let mut client = Some(client);
    let began = Instant::now();
    loop {
        let asked = Instant::now();
        client = client.or_else(|| connect(place).ok());
        let told = client.as_mut().and_then(ask);
        // Another connection is tried where this one does not answer.
        client = client.filter(|_| told.is_some());
        let told = told.map_or(Told::Nothing, |told| Told::Reading(began.elapsed(), told));
        // Who is busy drawing has the one before still.
        if let Err(TrySendError::Disconnected(_)) = to.try_send(told) {
            return;
        }
        std::thread::sleep(PERIOD.saturating_sub(asked.elapsed()));
    }
}

fn place(args: &TopArgs) -> Result<Place> {
    let server = args.server.as_str();
    let folder = Path::new(server);
    if folder.is_dir() {
        return Ok(Place::Pool(folder.to_owned()));
    }
    let (encrypted, address) = match server.strip_prefix("https://") {
        Some(address) => (true, address),
        None => (false, server.trim_start_matches("http://")),
    };
    let address = address.trim_end_matches('/');
    let found = address.to_socket_addrs().ok().and_then(|mut found| found.next());
    let found = found.ok_or_else(|| {
        Failure::nothing_done(format!("'{server}' is no pool's folder and no address"))
            .hint("name the folder of a pool that is served, or what --metrics of a server says")
    })?;
    let token = args.token_file.as_deref().map(watch::token).transpose()?;
    let refused = |why: String| Failure::nothing_done(format!("{server}: {why}"));
    let tls = match (&args.tls_ca, encrypted) {
        (Some(authority), true) => {
            let own = args.tls_cert.as_deref().zip(args.tls_key.as_deref());
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            let name = host.try_into().map_err(|_| refused("no name for a certificate".into()))?;
            Some((client_tls(authority, own).map_err(refused)?, name))
        }
        (None, true) => {
            let why = "its certificate can only be believed by an authority".to_owned();
            return Err(refused(why).hint("name it: --tls-ca FILE"));
        }
        (Some(_), false) => {
            let why = "nothing is encrypted there".to_owned();
            return Err(
                refused(why).hint(format!("write https://{address}/, or leave --tls-ca out"))
            );
        }
        (None, false) => None,
    };
    if token.is_some() && tls.is_none() && !found.ip().is_loopback() {
        let why = "the token would go over the network for everybody to read".to_owned();
        return Err(refused(why).hint("ask over TLS: https://HOST:PORT/ with --tls-ca"));
    }
    Ok(Place::Address(found, Credentials { token, tls }))
}

fn connect(place: &Place) -> Result<Client> {
    match place {
        Place::Pool(folder) => {
            let failed = |error| Failure::unusable("ask the server of", folder, error);
            Client::connect(folder).map_err(failed)?.ok_or_else(|| {
                let at = folder.display();
                let serve = format!("serve it: onefold serve {at}");
                Failure::nothing_done(format!("nobody serves pool '{at}'")).hint(serve)
            })
        }
        Place::Address(at, by) => {
            let failed = |error| Failure::nothing_done(format!("{at} does not answer: {error}"));
            Client::connect_to(*at, by).map_err(failed)
        }
    }
}

/// What the server says; nothing if it does not answer.
fn ask(client: &mut Client) -> Option<Value> {
    let answer = client.ask(Method::Get, &format!("{PREFIX}metrics"), &[]).ok()?;
    told(&answer)
}

/// What an answer says; a refusal says nothing of the pool.
fn told(answer: &Answer) -> Option<Value> {
    answer.json().ok().filter(|_| answer.status == 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_folder_or_an_address_and_a_token_goes_nowhere_in_the_open() {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, "0123456789abcdef").unwrap();
        rustix::fs::chmod(&token, rustix::fs::Mode::RUSR).unwrap();
        let found = |server: &str, token: Option<&Path>| {
            let token_file = token.map(Path::to_owned);
            let (tls_ca, tls_cert, tls_key) = (None, None, None);
            place(&TopArgs { server: server.to_owned(), token_file, tls_ca, tls_cert, tls_key })
        };
        let pool = found(folder.path().to_str().unwrap(), None).unwrap();
        assert!(matches!(pool, Place::Pool(at) if at == folder.path()));
        for server in ["127.0.0.1:9469", "http://127.0.0.1:9469/"] {
            for token in [None, Some(&*token)] {
                let Ok(Place::Address(at, by)) = found(server, token) else { panic!("{server}") };
                assert_eq!((at.port(), by.token.is_some()), (9469, token.is_some()));
                assert!(by.tls.is_none());
            }
        }
        let elsewhere = found("192.0.2.1:9469", Some(&token)).err().unwrap();
        assert!(elsewhere.message.contains("for everybody to read"), "{}", elsewhere.message);
        assert!(found("192.0.2.1:9469", None).is_ok());
        assert!(
            found("https://127.0.0.1:9469/", None)
                .err()
                .unwrap()
                .hints
                .concat()
                .contains("--tls-ca")
        );
    }

    #[test]
    fn a_refusal_is_no_reading() {
        let answer = |status, body: &[u8]| Answer { status, body: body.to_vec() };
        assert_eq!(told(&answer(200, b"{}")), Some(serde_json::json!({})));
        assert_eq!(told(&answer(503, b"{}")), None);
        assert_eq!(told(&answer(200, b"busy")), None);
    }
}
