//! Where a page lies, and how its seed follows from that.
//! Room: onefold-code.
//! Source: docs/scramblers.md: LBA ([ses-dedup]), page in block (Allwinner, Samsung), page, column
//! and erase count (US20160139827), the page itself (US11327884).

use serde::{Deserialize, Serialize};

use super::text::{hex, hex_list};
use crate::error::CodeError;

/// Everything a controller may seed a page's scrambler from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageAddress {
    /// Logical address that the page was written under, in pages.
    pub lba: u64,
    /// Physical page number within its erase block.
    pub page_in_block: u32,
    /// First column (byte) of the transfer within the page.
    pub column: u32,
    /// Erase count of the block.
    pub erase_count: u32,
}

impl PageAddress {
    /// The page number `number`, taken as the logical address and as the page in the block.
    pub fn of(number: u64) -> Self {
        Self { lba: number, page_in_block: number as u32, column: 0, erase_count: 0 }
    }
}

impl From<u64> for PageAddress {
    fn from(number: u64) -> Self {
        Self::of(number)
    }
}

/// What the seed is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeedSource {
    /// The logical address: known to the host, unchanged by garbage collection.
    Lba,
    /// The physical page within the block: changes whenever the drive moves the page.
    PhysicalPageInBlock,
    /// Page in block + column + erase count, added as integers.
    PageColumnErase,
    /// The page's own content; the seed is stored beside the page.
    SelfSeeded,
}

impl SeedSource {
    /// Name used in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lba => "lba",
            Self::PhysicalPageInBlock => "physical-page-in-block",
            Self::PageColumnErase => "page-column-erase",
            Self::SelfSeeded => "self-seeded",
        }
    }

    /// The number that the seed map takes; `None` for self-seeded pages.
    pub fn value(self, address: &PageAddress) -> Option<u64> {
        match self {
            Self::Lba => Some(address.lba),
            Self::PhysicalPageInBlock => Some(u64::from(address.page_in_block)),
            Self::PageColumnErase => Some(
                u64::from(address.page_in_block)
                    + u64::from(address.column)
                    + u64::from(address.erase_count),
            ),
            Self::SelfSeeded => None,
        }
    }

    /// Whether a host can scramble ahead so that the drive's scrambler undoes it (the host-side
    /// design of SES-Dedup).
    ///
    /// # Errors
    /// [`CodeError::HostCannotKnowSeed`] for every source but the logical address.
    pub fn check_host_side(self) -> Result<(), CodeError> {
        match self {
            Self::Lba => Ok(()),
            other => Err(CodeError::HostCannotKnowSeed { source_name: other.name() }),
        }
    }

    /// Whether a page keeps its seed when the drive moves it. If not, every move must scramble
    /// and encode again.
    pub fn survives_moves(self) -> bool {
        matches!(self, Self::Lba | Self::SelfSeeded)
    }
}

/// How the number from the [`SeedSource`] becomes a seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SeedMap {
    /// seed = constant + sum over GF(2) of the columns of the set address bits.
    Linear {
        /// Address bits that the map knows; the others must equal `base`.
        #[serde(with = "hex")]
        mask: u64,
        /// Value of the address bits outside `mask`.
        #[serde(with = "hex")]
        base: u64,
        /// Seed of address `base`.
        #[serde(with = "hex")]
        constant: u64,
        /// What each address bit adds, bit 0 first; bits beyond the list add nothing.
        #[serde(with = "hex_list")]
        columns: Vec<u64>,
    },
    /// seed = seeds[address modulo their number].
    Table {
        /// One seed per address of the period.
        #[serde(with = "hex_list")]
        seeds: Vec<u64>,
    },
}

impl SeedMap {
    /// A linear map that covers every address.
    pub fn linear(constant: u64, columns: Vec<u64>) -> Self {
        Self::Linear { mask: u64::MAX, base: 0, constant, columns }
    }

    /// The low `bits` of the address are the seed, xored with `constant` so that address 0 does
    /// not stop the register.
    pub fn address_bits(bits: u32, constant: u64) -> Self {
        Self::linear(constant, (0..bits).map(|i| 1 << i).collect())
    }

    /// Seed of `address`.
    ///
    /// # Errors
    /// [`CodeError::AddressNotCovered`] where the rule says nothing.
    pub fn seed(&self, address: u64) -> Result<u64, CodeError> {
        match self {
            Self::Table { seeds } => Ok(seeds[(address % seeds.len() as u64) as usize]),
            &Self::Linear { mask, base, constant, ref columns } => {
                if (address ^ base) & !mask != 0 {
                    return Err(CodeError::AddressNotCovered { address, base, mask });
                }
                let varying = address & mask;
                Ok(columns.iter().enumerate().fold(constant, |seed, (i, &column)| {
                    seed ^ if varying >> i & 1 == 1 { column } else { 0 }
                }))
            }
        }
    }

    /// The map with `f`, a linear map of seeds, applied to everything it yields.
    #[must_use]
    pub fn mapped(&self, f: impl Fn(u64) -> u64) -> Self {
        match self {
            Self::Table { seeds } => Self::Table { seeds: seeds.iter().map(|&s| f(s)).collect() },
            &Self::Linear { mask, base, constant, ref columns } => Self::Linear {
                mask,
                base,
                constant: f(constant),
                columns: columns.iter().map(|&c| f(c)).collect(),
            },
        }
    }

    pub(crate) fn check(&self, bits: u32) -> Result<(), CodeError> {
        let limit = super::lfsr::mask(bits);
        let mut all: Box<dyn Iterator<Item = u64>> = match self {
            Self::Table { seeds } => Box::new(seeds.iter().copied()),
            Self::Linear { constant, columns, .. } => {
                Box::new(columns.iter().copied().chain([*constant]))
            }
        };
        if let Some(seed) = all.find(|seed| seed & !limit != 0) {
            return Err(CodeError::SeedTooWide { seed, bits });
        }
        match self {
            Self::Table { seeds } if seeds.is_empty() => Err(CodeError::Field {
                field: "seed_map.seeds",
                value: "an empty list".into(),
                accepted: "at least one seed",
            }),
            Self::Linear { columns, .. } if columns.len() > 64 => Err(CodeError::Field {
                field: "seed_map.columns",
                value: format!("{} columns", columns.len()),
                accepted: "at most 64, one per address bit",
            }),
            _ => Ok(()),
        }
    }
}
