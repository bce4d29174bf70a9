//! Media in memory that lose power, run full, fail and rot on command, the same way every time.
//! Room: onefold-block.
//!
//! What a power cut leaves ([`SimFolder::after_crash`]):
//! - each 512-byte sector of a file is what it was at the file's last successful sync, or after
//!   any one of the writes, cuts and punches since: writes tear between sectors, never inside;
//! - the length of a file is chosen alike, on its own; bytes that were never stored are zeroes;
//! - each name shows what it showed at the last successful `sync_names` of its folder, or after
//!   any one of the creations, removals and renamings since, each name on its own: a renamed file
//!   may have both names or neither. Syncing a file does not make its name durable;
//! - what was pending when a sync failed may survive or not, whatever is synced later;
//! - a folder whose removal did not become durable holds what it held.
//!
//! Invariants: same calls, same seed: same bytes, names and errors. Cost: one lock over all.

mod crash;
mod fault;
mod file;
mod space;
mod world;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

pub use crash::CrashMode;
pub use fault::{FaultKind, OpKind};
pub use file::SECTOR_BYTES;

use file::SimFile;
use space::{PAGE_BYTES, touched_pages};
use world::{Admitted, Dir, NodeKind, ROOT, World, io_error};

use crate::media::{Folder, Media, MediaError};

/// Largest length of a simulated file, in bytes, as on a real system.
const LEN_MAX: u64 = i64::MAX as u64;

/// The bytes that an operation on names concerns, or a sync.
const NO_RANGE: (u64, u64) = (0, 0);

/// A folder of simulated media. Clones are the same folder.
#[derive(Clone, Debug)]
pub struct SimFolder {
    world: Arc<Mutex<World>>,
    node: u64,
}

#[derive(Debug)]
struct SimMedia {
    world: Arc<Mutex<World>>,
    node: u64,
}

impl Default for SimFolder {
    fn default() -> Self {
        Self::new()
    }
}

impl SimFolder {
    /// An empty disk without limits or faults.
    pub fn new() -> Self {
        Self::of(World::new(None))
    }

    fn of(world: World) -> Self {
        Self { world: Arc::new(Mutex::new(world)), node: ROOT }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    /// How many operations ([`OpKind::COUNTED`]) there have been; the next has the next number.
    pub fn op_count(&self) -> u64 {
        self.world().log.count()
    }

    /// The operations so far, one a line, for the message of a failing test.
    pub fn op_log(&self) -> String {
        self.world().log.to_string()
    }

    /// The operations behind the first `seen`, one a line and without their numbers, for a text of
    /// all that is done; `seen` then takes these in.
    pub fn ops_since(&self, seen: &mut usize) -> String {
        let log = self.op_log();
        let mut told = String::new();
        for line in log.lines().skip(*seen) {
            told.push_str(line.trim_start().split_once(' ').map_or("", |(_, operation)| operation));
            told.push('\n');
            *seen += 1;
        }
        told
    }

    /// Cut the power during operation number `op` (the first ever is 1): it fails, having had
    /// its effect as something pending, and everything after it fails. If that number has
    /// passed, the power is gone at once.
    pub fn crash_at(&self, op: u64) {
        self.world().crash_at(op);
    }

    /// Whether the power is gone.
    pub fn has_crashed(&self) -> bool {
        self.world().crashed
    }

    /// The whole disk as a power cut now (or the one that has happened) may leave it, powered on
    /// again: nothing pending, no faults, operations counted from zero, the same capacity.
    #[must_use]
    pub fn after_crash(&self, seed: u64, mode: CrashMode) -> Self {
        Self::of(crash::after_crash(&self.world(), seed, mode))
    }

    /// Make the `nth` operation from now among `kinds` fail (1 is the next). A failed write has
    /// stored the first half of its sectors; a failed sync leaves all that was pending in doubt
    /// for good; anything else that fails has done nothing.
    pub fn fail_once(&self, kinds: &[OpKind], nth: u64, fault: FaultKind) {
        self.world().faults.add(kinds, nth, false, fault);
    }

    /// Make every operation among `kinds` fail from the `nth` on, until
    /// [`SimFolder::clear_faults`].
    pub fn fail_from(&self, kinds: &[OpKind], nth: u64, fault: FaultKind) {
        self.world().faults.add(kinds, nth, true, fault);
    }

    /// Forget all planned faults.
    pub fn clear_faults(&self) {
        self.world().faults = fault::FaultPlan::default();
    }

    /// Give the disk a size in bytes, or none. Whole 4 KiB pages are taken by data and by
    /// reservations; when there are none left, a write stores what fits and fails, and what is
    /// reserved keeps what it got.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world().capacity_bytes = bytes;
    }

