//! The settings of the FTL.
//! Room: onefold-flash.

/// Which full block is collected first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VictimRule {
    /// The one with the fewest live pages.
    #[default]
    Greedy,
    /// The one that was filled first.
    Fifo,
    /// The one with the fewest live pages of so many drawn at random.
    DChoices(u32),
    /// The one with the most (1 - u) * age / 2u, u being the share of live pages.
    CostBenefit,
}

/// How much garbage collection is done at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// A few copies with each host page, so that the victim is done when its space is needed.
    #[default]
    Incremental,
    /// The whole victim at once.
    WholeBlock,
}

/// What survives a power cut, and what that costs. On an array without out-of-band areas it costs
/// the same, but the drive cannot be opened again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: neither mapping pages nor a journal are written. For what is about garbage
    /// collection alone.
    #[default]
    Volatile,
    /// Mapping pages and checkpoints, but no journal: sharing and TRIM are lost back to the last
    /// checkpoint, and with them data. The mode that [park-shin] argues from.
    NoJournal,
    /// Mapping pages, checkpoints and a journal of what no page's out-of-band area says.
    Journal,
    /// The same with power-loss protection: the journal's buffer counts as durable, because
    /// [`crate::Ftl::power_loss`] stores it with the capacitor's last energy.
    Protected,
}

/// Whether data that is written often is kept in blocks of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Temperature {
    /// One pool of blocks.
    #[default]
    OnePool,
    /// The first `hot_pages` logical pages take `hot_writes_permille` of the writes and have a
    /// pool of their own; the spare space is split between the pools for the least amplification.
    HotRange {
        /// Logical pages of the hot range, from 0.
        hot_pages: u32,
        /// Share of the writes that go there, in thousandths.
        hot_writes_permille: u32,
    },
}

/// The settings of the FTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "switches, independent of each other")]
pub struct FtlSettings {
    /// Logical pages that the host can address.
    pub logical_pages: u32,
    /// Free blocks of a plane at which collection starts; at least 2.
    pub gc_reserve_blocks: u32,
    /// Free blocks of a plane up to which idle moments collect; at least one more than the reserve.
    pub gc_idle_blocks: u32,
    /// Which block is collected first.
    pub victim: VictimRule,
    /// How much is collected at a time.
    pub pacing: Pacing,
    /// Erase counts between the most and the least worn block at which static wear levelling
    /// moves cold data; 0 never.
    pub wear_spread: u32,
    /// Seed of the random choices.
    pub seed: u64,
    /// What survives a power cut.
    pub durability: Durability,
    /// DRAM for mapping pages in bytes; 0 keeps the whole map in DRAM.
    pub map_cache_bytes: u64,
    /// Host pages from one checkpoint to the next; 0 is half of the drive.
    pub checkpoint_pages: u32,
    /// Pools by temperature.
    pub temperature: Temperature,
    /// Whether the policy keeps some pages in blocks apart.
    pub apart: bool,
    /// Sub-pages of a flash page into which compressed pages are packed; 1 packs nothing.
    pub subpages: u32,
    /// Whether every sub-page is a codeword with a place in the map of its own: then each logical
    /// page here is such a codeword, of which a page of the host has as many as there are
    /// sub-pages, and nothing is compressed.
    pub codewords: bool,
    /// Flash pages that are filled side by side, for each stream: compressed pages wait in them.
    pub packing_pages: u32,
    /// Whether what waits there survives a power cut, by [`crate::Ftl::power_loss`].
    pub packing_survives: bool,
    /// Whether a page that is no noise in the cells goes to a plane whose last page is not like it.
    pub spread_patterns: bool,
}

impl Default for FtlSettings {
    fn default() -> Self {
        Self {
            logical_pages: 0,
            gc_reserve_blocks: 4,
            gc_idle_blocks: 0,
            victim: VictimRule::default(),
            pacing: Pacing::default(),
            wear_spread: 0,
            seed: 1,
            durability: Durability::default(),
            map_cache_bytes: 0,
            checkpoint_pages: 0,
            temperature: Temperature::default(),
            apart: false,
            subpages: 1,
            codewords: false,
            packing_pages: 1,
            packing_survives: false,
            spread_patterns: false,
        }
    }
}

impl FtlSettings {
    /// Logical pages that fill a flash page.
    pub const fn logical_per_page(&self) -> u32 {
        if self.codewords { self.subpages } else { 1 }
    }

    /// Streams that fill a block of their own in each plane, beside host and collection.
    pub(super) const fn further_streams(&self) -> u32 {
        let pools = match self.temperature {
            Temperature::OnePool => self.apart as u32,
            Temperature::HotRange { .. } => 2,
        };
        pools + (self.wear_spread > 0) as u32
    }
}
