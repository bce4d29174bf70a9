//! The socket to a monitor: messages with files.
//! Room: onefold-vhost.

use std::io::{self, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};

use crate::message::{HEADER_BYTES, Header, Message, REGIONS_MAX};

/// Receive a message; `None` if the monitor has left between two of them.
pub(crate) fn receive(stream: &UnixStream) -> io::Result<Option<Message>> {
    let (mut header, mut files) = ([0; HEADER_BYTES], Vec::new());
    if !fill(stream, &mut header, &mut files, true)? {
        return Ok(None);
    }
    let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, why);
    let header = Header::decode(&header).ok_or_else(|| invalid("no message of vhost-user"))?;
    let mut payload = vec![0; header.payload_bytes];
    fill(stream, &mut payload, &mut files, false)?;
    if files.len() > REGIONS_MAX {
        return Err(invalid("more files with a message than it may have"));
    }
    let Header { ask, wants_reply, .. } = header;
    Ok(Some(Message { ask, wants_reply, payload, files }))
}

/// Fill `bytes`, and keep the files that come along. `false` if there is no first byte and that is
/// a good end.
fn fill(
    stream: &UnixStream,
    bytes: &mut [u8],
    files: &mut Vec<OwnedFd>,
    may_end: bool,
) -> io::Result<bool> {
    let mut got = 0;
    while got < bytes.len() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(REGIONS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes[got..])];
        let received = match recvmsg(stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => continue,
            received => received?,
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                files.extend(more);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            let why = "more files with a message than it may have";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        if received.bytes == 0 {
            if got == 0 && may_end {
                return Ok(false);
            }
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        got += received.bytes;
    }
    Ok(true)
}

/// Send a whole message.
pub(crate) fn send(mut stream: &UnixStream, message: &[u8]) -> io::Result<()> {
    stream.write_all(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is received of these bytes, after which the other end leaves.
    fn received(bytes: &[u8]) -> io::Result<Option<(u32, Vec<u8>)>> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send(&theirs, bytes).unwrap();
        drop(theirs);
        receive(&ours).map(|message| message.map(|message| (message.ask, message.payload)))
    }

    #[test]
    fn a_monitor_leaves_between_two_messages_or_is_cut_off() {
        let whole = [[7, 1, 3].map(u32::to_le_bytes).concat(), vec![4, 5, 6]].concat();
        assert_eq!(received(&whole).unwrap(), Some((7, vec![4, 5, 6])));
        assert_eq!(received(&[]).unwrap(), None);
        for len in [1, 11, 12, 14] {
            let kind = received(&whole[..len]).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::UnexpectedEof, "{len} bytes");
        }
    }
}