    /// Be a disk that says of itself that punching gives no single page back
    /// ([`Folder::gives_pages_back`]).
    pub fn keep_pages(&self) {
        self.world().keeps_pages = true;
    }

    /// Bytes taken by files that have a name or an open handle, reservations included.
    pub fn used_bytes(&self) -> u64 {
        self.world().used_bytes()
    }

    /// Flip one bit at rest: `bit` 0 to 7 of the byte at `offset` of `name` (with its folders,
    /// as in `a/b`). What was pending in that file becomes durable first.
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u8) -> Result<(), MediaError> {
        assert!(bit < 8, "a byte has bits 0 to 7");
        self.damage(name, |file| {
            if offset >= file.len() {
                return Err((file.len(), offset));
            }
            let mut byte = [0];
            file.read(offset, &mut byte);
            file.write(0, offset, &[byte[0] ^ (1 << bit)]);
            Ok(())
        })
    }

    /// Lose the end of a file at rest, so that `len` bytes stay; a file that is not longer stays
    /// as it is. What was pending in that file becomes durable first.
    pub fn truncate(&self, name: &str, len: u64) -> Result<(), MediaError> {
        self.damage(name, |file| {
            if len < file.len() {
                file.set_len(0, len);
            }
            Ok(())
        })
    }

    fn damage(
        &self,
        name: &str,
        deed: impl FnOnce(&mut SimFile) -> Result<(), (u64, u64)>,
    ) -> Result<(), MediaError> {
        let mut world = self.world();
        let mut node = Some(self.node);
        for part in name.split('/') {
            node = node.and_then(|folder| match &world.nodes[&folder].kind {
                NodeKind::Dir(_) => world.lookup(folder, part),
                NodeKind::File(_) => None,
            });
        }
        let found = node.and_then(|id| world.nodes.get_mut(&id)).map(|node| &mut node.kind);
        let Some(NodeKind::File(file)) = found else {
            return Err(MediaError::NotFound { name: name.to_owned() });
        };
        file.settle();
        let result = deed(file);
        file.settle();
        result.map_err(|(len, offset)| MediaError::Truncated {
            name: name.to_owned(),
            len,
            offset,
            end: offset.saturating_add(1),
        })
    }

    /// Remove a name if what it shows may go.
    fn remove_name(
        &self,
        name: &str,
        may_go: impl FnOnce(&World, u64) -> Result<(), MediaError>,
    ) -> Result<(), MediaError> {
        let mut world = self.world();
        let path = world.child_path(OpKind::Remove, self.node, name)?;
        world.alive(OpKind::Remove, &path)?;
        let node = world
            .lookup(self.node, name)
            .ok_or_else(|| MediaError::NotFound { name: path.to_string() })?;
        may_go(&world, node)?;
        let admitted = world.admit(OpKind::Remove, &path, NO_RANGE)?;
        world.set_name(admitted.number(), self.node, name, None);
        admitted.finish()
    }

    fn media(&self, world: &mut World, node: u64) -> Arc<dyn Media> {
        if let Some(node) = world.nodes.get_mut(&node) {
            node.handles += 1;
        }
        Arc::new(SimMedia { world: Arc::clone(&self.world), node })
    }
}

impl Folder for SimFolder {
    fn open(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        let mut world = self.world();
        let path = world.child_path(OpKind::Open, self.node, name)?;
        world.pass(OpKind::Open, &path)?;
        let node = world
            .lookup(self.node, name)
            .ok_or_else(|| MediaError::NotFound { name: path.to_string() })?;
        refuse_folder(&world, OpKind::Open, node)?;
        Ok(self.media(&mut world, node))
    }

