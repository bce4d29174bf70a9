//! The buffer that replies are gathered in, so that one send carries many.
//! Room: onefold-nbd.
//! Cost: devices read straight into it; nothing is zeroed or copied again.

use std::io;

use super::channel::Channel;

/// Bytes of gathered replies that are sent without waiting for more.
const SEND_AT_BYTES: usize = 128 << 10;
/// Size in bytes kept between requests; a longer reply's memory is given back. Enough for 1 MiB
/// in one piece, the longest request of common clients.
pub(super) const KEPT_BYTES: usize = (1 << 20) + 2 * SEND_AT_BYTES;

/// Replies not yet sent.
pub(super) struct ReplyBuffer {
    bytes: Vec<u8>,
    used: usize,
}

impl ReplyBuffer {
    /// Nothing to send.
    pub fn new() -> Self {
        Self { bytes: vec![0; 2 * SEND_AT_BYTES], used: 0 }
    }

    /// Add a reply's bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.slot(bytes.len()).copy_from_slice(bytes);
    }

    /// Add room for `len` bytes, contents unspecified, to be filled by the caller.
    pub fn slot(&mut self, len: usize) -> &mut [u8] {
        let start = self.used;
        self.used += len;
        if self.used > self.bytes.len() {
            self.bytes.reserve_exact(self.used - self.bytes.len());
            self.bytes.resize(self.used, 0);
        }
        &mut self.bytes[start..self.used]
    }

    /// Take back the last `len` bytes added.
    pub fn take_back(&mut self, len: usize) {
        self.used -= len;
    }

    /// Send if enough is gathered to be worth a call.
    pub fn send_if_large(&mut self, channel: &Channel) -> io::Result<()> {
        if self.used >= SEND_AT_BYTES { self.send(channel) } else { Ok(()) }
    }

    /// Send everything.
    pub fn send(&mut self, channel: &Channel) -> io::Result<()> {
        if self.used > 0 {
            let used = std::mem::take(&mut self.used);
            channel.send_all(&self.bytes[..used])?;
        }
        if self.bytes.len() > KEPT_BYTES {
            self.bytes.truncate(2 * SEND_AT_BYTES);
            self.bytes.shrink_to_fit();
        }
        Ok(())
    }
}
