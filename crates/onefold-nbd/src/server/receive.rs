//! The buffer that requests are received into and decoded from in place.
//! Room: onefold-nbd.
//! Cost: no copy of payloads, but for the begun request moved to the front when space ends.

use std::io;

use onefold_block::memory;

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
        let mut bytes = received.to_vec();
        // Without memory for it there is none for the first request either.
        let _ = memory::resize(&mut bytes, RECEIVE_BUFFER_BYTES.max(received.len()));
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

    /// See that there is room for `wanted` waiting bytes in all, and for one more than wait now;
    /// `false` if there is no memory for it.
    pub fn make_room(&mut self, wanted: usize) -> bool {
        if self.start + wanted > self.bytes.len() || self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if wanted > self.bytes.len() {
                // Room for what follows, too, so that it is received along.
                let size = wanted + RECEIVE_BUFFER_BYTES;
                return memory::resize(&mut self.bytes, size);
            }
        }
        true
    }

    /// Receive once, with room for `wanted` waiting bytes in all. 0 at the end of the stream.
    pub fn fill(&mut self, channel: &Channel, wanted: usize) -> io::Result<usize> {
        if !self.make_room(wanted) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let count = channel.recv(&mut self.bytes[self.end..])?;
        self.end += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use super::super::socket::Socket;
    use super::*;

    #[test]
    fn bytes_keep_their_order_however_they_are_received_and_taken() {
        let (ours, mut client) = UnixStream::pair().unwrap();
        let channel = Channel::plain(Arc::new(Socket::Unix(ours)));
        let wanted: Vec<u8> = (0..900_000u32).map(|at| (at.wrapping_mul(at) >> 3) as u8).collect();
        let (early, late) = wanted.split_at(300);
        let late = late.to_vec();
        let sending = std::thread::spawn(move || client.write_all(&late).unwrap());
        let mut buffer = ReceiveBuffer::new(early);
        assert_eq!(buffer.waiting(), early);
        assert_eq!(buffer.bytes.len(), RECEIVE_BUFFER_BYTES);
        let mut taken = Vec::new();
        // Amounts around the size of the buffer, so that it is full, moved and made longer.
        for want in [28, 301, 70_000, RECEIVE_BUFFER_BYTES, 1, 300_001, 28, 200_000] {
            while buffer.waiting().len() < want {
                assert_ne!(buffer.fill(&channel, want).unwrap(), 0);
            }
            taken.extend_from_slice(&buffer.waiting()[..want]);
            buffer.consume(want);
        }
        assert_eq!(buffer.bytes.len(), 300_001 + RECEIVE_BUFFER_BYTES, "room for what follows");
        while buffer.fill(&channel, 1).unwrap() > 0 {
            let some = buffer.waiting().len().div_ceil(2);
            taken.extend_from_slice(&buffer.waiting()[..some]);
            buffer.consume(some);
        }
        taken.extend_from_slice(buffer.waiting());
        assert!(taken == wanted, "{} bytes", taken.len());
        sending.join().unwrap();
    }

    #[test]
    fn what_fits_is_not_moved_and_an_empty_buffer_begins_anew() {
        let (ours, mut client) = UnixStream::pair().unwrap();
        let channel = Channel::plain(Arc::new(Socket::Unix(ours)));
        let mut buffer = ReceiveBuffer::new(&[7; 100]);
        buffer.consume(60);
        client.write_all(&[8; 5]).unwrap();
        assert_eq!(buffer.fill(&channel, RECEIVE_BUFFER_BYTES - 60).unwrap(), 5);
        assert_eq!((buffer.start, buffer.end), (60, 105), "it fits to the byte");
        client.write_all(&[9; 5]).unwrap();
        assert_eq!(buffer.fill(&channel, RECEIVE_BUFFER_BYTES - 59).unwrap(), 5);
        assert_eq!((buffer.start, buffer.end), (0, 50), "moved to the front");
        assert_eq!(buffer.bytes.len(), RECEIVE_BUFFER_BYTES, "and no longer for it");
        buffer.consume(50);
        assert_eq!((buffer.start, buffer.end), (0, 0));
    }
}
