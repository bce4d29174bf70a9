//! What follows from a specification: shapes, settings, workloads.
//! Room: onefold-flash.

use onefold_code::{PRESET_NAMES as SCRAMBLERS, SeedSource};
use onefold_sim::{Ratio, SimSpan};
use onefold_workload::content::PRESETS as DATA_SETS;
use onefold_workload::{AddressPattern, Arrivals, ContentProfile, ThinkTime, WorkloadSpec};
use thiserror::Error;

use crate::dedup::{Engine, Site, codeword_bytes, policy_info};
use crate::ftl::{Durability, FtlSettings, Pacing, SUBPAGES_MAX, Temperature, VictimRule};
use crate::geometry::GeometryError;
use crate::spec::keys::one_of;
use crate::spec::{
    ArrivalKind, CompressionPlace, ContentKind, DriveSpec, IdleOrder, PacingName, ParallelUnit,
    PatternKind, ThinkKind, VictimName,
};

/// Values that are fine on their own and cannot be together.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecError {
    /// No array has this shape.
    #[error("geometry: {0}")]
    Geometry(#[from] GeometryError),
    /// The logical pages and the reserve do not fit.
    #[error(
        "ftl.over_provisioning = {over_provisioning} with ftl.gc_reserve_blocks = {reserve}: \
         {logical_pages} logical pages are more than the {usable} that the blocks beside the \
         reserve hold; expected more over-provisioning, a smaller reserve or larger planes"
    )]
    NoRoom {
        /// The setting, as text.
        over_provisioning: String,
        /// Blocks kept free in each plane.
        reserve: u32,
        /// Logical pages asked for.
        logical_pages: u32,
        /// Pages that there is room for.
        usable: u64,
    },
    /// No scrambler has this name.
    #[error("media.scrambler = \"{got}\": expected none, {}", one_of(&SCRAMBLERS))]
    Scrambler {
        /// The name.
        got: String,
    },
    /// Compression cannot be had with something else.
    #[error("compression: {why}")]
    Compression {
        /// Why not.
        why: String,
    },
    /// A map of codewords cannot be had with something else.
    #[error("dedup.policy = \"codeword\": {why}")]
    Codewords {
        /// Why not.
        why: String,
    },
    /// A footprint without a page, or requests longer than it.
    #[error("workload: requests of {request_pages} pages in a footprint of {pages} pages")]
    Footprint {
        /// Pages of a request.
        request_pages: u32,
        /// Pages that are addressed.
        pages: u64,
    },
}

/// Least bytes of a sub-page: the head of a fragment and something to hold.
const SUBPAGE_BYTES_MIN: u32 = 64;

/// Fractions keep nine decimals.
const BILLION: f64 = 1e9;

/// A number of a specification as an exact fraction.
pub(crate) fn ratio(number: f64) -> Ratio {
    Ratio::new((number * BILLION + 0.5) as u64, BILLION as u64).expect("10^9 is not zero")
}

impl DriveSpec {
    /// Whether the drive works between requests, by its own clock or because its host says so. What
    /// a trace says is not known here.
    pub const fn has_idle_moments(&self) -> bool {
        self.controller.idle_after_ns > 0
            || self.controller.idle_hint && self.workload.idle_hint_ns > 0
    }

    /// Which background work goes first, where that is left to the policy: by need with `gleaner`,
    /// deduplication with those of the papers.
    pub fn idle_order(&self) -> IdleOrder {
        match self.controller.idle_order {
            IdleOrder::ByPolicy if self.dedup.policy == "gleaner" => IdleOrder::ByNeed,
            IdleOrder::ByPolicy => IdleOrder::DedupFirst,
            order => order,
        }
    }

    /// Checks what single keys cannot tell.
    ///
    /// # Errors
    /// [`SpecError`].
    pub fn check(&self) -> Result<(), SpecError> {
        self.geometry.check()?;
        let (logical_pages, reserve) = (self.logical_pages(), self.gc_reserve_blocks());
        let usable = self.usable_pages();
        if logical_pages == 0 || u64::from(logical_pages) > usable {
            let over_provisioning = self.ftl.over_provisioning.to_string();
            return Err(SpecError::NoRoom { over_provisioning, reserve, logical_pages, usable });
        }
        let scrambler = self.media.scrambler.as_str();
        if scrambler != "none" && !SCRAMBLERS.contains(&scrambler) {
            return Err(SpecError::Scrambler { got: scrambler.to_owned() });
        }
        self.check_compression()?;
        self.check_codewords()?;
        let (request_pages, pages) = (self.workload.request_pages, self.footprint_pages());
        if pages < u64::from(request_pages) {
            return Err(SpecError::Footprint { request_pages, pages });
        }
        Ok(())
    }

