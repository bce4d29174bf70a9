//! Bytes of containers, in the pieces that whoever reads files will want.
//! Room: onefold-archive.   In: what a question about a file wants.   Out: stored bytes.
//! What one question wants of a container is one read where it lies side by side. More is read
//! where questions follow one another: up to the end of the file, and past it for who goes from
//! file to file in the order in which they are stored. Who reads files here and there pays for
//! nothing but them. Where a disk fails, less and less is read at once, so that what it has beside
//! can be read without waiting for each failure a hundred times.
//! Cost: the memory that is given, for what was read lately.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use onefold_block::{ContainerId, ContainerStore, StoreError};

/// Bytes of a container that are read for what follows on nothing, unless its file ends before.
const AHEAD_MIN: u64 = 128 << 10;
/// Bytes that are read at once at most, unless what is wanted first is larger.
pub const AHEAD_MAX: u64 = 1 << 20;
/// Bytes between two reads of which the second still follows on the first.
pub const GAP_BYTES: u64 = 64 << 10;
/// Files that must have been read one behind the other before the next one is expected.
const FILES_IN_A_ROW: u32 = 2;

/// What is wanted of a container beside the place that is wanted first.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Which file it is for: any number that others do not have.
    pub file: (usize, u64),
    /// Where that ends which this question wants.
    pub asked: u64,
    /// Where that ends which the file has side by side with it.
    pub whole: u64,
}

/// Bytes of a container that were read.
#[derive(Clone)]
pub struct Window {
    id: ContainerId,
    start: u64,
    bytes: Arc<Vec<u8>>,
    file: (usize, u64),
    /// How many files were read one behind the other before this one.
    files: u32,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn holds(&self, id: ContainerId, place: &Range<u64>) -> bool {
        self.id == id && self.start <= place.start && place.end <= self.end()
    }

    fn is_followed_by(&self, id: ContainerId, start: u64) -> bool {
        self.id == id && self.start <= start && start <= self.end() + GAP_BYTES
    }

    /// The bytes at a place that it was asked for.
    pub fn at(&self, place: &Range<u64>) -> &[u8] {
        &self.bytes[(place.start - self.start) as usize..(place.end - self.start) as usize]
    }
}

/// Where a read failed that was longer than what was wanted first.
struct Sick {
    id: ContainerId,
    place: Range<u64>,
    /// Bytes that are read at once there.
    at_once: u64,
}

/// What was read lately.
pub struct Windows {
    store: Arc<dyn ContainerStore>,
    kept: Mutex<VecDeque<Window>>,
    sick: Mutex<Option<Sick>>,
    bytes_max: u64,
}

impl Windows {
    /// Keeps so many bytes.
    pub fn new(store: Arc<dyn ContainerStore>, bytes_max: u64) -> Self {
        Self { store, kept: Mutex::default(), sick: Mutex::default(), bytes_max }
    }

    /// The bytes at this place of a container, and what is read along with them; `None` if it is
    /// shorter. What else is wanted is asked for only if something has to be read.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn get(
        &self,
        id: ContainerId,
        place: &Range<u64>,
        wanted: impl FnOnce() -> Wanted,
    ) -> Result<Option<Window>, StoreError> {
        let (mut before, mut file) = (0, (0, 0));
        let mut files = None;
        {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(window) = kept.iter().find(|window| window.holds(id, place)) {
                return Ok(Some(window.clone()));
            }
            for window in kept.iter().filter(|window| window.is_followed_by(id, place.start)) {
                before = before.max(window.bytes.len() as u64);
                if files.is_none_or(|files| files <= window.files) {
                    (files, file) = (Some(window.files), window.file);
                }
            }
        }
        let wanted = wanted();
        let files = files.map_or(0, |files| files + u32::from(file != wanted.file));
        let len = self.store.len(id)?;
        if place.end > len {
            return Ok(None);
        }
        let ahead = place.start + (2 * before).clamp(AHEAD_MIN, AHEAD_MAX);
        let asked = wanted.asked.min(place.start + AHEAD_MAX);
        let ahead = if files < FILES_IN_A_ROW { ahead.min(wanted.whole) } else { ahead };
        let to = self.short_of_sick(id, place.start, ahead.max(asked).min(len)).max(place.end);
        let mut bytes = vec![0; (to - place.start) as usize];
        if let Err(error) = self.store.read(id, place.start, &mut bytes) {
            if to == place.end {
                return Err(error);
            }
            // What cannot be read takes along nothing that can.
            self.note_failure(id, place.start..to);
            bytes.truncate((place.end - place.start) as usize);
            self.store.read(id, place.start, &mut bytes)?;
        }
        let bytes = Arc::new(bytes);
        let window = Window { id, start: place.start, bytes, file: wanted.file, files };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(window.clone());
        let mut total: u64 = kept.iter().map(|window| window.bytes.len() as u64).sum();
        while total > self.bytes_max {
            let Some(gone) = kept.pop_front() else { break };
            total -= gone.bytes.len() as u64;
        }
        Ok(Some(window))
    }

    /// Where a read ends that would go to `to`.
    fn short_of_sick(&self, id: ContainerId, from: u64, to: u64) -> u64 {
        let sick = self.sick.lock().unwrap_or_else(PoisonError::into_inner);
        let met = sick.as_ref().filter(|sick| sick.id == id && sick.place.contains(&from));
        met.map_or(to, |sick| to.min(from + sick.at_once))
    }

    /// A read of this place failed: half as much is read at once there from now on.
    fn note_failure(&self, id: ContainerId, place: Range<u64>) {
        let mut sick = self.sick.lock().unwrap_or_else(PoisonError::into_inner);
        let at_once = (place.end - place.start) / 2;
        let met = sick.as_mut().filter(|sick| sick.id == id && sick.place.contains(&place.start));
        if let Some(sick) = met {
            (sick.place.end, sick.at_once) = (sick.place.end.max(place.end), at_once);
        } else {
            *sick = Some(Sick { id, place, at_once });
        }
    }
}

