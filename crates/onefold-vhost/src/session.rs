//! One monitor's connection: what it says of features, memory and queues.
//! Room: onefold-vhost.
//! Invariant: a message that cannot be done ends the session, named; queues end with it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::channel;
use crate::config::{
    self, CONFIG_BYTES, QUEUES_MAX, config_space, feature, protocol_feature, sectors,
};
use crate::disk::Disk;
use crate::error::SessionError;
use crate::memory::Memory;
use crate::message::{self, Fields, Message, ask};
use crate::ring::{Places, Ring};

/// How often the size of the device is looked at.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
/// In a message about a queue's files: there is none.
const NO_FILE: u64 = 1 << 8;

/// A session.
pub(crate) struct Session<'a> {
    stream: &'a UnixStream,
    disk: Arc<Disk>,
    features: u64,
    protocol_features: u64,
    memory: Memory,
    rings: Vec<Ring>,
    /// Where the monitor hears what it did not ask for.
    backwards: Option<UnixStream>,
    /// What the guest takes for the size of its disk.
    sectors: u64,
}

impl<'a> Session<'a> {
    pub fn new(stream: &'a UnixStream, disk: Arc<Disk>) -> Self {
        let sectors = sectors(&*disk.device);
        Self {
            stream,
            disk,
            features: 0,
            protocol_features: 0,
            memory: Memory::default(),
            rings: (0..QUEUES_MAX).map(|_| Ring::default()).collect(),
            backwards: None,
            sectors,
        }
    }

    /// Serve until the monitor leaves, or the stream is shut down.
    pub fn run(&mut self) -> Result<(), SessionError> {
        loop {
            if !self.is_readable()? {
                self.tell_size();
                continue;
            }
            let Some(message) = channel::receive(self.stream)? else { return Ok(()) };
            let asked = message.ask;
            let confirms = self.protocol_features & protocol_feature::REPLY_ACK != 0;
            let confirms = confirms && message.wants_reply;
            let (reply, ended) = match self.answer(message) {
                Ok(Some(reply)) => (Some(reply), Ok(())),
                Ok(None) => (confirms.then(|| 0u64.to_le_bytes().to_vec()), Ok(())),
                Err(error) => (confirms.then(|| 1u64.to_le_bytes().to_vec()), Err(error)),
            };
            if let Some(reply) = reply {
                channel::send(self.stream, &message::reply(asked, &reply))?;
            }
            ended?;
        }
    }

