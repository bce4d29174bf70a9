//! The transmission phase of one connection: receive, decode, do, answer, many at a time.
//! Room: onefold-nbd.   In: bytes of requests.   Out: bytes of replies.
//! Invariants: (1) gathered replies are sent before waiting for the client; (2) memory is bounded
//! by [`CONNECTION_BYTES_MAX`], whatever the client sends or leaves unread.
//! Cost: one receive and one send for all requests that had arrived; payloads go to the device
//! from where they were received, data are read into where they are sent from.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;

use onefold_block::spent::Spent;
use onefold_block::{BlockDevice, memory};
use thiserror::Error;

use super::channel::Channel;
use super::connection::Terms;
use super::execute::{Accepted, Executor, waits};
use super::helpers::{Helpers, MAX_HELD_BYTES, MAX_HELPERS};
use super::receive::{RECEIVE_BUFFER_BYTES, ReceiveBuffer};
use super::replies::{KEPT_BYTES, ReplyBuffer};
use super::slow::Whose;
use crate::export::Changes;
use crate::protocol::constants::{
    EXTENDED_REQUEST_BYTES, MAX_DRAIN_BYTES, MAX_WHOLE_READ_BYTES, REQUEST_BYTES,
};
use crate::protocol::{BadMagic, Op, Request, Session, decode_extended, decode_request, validate};

/// Most requests decoded before the first of them is done.
const MAX_BATCH: usize = 256;
/// Writes that join beyond this many are split in halves where the device is slow, so that a
/// helper takes one while the connection's own thread does the other. A half still fills the
/// lanes of a batched hash.
const SPLIT_OVER: usize = 16;
/// Longest payload received whole, in bytes; longer ones are written piece by piece, each at most
/// this long and ending between blocks, so that memory does not follow what clients announce.
const PIECE_BYTES: usize = 4 << 20;

/// The most memory a connection uses for requests and replies, in bytes: the receive buffer,
/// what helpers hold, a reply buffer for each thread, and one long reply in one piece.
/// A connection that sends small requests uses about 0.5 MiB.
pub const CONNECTION_BYTES_MAX: usize = PIECE_BYTES
    + EXTENDED_REQUEST_BYTES
    + RECEIVE_BUFFER_BYTES
    + MAX_HELD_BYTES
    + (1 + MAX_HELPERS) * KEPT_BYTES
    + MAX_WHOLE_READ_BYTES as usize;

/// How a connection ended without anything having gone wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The client said goodbye.
    Disconnected,
    /// The client closed between requests.
    Closed,
    /// The server stops.
    Stopped,
}

