//! What takes time: cores, memory, links, units and drives, each with what it did it for.
//! Room: onefold-array.
//! Invariants: every byte that crosses the host's memory is booked under one cause, every
//! nanosecond of a core under one task.

use onefold_sim::{Load, Pipe, SimSpan, SimTime, Stations};

use super::dma::Dma;
use crate::decide::mix::Mix;
use crate::spec::ServerSpec;

/// Causes and tasks: an enum whose items are counted and named.
macro_rules! counted {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$item_doc:meta])* $item:ident = $text:literal),+ $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$item_doc])* $item),+ }

        impl $name {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$item),+];

            /// The name in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$item => $text),+ }
            }
        }
    };
}

counted! {
    /// Why bytes cross the host's memory.
    Cause {
        /// Data between network cards and buffers.
        Nic = "nic",
        /// Data, digests and results between buffers and engines.
        Engine = "engine",
        /// Data between buffers and drives.
        Ssd = "ssd",
        /// Cores that read chunks to hash them.
        Hash = "hash",
        /// Cores that compress: what they read and what they write.
        Compress = "compress",
        /// Cores that decompress: what they read and what they write.
        Decompress = "decompress",
        /// Buckets of the table that look-ups touch.
        Index = "index",
        /// Buckets of the table between memory and its drives.
        Table = "table",
    }
}

counted! {
    /// What a core works on.
    Task {
        /// Network stack and driver.
        Nic = "nic",
        /// Fingerprints.
        Hash = "hash",
        /// Compression.
        Compress = "compress",
        /// Decompression.
        Decompress = "decompress",
        /// The unique-chunk predictor.
        Predict = "predict",
        /// Look-ups in the cache of the table.
        Index = "index",
        /// Feeding engines.
        Schedule = "schedule",
        /// Maps, containers, buffers.
        Metadata = "metadata",
        /// Submission to drives.
        Submit = "submit",
    }
}

/// One engine.
pub struct Engine {
    /// From the host, or a network card, to the engine.
    pub link_in: Dma,
    /// And back.
    pub link_out: Dma,
    /// The units, of each kind as many as the mix has; `None` where it has none.
    pub hash: Option<Stations>,
    /// See [`Self::hash`].
    pub compress: Option<Stations>,
    /// See [`Self::hash`].
    pub decompress: Option<Stations>,
    /// What it is configured to.
    pub mix: Mix,
    /// Batches that it works on.
    pub in_flight: u32,
    /// Whether it takes batches.
    pub state: EngineState,
}

/// Whether an engine takes batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineState {
    /// It does.
    There,
    /// It finishes what it has, to be reconfigured.
    Draining,
    /// It is being reconfigured.
    Away,
}

impl Engine {
    fn new(spec: &ServerSpec) -> Self {
        let (link_in, link_out) = (Dma::new(&spec.link), Dma::new(&spec.link));
        let mut engine = Self {
            link_in,
            link_out,
            hash: None,
            compress: None,
            decompress: None,
            mix: Mix::of(&spec.engine),
            in_flight: 0,
            state: EngineState::There,
        };
        engine.configure(engine.mix, SimTime::ZERO);
        engine
    }

    /// Whether it takes batches.
    pub fn is_there(&self) -> bool {
        self.state == EngineState::There
    }

    /// Other units from now on.
    pub fn configure(&mut self, mix: Mix, now: SimTime) {
        let units = |count: u32| {
            (count > 0).then(|| {
                let mut units = Stations::new(count);
                units.restart_account(now);
                units
            })
        };
        self.mix = mix;
        self.hash = units(mix.hash);
        self.compress = units(mix.compress);
        self.decompress = units(mix.decompress);
    }
}

/// One kind of an engine's servers.
type LoadOf = fn(&Engine, SimTime) -> Option<Load>;

/// Everything that jobs wait for.
pub struct Resources {
    /// The host's cores.
    pub cores: Stations,
    /// Time of cores by [`Task`], in ns.
    pub task_ns: [u128; Task::ALL.len()],
    /// The host's memory, all sockets.
    pub memory: Pipe,
    /// From clients.
    pub nic_in: Pipe,
    /// To clients.
    pub nic_out: Pipe,
    /// Hash units of smart cards.
    pub nic_hash: Option<Stations>,
    /// Engines.
    pub engines: Vec<Engine>,
    /// The engine that indexes the table's cache.
    pub index: Stations,
    /// Drives of the table, all as one set.
    pub table_drives: Stations,
    /// Drives of data.
    pub drives: Vec<Stations>,
    /// Bytes read from and written to drives.
    pub drive_bytes: u64,
}

