//! The driver of a virtual machine's disk, without the machine: a queue in shared memory, set up by
//! rust-vmm's front end, and random reads through it.
//! Room: onefold-bench.

use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use vhost::vhost_user::{Frontend, VhostUserFrontend as _};
use vhost::{VhostBackend as _, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{
    Bytes as _, FileOffset, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap,
    GuestRegionMmap, MmapRegion,
};
use vmm_sys_util::eventfd::EventFd;

use super::clients::Run;
use super::servers::Server;
use crate::clock;

const MEMORY_BYTES: u64 = 4 << 20;
const ENTRIES: u16 = 256;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x8000;
const HEADERS: u64 = 0x1_0000;
const DATA: u64 = 0x10_0000;
/// Bytes of a request.
const BLOCK: u64 = 4096;
/// Version 1, flushes, event index, features of the protocol.
const FEATURES: u64 = 1 << 32 | 1 << 9 | 1 << 29 | 1 << 30;
/// Flags of descriptors: another one follows; the device writes it.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
/// Longest that an answer may take, in seconds.
const PATIENCE: i64 = 60;

/// A driver.
pub struct Driver {
    /// The connection, which ends with it.
    _frontend: Frontend,
    memory: GuestMemoryMmap<()>,
    kick: EventFd,
    call: EventFd,
    depth: u16,
    made: u16,
    seen: u16,
}

impl Driver {
    /// Connect to a server's socket, for so many requests at once.
    pub fn connect(socket: &Path, depth: u16) -> Result<Self> {
        let mut frontend = Frontend::connect(socket, 1).context("cannot connect to the socket")?;
        frontend.set_owner()?;
        let offered = frontend.get_features()?;
        let protocol = frontend.get_protocol_features()?;
        frontend.set_protocol_features(protocol)?;
        frontend.set_features(offered & FEATURES)?;
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        let file = memfd_create("bench", flags).context("no memory")?;
        ftruncate(&file, MEMORY_BYTES)?;
        fcntl_add_seals(&file, SealFlags::SHRINK)?;
        let handle = file.as_raw_fd();
        let pages = MmapRegion::from_file(FileOffset::new(file.into(), 0), MEMORY_BYTES as usize)?;
        let region = GuestRegionMmap::new(pages, GuestAddress(0)).context("no region")?;
        let memory = GuestMemoryMmap::from_regions(vec![region])?;
        let base = memory.get_host_address(GuestAddress(0))? as u64;
        frontend.set_mem_table(&[VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: MEMORY_BYTES,
            userspace_addr: base,
            mmap_offset: 0,
            mmap_handle: handle,
        }])?;
        let (kick, call) = (EventFd::new(0)?, EventFd::new(0)?);
        frontend.set_vring_num(0, ENTRIES)?;
        frontend.set_vring_base(0, 0)?;
        let places = VringConfigData {
            queue_max_size: ENTRIES,
            queue_size: ENTRIES,
            flags: 0,
            desc_table_addr: base,
            used_ring_addr: base + USED,
            avail_ring_addr: base + AVAILABLE,
            log_addr: None,
        };
        frontend.set_vring_addr(0, &places)?;
        frontend.set_vring_call(0, &call)?;
        frontend.set_vring_kick(0, &kick)?;
        frontend.set_vring_enable(0, true)?;
        let driver = Self { _frontend: frontend, memory, kick, call, depth, made: 0, seen: 0 };
        (0..depth).try_for_each(|slot| driver.lay_out(slot))?;
        Ok(driver)
    }

    /// Three descriptors for each request: header, data, status.
    fn lay_out(&self, slot: u16) -> Result<()> {
        let (first, header) = (slot * 3, HEADERS + u64::from(slot) * 32);
        let data = DATA + u64::from(slot) * BLOCK;
        let rows = [
            (header, 16, NEXT, first + 1),
            (data, BLOCK as u32, NEXT | WRITE, first + 2),
            (header + 16, 1, WRITE, 0),
        ];
        for (number, (at, len, flags, next)) in (u64::from(first)..).zip(rows) {
            let place = number * 16;
            self.memory.write_obj(at, GuestAddress(place))?;
            self.memory.write_obj(len, GuestAddress(place + 8))?;
            self.memory.write_obj(flags, GuestAddress(place + 12))?;
            self.memory.write_obj(next, GuestAddress(place + 14))?;
        }
        Ok(())
    }

    /// Read blocks of a disk at random, so many times, and say what it took.
    pub fn read(&mut self, server: &Server, disk_bytes: u64, requests: u64) -> Result<Run> {
        let (before, here) = (server.cpu()?, clock::thread_cpu());
        let begun = Instant::now();
        let mut random = 1u64;
        let mut free: Vec<u16> = (0..self.depth).collect();
        let (mut asked, mut answered) = (0, 0);
        while answered < requests {
            let old = self.made;
            while asked < requests
                && let Some(slot) = free.pop()
            {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let block = (random >> 33) % (disk_bytes / BLOCK);
                self.ask(slot, block * (BLOCK / 512))?;
                asked += 1;
            }
            self.publish(old)?;
            answered += self.collect(&mut free)?;
        }
        let seconds = begun.elapsed().as_secs_f64();
        let server_cpu = server.cpu()? - before;
        let (cpu, bytes) = (server_cpu + clock::thread_cpu() - here, (requests * BLOCK) as f64);
        Ok(Run {
            speed: bytes / seconds,
            cpu,
            server_cpu,
            bytes,
            mean: 0.0,
            p99: 0.0,
            slowest: 0.0,
        })
    }

    fn ask(&mut self, slot: u16, sector: u64) -> Result<()> {
        let header = HEADERS + u64::from(slot) * 32;
        self.memory.write_obj(sector, GuestAddress(header + 8))?;
        let place = AVAILABLE + 4 + u64::from(self.made % ENTRIES) * 2;
        self.memory.write_obj(slot * 3, GuestAddress(place))?;
        self.made = self.made.wrapping_add(1);
        Ok(())
    }

    /// Say how many requests were made, and call the server if it wants to be.
    fn publish(&self, old: u16) -> Result<()> {
        self.memory.store(self.made, GuestAddress(AVAILABLE + 2), Ordering::Release)?;
        fence(Ordering::SeqCst);
        let at = USED + 4 + u64::from(ENTRIES) * 8;
        let wanted: u16 = self.memory.load(GuestAddress(at), Ordering::Relaxed)?;
        let since = self.made.wrapping_sub(old);
        if self.made.wrapping_sub(wanted).wrapping_sub(1) < since {
            self.kick.write(1)?;
        }
        Ok(())
    }

    /// Take what is answered, at least one; how many that is.
    fn collect(&mut self, free: &mut Vec<u16>) -> Result<u64> {
        let mut taken = 0;
        loop {
            let used: u16 = self.memory.load(GuestAddress(USED + 2), Ordering::Acquire)?;
            while self.seen != used {
                let at = USED + 4 + u64::from(self.seen % ENTRIES) * 8;
                let head: u32 = self.memory.read_obj(GuestAddress(at))?;
                let slot = head as u16 / 3;
                let status = HEADERS + u64::from(slot) * 32 + 16;
                let status: u8 = self.memory.read_obj(GuestAddress(status))?;
                ensure!(status == 0, "a read failed");
                free.push(slot);
                self.seen = self.seen.wrapping_add(1);
                taken += 1;
            }
            if taken > 0 {
                return Ok(taken);
            }
            // Call for the next one; it may have come meanwhile.
            let at = GuestAddress(AVAILABLE + 4 + u64::from(ENTRIES) * 2);
            self.memory.store(self.seen, at, Ordering::Relaxed)?;
            fence(Ordering::SeqCst);
            let used: u16 = self.memory.load(GuestAddress(USED + 2), Ordering::Acquire)?;
            if used == self.seen {
                self.wait()?;
            }
        }
    }

    fn wait(&self) -> Result<()> {
        // SAFETY: the event is open for as long as this borrows it.
        let call = unsafe { std::os::fd::BorrowedFd::borrow_raw(self.call.as_raw_fd()) };
        let limit = Timespec { tv_sec: PATIENCE, tv_nsec: 0 };
        let mut polled = [PollFd::new(&call, PollFlags::IN)];
        ensure!(poll(&mut polled, Some(&limit))? > 0, "a request was never answered");
        self.call.read()?;
        Ok(())
    }
}
