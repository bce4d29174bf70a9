//! Does accepted requests on the device and turns what it says into replies.
//! Room: onefold-nbd.   In: `Accepted`, payload bytes.   Out: replies.
//! Invariants: (1) every request gets exactly one complete reply; (2) a panic in a device call
//! fails that request alone.

use std::any::Any;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onefold_block::spent::{self, Part, Spent};
use onefold_block::{BlockDevice, BlockError, ExtentKind, WriteRequest};

use super::channel::Channel;
use super::cost::Cost;
use super::extents;
use super::processors::Processors;
use super::replies::ReplyBuffer;
use super::slow::{SlowCall, SlowLog, Whose};
use crate::export::Changes;
use crate::protocol::constants::{MAX_EXTENTS, MAX_WHOLE_READ_BYTES, SIMPLE_REPLY_BYTES, chunk};
use crate::protocol::reply::{self, To};
use crate::protocol::{
    Contexts, Errno, ExportInfo, Op, Refused, Request, Session, errno_of, validate,
};

/// Longest piece of a read that is answered in several chunks, in bytes: the client takes one in
/// while the next is read.
const READ_PIECE_BYTES: u32 = 256 << 10;
/// Shortest hole told as such in a read, in bytes; a chunk of its own for less saves nothing.
const MIN_HOLE_BYTES: u32 = 32 << 10;
/// Bytes of trim, zeroing or block status from which the request may take long.
const LONG_RANGE_BYTES: u64 = 16 << 20;
/// What a client is told whose request there is no memory for.
const NO_MEMORY: &str = "there is no memory for this request now";

/// A request with a verdict, and where its payload lies.
#[derive(Clone, Debug)]
pub(super) struct Accepted {
    pub to: To,
    pub op: Result<Op, Refused>,
    /// The payload's place among the payload bytes that go with this request.
    pub payload: Range<usize>,
    /// When it was received: [`Executor::now_ns`].
    pub received_ns: u64,
}

impl Accepted {
    /// Whether this request and `next` may be one call to the device.
    pub fn joins(&self, next: &Self) -> bool {
        match (self.op, next.op) {
            (Ok(Op::Write { fua: a, .. }), Ok(Op::Write { fua: b, .. })) => a == b,
            (Ok(Op::Flush), Ok(Op::Flush)) => true,
            _ => false,
        }
    }

    /// Whether this is a flush.
    pub fn is_flush(&self) -> bool {
        matches!(self.op, Ok(Op::Flush))
    }

    /// Bytes of memory this request holds while it waits: payload or data to be read.
    pub fn held_bytes(&self) -> usize {
        match self.op {
            Ok(Op::Read { len, .. }) => len.min(MAX_WHOLE_READ_BYTES) as usize,
            _ => self.payload.len(),
        }
    }
}

/// What serves the requests of one connection.
pub(super) struct Executor<'a> {
    pub device: &'a dyn BlockDevice,
    pub session: Session,
    /// What answers where it changed, if that was agreed on.
    pub changes: Option<&'a dyn Changes>,
    pub channel: &'a Channel,
    processors: &'a Processors,
    /// Who is told of slow requests, and whose they are.
    slow: (&'a SlowLog, Whose<'a>),
    reads: Cost,
    writes: Cost,
    failures: AtomicU64,
}

impl<'a> Executor<'a> {
    /// The request again, by the size that the device has now, if it was given another one since
    /// the client connected.
    pub fn with_its_size(&self, request: &Request, payload: &[u8]) -> Option<Result<Op, Refused>> {
        let size_bytes = self.device.size_bytes();
        let info = ExportInfo { size_bytes, ..self.session.info };
        let session = Session { info, ..self.session };
        (info != self.session.info).then(|| validate(request, &session, payload))
    }

