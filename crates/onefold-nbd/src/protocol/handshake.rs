//! The fixed newstyle handshake as a state machine: client bytes in, server bytes out.
//! Room: onefold-nbd.   In: bytes, exports.   Out: bytes, `Outcome`.
//! Invariants: (1) each call answers at most one option, so that what is to be sent is bounded
//! by one answer; (2) nothing agreed in plain text survives the start of TLS; (3) under a policy
//! that wants TLS nothing about the exports is said before it; (4) exports are asked in the name of
//! the client that was found out.

use std::sync::Arc;

use onefold_block::BlockDevice;

use super::constants::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, CHANGED_SINCE, CHANGED_SINCE_ID, IHAVEOPT,
    MAX_OPTION_BYTES, MAX_OPTION_DRAIN_BYTES, MAX_OPTIONS, MAX_OPTIONS_PER_EXPORT, NBDMAGIC,
    OPTION_HEADER_BYTES, handshake_flag, info, option, option_reply,
};
use super::export_info::ExportInfo;
use super::options;
use super::request::Session;
use super::wire::Fields;
use crate::client::Client;
use crate::export::{Changes, Exports};

/// Zeroes that end the answer to `EXPORT_NAME` for clients that did not waive them.
const EXPORT_NAME_PADDING: usize = 124;
/// Longest sentence that a client is told; the protocol allows 4096 bytes.
const MAX_REFUSAL_BYTES: usize = 4096;
/// Client flags this server knows.
const KNOWN_FLAGS: u32 = handshake_flag::FIXED_NEWSTYLE as u32 | handshake_flag::NO_ZEROES as u32;

/// Whether clients must go over to TLS before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPolicy {
    /// TLS is not offered.
    Off,
    /// Nothing but STARTTLS and ABORT is accepted in plain text.
    Required,
}

/// Contexts of changes in one option that are looked for at most.
const CHANGES_TRIED_MAX: usize = 8;

/// Why there is no export for whoever agreed on what changed in it.
const CANNOT_BE_COMPARED: &str = "what changed in this export cannot be told any more, since the \
                                  snapshot is gone: agree on contexts anew";

/// An export, and what changed in it if that was agreed on.
type Picked = (Arc<dyn BlockDevice>, Option<Arc<dyn Changes>>);

/// What a client and a server agreed on.
pub struct Negotiated {
    /// The device behind the export.
    pub device: Arc<dyn BlockDevice>,
    /// The export's name as the client gave it.
    pub name: String,
    /// How requests are read and answered from here on.
    pub session: Session,
    /// Where the export differs from what the client named, if it did.
    pub changes: Option<Arc<dyn Changes>>,
}

/// What the caller is to do after sending [`Step::send`].
pub enum Outcome {
    /// Feed more bytes.
    NeedMore,
    /// Feed again, with nothing or with more: bytes already fed are waiting.
    Again,
    /// Bring up TLS, call [`Handshake::tls_started`], then feed decrypted bytes.
    StartTls,
    /// The handshake is over; [`Handshake::into_rest`] has the first bytes of requests.
    Done(Box<Negotiated>),
    /// The client is done.
    Aborted,
    /// End the connection for this reason.
    Refuse(&'static str),
}

/// One step of the handshake.
pub struct Step {
    /// Bytes for the client.
    pub send: Vec<u8>,
    /// What to do then.
    pub outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    ClientFlags,
    Options,
    Over,
}

/// The handshake with one client.
#[expect(clippy::struct_excessive_bools, reason = "each is a thing agreed on by itself")]
pub struct Handshake {
    exports: Arc<dyn Exports>,
    client: Client,
    policy: TlsPolicy,
    read_only: bool,
    state: State,
    under_tls: bool,
    pad_export_name: bool,
    structured: bool,
    extended: bool,
    /// The export for which the client picked `base:allocation`.
    allocation_for: Option<String>,
    /// The export for which it picked what changed, and since what. Names: by the time that the
    /// export is picked, another volume may be called so, and is told of then.
    changes_for: Option<(String, String)>,
    options_seen: u32,
    /// Looked up anew when it is reached: exports may come and go.
    options_max: u32,
    buffered: Vec<u8>,
    /// Bytes of an oversized option still to be thrown away, and the option they belong to.
    draining: Option<(u32, usize)>,
}

impl Handshake {
    /// A handshake that has not begun; send [`Handshake::greeting`] first.
    pub fn new(
        exports: Arc<dyn Exports>,
        client: Client,
        policy: TlsPolicy,
        read_only: bool,
    ) -> Self {
        Self {
            exports,
            client,
            policy,
            read_only,
            state: State::ClientFlags,
            under_tls: false,
            pad_export_name: true,
            structured: false,
            extended: false,
            allocation_for: None,
            changes_for: None,
            options_seen: 0,
            options_max: MAX_OPTIONS,
            buffered: Vec::new(),
            draining: None,
        }
    }

