//! What a server is made of and what is asked of it, as a TOML file says.
//! Room: onefold-array.   In: TOML, presets, `KEY=VALUE`s.   Out: a checked [`ServerSpec`].
//! Invariants: a key that is not in [`keys::KEYS`] is refused with the nearest one; a value is
//! refused with what is accepted; a printed description reads back as itself; every value keeps
//! where it came from.

mod fields;
mod key;
pub mod keys;
mod loads;
mod parse;
mod presets;
mod print;
mod table;

pub use fields::*;
pub use keys::Origin;
pub use loads::{LOAD_KEY, LOADS, LoadPreset};
pub use parse::{Given, ParseError, SpecBuilder};
pub use presets::{PRESETS, Preset};

/// Raw rate of one `PCIe` lane in bytes a second, by generation from 3: 128b/130b coding of 8, 16
/// and 32 GT/s; 242B/256B of 64 GT/s.
const LANE_BYTES_PER_S: [f64; 4] = [0.984_615e9, 1.969_231e9, 3.938_462e9, 7.562_5e9];

impl LinkSpec {
    /// Rate for data in bytes a second, each way.
    pub fn bytes_per_s(&self) -> f64 {
        LANE_BYTES_PER_S[self.generation as usize - 3] * f64::from(self.lanes) * self.efficiency
    }
}

impl EngineSpec {
    /// Rate of one hash unit in bytes a second.
    pub fn hash_bytes_per_s(&self) -> f64 {
        self.clock_mhz * 1e6 * self.hash_bytes_per_cycle
    }

    /// Rate of one compression unit in bytes a second, uncompressed.
    pub fn compress_bytes_per_s(&self) -> f64 {
        self.clock_mhz * 1e6 * self.compress_bytes_per_cycle
    }

    /// Rate of one decompression unit in bytes a second, uncompressed.
    pub fn decompress_bytes_per_s(&self) -> f64 {
        self.clock_mhz * 1e6 * self.decompress_bytes_per_cycle
    }

    /// Look-up tables that units may take.
    pub fn unit_luts(&self) -> f64 {
        self.luts as f64 * self.usable_share
    }

    /// Look-up tables that this mix takes.
    pub fn luts_of(&self, hash: u32, compress: u32, decompress: u32) -> f64 {
        f64::from(hash) * self.hash_unit_luts as f64
            + f64::from(compress) * self.compress_unit_luts as f64
            + f64::from(decompress) * self.decompress_unit_luts as f64
    }
}

impl ServerSpec {
    /// Cores in all.
    pub fn cores(&self) -> u32 {
        self.cpu.sockets * self.cpu.cores_per_socket
    }

    /// What fits alone and not together.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !self.chunk_bytes.is_power_of_two() {
            return Err(format!("chunk_bytes = {}: expected a power of two", self.chunk_bytes));
        }
        let needs_engine = self.place.hash == HashPlace::Engine
            || self.place.compression == CompressionPlace::Engine;
        if needs_engine && self.engine.count == 0 {
            return Err("place.hash or place.compression is engine, and engine.count is 0".into());
        }
        let units = |wanted: bool, units: u32, name: &str| {
            if wanted && units == 0 {
                return Err(format!("engine.{name} is 0, and place gives that work to engines"));
            }
            Ok(())
        };
        let engine = &self.engine;
        let compresses = self.place.compression == CompressionPlace::Engine;
        units(self.place.hash == HashPlace::Engine, engine.hash_units, "hash_units")?;
        units(compresses, engine.compress_units, "compress_units")?;
        let workload = &self.workload;
        let partial = workload.request_bytes < self.chunk_bytes;
        let reads = workload.read_share > 0.0 || partial || !workload.trace.is_empty();
        units(compresses && reads, engine.decompress_units, "decompress_units")?;
        let sizes = self.workload.compressed_spread != 0.0;
        if self.place.hash == HashPlace::None
            && (self.place.compression != CompressionPlace::None || sizes)
        {
            return Err("place.hash is none: chunks lie where their addresses are, so that \
                        place.compression must be none and workload.compressed_spread 0"
                .into());
        }
        if self.place.hash == HashPlace::Nic && self.nic.hash_units == 0 {
            return Err("place.hash is nic, and nic.hash_units is 0".into());
        }
        if self.place.data == DataPath::Direct && (self.place.hash != HashPlace::Nic || !compresses)
        {
            return Err("place.data is direct: data that stays out of the host's memory must be \
                        hashed in the nic and compressed in an engine"
                .into());
        }
        let taken =
            engine.luts_of(engine.hash_units, engine.compress_units, engine.decompress_units);
        if needs_engine && taken > engine.unit_luts() {
            return Err(format!(
                "the units of an engine take {taken:.0} look-up tables, and engine.luts x \
                 engine.usable_share is {:.0}",
                engine.unit_luts()
            ));
        }
        self.check_load()?;
        self.table.check()
    }

    /// The same of the load, with its buffers.
    fn check_load(&self) -> Result<(), String> {
        if self.place.compression == CompressionPlace::None && self.workload.compressed_share < 1.0
        {
            return Err("place.compression is none, and workload.compressed_share is not 1".into());
        }
        let batch_bytes = u64::from(self.batch.chunks) * self.chunk_bytes;
        let request_chunks = self.workload.request_bytes.div_ceil(self.chunk_bytes) + 1;
        if self.buffer.client_bytes < batch_bytes.max(request_chunks * self.chunk_bytes) {
            return Err("buffer.client_bytes holds neither a batch nor a request".into());
        }
        if self.buffer.delayed_bytes < self.chunk_bytes {
            return Err("buffer.delayed_bytes holds no chunk".into());
        }
        if self.workload.addresses < request_chunks {
            return Err("workload.addresses holds no request".into());
        }
        let (request, chunk) = (self.workload.request_bytes, self.chunk_bytes);
        if request % chunk != 0 && chunk % request != 0 {
            return Err(format!(
                "workload.request_bytes = {request}: expected a multiple of chunk_bytes = {chunk}, \
                 or a part that divides it"
            ));
        }
        if self.workload.load == LoadKind::Timestamps && self.workload.trace.is_empty() {
            return Err("workload.load is timestamps, and there is no workload.trace".into());
        }
        let runs = self.workload.requests.saturating_add(self.workload.warm_requests);
        let written = runs.saturating_mul(2).saturating_mul(request.div_ceil(chunk));
        if self.workload.addresses.saturating_add(written) >= 1 << 32 {
            return Err(
                "workload: addresses and twice the chunks of all requests together are 2^32 \
                        or more, beyond what contents are numbered for"
                    .into(),
            );
        }
        Ok(())
    }
}
