//! A device of the kernel's and its queues: made, shown, carried and gone again.
//! Room: onefold.
//! Invariant: whatever fails before the device is shown, none is left.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use onefold_ublk::{Control, Device, Queue, Shape};
use rustix::io::Errno;

use super::bridge::{Bridge, Requests};
use super::netlink::Shown;

/// Who makes devices.
pub trait Kernel {
    type Device: Made;
    fn add(&mut self, shape: &Shape) -> io::Result<Self::Device>;
    fn start(&mut self, device: u32) -> io::Result<()>;
    fn process_of(&mut self, device: u32) -> io::Result<Option<u32>>;
    fn stop(&mut self, device: u32) -> io::Result<()>;
    fn delete(&mut self, device: u32) -> io::Result<()>;
}

/// A device that was made. It is closed when this is dropped.
pub trait Made: Sync {
    type Queue: Requests;
    fn number(&self) -> u32;
    fn queues(&self) -> u16;
    fn queue(&self, number: u16) -> io::Result<Self::Queue>;
}

impl Kernel for Control {
    type Device = Device;

    fn add(&mut self, shape: &Shape) -> io::Result<Device> {
        Self::add(self, shape)
    }

    fn start(&mut self, device: u32) -> io::Result<()> {
        Self::start(self, device)
    }

    fn process_of(&mut self, device: u32) -> io::Result<Option<u32>> {
        Self::process_of(self, device)
    }

    fn stop(&mut self, device: u32) -> io::Result<()> {
        Self::stop(self, device)
    }

    fn delete(&mut self, device: u32) -> io::Result<()> {
        Self::delete(self, device)
    }
}

impl Made for Device {
    type Queue = Queue;

    fn number(&self) -> u32 {
        self.number
    }

    fn queues(&self) -> u16 {
        self.queues
    }

    fn queue(&self, number: u16) -> io::Result<Queue> {
        Self::queue(self, number)
    }
}

/// How far it has come.
#[derive(Clone, Copy, Debug)]
pub enum Now {
    /// There is a device of this number, which is not shown yet.
    Made(u32),
    /// It is shown.
    Shown,
}

/// A connection to the server.
type Connected = io::Result<(UnixStream, Shown)>;

/// Make a device, show it, and carry its requests until it is stopped.
pub fn carry<K: Kernel>(
    kernel: &mut K,
    shape: &Shape,
    connect: &(impl Fn() -> Connected + Sync),
    tell: &mut impl FnMut(Now) -> io::Result<()>,
) -> io::Result<()> {
    let device = kernel.add(shape)?;
    let number = device.number();
    let carried = carry_all(kernel, &device, connect, tell);
    // The kernel waits for whoever has it open.
    drop(device);
    if carried.is_err() {
        // What was shown is gone, or nothing was: nobody else knows of it.
        let _ = kernel.delete(number);
    }
    carried
}

fn carry_all<K: Kernel>(
    kernel: &mut K,
    device: &K::Device,
    connect: &(impl Fn() -> Connected + Sync),
    tell: &mut impl FnMut(Now) -> io::Result<()>,
) -> io::Result<()> {
    tell(Now::Made(device.number()))?;
    let (to, opened) = channel();
    thread::scope(|scope| {
        let queue = |number| {
            let to = to.clone();
            scope.spawn(move || carry_queue(device, number, connect, &to))
        };
        let queues: Vec<_> = (0..device.queues()).map(queue).collect();
        let shown = show(kernel, device, &opened, tell);
        if shown.is_err() {
            // Their threads hear of it, and end.
            kernel.stop(device.number())?;
        }
        let ended = queues.into_iter().map(|queue| {
            queue.join().unwrap_or_else(|_| Err(io::Error::other("a queue's thread panicked")))
        });
        shown.and(ended.collect())
    })
}

/// The kernel shows a device once every queue has asked for requests.
fn show<K: Kernel>(
    kernel: &mut K,
    device: &K::Device,
    opened: &Receiver<io::Result<()>>,
    tell: &mut impl FnMut(Now) -> io::Result<()>,
) -> io::Result<()> {
    // All of them, also where one has failed: one that asks after a stop would never hear of it.
    let opened: Vec<_> = opened.iter().take(device.queues().into()).collect();
    opened.into_iter().collect::<io::Result<()>>()?;
    kernel.start(device.number())?;
    tell(Now::Shown)
}

