//! Space: which block each stream fills, what is free, and what is kept for whom.
//! Room: onefold-flash.   In: who wants a page.   Out: the page, or that there is none.
//! Invariants: live pages of a block = what was gained less what was lost there; the last free
//! block of a plane is for what collection moves; blocks of the FTL's own pages hold no data.
//! Cost: see `blocks`.

use crate::ftl::blocks::{BlockState, Blocks};
use crate::ftl::error::FtlError;
use crate::ftl::layout::Layout;
use crate::ftl::settings::{Durability, FtlSettings};
use crate::ftl::stream::{STREAMS, Stream};
use crate::ftl::turns::Turns;
use crate::nand::{Nand, Pattern};

/// Who fills the half-filled blocks that are found: first collection, which frees others.
const RESUMED: [Stream; STREAMS] =
    [Stream::Moved, Stream::Host, Stream::Apart, Stream::MovedHot, Stream::Levelled];

/// The blocks and who fills them.
#[derive(Debug)]
pub(super) struct Space<N> {
    layout: Layout<N>,
    settings: FtlSettings,
    blocks: Blocks,
    /// The open block of each stream in each plane.
    open: Vec<[Option<u32>; STREAMS]>,
    /// The open block of the FTL's own pages, if it has any.
    own: Option<u32>,
    has_own: bool,
    /// Blocks of the hot pool in each plane beyond which it is the one collected.
    hot_blocks: Option<u32>,
    turns: Turns,
    /// Whether the power has gone and the capacitor's energy is used.
    emergency: bool,
}

impl<N: Nand> Space<N> {
    /// The space of an empty drive. `has_own` is whether the FTL has pages of its own.
    pub fn new(
        layout: Layout<N>,
        settings: FtlSettings,
        blocks: Blocks,
        has_own: bool,
        hot_blocks: Option<u32>,
    ) -> Self {
        let planes = layout.geometry().planes();
        Self {
            layout,
            settings,
            blocks,
            open: vec![[None; STREAMS]; planes as usize],
            own: None,
            has_own,
            hot_blocks,
            turns: Turns::new(planes, has_own),
            emergency: false,
        }
    }

    /// The state of the blocks.
    #[inline]
    pub const fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Free blocks of a plane below which a victim is finished at once: one for the host's next
    /// block, one for the copies, and one for the FTL's own pages if there are any.
    #[inline]
    pub fn floor(&self) -> u32 {
        2 + u32::from(self.has_own)
    }

    /// Whether a plane has fewer free blocks than that.
    #[inline]
    pub fn is_below_floor(&self, plane: u32) -> bool {
        self.blocks.free_of(plane) < self.floor()
    }

    /// Whether a plane has more free blocks than the reserve, and none that has to be emptied.
    #[inline]
    pub fn is_at_ease(&self, plane: u32) -> bool {
        self.blocks.free_of(plane) > self.settings.gc_reserve_blocks
            && self.blocks.condemned_of(plane).is_none()
    }

    /// Whether a plane has fewer free blocks than idle moments are to leave.
    pub fn is_below_idle(&self, plane: u32) -> bool {
        let enough = self.settings.gc_idle_blocks.max(self.settings.gc_reserve_blocks + 1);
        self.blocks.free_of(plane) < enough
    }

    /// Whether so many pages of the host could not be programmed in a plane without collecting
    /// meanwhile; but never because of more free blocks than idle moments are to leave.
    pub fn is_short(&self, plane: u32, pages: u64) -> bool {
        let per_block = self.layout.geometry().pages_per_block;
        let open = self.open[plane as usize][Stream::Host as usize];
        let room = open.map_or(0, |block| per_block - self.blocks.written(block));
        let blocks = pages.saturating_sub(room.into()).div_ceil(per_block.into());
        let least = u64::from(self.settings.gc_reserve_blocks + 1);
        let most = least.max(self.settings.gc_idle_blocks.into());
        u64::from(self.blocks.free_of(plane)) < (least + blocks).min(most)
    }

    /// Whether collection in a plane can always free a block.
    #[inline]
    fn has_room(&self, plane: u32) -> bool {
        leaves_room(&self.blocks, plane, self.kept(), self.layout.dense_places())
    }

