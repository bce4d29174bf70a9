//! A new drive: what must fit, what is left, and what that promises.
//! Room: onefold-flash.   In: array, settings.   Out: an empty `Ftl`.

use crate::dedup::{Policy, packing_slots};
use crate::ftl::Ftl;
use crate::ftl::blocks::Blocks;
use crate::ftl::books::Books;
use crate::ftl::cache::MapCache;
use crate::ftl::counters::Counters;
use crate::ftl::error::FtlError;
use crate::ftl::gathered::Gathered;
use crate::ftl::journal::Journal;
use crate::ftl::layout::Layout;
use crate::ftl::own_pages::OwnPages;
use crate::ftl::packing::Packing;
use crate::ftl::rounds::Rounds;
use crate::ftl::segments::Segments;
use crate::ftl::settings::{Durability, FtlSettings, Pacing, Temperature};
use crate::ftl::slots::Slots;
use crate::ftl::space::Space;
use crate::ftl::victims::Victims;
use crate::geometry::Geometry;
use crate::nand::Nand;
use crate::op::Untimed;
use crate::theory;

/// Blocks of a plane that are no part of its log when a victim is chosen, at this write
/// amplification `A`.
///
/// Beside the reserve they are a block and half a block over `A`: a victim is chosen when the host
/// has just begun a block, and then the block of the copies is nearly full; or when the copies
/// have, and then the host's is half full. Another half block is what blocks lose while they are
/// filled and cannot be chosen yet. A victim that is collected bit by bit loses pages meanwhile, as
/// it would if it had been chosen half a block of the log later; whole pages are moved with each
/// host page, so that it is done before the next one is due. Where the reserve is the floor, a
/// block begun by copies makes haste necessary, which leaves a third of that.
fn idle_blocks(settings: &FtlSettings, amplification: f64) -> f64 {
    let pools = match settings.temperature {
        Temperature::OnePool => 0.0,
        // The two open blocks of the other pool, half filled each.
        Temperature::HotRange { .. } => 1.0,
    };
    let moved = (amplification - 1.0).max(f64::MIN_POSITIVE);
    let later = match settings.pacing {
        Pacing::WholeBlock => 0.0,
        Pacing::Incremental if settings.gc_reserve_blocks <= FLOOR => moved / moved.ceil() / 6.0,
        Pacing::Incremental => moved / moved.ceil() / 2.0,
    };
    f64::from(settings.gc_reserve_blocks) + 1.5 + 0.5 / amplification + pools - later
}

/// Most sub-pages of a flash page.
pub(crate) const SUBPAGES_MAX: u32 = 64;
/// Most flash pages that are filled side by side.
pub(crate) const PACKING_PAGES_MAX: u32 = 64;

/// Free blocks below which a victim is finished at once, on a drive without pages of its own.
const FLOOR: u32 = 2;

/// Usable over mapped pages for these good blocks: what the closed forms of [`theory`] take.
///
/// Usable are the pages of good blocks, less those that a plane keeps out of its log. The FTL's own
/// pages count as mapped.
fn effective_alpha(geometry: &Geometry, settings: &FtlSettings, good: u32, meta: u32) -> f64 {
    let data = f64::from(settings.logical_pages) / f64::from(settings.logical_per_page());
    let mapped = data + f64::from(meta);
    let with = |amplification: f64| {
        let idle = idle_blocks(settings, amplification) * f64::from(geometry.planes());
        (f64::from(good) - idle) * f64::from(geometry.pages_per_block) / mapped
    };
    // The amplification follows from what is asked for; it moves idle blocks by little.
    let mut alpha = with(4.0);
    for _ in 0..8 {
        alpha = with(theory::fifo(alpha.max(1.001)));
    }
    alpha
}

impl<N: Nand, P: Policy<N::Page>> Ftl<N, P> {
    /// A new, empty drive.
    ///
    /// # Errors
    /// [`FtlError::Settings`] if logical pages and reserve do not fit into the array;
    /// [`FtlError::Nand`].
    pub fn format(nand: N, policy: P, settings: FtlSettings) -> Result<Self, FtlError> {
        let mut ftl = Self::empty(nand, policy, settings)?;
        ftl.check_space()?;
        if ftl.own.is_on() {
            ftl.begin_round();
            ftl.finish_round(&mut Untimed)?;
            ftl.nand.sync()?;
            ftl.counters = Counters::default();
        }
        Ok(ftl)
    }

