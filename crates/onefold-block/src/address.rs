//! Addresses that must never be mixed up, each a type of its own.
//! Room: onefold-block.
//!
//! Mixing them does not compile:
//! ```compile_fail
//! use onefold_block::{Lba, Ppn};
//! let lba: Lba = Ppn::new(7); // expected `Lba`, found `Ppn`
//! ```
//! ```compile_fail
//! use onefold_block::{Lba, Lpn};
//! let _ = Lba::new(7) == Lpn::new(7); // no comparison between the two
//! ```

use std::fmt;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident, $repr:ty, $tag:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($repr);

        impl $name {
            /// The address with this number.
            pub const fn new(number: $repr) -> Self {
                Self(number)
            }

            /// The number of this address.
            pub const fn get(self) -> $repr {
                self.0
            }

            /// The address `count` further on; `None` past the last representable one.
            #[must_use]
            pub const fn checked_add(self, count: $repr) -> Option<Self> {
                match self.0.checked_add(count) {
                    Some(number) => Some(Self(number)),
                    None => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($tag, " {}"), self.0)
            }
        }
    };
}

address!(
    /// Logical block address: the number of a chunk-sized block of a volume.
    Lba, u64, "LBA"
);
address!(
    /// Logical page number: what a host addresses in a drive.
    Lpn, u64, "LPN"
);
address!(
    /// Virtual page number: the indirection that several logical pages of one content share.
    Vpn, u64, "VPN"
);
address!(
    /// Physical page number: a page of the NAND array.
    Ppn, u64, "PPN"
);
address!(
    /// The number of a container. Numbers are given out once and never reused.
    ContainerId, u32, "container"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_what_they_are_and_do_not_wrap() {
        assert_eq!(Lba::new(3).to_string(), "LBA 3");
        assert_eq!(ContainerId::new(9).to_string(), "container 9");
        assert_eq!(Lba::new(3).checked_add(4), Some(Lba::new(7)));
        assert_eq!(Ppn::new(u64::MAX).checked_add(1), None);
    }
}
