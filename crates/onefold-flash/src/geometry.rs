//! How pages, blocks and planes of a drive are numbered.
//! Room: onefold-flash.
//! Invariants: a PPN is `(plane * blocks_per_plane + block) * pages_per_block + page`, and planes
//! are numbered package by package, die by die; all fit in 30 bits.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The shape of a NAND array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Buses between controller and packages; packages are dealt to them in turn.
    pub channels: u32,
    /// Packages of the drive.
    pub packages: u32,
    /// Dies of a package.
    pub dies_per_package: u32,
    /// Planes of a die.
    pub planes_per_die: u32,
    /// Erase blocks of a plane.
    pub blocks_per_plane: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// Data bytes of a page.
    pub page_bytes: u32,
    /// Out-of-band bytes of a page: parity, then the FTL's fields.
    pub oob_bytes: u32,
}

/// Why a geometry is refused.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum GeometryError {
    /// A count that must be at least 1 is 0.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// More pages than the 30-bit page numbers of the tables can tell apart.
    #[error("{pages} pages are more than the {limit} that a drive can have")]
    TooManyPages {
        /// Pages asked for.
        pages: u64,
        /// Pages possible.
        limit: u64,
    },
    /// Packages cannot be dealt evenly to the channels.
    #[error("{packages} packages cannot be shared evenly by {channels} channels")]
    Channels {
        /// Packages asked for.
        packages: u32,
        /// Channels asked for.
        channels: u32,
    },
}

/// Most pages of a drive.
pub const PAGES_MAX: u64 = (1 << 30) - 1;

impl Geometry {
    /// Checks the counts.
    ///
    /// # Errors
    /// [`GeometryError`].
    pub fn check(&self) -> Result<(), GeometryError> {
        for (name, count) in [
            ("channels", self.channels),
            ("packages", self.packages),
            ("dies_per_package", self.dies_per_package),
            ("planes_per_die", self.planes_per_die),
            ("blocks_per_plane", self.blocks_per_plane),
            ("pages_per_block", self.pages_per_block),
            ("page_bytes", self.page_bytes),
        ] {
            if count == 0 {
                return Err(GeometryError::Zero(name));
            }
        }
        if !self.packages.is_multiple_of(self.channels) {
            let (packages, channels) = (self.packages, self.channels);
            return Err(GeometryError::Channels { packages, channels });
        }
        let pages = [
            self.packages,
            self.dies_per_package,
            self.planes_per_die,
            self.blocks_per_plane,
            self.pages_per_block,
        ]
        .map(u64::from)
        .into_iter()
        .fold(1, u64::saturating_mul);
        if pages > PAGES_MAX {
            return Err(GeometryError::TooManyPages { pages, limit: PAGES_MAX });
        }
        Ok(())
    }

    /// Dies of the drive.
    pub const fn dies(&self) -> u32 {
        self.packages * self.dies_per_package
    }

    /// Planes of the drive.
    pub const fn planes(&self) -> u32 {
        self.dies() * self.planes_per_die
    }

    /// Erase blocks of the drive.
    pub const fn blocks(&self) -> u32 {
        self.planes() * self.blocks_per_plane
    }

    /// Pages of the drive.
    pub const fn pages(&self) -> u32 {
        self.blocks() * self.pages_per_block
    }

    /// Pages of a plane.
    pub const fn pages_per_plane(&self) -> u32 {
        self.blocks_per_plane * self.pages_per_block
    }

    /// Raw capacity in bytes, out-of-band bytes not counted.
    pub const fn capacity_bytes(&self) -> u64 {
        self.pages() as u64 * self.page_bytes as u64
    }

    /// The block of a page.
    pub const fn block_of(&self, ppn: u32) -> u32 {
        ppn / self.pages_per_block
    }

    /// The first page of a block.
    pub const fn first_page(&self, block: u32) -> u32 {
        block * self.pages_per_block
    }

