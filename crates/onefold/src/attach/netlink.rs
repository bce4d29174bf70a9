//! The kernel's NBD client, asked by generic netlink: which device has which connection.
//! Room: onefold.
//! Source: `netlink.h`, `genetlink.h` and `nbd-netlink.h` of `include/uapi/linux`: these are their
//! names.
//! Everything is in the machine's own byte order; attributes are padded to four bytes.
//! Invariant: what the kernel answers is read within its bounds, whatever it says of its lengths.

#![expect(clippy::host_endian_bytes, reason = "netlink is spoken within one machine, in its order")]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

const HEADER_BYTES: usize = 16;
const GENERIC_HEADER_BYTES: usize = 4;
/// The kernel's answers here are far shorter.
const ANSWER_BYTES: usize = 16 << 10;
/// Datagrams until the answer must be there.
const ANSWERS_MAX: usize = 16;

const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLA_F_NESTED: u16 = 1 << 15;
const NLA_TYPE_MASK: u16 = (1 << 14) - 1;

/// The family that knows the numbers of the others.
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const CTRL_VERSION: u8 = 1;

const NBD_FAMILY: &str = "nbd";
const NBD_VERSION: u8 = 1;
const NBD_CMD_CONNECT: u8 = 1;
const NBD_CMD_DISCONNECT: u8 = 2;
const NBD_ATTR_INDEX: u16 = 1;
const NBD_ATTR_SIZE_BYTES: u16 = 2;
const NBD_ATTR_BLOCK_SIZE_BYTES: u16 = 3;
const NBD_ATTR_SERVER_FLAGS: u16 = 5;
const NBD_ATTR_SOCKETS: u16 = 7;
const NBD_SOCK_ITEM: u16 = 1;
const NBD_SOCK_FD: u16 = 1;

/// What a device is to show.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Its size.
    pub size_bytes: u64,
    /// Its block size, a power of two of at least 512.
    pub block_bytes: u64,
    /// The transmission flags that the server offered.
    pub flags: u16,
}

