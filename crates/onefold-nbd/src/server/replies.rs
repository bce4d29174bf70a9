//! The buffer that replies are gathered in, so that one send carries many.
//! Room: onefold-nbd.
//! Cost: devices read straight into it; nothing is zeroed or copied again.

use std::io;

use onefold_block::memory;
use onefold_block::spent::{self, Part};

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
        Self { bytes: memory::zeroes(2 * SEND_AT_BYTES).unwrap_or_default(), used: 0 }
    }

    /// Add a reply's bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.slot(bytes.len()).copy_from_slice(bytes);
    }

    /// See that `len` bytes can be added; `false` if there is no memory for them.
    pub fn make_room(&mut self, len: usize) -> bool {
        self.used + len <= self.bytes.len() || memory::resize(&mut self.bytes, self.used + len)
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
            spent::on(Part::Reply, || channel.send_all(&self.bytes[..used]))?;
        }
        if self.bytes.len() > KEPT_BYTES {
            self.bytes.truncate(2 * SEND_AT_BYTES);
            self.bytes.shrink_to_fit();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use super::super::socket::Socket;
    use super::*;

    /// A channel and the client's end of it.
    fn pair() -> (Channel, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Channel::plain(Arc::new(Socket::Unix(ours))), theirs)
    }

    #[test]
    fn replies_are_gathered_up_to_the_size_that_is_worth_a_call() {
        let (channel, mut client) = pair();
        client.set_nonblocking(true).unwrap();
        let mut out = ReplyBuffer::new();
        out.put(&vec![1; SEND_AT_BYTES - 1]);
        out.send_if_large(&channel).unwrap();
        let mut byte = [0];
        assert!(client.read(&mut byte).is_err(), "one byte is missing");
        client.set_nonblocking(false).unwrap();
        out.put(&[2]);
        out.slot(40).fill(3);
        out.take_back(40);
        let reading = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            client.read_to_end(&mut bytes).unwrap();
            bytes
        });
        out.send_if_large(&channel).unwrap();
        out.send(&channel).unwrap();
        channel.close();
        let sent = reading.join().unwrap();
        assert!(sent == [vec![1; SEND_AT_BYTES - 1], vec![2]].concat(), "{} bytes", sent.len());
    }

    #[test]
    fn memory_of_a_reply_longer_than_usual_is_given_back() {
        let (channel, mut client) = pair();
        let reading = std::thread::spawn(move || io::copy(&mut client, &mut io::sink()).unwrap());
        let mut out = ReplyBuffer::new();
        assert_eq!(out.bytes.len(), 2 * SEND_AT_BYTES);
        out.slot(2 * SEND_AT_BYTES);
        assert_eq!(out.bytes.len(), 2 * SEND_AT_BYTES, "it fits");
        out.slot(KEPT_BYTES - 2 * SEND_AT_BYTES);
        out.send(&channel).unwrap();
        assert_eq!((out.bytes.len(), out.used), (KEPT_BYTES, 0), "kept");
        out.slot(KEPT_BYTES + 1);
        out.send(&channel).unwrap();
        assert_eq!((out.bytes.len(), out.used), (2 * SEND_AT_BYTES, 0));
        assert!(out.bytes.capacity() < KEPT_BYTES);
        channel.close();
        assert_eq!(reading.join().unwrap(), 2 * KEPT_BYTES as u64 + 1);
    }
}
