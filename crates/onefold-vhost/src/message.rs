//! Messages of vhost-user, as bytes: the specification is QEMU's `docs/interop/vhost-user.rst`.
//! Room: onefold-vhost.
//! Numbers have the byte order of the machine that both ends run on. Here it is little-endian.

use std::os::fd::OwnedFd;

/// Bytes of a message's header: request, flags, size of what follows.
pub(crate) const HEADER_BYTES: usize = 12;
/// Most bytes after a header: a configuration space of 256 bytes, or eight regions of memory.
pub(crate) const PAYLOAD_MAX: usize = 512;
/// Most regions of memory, and files with a message.
pub(crate) const REGIONS_MAX: usize = 8;

const VERSION: u32 = 1;
const VERSION_MASK: u32 = 3;
const REPLY: u32 = 1 << 2;
const NEED_REPLY: u32 = 1 << 3;

/// What a monitor asks, by number.
pub(crate) mod ask {
    pub const GET_FEATURES: u32 = 1;
    pub const SET_FEATURES: u32 = 2;
    pub const SET_OWNER: u32 = 3;
    pub const RESET_OWNER: u32 = 4;
    pub const SET_MEM_TABLE: u32 = 5;
    pub const SET_VRING_NUM: u32 = 8;
    pub const SET_VRING_ADDR: u32 = 9;
    pub const SET_VRING_BASE: u32 = 10;
    pub const GET_VRING_BASE: u32 = 11;
    pub const SET_VRING_KICK: u32 = 12;
    pub const SET_VRING_CALL: u32 = 13;
    pub const SET_VRING_ERR: u32 = 14;
    pub const GET_PROTOCOL_FEATURES: u32 = 15;
    pub const SET_PROTOCOL_FEATURES: u32 = 16;
    pub const GET_QUEUE_NUM: u32 = 17;
    pub const SET_VRING_ENABLE: u32 = 18;
    pub const SET_BACKEND_REQ_FD: u32 = 21;
    pub const GET_CONFIG: u32 = 24;
    pub const SET_CONFIG: u32 = 25;
}

/// What the server tells a monitor by itself: the configuration space is another one.
const CONFIG_CHANGED: u32 = 2;

/// A message from a monitor.
#[derive(Debug)]
pub(crate) struct Message {
    pub ask: u32,
    /// Whether it wants to know that it was done.
    pub wants_reply: bool,
    pub payload: Vec<u8>,
    pub files: Vec<OwnedFd>,
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub ask: u32,
    pub wants_reply: bool,
    pub payload_bytes: usize,
}

impl Header {
    /// `None` if it is none, or announces more than any message has.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let (ask, flags, size) = (fields.u32()?, fields.u32()?, fields.u32()? as usize);
        let is_request = flags & VERSION_MASK == VERSION && flags & REPLY == 0;
        (is_request && size <= PAYLOAD_MAX).then_some(Self {
            ask,
            wants_reply: flags & NEED_REPLY != 0,
            payload_bytes: size,
        })
    }
}

fn encode(ask: u32, flags: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    for field in [ask, VERSION | flags, payload.len() as u32] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(payload);
    bytes
}

/// The answer to a message.
pub(crate) fn reply(ask: u32, payload: &[u8]) -> Vec<u8> {
    encode(ask, REPLY, payload)
}

/// That the configuration space is another one.
pub(crate) fn config_changed() -> Vec<u8> {
    encode(CONFIG_CHANGED, 0, &[])
}

/// Numbers of a payload, one after another.
pub(crate) struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    pub fn u32(&mut self) -> Option<u32> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*field))
    }

    pub fn u64(&mut self) -> Option<u64> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*field))
    }
}

/// A region of a guest's memory, as its monitor describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// Where the guest has it.
    pub guest: u64,
    pub bytes: u64,
    /// Where the monitor has it.
    pub monitor: u64,
    /// Where it begins in its file.
    pub file_offset: u64,
}

/// The regions of a table of memory. `None` if it is none, or a region wraps around.
pub(crate) fn regions(payload: &[u8]) -> Option<Vec<Region>> {
    let mut fields = Fields(payload);
    let count = fields.u32()? as usize;
    fields.u32()?;
    if count > REGIONS_MAX {
        return None;
    }
    (0..count)
        .map(|_| {
            let (guest, bytes) = (fields.u64()?, fields.u64()?);
            let (monitor, file_offset) = (fields.u64()?, fields.u64()?);
            for start in [guest, monitor, file_offset] {
                start.checked_add(bytes)?;
            }
            (bytes > 0).then_some(Region { guest, bytes, monitor, file_offset })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(ask: u32, flags: u32, size: u32) -> Option<Header> {
        let bytes = [ask, flags, size].map(u32::to_le_bytes).concat();
        Header::decode(&bytes.try_into().unwrap())
    }

    #[test]
    fn a_header_is_of_version_one_no_reply_and_of_bounded_size() {
        let plain = Header { ask: 5, wants_reply: false, payload_bytes: 40 };
        assert_eq!(header(5, 1, 40), Some(plain));
        assert_eq!(header(5, 1 | 8, 40), Some(Header { wants_reply: true, ..plain }));
        for (flags, size) in [(0, 8), (2, 8), (3, 8), (1 | 4, 8), (1, 513), (1, u32::MAX)] {
            assert_eq!(header(5, flags, size), None, "{flags} {size}");
        }
        let all = Header { payload_bytes: 512, ..plain };
        assert_eq!(header(5, 1, 512), Some(all));
        assert_eq!(reply(1, &[7; 8])[..12], [1, 0, 0, 0, 5, 0, 0, 0, 8, 0, 0, 0]);
        assert_eq!(config_changed(), [2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn regions_are_counted_and_wrap_around_nowhere() {
        let table = |count: u32, fields: &[[u64; 4]]| {
            let mut bytes = [count, 0].map(u32::to_le_bytes).concat();
            fields.iter().flatten().for_each(|field| bytes.extend(field.to_le_bytes()));
            regions(&bytes)
        };
        let region = [0x1000, 0x2000, 0x7000, 0x3000];
        let expected =
            Region { guest: 0x1000, bytes: 0x2000, monitor: 0x7000, file_offset: 0x3000 };
        assert_eq!(table(1, &[region]), Some(vec![expected]));
        assert_eq!(table(0, &[]), Some(vec![]));
        assert!(table(1, &[[0x1000, 1, 0x7000, 0]]).is_some(), "one byte");
        assert_eq!(table(2, &[region]), None, "one is missing");
        assert_eq!(table(9, &[region; 9]), None);
        for at in [0, 2, 3] {
            let mut wraps = region;
            wraps[at] = u64::MAX - 0x1fff;
            assert!(table(1, &[wraps]).is_some() == (wraps[at].checked_add(0x2000).is_some()));
            wraps[at] += 1;
            assert_eq!(table(1, &[wraps]), None, "{at}");
        }
        assert_eq!(table(1, &[[0x1000, 0, 0x7000, 0]]), None, "an empty one");
        assert_eq!(regions(&[1, 0, 0]), None);
    }
}
