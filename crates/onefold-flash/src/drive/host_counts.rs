//! What the hosts of a drive asked for.
//! Room: onefold-flash.

/// What hosts asked for, beyond what the FTL counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// Read requests.
    pub reads: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Flushes, and writes that had to be durable at once.
    pub flushes: u64,
    /// Requests answered with an error of the flash.
    pub errors: u64,
}