    /// Whether flash pages are packed with compressed pages or with codewords.
    pub fn packs(&self) -> bool {
        self.compresses() || self.codewords() > 1
    }

    /// Whether pages are compressed and packed.
    pub fn compresses(&self) -> bool {
        self.ftl.compression != CompressionPlace::None
    }

    /// Codewords of a page that have entries of their own in the map; 1 where pages have.
    pub fn codewords(&self) -> u32 {
        let bytes = codeword_bytes(&self.dedup.policy, &self.dedup.options);
        bytes.map_or(1, |bytes| (u64::from(self.geometry.page_bytes) / bytes.max(1)).max(1) as u32)
    }

    /// What the map names: pages, or their codewords. Their number and their bytes.
    pub(crate) fn mapped_units(&self) -> (u32, u32) {
        let codewords = self.codewords();
        (self.logical_pages().saturating_mul(codewords), self.geometry.page_bytes / codewords)
    }

    /// Equal parts of a flash page; 1 where nothing is packed.
    fn subpages(&self) -> u32 {
        if self.compresses() { self.ftl.subpages } else { self.codewords() }
    }

    /// Flash pages that are filled side by side. Codewords are all of one length: one is enough.
    const fn packing_pages(&self, codewords: u32) -> u32 {
        if codewords > 1 { 1 } else { self.ftl.packing_pages }
    }

    /// Where the compression engine is.
    pub const fn engine(&self) -> Engine {
        match self.ftl.compression {
            CompressionPlace::None => Engine::None,
            CompressionPlace::BeforeScrambler => Engine::BeforeScrambler,
            CompressionPlace::AfterScrambler => Engine::AfterScrambler,
        }
    }

    /// What a policy must know of the drive.
    pub fn site(&self, seed_source: Option<SeedSource>) -> Site {
        let (timing, controller) = (&self.timing, &self.controller);
        let compared_ns =
            timing.command_overhead_ns + timing.read_latency_ns + controller.compare_ns;
        let mut site = Site::new(self.geometry, seed_source);
        site.hash_outruns_read = controller.hash_ns < compared_ns;
        let programmed_ns = timing.command_overhead_ns + timing.program_latency_ns;
        site.read_of_program = (compared_ns as f64 / programmed_ns.max(1) as f64).min(1.0);
        let codewords = self.codewords();
        if codewords > 1 {
            return site.of_codewords(codewords, self.packing_pages(codewords));
        }
        if self.packs() { site.packed(self.ftl.subpages, self.ftl.packing_pages) } else { site }
    }

    /// Checks what belongs to a map of codewords.
    fn check_codewords(&self) -> Result<(), SpecError> {
        let Some(bytes) = codeword_bytes(&self.dedup.policy, &self.dedup.options) else {
            return Ok(());
        };
        let refused = |why: String| Err(SpecError::Codewords { why });
        let page_bytes = u64::from(self.geometry.page_bytes);
        let codewords = page_bytes.checked_div(bytes).unwrap_or(0);
        if codewords * bytes != page_bytes || codewords > u64::from(SUBPAGES_MAX) {
            return refused(format!(
                "dedup.codeword_bytes = {bytes}: expected a number that divides \
                 geometry.page_bytes = {page_bytes} into {SUBPAGES_MAX} parts at most"
            ));
        }
        if codewords == 1 {
            return Ok(());
        }
        if let Some(why) = self.too_many_places(codewords) {
            return refused(why);
        }
        if self.compresses() {
            let why = "ftl.compression must be \"none\": what is compressed has no codewords of \
                       its own";
            return refused(why.to_owned());
        }
        if self.ftl.map_cache_bytes > 0 {
            let why = "ftl.map_cache_bytes must be 0: a flash page changes as many mapping entries \
                       as it has codewords, all at once";
            return refused(why.to_owned());
        }
        if self.geometry.pages_per_block < 2 {
            return refused("geometry.pages_per_block must be 2 at least".to_owned());
        }
        Ok(())
    }

