//! Runs an estimate: one thread walks, the others read and count.
//! Room: onefold-estimate.   In: paths and options.   Out: a [`Partial`] result.
//! Invariants: the result does not depend on the number of threads.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::error::EstimateError;
use crate::files::FileTable;
use crate::image::Inside;
use crate::options::{Options, Plan, SEGMENT_BYTES, Shard};
use crate::partial::Partial;
use crate::progress::Progress;
use crate::queue::Queue;
use crate::table::Table;
use crate::walk::{Breakdown, FileRef, check_inputs, hash_bytes, walk};
use crate::worker::{Piece, ScanFacts, Shared, Tally, Worker};

/// A unit of work is closed at this many bytes to read, or pieces.
const UNIT_BYTES: u64 = 4 << 20;
const UNIT_PIECES: usize = 64;
/// Memory of a waiting piece beside its path.
const PIECE_BYTES: usize = 160;

impl Shared {
    pub(crate) fn new(plan: &Plan) -> Self {
        let tallies = vec![Tally::default(); plan.tables.len()];
        Self {
            tables: plan.tables.iter().map(|t| Table::new(t.capacity, t.owner)).collect(),
            breakdown: Mutex::new(Breakdown::default()),
            files: Mutex::new(FileTable::new(plan.file_records)),
            scan: Mutex::new(ScanFacts { tallies, ..ScanFacts::default() }),
        }
    }
}

/// Look at all inputs and count their chunks. Nothing is written anywhere. Returns early, with
/// what is known so far, when `progress` is cancelled.
pub fn scan(
    paths: &[PathBuf],
    options: &Options,
    progress: &Progress,
) -> Result<Partial, EstimateError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "for the report's speed; nothing is decided by it"
    )]
    let started = Instant::now();
    let plan = Plan::new(options)?;
    let mut notes = Vec::new();
    let inputs = check_inputs(paths, options.images, &mut notes)?;
    let shared = Shared::new(&plan);
    let queue: Queue<Vec<Piece>> = Queue::new(plan.queue_bytes);
    let (facts, images) = std::thread::scope(|scope| {
        for _ in 0..plan.threads {
            scope.spawn(|| {
                let mut worker = Worker::new(&plan, &shared, progress);
                while let Some(unit) = queue.pop() {
                    worker.work(unit);
                    if progress.is_cancelled() {
                        queue.abandon();
                    }
                }
                worker.finish();
            });
        }
        let mut dealer = Dealer::new(&queue, options.shard, progress);
        let facts = walk(&inputs, &plan, progress, &shared.breakdown, |file| dealer.file(file));
        dealer.close();
        facts
    });
    notes.extend(images.notes());
    if facts.links_forgotten {
        notes.push("more hard-linked files than fit the memory: some were counted twice".into());
    }
    let names = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let mut partial = Partial::new(plan, shared, names, facts);
    partial.header.notes = notes;
    partial.header.complete = !progress.is_cancelled();
    partial.header.elapsed_ns = started.elapsed().as_nanos() as u64;
    partial.header.run = run_identity();
    Ok(partial)
}

/// A number that no other run has: two results with one number are the same result twice.
#[expect(
    clippy::disallowed_methods,
    reason = "must differ from run to run; no figure depends on it"
)]
fn run_identity() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let machine = std::fs::read("/etc/machine-id").unwrap_or_default();
    let seed = hash_bytes(u64::from(std::process::id()), &machine);
    hash_bytes(seed, &now.to_le_bytes())
}

/// Cuts files into pieces, keeps those of this shard, and hands them on in units.
struct Dealer<'a> {
    queue: &'a Queue<Vec<Piece>>,
    shard: Shard,
    progress: &'a Progress,
    unit: Vec<Piece>,
    bytes: u64,
    price: usize,
}

impl<'a> Dealer<'a> {
    fn new(queue: &'a Queue<Vec<Piece>>, shard: Shard, progress: &'a Progress) -> Self {
        Self { queue, shard, progress, unit: Vec::new(), bytes: 0, price: 0 }
    }

    fn file(&mut self, file: FileRef) {
        let segments = match file.inside {
            Inside::Stream(_) => 1,
            _ => file.size.div_ceil(SEGMENT_BYTES).max(1),
        };
        let file = Arc::new(file);
        for segment in 0..segments {
            if self.progress.is_cancelled() {
                return;
            }
            if self.is_mine(file.place, segment) {
                let piece = Piece { file: Arc::clone(&file), segment };
                let bytes = piece.planned_bytes();
                self.progress.found(u64::from(segment == 0), bytes);
                self.bytes += bytes;
                self.price += file.path.as_os_str().len() + PIECE_BYTES;
                self.unit.push(piece);
                if self.bytes >= UNIT_BYTES || self.unit.len() == UNIT_PIECES {
                    self.deal();
                }
            }
        }
    }

    fn is_mine(&self, place: u64, segment: u64) -> bool {
        let Shard { index, count } = self.shard;
        let hash = hash_bytes(place, &segment.to_le_bytes());
        hash % u64::from(count) == u64::from(index)
    }

