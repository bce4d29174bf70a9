//! A monitor by rust-vmm's front end, and a guest's driver of one queue.
//! Room: onefold-vhost.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onefold_block::{BlockDevice, MemDevice};
use onefold_vhost::{Server, ServerConfig, Source};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use tempfile::TempDir;
use vhost::vhost_user::message::VhostUserConfigFlags;
use vhost::vhost_user::{Frontend, VhostUserFrontend as _, VhostUserProtocolFeatures};
use vhost::{VhostBackend as _, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{
    Bytes as _, FileOffset, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap,
    GuestRegionMmap, MmapRegion,
};
use vmm_sys_util::eventfd::EventFd;

/// Where the guest's memory begins, and how long it is.
pub const START: u64 = 0x10_0000;
pub const BYTES: u64 = 8 << 20;
/// Where the guest keeps data.
pub const DATA: u64 = START + 0x10_0000;
const AVAILABLE: u64 = START + 0x4000;
const USED: u64 = START + 0x8000;
const HEADERS: u64 = START + 0x1_0000;
/// Entries of the queue.
pub const ENTRIES: u16 = 128;

pub const READ: u32 = 0;
pub const WRITE: u32 = 1;
pub const FLUSH: u32 = 4;
pub const NAME: u32 = 8;
pub const DISCARD: u32 = 11;
pub const ZEROES: u32 = 13;

const FLAG_NEXT: u16 = 1;
const FLAG_WRITE: u16 = 2;
pub const FLAG_INDIRECT: u16 = 4;

/// Features by their bits.
pub const READ_ONLY: u64 = 1 << 5;
pub const FEATURE_FLUSH: u64 = 1 << 9;
pub const FEATURE_EVENT_INDEX: u64 = 1 << 29;
pub const FEATURE_PROTOCOL: u64 = 1 << 30;
const FEATURE_VERSION_1: u64 = 1 << 32;

/// A device under a name, or a reason why there is none.
pub struct Fixed(pub Mutex<Result<Arc<dyn BlockDevice>, String>>, String);

impl Source for Fixed {
    fn open(&self) -> Result<Arc<dyn BlockDevice>, String> {
        self.0.lock().unwrap().clone()
    }
    fn name(&self) -> String {
        self.1.clone()
    }
}

/// A server with a socket of its own.
pub struct Scene {
    _folder: TempDir,
    pub path: PathBuf,
    pub source: Arc<Fixed>,
    pub server: Option<Server>,
}

impl Scene {
    pub fn new(device: Arc<dyn BlockDevice>, read_only: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vm");
        let listener = UnixListener::bind(&path).unwrap();
        let source = Arc::new(Fixed(Mutex::new(Ok(device)), "main".to_owned()));
        let config = ServerConfig { read_only, max_connections: 3 };
        let of_server = Arc::clone(&source) as Arc<dyn Source>;
        let server = Server::start(listener, "vhost-user:test", of_server, config).unwrap();
        Self { _folder: folder, path, source, server: Some(server) }
    }

    /// Of memory, so many bytes.
    pub fn of_memory(bytes: u64) -> Self {
        Self::new(Arc::new(MemDevice::new(bytes)), false)
    }

    pub fn connect(&self) -> Guest {
        Guest::connect(self, |features| features)
    }

    pub fn connections(&self) -> usize {
        self.server.as_ref().unwrap().handle().connection_count()
    }
}

/// A file of memory, sealed as a monitor does it.
pub fn sealed(bytes: u64) -> OwnedFd {
    let file = memfd_create("guest", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, bytes).unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).unwrap();
    file
}

/// Wait until something can be read; `false` after ten seconds.
pub fn readable(file: &impl std::os::fd::AsFd) -> bool {
    let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
    let mut polled = [PollFd::new(file, PollFlags::IN)];
    poll(&mut polled, Some(&limit)).unwrap() > 0
}

/// A descriptor: address, length, flags, next.
pub type Descriptor = (u64, u32, u16, u16);