    /// Blocks of a plane that are not for what is live, so that some victim always frees something.
    /// A block that is being filled is no victim, however little of it is live: when there is one
    /// free block too few, these, those of host and collection, and one of each further stream hold
    /// nothing that could be freed.
    #[inline]
    fn kept(&self) -> u32 {
        self.floor() + 1 + self.settings.further_streams()
    }

    /// Whether collection frees what the host needs, as it does until too many blocks are bad.
    pub fn may_write(&self) -> bool {
        (0..self.layout.geometry().planes()).any(|plane| !self.is_below_floor(plane))
    }

    /// Whether the pool to collect is the hot one, where there are two.
    pub fn hot_pool_is_due(&self, plane: u32) -> Option<bool> {
        self.hot_blocks.map(|target| self.blocks.hot_of(plane) > target)
    }

    /// The plane that the next host page goes to: the preferred one, or the next in turn that is
    /// not so full of live pages that collecting it would free nothing. For a page with a pattern
    /// it is the first, from there on, in which nothing like it was written last.
    ///
    /// # Errors
    /// [`FtlError::NoSpace`].
    #[inline]
    pub fn choose_plane(
        &mut self,
        stream: Stream,
        pattern: Option<Pattern>,
        preferred: Option<u32>,
    ) -> Result<u32, FtlError> {
        let first = match preferred.filter(|&plane| self.has_room(plane)) {
            Some(plane) => plane,
            None => self.plane_in_turn()?,
        };
        let Some(pattern) = pattern else { return Ok(first) };
        let least = self.turns.least_alike(stream, pattern, first, |plane| self.has_room(plane));
        Ok(least.unwrap_or(first))
    }

    fn plane_in_turn(&mut self) -> Result<u32, FtlError> {
        let (kept, dense, blocks) = (self.kept(), self.layout.dense_places(), &self.blocks);
        let next = self.turns.next(|plane| leaves_room(blocks, plane, kept, dense));
        next.ok_or_else(|| self.blocks.no_space())
    }

    /// What a page that was programmed for the host looks like.
    pub fn note_pattern(&mut self, plane: u32, stream: Stream, pattern: Option<Pattern>) {
        self.turns.note(plane, stream, pattern);
    }

    /// The next flash page of a stream's open block in a plane.
    ///
    /// # Errors
    /// [`FtlError::NoSpace`].
    #[inline]
    pub fn next_page(&mut self, plane: u32, stream: Stream, seq: u64) -> Result<u32, FtlError> {
        let open = self.open[plane as usize][stream as usize];
        let block = match open {
            Some(block) if !self.blocks.is_full(block) => block,
            _ => self.open_block(plane, stream, seq)?,
        };
        Ok(self.layout.geometry().first_page(block) + self.blocks.append(block))
    }

    fn open_block(&mut self, plane: u32, stream: Stream, seq: u64) -> Result<u32, FtlError> {
        if let Some(full) = self.open[plane as usize][stream as usize].take() {
            self.blocks.close(full, seq);
        }
        self.turns.forget(plane, stream);
        // The last free block is for what collection moves; else there would be no way out.
        if stream.is_host() && self.blocks.free_of(plane) < 2 {
            return Err(self.blocks.no_space());
        }
        let Some(block) = self.blocks.take_free(plane, stream == Stream::Levelled) else {
            return Err(self.blocks.no_space());
        };
        if self.hot_blocks.is_some() && matches!(stream, Stream::Apart | Stream::MovedHot) {
            self.blocks.make_hot(block);
        }
        self.open[plane as usize][stream as usize] = Some(block);
        Ok(block)
    }

    /// A program in an open block failed: it is filled no more.
    pub fn give_up(&mut self, block: u32) {
        let open = self.open.iter_mut().flatten().chain([&mut self.own]);
        open.filter(|open| **open == Some(block)).for_each(|open| *open = None);
        self.blocks.condemn(block);
    }

    /// Whether the open block of the FTL's own pages holds more than so many of them; a quarter of
    /// a block is always enough.
    #[inline]
    pub fn has_own_pages(&self, more_than: u32) -> bool {
        self.own.is_some_and(|open| {
            let pages = self.layout.geometry().pages_per_block;
            pages - self.blocks.written(open) > more_than.min(pages / 4)
        })
    }

