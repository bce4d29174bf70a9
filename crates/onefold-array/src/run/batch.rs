//! The ways of a batch: which step follows which, for every placement of the work.
//! Room: onefold-array.
//! Invariants: pure; every way ends.

use crate::spec::{CompressionPlace, DataPath, HashPlace, PlaceSpec};

/// What a batch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Written chunks: fingerprint, look-up, and compression where it was guessed or is due.
    Write,
    /// Unique chunks from the delayed chunk buffer.
    Compress,
    /// Chunks that clients read.
    Read,
    /// Chunks that are read because a write covers a part of them.
    Complete,
    /// Chunks that clients read where nothing is stored.
    Zeroes,
}

/// What is being done with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is being put together.
    New,
    /// A core computes fingerprints.
    HashOnCore,
    /// A core predicts, makes descriptors and rings the engine.
    Schedule,
    /// Data goes to the engine.
    ToEngine,
    /// The engine's units work.
    InEngine,
    /// Results come back.
    FromEngine,
    /// Fingerprints are looked up; for reads, addresses.
    LookUp,
    /// Buckets come from the table's drives.
    Table,
    /// A core compresses.
    CompressOnCore,
    /// A core decompresses.
    DecompressOnCore,
    /// Data drives are read.
    ReadDrives,
    /// Data drives are written.
    Store,
    /// Data goes to the client.
    ToClient,
    /// Done.
    Done,
}

impl Kind {
    /// The name in pictures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Compress => "delayed",
            Self::Read => "read",
            Self::Complete => "complete",
            Self::Zeroes => "zeroes",
        }
    }
}

impl Step {
    /// The name in pictures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::HashOnCore => "hash on a core",
            Self::Schedule => "schedule",
            Self::ToEngine => "to engine",
            Self::InEngine => "in engine",
            Self::FromEngine => "from engine",
            Self::LookUp => "look up",
            Self::Table => "table drives",
            Self::CompressOnCore => "compress on a core",
            Self::DecompressOnCore => "decompress on a core",
            Self::ReadDrives => "read drives",
            Self::Store => "store",
            Self::ToClient => "to client",
            Self::Done => "done",
        }
    }
}

/// The step after this one. After [`Step::Table`] of a write, what is unique and was not
/// compressed leaves the batch for the delayed chunk buffer where engines compress.
pub fn next(kind: Kind, step: Step, place: &PlaceSpec) -> Step {
    let engine = place.compression == CompressionPlace::Engine;
    let cpu = place.compression == CompressionPlace::Cpu;
    let direct = place.data == DataPath::Direct;
    match (kind, step) {
        (Kind::Write, Step::New) => match place.hash {
            HashPlace::None | HashPlace::Nic => Step::LookUp,
            HashPlace::Cpu => Step::HashOnCore,
            HashPlace::Engine => Step::Schedule,
        },
        (Kind::Compress, Step::New) => Step::Schedule,
        (Kind::Read | Kind::Complete | Kind::Zeroes, Step::New)
        | (Kind::Write, Step::HashOnCore | Step::FromEngine) => Step::LookUp,
        (_, Step::Schedule) => Step::ToEngine,
        (_, Step::ToEngine) => Step::InEngine,
        // Compressed data goes from the engine to the drives, decompressed data to the card.
        (Kind::Compress, Step::InEngine) if direct => Step::Store,
        (Kind::Read, Step::InEngine) if direct => Step::ToClient,
        (_, Step::InEngine) => Step::FromEngine,
        (Kind::Write, Step::LookUp) => Step::Table,
        (Kind::Write, Step::Table) if cpu => Step::CompressOnCore,
        (Kind::Write, Step::Table | Step::CompressOnCore) | (Kind::Compress, Step::FromEngine) => {
            Step::Store
        }
        (Kind::Read | Kind::Complete, Step::LookUp) => Step::ReadDrives,
        (Kind::Read | Kind::Complete, Step::ReadDrives) if engine => Step::Schedule,
        (Kind::Read | Kind::Complete, Step::ReadDrives) if cpu => Step::DecompressOnCore,
        (Kind::Read, Step::ReadDrives | Step::FromEngine | Step::DecompressOnCore)
        | (Kind::Zeroes, Step::LookUp) => Step::ToClient,
        _ => Step::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::IndexPlace;

    #[test]
    fn every_way_ends_and_passes_what_its_placement_says() {
        let places =
            |hash, compression, data| PlaceSpec { hash, compression, index: IndexPlace::Cpu, data };
        let way = |kind, place: &PlaceSpec| {
            let mut steps = vec![Step::New];
            while *steps.last().unwrap() != Step::Done {
                assert!(steps.len() < 12, "{kind:?} {place:?}: {steps:?}");
                steps.push(next(kind, *steps.last().unwrap(), place));
            }
            steps
        };
        let software = places(HashPlace::Cpu, CompressionPlace::Cpu, DataPath::Host);
        let cidr = places(HashPlace::Engine, CompressionPlace::Engine, DataPath::Host);
        let fidr = places(HashPlace::Nic, CompressionPlace::Engine, DataPath::Direct);
        let plain = places(HashPlace::Cpu, CompressionPlace::None, DataPath::Host);
        for place in [&software, &cidr, &fidr, &plain] {
            let engine = place.compression == CompressionPlace::Engine;
            let cpu = place.compression == CompressionPlace::Cpu;
            for kind in [Kind::Write, Kind::Read, Kind::Complete] {
                let steps = way(kind, place);
                assert!(steps.contains(&Step::LookUp));
                let stored = steps.contains(&Step::Store);
                assert_eq!(stored, kind == Kind::Write, "{kind:?} {place:?}");
                assert_eq!(steps.contains(&Step::ToClient), kind == Kind::Read);
                let compresses = steps.contains(&Step::CompressOnCore);
                assert_eq!(compresses, cpu && kind == Kind::Write, "{kind:?} {place:?}");
                let decompresses = steps.contains(&Step::DecompressOnCore);
                assert_eq!(decompresses, cpu && kind != Kind::Write, "{kind:?} {place:?}");
            }
            assert_eq!(way(Kind::Read, place).contains(&Step::InEngine), engine);
            let zeroes = [Step::New, Step::LookUp, Step::ToClient, Step::Done];
            assert_eq!(way(Kind::Zeroes, place), zeroes);
        }
        assert!(!way(Kind::Compress, &fidr).contains(&Step::FromEngine));
        assert!(way(Kind::Compress, &cidr).contains(&Step::FromEngine));
    }
}