    /// The tables of an empty drive; nothing is programmed.
    pub(super) fn empty(nand: N, policy: P, settings: FtlSettings) -> Result<Self, FtlError> {
        let geometry = *nand.geometry();
        let mut blocks = Blocks::new(geometry);
        for block in (0..geometry.blocks()).filter(|&block| nand.is_bad(block)) {
            blocks.retire(block);
        }
        let on = settings.durability != Durability::Volatile || settings.map_cache_bytes > 0;
        let slots = Slots::new(&geometry, settings.logical_pages);
        let cache = MapCache::new(settings.map_cache_bytes, geometry.page_bytes, slots.logical);
        check_settings(&geometry, &settings, &cache)?;
        if !N::PACKS && settings.subpages > 1 {
            return Err(FtlError::Settings("this array cannot hold packed pages".to_owned()));
        }
        let layout = Layout::<N>::new(geometry, &settings);
        let journal = Journal::new(settings.durability, geometry.page_bytes);
        let rounds = Rounds::new(&geometry, &settings, slots.segments);
        let own = OwnPages::new(on, slots);
        let own_pages = own_pages_max(&own, &journal, &rounds);
        let alpha = effective_alpha(&geometry, &settings, blocks.good(), own_pages);
        let hot_blocks = hot_blocks(&geometry, &settings, alpha);
        let planes = geometry.planes();
        Ok(Self {
            settings,
            layout,
            nand,
            policy,
            books: Books::new(layout, settings.logical_pages, Segments::new(on, slots)),
            space: Space::new(layout, settings, blocks, on, hot_blocks),
            journal,
            own,
            rounds,
            cache,
            victims: Victims::new(planes, settings.seed),
            packing: Packing::new(layout.places(), settings.subpages, settings.packing_pages),
            gathered: vec![Gathered::default(); planes as usize],
            counters: Counters::default(),
        })
    }

    /// Most pages of the FTL's own that live at a time.
    fn own_pages_max(&self) -> u32 {
        own_pages_max(&self.own, &self.journal, &self.rounds)
    }

    fn check_space(&self) -> Result<(), FtlError> {
        let (geometry, settings) = (self.layout.geometry(), &self.settings);
        let good = self.space.blocks().good();
        // Blocks being filled by host and collection, and the victim; then those of settings.
        let streams = 3 + settings.further_streams();
        let kept = (settings.gc_reserve_blocks + streams) * geometry.planes()
            + u32::from(self.own.is_on());
        // Collecting codewords packs them anew: a block gives a page back only if it lacks one.
        let dense = geometry.pages_per_block - u32::from(settings.codewords);
        let usable = u64::from(good.saturating_sub(kept)) * u64::from(dense);
        let own = self.own_pages_max();
        let logical = settings.logical_pages.div_ceil(settings.logical_per_page());
        if u64::from(logical) + u64::from(own) <= usable {
            return Ok(());
        }
        Err(FtlError::NoRoom { logical, own, good, kept, usable })
    }

    /// Usable over mapped pages: what the closed forms of [`theory`] take as `alpha`.
    ///
    /// Usable are the pages of good blocks, less those that a plane keeps out of its log: the
    /// reserve of collection, and parts of the blocks being filled. Mapped are the logical pages
    /// and the most pages that the FTL needs for its own map and journal.
    pub fn effective_alpha(&self) -> f64 {
        let good = self.space.blocks().good();
        effective_alpha(self.layout.geometry(), &self.settings, good, self.own_pages_max())
    }

    /// Physical pages over logical pages, less one: over-provisioning as it is advertised.
    pub fn over_provisioning(&self) -> f64 {
        let per_page = f64::from(self.settings.logical_per_page());
        f64::from(self.layout.geometry().pages()) * per_page
            / f64::from(self.settings.logical_pages)
            - 1.0
    }

    /// DRAM that the controller needs for the FTL's tables, by name, in bytes.
    pub fn dram(&self) -> Vec<(&'static str, u64)> {
        let page_bytes = u64::from(self.layout.geometry().page_bytes);
        let map = if self.cache.is_partial() {
            self.cache.capacity() as u64 * page_bytes + 8 * u64::from(self.own.slots().logical)
        } else {
            4 * u64::from(self.settings.logical_pages)
        };
        let journal = if self.journal.is_on() { page_bytes } else { 0 };
        let mut all = vec![
            ("map", map),
            ("reverse_map", 4 * u64::from(self.places())),
            ("virtual_table", 8 * u64::from(self.books.shared().len())),
            ("blocks", 34 * u64::from(self.layout.geometry().blocks())),
            ("map_directory", 12 * self.books.segments().len() as u64),
            ("journal_buffer", journal),
        ];
        if self.layout.packs() {
            // Two streams of the host, and what collection moves in each plane.
            let pages =
                u64::from(self.settings.packing_pages * (2 + self.layout.geometry().planes()));
            all.push(("packing_buffers", pages * page_bytes));
        }
        all
    }
}

