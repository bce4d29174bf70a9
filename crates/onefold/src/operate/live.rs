//! What only a running server has: its clients, its work in the background, its end.
//! Room: onefold.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use onefold_nbd::ListenAddr;
use onefold_pool::Pool;

use crate::args::BackgroundArgs;
use crate::commands::pool_addresses::AddressJson;
use crate::serve::background::{self, Knobs};
use crate::serve::events::Event;
use crate::serve::index_filler::Bell;
use crate::serve::listeners::Servers;
use crate::serve::pool_exports::PoolExports;

/// What only a running server has.
pub struct Live {
    /// What clients are given.
    pub exports: Arc<PoolExports>,
    /// Work in the background, if the pool may be changed.
    pub knobs: Option<Arc<Knobs>>,
    /// What asks for the index to be filled, if the pool may be changed.
    pub index: Option<Arc<Bell>>,
    /// Counts its clients.
    pub connections: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Where it listens.
    pub addresses: Vec<AddressJson>,
    /// When it began.
    pub started: SystemTime,
    events: Mutex<Sender<Event>>,
}

impl Live {
    /// Of a server that hears of `events`.
    pub fn new(
        exports: Arc<PoolExports>,
        (knobs, index): (Option<Arc<Knobs>>, Option<Arc<Bell>>),
        servers: &Servers,
        events: Sender<Event>,
    ) -> Self {
        let address = |(at, tls): (&ListenAddr, bool)| AddressJson { address: at.to_string(), tls };
        let addresses = servers.addresses().map(address).collect();
        let (connections, started) = (Box::new(servers.counter()), SystemTime::now());
        Self { exports, knobs, index, connections, addresses, started, events: Mutex::new(events) }
    }

    /// Begin to stop; whether anybody hears of it.
    pub fn stop(&self) -> bool {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.send(Event::Stop).is_ok()
    }

    /// How it works in the background.
    pub fn background(&self) -> Option<BackgroundArgs> {
        self.knobs.as_deref().map(Knobs::get)
    }

    /// Work in the background like this from now on.
    pub fn set_background(&self, pool: &Pool, args: BackgroundArgs) {
        if let Some(knobs) = &self.knobs {
            background::set(pool, knobs, args);
        }
    }
}