    pub fn new(
        device: &'a dyn BlockDevice,
        (session, changes): (Session, Option<&'a dyn Changes>),
        channel: &'a Channel,
        (processors, slow): (&'a Processors, (&'a SlowLog, Whose<'a>)),
    ) -> Self {
        let (reads, writes) = (Cost::default(), Cost::default());
        Self {
            device,
            session,
            changes,
            channel,
            processors,
            slow,
            reads,
            writes,
            failures: AtomicU64::new(0),
        }
    }

    /// Whether a helper is worth what it costs for a group: it is likely to take long, by what
    /// others like it took, and either to wait, or to compute where a processor is free for it.
    pub fn is_for_a_helper(&self, group: &[Accepted]) -> bool {
        let Some(cost) = group.first().and_then(|first| self.cost_of(first)) else { return false };
        let bytes = group.iter().map(Accepted::held_bytes).sum();
        cost.is_slow(bytes) && (cost.waits() || self.processors.has_two())
    }

    /// What is known of requests like this one.
    fn cost_of(&self, request: &Accepted) -> Option<&Cost> {
        match request.op {
            Ok(Op::Read { .. }) => Some(&self.reads),
            Ok(Op::Write { .. }) => Some(&self.writes),
            _ => None,
        }
    }

    /// Do a group of requests that join, from `begun_ns` on, which is now, and add their replies,
    /// sending when much is gathered. When it ended. Errors are the channel's; the device's become
    /// replies.
    pub fn run(
        &self,
        group: &[Accepted],
        payload: &[u8],
        begun_ns: u64,
        out: &mut ReplyBuffer,
    ) -> io::Result<u64> {
        let Some(first) = group.first() else { return Ok(begun_ns) };
        let ops = group.iter().filter_map(|request| request.op.ok());
        let bytes: u64 = ops.map(|op| op.range().1).sum();
        let watched = self.cost_of(first).map(|cost| (cost, cost.begin(bytes as usize)));
        let (log, whose) = self.slow;
        let (done, spent) = log.watched(begun_ns, || self.run_now(group, first, payload, out));
        if let Some((cost, begun)) = watched {
            let of_device = spent.total_ns.saturating_sub(spent.of(Part::Reply));
            cost.end(bytes as usize, &begun, Duration::from_nanos(of_device));
        }
        // Once the call has begun the first reply may be sent, and a group comes in as one.
        let queued_ns = begun_ns.saturating_sub(first.received_ns);
        if let Ok(op) = first.op
            && log.is_slow(&spent, queued_ns)
        {
            let requests = group.len() as u64;
            log.tell(whose, &SlowCall { op, bytes, requests, queued_ns, spent });
        }
        done.map(|()| begun_ns + spent.total_ns)
    }

    fn run_now(
        &self,
        group: &[Accepted],
        first: &Accepted,
        payload: &[u8],
        out: &mut ReplyBuffer,
    ) -> io::Result<()> {
        let _call = self.processors.enter();
        let to = first.to;
        match first.op {
            Err(refused) => {
                tracing::debug!(reason = refused.reason, errno = ?refused.errno, "refused");
                self.put_error(to, refused.errno, refused.reason, None, out);
            }
            Ok(Op::Read { offset, len, whole }) => self.read(to, offset, len, whole, out)?,
            Ok(Op::Write { .. }) => self.writes(group, payload, out),
            Ok(Op::Flush) => {
                let result = contained(|| self.device.flush());
                for request in group {
                    self.put_result(request.to, "flush", false, &result, out);
                }
            }
            Ok(Op::Trim { offset, len, fua }) => {
                let result = contained(|| self.device.trim(offset, len, fua));
                self.put_result(to, "trim", false, &result, out);
            }
            Ok(Op::Cache { offset, len }) => {
                let result = contained(|| self.device.prefetch(offset, len));
                self.put_result(to, "cache", false, &result, out);
            }
            Ok(Op::WriteZeroes { offset, len, options }) => {
                let result = contained(|| self.device.write_zeroes(offset, len, options));
                self.put_result(to, "write zeroes", true, &result, out);
            }
            Ok(Op::BlockStatus { offset, len, one, contexts }) => {
                self.block_status(to, (offset, len), (one, contexts), out);
            }
            Ok(Op::Disconnect) => {}
        }
        out.send_if_large(self.channel)
    }

    /// There is no memory to receive a request's payload.
    pub fn refuse_for_memory(&self, to: To, out: &mut ReplyBuffer) {
        self.put_error(to, Errno::NoMemory, NO_MEMORY, None, out);
    }

    /// One piece of a write too long to be received whole.
    pub fn write_piece(
        &self,
        offset: u64,
        data: &[u8],
        spent: &mut Spent,
    ) -> Result<(), BlockError> {
        self.watched(spent, || contained(|| self.device.write_at(offset, data, false)))
    }

    /// Add what a call spends.
    fn watched<T>(&self, spent: &mut Spent, call: impl FnOnce() -> T) -> T {
        let (value, own) = self.slow.0.watched(self.now_ns(), call);
        *spent = spent.and(&own);
        value
    }

    /// The time.
    pub fn now_ns(&self) -> u64 {
        self.slow.0.now_ns()
    }

    /// Answer a long write: with `fua` once it is durable, which one flush for all pieces does.
    pub fn finish_long_write(
        &self,
        request: &Request,
        fua: bool,
        (written, mut spent): (Result<(), BlockError>, Spent),
        out: &mut ReplyBuffer,
    ) {
        let result = match written {
            Ok(()) if fua => self.watched(&mut spent, || contained(|| self.device.flush())),
            other => other,
        };
        let (log, whose) = self.slow;
        if log.is_slow(&spent, 0) {
            let (offset, bytes) = (request.offset, request.len);
            let op = Op::Write { offset, len: bytes as u32, fua };
            log.tell(whose, &SlowCall { op, bytes, requests: 1, queued_ns: 0, spent });
        }
        self.put_result(self.to(request), "write", true, &result, out);
    }

    /// Whom the reply to a request is for.
    pub const fn to(&self, request: &Request) -> To {
        let Request { cookie, offset, .. } = *request;
        To { cookie, offset, extended: self.session.extended }
    }

    fn writes(&self, group: &[Accepted], payload: &[u8], out: &mut ReplyBuffer) {
        let requests: Vec<WriteRequest<'_>> = group
            .iter()
            .filter_map(|accepted| match accepted.op {
                Ok(Op::Write { offset, fua, .. }) => {
                    let data = &payload[accepted.payload.clone()];
                    Some(WriteRequest { offset, data, fua })
                }
                _ => None,
            })
            .collect();
        let mut results = Vec::with_capacity(requests.len());
        if let [only] = requests.as_slice() {
            let result = contained(|| self.device.write_at(only.offset, only.data, only.fua));
            results.push(result);
        } else {
            let done = contained(|| {
                self.device.write_batch(&requests, &mut results);
                Ok(())
            });
            if let Err(error) = done {
                results.clear();
                self.log("write batch", &error);
            }
        }
        let mut results = results.into_iter();
        for request in group {
            let result = results.next().unwrap_or_else(|| Err(failed("no result for this write")));
            self.put_result(request.to, "write", true, &result, out);
        }
    }

    fn read(
        &self,
        to: To,
        offset: u64,
        len: u32,
        whole: bool,
        out: &mut ReplyBuffer,
    ) -> io::Result<()> {
        if !self.session.structured && len > MAX_WHOLE_READ_BYTES {
            return self.read_long_simple(to, offset, len, out);
        }
        if !self.session.structured || whole || len < MIN_HOLE_BYTES {
            self.read_chunk(to, offset, len, true, out);
            return Ok(());
        }
        let holes = contained(|| self.device.block_status(offset, len.into()));
        let runs = extents::read_runs(holes.unwrap_or_default(), len, MIN_HOLE_BYTES);
        let (mut at, end) = (offset, offset + u64::from(len));
        for (kind, run) in runs {
            let run_end = at + u64::from(run);
            if kind != ExtentKind::Data {
                out.put(&reply::hole(to, at, run, run_end == end));
                at = run_end;
            }
            while at < run_end {
                let piece = READ_PIECE_BYTES.min((run_end - at) as u32);
                let done = at + u64::from(piece) == end;
                if !self.read_chunk(to, at, piece, done, out) {
                    return Ok(());
                }
                at += u64::from(piece);
                out.send_if_large(self.channel)?;
            }
        }
        Ok(())
    }

    /// A read too long to be held, for a client that can be told of an error only before the
    /// data: all of it is read once to see whether that works, then again to be sent. Should it
    /// fail the second time, the connection ends, as the protocol prescribes.
    fn read_long_simple(
        &self,
        to: To,
        offset: u64,
        len: u32,
        out: &mut ReplyBuffer,
    ) -> io::Result<()> {
        out.send(self.channel)?;
        let pieces = (0..len)
            .step_by(READ_PIECE_BYTES as usize)
            .map(|done| (offset + u64::from(done), READ_PIECE_BYTES.min(len - done) as usize));
        for (at, piece) in pieces.clone() {
            if !out.make_room(piece) {
                self.put_error(to, Errno::NoMemory, NO_MEMORY, None, out);
                return Ok(());
            }
            let read = contained(|| self.device.read_at(at, out.slot(piece)));
            out.take_back(piece);
            if let Err(error) = read {
                self.put_result(to, "read", false, &Err(error), out);
                return Ok(());
            }
        }
        let turn = self.channel.take_turn();
        spent::on(Part::Reply, || turn.send_all(&reply::simple(to.cookie, None)))?;
        for (at, piece) in pieces {
            let buf = out.slot(piece);
            let read = contained(|| self.device.read_at(at, buf));
            let sent = match &read {
                Ok(()) => spent::on(Part::Reply, || turn.send_all(buf)),
                Err(error) => {
                    self.log("read", error);
                    self.channel.abandon();
                    Err(io::Error::other("a read failed after its reply had begun"))
                }
            };
            out.take_back(piece);
            sent?;
        }
        Ok(())
    }

    /// Add `len` bytes read as one chunk, or as a simple reply; `false` if they could not be
    /// read and the request is answered with that.
    fn read_chunk(&self, to: To, offset: u64, len: u32, done: bool, out: &mut ReplyBuffer) -> bool {
        let structured = self.session.structured;
        let head_bytes = if structured { to.data_header_bytes() } else { SIMPLE_REPLY_BYTES };
        let all = head_bytes + len as usize;
        if !out.make_room(all) {
            self.put_error(to, Errno::NoMemory, NO_MEMORY, Some(offset), out);
            return false;
        }
        let (head, body) = out.slot(all).split_at_mut(head_bytes);
        match contained(|| self.device.read_at(offset, body)) {
            Ok(()) if structured => {
                head.copy_from_slice(&reply::data_header(to, offset, len, done));
                true
            }
            Ok(()) => {
                head.copy_from_slice(&reply::simple(to.cookie, None));
                true
            }
            Err(error) => {
                out.take_back(all);
                self.log("read", &error);
                let errno = errno_of(&error, false);
                self.put_error(to, errno, &error.to_string(), Some(offset), out);
                false
            }
        }
    }

    fn block_status(
        &self,
        to: To,
        (offset, len): (u64, u64),
        (one, contexts): (bool, Contexts),
        out: &mut ReplyBuffer,
    ) {
        let limit = if one { 1 } else { MAX_EXTENTS };
        let allocation = contexts.allocation.then(|| {
            let query = |at, window| contained(|| self.device.block_status(at, window));
            extents::collect(offset, len, limit, query)
        });
        let changes = self.changes.filter(|_| contexts.changes).map(|changes| {
            let query = |at, window| contained(|| changes.changes(at, window));
            extents::collect(offset, len, limit, query)
        });
        match (allocation.transpose(), changes.transpose()) {
            (Ok(allocation), Ok(changes)) => {
                if let Some(list) = allocation {
                    out.put(&reply::block_status(to, &list, changes.is_none()));
                }
                if let Some(list) = changes {
                    out.put(&reply::changes(to, &list, true));
                }
            }
            (Err(error), _) | (_, Err(error)) => {
                self.put_result(to, "block status", false, &Err(error), out);
            }
        }
    }

    fn put_result(
        &self,
        to: To,
        what: &'static str,
        stores: bool,
        result: &Result<(), BlockError>,
        out: &mut ReplyBuffer,
    ) {
        match result {
            // With extended headers there are no simple replies.
            Ok(()) if to.extended => out.put(&reply::chunk_header(to, chunk::NONE, 0, true)),
            Ok(()) => out.put(&reply::simple(to.cookie, None)),
            Err(error) => {
                self.log(what, error);
                let errno = errno_of(error, stores);
                self.put_error(to, errno, &error.to_string(), None, out);
            }
        }
    }

    fn put_error(
        &self,
        to: To,
        errno: Errno,
        message: &str,
        offset: Option<u64>,
        out: &mut ReplyBuffer,
    ) {
        if self.session.structured {
            out.put(&reply::error(to, errno, message, offset));
        } else {
            out.put(&reply::simple(to.cookie, Some(errno)));
        }
    }

    /// A device that fails every request must not fill the log: the 1st, 2nd, 4th, 8th and so on
    /// failure of a connection is told, with its number.
    fn log(&self, what: &'static str, error: &BlockError) {
        let number = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if number.is_power_of_two() {
            tracing::warn!(number, "{what}: {error}");
        }
    }
}

/// Whether a group always goes to a helper: it waits for media, or covers a long range.
pub(super) fn waits(group: &[Accepted]) -> bool {
    group.first().is_some_and(|first| match first.op {
        Ok(Op::Flush | Op::Cache { .. } | Op::Write { fua: true, .. }) => true,
        Ok(Op::Trim { len, fua, .. }) => fua || len >= LONG_RANGE_BYTES,
        Ok(Op::WriteZeroes { len, options, .. }) => options.fua || len >= LONG_RANGE_BYTES,
        Ok(Op::BlockStatus { len, one: false, .. }) => len >= LONG_RANGE_BYTES,
        _ => false,
    })
}

/// Call the device; a panic becomes an I/O error.
fn contained<T>(call: impl FnOnce() -> Result<T, BlockError>) -> Result<T, BlockError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(failed(&text_of(&*panic))))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panic: {}", text.unwrap_or_else(|| "without a message".to_owned()))
}

