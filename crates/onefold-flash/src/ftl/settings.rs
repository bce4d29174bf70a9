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

/// The settings of the FTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FtlSettings {
    /// Logical pages that the host can address.
    pub logical_pages: u32,
    /// Free blocks of a plane at which collection starts; at least 2.
    pub gc_reserve_blocks: u32,
    /// Which block is collected first.
    pub victim: VictimRule,
    /// How much is collected at a time.
    pub pacing: Pacing,
    /// Erase counts between the most and the least worn block at which static wear levelling
    /// moves cold data; 0 never.
    pub wear_spread: u32,
    /// Seed of the random choices.
    pub seed: u64,
}
