//! Where written bytes go, as links from one place to the next.
//! Room: onefold-array.
//! Invariants: what comes into a place leaves it again, to the byte, but at the ends.

use serde::Serialize;

use super::tally::Bytes;

/// Bytes that go from one place to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FlowLink {
    /// From where.
    pub from: &'static str,
    /// To where.
    pub to: &'static str,
    /// Bytes.
    pub bytes: u64,
}

/// The links, of a run in which nothing is on its way any more (`Report::bytes_of_all`).
pub const fn flow(bytes: Bytes) -> [FlowLink; 4] {
    // Chunks that are written in part come with the rest of them.
    let written = if bytes.completed > 0 { "written and completed" } else { "written" };
    let unique = bytes.compressed_away + bytes.stored;
    [
        FlowLink { from: written, to: "duplicates", bytes: bytes.duplicate },
        FlowLink { from: written, to: "unique", bytes: unique },
        FlowLink { from: "unique", to: "compressed away", bytes: bytes.compressed_away },
        FlowLink { from: "unique", to: "stored", bytes: bytes.stored },
    ]
}
