//! Copying between files and volumes: sparse, on several cores, in pieces.
//! Room: onefold.
//! Invariant: a copy that returns `Ok` wrote every byte; making it durable is the caller's.
//! Cost: one piece of memory per worker.

pub mod salvage;
pub mod source;
pub mod target;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use onefold_block::{BlockDevice, BlockError, Extent, ExtentKind, ZeroOptions};

use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::progress::Bar;
use source::{Content, Source};
use target::Target;

/// Bytes that are moved at once.
const PIECE_BYTES: usize = 1 << 20;
/// Workers at most: more than that wait for the disk, not for a core.
const WORKERS_MAX: usize = 8;

/// What a copy moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// All bytes, holes included.
    pub bytes: u64,
    /// Bytes of data.
    pub data_bytes: u64,
}

fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX)
}

/// Run `work` on several threads until one fails; the first failure is the result.
fn in_parallel(workers: usize, work: impl Fn(&AtomicBool) -> Result<()> + Sync) -> Result<()> {
    let stop = AtomicBool::new(false);
    let run = || {
        let result = work(&stop);
        if result.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        result
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(run)).collect();
        let mut result = run();
        for other in others {
            result = result.and(other.join().expect("a worker does not panic"));
        }
        result
    })
}

/// Copy a whole source over the start of a volume. Holes become holes; `blank` says that the
/// volume reads as zeroes already; `grow` makes it at least so large when it turns out too small.
pub fn import(
    source: Source,
    volume: &(impl BlockDevice + ?Sized),
    name: &str,
    blank: bool,
    grow: Option<&(dyn Fn(u64) -> Result<()> + Sync)>,
    bar: &Bar,
) -> Result<Moved> {
    let state = Mutex::new((source, Moved::default()));
    in_parallel(workers(), |stop| {
        let mut buf = Vec::with_capacity(PIECE_BYTES);
        while !stop.load(Ordering::Relaxed) && !interrupt::asked() {
            let (offset, content) = {
                let (source, moved) = &mut *state.lock().expect("no worker panics with the source");
                let offset = moved.bytes;
                let Some(content) = source.next_piece(PIECE_BYTES, &mut buf)? else { break };
                let len = content.len();
                if let Some(grow) = grow.filter(|_| volume.size_bytes() - offset < len) {
                    grow(offset + len)?;
                }
                if volume.size_bytes() - offset < len {
                    return Err(source.too_large(name, volume.size_bytes()));
                }
                moved.bytes += len;
                moved.data_bytes += if matches!(content, Content::Data(_)) { len } else { 0 };
                (offset, content)
            };
            let done = match content {
                Content::Data(len) => volume.write_at(offset, &buf[..len], false),
                Content::Hole(_) if blank => Ok(()),
                Content::Hole(len) => volume.write_zeroes(offset, len, ZeroOptions::default()),
            };
            done.map_err(|error| Failure::volume(name, &error))?;
            bar.inc(match content {
                Content::Data(len) => len as u64,
                Content::Hole(_) => 0,
            });
        }
        Ok(())
    })?;
    // Also where the source has ended: the same signal may have ended whoever wrote it.
    if interrupt::asked() {
        return Err(interrupt::failure(""));
    }
    let (_, moved) = state.into_inner().expect("no worker panics with the source");
    Ok(moved)
}

/// Bytes of a volume that a copy has to move.
pub fn data_bytes(volume: &(impl BlockDevice + ?Sized)) -> std::result::Result<u64, BlockError> {
    let mut walk = Walk::default();
    let mut total = 0;
    while let Some((_, extent)) = walk.next_piece(volume, u64::MAX)? {
        total += if extent.kind == ExtentKind::Data { extent.len_bytes } else { 0 };
    }
    Ok(total)
}

/// The failure of an export that meets a block which cannot be read.
pub fn unreadable(name: &str, error: &BlockError) -> Failure {
    let failure = Failure::volume(name, error);
    match error {
        BlockError::Corrupt(_) => {
            failure.hint("--skip-damaged goes on past what cannot be read, and lists it")
        }
        _ => failure,
    }
}