    /// The first bytes of a server.
    pub fn greeting() -> [u8; 18] {
        let mut bytes = [0; 18];
        let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
        bytes[..8].copy_from_slice(&NBDMAGIC.to_be_bytes());
        bytes[8..16].copy_from_slice(&IHAVEOPT.to_be_bytes());
        bytes[16..].copy_from_slice(&flags.to_be_bytes());
        bytes
    }

    /// Take what the client sent and say what to send and do. Do not feed after
    /// [`Outcome::Done`], [`Outcome::Aborted`] or [`Outcome::Refuse`].
    pub fn feed(&mut self, bytes: &[u8]) -> Step {
        self.buffered.extend_from_slice(bytes);
        let mut send = Vec::new();
        let outcome = match self.state {
            State::ClientFlags => self.client_flags(),
            State::Options => self.next_option(&mut send),
            State::Over => Outcome::Refuse("bytes after the end of the handshake"),
        };
        if matches!(outcome, Outcome::Done(_) | Outcome::Aborted | Outcome::Refuse(_)) {
            self.state = State::Over;
        }
        Step { send, outcome }
    }

    /// TLS is up, and this is the client: forget what was agreed in plain text.
    pub fn tls_started(&mut self, client: Client) {
        self.client = client;
        self.under_tls = true;
        self.structured = false;
        self.extended = false;
        self.allocation_for = None;
        self.changes_for = None;
        self.buffered.clear();
    }

    /// Bytes received past the handshake: the beginning of the first requests.
    pub fn into_rest(self) -> Vec<u8> {
        self.buffered
    }

    fn client_flags(&mut self) -> Outcome {
        let mut fields = Fields::new(&self.buffered);
        let Some(flags) = fields.u32() else { return Outcome::NeedMore };
        if flags & !KNOWN_FLAGS != 0 {
            return Outcome::Refuse("unknown client flags");
        }
        self.pad_export_name = flags & u32::from(handshake_flag::NO_ZEROES) == 0;
        self.buffered.drain(..4);
        self.state = State::Options;
        Outcome::Again
    }

    fn next_option(&mut self, send: &mut Vec<u8>) -> Outcome {
        if let Some((option, left)) = self.draining {
            return self.drain(option, left, send);
        }
        let mut fields = Fields::new(&self.buffered);
        let (Some(magic), Some(option), Some(len)) = (fields.u64(), fields.u32(), fields.u32())
        else {
            return Outcome::NeedMore;
        };
        if magic != IHAVEOPT {
            return Outcome::Refuse("an option without the option magic");
        }
        let len = len as usize;
        if len > MAX_OPTION_DRAIN_BYTES {
            return Outcome::Refuse("an option of more than 1 MiB");
        }
        if self.options_seen >= self.options_max {
            self.options_max = options_max(self.exports.list(&self.client).len());
            if self.options_seen >= self.options_max {
                return Outcome::Refuse("too many options");
            }
        }
        if len > MAX_OPTION_BYTES {
            self.options_seen += 1;
            self.buffered.drain(..OPTION_HEADER_BYTES);
            return self.drain(option, len, send);
        }
        let Some(data) = fields.bytes(len).map(<[u8]>::to_vec) else { return Outcome::NeedMore };
        self.options_seen += 1;
        self.buffered.drain(..OPTION_HEADER_BYTES + len);
        self.answer(option, &data, send)
    }