    /// Why flash pages cannot have so many parts each, if there would be too many in all.
    fn too_many_places(&self, subpages: u64) -> Option<String> {
        let places = u64::from(self.geometry.pages()) * subpages;
        let why =
            || format!("{places} parts of flash pages are more than a mapping entry can name");
        (places >= 1 << 30).then(why)
    }

    /// Checks what belongs to compression.
    fn check_compression(&self) -> Result<(), SpecError> {
        if !self.compresses() {
            return Ok(());
        }
        let refused = |why: String| Err(SpecError::Compression { why });
        let (subpages, page_bytes) = (self.ftl.subpages, self.geometry.page_bytes);
        if !page_bytes.is_multiple_of(subpages) || page_bytes / subpages < SUBPAGE_BYTES_MIN {
            return refused(format!(
                "ftl.subpages = {subpages}: expected a number that divides geometry.page_bytes = \
                 {page_bytes} into parts of at least {SUBPAGE_BYTES_MIN} bytes"
            ));
        }
        if self.ftl.map_cache_bytes > 0 {
            return refused(
                "ftl.map_cache_bytes must be 0: a flash page of compressed pages changes as many \
                 mapping entries, all at once"
                    .to_owned(),
            );
        }
        if let Some(why) = self.too_many_places(subpages.into()) {
            return refused(why);
        }
        let behind = self.ftl.compression == CompressionPlace::AfterScrambler;
        let seeds = onefold_code::preset(&self.media.scrambler).map(|it| it.seed_source);
        if behind && seeds.is_ok_and(|seeds| seeds != SeedSource::Lba) {
            return refused(format!(
                "ftl.compression = \"after-scrambler\" needs to scramble a page before it has a \
                 place, and media.scrambler = \"{}\" takes its seed from there",
                self.media.scrambler
            ));
        }
        Ok(())
    }

    /// Logical pages of the drive: physical pages over 1 + over-provisioning.
    pub fn logical_pages(&self) -> u32 {
        (f64::from(self.geometry.pages()) / (1.0 + self.ftl.over_provisioning)) as u32
    }

    /// Free blocks of a plane at which collection starts; at least 2.
    pub fn gc_reserve_blocks(&self) -> u32 {
        self.ftl.gc_reserve_blocks.of(self.geometry.blocks_per_plane).max(2)
    }

    /// Pages outside the reserve and the open blocks. The FTL also counts its own pages and the
    /// bad blocks, and has the last word.
    fn usable_pages(&self) -> u64 {
        // Host, apart and moved pages each fill a block, and so do those of wear levelling.
        let kept = self.gc_reserve_blocks() + 3 + u32::from(self.ftl.wear_spread > 0);
        let blocks = self.geometry.blocks_per_plane.saturating_sub(kept);
        u64::from(self.geometry.planes())
            * u64::from(blocks)
            * u64::from(self.geometry.pages_per_block)
    }

    /// Units that do one operation at a time.
    pub fn parallel_units(&self) -> u32 {
        match self.timing.parallel_unit {
            ParallelUnit::Plane => self.geometry.planes(),
            ParallelUnit::Die => self.geometry.dies(),
            ParallelUnit::Package => self.geometry.packages,
        }
    }

    /// Logical pages that the workload addresses.
    pub fn footprint_pages(&self) -> u64 {
        let share = ratio(self.workload.footprint_share);
        share.of(u64::from(self.logical_pages())).max(1)
    }