fn failed(why: &str) -> BlockError {
    BlockError::Io { context: "device call".to_owned(), source: io::Error::other(why) }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;
    use std::sync::Arc;

    use onefold_block::wrappers::Clock;
    use onefold_block::{MemDevice, ZeroOptions};

    use super::super::slow::SlowRequests;
    use super::super::socket::Socket;
    use super::*;
    use crate::protocol::ExportInfo;

    const TO: To = To { cookie: 0, offset: 0, extended: false };

    fn accepted(op: Op) -> Accepted {
        Accepted { to: TO, op: Ok(op), payload: 0..7, received_ns: 0 }
    }

    fn write(fua: bool) -> Accepted {
        accepted(Op::Write { offset: 0, len: 7, fua })
    }

    #[test]
    fn only_writes_of_one_kind_and_flushes_are_one_call() {
        let flush = accepted(Op::Flush);
        let read = accepted(Op::Read { offset: 0, len: 7, whole: false });
        assert!(write(true).joins(&write(true)) && write(false).joins(&write(false)));
        assert!(flush.joins(&flush) && flush.is_flush());
        for (first, next) in [
            (write(true), write(false)),
            (write(false), write(true)),
            (write(false), flush.clone()),
            (flush, write(false)),
            (read.clone(), read),
        ] {
            assert!(!first.joins(&next), "{first:?} {next:?}");
        }
        assert!(!write(true).is_flush());
    }

    #[test]
    fn held_is_the_payload_or_what_is_read_at_once() {
        let read = |len| accepted(Op::Read { offset: 0, len, whole: false }).held_bytes();
        assert_eq!(read(5), 5);
        assert_eq!(read(MAX_WHOLE_READ_BYTES), MAX_WHOLE_READ_BYTES as usize);
        assert_eq!(read(MAX_WHOLE_READ_BYTES + 1), MAX_WHOLE_READ_BYTES as usize);
        assert_eq!((write(false).held_bytes(), accepted(Op::Flush).held_bytes()), (7, 7));
    }

    #[test]
    fn what_waits_for_media_or_covers_a_long_range_always_goes_to_a_helper() {
        let (offset, long, short) = (0, LONG_RANGE_BYTES, LONG_RANGE_BYTES - 1);
        let zero = |len, fua| {
            let options = ZeroOptions { fua, ..ZeroOptions::default() };
            Op::WriteZeroes { offset, len, options }
        };
        let trim = |len, fua| Op::Trim { offset, len, fua };
        let contexts = Contexts { allocation: true, changes: false };
        let status = |len, one| Op::BlockStatus { offset, len, one, contexts };
        for (op, expected) in [
            (Op::Flush, true),
            (Op::Cache { offset, len: 1 }, true),
            (Op::Write { offset, len: 1, fua: true }, true),
            (Op::Write { offset, len: 1, fua: false }, false),
            (Op::Read { offset, len: long as u32, whole: true }, false),
            (trim(1, true), true),
            (trim(long, false), true),
            (trim(short, false), false),
            (zero(1, true), true),
            (zero(long, false), true),
            (zero(short, false), false),
            (status(long, false), true),
            (status(short, false), false),
            (status(long, true), false),
        ] {
            assert_eq!(waits(&[accepted(op)]), expected, "{op:?}");
        }
        let refused = Refused { errno: Errno::Invalid, reason: "" };
        assert!(!waits(&[Accepted { to: TO, op: Err(refused), payload: 0..0, received_ns: 0 }]));
        assert!(!waits(&[]));
    }

    /// Counts what is logged.
    struct Counted(Arc<AtomicU64>);

    impl tracing::Subscriber for Counted {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            *metadata.level() == tracing::Level::WARN
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    /// What an executor needs: a device of one block, a client that is silent, two processors.
    struct Parts {
        device: MemDevice,
        channel: Channel,
        processors: Processors,
        slow: SlowLog,
        client: std::os::unix::net::UnixStream,
    }

    impl Parts {
        fn new() -> Self {
            let (ours, client) = std::os::unix::net::UnixStream::pair().unwrap();
            Self {
                device: MemDevice::new(4096),
                channel: Channel::plain(Arc::new(Socket::Unix(ours))),
                processors: Processors::new(2),
                slow: SlowLog::new(None),
                client,
            }
        }

        fn executor(&self) -> Executor<'_> {
            let info = ExportInfo::of(&self.device, false);
            let session = Session {
                info,
                structured: false,
                extended: false,
                allocation: false,
                changes: false,
            };
            let whose = Whose { peer: "", export: "" };
            let watched = (&self.processors, (&self.slow, whose));
            Executor::new(&self.device, (session, None), &self.channel, watched)
        }
    }

    #[test]
    fn who_computes_gets_a_helper_only_where_a_processor_is_free_for_it() {
        let parts = Parts::new();
        let mut executor = parts.executor();
        let write = [accepted(Op::Write { offset: 0, len: 4096, fua: false })];
        let asked = |executor: &Executor<'_>| executor.is_for_a_helper(&write);
        assert!(!asked(&executor), "nothing was slow yet");
        executor.writes = Cost::slow(false);
        assert!(asked(&executor));
        let call = parts.processors.enter();
        assert!(!asked(&executor), "one would have to wait for the other");
        executor.writes = Cost::slow(true);
        assert!(asked(&executor), "who waits takes no processor");
        drop(call);
        assert!(!executor.is_for_a_helper(&[accepted(Op::Flush)]), "flushes go by another rule");
    }

    /// Counts who looks at it, and goes on by a microsecond each time.
    #[derive(Default)]
    struct Looks(AtomicU64);

    impl Clock for Looks {
        fn now_ns(&self) -> u64 {
            1000 * (self.0.fetch_add(1, Ordering::Relaxed) + 1)
        }
        fn sleep_ns(&self, _: u64) {}
    }

    #[test]
    fn a_request_costs_one_look_at_the_clock_and_begins_where_the_last_one_ended() {
        let mut parts = Parts::new();
        let looks = Arc::new(Looks::default());
        let clock = Arc::clone(&looks) as Arc<dyn Clock>;
        let after = Duration::from_secs(1);
        parts.slow = SlowLog::new(Some(&SlowRequests { after, clock }));
        let executor = parts.executor();
        let read = accepted(Op::Read { offset: 0, len: 4096, whole: false });
        let mut out = ReplyBuffer::new();
        let mut now_ns = executor.now_ns();
        for request in 2..12 {
            now_ns = executor.run(from_ref(&read), &[], now_ns, &mut out).unwrap();
            assert_eq!((now_ns, looks.0.load(Ordering::Relaxed)), (1000 * request, request));
        }
        assert!(!executor.is_for_a_helper(from_ref(&read)), "a microsecond each");
        for _ in 0..40 {
            executor.run(from_ref(&read), &[], 0, &mut out).unwrap();
            looks.0.fetch_add(1000, Ordering::Relaxed);
        }
        assert!(executor.is_for_a_helper(&[read]), "what the clock says is what a call costs");
    }

    #[test]
    fn of_failures_the_first_second_fourth_and_so_on_are_logged() {
        let parts = Parts::new();
        let executor = parts.executor();
        let counted = Arc::new(AtomicU64::new(0));
        let mut logged = Vec::new();
        tracing::subscriber::with_default(Counted(Arc::clone(&counted)), || {
            for _ in 0..9 {
                executor.log("read", &BlockError::ReadOnly);
                logged.push(counted.load(Ordering::Relaxed));
            }
        });
        assert_eq!(logged, [1, 2, 2, 3, 3, 3, 3, 4, 4]);
    }

    #[test]
    fn a_panic_is_an_error_with_its_words() {
        let told = |call: fn() -> Result<(), BlockError>| contained(call).unwrap_err().to_string();
        assert!(told(|| panic!("plain")).contains("panic: plain"));
        assert!(told(|| panic!("number {}", 5)).contains("panic: number 5"));
        assert!(told(|| std::panic::panic_any(5)).contains("panic: without a message"));
    }

    #[test]
    fn a_request_whose_payload_finds_no_memory_is_answered_with_that() {
        use std::io::Read as _;

        let mut parts = Parts::new();
        let mut out = ReplyBuffer::new();
        let to = To { cookie: 0x0102_0304_0506_0708, ..TO };
        parts.executor().refuse_for_memory(to, &mut out);
        out.send(&parts.channel).unwrap();
        parts.channel.close();
        let mut reply = Vec::new();
        parts.client.read_to_end(&mut reply).unwrap();
        assert_eq!(reply.len(), 16);
        // Simple reply: magic, errno (ENOMEM), cookie.
        assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 12]);
        assert_eq!(reply[8..], [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