    fn drain(&mut self, option: u32, left: usize, send: &mut Vec<u8>) -> Outcome {
        let taken = left.min(self.buffered.len());
        self.buffered.drain(..taken);
        if taken < left {
            self.draining = Some((option, left - taken));
            return Outcome::NeedMore;
        }
        self.draining = None;
        if option == option::EXPORT_NAME {
            return Outcome::Refuse("an export name that is too long");
        }
        let why = b"option data too long: at most 8 KiB are accepted";
        options::put_reply(send, option, option_reply::ERR_TOO_BIG, why);
        Outcome::Again
    }

    fn answer(&mut self, option: u32, data: &[u8], send: &mut Vec<u8>) -> Outcome {
        if option == option::ABORT {
            options::put_reply(send, option, option_reply::ACK, &[]);
            return Outcome::Aborted;
        }
        if option == option::STARTTLS {
            return self.start_tls(data, send);
        }
        if self.policy == TlsPolicy::Required && !self.under_tls {
            if option == option::EXPORT_NAME {
                return Outcome::Refuse("an export was picked without TLS, which is required");
            }
            let why = b"this server requires TLS";
            options::put_reply(send, option, option_reply::ERR_TLS_REQD, why);
            return Outcome::Again;
        }
        match option {
            option::EXPORT_NAME => return self.export_name(data, send),
            option::GO | option::INFO => return self.info_or_go(option, data, send),
            option::LIST => self.list(data, send),
            option::STRUCTURED_REPLY => self.structured_reply(data, send),
            option::EXTENDED_HEADERS => self.extended_headers(data, send),
            option::LIST_META_CONTEXT => self.list_meta_context(data, send),
            option::SET_META_CONTEXT => self.set_meta_context(data, send),
            _ => {
                let why = b"this option is not known here";
                options::put_reply(send, option, option_reply::ERR_UNSUP, why);
            }
        }
        Outcome::Again
    }

    fn start_tls(&mut self, data: &[u8], send: &mut Vec<u8>) -> Outcome {
        let (kind, why): (u32, &[u8]) = if self.policy == TlsPolicy::Off {
            (option_reply::ERR_UNSUP, b"this server has TLS turned off")
        } else if self.under_tls {
            (option_reply::ERR_INVALID, b"TLS is already in use")
        } else if !data.is_empty() {
            (option_reply::ERR_INVALID, b"this option takes no data")
        } else if !self.buffered.is_empty() {
            // Whoever can inject plain text must not have it taken for the client's under TLS.
            return Outcome::Refuse("plain text sent on after the request for TLS");
        } else {
            options::put_reply(send, option::STARTTLS, option_reply::ACK, &[]);
            return Outcome::StartTls;
        };
        options::put_reply(send, option::STARTTLS, kind, why);
        Outcome::Again
    }

    fn export_name(&mut self, data: &[u8], send: &mut Vec<u8>) -> Outcome {
        if self.extended {
            return Outcome::Refuse("an export was picked by name after extended headers");
        }
        let Some(name) = std::str::from_utf8(data).ok() else {
            return Outcome::Refuse("an export name that is not UTF-8");
        };
        let Some(picked) = self.pick(name) else {
            return Outcome::Refuse(match self.exports.refusal(name, &self.client) {
                Some(_) => "an export that is refused for now",
                None if self.cannot_be_compared(name) => CANNOT_BE_COMPARED,
                None => "an unknown export name",
            });
        };
        let negotiated = self.negotiated(picked, name);
        let info = &negotiated.session.info;
        send.extend_from_slice(&info.size_bytes.to_be_bytes());
        send.extend_from_slice(&negotiated.session.transmission_flags().to_be_bytes());
        if self.pad_export_name {
            send.extend_from_slice(&[0; EXPORT_NAME_PADDING]);
        }
        Outcome::Done(Box::new(negotiated))
    }