impl Resources {
    /// All idle.
    pub fn new(spec: &ServerSpec) -> Self {
        let rate = |gb_per_s: f64, count: u32| (gb_per_s * 1e9 * f64::from(count)) as u64;
        let nic = || {
            let latency = SimSpan::from_ns(spec.nic.latency_ns);
            Pipe::new(rate(spec.nic.gb_per_s, spec.nic.count), latency, 1)
        };
        let memory = rate(spec.memory.gb_per_s_per_socket, spec.cpu.sockets);
        Self {
            cores: Stations::new(spec.cores()),
            task_ns: [0; Task::ALL.len()],
            memory: Pipe::new(memory, SimSpan::ZERO, Cause::ALL.len()),
            nic_in: nic(),
            nic_out: nic(),
            nic_hash: (spec.nic.hash_units > 0)
                .then(|| Stations::new(spec.nic.hash_units * spec.nic.count)),
            engines: (0..spec.engine.count).map(|_| Engine::new(spec)).collect(),
            index: Stations::new(1),
            table_drives: Stations::new(spec.table_ssd.count),
            drives: (0..spec.ssd.count).map(|_| Stations::new(1)).collect(),
            drive_bytes: 0,
        }
    }

    /// Moves bytes through memory; when they have passed.
    pub fn through_memory(&mut self, now: SimTime, bytes: u64, cause: Cause) -> SimTime {
        self.memory.send(now, bytes, cause as usize).end
    }

    /// One core does these tasks, in ns each, one after the other; when it is done.
    pub fn on_a_core(&mut self, now: SimTime, tasks: &[(Task, f64)]) -> SimTime {
        let mut total = 0;
        for &(task, ns) in tasks {
            let ns = ns.round() as u64;
            self.task_ns[task as usize] += u128::from(ns);
            total += ns;
        }
        if total == 0 { now } else { self.cores.serve(now, SimSpan::from_ns(total)).end }
    }

    /// Forgets what was so far.
    pub fn restart_accounts(&mut self, now: SimTime) {
        self.cores.restart_account(now);
        self.task_ns = [0; Task::ALL.len()];
        self.memory.restart_account(now);
        self.nic_in.restart_account(now);
        self.nic_out.restart_account(now);
        self.index.restart_account(now);
        self.table_drives.restart_account(now);
        let units = self.engines.iter_mut().flat_map(|engine| {
            engine.link_in.restart_account(now);
            engine.link_out.restart_account(now);
            [&mut engine.hash, &mut engine.compress, &mut engine.decompress]
        });
        units.flatten().chain(&mut self.nic_hash).chain(&mut self.drives).for_each(|stations| {
            stations.restart_account(now);
        });
        self.drive_bytes = 0;
    }

    /// Every resource by name, with how it spent the time up to now. Equal ones are one row, with
    /// the mean of their loads.
    pub fn loads(&self, now: SimTime) -> Vec<(&'static str, Load)> {
        let mut rows = vec![
            ("cores", self.cores.load(now)),
            ("memory", self.memory.load(now)),
            ("nic in", self.nic_in.load(now)),
            ("nic out", self.nic_out.load(now)),
        ];
        if let Some(units) = &self.nic_hash {
            rows.push(("nic hash units", units.load(now)));
        }
        let of_engines: [(&'static str, LoadOf); 5] = [
            ("engine link in", |engine, now| Some(engine.link_in.load(now))),
            ("engine link out", |engine, now| Some(engine.link_out.load(now))),
            ("hash units", |engine, now| engine.hash.as_ref().map(|units| units.load(now))),
            ("compression units", |engine, now| {
                engine.compress.as_ref().map(|units| units.load(now))
            }),
            ("decompression units", |engine, now| {
                engine.decompress.as_ref().map(|units| units.load(now))
            }),
        ];
        for (name, of) in of_engines {
            let loads: Vec<Load> = self.engines.iter().filter_map(|e| of(e, now)).collect();
            rows.extend(mean(&loads).map(|load| (name, load)));
        }
        rows.push(("index engine", self.index.load(now)));
        rows.push(("table drives", self.table_drives.load(now)));
        let drives: Vec<Load> = self.drives.iter().map(|drive| drive.load(now)).collect();
        rows.extend(mean(&drives).map(|load| ("data drives", load)));
        rows.retain(|(_, load)| load.jobs > 0);
        rows
    }
}

fn mean(loads: &[Load]) -> Option<Load> {
    let count = loads.len() as f64;
    let of = |value: fn(&Load) -> f64| loads.iter().map(value).sum::<f64>() / count;
    (!loads.is_empty()).then(|| Load {
        utilisation: of(|load| load.utilisation),
        busy_ns: loads.iter().map(|load| load.busy_ns).sum(),
        waiting_mean: of(|load| load.waiting_mean) * count,
        wait_ns_mean: of(|load| load.wait_ns_mean),
        jobs: loads.iter().map(|load| load.jobs).sum(),
    })
}
