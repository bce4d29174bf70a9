//! Clients in the handshake, and who of them has to go when others want to come in.
//! Room: onefold-nbd.
//! Invariants: (1) a client past the handshake is never the one that goes; (2) whoever goes is the
//! oldest of those who share an origin with the most others: one address takes places from another
//! only until both have as many; (3) nobody goes before he had a turn of [`TURN`], or is late.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Shutdown};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::socket::Socket;

/// How long a client has to itself before it may have to go for another. A handshake takes a few
/// round trips; whoever arrives meanwhile waits in the listener's queue.
pub(super) const TURN: Duration = Duration::from_millis(50);

/// Where a client comes from, as far as places are shared out by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    /// A user of this machine, by number, over a Unix socket.
    User(u32),
    /// An address; of IPv6 the network, of which one machine has as many as it likes.
    Address(IpAddr),
    /// A virtual machine, by number, or the one that this one runs on.
    Machine(u32),
    /// It is not known.
    Unknown,
}

impl Origin {
    /// The origin of a client at this address.
    pub fn of_address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

struct Newcomer {
    socket: Arc<Socket>,
    origin: Origin,
    came: Instant,
    /// Its socket was closed; its thread has not ended yet.
    dismissed: bool,
}

/// The clients in the handshake.
pub(super) struct Newcomers {
    /// By number, so in the order in which they came.
    table: BTreeMap<u64, Newcomer>,
    /// Most at a time.
    places: usize,
    /// How long each has.
    time: Duration,
}

/// What to do until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attention {
    /// Whether another one may come in now.
    pub open: bool,
    /// When to ask again at the latest.
    pub until: Option<Instant>,
}