/// A guest with one queue.
pub struct Guest {
    pub frontend: Frontend,
    pub memory: GuestMemoryMmap<()>,
    /// The number of its queue.
    pub queue: usize,
    /// Whether its monitor knows that queues can be enabled.
    enables: bool,
    kick: EventFd,
    call: EventFd,
    next_descriptor: u16,
    /// How many requests were made, and how many were seen to be answered.
    pub made: u16,
    pub seen: u16,
}

impl Guest {
    /// Say all that a monitor says, with these of the features that are offered.
    pub fn connect(scene: &Scene, choose: impl FnOnce(u64) -> u64) -> Self {
        let mut frontend = Frontend::connect(&scene.path, 64).unwrap();
        frontend.set_owner().unwrap();
        let offered = frontend.get_features().unwrap();
        let wanted = FEATURE_PROTOCOL | FEATURE_VERSION_1 | FEATURE_FLUSH | FEATURE_EVENT_INDEX;
        let features = choose(offered & wanted & !FEATURE_EVENT_INDEX);
        if features & FEATURE_PROTOCOL != 0 {
            let protocol = frontend.get_protocol_features().unwrap();
            frontend.set_protocol_features(protocol).unwrap();
        }
        frontend.set_features(features).unwrap();
        let file = sealed(BYTES);
        let handle = file.as_raw_fd();
        let pages = MmapRegion::from_file(FileOffset::new(file.into(), 0), BYTES as usize).unwrap();
        let region = GuestRegionMmap::new(pages, GuestAddress(START)).unwrap();
        let memory = GuestMemoryMmap::from_regions(vec![region]).unwrap();
        let at = |guest| memory.get_host_address(GuestAddress(guest)).unwrap() as u64;
        let table = VhostUserMemoryRegionInfo {
            guest_phys_addr: START,
            memory_size: BYTES,
            userspace_addr: at(START),
            mmap_offset: 0,
            mmap_handle: handle,
        };
        frontend.set_mem_table(&[table]).unwrap();
        let (kick, call) = (EventFd::new(0).unwrap(), EventFd::new(0).unwrap());
        let (queue, next_descriptor, made, seen) = (0, 0, 0, 0);
        let enables = features & FEATURE_PROTOCOL != 0;
        let mut guest =
            Self { frontend, memory, queue, enables, kick, call, next_descriptor, made, seen };
        guest.set_up(0);
        guest
    }

    /// Go on in other memory with the same content, which the monitor has where it had
    /// the first; once.
    pub fn move_memory(&mut self) {
        let before = self.memory.get_host_address(GuestAddress(START)).unwrap() as u64;
        let mut content = vec![0; BYTES as usize];
        self.memory.read_slice(&mut content, GuestAddress(START)).unwrap();
        let file = sealed(BYTES);
        let handle = file.as_raw_fd();
        let pages = MmapRegion::from_file(FileOffset::new(file.into(), 0), BYTES as usize).unwrap();
        let region = GuestRegionMmap::new(pages, GuestAddress(START)).unwrap();
        self.memory = GuestMemoryMmap::from_regions(vec![region]).unwrap();
        self.memory.write_slice(&content, GuestAddress(START)).unwrap();
        let table = VhostUserMemoryRegionInfo {
            guest_phys_addr: START,
            memory_size: BYTES,
            userspace_addr: before,
            mmap_offset: 0,
            mmap_handle: handle,
        };
        self.frontend.set_mem_table(&[table]).unwrap();
    }

    /// Set the queue up, so that it begins with this request.
    pub fn set_up(&mut self, next: u16) {
        self.set_up_from(0, next);
    }

    /// The same in another order: from this part on, and then those before it.
    pub fn set_up_from(&mut self, first: usize, next: u16) {
        let at = |guest| self.memory.get_host_address(GuestAddress(guest)).unwrap() as u64;
        let places = VringConfigData {
            queue_max_size: ENTRIES,
            queue_size: ENTRIES,
            flags: 0,
            desc_table_addr: at(START),
            used_ring_addr: at(USED),
            avail_ring_addr: at(AVAILABLE),
            log_addr: None,
        };
        for part in (0..6).cycle().skip(first).take(6) {
            let told = match part {
                0 => self.frontend.set_vring_num(self.queue, ENTRIES),
                1 => self.frontend.set_vring_base(self.queue, next),
                2 => self.frontend.set_vring_addr(self.queue, &places),
                3 => self.frontend.set_vring_call(self.queue, &self.call),
                4 => self.frontend.set_vring_kick(self.queue, &self.kick),
                _ if !self.enables => Ok(()),
                _ => self.frontend.set_vring_enable(self.queue, true),
            };
            told.unwrap();
        }
    }

