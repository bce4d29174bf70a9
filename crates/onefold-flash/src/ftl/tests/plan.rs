//! What small drives are made of, and what is done with them.
//! Room: onefold-flash.

use super::told::{Table, Teller, Told};
use crate::dedup::{AnyPolicy, Identities, Site};
use crate::ftl::FtlSettings;
use crate::geometry::Geometry;
use crate::nand::{Faults, Identity, Sizes};
use crate::spec::IdleOrder;
use crate::testing::perfect::PerfectTable;

/// How often each kind of step comes.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub write: u64,
    pub kept: u64,
    pub trim: u64,
    pub read: u64,
    pub flush: u64,
    pub checkpoint: u64,
    pub merge: u64,
    pub collect: u64,
    pub work: u64,
}

/// Writes alone.
pub const WRITES: Mix = Mix {
    write: 1,
    kept: 0,
    trim: 0,
    read: 0,
    flush: 0,
    checkpoint: 0,
    merge: 0,
    collect: 0,
    work: 0,
};

/// Some of everything.
pub const ALL: Mix = Mix {
    write: 60,
    kept: 3,
    trim: 4,
    read: 5,
    flush: 3,
    checkpoint: 1,
    merge: 8,
    collect: 6,
    work: 6,
};

/// What a drive is made of, and what is done with it.
#[derive(Clone, Debug)]
pub struct Plan {
    pub geometry: Geometry,
    pub settings: FtlSettings,
    pub sizes: Option<Sizes>,
    pub faults: Faults,
    pub order: IdleOrder,
    /// Share of the duplicates that are shared when they are written, in percent.
    pub inline_percent: u64,
    /// A policy and its options instead.
    pub policy: Option<(&'static str, &'static str)>,
    pub apart_every: u64,
    /// Different contents.
    pub contents: u64,
    pub mix: Mix,
    /// Logical pages from 0 that take most of the writes, and how many percent of them.
    pub hot: Option<(u32, u64)>,
}

/// Two planes of so many blocks of so many pages.
pub const fn planes(blocks: u32, pages: u32, page_bytes: u32) -> Geometry {
    Geometry {
        channels: 1,
        packages: 2,
        dies_per_package: 1,
        planes_per_die: 1,
        blocks_per_plane: blocks,
        pages_per_block: pages,
        page_bytes,
        oob_bytes: 64,
    }
}

impl Plan {
    /// Writes of unique pages to a drive with these settings.
    pub fn new(geometry: Geometry, settings: FtlSettings) -> Self {
        Self {
            geometry,
            settings,
            sizes: None,
            faults: Faults::default(),
            order: IdleOrder::ByPolicy,
            inline_percent: 0,
            policy: None,
            apart_every: 0,
            contents: 1 << 40,
            mix: WRITES,
            hot: None,
        }
    }
}

/// The policy of a plan.
pub fn teller(plan: &Plan, told: &Told) -> Teller {
    let table = match plan.policy {
        None => Table::Perfect(PerfectTable::new(plan.inline_percent, 1)),
        Some((name, options)) => {
            let FtlSettings { subpages, packing_pages, .. } = plan.settings;
            let site = Site::new(plan.geometry, None).packed(subpages, packing_pages);
            let options = options.parse().expect("TOML");
            let policy = AnyPolicy::new::<Identity>(name, &options, &site, Identities);
            Table::Named(Box::new(policy.expect("accepted")))
        }
    };
    Teller { table, told: told.clone(), apart_every: plan.apart_every }
}
