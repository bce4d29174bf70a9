//! Numbers and layouts that the kernel and a program agree on, by their names in `ublk_cmd.h`.
//! Room: onefold-ublk.
//! Everything is in the machine's own byte order.

#![expect(clippy::host_endian_bytes, reason = "ublk is spoken within one machine, in its order")]

use crate::{Durable, Shape};

/// A number as `ioctl` has it: written and read, of the family 'u'.
const fn written_and_read(number: u32, bytes: u32) -> u32 {
    3 << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

const fn read(number: u32, bytes: u32) -> u32 {
    2 << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

const CTRL_CMD_BYTES: u32 = 32;
const IO_CMD_BYTES: u32 = 16;

/// Commands to `/dev/ublk-control`.
pub mod command {
    use super::{CTRL_CMD_BYTES, read, written_and_read};

    pub const GET_DEV_INFO: u32 = read(0x02, CTRL_CMD_BYTES);
    pub const ADD_DEV: u32 = written_and_read(0x04, CTRL_CMD_BYTES);
    pub const DEL_DEV: u32 = written_and_read(0x05, CTRL_CMD_BYTES);
    pub const START_DEV: u32 = written_and_read(0x06, CTRL_CMD_BYTES);
    pub const STOP_DEV: u32 = written_and_read(0x07, CTRL_CMD_BYTES);
    pub const SET_PARAMS: u32 = written_and_read(0x08, CTRL_CMD_BYTES);
}

pub const IO_FETCH_REQ: u32 = written_and_read(0x20, IO_CMD_BYTES);
pub const IO_COMMIT_AND_FETCH_REQ: u32 = written_and_read(0x21, IO_CMD_BYTES);

/// A command was a request.
pub const IO_RES_OK: i32 = 0;
/// The kernel chooses the number of a new device.
pub const NEW_DEVICE: u32 = u32::MAX;
/// A command is for no queue.
pub const NO_QUEUE: u16 = u16::MAX;
/// Where the descriptors of queues begin in a device's file, and most requests of a queue.
pub const CMD_BUF_OFFSET: u64 = 0;
pub const QUEUE_DEPTH_MAX: u64 = 4096;

const F_CMD_IOCTL_ENCODE: u64 = 1 << 6;

const ATTR_READ_ONLY: u32 = 1 << 0;
const ATTR_VOLATILE_CACHE: u32 = 1 << 2;
const ATTR_FUA: u32 = 1 << 3;
const PARAM_TYPE_BASIC: u32 = 1 << 0;
const PARAM_TYPE_DISCARD: u32 = 1 << 1;

/// Bytes of a sector, whatever a device's blocks are.
pub const SECTOR_BYTES: u64 = 512;
/// Most sectors of one discard: 1 GiB.
const DISCARD_SECTORS: u32 = 1 << 21;

/// `struct ublksrv_ctrl_cmd`: one command, and the memory that it is about.
pub struct ControlCommand {
    pub device: u32,
    pub memory: (*mut u8, usize),
    pub data: u64,
}

impl ControlCommand {
    /// As the first bytes of what a submission has room for.
    pub fn bytes(&self) -> [u8; 80] {
        let mut out = [0; 80];
        out[0..4].copy_from_slice(&self.device.to_ne_bytes());
        out[4..6].copy_from_slice(&NO_QUEUE.to_ne_bytes());
        out[6..8].copy_from_slice(&(self.memory.1 as u16).to_ne_bytes());
        out[8..16].copy_from_slice(&(self.memory.0.addr() as u64).to_ne_bytes());
        out[16..24].copy_from_slice(&self.data.to_ne_bytes());
        out
    }
}

/// `struct ublksrv_ctrl_dev_info`: what a device is to be, and is.
pub struct DeviceInfo(pub [u8; 64]);

impl DeviceInfo {
    pub fn new(queues: u16, depth: u16, buffer_bytes: u32) -> Self {
        let mut out = [0; 64];
        out[0..2].copy_from_slice(&queues.to_ne_bytes());
        out[2..4].copy_from_slice(&depth.to_ne_bytes());
        out[8..12].copy_from_slice(&buffer_bytes.to_ne_bytes());
        out[12..16].copy_from_slice(&NEW_DEVICE.to_ne_bytes());
        out[24..32].copy_from_slice(&F_CMD_IOCTL_ENCODE.to_ne_bytes());
        Self(out)
    }

    fn word(&self, at: usize) -> u32 {
        self.0[at..at + 4].try_into().map_or(0, u32::from_ne_bytes)
    }

    fn half(&self, at: usize) -> u16 {
        self.0[at..at + 2].try_into().map_or(0, u16::from_ne_bytes)
    }

    pub fn queues(&self) -> u16 {
        self.half(0)
    }

    pub fn depth(&self) -> u16 {
        self.half(2)
    }

    pub fn buffer_bytes(&self) -> u32 {
        self.word(8)
    }

    pub fn device(&self) -> u32 {
        self.word(12)
    }

    /// The process that answers for it; negative if there is none.
    pub fn process(&self) -> i32 {
        self.word(16).cast_signed()
    }
}

/// `struct ublk_params`, with what is basic and what concerns discards.
pub fn params(shape: &Shape) -> [u8; 60] {
    let mut out = [0; 60];
    let len = out.len() as u32;
    let attribute = |holds: bool, attribute: u32| if holds { attribute } else { 0 };
    let attributes = attribute(shape.read_only, ATTR_READ_ONLY)
        | attribute(shape.durable != Durable::Always, ATTR_VOLATILE_CACHE)
        | attribute(shape.durable == Durable::ByFlushOrWrite, ATTR_FUA);
    let types = PARAM_TYPE_BASIC | attribute(shape.discards, PARAM_TYPE_DISCARD);
    out[0..4].copy_from_slice(&len.to_ne_bytes());
    out[4..8].copy_from_slice(&types.to_ne_bytes());
    out[8..12].copy_from_slice(&attributes.to_ne_bytes());
    // Logical, physical, best and least size of a request, as powers of two.
    out[12..16].fill(shape.block_bytes.trailing_zeros() as u8);
    let sectors = shape.buffer_bytes / SECTOR_BYTES as u32;
    out[16..20].copy_from_slice(&sectors.to_ne_bytes());
    // What is over whole blocks could not be asked for in blocks.
    let block_bytes = u64::from(shape.block_bytes);
    let sectors = shape.size_bytes / block_bytes * (block_bytes / SECTOR_BYTES);
    out[24..32].copy_from_slice(&sectors.to_ne_bytes());
    if shape.discards {
        // Alignment, granularity, the most of a discard and of a zeroing, and ranges of one.
        out[44..48].copy_from_slice(&shape.block_bytes.to_ne_bytes());
        out[48..52].copy_from_slice(&DISCARD_SECTORS.to_ne_bytes());
        out[52..56].copy_from_slice(&DISCARD_SECTORS.to_ne_bytes());
        out[56..58].copy_from_slice(&1u16.to_ne_bytes());
    }
    out
}

/// What the kernel wants of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fill the buffer.
    Read,
    /// Store the buffer; with `fua`, durably.
    Write {
        /// Answered only once it is durable.
        fua: bool,
    },
    /// Make all that was answered durable.
    Flush,
    /// Forget the range.
    Discard,
    /// Let the range read as zeroes.
    Zeroes {
        /// Keep it allocated.
        no_hole: bool,
        /// Answered only once it is durable.
        fua: bool,
    },
    /// Something that was not offered, by its number.
    Other(u8),
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is wanted.
    pub kind: Kind,
    /// First byte.
    pub offset: u64,
    /// Length in bytes; for reads and writes at most the buffer's.
    pub len: u32,
}

impl Request {
    /// Bytes of `struct ublksrv_io_desc`.
    pub const BYTES: usize = 24;

    /// Out of `struct ublksrv_io_desc`.
    pub fn of(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_ne_bytes);
        let (op, sectors) = (word(0), word(4));
        let start = bytes[8..16].try_into().map_or(0, u64::from_ne_bytes);
        let (fua, no_hole) = (op >> 13 & 1 == 1, op >> 15 & 1 == 1);
        let kind = match op as u8 {
            0 => Kind::Read,
            1 => Kind::Write { fua },
            2 => Kind::Flush,
            3 => Kind::Discard,
            5 => Kind::Zeroes { no_hole, fua },
            other => Kind::Other(other),
        };
        if kind == Kind::Flush {
            // Of the whole device; where it begins is said to be anywhere.
            return Self { kind, offset: 0, len: 0 };
        }
        let (offset, len) = (start.saturating_mul(SECTOR_BYTES), u64::from(sectors) * SECTOR_BYTES);
        Self { kind, offset, len: len.min(u64::from(u32::MAX)) as u32 }
    }
}