/// Most pages of the FTL's own that live at a time.
fn own_pages_max(own: &OwnPages, journal: &Journal, rounds: &Rounds) -> u32 {
    if !own.is_on() {
        return 0;
    }
    let slots = own.slots();
    let journal = if journal.is_on() { 2 * rounds.journal_pages() + 2 } else { 0 };
    slots.logical + 2 * slots.states + 2 + journal
}

fn check_settings(
    geometry: &Geometry,
    settings: &FtlSettings,
    cache: &MapCache,
) -> Result<(), FtlError> {
    if settings.gc_reserve_blocks < 2 {
        return Err(FtlError::Settings("gc_reserve_blocks must be at least 2".into()));
    }
    if settings.logical_pages == 0 {
        return Err(FtlError::Settings("logical_pages must be at least 1".into()));
    }
    check_packing(geometry, settings)?;
    let too_small =
        settings.map_cache_bytes > 0 && settings.map_cache_bytes < u64::from(geometry.page_bytes);
    if too_small || (cache.is_partial() && cache.capacity() < 4) {
        let least = 4 * geometry.page_bytes;
        let message = format!("map_cache_bytes must be 0 or at least 4 pages, {least}");
        return Err(FtlError::Settings(message));
    }
    if geometry.page_bytes < 64 {
        return Err(FtlError::Settings("page_bytes must be at least 64, for mapping pages".into()));
    }
    if let Temperature::HotRange { hot_pages, hot_writes_permille } = settings.temperature
        && (hot_pages == 0 || hot_pages >= settings.logical_pages || hot_writes_permille > 999)
    {
        let message = "hot_pages must be from 1 to less than logical_pages, and \
                       hot_writes_permille at most 999";
        return Err(FtlError::Settings(message.into()));
    }
    Ok(())
}

/// Whether flash pages can be packed.
pub(super) fn check_packing(geometry: &Geometry, settings: &FtlSettings) -> Result<(), FtlError> {
    let FtlSettings { subpages, packing_pages, .. } = *settings;
    let refused = |message: String| Err(FtlError::Settings(message));
    if settings.codewords && (subpages == 1 || geometry.pages_per_block < 2) {
        return refused(
            "a drive that maps codewords needs several in a page, and pages in a block".into(),
        );
    }
    if subpages == 1 {
        return Ok(());
    }
    if subpages == 0 || subpages > SUBPAGES_MAX || !geometry.page_bytes.is_multiple_of(subpages) {
        return refused(format!(
            "subpages must be from 1 to {SUBPAGES_MAX} and divide page_bytes, {}",
            geometry.page_bytes
        ));
    }
    if packing_pages == 0 || packing_pages > PACKING_PAGES_MAX {
        return refused(format!("packing_pages must be from 1 to {PACKING_PAGES_MAX}"));
    }
    let places = u64::from(geometry.pages()) * u64::from(subpages)
        + u64::from(packing_slots(subpages, packing_pages));
    if places >= 1 << 30 {
        return refused(format!("{places} sub-pages are more than a mapping entry can name, 2^30"));
    }
    if settings.map_cache_bytes > 0 {
        return refused(
            "a drive that packs several pages or codewords into a flash page keeps its whole map \
             in DRAM: a flash page changes as many entries as it holds of them, all at once; \
             map_cache_bytes must be 0"
                .into(),
        );
    }
    Ok(())
}

/// Blocks of each plane that the hot pool gets: its data, and the share of the spare space that
/// makes the whole write the least.
fn hot_blocks(geometry: &Geometry, settings: &FtlSettings, alpha: f64) -> Option<u32> {
    let Temperature::HotRange { hot_pages, hot_writes_permille } = settings.temperature else {
        return None;
    };
    let per_page = f64::from(settings.logical_per_page());
    let mapped = f64::from(settings.logical_pages) / per_page;
    let hot_pages = f64::from(hot_pages) / per_page;
    let data = hot_pages / mapped;
    let writes = f64::from(hot_writes_permille) / 1000.0;
    let pages_per_block = geometry.pages_per_block;
    let pool = |alpha: f64| theory::greedy(alpha, pages_per_block);
    let (_, spare) = theory::two_pools(alpha.max(1.001), writes, data, pool);
    let pages = hot_pages + (alpha - 1.0).max(0.001) * mapped * spare;
    let blocks = pages / f64::from(geometry.planes()) / f64::from(pages_per_block);
    // Half of each of its two open blocks is not written yet.
    Some(blocks.round() as u32 + 1)
}