    fn create(&self, name: &str) -> Result<Arc<dyn Media>, MediaError> {
        let mut world = self.world();
        let path = world.child_path(OpKind::Create, self.node, name)?;
        let old = world.lookup(self.node, name);
        if let Some(node) = old {
            refuse_folder(&world, OpKind::Create, node)?;
        }
        let admitted = world.admit(OpKind::Create, &path, NO_RANGE)?;
        let op = admitted.number();
        let node = match old {
            Some(node) => {
                world.file_mut(node).set_len(op, 0);
                node
            }
            None => world.link(op, self.node, name, NodeKind::File(SimFile::default())),
        };
        admitted.finish()?;
        Ok(self.media(&mut world, node))
    }

    fn remove(&self, name: &str) -> Result<(), MediaError> {
        self.remove_name(name, |world, node| refuse_folder(world, OpKind::Remove, node))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), MediaError> {
        let mut world = self.world();
        let path = world.child_path(OpKind::Rename, self.node, from)?;
        let target = world.child_path(OpKind::Rename, self.node, to)?;
        world.alive(OpKind::Rename, &path)?;
        let node = world
            .lookup(self.node, from)
            .ok_or_else(|| MediaError::NotFound { name: path.to_string() })?;
        for node in [Some(node), world.lookup(self.node, to)].into_iter().flatten() {
            refuse_folder(&world, OpKind::Rename, node)?;
        }
        let admitted = world.admit(OpKind::Rename, &path, NO_RANGE)?;
        if from != to {
            world.rename(admitted.number(), self.node, from, to, target);
        }
        admitted.finish()
    }

    fn list(&self) -> Result<Vec<String>, MediaError> {
        let world = self.world();
        world.alive(OpKind::Open, &world.path(self.node))?;
        world.must_be_there(self.node)?;
        let is_file = |name: &&String| {
            let node = world.lookup(self.node, name);
            node.is_some_and(|node| matches!(world.nodes[&node].kind, NodeKind::File(_)))
        };
        Ok(world.dir(self.node).names.keys().filter(is_file).cloned().collect())
    }

    fn sync_names(&self) -> Result<(), MediaError> {
        let mut world = self.world();
        let path = world.path(self.node);
        world.alive(OpKind::SyncNames, &path)?;
        world.must_be_there(self.node)?;
        let admitted = world.admit(OpKind::SyncNames, &path, NO_RANGE)?;
        match admitted {
            Admitted::Whole(_) => world.sync_names(self.node),
            Admitted::Partial(..) if world.crashed => {}
            Admitted::Partial(..) => world.fail_sync_names(self.node),
        }
        admitted.finish()
    }

    fn gives_pages_back(&self) -> bool {
        !self.world().keeps_pages
    }

    fn subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        let mut world = self.world();
        let path = world.child_path(OpKind::Create, self.node, name)?;
        world.alive(OpKind::Open, &path)?;
        let node = match world.lookup(self.node, name) {
            Some(node) if matches!(world.nodes[&node].kind, NodeKind::Dir(_)) => node,
            Some(_) => return Err(io_error(OpKind::Open, &path, Errno::NOTDIR.into())),
            None => {
                let admitted = world.admit(OpKind::Create, &path, NO_RANGE)?;
                let kind = NodeKind::Dir(Dir::default());
                let node = world.link(admitted.number(), self.node, name, kind);
                admitted.finish()?;
                node
            }
        };
        Ok(Arc::new(Self { world: Arc::clone(&self.world), node }))
    }

    fn existing_subfolder(&self, name: &str) -> Result<Arc<dyn Folder>, MediaError> {
        let world = self.world();
        let path = world.child_path(OpKind::Open, self.node, name)?;
        world.alive(OpKind::Open, &path)?;
        match world.lookup(self.node, name) {
            Some(node) if matches!(world.nodes[&node].kind, NodeKind::Dir(_)) => {
                Ok(Arc::new(Self { world: Arc::clone(&self.world), node }))
            }
            Some(_) => Err(io_error(OpKind::Open, &path, Errno::NOTDIR.into())),
            None => Err(MediaError::NotFound { name: path.to_string() }),
        }
    }

    fn remove_subfolder(&self, name: &str) -> Result<(), MediaError> {
        self.remove_name(name, |world, node| {
            let errno = match &world.nodes[&node].kind {
                NodeKind::Dir(dir) if dir.is_empty() => return Ok(()),
                NodeKind::Dir(_) => Errno::NOTEMPTY,
                NodeKind::File(_) => Errno::NOTDIR,
            };
            Err(io_error(OpKind::Remove, &world.path(node), errno.into()))
        })
    }
}

