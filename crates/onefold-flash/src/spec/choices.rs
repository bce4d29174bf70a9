//! The words of a specification as types.
//! Room: onefold-flash.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A choice between words; each variant is one of them.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// The word of the specification.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

choice! {
    /// State of the drive before the first request.
    Precondition {
        /// Empty.
        None = "none",
        /// As after endless writes.
        Steady = "steady",
        /// The workload's part of the drive written once, in order, and idle for long after that.
        Prefill = "prefill",
    }
}

choice! {
    /// What does one flash operation at a time.
    ParallelUnit {
        /// Every plane.
        Plane = "plane",
        /// Every die.
        Die = "die",
        /// Every package.
        Package = "package",
    }
}

choice! {
    /// What a host read interrupts.
    Suspend {
        /// Nothing.
        None = "none",
        /// Erases.
        Erase = "erase",
        /// Erases and programs.
        EraseAndProgram = "erase-and-program",
    }
}

choice! {
    /// Error-correcting code of the emulated drive.
    MediaCode {
        /// None: raw bits.
        None = "none",
        /// Quasi-cyclic LDPC, rate 32/33.
        QcLdpc = "qc-ldpc",
        /// BCH with as many parity bits.
        Bch = "bch",
    }
}

choice! {
    /// How cells wear, named after what they hold.
    MediaWear {
        /// Not at all.
        None = "none",
        /// One bit a cell.
        Slc = "slc",
        /// Two bits a cell.
        Mlc = "mlc",
        /// Three bits a cell.
        Tlc = "tlc",
    }
}

choice! {
    /// Victim selection.
    VictimName {
        /// Fewest live pages.
        Greedy = "greedy",
        /// Oldest block.
        Fifo = "fifo",
        /// Fewest live pages of a few drawn.
        DChoices = "d-choices",
        /// Rosenblum and Ousterhout's merit.
        CostBenefit = "cost-benefit",
    }
}

choice! {
    /// How much garbage collection is done at a time.
    PacingName {
        /// A few pages with each host page.
        Incremental = "incremental",
        /// A whole block.
        WholeBlock = "whole-block",
    }
}

choice! {
    /// Where the next host page goes.
    Allocation {
        /// Next unit in turn.
        RoundRobin = "round-robin",
        /// A unit that is idle, else the one with the least to do.
        IdleFirst = "idle-first",
    }
}

choice! {
    /// Where the drive compresses.
    CompressionPlace {
        /// Nowhere.
        None = "none",
        /// Plain pages, on their way to the scrambler.
        BeforeScrambler = "before-scrambler",
        /// What the scrambler puts out.
        AfterScrambler = "after-scrambler",
    }
}

choice! {
    /// When a write is done.
    WriteBuffer {
        /// When it is programmed.
        Through = "through",
        /// When it is buffered.
        Back = "back",
    }
}

choice! {
    /// Which background work goes first.
    IdleOrder {
        /// What the policy says.
        ByPolicy = "by-policy",
        /// Collection for what the load is seen to need, then deduplication, then the rest.
        ByNeed = "by-need",
        /// Deduplication, as Park & Shin have it.
        DedupFirst = "dedup-first",
        /// Garbage collection.
        GcFirst = "gc-first",
    }
}

choice! {
    /// Which pages requests go to.
    PatternKind {
        /// All alike.
        Uniform = "uniform",
        /// By Zipf's law.
        Zipf = "zipf",
        /// A hot and a cold part.
        HotCold = "hot-cold",
        /// One after the other.
        Sequential = "sequential",
    }
}

choice! {
    /// When requests come.
    ArrivalKind {
        /// After the end of another.
        Closed = "closed",
        /// Independent of each other.
        Poisson = "poisson",
        /// With equal gaps.
        Constant = "constant",
    }
}

choice! {
    /// When the requests of a trace come.
    TraceTiming {
        /// At the times of the trace.
        Timestamps = "timestamps",
        /// After the end of an earlier one, as `queue_depth` and `think_time` say.
        Closed = "closed",
    }
}

choice! {
    /// The pause of a closed loop.
    ThinkKind {
        /// None.
        None = "none",
        /// Always the same.
        Constant = "constant",
        /// Exponentially distributed.
        Exponential = "exponential",
    }
}

choice! {
    /// What is written.
    ContentKind {
        /// Never the same twice.
        Unique = "unique",
        /// Drawn from a number of values.
        Uniform = "uniform",
        /// By three numbers.
        Profile = "profile",
        /// A data set of SES-Dedup.
        Laptop1 = "laptop1",
        /// A data set of SES-Dedup.
        Laptop2 = "laptop2",
        /// A data set of SES-Dedup.
        Desktop1 = "desktop1",
        /// A data set of SES-Dedup.
        Desktop2 = "desktop2",
        /// A data set of SES-Dedup.
        Desktop3 = "desktop3",
        /// A data set of SES-Dedup.
        Desktop4 = "desktop4",
    }
}

/// A number of blocks of a plane, or a share of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BlockCount {
    /// So many.
    Blocks(u32),
    /// So many of a hundred.
    Percent(f64),
}

impl BlockCount {
    /// The number of blocks, of a plane with so many; percentages are rounded up.
    pub fn of(self, blocks_per_plane: u32) -> u32 {
        match self {
            Self::Blocks(blocks) => blocks,
            Self::Percent(percent) => {
                (f64::from(blocks_per_plane) * percent / 100.0 - 1e-9).ceil().max(0.0) as u32
            }
        }
    }

    /// A percentage such as `5%`, 0 to 50.
    pub(super) fn percent(text: &str) -> Option<Self> {
        let number: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
        (0.0..=50.0).contains(&number).then_some(Self::Percent(number))
    }
}

impl Serialize for BlockCount {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Blocks(blocks) => to.serialize_u32(*blocks),
            Self::Percent(percent) => to.serialize_str(&format!("{percent}%")),
        }
    }
}

impl<'de> Deserialize<'de> for BlockCount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(from)? {
            toml::Value::Integer(blocks) => u32::try_from(blocks)
                .map(Self::Blocks)
                .map_err(|_| D::Error::custom("number of blocks out of range")),
            toml::Value::String(text) => {
                Self::percent(&text).ok_or_else(|| D::Error::custom("not a percentage"))
            }
            other => Err(D::Error::custom(format!("{} is no number of blocks", other.type_str()))),
        }
    }
}