fn carry_queue(
    device: &impl Made,
    number: u16,
    connect: impl Fn() -> Connected,
    opened: &Sender<io::Result<()>>,
) -> io::Result<()> {
    let bridge = connect()
        .and_then(|(stream, _)| Ok((device.queue(number)?, stream)))
        .and_then(|(queue, stream)| Bridge::new(queue, stream));
    match bridge {
        Ok(bridge) => {
            let _ = opened.send(Ok(()));
            bridge.run()
        }
        Err(error) => {
            let _ = opened.send(Err(error));
            Ok(())
        }
    }
}

/// The same, unless there is no such device any more.
fn if_there<T: Default>(done: io::Result<T>) -> io::Result<T> {
    match done {
        Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Ok(T::default()),
        done => done,
    }
}

/// Remove a device, if it is still the one for which this process answered: where another one does,
/// another device has its number. `let_go` says whether somebody has it in use.
pub fn remove<E>(
    kernel: &mut impl Kernel,
    (device, process): (u32, u32),
    let_go: impl FnOnce() -> Result<(), E>,
    failed: impl Fn(io::Error) -> E,
) -> Result<(), E> {
    let is_ours = |answers: Option<u32>| answers.is_none_or(|other| other == process);
    if !if_there(kernel.process_of(device).map(is_ours)).map_err(&failed)? {
        return Ok(());
    }
    let_go()?;
    if_there(kernel.stop(device).and_then(|()| kernel.delete(device))).map_err(&failed)
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::sync::{Arc, Mutex};

    use onefold_ublk::{Durable, Event};
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    /// A kernel with one device, which fails at one thing.
    #[derive(Clone)]
    struct Fake {
        /// What was done, in its order.
        log: Arc<Mutex<Vec<String>>>,
        fails: &'static str,
        /// What tells that there is no such device.
        gone: &'static str,
        process: Option<u32>,
        /// Rings once the device is stopped.
        stopped: Arc<OwnedFd>,
    }

    impl Fake {
        fn new(fails: &'static str, gone: &'static str, process: Option<u32>) -> Self {
            let stopped = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
            Self { log: Arc::default(), fails, gone, process, stopped }
        }

        fn does(&self, what: &str) -> io::Result<()> {
            self.log.lock().unwrap().push(what.to_owned());
            match what {
                what if what == self.fails => Err(io::Error::other(format!("no {what}"))),
                what if what == self.gone => Err(Errno::NODEV.into()),
                _ => Ok(()),
            }
        }

        fn ring(&self) {
            rustix::io::write(&self.stopped, &1_u64.to_le_bytes()).unwrap();
        }
    }

    impl Kernel for Fake {
        type Device = Opened;

        fn add(&mut self, _: &Shape) -> io::Result<Opened> {
            self.does("add").map(|()| Opened(self.clone()))
        }

        fn start(&mut self, device: u32) -> io::Result<()> {
            self.does(&format!("start {device}"))
        }

        fn process_of(&mut self, device: u32) -> io::Result<Option<u32>> {
            self.does(&format!("ask {device}")).map(|()| self.process)
        }

        fn stop(&mut self, device: u32) -> io::Result<()> {
            self.ring();
            self.does(&format!("stop {device}"))
        }

        fn delete(&mut self, device: u32) -> io::Result<()> {
            self.does(&format!("delete {device}"))
        }
    }

    struct Opened(Fake);

    impl Drop for Opened {
        fn drop(&mut self) {
            self.0.does("close").unwrap();
        }
    }

    impl Made for Opened {
        type Queue = Self;

        fn number(&self) -> u32 {
            7
        }

        fn queues(&self) -> u16 {
            2
        }

        fn queue(&self, number: u16) -> io::Result<Self> {
            if self.0.fails == format!("queue {number}") {
                return Err(io::Error::other(format!("no queue {number}")));
            }
            // What it does as a queue is of no account here.
            let log = Arc::default();
            Ok(Self(Fake { log, ..self.0.clone() }))
        }
    }

    impl AsFd for Opened {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.stopped.as_fd()
        }
    }

    impl Requests for Opened {
        fn next_event(&mut self) -> Option<Event> {
            let mut rung = [0; 8];
            let read = rustix::io::read(&self.0.stopped, &mut rung).ok()?;
            // For the other queue.
            self.0.ring();
            (read > 0).then_some(Event::Gone)
        }

        fn data(&mut self, _: u16, _: usize) -> &mut [u8] {
            unreachable!("nothing is asked")
        }

        fn finish(&mut self, _: u16, _: Result<u32, i32>) -> io::Result<()> {
            unreachable!("nothing is asked")
        }

        fn submit(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_device_is_removed_if_it_is_the_one_that_was_made_and_one_that_is_gone_is_no_failure() {
        let whole = "ask 7, let go, stop 7, delete 7";
        for (fails, gone, process, is_done, log) in [
            ("", "", Some(99), true, whole),
            ("", "", None, true, whole),
            ("", "", Some(98), true, "ask 7"),
            ("", "ask 7", Some(99), true, "ask 7"),
            ("", "stop 7", None, true, "ask 7, let go, stop 7"),
            ("", "delete 7", None, true, whole),
            ("ask 7", "", Some(99), false, "ask 7"),
            ("let go", "", None, false, "ask 7, let go"),
            ("stop 7", "", None, false, "ask 7, let go, stop 7"),
            ("delete 7", "", None, false, whole),
        ] {
            let mut kernel = Fake::new(fails, gone, process);
            let user = kernel.clone();
            let removed = remove(&mut kernel, (7, 99), || user.does("let go"), |error| error);
            let done = kernel.log.lock().unwrap().join(", ");
            assert_eq!((removed.is_ok(), &*done), (is_done, log), "{fails}{gone}");
        }
    }

    #[test]
    fn a_device_is_shown_once_all_queues_are_open_and_none_is_left_where_something_fails() {
        let shape = Shape {
            size_bytes: 512,
            block_bytes: 512,
            read_only: false,
            durable: Durable::Always,
            discards: false,
            queues: 2,
            depth: 1,
            buffer_bytes: 4096,
        };
        let carried = |fails: &'static str| {
            let mut kernel = Fake::new(fails, "", None);
            let servers = Mutex::new(Vec::new());
            let connect = || {
                let (ours, theirs) = UnixStream::pair()?;
                servers.lock().unwrap().push(theirs);
                if fails == "connect" {
                    return Err(io::Error::other("no connect"));
                }
                Ok((ours, Shown { size_bytes: 512, block_bytes: 512, flags: 0 }))
            };
            let teller = kernel.clone();
            let mut tell = |now| match now {
                Now::Made(device) => teller.does(&format!("made {device}")),
                // Somebody stops it at once.
                Now::Shown => teller.does("shown").map(|()| teller.ring()),
            };
            let done = carry(&mut kernel, &shape, &connect, &mut tell);
            let log = kernel.log.lock().unwrap().join(", ");
            (done.map_err(|error| error.to_string()), log)
        };
        let failed = |fails: &str, log: &str| (Err(format!("no {fails}")), log.to_owned());
        let whole = "add, made 7, start 7, shown, close".to_owned();
        assert_eq!(carried(""), (Ok(()), whole));
        assert_eq!(carried("add"), failed("add", "add"));
        let nobody = "add, made 7, close, delete 7";
        assert_eq!(carried("made 7"), failed("made 7", nobody));
        for early in ["connect", "queue 0", "queue 1"] {
            let log = "add, made 7, stop 7, close, delete 7";
            assert_eq!(carried(early), failed(early, log));
        }
        let log = "add, made 7, start 7, stop 7, close, delete 7";
        assert_eq!(carried("start 7"), failed("start 7", log));
        let log = "add, made 7, start 7, shown, stop 7, close, delete 7";
        assert_eq!(carried("shown"), failed("shown", log));
    }
}