#[cfg(test)]
pub mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use onefold_block::{FolderContainerStore, SimFolder, SplitMix64};

    use super::*;

    const KIB: u64 = 1 << 10;

    impl Windows {
        /// Where the reads that are kept began and ended, in the order in which they were made.
        pub fn reads(&self) -> Vec<Range<u64>> {
            let kept = self.kept.lock().unwrap();
            kept.iter().map(|window| window.start..window.end()).collect()
        }
    }

    /// Two containers of so many bytes, and as much memory as both have.
    fn windows(bytes: usize) -> (Windows, Vec<u8>) {
        let store = FolderContainerStore::new(Arc::new(SimFolder::new()));
        let data = SplitMix64::new(1).bytes(bytes);
        for id in [1, 2].map(ContainerId::new) {
            store.create(id, bytes as u64).unwrap();
            store.append(id, 0, &data).unwrap();
        }
        (Windows::new(Arc::new(store), 2 * bytes as u64), data)
    }

    /// Bytes of container 1 for a file that has `whole` side by side, of which `asked` are asked
    /// for; what was read for it.
    fn ask(windows: &Windows, file: u64, place: Range<u64>, asked: u64, whole: u64) -> Range<u64> {
        let wanted = Wanted { file: (0, file), asked, whole };
        let window = windows.get(ContainerId::new(1), &place, || wanted).unwrap().unwrap();
        window.start..window.end()
    }

    #[test]
    fn a_question_is_one_read_and_no_more_than_its_file() {
        let (windows, data) = windows(4 << 20);
        let start = 100_003;
        let place = start..start + 10;
        // All of a file of 300 KiB.
        let read = ask(&windows, 1, place.clone(), start + 300 * KIB, start + 300 * KIB);
        assert_eq!(read, start..start + 300 * KIB);
        // What is there is not read again, and nobody asks what else is wanted.
        let id = ContainerId::new(1);
        let end = start + 300 * KIB - 10..start + 300 * KIB;
        let window = windows.get(id, &end, || unreachable!()).unwrap().unwrap();
        assert_eq!(window.at(&end), &data[end.start as usize..end.end as usize]);
        assert_eq!(window.at(&place), &data[place.start as usize..place.end as usize]);
        // A small file somewhere else, and a few bytes of a large one.
        let read = ask(&windows, 2, 2_000_000..2_000_010, 2_003_000, 2_003_000);
        assert_eq!(read, 2_000_000..2_003_000);
        let read = ask(&windows, 3, 3_000_000..3_000_010, 3_000_100, 4_000_000);
        assert_eq!(read, 3_000_000..3_000_000 + AHEAD_MIN);
        // However much is asked for, a read is of so many bytes, or of what comes first.
        let read = ask(&windows, 4, 0..10, 3 << 20, 3 << 20);
        assert_eq!(read, 0..AHEAD_MAX);
        let read = ask(&windows, 4, AHEAD_MAX..AHEAD_MAX * 3, 3 << 20, 3 << 20);
        assert_eq!(read, AHEAD_MAX..AHEAD_MAX * 3);
    }

    #[test]
    fn who_reads_on_in_a_file_gets_ever_more_of_it() {
        let (windows, _) = windows(4 << 20);
        let whole = 2_000_000;
        let mut at = 1_000;
        let mut lens = Vec::new();
        while at < whole {
            let read = ask(&windows, 1, at..at + 50, at + 100, whole);
            lens.push((read.end - read.start) / KIB);
            at = read.end;
        }
        assert_eq!(lens, [128, 256, 512, 1024, 32], "and ends where the file does");
        // Neither a gap nor other readers beside it hinder that.
        ask(&windows, 2, 3_000_000..3_000_010, 3_000_010, 4_000_000);
        let on = 3_000_000 + AHEAD_MIN + GAP_BYTES;
        let far = on + 1;
        assert_eq!(ask(&windows, 2, far..far + 10, far, 4_000_000), far..far + AHEAD_MIN);
        let other = Wanted { file: (0, 2), asked: on, whole: 4_000_000 };
        let window = windows.get(ContainerId::new(2), &(on..on + 10), || other).unwrap().unwrap();
        assert_eq!(window.end() - on, AHEAD_MIN, "of another container");
        assert_eq!(ask(&windows, 2, on..on + 10, on, 4_000_000), on..on + 2 * AHEAD_MIN);
    }

    #[test]
    fn who_goes_from_file_to_file_gets_the_next_ones_along() {
        let (windows, _) = windows(4 << 20);
        let file = 10_000;
        let mut read = 0..0;
        let mut lens = Vec::new();
        for number in 0..200 {
            let begin = number * file;
            if begin + file > read.end {
                let start = read.end.max(begin);
                read = ask(&windows, number, start..begin + file, begin + file, begin + file);
                assert_eq!(read.start, start);
                lens.push((read.end - read.start) / KIB);
            }
        }
        // Two alone, and then ahead.
        assert_eq!(lens, [9, 9, 128, 256, 512, 1024, 1024]);
        // One that stands elsewhere is one file, and so is the one behind it.
        let begin = 3_500_000;
        for number in 0..2 {
            let begin = begin + number * file;
            let read = ask(&windows, 900 + number, begin..begin + 10, begin + file, begin + file);
            assert_eq!(read, begin..begin + file);
        }
    }

    #[test]
    fn nothing_is_read_past_a_container_and_nothing_is_promised_there() {
        let (windows, _) = windows(100_000);
        assert_eq!(ask(&windows, 1, 99_000..99_010, 200_000, 300_000), 99_000..100_000);
        let wanted = Wanted { file: (0, 1), asked: 0, whole: 0 };
        let id = ContainerId::new(1);
        assert!(windows.get(id, &(99_990..100_001), || wanted).unwrap().is_none());
        assert!(windows.get(ContainerId::new(3), &(0..10), || wanted).is_err());
    }

    /// Reads of these bytes fail, and are counted.
    struct Failing(Arc<dyn ContainerStore>, Range<u64>, AtomicUsize);

    impl ContainerStore for Failing {
        fn read(&self, id: ContainerId, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
            if offset < self.1.end && self.1.start < offset + buf.len() as u64 {
                self.2.fetch_add(1, Ordering::Relaxed);
                return Err(StoreError::NotFound { id });
            }
            self.0.read(id, offset, buf)
        }

        fn len(&self, id: ContainerId) -> Result<u64, StoreError> {
            self.0.len(id)
        }

        fn create(&self, _: ContainerId, _: u64) -> Result<(), StoreError> {
            unreachable!()
        }

        fn append(&self, _: ContainerId, _: u64, _: &[u8]) -> Result<(), StoreError> {
            unreachable!()
        }

        fn sync(&self, _: ContainerId) -> Result<(), StoreError> {
            unreachable!()
        }

        fn seal(&self, _: ContainerId, _: u64) -> Result<(), StoreError> {
            unreachable!()
        }

        fn punch(&self, _: ContainerId, _: u64, _: u64) -> Result<(), StoreError> {
            unreachable!()
        }

        fn remove(&self, _: ContainerId) -> Result<(), StoreError> {
            unreachable!()
        }

        fn list(&self) -> Result<Vec<ContainerId>, StoreError> {
            unreachable!()
        }

        fn strangers(&self) -> Result<Vec<String>, StoreError> {
            unreachable!()
        }

        fn allocated_bytes(&self, _: ContainerId) -> Result<u64, StoreError> {
            unreachable!()
        }
    }

    #[test]
    fn a_bad_place_fails_a_few_times_and_takes_nothing_along() {
        let (windows, data) = windows(2 << 20);
        // In the hundredth chunk of 8 KiB.
        let bad = 100 * 8 * KIB + 100;
        let store = Failing(windows.store, bad..bad + 1, AtomicUsize::new(0));
        let store = Arc::new(store);
        let windows = Windows::new(Arc::clone(&store) as Arc<dyn ContainerStore>, 4 << 20);
        for number in 0..200 {
            let place = number * 8 * KIB..(number + 1) * 8 * KIB;
            let wanted = Wanted { file: (0, 1), asked: 200 * 8 * KIB, whole: 200 * 8 * KIB };
            let window = windows.get(ContainerId::new(1), &place, || wanted);
            if number == 100 {
                assert!(window.is_err());
            } else {
                let expected = &data[place.start as usize..place.end as usize];
                assert_eq!(window.unwrap().unwrap().at(&place), expected);
            }
        }
        let failed = store.2.load(Ordering::Relaxed);
        assert!(failed <= 10, "{failed} reads failed");
    }

    #[test]
    fn windows_stay_up_to_their_last_byte() {
        let (mut windows, _) = windows(4 << 20);
        let files = [(1, 3_000_000, 200_000), (2, 1_500_000, 100_000), (3, 100, 300_000)];
        let total: u64 = files.iter().map(|file| file.2).sum();
        for (bytes_max, kept) in [(total, 3), (total - 1, 2), (0, 0)] {
            windows = Windows::new(Arc::clone(&windows.store), bytes_max);
            let all = files.map(|(file, start, len)| {
                ask(&windows, file, start..start + 10, start + len, start + len)
            });
            assert_eq!(windows.reads(), &all[3 - kept..]);
        }
    }
}