    /// Put a descriptor into the table.
    pub fn put_descriptor(&self, number: u16, (at, len, flags, next): Descriptor) {
        let place = START + u64::from(number) * 16;
        self.put_descriptor_at(place, (at, len, flags, next));
    }

    pub fn put_descriptor_at(&self, place: u64, (at, len, flags, next): Descriptor) {
        let place = GuestAddress(place);
        let mut bytes = at.to_le_bytes().to_vec();
        bytes.extend(len.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(next.to_le_bytes());
        self.memory.write_slice(&bytes, place).unwrap();
    }

    /// Make a chain available, without a call.
    pub fn offer(&mut self, head: u16) {
        let slot = AVAILABLE + 4 + u64::from(self.made % ENTRIES) * 2;
        self.memory.write_slice(&head.to_le_bytes(), GuestAddress(slot)).unwrap();
        self.made = self.made.wrapping_add(1);
        self.say_made(self.made);
    }

    /// Say how many requests were made.
    pub fn say_made(&self, made: u16) {
        self.memory.store(made.to_le(), GuestAddress(AVAILABLE + 2), Ordering::SeqCst).unwrap();
    }

    /// Make a chain of these pieces, of which the guest reads the ones that are marked; its head.
    pub fn chain(&mut self, pieces: &[(u64, u32, bool)]) -> u16 {
        let count = pieces.len() as u16;
        if self.next_descriptor + count > ENTRIES {
            self.next_descriptor = 0;
        }
        let head = self.next_descriptor;
        for (number, &(at, len, reads)) in pieces.iter().enumerate() {
            let place = head + number as u16;
            let more = number + 1 < pieces.len();
            let flags = if more { FLAG_NEXT } else { 0 } | if reads { FLAG_WRITE } else { 0 };
            self.put_descriptor(place, (at, len, flags, place + 1));
        }
        self.next_descriptor += count;
        self.offer(head);
        head
    }

    /// The header of a request, and where its status goes.
    pub fn header(&self, head: u16, kind: u32, sector: u64) -> (u64, u64) {
        let at = HEADERS + u64::from(head) * 32;
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend(sector.to_le_bytes());
        bytes.push(0xee);
        self.memory.write_slice(&bytes, GuestAddress(at)).unwrap();
        (at, at + 16)
    }

    /// Make a request with data at an address; the number of its chain.
    pub fn ask(&mut self, kind: u32, sector: u64, (at, len): (u64, u32)) -> u16 {
        if self.next_descriptor + 3 > ENTRIES {
            self.next_descriptor = 0;
        }
        let (header, status) = self.header(self.next_descriptor, kind, sector);
        let reads = matches!(kind, READ | NAME);
        let data = (at, len, reads);
        let pieces = [(header, 16, false), data, (status, 1, true)];
        if len == 0 { self.chain(&[pieces[0], pieces[2]]) } else { self.chain(&pieces) }
    }

    /// How a request ended: 0 done, 1 failed, 2 not known; 0xee if nothing was said.
    pub fn status(&self, head: u16) -> u8 {
        self.memory.read_obj(GuestAddress(HEADERS + u64::from(head) * 32 + 16)).unwrap()
    }

    pub fn kick(&self) {
        self.kick.write(1).unwrap();
    }

    /// Call, and be called, by others from now on.
    pub fn change_events(&mut self) {
        (self.kick, self.call) = (EventFd::new(0).unwrap(), EventFd::new(0).unwrap());
        self.frontend.set_vring_call(self.queue, &self.call).unwrap();
        self.frontend.set_vring_kick(self.queue, &self.kick).unwrap();
    }

    /// Whether it is called, at last; it stays so.
    pub fn is_called(&self) -> bool {
        readable(&file_of(&self.call))
    }

    /// Have no room left for calls: whoever waits for that waits for ever.
    pub fn fill_call(&self) {
        self.call.write(u64::MAX - 1).unwrap();
    }

    /// Want to be called when this request was answered, where indexes of events are agreed on.
    pub fn want_call_after(&self, request: u16) {
        let place = GuestAddress(AVAILABLE + 4 + 2 * u64::from(ENTRIES));
        self.memory.store(request.to_le(), place, Ordering::SeqCst).unwrap();
    }

    /// From which request on the guest has to call, where indexes of events are agreed on.
    pub fn must_call_from(&self) -> u16 {
        let place = GuestAddress(USED + 4 + 8 * u64::from(ENTRIES));
        u16::from_le(self.memory.load(place, Ordering::Acquire).unwrap())
    }

    /// Wait until all that was made is answered; chains and used bytes in the order of answers.
    pub fn wait(&mut self) -> Vec<(u16, u32)> {
        let mut answers = Vec::new();
        while self.seen != self.made {
            let used: u16 = self.memory.load(GuestAddress(USED + 2), Ordering::Acquire).unwrap();
            while self.seen != u16::from_le(used) {
                let slot = GuestAddress(USED + 4 + u64::from(self.seen % ENTRIES) * 8);
                let (head, len): (u32, u32) = (
                    self.memory.read_obj(slot).unwrap(),
                    self.memory.read_obj(GuestAddress(slot.0 + 4)).unwrap(),
                );
                answers.push((head as u16, len));
                self.seen = self.seen.wrapping_add(1);
            }
            if self.seen != self.made {
                assert!(readable(&file_of(&self.call)), "{answers:?} of {}", self.made);
                self.call.read().unwrap();
            }
        }
        answers
    }

    /// Whether nothing is answered for a while. For what must never be.
    pub fn is_silent(&self) -> bool {
        std::thread::sleep(Duration::from_millis(50));
        let used: u16 = self.memory.load(GuestAddress(USED + 2), Ordering::Acquire).unwrap();
        u16::from_le(used) == self.seen
    }

    /// Whether all that was made is answered; takes note of it.
    pub fn is_answered(&mut self) -> bool {
        let used: u16 = self.memory.load(GuestAddress(USED + 2), Ordering::Acquire).unwrap();
        self.seen = u16::from_le(used);
        self.seen == self.made
    }

    /// Make a request, call, and wait; how it ended.
    pub fn do_now(&mut self, kind: u32, sector: u64, data: (u64, u32)) -> u8 {
        let head = self.ask(kind, sector, data);
        self.kick();
        self.wait();
        self.status(head)
    }

    pub fn fill(&self, at: u64, len: usize, byte: u8) {
        self.memory.write_slice(&vec![byte; len], GuestAddress(at)).unwrap();
    }

    pub fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
        bytes
    }

    /// The configuration space.
    pub fn config(&mut self) -> Vec<u8> {
        let flags = VhostUserConfigFlags::empty();
        self.frontend.get_config(0, 60, flags, &[0; 60]).unwrap().1
    }

    /// How many sectors the disk has.
    pub fn sectors(&mut self) -> u64 {
        u64::from_le_bytes(self.config()[..8].try_into().unwrap())
    }

    /// Whether the server still speaks with this monitor.
    pub fn is_served(&mut self) -> bool {
        self.frontend.get_features().is_ok()
    }
}

fn file_of(event: &EventFd) -> OwnedFd {
    use std::os::fd::BorrowedFd;
    // SAFETY: the event's file is open for as long as the event is borrowed.
    let borrowed = unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) };
    borrowed.try_clone_to_owned().unwrap()
}

/// What a front end asks of the protocol, by name.
pub fn all_that_is_offered() -> VhostUserProtocolFeatures {
    VhostUserProtocolFeatures::MQ
        | VhostUserProtocolFeatures::REPLY_ACK
        | VhostUserProtocolFeatures::BACKEND_REQ
        | VhostUserProtocolFeatures::CONFIG
}
