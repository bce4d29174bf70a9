//! The error numbers of the protocol, and the one place where device errors become numbers.
//! Room: onefold-nbd.   In: `BlockError`.   Out: `Errno`.

use std::io;

use onefold_block::BlockError;

/// An error number as the protocol defines it (not the host's).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Errno {
    /// Not permitted: the export is read-only.
    Perm = 1,
    /// The device failed.
    Io = 5,
    /// There is no memory for the request now.
    NoMemory = 12,
    /// The request makes no sense.
    Invalid = 22,
    /// No space, or a write past the end.
    NoSpace = 28,
    /// Too long for one data chunk.
    Overflow = 75,
    /// Not possible as asked (a fast zero).
    NotSupported = 95,
    /// The server is shutting down.
    Shutdown = 108,
}

impl Errno {
    /// Every number, for tests and tables.
    pub const ALL: [Self; 8] = [
        Self::Perm,
        Self::Io,
        Self::NoMemory,
        Self::Invalid,
        Self::NoSpace,
        Self::Overflow,
        Self::NotSupported,
        Self::Shutdown,
    ];

    /// The number on the wire.
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// The number a client gets for a device error; `stores` says whether the request was one that
/// needs room (a write or write zeroes), where out of range means no space.
pub fn errno_of(error: &BlockError, stores: bool) -> Errno {
    match error {
        BlockError::OutOfRange { .. } if stores => Errno::NoSpace,
        BlockError::OutOfRange { .. } => Errno::Invalid,
        BlockError::ReadOnly => Errno::Perm,
        BlockError::NoSpace(_) => Errno::NoSpace,
        BlockError::NotFast => Errno::NotSupported,
        BlockError::ShuttingDown => Errno::Shutdown,
        BlockError::Io { source, .. } if source.kind() == io::ErrorKind::OutOfMemory => {
            Errno::NoMemory
        }
        // Corrupt, poisoned, failed below, and whatever is added later: the data are not had.
        _ => Errno::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_error_has_its_number() {
        let range = || BlockError::OutOfRange { offset: 9, len: 1, size: 9 };
        let failed = || BlockError::Io {
            context: "read container 3".to_owned(),
            source: io::Error::from(io::ErrorKind::UnexpectedEof),
        };
        for (error, stores, number) in [
            (range(), true, 28),
            (range(), false, 22),
            (BlockError::ReadOnly, true, 1),
            (BlockError::NoSpace("full".to_owned()), true, 28),
            (BlockError::NotFast, true, 95),
            (BlockError::Corrupt("LBA 7".to_owned()), false, 5),
            (BlockError::Poisoned("sync".to_owned()), true, 5),
            (BlockError::ShuttingDown, false, 108),
            (failed(), false, 5),
            (onefold_block::memory::none_for("a read"), true, 12),
        ] {
            assert_eq!(errno_of(&error, stores).code(), number, "{error}");
        }
    }
}
