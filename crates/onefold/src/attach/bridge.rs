//! Requests of a device, carried to a server by NBD and back: one connection for each queue.
//! Room: onefold.
//! Invariants: (1) whatever the server sends, and whenever it goes, every request that was taken is
//! finished once; (2) bytes go from the connection into a device's buffer only while that request
//! is under way, and no more than it asked for.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use onefold_nbd::protocol::constants::{REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, command, command_flag};
use onefold_ublk::{Event, Kind, Queue, Request};
use rustix::event::{PollFd, PollFlags, poll};

/// Bytes of a request, and of a simple reply, before their data.
const REQUEST_BYTES: usize = 28;
const REPLY_BYTES: usize = 16;
/// The number of an input or output error.
const EIO: i32 = 5;
/// Errors whose numbers are passed on, which the protocol has from Linux: EPERM, ENOMEM, EINVAL,
/// ENOSPC.
const PASSED_ON: [u32; 4] = [1, 12, 22, 28];

/// Where requests come from.
pub trait Requests: AsFd {
    fn next_event(&mut self) -> Option<Event>;
    fn data(&mut self, tag: u16, len: usize) -> &mut [u8];
    fn finish(&mut self, tag: u16, result: Result<u32, i32>) -> io::Result<()>;
    fn submit(&mut self) -> io::Result<()>;
}

impl Requests for Queue {
    fn next_event(&mut self) -> Option<Event> {
        Self::next_event(self)
    }

    fn data(&mut self, tag: u16, len: usize) -> &mut [u8] {
        Self::data(self, tag, len)
    }

    fn finish(&mut self, tag: u16, result: Result<u32, i32>) -> io::Result<()> {
        Self::finish(self, tag, result)
    }

    fn submit(&mut self) -> io::Result<()> {
        Self::submit(self)
    }
}

/// One device's queue and its connection, which is past the handshake.
pub struct Bridge<R> {
    requests: R,
    stream: UnixStream,
    /// What is under way, by tag.
    under_way: Vec<Option<Request>>,
    /// What was not sent whole; of the first so many bytes are.
    waiting: VecDeque<u16>,
    sent: usize,
    /// What came of a reply, and, past that, of whose data how much.
    reply: [u8; REPLY_BYTES],
    got: usize,
    filling: Option<(u16, usize)>,
    /// The connection is of no use any more.
    is_dead: bool,
}