/// An attribute and its padding.
fn put(out: &mut Vec<u8>, kind: u16, payload: &[u8]) {
    let len = 4 + payload.len();
    out.extend_from_slice(&(len as u16).to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(payload);
    out.resize(out.len() + len.next_multiple_of(4) - len, 0);
}

/// A whole message.
fn message(family: u16, (command, version): (u8, u8), sequence: u32, attributes: &[u8]) -> Vec<u8> {
    let len = HEADER_BYTES + GENERIC_HEADER_BYTES + attributes.len();
    let mut out = (len as u32).to_ne_bytes().to_vec();
    out.extend_from_slice(&family.to_ne_bytes());
    out.extend_from_slice(&(NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    out.extend_from_slice(&sequence.to_ne_bytes());
    // The kernel knows who asks.
    out.extend_from_slice(&0u32.to_ne_bytes());
    out.extend_from_slice(&[command, version, 0, 0]);
    out.extend_from_slice(attributes);
    out
}

fn ask_family(name: &str, sequence: u32) -> Vec<u8> {
    let mut attributes = Vec::new();
    put(&mut attributes, CTRL_ATTR_FAMILY_NAME, &[name.as_bytes(), &[0]].concat());
    message(GENL_ID_CTRL, (CTRL_CMD_GETFAMILY, CTRL_VERSION), sequence, &attributes)
}

fn ask_connect(family: u16, shown: &Shown, socket: i32, sequence: u32) -> Vec<u8> {
    let (mut one, mut sockets, mut attributes) = (Vec::new(), Vec::new(), Vec::new());
    put(&mut one, NBD_SOCK_FD, &(socket as u32).to_ne_bytes());
    put(&mut sockets, NBD_SOCK_ITEM | NLA_F_NESTED, &one);
    put(&mut attributes, NBD_ATTR_SIZE_BYTES, &shown.size_bytes.to_ne_bytes());
    put(&mut attributes, NBD_ATTR_BLOCK_SIZE_BYTES, &shown.block_bytes.to_ne_bytes());
    put(&mut attributes, NBD_ATTR_SERVER_FLAGS, &u64::from(shown.flags).to_ne_bytes());
    put(&mut attributes, NBD_ATTR_SOCKETS | NLA_F_NESTED, &sockets);
    message(family, (NBD_CMD_CONNECT, NBD_VERSION), sequence, &attributes)
}

fn ask_disconnect(family: u16, index: u32, sequence: u32) -> Vec<u8> {
    let mut attributes = Vec::new();
    put(&mut attributes, NBD_ATTR_INDEX, &index.to_ne_bytes());
    message(family, (NBD_CMD_DISCONNECT, NBD_VERSION), sequence, &attributes)
}

/// What the kernel says.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// The request was done, or failed with this error number.
    Ended(i32),
    /// Attributes: their kinds and payloads.
    Attributes(Vec<(u16, Vec<u8>)>),
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

/// The answers to the request of this number in a datagram; `None` if it makes no sense.
fn read(mut bytes: &[u8], sequence: u32) -> Option<Vec<Said>> {
    let mut said = Vec::new();
    while !bytes.is_empty() {
        let len = u32_at(bytes, 0)? as usize;
        let whole = bytes.get(..len).filter(|whole| whole.len() >= HEADER_BYTES)?;
        let payload = &whole[HEADER_BYTES..];
        if u32_at(whole, 8)? == sequence {
            said.push(match u16_at(whole, 4)? {
                NLMSG_ERROR => Said::Ended(0i32.wrapping_sub_unsigned(u32_at(payload, 0)?)),
                _ => Said::Attributes(attributes(payload.get(GENERIC_HEADER_BYTES..)?)?),
            });
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(said)
}

fn attributes(mut bytes: &[u8]) -> Option<Vec<(u16, Vec<u8>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let len = usize::from(u16_at(bytes, 0)?);
        let payload = bytes.get(4..len)?;
        found.push((u16_at(bytes, 2)? & NLA_TYPE_MASK, payload.to_vec()));
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(found)
}

/// A line to the kernel.
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Open one.
    pub fn open() -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC, Some(GENERIC))?;
        net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Ask, and wait until the kernel says that it is done; the attributes that it told before.
    fn ask(&mut self, request: impl Fn(u32) -> Vec<u8>) -> io::Result<Vec<(u16, Vec<u8>)>> {
        self.sequence += 1;
        let kernel = SocketAddrNetlink::new(0, 0);
        net::sendto(&self.socket, &request(self.sequence), SendFlags::empty(), &kernel)?;
        let (mut told, mut bytes) = (Vec::new(), vec![0; ANSWER_BYTES]);
        for _ in 0..ANSWERS_MAX {
            let (len, _) = net::recv(&self.socket, bytes.as_mut_slice(), RecvFlags::empty())?;
            let said = read(&bytes[..len], self.sequence);
            for said in
                said.ok_or_else(|| io::Error::other("the kernel's answer makes no sense"))?
            {
                match said {
                    Said::Ended(0) => return Ok(told),
                    Said::Ended(number) => return Err(io::Error::from_raw_os_error(number)),
                    Said::Attributes(more) => told.extend(more),
                }
            }
        }
        Err(io::Error::other("the kernel does not answer"))
    }

    /// The number of a family.
    fn family(&mut self, name: &str) -> io::Result<u16> {
        let told = self.ask(|sequence| ask_family(name, sequence))?;
        let number = told.iter().find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID);
        let number = number.and_then(|(_, payload)| u16_at(payload, 0));
        number.ok_or_else(|| io::Error::other("the kernel knows no number of this family"))
    }

    /// Whether the kernel has NBD.
    pub fn has_nbd(&mut self) -> bool {
        self.family(NBD_FAMILY).is_ok()
    }

    /// Let a device have a connection that is past its handshake. Returns its number: /dev/nbdN.
    pub fn connect(&mut self, socket: BorrowedFd<'_>, shown: &Shown) -> io::Result<u32> {
        let family = self.family(NBD_FAMILY)?;
        let socket = socket.as_raw_fd();
        let told = self.ask(|sequence| ask_connect(family, shown, socket, sequence))?;
        let index = told.iter().find(|(kind, _)| *kind == NBD_ATTR_INDEX);
        let index = index.and_then(|(_, payload)| u32_at(payload, 0));
        index.ok_or_else(|| io::Error::other("the kernel does not say which device it is"))
    }

    /// End what a device has.
    pub fn disconnect(&mut self, index: u32) -> io::Result<()> {
        let family = self.family(NBD_FAMILY)?;
        self.ask(|sequence| ask_disconnect(family, index, sequence)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of 32 bits, and two of 16 in one.
    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[cfg(target_endian = "little")]
    const fn two(first: u16, second: u16) -> u32 {
        second as u32 * 0x1_0000 + first as u32
    }

    #[cfg(target_endian = "big")]
    const fn two(first: u16, second: u16) -> u32 {
        first as u32 * 0x1_0000 + second as u32
    }

    #[test]
    fn a_family_is_asked_for_by_its_name() {
        let mut expected = words(&[28, two(16, 5), 7, 0]);
        expected.extend([3, 1, 0, 0]);
        expected.extend(words(&[two(8, 2)]));
        expected.extend(*b"nbd\0");
        assert_eq!(ask_family("nbd", 7), expected);
        // What does not end at four bytes is padded, and its length does not count that.
        let long = ask_family("nlctrl", 7);
        assert_eq!(long.len(), 32);
        assert_eq!(long[20..24], words(&[two(11, 2)]));
        assert_eq!(long[24..], *b"nlctrl\0\0");
    }

    #[test]
    fn a_connection_is_handed_over_with_size_block_size_flags_and_socket() {
        let shown = Shown { size_bytes: 1 << 40, block_bytes: 4096, flags: 0x16d };
        let mut expected = words(&[72, two(29, 5), 3, 0]);
        expected.extend([1, 1, 0, 0]);
        for (kind, value) in [(2, 1u64 << 40), (3, 4096), (5, 0x16d)] {
            expected.extend(words(&[two(12, kind)]));
            expected.extend(value.to_ne_bytes());
        }
        let nested = 1 << 15;
        expected.extend(words(&[two(16, nested | 7), two(12, nested | 1), two(8, 1), 9]));
        assert_eq!(ask_connect(29, &shown, 9, 3), expected);
        let mut expected = words(&[28, two(29, 5), 4, 0]);
        expected.extend([2, 1, 0, 0]);
        expected.extend(words(&[two(8, 1), 5]));
        assert_eq!(ask_disconnect(29, 5, 4), expected);
    }

    #[test]
    fn answers_are_read_and_nonsense_is_none() {
        let mut answer = words(&[28, two(29, 0), 3, 99]);
        answer.extend([1, 1, 0, 0]);
        answer.extend(words(&[two(8, 1), 5]));
        let index = Said::Attributes(vec![(1, 5u32.to_ne_bytes().to_vec())]);
        let done = words(&[20, two(2, 0), 3, 99, 0]);
        let both = [answer.as_slice(), &done].concat();
        assert_eq!(read(&both, 3), Some(vec![index, Said::Ended(0)]));
        assert_eq!(read(&both, 4), Some(Vec::new()), "of somebody else's request");
        let refused = words(&[20, two(2, 0), 3, 99, 0u32.wrapping_sub(2)]);
        assert_eq!(read(&refused, 3), Some(vec![Said::Ended(2)]));
        for len in 0..both.len() {
            // It ends within its bytes; whole messages before are not enough.
            let cut = read(&both[..len], 3);
            assert!(cut.is_none() || [0, 28].contains(&len), "{len}: {cut:?}");
        }
        for (at, value) in
            [(0, 0u32), (0, 15), (0, u32::MAX), (20, 0), (20, two(3, 1)), (20, two(90, 1))]
        {
            let mut wrong = answer.clone();
            wrong[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            assert_eq!(read(&wrong, 3), None, "{value:#x} at {at}");
        }
    }

    #[test]
    fn the_kernel_of_this_machine_answers() {
        let mut netlink = Netlink::open().unwrap();
        assert_eq!(netlink.family("nlctrl").unwrap(), GENL_ID_CTRL);
        let error = netlink.family("onefold-none").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(2), "{error}");
        // And again, after an error.
        assert_eq!(netlink.family("nlctrl").unwrap(), GENL_ID_CTRL);
    }
}
