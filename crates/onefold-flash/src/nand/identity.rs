//! What a page holds, as a number instead of its bytes.
//! Room: onefold-flash.

/// What a page holds, as a 16-byte hash of its bytes: equal means equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(pub u128);

impl Identity {
    /// The identity of content number `number`: any bijection does, as no bytes are behind it.
    pub const fn of_number(number: u64) -> Self {
        Self(number as u128)
    }
}

impl From<Identity> for u128 {
    fn from(identity: Identity) -> Self {
        identity.0
    }
}
