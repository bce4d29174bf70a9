//! What parts of a server cost that do not depend on how much it is to hold.
//! Room: onefold-array.
//! Prices are those of the description, all of them assumed.

use crate::spec::{CompressionPlace, HashPlace, IndexPlace, ServerSpec};

/// Dollars of parts that are counted one by one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// Cores.
    pub cpu_usd: f64,
    /// Engines, cards that hash, and the board of the engine that indexes.
    pub boards_usd: f64,
}

impl Hardware {
    /// That of a server. Engines without work are not part of it.
    pub fn of(spec: &ServerSpec) -> Self {
        let price = &spec.price;
        let used = spec.place.hash == HashPlace::Engine
            || spec.place.compression == CompressionPlace::Engine;
        let engines = if used { spec.engine.count } else { 0 };
        let cards = if spec.place.hash == HashPlace::Nic { spec.nic.count } else { 0 };
        let index = u32::from(spec.place.index == IndexPlace::Engine);
        Self {
            cpu_usd: f64::from(spec.cores()) * price.core_usd,
            boards_usd: f64::from(engines + cards + index) * price.engine_usd,
        }
    }
}

/// Bytes of memory that hold requests and delayed chunks.
pub const fn buffer_bytes(spec: &ServerSpec) -> u64 {
    spec.buffer.client_bytes + spec.buffer.delayed_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SpecBuilder;

    #[test]
    fn boards_are_engines_with_work_cards_that_hash_and_the_index() {
        let boards = |preset: &str, set: &[&str]| {
            let prices = ["price.engine_usd=10", "price.core_usd=1"];
            let builder = SpecBuilder::preset(preset).unwrap();
            let all = prices.iter().chain(set);
            let spec = all.fold(builder, |builder, set| builder.set(set).unwrap()).build();
            let hardware = Hardware::of(&spec.unwrap());
            (hardware.cpu_usd, hardware.boards_usd / 10.0)
        };
        assert_eq!(boards("software", &["engine.count=3"]), (24.0, 0.0));
        assert_eq!(boards("cidr", &["engine.count=3"]), (24.0, 3.0));
        assert_eq!(boards("cal17", &["cpu.sockets=1"]), (12.0, 2.0));
        assert_eq!(boards("fidr", &["engine.count=2", "nic.count=3"]), (12.0, 6.0));
    }
}