    fn deal(&mut self) {
        let unit = std::mem::take(&mut self.unit);
        self.queue.push(unit, self.price);
        (self.bytes, self.price) = (0, 0);
    }

    fn close(mut self) {
        self.deal();
        self.progress.found_all();
        if self.progress.is_cancelled() {
            self.queue.abandon();
        } else {
            self.queue.close();
        }
    }
}

/// The locked pieces of a finished run.
pub(crate) fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u32, size: u64) -> FileRef {
        FileRef {
            number,
            path: PathBuf::from("path").into(),
            group: 0,
            size,
            is_sparse: false,
            place: hash_bytes(1, &number.to_le_bytes()),
            is_input: false,
            inside: Inside::Bytes,
        }
    }

    #[test]
    fn units_have_sixty_four_pieces_or_four_mib() {
        let queue = Queue::new(usize::MAX);
        let progress = Progress::new();
        let mut dealer = Dealer::new(&queue, Shard::WHOLE, &progress);
        for number in 0..130 {
            dealer.file(file(number, 1));
        }
        // The rest of these two is dealt with the first that fills it.
        for size in [UNIT_BYTES - 3, 1, UNIT_BYTES, UNIT_BYTES - 1, 0, 1, 2 * SEGMENT_BYTES + 5] {
            dealer.file(file(200, size));
        }
        // Four letters each, and what a piece takes.
        let whole = 130 + 7 + 2;
        assert_eq!(queue.waiting_bytes(), (whole - 1) * 164, "all but the last are dealt");
        dealer.close();
        assert_eq!(queue.waiting_bytes(), whole * 164);
        let units: Vec<(usize, u64)> = std::iter::from_fn(|| queue.pop())
            .map(|unit| (unit.len(), unit.iter().map(Piece::planned_bytes).sum()))
            .collect();
        let wanted = [
            (64, 64),
            (64, 64),
            (4, UNIT_BYTES),
            (1, UNIT_BYTES),
            (3, UNIT_BYTES),
            (1, SEGMENT_BYTES),
            (1, SEGMENT_BYTES),
            (1, 5),
        ];
        assert_eq!(units, wanted);
        let found = progress.snapshot();
        assert_eq!(found.files_found, 137, "a file of three segments is one");
        assert_eq!(found.bytes_found, 130 + 3 * UNIT_BYTES - 2 + 2 * SEGMENT_BYTES + 5);
        assert!(found.found_all);
    }

    #[test]
    fn who_stops_gets_no_more_pieces_and_nobody_waits() {
        let queue = Queue::new(usize::MAX);
        let progress = Progress::new();
        let mut dealer = Dealer::new(&queue, Shard::WHOLE, &progress);
        dealer.file(file(0, UNIT_BYTES));
        progress.cancel();
        dealer.file(file(1, UNIT_BYTES));
        assert_eq!(progress.snapshot().files_found, 1);
        dealer.close();
        assert!(queue.pop().is_none(), "what waited is let go");
    }

    #[test]
    fn a_stream_is_one_piece_however_long() {
        let queue = Queue::new(usize::MAX);
        let progress = Progress::new();
        let mut dealer = Dealer::new(&queue, Shard::WHOLE, &progress);
        let inside = Inside::Stream(onefold_image::Format::Gzip);
        dealer.file(FileRef { inside, ..file(0, 3 * SEGMENT_BYTES) });
        dealer.close();
        let unit = queue.pop().unwrap();
        assert_eq!((unit.len(), unit[0].planned_bytes()), (1, 3 * SEGMENT_BYTES));
    }

    #[test]
    fn shards_share_out_every_piece_of_every_file_once() {
        let counts = |count: u32| {
            let mut taken = vec![0u32; 40 * 100];
            for index in 0..count {
                let queue = Queue::new(usize::MAX);
                let progress = Progress::new();
                let shard = Shard::new(index, count).unwrap();
                let mut dealer = Dealer::new(&queue, shard, &progress);
                for number in 0..100 {
                    dealer.file(FileRef {
                        number,
                        path: PathBuf::from("f").into(),
                        group: 0,
                        size: u64::from(number % 40) * SEGMENT_BYTES,
                        is_sparse: false,
                        place: hash_bytes(1, &number.to_le_bytes()),
                        is_input: false,
                        inside: Inside::Bytes,
                    });
                }
                dealer.close();
                while let Some(unit) = queue.pop() {
                    for piece in unit {
                        taken[piece.file.number as usize * 40 + piece.segment as usize] += 1;
                    }
                }
            }
            taken
        };
        let whole = counts(1);
        assert_eq!(whole.iter().sum::<u32>(), 3 + (0..100).map(|n| n % 40).sum::<u32>());
        assert!(whole.iter().all(|&times| times <= 1));
        assert_eq!(counts(3), whole);
        assert_eq!(counts(16), whole);
    }
}
