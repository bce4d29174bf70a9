//! Who fills a block.
//! Room: onefold-flash.

/// Who fills a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Data from the host.
    Host,
    /// Data from the host that a policy or the temperature wants apart.
    Apart,
    /// Data moved by collection.
    Moved,
    /// Data of the hot pool moved by collection.
    MovedHot,
    /// Cold data moved by static wear levelling, into worn blocks.
    Levelled,
}

pub(crate) const STREAMS: usize = 5;

impl Stream {
    /// Whether it is the host that waits for a page of it.
    pub(super) const fn is_host(self) -> bool {
        matches!(self, Self::Host | Self::Apart)
    }
}