    /// Wait for a message, for as long as nothing else has to be looked at.
    fn is_readable(&self) -> Result<bool, SessionError> {
        let mut polled = [PollFd::new(self.stream, PollFlags::IN)];
        match poll(&mut polled, Some(&LOOK)) {
            Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(ready) => Ok(ready > 0),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    /// Tell the monitor if the device has another size by now.
    fn tell_size(&mut self) {
        let now = sectors(&*self.disk.device);
        if now == self.sectors {
            return;
        }
        self.sectors = now;
        let offered = protocol_feature::BACKEND_REQUESTS | protocol_feature::CONFIG;
        if self.protocol_features & offered != offered {
            return;
        }
        if let Some(backwards) = &self.backwards
            && let Err(error) = channel::send(backwards, &message::config_changed())
        {
            tracing::warn!(peer = self.disk.peer, "a new size was not told: {error}");
        }
    }

    /// Do what a message asks; what is answered to it, if anything is.
    fn answer(&mut self, mut message: Message) -> Result<Option<Vec<u8>>, SessionError> {
        let asked = message.ask;
        let mut fields = Fields(&message.payload);
        let short = || SessionError::Short(asked);
        let number = |value: u64| Ok(Some(value.to_le_bytes().to_vec()));
        match asked {
            ask::GET_FEATURES => number(config::features(self.disk.read_only)),
            ask::SET_FEATURES => self.set_features(fields.u64().ok_or_else(short)?),
            ask::GET_PROTOCOL_FEATURES => number(protocol_feature::ALL),
            ask::SET_PROTOCOL_FEATURES => {
                let wanted = fields.u64().ok_or_else(short)?;
                let unknown = wanted & !protocol_feature::ALL;
                if unknown != 0 {
                    return Err(SessionError::Features(unknown));
                }
                self.protocol_features = wanted;
                Ok(None)
            }
            // The one field of the configuration that a driver could set, whether writes are kept
            // back, was not offered.
            ask::SET_OWNER | ask::RESET_OWNER | ask::SET_VRING_ERR | ask::SET_CONFIG => Ok(None),
            ask::GET_QUEUE_NUM => number(QUEUES_MAX as u64),
            ask::SET_MEM_TABLE => {
                let regions = message::regions(&message.payload).ok_or_else(short)?;
                self.rings.iter_mut().for_each(|ring| _ = ring.stop());
                self.memory = Memory::map(regions, std::mem::take(&mut message.files))?;
                self.start_all()
            }
            ask::SET_BACKEND_REQ_FD => {
                let file = message.files.pop().ok_or_else(short)?;
                let stream = UnixStream::from(file);
                // Who does not listen is not waited for.
                stream.set_nonblocking(true)?;
                self.backwards = Some(stream);
                Ok(None)
            }
            ask::GET_CONFIG => {
                let (offset, bytes) = (fields.u32().ok_or_else(short)?, fields.u32());
                self.config(&message.payload, offset, bytes.ok_or_else(short)?)
            }
            ask::SET_VRING_KICK | ask::SET_VRING_CALL => {
                let which = fields.u64().ok_or_else(short)?;
                self.set_file(asked, which, message.files.pop())
            }
            _ => self.of_queue(asked, &mut fields),
        }
    }

    fn set_features(&mut self, wanted: u64) -> Result<Option<Vec<u8>>, SessionError> {
        let unknown = wanted & !config::features(self.disk.read_only);
        if unknown != 0 {
            return Err(SessionError::Features(unknown));
        }
        if wanted != self.features {
            self.rings.iter_mut().for_each(|ring| _ = ring.stop());
        }
        self.features = wanted;
        let writes_through = wanted & feature::FLUSH == 0;
        self.disk.writes_through.store(writes_through, Ordering::Relaxed);
        // Who knows nothing of enabling has all queues enabled.
        if wanted & feature::PROTOCOL == 0 {
            self.rings.iter_mut().for_each(|ring| ring.set_enabled(true));
        }
        self.start_all()
    }

    /// Messages about one queue, but those with files.
    fn of_queue(
        &mut self,
        asked: u32,
        fields: &mut Fields<'_>,
    ) -> Result<Option<Vec<u8>>, SessionError> {
        let short = || SessionError::Short(asked);
        let of_queues = [
            ask::SET_VRING_NUM,
            ask::SET_VRING_ADDR,
            ask::SET_VRING_BASE,
            ask::GET_VRING_BASE,
            ask::SET_VRING_ENABLE,
        ];
        if !of_queues.contains(&asked) {
            return Err(SessionError::Unknown(asked));
        }
        let number = fields.u32().ok_or_else(short)?;
        let value = fields.u32().ok_or_else(short)?;
        let ring = self.ring(number.into())?;
        match asked {
            ask::SET_VRING_NUM => ring.set_entries(value)?,
            ask::SET_VRING_BASE => ring.set_next(value as u16),
            ask::SET_VRING_ENABLE => ring.set_enabled(value != 0),
            ask::GET_VRING_BASE => {
                let next = u32::from(ring.halt());
                return Ok(Some([number, next].map(u32::to_le_bytes).concat()));
            }
            _ => {
                let mut next = || fields.u64().ok_or_else(short);
                let (descriptors, used, available) = (next()?, next()?, next()?);
                ring.set_places(Places { descriptors, used, available });
            }
        }
        self.start_all()
    }

    fn set_file(
        &mut self,
        asked: u32,
        which: u64,
        file: Option<OwnedFd>,
    ) -> Result<Option<Vec<u8>>, SessionError> {
        let file = if which & NO_FILE == 0 { file } else { None };
        let ring = self.ring(which & 0xff)?;
        if asked == ask::SET_VRING_CALL {
            ring.set_call(file)?;
            return Ok(None);
        }
        ring.set_kick(file)?;
        self.start_all()
    }

    fn ring(&mut self, number: u64) -> Result<&mut Ring, SessionError> {
        let ring = usize::try_from(number).ok().and_then(|number| self.rings.get_mut(number));
        ring.ok_or(SessionError::NoQueue(number))
    }

    /// Serve every queue of which all is known and that nobody serves.
    fn start_all(&mut self) -> Result<Option<Vec<u8>>, SessionError> {
        let event_index = self.features & feature::EVENT_INDEX != 0;
        for ring in &mut self.rings {
            ring.start(&self.memory, &self.disk, event_index)?;
        }
        Ok(None)
    }

    /// A part of the configuration space, in a message as it was asked.
    fn config(
        &mut self,
        asked: &[u8],
        offset: u32,
        bytes: u32,
    ) -> Result<Option<Vec<u8>>, SessionError> {
        self.sectors = sectors(&*self.disk.device);
        let space = config_space(self.sectors, self.disk.device.preferred_block_bytes());
        let (offset, bytes) = (offset as usize, bytes as usize);
        if bytes > message::PAYLOAD_MAX - CONFIG_HEADER_BYTES || asked.len() < CONFIG_HEADER_BYTES {
            return Err(SessionError::Short(ask::GET_CONFIG));
        }
        let mut reply = asked[..CONFIG_HEADER_BYTES].to_vec();
        let known = space.iter().skip(offset).take(bytes);
        reply.extend(known);
        // Fields of later specifications, which were not offered.
        reply.resize(CONFIG_HEADER_BYTES + bytes, 0);
        Ok(Some(reply))
    }
}

/// Bytes before the part of a configuration space in a message: offset, size, flags.
const CONFIG_HEADER_BYTES: usize = 12;
const _: () = assert!(CONFIG_BYTES + CONFIG_HEADER_BYTES <= message::PAYLOAD_MAX);