    /// The plane of a block.
    pub const fn plane_of_block(&self, block: u32) -> u32 {
        block / self.blocks_per_plane
    }

    /// The plane of a page.
    pub const fn plane_of(&self, ppn: u32) -> u32 {
        self.plane_of_block(self.block_of(ppn))
    }

    /// The die of a plane.
    pub const fn die_of_plane(&self, plane: u32) -> u32 {
        plane / self.planes_per_die
    }

    /// The package of a plane.
    pub const fn package_of_plane(&self, plane: u32) -> u32 {
        self.die_of_plane(plane) / self.dies_per_package
    }

    /// The channel of a plane.
    pub const fn channel_of_plane(&self, plane: u32) -> u32 {
        self.package_of_plane(plane) % self.channels
    }
}

/// Division by a number that is known once, for numbers below 2^30.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divider {
    /// 2^64 over the divisor, rounded up; 0 for a divisor of 1.
    reciprocal: u64,
}

impl Divider {
    /// Division by `divisor`, which must not be 0.
    pub const fn new(divisor: u32) -> Self {
        assert!(divisor > 0, "division by zero");
        Self { reciprocal: (u64::MAX / divisor as u64).wrapping_add(1) }
    }

    /// The quotient, rounded down.
    #[inline]
    pub const fn of(self, number: u32) -> u32 {
        if self.reciprocal == 0 {
            return number;
        }
        ((number as u128 * self.reciprocal as u128) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ses_dedup_table_ii_is_32_gib() {
        let ses = Geometry {
            channels: 8,
            packages: 8,
            dies_per_package: 1,
            planes_per_die: 8,
            blocks_per_plane: 256,
            pages_per_block: 256,
            page_bytes: 8192,
            oob_bytes: 320,
        };
        ses.check().expect("Table II is a drive");
        assert_eq!(ses.capacity_bytes(), 32 << 30);
        assert_eq!(ses.pages(), 4 << 20);
        let last = ses.pages() - 1;
        assert_eq!((ses.plane_of(last), ses.channel_of_plane(63)), (63, 7));
        assert_eq!(ses.first_page(ses.block_of(last)) + 255, last);
        let none = Geometry { packages: 0, ..ses };
        assert_eq!(none.check(), Err(GeometryError::Zero("packages")));
        let odd = Geometry { channels: 3, ..ses };
        assert!(matches!(odd.check(), Err(GeometryError::Channels { .. })));
        let huge = Geometry { blocks_per_plane: u32::MAX, ..ses };
        assert!(matches!(huge.check(), Err(GeometryError::TooManyPages { .. })));
        let row = |blocks_per_plane| {
            let one = Geometry { channels: 1, packages: 1, planes_per_die: 1, ..ses };
            Geometry { blocks_per_plane, pages_per_block: 1, ..one }.check()
        };
        assert_eq!((row((1 << 30) - 1), row(1 << 30).is_err()), (Ok(()), true));
        // More than any number has room for, of which nothing is left in 128 bits.
        let count = 1 << 31;
        let endless = Geometry {
            packages: count,
            dies_per_package: count,
            planes_per_die: count,
            blocks_per_plane: count,
            pages_per_block: count,
            ..ses
        };
        let (pages, limit) = (u64::MAX, PAGES_MAX);
        assert_eq!(endless.check(), Err(GeometryError::TooManyPages { pages, limit }));
    }

    #[test]
    fn dividing_by_the_reciprocal_is_exact() {
        for divisor in [1, 2, 3, 7, 64, 100, 255, 256, 768, 65_535, 1 << 30] {
            let divider = Divider::new(divisor);
            for around in (0..=30).map(|bit| 1_u32 << bit) {
                for number in around.saturating_sub(300)..(around + 300).min(1 << 30) {
                    assert_eq!(divider.of(number), number / divisor, "{number} / {divisor}");
                }
            }
        }
    }
}