/// Copy a whole volume into a target.
pub fn export(
    volume: &(impl BlockDevice + ?Sized),
    name: &str,
    target: &Target,
    bar: &Bar,
) -> Result<Moved> {
    let state = Mutex::new((Walk::default(), Moved::default()));
    let workers = if target.is_stream() { 1 } else { workers() };
    let failed = |error: BlockError| unreadable(name, &error);
    in_parallel(workers, |stop| {
        let mut buf = vec![0; PIECE_BYTES];
        while !stop.load(Ordering::Relaxed) {
            let (offset, extent) = {
                let (walk, moved) = &mut *state.lock().expect("no worker panics with the walk");
                let piece = walk.next_piece(volume, PIECE_BYTES as u64).map_err(failed)?;
                let Some((offset, extent)) = piece else { break };
                moved.bytes += extent.len_bytes;
                if extent.kind == ExtentKind::Data {
                    moved.data_bytes += extent.len_bytes;
                }
                (offset, extent)
            };
            if extent.kind == ExtentKind::Data {
                let piece = &mut buf[..extent.len_bytes as usize];
                volume.read_at(offset, piece).map_err(failed)?;
                target.write(offset, piece)?;
                bar.inc(extent.len_bytes);
            } else {
                target.zero(offset, extent.len_bytes)?;
            }
        }
        Ok(())
    })?;
    let (_, moved) = state.into_inner().expect("no worker panics with the walk");
    Ok(moved)
}

/// The extents of a volume, one after another.
#[derive(Default)]
struct Walk {
    at: u64,
    extents: std::collections::VecDeque<Extent>,
}

impl Walk {
    /// The next extent and where it begins; a data extent is cut into pieces of `data_max`.
    fn next_piece(
        &mut self,
        volume: &(impl BlockDevice + ?Sized),
        data_max: u64,
    ) -> std::result::Result<Option<(u64, Extent)>, BlockError> {
        if self.extents.is_empty() {
            let rest = volume.size_bytes() - self.at;
            if rest == 0 {
                return Ok(None);
            }
            self.extents.extend(volume.block_status(self.at, rest)?);
        }
        let Some(extent) = self.extents.front_mut() else { return Ok(None) };
        let mut piece = *extent;
        if piece.kind == ExtentKind::Data {
            piece.len_bytes = piece.len_bytes.min(data_max);
        }
        extent.len_bytes -= piece.len_bytes;
        if extent.len_bytes == 0 {
            self.extents.pop_front();
        }
        let offset = self.at;
        self.at += piece.len_bytes;
        Ok(Some((offset, piece)))
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::MemDevice;

    use super::*;

    #[test]
    fn a_sparse_file_and_a_pipe_arrive_whole_and_leave_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (folder.path().join("in"), folder.path().join("out"));
        let mut bytes = vec![0u8; 5 << 20];
        for (at, byte) in bytes[1 << 20..3 << 20].iter_mut().enumerate() {
            *byte = (at * 7 + at / 251) as u8 | 1;
        }
        bytes[(5 << 20) - 1] = 9;
        let file = std::fs::File::create(&input).unwrap();
        file.set_len(5 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes[1 << 20..3 << 20], 1 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[9], (5 << 20) - 1).unwrap();
        let bar = Bar::hidden();
        let pipe = Source::stream(Box::new(std::io::Cursor::new(bytes.clone())));
        for (source, sparse) in
            [(Source::open(&input, onefold_image::Choice::Auto).unwrap(), true), (pipe, false)]
        {
            let volume = MemDevice::new(6 << 20);
            // Old data must not shine through holes.
            volume.write_at(0, &vec![0xee; 6 << 20], false).unwrap();
            let moved = import(source, &volume, "v", false, None, &bar).unwrap();
            assert_eq!(moved.bytes, 5 << 20);
            assert_eq!(moved.data_bytes < 3 << 20, sparse, "{moved:?}");
            let mut back = vec![0; 6 << 20];
            volume.read_at(0, &mut back).unwrap();
            assert!(back[..5 << 20] == bytes[..]);
            assert!(back[5 << 20..].iter().all(|&byte| byte == 0xee));
            let target = Target::open(&output, 6 << 20, true).unwrap();
            export(&volume, "v", &target, &bar).unwrap();
            target.finish().unwrap();
            assert!(std::fs::read(&output).unwrap() == back);
        }
    }

    #[test]
    fn a_source_that_turns_out_too_long_is_refused_at_the_end() {
        let volume = MemDevice::new(2 << 20);
        let source = Source::stream(Box::new(std::io::repeat(7)));
        let failure = import(source, &volume, "v", true, None, &Bar::hidden()).unwrap_err().message;
        assert!(failure.contains("more than the 2 MiB of volume 'v'"), "{failure}");
    }