    /// Since what the client wants to be told of changes of this export.
    fn since(&self, name: &str) -> Option<&str> {
        let picked = self.changes_for.as_ref().filter(|(of, _)| self.structured && of == name);
        picked.map(|(_, since)| since.as_str())
    }

    /// The export of that name as it is now, and what changed in that very one, if that was agreed.
    fn pick(&self, name: &str) -> Option<Picked> {
        let Some(since) = self.since(name) else {
            return self.exports.open(name, &self.client).map(|device| (device, None));
        };
        let compared = self.exports.compared(name, since, &self.client);
        compared.map(|(device, changes)| (device, Some(changes)))
    }

    /// Whether there is an export of that name, but no more what it was agreed to be compared with.
    fn cannot_be_compared(&self, name: &str) -> bool {
        self.since(name).is_some() && self.exports.open(name, &self.client).is_some()
    }

    fn negotiated(&self, (device, changes): Picked, name: &str) -> Negotiated {
        let session = Session {
            info: ExportInfo::of(&*device, self.read_only),
            structured: self.structured,
            extended: self.extended,
            allocation: self.structured && self.allocation_for.as_deref() == Some(name),
            changes: changes.is_some(),
        };
        Negotiated { device, name: name.to_owned(), session, changes }
    }

    fn info_or_go(&mut self, option: u32, data: &[u8], send: &mut Vec<u8>) -> Outcome {
        let Some(query) = options::parse_info(data) else {
            put_malformed(send, option);
            return Outcome::Again;
        };
        let Some(picked) = self.pick(query.name) else {
            self.put_refusal(send, option, query.name);
            return Outcome::Again;
        };
        let negotiated = self.negotiated(picked, query.name);
        let export = &negotiated.session.info;
        options::put_info_export(send, option, &negotiated.session);
        options::put_info_block_size(send, option, export);
        if query.kinds.contains(&info::NAME) || query.kinds.contains(&info::DESCRIPTION) {
            self.put_texts(send, option, &query);
        }
        options::put_reply(send, option, option_reply::ACK, &[]);
        if option == option::GO { Outcome::Done(Box::new(negotiated)) } else { Outcome::Again }
    }

    /// Say why there is no export of that name, or why it is not given to anybody.
    fn put_refusal(&self, send: &mut Vec<u8>, option: u32, name: &str) {
        let Some(why) = self.exports.refusal(name, &self.client) else {
            if self.cannot_be_compared(name) {
                let kind = option_reply::ERR_POLICY;
                return options::put_reply(send, option, kind, CANNOT_BE_COMPARED.as_bytes());
            }
            return put_unknown(send, option, name);
        };
        let why = options::cut(&why, MAX_REFUSAL_BYTES);
        options::put_reply(send, option, option_reply::ERR_POLICY, why.as_bytes());
    }

    fn put_texts(&self, send: &mut Vec<u8>, option: u32, query: &options::InfoQuery<'_>) {
        let list = self.exports.list(&self.client);
        let named = list.iter().find(|entry| entry.name == query.name);
        let default = if query.name.is_empty() { list.first() } else { None };
        let Some(entry) = named.or(default) else { return };
        if query.kinds.contains(&info::NAME) {
            options::put_info_text(send, option, info::NAME, &entry.name);
        }
        if query.kinds.contains(&info::DESCRIPTION) && !entry.description.is_empty() {
            options::put_info_text(send, option, info::DESCRIPTION, &entry.description);
        }
    }

    fn list(&self, data: &[u8], send: &mut Vec<u8>) {
        if !data.is_empty() {
            return put_malformed(send, option::LIST);
        }
        for entry in self.exports.list(&self.client) {
            options::put_server(send, option::LIST, &entry.name, &entry.description);
        }
        options::put_reply(send, option::LIST, option_reply::ACK, &[]);
    }

    fn structured_reply(&mut self, data: &[u8], send: &mut Vec<u8>) {
        if !data.is_empty() {
            return put_malformed(send, option::STRUCTURED_REPLY);
        }
        if self.extended {
            let why = b"extended headers are agreed on, and go before structured replies";
            let kind = option_reply::ERR_EXT_HEADER_REQD;
            return options::put_reply(send, option::STRUCTURED_REPLY, kind, why);
        }
        self.structured = true;
        options::put_reply(send, option::STRUCTURED_REPLY, option_reply::ACK, &[]);
    }