impl<R: Requests> Bridge<R> {
    pub fn new(requests: R, stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            requests,
            stream,
            under_way: Vec::new(),
            waiting: VecDeque::new(),
            sent: 0,
            reply: [0; REPLY_BYTES],
            got: 0,
            filling: None,
            is_dead: false,
        })
    }

    /// Carry until the device is gone. A server that goes fails what is under way and what comes.
    pub fn run(mut self) -> io::Result<()> {
        loop {
            while let Some(event) = self.requests.next_event() {
                match event {
                    Event::Gone => return Ok(()),
                    Event::Request(tag, request) => self.take(tag, request)?,
                }
            }
            if !self.is_dead
                && let Err(error) = self.send().and_then(|()| self.receive())
            {
                tracing::warn!("the server does not answer any more: {error}");
                self.fail_all()?;
            }
            self.requests.submit()?;
            self.wait()?;
        }
    }

    fn take(&mut self, tag: u16, request: Request) -> io::Result<()> {
        if self.is_dead || matches!(request.kind, Kind::Other(_)) {
            return self.requests.finish(tag, Err(EIO));
        }
        let slot = usize::from(tag);
        if self.under_way.len() <= slot {
            self.under_way.resize(slot + 1, None);
        }
        self.under_way[slot] = Some(request);
        self.waiting.push_back(tag);
        Ok(())
    }

    /// Send as much as goes.
    fn send(&mut self) -> io::Result<()> {
        while let Some(&tag) = self.waiting.front() {
            let request = self.request(tag)?;
            let head = head(tag, &request);
            let data = if matches!(request.kind, Kind::Write { .. }) { request.len } else { 0 };
            let whole = REQUEST_BYTES + data as usize;
            while self.sent < whole {
                let data = self.requests.data(tag, data as usize);
                let (head, data) = (
                    &head[self.sent.min(REQUEST_BYTES)..],
                    &data[self.sent.saturating_sub(REQUEST_BYTES)..],
                );
                let parts = [io::IoSlice::new(head), io::IoSlice::new(data)];
                match self.stream.write_vectored(&parts) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(sent) => self.sent += sent,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            self.sent = 0;
            self.waiting.pop_front();
        }
        Ok(())
    }

    fn request(&self, tag: u16) -> io::Result<Request> {
        let request = self.under_way.get(usize::from(tag)).copied().flatten();
        request.ok_or_else(|| nonsense("a reply to no request"))
    }

    /// Receive as much as there is.
    fn receive(&mut self) -> io::Result<()> {
        loop {
            let space = match self.filling {
                Some((tag, got)) => {
                    let len = self.request(tag)?.len as usize;
                    &mut self.requests.data(tag, len)[got..]
                }
                None => &mut self.reply[self.got..],
            };
            let got = match self.stream.read(space) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(got) => got,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if let Some((tag, filled)) = &mut self.filling {
                *filled += got;
                let (tag, filled) = (*tag, *filled);
                if filled == self.request(tag)?.len as usize {
                    self.filling = None;
                    self.end(tag, 0)?;
                }
            } else {
                self.got += got;
                if self.got == REPLY_BYTES {
                    self.got = 0;
                    self.heed_reply()?;
                }
            }
        }
    }

    /// A whole reply is there, before its data.
    fn heed_reply(&mut self) -> io::Result<()> {
        let word = |at: usize| {
            self.reply[at..at + 4].iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte))
        };
        let (magic, error) = (word(0), word(4));
        let cookie = u64::from(word(8)) << 32 | u64::from(word(12));
        if magic != SIMPLE_REPLY_MAGIC {
            return Err(nonsense("a reply of another kind"));
        }
        let tag = u16::try_from(cookie).map_err(|_| nonsense("a reply to no request"))?;
        let request = self.request(tag)?;
        if self.waiting.contains(&tag) {
            return Err(nonsense("a reply to a request that was not sent whole"));
        }
        if request.kind == Kind::Read && error == 0 && request.len > 0 {
            self.filling = Some((tag, 0));
            return Ok(());
        }
        self.end(tag, error)
    }

    /// A request has ended, by the protocol's number of an error.
    fn end(&mut self, tag: u16, error: u32) -> io::Result<()> {
        let request = self.request(tag)?;
        self.under_way[usize::from(tag)] = None;
        let moved = match request.kind {
            Kind::Read | Kind::Write { .. } => request.len,
            _ => 0,
        };
        let result = match error {
            0 => Ok(moved),
            error if PASSED_ON.contains(&error) => Err(error.cast_signed()),
            _ => Err(EIO),
        };
        self.requests.finish(tag, result)
    }

    fn fail_all(&mut self) -> io::Result<()> {
        self.is_dead = true;
        self.waiting.clear();
        for tag in 0..self.under_way.len() {
            if self.under_way[tag].take().is_some() {
                self.requests.finish(tag as u16, Err(EIO))?;
            }
        }
        Ok(())
    }

    /// Wait until there is something to do.
    fn wait(&self) -> io::Result<()> {
        let mut wanted = PollFlags::IN;
        if !self.waiting.is_empty() {
            wanted |= PollFlags::OUT;
        }
        let device = PollFd::new(&self.requests, PollFlags::IN);
        let mut both = [device, PollFd::new(&self.stream, wanted)];
        let looked_at = if self.is_dead { &mut both[..1] } else { &mut both[..] };
        match poll(looked_at, None) {
            Err(rustix::io::Errno::INTR) | Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn nonsense(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("it sent {what}"))
}

/// A request as NBD has it, before its data. The tag is its cookie.
fn head(tag: u16, request: &Request) -> [u8; REQUEST_BYTES] {
    let flag = |holds: bool, flag: u16| if holds { flag } else { 0 };
    let (number, flags) = match request.kind {
        Kind::Read => (command::READ, 0),
        Kind::Write { fua } => (command::WRITE, flag(fua, command_flag::FUA)),
        Kind::Flush | Kind::Other(_) => (command::FLUSH, 0),
        Kind::Discard => (command::TRIM, 0),
        Kind::Zeroes { no_hole, fua } => (
            command::WRITE_ZEROES,
            flag(no_hole, command_flag::NO_HOLE) | flag(fua, command_flag::FUA),
        ),
    };
    let mut out = [0; REQUEST_BYTES];
    out[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    out[4..6].copy_from_slice(&flags.to_be_bytes());
    out[6..8].copy_from_slice(&number.to_be_bytes());
    out[8..16].copy_from_slice(&u64::from(tag).to_be_bytes());
    if number != command::FLUSH {
        out[16..24].copy_from_slice(&request.offset.to_be_bytes());
        out[24..28].copy_from_slice(&request.len.to_be_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::JoinHandle;
    use std::time::Duration;

    use onefold_block::{BlockDevice, MemDevice};
    use onefold_nbd::{ExportTable, ListenAddr, Server, ServerConfig};
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;
    use crate::attach::client;

    const DEPTH: u16 = 4;
    const BUFFER_BYTES: usize = 64 << 10;

    type Ended = (u16, Result<u32, i32>, Vec<u8>);

    /// A queue as the kernel's, whose requests a test makes.
    struct Fake {
        events: Receiver<(Event, Vec<u8>)>,
        bell: Arc<OwnedFd>,
        buffers: Vec<Vec<u8>>,
        taken: [bool; DEPTH as usize],
        ended: Sender<Ended>,
    }

    impl AsFd for Fake {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.bell.as_fd()
        }
    }

    impl Requests for Fake {
        fn next_event(&mut self) -> Option<Event> {
            let (event, data) = self.events.try_recv().ok()?;
            rustix::io::read(&self.bell, &mut [0; 8]).unwrap();
            if let Event::Request(tag, _) = event {
                let tag = usize::from(tag);
                assert!(!std::mem::replace(&mut self.taken[tag], true));
                self.buffers[tag][..data.len()].copy_from_slice(&data);
            }
            Some(event)
        }

        fn data(&mut self, tag: u16, len: usize) -> &mut [u8] {
            assert!(self.taken[usize::from(tag)]);
            &mut self.buffers[usize::from(tag)][..len]
        }

        fn finish(&mut self, tag: u16, result: Result<u32, i32>) -> io::Result<()> {
            let slot = usize::from(tag);
            assert!(std::mem::take(&mut self.taken[slot]), "finished twice, or never taken");
            self.ended.send((tag, result, self.buffers[slot].clone())).unwrap();
            Ok(())
        }

        fn submit(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The kernel's side of it.
    struct Kernel {
        events: Sender<(Event, Vec<u8>)>,
        bell: Arc<OwnedFd>,
        ended: Receiver<Ended>,
        bridge: JoinHandle<io::Result<()>>,
    }

    impl Kernel {
        fn with(stream: UnixStream) -> Self {
            let (events, from) = channel();
            let (to, ended) = channel();
            let bell = Arc::new(eventfd(0, EventfdFlags::SEMAPHORE).unwrap());
            let fake = Fake {
                events: from,
                bell: Arc::clone(&bell),
                buffers: vec![vec![0; BUFFER_BYTES]; DEPTH.into()],
                taken: [false; DEPTH as usize],
                ended: to,
            };
            let bridge = Bridge::new(fake, stream).unwrap();
            Self { events, bell, ended, bridge: std::thread::spawn(|| bridge.run()) }
        }

        fn tell(&self, event: Event, data: &[u8]) {
            self.events.send((event, data.to_vec())).unwrap();
            rustix::io::write(&self.bell, &1u64.to_le_bytes()).unwrap();
        }

        fn ask(&self, tag: u16, kind: Kind, offset: u64, len: u32, data: &[u8]) {
            self.tell(Event::Request(tag, Request { kind, offset, len }), data);
        }

        fn ended(&self) -> Ended {
            self.ended.recv_timeout(Duration::from_secs(30)).unwrap()
        }

        fn stop(self) {
            self.tell(Event::Gone, &[]);
            self.bridge.join().unwrap().unwrap();
            assert!(self.ended.recv().is_err(), "nothing is finished that was not asked for");
        }
    }

    fn written(fua: bool) -> Kind {
        Kind::Write { fua }
    }

    #[test]
    fn requests_reach_the_server_and_its_answers_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("socket");
        let device: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(1 << 20));
        let exports = ExportTable::new().with("disk", "", Arc::clone(&device));
        let config = ServerConfig {
            listeners: vec![ListenAddr::Unix(at.clone())],
            ..ServerConfig::default()
        };
        let _server = Server::start(Arc::new(exports), &config).unwrap();
        let kernel = Kernel::with(client::connect(&at, "disk").unwrap().0);
        let data: Vec<u8> = (0..BUFFER_BYTES).map(|at| (at * 7 + at / 256) as u8).collect();
        // All buffers at once: more than the socket holds.
        for tag in 0..DEPTH {
            let offset = u64::from(tag) * BUFFER_BYTES as u64;
            kernel.ask(tag, written(tag == 1), offset, BUFFER_BYTES as u32, &data);
        }
        for _ in 0..DEPTH {
            assert_eq!(kernel.ended().1, Ok(BUFFER_BYTES as u32));
        }
        kernel.ask(3, Kind::Flush, 0, 0, &[]);
        assert_eq!(kernel.ended().1, Ok(0));
        kernel.ask(0, Kind::Zeroes { no_hole: true, fua: false }, 4096, 4096, &[]);
        assert_eq!(kernel.ended().1, Ok(0));
        kernel.ask(0, Kind::Discard, 8192, 4096, &[]);
        assert_eq!(kernel.ended().1, Ok(0));
        for tag in 0..DEPTH {
            kernel.ask(tag, Kind::Read, 0, BUFFER_BYTES as u32, &[]);
        }
        for _ in 0..DEPTH {
            let (_, result, got) = kernel.ended();
            assert_eq!(result, Ok(BUFFER_BYTES as u32));
            assert!(got[4096..12288].iter().all(|&byte| byte == 0));
            assert!(got[..4096] == data[..4096] && got[12288..] == data[12288..]);
        }
        let mut stored = vec![0; BUFFER_BYTES];
        device.read_at(3 * BUFFER_BYTES as u64, &mut stored).unwrap();
        assert!(stored == data);
        // Past the end: the server's answer is passed on, and nothing else goes wrong.
        kernel.ask(1, written(false), 1 << 20, 4096, &[]);
        kernel.ask(2, Kind::Other(9), 0, 4096, &[]);
        let mut failed = [kernel.ended(), kernel.ended()];
        failed.sort_by_key(|&(tag, ..)| tag);
        assert_eq!((failed[0].1, failed[1].1), (Err(28), Err(EIO)));
        kernel.ask(1, Kind::Read, 0, 4096, &[]);
        assert_eq!(kernel.ended().1, Ok(4096));
        kernel.stop();
    }

    fn reply(magic: u32, error: u32, cookie: u64) -> Vec<u8> {
        [&magic.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes()].concat()
    }

    #[test]
    fn a_server_that_goes_or_talks_nonsense_fails_what_is_under_way_and_what_comes() {
        let good = SIMPLE_REPLY_MAGIC;
        let cut = [reply(good, 0, 0), vec![7; 100]].concat();
        let twice = [reply(good, 0, 1), reply(good, 0, 1)].concat();
        let answers = [
            (vec![], 0),
            (reply(good + 1, 0, 0), 0),
            (reply(good, 0, 3), 0),
            (reply(good, 0, 1 << 16), 0),
            (reply(good, 0, u64::MAX), 0),
            (reply(good, 0, 1 << 32 | 1), 0),
            (reply(good, 0, 1 << 56 | 1), 0),
            (cut, 0),
            (twice, 1),
        ];
        for (answer, done) in answers {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let kernel = Kernel::with(ours);
            kernel.ask(0, Kind::Read, 0, 4096, &[]);
            kernel.ask(1, written(false), 0, 512, &[1; 512]);
            let mut asked = vec![0; 2 * REQUEST_BYTES + 512];
            (&theirs).read_exact(&mut asked).unwrap();
            (&theirs).write_all(&answer).unwrap();
            drop(theirs);
            let results = [kernel.ended().1, kernel.ended().1];
            let failed = results.iter().filter(|&&result| result == Err(EIO)).count();
            assert_eq!(failed, 2 - done, "{answer:?}");
            kernel.ask(2, Kind::Flush, 0, 0, &[]);
            assert_eq!(kernel.ended().1, Err(EIO));
            kernel.stop();
        }
    }

    #[test]
    fn an_answer_to_what_was_not_sent_whole_is_nonsense() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&ours, 4096).unwrap();
        let kernel = Kernel::with(ours);
        kernel.ask(0, written(false), 0, BUFFER_BYTES as u32, &vec![1; BUFFER_BYTES]);
        let mut head = [0; REQUEST_BYTES];
        (&theirs).read_exact(&mut head).unwrap();
        (&theirs).write_all(&reply(SIMPLE_REPLY_MAGIC, 0, 0)).unwrap();
        assert_eq!(kernel.ended().1, Err(EIO));
        kernel.stop();
    }

    #[test]
    fn reads_of_nothing_and_of_one_byte_end_with_their_answers() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let kernel = Kernel::with(ours);
        for len in [0, 1, 2] {
            kernel.ask(1, Kind::Read, 0, len, &[]);
            (&theirs).read_exact(&mut [0; REQUEST_BYTES]).unwrap();
            let answer = [reply(SIMPLE_REPLY_MAGIC, 0, 1), vec![9; len as usize]].concat();
            (&theirs).write_all(&answer).unwrap();
            let (_, result, got) = kernel.ended();
            assert_eq!((result, &got[..len as usize]), (Ok(len), &vec![9; len as usize][..]));
        }
        kernel.stop();
    }

    #[test]
    fn what_does_not_go_at_once_goes_when_the_server_reads_on() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&ours, 4096).unwrap();
        // Whoever does not hear of the room sends no more.
        theirs.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let kernel = Kernel::with(ours);
        kernel.ask(0, written(false), 0, BUFFER_BYTES as u32, &vec![7; BUFFER_BYTES]);
        let mut asked = vec![0; REQUEST_BYTES + BUFFER_BYTES];
        (&theirs).read_exact(&mut asked).unwrap();
        assert!(asked[REQUEST_BYTES..].iter().all(|&byte| byte == 7));
        (&theirs).write_all(&reply(SIMPLE_REPLY_MAGIC, 0, 0)).unwrap();
        assert_eq!(kernel.ended().1, Ok(BUFFER_BYTES as u32));
        kernel.stop();
    }

    #[test]
    fn requests_are_laid_out_as_the_protocol_has_them() {
        let request = |kind| Request { kind, offset: 0x0102, len: 0x0304_0000 };
        let told = |kind| head(9, &request(kind))[4..8].to_vec();
        assert_eq!(told(Kind::Read), [0, 0, 0, 0]);
        assert_eq!(told(written(true)), [0, 1, 0, 1]);
        assert_eq!(told(Kind::Flush), [0, 0, 0, 3]);
        assert_eq!(told(Kind::Discard), [0, 0, 0, 4]);
        assert_eq!(told(Kind::Zeroes { no_hole: true, fua: true }), [0, 3, 0, 6]);
        let whole = head(9, &request(Kind::Read));
        assert_eq!(whole[..4], *b"\x25\x60\x95\x13");
        assert_eq!(whole[8..], *b"\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\x01\x02\x03\x04\0\0");
        assert!(head(9, &request(Kind::Flush))[16..].iter().all(|&byte| byte == 0));
    }
}