    /// A disk with data at both ends and a hole between them, whose second MiB may be unreadable.
    fn holey() -> MemDevice {
        let volume = MemDevice::new(4 << 20);
        volume.write_at(0, &vec![7; 1 << 20], false).unwrap();
        volume.write_at(3 << 20, &vec![8; 1 << 20], false).unwrap();
        volume
    }

    #[test]
    fn what_a_copy_has_to_move_is_counted_and_shown() {
        let volume = holey();
        let data = data_bytes(&volume).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let target = Target::open(&path, 4 << 20, false).unwrap();
        let bar = Bar::hidden();
        let moved = export(&volume, "v", &target, &bar).unwrap();
        assert_eq!(moved, Moved { bytes: 4 << 20, data_bytes: data });
        assert_eq!(bar.counts().0, data);
        target.finish().unwrap();

        let bar = Bar::hidden();
        let back = MemDevice::new(4 << 20);
        let source = Source::open(&path, onefold_image::Choice::Raw).unwrap();
        let known = source.data_bytes().unwrap();
        let moved = import(source, &back, "v", true, None, &bar).unwrap();
        assert_eq!((moved.bytes, moved.data_bytes), (4 << 20, known));
        assert_eq!(bar.counts().0, known);
        let (mut a, mut b) = (vec![0; 4 << 20], vec![1; 4 << 20]);
        volume.read_at(0, &mut a).unwrap();
        back.read_at(0, &mut b).unwrap();
        assert!(a == b);
    }

    #[test]
    fn a_volume_grows_by_what_comes_and_not_for_what_just_fits() {
        let asked = Mutex::new(Vec::new());
        let grow = |needed: u64| {
            asked.lock().unwrap().push(needed);
            Ok(())
        };
        let bytes =
            |len: usize| -> Source { Source::stream(Box::new(std::io::Cursor::new(vec![7; len]))) };
        let bar = Bar::hidden();
        let volume = MemDevice::new(1 << 20);
        import(bytes(1 << 20), &volume, "v", true, Some(&grow), &bar).unwrap();
        assert!(asked.lock().unwrap().is_empty());
        // One that says that it grew and did not is too small all the same.
        let failure = import(bytes((1 << 20) + 5), &volume, "v", true, Some(&grow), &bar);
        assert!(failure.unwrap_err().message.contains("holds more than the 1 MiB"));
        assert_eq!(*asked.lock().unwrap(), [(1 << 20) + 5]);
        let never = |_: u64| Err(Failure::bad("full"));
        let failure = import(bytes((1 << 20) + 5), &volume, "v", true, Some(&never), &bar);
        assert_eq!(failure.unwrap_err().message, "full");
        let whole = vec![7; 1 << 20];
        let mut back = vec![0; 1 << 20];
        volume.read_at(0, &mut back).unwrap();
        assert!(back == whole);
    }

    #[test]
    fn the_first_failure_of_any_worker_ends_all_of_them() {
        use std::sync::atomic::AtomicUsize;

        let (begun, seen) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let failed = in_parallel(3, |stop| {
            if begun.fetch_add(1, Ordering::SeqCst) == 0 {
                return Err(Failure::bad("disk"));
            }
            while !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            seen.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        assert_eq!(failed.unwrap_err().message, "disk");
        assert_eq!((begun.into_inner(), seen.into_inner()), (3, 2));
        let alone = AtomicUsize::new(0);
        in_parallel(1, |stop| {
            assert!(!stop.load(Ordering::Relaxed));
            alone.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
        .unwrap();
        assert_eq!(alone.into_inner(), 1);
        assert!((1..=WORKERS_MAX).contains(&workers()));
    }

    #[test]
    fn a_walk_gives_data_in_pieces_and_holes_whole() {
        let volume = holey();
        let mut walk = Walk::default();
        let mut pieces = Vec::new();
        while let Some((offset, extent)) = walk.next_piece(&volume, 1 << 19).unwrap() {
            pieces.push((offset, extent.len_bytes, extent.kind == ExtentKind::Data));
        }
        let half = 1 << 19;
        let expected = [
            (0, half, true),
            (half, half, true),
            (2 * half, 4 * half, false),
            (6 * half, half, true),
            (7 * half, half, true),
        ];
        assert_eq!(pieces, expected);
        assert_eq!(data_bytes(&volume).unwrap(), 2 << 20);
    }

    #[test]
    fn only_damage_is_worth_going_past() {
        let hints = |error: &BlockError| unreadable("v", error).hints.len();
        assert_eq!(hints(&BlockError::Corrupt("block 3".to_owned())), 1);
        assert_eq!(hints(&BlockError::ShuttingDown), 0);
    }
}