    /// The place of the next page of the FTL's own; nothing if a block must be opened first.
    pub fn next_own_place(&mut self) -> Option<u32> {
        // The last page of a block is for what power-loss protection stores in the end.
        let protected = self.settings.durability == Durability::Protected;
        let kept = u32::from(protected && !self.emergency);
        let limit = self.layout.geometry().pages_per_block - kept;
        let block = self.own.filter(|&block| self.blocks.written(block) < limit)?;
        Some(self.append(block))
    }

    /// Appends a page to an open block; the answer is its place.
    pub fn append(&mut self, block: u32) -> u32 {
        let page = self.layout.geometry().first_page(block) + self.blocks.append(block);
        self.layout.place_of(page)
    }

    /// A page of the FTL's own was programmed at a place.
    pub fn own_programmed(&mut self, place: u32) {
        self.turns.passed(self.layout.plane_of(place));
    }

    /// The plane with most free blocks.
    fn roomiest(&self) -> Option<u32> {
        let planes = 0..self.layout.geometry().planes();
        planes.max_by_key(|&plane| (self.blocks.free_of(plane), u32::MAX - plane))
    }

    /// A block that holds nothing live and may be erased, if no plane has two free blocks.
    pub fn dead_block_in_need(&self, may_go: impl Fn(u64) -> bool) -> Option<u32> {
        let need = self.roomiest().is_some_and(|plane| self.blocks.free_of(plane) < 2);
        let dead = |&block: &u32| self.blocks.is_dead(block) && may_go(self.blocks.needs(block));
        if need { (0..self.layout.geometry().blocks()).find(dead) } else { None }
    }

    /// Opens another block for the FTL's own pages, in the plane that has most.
    ///
    /// # Errors
    /// [`FtlError::NoSpace`].
    pub fn open_own(&mut self, seq: u64) -> Result<u32, FtlError> {
        let Some(block) = self.roomiest().and_then(|plane| self.take_free(plane)) else {
            return Err(self.blocks.no_space());
        };
        if let Some(full) = self.own.replace(block) {
            self.blocks.close(full, seq);
        }
        Ok(block)
    }

    /// The power has gone, and a capacitor's energy is left; or that is over.
    pub const fn set_emergency(&mut self, emergency: bool) {
        self.emergency = emergency;
    }

    /// Whether a capacitor's energy is all that is left.
    pub const fn is_emergency(&self) -> bool {
        self.emergency
    }

    /// The place of a page of any open block, when the power has gone and there is no other.
    /// Recovery finds it, because it looks at every page of the blocks that were open.
    ///
    /// # Errors
    /// [`FtlError::NoSpace`].
    pub fn any_place(&mut self, seq: u64) -> Result<u32, FtlError> {
        let mut open = self.open.iter().flatten().flatten().copied();
        let block = match open.find(|&block| !self.blocks.is_full(block)) {
            Some(block) => block,
            None => self.open_last_block(seq)?,
        };
        Ok(self.append(block))
    }

    /// A block that collection would have needed, now that there is none.
    fn open_last_block(&mut self, seq: u64) -> Result<u32, FtlError> {
        for plane in 0..self.layout.geometry().planes() {
            if let Some(block) = self.take_free(plane) {
                let open = &mut self.open[plane as usize][Stream::Host as usize];
                if let Some(full) = open.replace(block) {
                    self.blocks.close(full, seq);
                }
                return Ok(block);
            }
        }
        Err(self.blocks.no_space())
    }

    /// Flash pages that can be programmed when the power has gone, but for those of the two blocks
    /// that have most of them: so many may fail until then, and in the rescue itself.
    pub fn rescue_pages(&self) -> u32 {
        let geometry = self.layout.geometry();
        let pages = geometry.pages_per_block;
        let free: u32 = (0..geometry.planes()).map(|plane| self.blocks.free_of(plane)).sum();
        let (mut all, mut most) = (free * pages, [pages * free.min(1), pages * (free / 2).min(1)]);
        for block in self.open_blocks() {
            let left = pages - self.blocks.written(block);
            all += left;
            if left > most[0] {
                most = [left, most[0]];
            } else {
                most[1] = most[1].max(left);
            }
        }
        all - most[0] - most[1]
    }