impl Media for SimMedia {
    fn len(&self) -> Result<u64, MediaError> {
        let world = self.world();
        world.alive(OpKind::Read, &world.path(self.node))?;
        Ok(world.file(self.node).len())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let mut world = self.world();
        let path = world.path(self.node);
        world.pass(OpKind::Read, &path)?;
        let file = world.file(self.node);
        let (end, len) = (offset.saturating_add(buf.len() as u64), file.len());
        if end > len && !buf.is_empty() {
            return Err(MediaError::Truncated { name: path.to_string(), len, offset, end });
        }
        file.read(offset, buf);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        let mut world = self.world();
        let path = world.path(self.node);
        let end = checked_end(OpKind::Write, &path, offset, data.len() as u64)?;
        let admitted = world.admit(OpKind::Write, &path, (offset, data.len() as u64))?;
        let fits = free_prefix(&world, self.node, offset, data.len() as u64) as usize;
        let crashed = world.crashed;
        let stored = match &admitted {
            Admitted::Partial(..) if !crashed => {
                // The first half of its sectors; a write inside one sector stores nothing.
                let sectors = end.div_ceil(SECTOR_BYTES) - offset / SECTOR_BYTES;
                let stop = (offset / SECTOR_BYTES + sectors / 2) * SECTOR_BYTES;
                (stop.saturating_sub(offset) as usize).min(fits)
            }
            _ => fits,
        };
        world.file_mut(self.node).write(admitted.number(), offset, &data[..stored]);
        admitted.finish()?;
        if stored < data.len() { Err(world.full(&path)) } else { Ok(()) }
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        let mut world = self.world();
        let path = world.path(self.node);
        checked_end(OpKind::SetLen, &path, 0, len)?;
        let admitted = world.admit(OpKind::SetLen, &path, (0, len))?;
        world.file_mut(self.node).set_len(admitted.number(), len);
        admitted.finish()
    }

    fn sync(&self) -> Result<(), MediaError> {
        let mut world = self.world();
        let path = world.path(self.node);
        let admitted = world.admit(OpKind::Sync, &path, NO_RANGE)?;
        let crashed = world.crashed;
        let file = world.file_mut(self.node);
        match admitted {
            Admitted::Whole(_) => file.sync(),
            Admitted::Partial(..) if crashed => {}
            Admitted::Partial(..) => file.fail_sync(),
        }
        admitted.finish()
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        let mut world = self.world();
        let path = world.path(self.node);
        let end = checked_end(OpKind::Reserve, &path, offset, len)?;
        let admitted = world.admit(OpKind::Reserve, &path, (offset, len))?;
        let missing = world.file(self.node).space.missing(touched_pages(offset..end));
        let full = world.free_pages().is_some_and(|free| missing > free);
        // As real ones do, it keeps what it took until there was no more.
        let got = if full { free_prefix(&world, self.node, offset, len) } else { len };
        world.file_mut(self.node).reserve(offset..offset + got);
        admitted.finish()?;
        if full { Err(world.full(&path)) } else { Ok(()) }
    }

    fn punch(&self, offset: u64, len: u64) -> Result<(), MediaError> {
        let mut world = self.world();
        let path = world.path(self.node);
        let admitted = world.admit(OpKind::Punch, &path, (offset, len))?;
        let range = offset..offset.saturating_add(len);
        world.file_mut(self.node).punch(admitted.number(), range);
        admitted.finish()
    }

    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        let world = self.world();
        world.alive(OpKind::Read, &world.path(self.node))?;
        Ok(world.file(self.node).space.count() * PAGE_BYTES)
    }
}

impl SimMedia {
    fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }
}

impl Drop for SimMedia {
    fn drop(&mut self) {
        let mut world = lock(&self.world);
        if let Some(node) = world.nodes.get_mut(&self.node) {
            node.handles -= 1;
        }
        world.forget_if_unreachable(self.node);
    }
}