impl Newcomers {
    pub fn new(places: usize, time: Duration) -> Self {
        Self { table: BTreeMap::new(), places: places.max(1), time }
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn sockets(&self) -> impl Iterator<Item = &Arc<Socket>> {
        self.table.values().map(|newcomer| &newcomer.socket)
    }

    /// Close those whose time is over; say whether there is a place, or can be one.
    pub fn attend(&mut self, now: Instant) -> Attention {
        for newcomer in self.table.values_mut() {
            if !newcomer.dismissed && newcomer.came + self.time <= now {
                newcomer.dismiss("its time is over");
            }
        }
        let mut until = self.present().map(|(_, newcomer)| newcomer.came + self.time).min();
        let mut wait_for = |at: Instant| until = Some(until.map_or(at, |until| until.min(at)));
        // Those that were dismissed are gone soon, but for a thread that hangs in its device.
        let mut open = self.table.len() < 2 * self.places;
        if !open {
            wait_for(now + TURN);
        } else if let Some((_, longest)) = self.crowded().then(|| self.longest()).flatten() {
            let turn_ends = longest.came + TURN;
            open = turn_ends <= now;
            if !open {
                wait_for(turn_ends);
            }
        }
        Attention { open, until }
    }

    /// Another one comes in; where there is no place, one goes for it.
    pub fn enter(&mut self, number: u64, socket: Arc<Socket>, origin: Origin, now: Instant) {
        if self.crowded() {
            let goes = self.longest().map(|(number, _)| number);
            if let Some(newcomer) = goes.and_then(|number| self.table.get_mut(&number)) {
                newcomer.dismiss("another client wants its place");
            }
        }
        self.table.insert(number, Newcomer { socket, origin, came: now, dismissed: false });
    }

    /// One is through, or gone: its socket, if it was still welcome.
    pub fn leave(&mut self, number: u64) -> Option<Arc<Socket>> {
        let newcomer = self.table.remove(&number)?;
        (!newcomer.dismissed).then_some(newcomer.socket)
    }

    fn present(&self) -> impl Iterator<Item = (u64, &Newcomer)> {
        let present = self.table.iter().filter(|(_, newcomer)| !newcomer.dismissed);
        present.map(|(&number, newcomer)| (number, newcomer))
    }

    fn crowded(&self) -> bool {
        self.present().count() >= self.places
    }

    /// The oldest of those who share an origin with the most others.
    fn longest(&self) -> Option<(u64, &Newcomer)> {
        let mut crowds: HashMap<Origin, (usize, Reverse<u64>)> = HashMap::new();
        for (number, newcomer) in self.present() {
            crowds.entry(newcomer.origin).or_insert((0, Reverse(number))).0 += 1;
        }
        let (_, Reverse(number)) = crowds.into_values().max()?;
        self.table.get(&number).map(|newcomer| (number, newcomer))
    }
}

impl Newcomer {
    fn dismiss(&mut self, why: &str) {
        self.dismissed = true;
        tracing::info!(origin = ?self.origin, "a handshake was ended: {why}");
        self.socket.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    const TIME: Duration = Duration::from_secs(10);
    const HERE: Origin = Origin::User(1);
    const THERE: Origin = Origin::User(2);

    /// Newcomers with three places, and the other ends of their sockets.
    struct Scene {
        newcomers: Newcomers,
        ends: Vec<UnixStream>,
        start: Instant,
    }

    impl Scene {
        fn new() -> Self {
            Self { newcomers: Newcomers::new(3, TIME), ends: Vec::new(), start: Instant::now() }
        }

        fn at(&self, ms: u64) -> Instant {
            self.start + Duration::from_millis(ms)
        }

        fn come(&mut self, origin: Origin, ms: u64) {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let number = self.ends.len() as u64;
            self.ends.push(theirs);
            let now = self.at(ms);
            self.newcomers.enter(number, Arc::new(Socket::Unix(ours)), origin, now);
        }

        /// The numbers of those that are still welcome.
        fn present(&self) -> Vec<u64> {
            self.newcomers.present().map(|(number, _)| number).collect()
        }
    }

    #[test]
    fn who_takes_most_places_gives_one_away_its_oldest() {
        let mut scene = Scene::new();
        for origin in [HERE, THERE, THERE] {
            scene.come(origin, 0);
        }
        scene.come(THERE, 100);
        assert_eq!(scene.present(), [0, 2, 3], "the oldest there, not the oldest of all");
        scene.come(HERE, 100);
        assert_eq!(scene.present(), [0, 3, 4], "two there, one here");
        scene.come(Origin::Unknown, 100);
        assert_eq!(scene.present(), [3, 4, 5], "two here, one there");
        let mut byte = [0];
        assert_eq!(std::io::Read::read(&mut &scene.ends[0], &mut byte).unwrap(), 0, "closed");
    }

    #[test]
    fn everyone_has_a_turn_before_another_comes_in() {
        let mut scene = Scene::new();
        for ms in [0, 10, 20] {
            assert!(scene.newcomers.attend(scene.at(ms)).open);
            scene.come(HERE, ms);
        }
        let (turn, later) = (scene.at(50), scene.at(70));
        let closed = Attention { open: false, until: Some(turn) };
        assert_eq!(scene.newcomers.attend(scene.at(49)), closed);
        assert!(scene.newcomers.attend(turn).open);
        assert!(scene.newcomers.leave(2).is_some());
        let free = Attention { open: true, until: Some(scene.start + TIME) };
        assert_eq!(scene.newcomers.attend(scene.at(49)), free, "there is a place");
        scene.come(HERE, 60);
        assert!(scene.newcomers.attend(later).open);
    }

    #[test]
    fn who_is_late_goes_and_is_not_let_through() {
        let mut scene = Scene::new();
        scene.come(HERE, 0);
        scene.come(HERE, 5);
        let over = scene.start + TIME;
        let next = over + Duration::from_millis(5);
        assert_eq!(scene.newcomers.attend(over), Attention { open: true, until: Some(next) });
        assert_eq!(scene.present(), [1]);
        assert!(scene.newcomers.leave(0).is_none());
        assert!(scene.newcomers.leave(1).is_some());
        assert_eq!(scene.newcomers.len(), 0);
    }

    #[test]
    fn threads_that_hang_are_bounded() {
        let mut scene = Scene::new();
        for number in 0..6 {
            assert!(scene.newcomers.attend(scene.at(100 * number)).open);
            scene.come(HERE, 100 * number);
        }
        assert_eq!(scene.newcomers.len(), 6, "three of them were sent away and have not ended");
        assert!(!scene.newcomers.attend(scene.at(1000)).open);
        scene.newcomers.leave(0);
        assert!(scene.newcomers.attend(scene.at(1000)).open);
    }

    #[test]
    fn addresses_of_one_network_are_one_origin() {
        let of = |text: &str| Origin::of_address(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("2001:db8::1"), of("a001:db8::1"));
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), Origin::Address("2001:db8:1:2::".parse().unwrap()));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.2"), of("10.0.0.1"));
    }
}