    /// The open block of a stream in a plane.
    #[cfg(test)]
    pub fn open_of(&self, plane: u32, stream: Stream) -> Option<u32> {
        self.open[plane as usize][stream as usize]
    }

    /// Open blocks that hold data.
    pub fn open_blocks(&self) -> impl Iterator<Item = u32> {
        self.open.iter().flatten().flatten().copied()
    }

    /// Takes the least worn free block of a plane.
    pub fn take_free(&mut self, plane: u32) -> Option<u32> {
        self.blocks.take_free(plane, false)
    }

    /// A block goes on being filled by a stream.
    pub fn hand_to(&mut self, plane: u32, stream: Stream, block: u32) {
        self.open[plane as usize][stream as usize] = Some(block);
    }

    /// Closes an open block that no stream fills.
    pub fn close(&mut self, block: u32, seq: u64) {
        self.blocks.close(block, seq);
    }

    /// So many more live sub-pages at a place.
    #[inline]
    pub fn gain(&mut self, place: u32, subpages: u32) {
        self.blocks.gain(self.layout.block_of(place), subpages);
    }

    /// So many live sub-pages less at a place. If a record says so, its block must not be erased
    /// before that is durable.
    #[inline]
    pub fn lose(&mut self, place: u32, subpages: u32, because_of: Option<u64>) {
        let block = self.layout.block_of(place);
        self.blocks.lose(block, subpages);
        if let Some(seq) = because_of {
            self.blocks.need(block, seq);
        }
    }

    /// No block may be erased before a record is durable.
    pub fn all_need(&mut self, seq: u64) {
        for block in 0..self.layout.geometry().blocks() {
            self.blocks.need(block, seq);
        }
    }

    /// What is live at a place will soon die.
    #[inline]
    pub fn prefetch(&self, place: u32) {
        self.blocks.prefetch(self.layout.block_of(place));
    }

    /// Takes a full block out of the choice of victims.
    pub fn begin_collection(&mut self, block: u32) {
        if self.blocks.state(block) == BlockState::Full {
            self.blocks.begin_collection(block);
        }
    }

    /// A block was erased.
    pub fn erased(&mut self, block: u32) {
        self.blocks.erased(block);
    }

    /// A block is taken out of use.
    pub fn retire(&mut self, block: u32) {
        self.blocks.retire(block);
    }

    /// The erase count that a checkpoint remembers.
    pub fn restore_erases(&mut self, block: u32, erases: u32) {
        self.blocks.restore_erases(block, erases);
    }

    /// A bad block with data in it failed and was not emptied before the power went.
    pub fn restore_bad(&mut self, block: u32) {
        if self.blocks.live(block) > 0 {
            self.blocks.condemn_retired(block);
        }
    }

    /// A block was found with so many pages programmed, the newest at a sequence: it is full, or
    /// goes on being filled.
    pub fn restore(&mut self, block: u32, own: bool, written: u32, closed_at: u64) {
        let plane = self.layout.geometry().plane_of_block(block) as usize;
        let state = if written == self.layout.geometry().pages_per_block {
            BlockState::Full
        } else if own && self.own.is_none() {
            self.own = Some(block);
            BlockState::Open
        } else if !own && let Some(stream) = self.next_resumed(plane) {
            self.open[plane][stream as usize] = Some(block);
            BlockState::Open
        } else {
            BlockState::Full
        };
        self.blocks.restore(block, state, written, closed_at);
    }

    fn next_resumed(&self, plane: usize) -> Option<Stream> {
        let open = &self.open[plane];
        RESUMED.into_iter().find(|&stream| open[stream as usize].is_none())
    }

    /// A block was found that holds nothing readable: it is to be erased.
    pub fn restore_unreadable(&mut self, block: u32, written: u32) {
        self.blocks.restore(block, BlockState::Full, written, 0);
    }
}

/// Whether not all that a plane has, but for what is kept, is live.
#[inline]
fn leaves_room(blocks: &Blocks, plane: u32, kept: u32, dense_places: u32) -> bool {
    let good = blocks.good_of(plane).saturating_sub(kept);
    blocks.live_of_plane(plane) < good * dense_places
}