    fn extended_headers(&mut self, data: &[u8], send: &mut Vec<u8>) {
        if !data.is_empty() {
            return put_malformed(send, option::EXTENDED_HEADERS);
        }
        // They can do all that structured replies can.
        (self.structured, self.extended) = (true, true);
        options::put_reply(send, option::EXTENDED_HEADERS, option_reply::ACK, &[]);
    }

    fn list_meta_context(&self, data: &[u8], send: &mut Vec<u8>) {
        let option = option::LIST_META_CONTEXT;
        let Some(query) = options::parse_meta(data) else { return put_malformed(send, option) };
        if self.exports.open(query.name, &self.client).is_none() {
            return self.put_refusal(send, option, query.name);
        }
        let wanted = |text: &&str| *text == BASE_ALLOCATION || *text == "base:";
        if query.queries.is_empty() || query.queries.iter().any(wanted) {
            options::put_meta_context(send, option, 0, BASE_ALLOCATION);
        }
        let all = |text: &&str| ["onefold:", CHANGED_SINCE].contains(text);
        if query.queries.is_empty() || query.queries.iter().any(all) {
            for since in self.exports.changes_listed(query.name, &self.client) {
                let context = format!("{CHANGED_SINCE}{since}");
                options::put_meta_context(send, option, 0, &context);
            }
        } else if let Some((context, _)) = self.changes(&query) {
            options::put_meta_context(send, option, 0, context);
        }
        options::put_reply(send, option, option_reply::ACK, &[]);
    }

    /// The first context of changes that is asked for and is there, and since what it tells.
    fn changes<'a>(&self, query: &options::MetaQuery<'a>) -> Option<(&'a str, &'a str)> {
        query.queries.iter().take(CHANGES_TRIED_MAX).find_map(|context| {
            let since = context.strip_prefix(CHANGED_SINCE)?;
            let compared = self.exports.compared(query.name, since, &self.client);
            compared.map(|_| (*context, since))
        })
    }

    fn set_meta_context(&mut self, data: &[u8], send: &mut Vec<u8>) {
        let option = option::SET_META_CONTEXT;
        self.allocation_for = None;
        self.changes_for = None;
        let Some(query) = options::parse_meta(data) else { return put_malformed(send, option) };
        if !self.structured {
            let why = b"structured replies or extended headers have to be agreed on first";
            return options::put_reply(send, option, option_reply::ERR_INVALID, why);
        }
        if self.exports.open(query.name, &self.client).is_none() {
            return self.put_refusal(send, option, query.name);
        }
        if query.queries.contains(&BASE_ALLOCATION) {
            self.allocation_for = Some(query.name.to_owned());
            options::put_meta_context(send, option, BASE_ALLOCATION_ID, BASE_ALLOCATION);
        }
        if let Some((context, since)) = self.changes(&query) {
            options::put_meta_context(send, option, CHANGED_SINCE_ID, context);
            self.changes_for = Some((query.name.to_owned(), since.to_owned()));
        }
        options::put_reply(send, option, option_reply::ACK, &[]);
    }
}

/// How many options a client may send where there are so many exports.
fn options_max(exports: usize) -> u32 {
    let exports = u32::try_from(exports).unwrap_or(u32::MAX);
    exports.saturating_mul(MAX_OPTIONS_PER_EXPORT).saturating_add(MAX_OPTIONS)
}

fn put_malformed(send: &mut Vec<u8>, option: u32) {
    let why = b"the data of this option make no sense";
    options::put_reply(send, option, option_reply::ERR_INVALID, why);
}

fn put_unknown(send: &mut Vec<u8>, option: u32, name: &str) {
    let why = format!("there is no export named '{}'", options::cut(name, 256));
    options::put_reply(send, option, option_reply::ERR_UNKNOWN, why.as_bytes());
}