/// `struct ublksrv_io_cmd`: how a request ended, and where the data of the next one go.
pub fn io_command(queue: u16, tag: u16, result: i32, buffer: *mut u8) -> [u8; 16] {
    let mut out = [0; 16];
    out[0..2].copy_from_slice(&queue.to_ne_bytes());
    out[2..4].copy_from_slice(&tag.to_ne_bytes());
    out[4..8].copy_from_slice(&result.to_ne_bytes());
    out[8..16].copy_from_slice(&(buffer.addr() as u64).to_ne_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a C compiler makes of the header.
    #[test]
    fn numbers_are_those_of_the_header() {
        assert_eq!(command::ADD_DEV, 0xc020_7504);
        assert_eq!(command::GET_DEV_INFO, 0x8020_7502);
        let controls =
            [command::DEL_DEV, command::START_DEV, command::STOP_DEV, command::SET_PARAMS];
        assert_eq!(controls, [0xc020_7505, 0xc020_7506, 0xc020_7507, 0xc020_7508]);
        assert_eq!((IO_FETCH_REQ, IO_COMMIT_AND_FETCH_REQ), (0xc010_7520, 0xc010_7521));
    }

    #[test]
    fn a_request_is_read_from_its_descriptor() {
        let descriptor = |op: u32, sectors: u32, start: u64| {
            let mut bytes = [0; Request::BYTES];
            bytes[0..4].copy_from_slice(&op.to_ne_bytes());
            bytes[4..8].copy_from_slice(&sectors.to_ne_bytes());
            bytes[8..16].copy_from_slice(&start.to_ne_bytes());
            Request::of(&bytes)
        };
        let whole = |kind| Request { kind, offset: 4096, len: 8192 };
        assert_eq!(descriptor(0, 16, 8), whole(Kind::Read));
        assert_eq!(descriptor(1, 16, 8), whole(Kind::Write { fua: false }));
        assert_eq!(descriptor(0x2001, 16, 8), whole(Kind::Write { fua: true }));
        assert_eq!(descriptor(3, 16, 8), whole(Kind::Discard));
        assert_eq!(descriptor(5, 16, 8), whole(Kind::Zeroes { no_hole: false, fua: false }));
        assert_eq!(descriptor(0x8005, 16, 8), whole(Kind::Zeroes { no_hole: true, fua: false }));
        assert_eq!(descriptor(9, 16, 8), whole(Kind::Other(9)));
        assert_eq!(descriptor(0xa005, 16, 8), whole(Kind::Zeroes { no_hole: true, fua: true }));
        // Other flags say how much it matters that it works.
        assert_eq!(descriptor(0x5f01, 16, 8), whole(Kind::Write { fua: false }));
        let largest = Request { kind: Kind::Discard, offset: u64::MAX, len: u32::MAX };
        assert_eq!(descriptor(3, 1 << 23, 1 << 55), largest);
        assert_eq!(descriptor(2, 0, u64::MAX), Request { kind: Kind::Flush, offset: 0, len: 0 });
    }

    #[test]
    fn a_shape_is_told_as_the_header_lays_it_out() {
        let shape = Shape {
            size_bytes: 1 << 30,
            block_bytes: 4096,
            read_only: false,
            durable: Durable::ByFlushOrWrite,
            discards: true,
            queues: 2,
            depth: 64,
            buffer_bytes: 256 << 10,
        };
        let told = params(&shape);
        let words: Vec<u32> =
            told.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect();
        let basic = [60, 3, 0b1100, 0x0c0c_0c0c, 512, 0, 1 << 21, 0, 0, 0];
        assert_eq!(words[..10], basic);
        assert_eq!(words[10..], [0, 4096, 1 << 21, 1 << 21, 1]);
        let told = params(&Shape { read_only: true, discards: false, ..shape });
        assert_eq!((told[4], told[8]), (1, 0b1101));
        assert!(told[40..].iter().all(|&byte| byte == 0));
        // Half a block at the end is not shown.
        let sectors = |size_bytes, block_bytes| {
            let told = params(&Shape { size_bytes, block_bytes, ..shape });
            u64::from_ne_bytes(told[24..32].try_into().unwrap())
        };
        assert_eq!([sectors(8192 + 4095, 4096), sectors(8192 + 4095, 512)], [16, 23]);
        assert_eq!(params(&Shape { durable: Durable::ByFlush, ..shape })[8], 0b100);
        assert_eq!(params(&Shape { durable: Durable::Always, ..shape })[8], 0);
    }

    #[test]
    fn a_device_is_described_and_read_back() {
        let mut info = DeviceInfo::new(2, 64, 1 << 18);
        assert_eq!((info.queues(), info.depth(), info.buffer_bytes()), (2, 64, 1 << 18));
        assert_eq!(info.device(), NEW_DEVICE);
        info.0[16..20].copy_from_slice(&(-1i32).to_ne_bytes());
        assert_eq!(info.process(), -1);
        // Commands are numbered as `ioctl` does it, and nothing else is wanted.
        assert_eq!(info.0[24..32], (1u64 << 6).to_ne_bytes());
        let others = [4..8, 20..24, 32..64];
        assert!(others.into_iter().all(|range| info.0[range].iter().all(|&byte| byte == 0)));
    }

    #[test]
    fn commands_are_laid_out_as_the_header_says() {
        let at = 0x1122_3344_5566_7788_usize as *mut u8;
        let bytes = ControlCommand { device: 9, memory: (at, 64), data: 77 }.bytes();
        let mut expected = [0; 80];
        expected[0..4].copy_from_slice(&9u32.to_ne_bytes());
        expected[4..6].copy_from_slice(&[0xff; 2]);
        expected[6..8].copy_from_slice(&64u16.to_ne_bytes());
        expected[8..16].copy_from_slice(&0x1122_3344_5566_7788_u64.to_ne_bytes());
        expected[16..24].copy_from_slice(&77u64.to_ne_bytes());
        assert_eq!(bytes, expected);
        let command = io_command(3, 7, -5, at);
        let halves = [3u16, 7].map(u16::to_ne_bytes).concat();
        let rest = [&(-5i32).to_ne_bytes()[..], &expected[8..16]].concat();
        assert_eq!(command[..], [halves, rest].concat());
    }
}