/// A test that fails while another thread holds the lock has said why; this one may go on.
fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refuse_folder(world: &World, kind: OpKind, node: u64) -> Result<(), MediaError> {
    match &world.nodes[&node].kind {
        NodeKind::File(_) => Ok(()),
        NodeKind::Dir(_) => Err(io_error(kind, &world.path(node), Errno::ISDIR.into())),
    }
}

fn checked_end(kind: OpKind, path: &str, offset: u64, len: u64) -> Result<u64, MediaError> {
    match offset.checked_add(len) {
        Some(end) if end <= LEN_MAX => Ok(end),
        _ => Err(io_error(kind, path, Errno::FBIG.into())),
    }
}

/// For how many bytes of a range there is space: all, or those up to the first page too many.
fn free_prefix(world: &World, node: u64, offset: u64, len: u64) -> u64 {
    let Some(mut free) = world.free_pages() else { return len };
    let space = &world.file(node).space;
    for page in touched_pages(offset..offset + len) {
        if space.contains(page) {
            continue;
        }
        if free == 0 {
            return (page * PAGE_BYTES).saturating_sub(offset);
        }
        free -= 1;
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_nothing_leads_to_are_forgotten() {
        let folder = SimFolder::new();
        let nodes = |folder: &SimFolder| folder.world().nodes.len();
        let media = folder.create("a").unwrap();
        folder.sync_names().unwrap();
        folder.rename("a", "b").unwrap();
        folder.remove("b").unwrap();
        drop(media);
        assert_eq!(nodes(&folder), 2, "its names are still durable");
        folder.sync_names().unwrap();
        assert_eq!(nodes(&folder), 1);
        let media = folder.create("a").unwrap();
        folder.remove("a").unwrap();
        folder.sync_names().unwrap();
        assert_eq!(nodes(&folder), 2, "it is open");
        drop(media);
        assert_eq!(nodes(&folder), 1);
    }

    #[test]
    fn a_folder_that_was_removed_is_of_no_use_and_may_come_back_with_the_power() {
        let folder = SimFolder::new();
        let inner = folder.subfolder("a").unwrap();
        inner.create("x").unwrap();
        inner.sync_names().unwrap();
        folder.sync_names().unwrap();
        inner.remove("x").unwrap();
        folder.remove_subfolder("a").unwrap();
        let gone = |done: Result<(), MediaError>| {
            assert!(matches!(done, Err(MediaError::NotFound { .. })), "{done:?}");
        };
        gone(inner.create("y").map(drop));
        gone(inner.subfolder("y").map(drop));
        gone(inner.list().map(drop));
        gone(inner.sync_names());
        let held = |disk: &SimFolder| {
            let inner = disk.existing_subfolder("a").ok()?;
            Some(inner.list().unwrap())
        };
        let cut = |folder: &SimFolder| held(&folder.after_crash(1, CrashMode::KeepNothing));
        assert_eq!(cut(&folder), Some(vec!["x".to_owned()]), "neither removal is durable");
        let again = folder.subfolder("a").unwrap();
        assert_eq!(held(&folder), Some(Vec::new()));
        again.create("z").unwrap();
        again.sync_names().unwrap();
        assert_eq!(cut(&folder), Some(vec!["x".to_owned()]));
        folder.sync_names().unwrap();
        assert_eq!(cut(&folder), Some(vec!["z".to_owned()]));
        gone(inner.list().map(drop));
    }

    #[test]
    fn a_file_is_as_long_as_the_system_can_say_and_no_longer() {
        let folder = SimFolder::new();
        let media = folder.create("a").unwrap();
        media.set_len(LEN_MAX).unwrap();
        assert!(media.set_len(LEN_MAX + 1).is_err());
        media.write(LEN_MAX - 1, &[1]).unwrap();
        assert!(media.write(LEN_MAX - 1, &[1; 2]).is_err());
        assert!(media.reserve(LEN_MAX, 1).is_err() && media.reserve(u64::MAX, 2).is_err());
        let mut byte = [0];
        media.read(LEN_MAX - 1, &mut byte).unwrap();
        assert_eq!(byte, [1]);
        media.read(LEN_MAX, &mut []).unwrap();
        assert!(media.read(LEN_MAX, &mut byte).is_err());
    }
}