/// Why a connection had to end.
#[derive(Debug, Error)]
pub(super) enum TransmissionError {
    #[error("{0}")]
    Magic(#[from] BadMagic),
    #[error("a request with {0} bytes of payload, where at most 32 MiB were advertised")]
    Oversized(u64),
    #[error("the client left in the middle of a request")]
    Truncated,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// What to do once the gathered requests are done.
enum Next {
    /// Gather again: more requests may be waiting.
    Again,
    /// The next request needs this many waiting bytes.
    Receive(usize),
    /// Throw a payload of this length away, and say that the request is refused. Not before: libnbd
    /// takes a reply to what it still sends for a violation of the protocol, and leaves.
    Refuse(Accepted, usize),
    /// Receive and write a long payload.
    LongWrite(Request, bool),
    /// End.
    Disconnect,
}

/// Serve one client until it leaves or the server stops.
pub(super) fn serve(
    (device, whose): (&dyn BlockDevice, Whose<'_>),
    agreed: (Session, Option<&dyn Changes>),
    channel: &Channel,
    received: &[u8],
    terms: &Terms,
) -> Result<End, TransmissionError> {
    let watched = (&terms.processors, (&terms.slow, whose));
    let executor = Executor::new(device, agreed, channel, watched);
    let helpers = Helpers::default();
    std::thread::scope(|scope| {
        let mut transmission = Transmission {
            scope,
            executor: &executor,
            helpers: &helpers,
            stopping: &terms.stopping,
            receive: ReceiveBuffer::new(received),
            out: ReplyBuffer::new(),
            batch: Vec::new(),
        };
        let ended = transmission.run();
        if ended.is_err() {
            channel.abandon();
        }
        helpers.close();
        ended
    })
}

struct Transmission<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    executor: &'env Executor<'env>,
    helpers: &'env Helpers,
    stopping: &'env AtomicBool,
    receive: ReceiveBuffer,
    out: ReplyBuffer,
    batch: Vec<Accepted>,
}

impl Transmission<'_, '_> {
    fn run(&mut self) -> Result<End, TransmissionError> {
        loop {
            let (decoded, next) = self.gather()?;
            self.execute(decoded)?;
            self.receive.consume(decoded);
            match next {
                Next::Again => {}
                Next::Receive(wanted) => {
                    self.out.send(self.executor.channel)?;
                    if self.stopping.load(Ordering::Relaxed) {
                        return Ok(End::Stopped);
                    }
                    let header = self.header_bytes();
                    if wanted > header && !self.receive.make_room(wanted) {
                        self.refuse_for_memory(wanted - header)?;
                    } else if self.receive.fill(self.executor.channel, wanted)? == 0 {
                        return self.end_of_stream();
                    }
                }
                Next::Refuse(refused, payload_bytes) => {
                    self.skip(payload_bytes)?;
                    self.batch.clear();
                    self.batch.push(refused);
                    self.execute(0)?;
                }
                Next::LongWrite(request, fua) => self.long_write(&request, fua)?,
                Next::Disconnect => {
                    self.out.send(self.executor.channel)?;
                    return Ok(End::Disconnected);
                }
            }
        }
    }

    fn end_of_stream(&self) -> Result<End, TransmissionError> {
        if self.stopping.load(Ordering::Relaxed) {
            Ok(End::Stopped)
        } else if self.receive.waiting().is_empty() {
            Ok(End::Closed)
        } else {
            Err(TransmissionError::Truncated)
        }
    }

    /// Bytes of a request's header.
    const fn header_bytes(&self) -> usize {
        if self.executor.session.extended { EXTENDED_REQUEST_BYTES } else { REQUEST_BYTES }
    }

    /// The request that these bytes begin with, if its header is there.
    fn decode(&self, bytes: &[u8]) -> Result<Option<Request>, BadMagic> {
        if self.executor.session.extended {
            bytes.first_chunk().map(decode_extended).transpose()
        } else {
            bytes.first_chunk().map(decode_request).transpose()
        }
    }

    /// Decode into `self.batch` what has arrived whole. Returns how many bytes that is.
    fn gather(&mut self) -> Result<(usize, Next), TransmissionError> {
        self.batch.clear();
        let waiting = self.receive.waiting();
        let received_ns = self.executor.now_ns();
        let mut at = 0;
        while self.batch.len() < MAX_BATCH {
            let rest = &waiting[at..];
            let Some(request) = self.decode(rest)? else {
                return Ok((at, Next::Receive(self.header_bytes())));
            };
            let session = &self.executor.session;
            let start = at + self.header_bytes();
            let judged_by = request.judged_by(session) as usize;
            let Some(judged_by) = waiting.get(start..start + judged_by) else {
                return Ok((at, Next::Receive(self.header_bytes() + judged_by)));
            };
            let again =
                |refused| self.executor.with_its_size(&request, judged_by).unwrap_or(Err(refused));
            let op = validate(&request, session, judged_by).or_else(again);
            let payload_bytes = request.payload_bytes(session);
            if op.is_err() && payload_bytes > u64::from(MAX_DRAIN_BYTES) {
                return Err(TransmissionError::Oversized(payload_bytes));
            }
            // What is accepted is shorter still.
            let payload_bytes = payload_bytes as usize;
            let end = start + payload_bytes;
            let to = self.executor.to(&request);
            match op {
                Ok(Op::Disconnect) => return Ok((start, Next::Disconnect)),
                Ok(Op::Write { fua, .. }) if payload_bytes > PIECE_BYTES => {
                    return Ok(match self.batch.len() {
                        0 => (start, Next::LongWrite(request, fua)),
                        _ => (at, Next::Again),
                    });
                }
                Err(_) if end > waiting.len() => {
                    let refused = Accepted { to, op, payload: 0..0, received_ns };
                    return Ok(match self.batch.len() {
                        0 => (start, Next::Refuse(refused, payload_bytes)),
                        _ => (at, Next::Again),
                    });
                }
                Ok(_) if end > waiting.len() => {
                    return Ok((at, Next::Receive(self.header_bytes() + payload_bytes)));
                }
                _ => self.batch.push(Accepted { to, op, payload: start..end, received_ns }),
            }
            at = end;
        }
        Ok((at, Next::Again))
    }

    /// Do the gathered requests, which are the first `decoded` waiting bytes.
    fn execute(&mut self, decoded: usize) -> io::Result<()> {
        let waiting = self.receive.waiting();
        let mut rest = self.batch.as_slice();
        // One look at the clock a call: each begins where the one before has ended.
        let mut now_ns = rest.first().map_or(0, |first| first.received_ns);
        while let Some(first) = rest.first() {
            let mut len = rest.iter().take_while(|next| first.joins(next)).count().max(1);
            if len > SPLIT_OVER && self.executor.is_for_a_helper(&rest[..len]) {
                len = len.div_ceil(2);
            }
            let (group, others) = rest.split_at(len);
            let more = !others.is_empty() || decoded < waiting.len();
            let hand_over = waits(group) || (more && self.executor.is_for_a_helper(group));
            let taken = hand_over && self.helpers.take(self.scope, self.executor, group, waiting);
            if !taken {
                now_ns = self.executor.run(group, waiting, now_ns, &mut self.out)?;
            }
            rest = others;
        }
        Ok(())
    }

    /// Throw away the payload, of so many bytes, of the request whose header waits, and answer it.
    fn refuse_for_memory(&mut self, payload_bytes: usize) -> Result<(), TransmissionError> {
        let request = self.decode(self.receive.waiting())?.ok_or(TransmissionError::Truncated)?;
        self.receive.consume(self.header_bytes());
        self.skip(payload_bytes)?;
        self.executor.refuse_for_memory(self.executor.to(&request), &mut self.out);
        Ok(())
    }

    fn skip(&mut self, bytes: usize) -> Result<(), TransmissionError> {
        let mut left = bytes;
        loop {
            let taken = left.min(self.receive.waiting().len());
            self.receive.consume(taken);
            left -= taken;
            if left == 0 {
                return Ok(());
            }
            self.receive_up_to(1)?;
        }
    }

    /// Receive until `wanted` bytes wait, sending what is to be sent first.
    fn receive_up_to(&mut self, wanted: usize) -> Result<(), TransmissionError> {
        self.out.send(self.executor.channel)?;
        while self.receive.waiting().len() < wanted {
            if self.receive.fill(self.executor.channel, wanted)? == 0 {
                return Err(TransmissionError::Truncated);
            }
        }
        Ok(())
    }

    fn long_write(&mut self, request: &Request, fua: bool) -> Result<(), TransmissionError> {
        let block_bytes = u64::from(self.executor.session.info.preferred_block_bytes);
        let end = request.offset + request.len;
        let mut written = Ok(());
        let mut spent = Spent::default();
        let mut at = request.offset;
        while at < end {
            let full = at + PIECE_BYTES as u64;
            let between_blocks = full - full % block_bytes;
            let stop = if between_blocks > at { between_blocks } else { full };
            let piece = (stop.min(end) - at) as usize;
            if !self.receive.make_room(piece) {
                written = written.and(Err(memory::none_for("a long write")));
                self.skip(piece)?;
                at += piece as u64;
                continue;
            }
            self.receive_up_to(piece)?;
            if written.is_ok() {
                let data = &self.receive.waiting()[..piece];
                written = self.executor.write_piece(at, data, &mut spent);
            }
            self.receive.consume(piece);
            at += piece as u64;
        }
        self.executor.finish_long_write(request, fua, (written, spent), &mut self.out);
        Ok(())
    }
}