    /// The settings of the FTL.
    pub fn ftl_settings(&self) -> FtlSettings {
        let codewords = self.codewords();
        FtlSettings {
            logical_pages: self.mapped_units().0,
            gc_reserve_blocks: self.gc_reserve_blocks(),
            gc_idle_blocks: self.ftl.gc_idle_blocks,
            victim: match self.ftl.victim {
                VictimName::Greedy => VictimRule::Greedy,
                VictimName::Fifo => VictimRule::Fifo,
                VictimName::DChoices => VictimRule::DChoices(self.ftl.victim_choices),
                VictimName::CostBenefit => VictimRule::CostBenefit,
            },
            pacing: match self.ftl.pacing {
                PacingName::Incremental => Pacing::Incremental,
                PacingName::WholeBlock => Pacing::WholeBlock,
            },
            wear_spread: self.ftl.wear_spread,
            seed: self.seed,
            durability: match (self.ftl.journal, self.controller.power_loss_protection) {
                (true, true) => Durability::Protected,
                (true, false) => Durability::Journal,
                (false, _) => Durability::NoJournal,
            },
            map_cache_bytes: self.ftl.map_cache_bytes,
            checkpoint_pages: self.ftl.checkpoint_pages,
            temperature: self.temperature(),
            spread_patterns: self.ftl.spread_patterns,
            subpages: self.subpages(),
            codewords: codewords > 1,
            packing_pages: self.packing_pages(codewords),
            packing_survives: self.controller.power_loss_protection,
            apart: policy_info(&self.dedup.policy).is_ok_and(|policy| policy.apart),
        }
    }

    /// The settings of the FTL in a simulated run: without metadata of its own unless that is
    /// modelled.
    pub fn run_settings(&self) -> FtlSettings {
        let mut settings = self.ftl_settings();
        if !self.ftl.model_metadata && self.ftl.map_cache_bytes == 0 {
            settings.durability = Durability::Volatile;
        }
        settings
    }

    fn temperature(&self) -> Temperature {
        let table = &self.workload;
        if self.ftl.streams < 2 || table.pattern != PatternKind::HotCold {
            return Temperature::OnePool;
        }
        // The hot pages are the first ones of the footprint.
        let hot_pages = ratio(table.hot_page_share).of(self.footprint_pages()) as u32;
        let hot_pages = hot_pages.saturating_mul(self.codewords());
        let hot_writes_permille = (table.hot_request_share * 1000.0 + 0.5) as u32;
        Temperature::HotRange { hot_pages, hot_writes_permille }
    }

    /// The generator's workload; addresses are those of requests, each [`WorkloadTable`]'s
    /// `request_pages` long.
    ///
    /// [`WorkloadTable`]: crate::spec::WorkloadTable
    pub fn workload_spec(&self) -> WorkloadSpec {
        let table = &self.workload;
        let span = SimSpan::from_ns;
        WorkloadSpec {
            pages: (self.footprint_pages() / u64::from(table.request_pages)).max(1),
            page_bytes: table.request_pages * self.geometry.page_bytes,
            requests: table.requests,
            read_share: ratio(table.read_share),
            pattern: match table.pattern {
                PatternKind::Uniform => AddressPattern::Uniform,
                PatternKind::Sequential => AddressPattern::Sequential,
                PatternKind::Zipf => AddressPattern::Zipf { exponent: ratio(table.zipf_exponent) },
                PatternKind::HotCold => AddressPattern::HotCold {
                    hot_pages: ratio(table.hot_page_share),
                    hot_requests: ratio(table.hot_request_share),
                },
            },
            arrivals: match table.arrivals {
                ArrivalKind::Poisson => Arrivals::Poisson { between: span(table.interarrival_ns) },
                ArrivalKind::Constant => {
                    Arrivals::Constant { between: span(table.interarrival_ns) }
                }
                ArrivalKind::Closed => Arrivals::Closed {
                    queue_depth: table.queue_depth,
                    think: match table.think_time {
                        ThinkKind::None => ThinkTime::None,
                        ThinkKind::Constant => ThinkTime::Constant(span(table.think_time_ns)),
                        ThinkKind::Exponential => ThinkTime::Exponential(span(table.think_time_ns)),
                    },
                },
            },
            seed: self.seed,
        }
    }

    /// The duplicates of the written data, where the workload states them by a profile.
    pub fn content_profile(&self) -> Option<ContentProfile> {
        match self.workload.content {
            ContentKind::Unique | ContentKind::Uniform => None,
            ContentKind::Profile => Some(ContentProfile {
                duplicate_ratio: ratio(self.workload.duplicate_ratio),
                hot_fingerprint_ratio: ratio(self.workload.hot_fingerprint_ratio),
                hot_share: ratio(self.workload.hot_share),
            }),
            named => DATA_SETS.iter().find(|set| set.name == named.name()).map(|set| set.profile),
        }
    }
}
