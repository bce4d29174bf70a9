//! The buffer that requests are received into and decoded from in place.
//! Room: onefold-nbd.
//! Cost: no copy of payloads, but for the begun request moved to the front when space ends.

use std::io;

use super::channel::Channel;

/// Size in bytes without large writes: as much as a Unix socket holds by default, so that one
/// receive takes all there is.
pub(super) const RECEIVE_BUFFER_BYTES: usize = 256 << 10;

/// Received bytes not yet dealt with.
pub(super) struct ReceiveBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl ReceiveBuffer {
    /// A buffer that begins with bytes already received.
    pub fn new(received: &[u8]) -> Self {
        let mut bytes = vec![0; RECEIVE_BUFFER_BYTES.max(received.len())];
        bytes[..received.len()].copy_from_slice(received);
        Self { bytes, start: 0, end: received.len() }
    }

    /// The bytes not yet dealt with.
    pub fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The first `count` waiting bytes are dealt with.
    pub fn consume(&mut self, count: usize) {
        self.start += count;
        assert!(self.start <= self.end, "only waiting bytes are consumed");
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Receive once, with room for `wanted` waiting bytes in all. 0 at the end of the stream.
    pub fn fill(&mut self, channel: &Channel, wanted: usize) -> io::Result<usize> {
        if self.start + wanted > self.bytes.len() || self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if wanted > self.bytes.len() {
                // Room for what follows, too, so that it is received along.
                let size = wanted + RECEIVE_BUFFER_BYTES;
                self.bytes.reserve_exact(size - self.bytes.len());
                self.bytes.resize(size, 0);
            }
        }
        let count = channel.recv(&mut self.bytes[self.end..])?;
        self.end += count;
        Ok(count)
    }
}
