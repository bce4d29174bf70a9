//! The story of a small emulated drive: requests, answers, times, and what it says of itself.
//! Room: onefold-flash.
//! Whatever the story is, each read gives what was written last, through kills too.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use onefold_block::device::WriteRequest;
use onefold_block::handover::{Handover, SimHandover};
use onefold_block::{
    BlockDevice as _, BlockError, CrashMode, Extent, ExtentKind, SimFolder, SplitMix64, ZeroOptions,
};

use crate::drive::{Clock, FileDrive, OpenDrive, Pending, Picture, SmartReport, create, inspect};
use crate::spec::{DriveSpec, SpecBuilder};

pub const PAGE: u64 = 1024;

/// A clock that stands still until somebody waits.
#[derive(Debug, Default)]
pub struct Hand {
    now_ns: AtomicU64,
    waits: Mutex<Vec<u64>>,
}

impl Clock for Hand {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn unix_s(&self) -> u64 {
        1_700_000_000 + self.now_ns() / 1_000_000_000
    }

    fn wait_until(&self, until_ns: u64) {
        self.waits.lock().unwrap().push(until_ns - self.now_ns());
        self.now_ns.fetch_max(until_ns, Ordering::Relaxed);
    }
}

/// A drive, what it should hold, and what was told of it.
pub struct Story {
    pub folder: SimFolder,
    pub memory: SimHandover,
    pub clock: Arc<Hand>,
    pub drive: OpenDrive,
    random: SplitMix64,
    bytes: Vec<u8>,
    next: u64,
    pub text: String,
}

/// A small drive of two planes, with such lines.
pub fn spec(lines: &[&str]) -> DriveSpec {
    let small = "[geometry]\nchannels = 1\npackages = 1\ndies_per_package = 1\nplanes_per_die = 2\n\
                 blocks_per_plane = 24\npages_per_block = 8\npage_bytes = 1024\noob_bytes = 96\n\
                 [ftl]\nover_provisioning = 1.5\ngc_reserve_blocks = 4\n";
    let begun = SpecBuilder::preset("ses-mlc1").and_then(|builder| builder.file("small", small));
    let built = lines.iter().try_fold(begun.unwrap(), |builder, line| builder.set(line));
    built.and_then(SpecBuilder::build).unwrap()
}

fn content(id: u64, len: usize) -> Vec<u8> {
    // Some are noise, and others get shorter in a compression engine.
    let mut bytes = SplitMix64::new(id).bytes(len);
    let noise = len * (1 + id as usize % 5) / 5;
    bytes[noise..].fill(id as u8);
    bytes
}

fn opened(folder: &SimFolder, clock: &Arc<Hand>, memory: &SimHandover) -> OpenDrive {
    let memory: Arc<dyn Handover> = Arc::new(memory.clone());
    let clock: Arc<dyn Clock> = Arc::<Hand>::clone(clock);
    OpenDrive::open(Arc::new(folder.clone()), true, clock, Some(memory)).expect("opens")
}

impl Story {
    /// A drive is made and opened.
    pub fn new(name: &str, lines: &[&str]) -> Self {
        let (folder, memory) = (SimFolder::new(), SimHandover::new());
        create(&folder, &spec(lines)).expect("made");
        let clock = Arc::new(Hand::default());
        let drive = opened(&folder, &clock, &memory);
        let bytes = vec![0; drive.device().size_bytes() as usize];
        let text = format!("# {name}: {} bytes\n\n", bytes.len());
        let mut story = Self {
            folder,
            memory,
            clock,
            drive,
            random: SplitMix64::new(5),
            bytes,
            next: 50,
            text,
        };
        story.told_when_opened();
        story
    }

    pub fn device(&self) -> Arc<FileDrive> {
        Arc::clone(self.drive.device())
    }

    pub fn device_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub fn line<T>(&mut self, what: &str, done: Result<T, BlockError>) -> Option<T> {
        let waits = std::mem::take(&mut *self.clock.waits.lock().unwrap());
        let failed = done.as_ref().err().map_or(String::new(), |error| format!(" -> {error}"));
        let waits: Vec<String> = waits.iter().map(u64::to_string).collect();
        writeln!(self.text, "{what}: {}{failed}", waits.join(" ")).unwrap();
        done.ok()
    }

    fn told_when_opened(&mut self) {
        let remarks: Vec<String> =
            self.drive.remarks().iter().map(|said| format!("{}; {said}", said.is_good())).collect();
        let generation = self.drive.current_generation();
        writeln!(self.text, "opened: {remarks:?}, {generation:?}").unwrap();
    }

    pub fn write(&mut self, offset: u64, data: &[u8], fua: bool, asked: Option<bool>) {
        let request = WriteRequest { offset, data, fua };
        let done = self.device().write_asked(asked, request);
        let asked = asked.map_or(String::new(), |asked| format!(" asked {asked}"));
        let fua = if fua { " fua" } else { "" };
        let at = offset as usize;
        if self.line(&format!("write {offset}+{}{fua}{asked}", data.len()), done).is_some() {
            self.bytes[at..at + data.len()].copy_from_slice(data);
        }
    }

    pub fn read(&mut self, offset: u64, len: u64) {
        let mut found = vec![1; len as usize];
        let done = self.device().read_at(offset, &mut found);
        if self.line(&format!("read {offset}+{len}"), done).is_some() {
            let wanted = &self.bytes[offset as usize..(offset + len) as usize];
            assert!(found == wanted, "bytes {offset}+{len}\n{}", self.text);
        }
    }

    pub fn zero(&mut self, offset: u64, len: u64, options: ZeroOptions) {
        let done = self.device().write_zeroes(offset, len, options);
        let ZeroOptions { fua, no_hole, fast_only } = options;
        let what = format!("zero {offset}+{len} fua {fua} no_hole {no_hole} fast {fast_only}");
        if self.line(&what, done).is_some() {
            self.bytes[offset as usize..(offset + len) as usize].fill(0);
        }
    }

    pub fn trim(&mut self, offset: u64, len: u64, fua: bool) {
        let done = self.device().trim(offset, len, fua);
        self.line(&format!("trim {offset}+{len} fua {fua}"), done);
        let pages = offset.div_ceil(PAGE)..(offset + len) / PAGE;
        if !pages.is_empty() {
            self.bytes[(pages.start * PAGE) as usize..(pages.end * PAGE) as usize].fill(0);
        }
    }

    pub fn status(&mut self, offset: u64, len: u64) {
        let done = self.device().block_status(offset, len);
        let told = |extent: &Extent| match extent.kind {
            ExtentKind::Data => format!(" {}", extent.len_bytes),
            _ => format!(" ({})", extent.len_bytes),
        };
        let extents: String = done.iter().flatten().map(told).collect();
        self.line(&format!("status {offset}+{len}{extents}"), done);
    }

    /// A part of the drive; half of them whole pages.
    fn range(&mut self) -> (u64, u64) {
        let size = self.bytes.len() as u64;
        if self.random.chance(1, 2) {
            let lpn = self.random.below(size / PAGE);
            let count = 1 + self.random.below(3).min(size / PAGE - lpn - 1);
            return (lpn * PAGE, count * PAGE);
        }
        let offset = self.random.below(size);
        (offset, 1 + self.random.below(3 * PAGE).min(size - offset - 1))
    }

    /// One random request.
    pub fn step(&mut self) {
        let (offset, len) = self.range();
        let fua = self.random.chance(1, 6);
        match self.random.below(20) {
            0..=8 => {
                self.next += 1;
                let twin = self.random.chance(1, 2);
                let id = if twin { 1 + self.random.below(6) } else { self.next };
                let asked = [None, None, Some(false), Some(true)][self.random.below(4) as usize];
                let page = content(id, PAGE as usize);
                let data: Vec<u8> = page.iter().copied().cycle().take(len as usize).collect();
                self.write(offset, &data, fua, asked);
            }
            9 | 10 => {
                let (no_hole, fast_only) = (self.random.chance(1, 3), self.random.chance(1, 4));
                self.zero(offset, len, ZeroOptions { fua, no_hole, fast_only });
            }
            11 | 12 => self.trim(offset, len, fua),
            13 => {
                let done = self.device().flush();
                self.line("flush", done);
            }
            14 => {
                let done = self.device().idle();
                let more = format!("idle {}", done.as_ref().is_ok_and(|&more| more));
                self.line(&more, done);
            }
            15 => self.status(offset, len),
            _ => self.read(offset, len),
        }
        // Some requests come before what idle moments began is done.
        let pause = if self.random.chance(1, 2) { 300_000_000 } else { 100_000 };
        self.clock.now_ns.fetch_add(pause, Ordering::Relaxed);
    }

    pub fn steps(&mut self, count: u32) {
        (0..count).for_each(|_| self.step());
    }

    /// So many steps, told as a sum.
    pub fn quietly(&mut self, steps: u32) {
        let before = self.text.len();
        self.steps(steps);
        let sum = crc32fast::hash(&self.text.as_bytes()[before..]);
        let length = self.text.len() - before;
        self.text.truncate(before);
        writeln!(self.text, "{steps} steps: {length} bytes, {sum:08x}").unwrap();
    }

    /// What the drive and its folder say.
    pub fn show(&mut self) {
        let seen = inspect(&self.folder).expect("a drive");
        let pending = Pending::of(&seen, &self.memory);
        let picture = self.device().with_ftl(|ftl| {
            ftl.check_invariants();
            Picture::of(ftl.blocks(), ftl.geometry(), 10)
        });
        let health = self.drive.health();
        let report = SmartReport::of(&seen);
        let whole = self.device().host_counts();
        let told = format!("{pending:?}\n{picture:?}\n{whole:?}\n{health:#?}\n{report:#?}\n");
        self.text.push_str(&told);
    }

    fn begin_again(&mut self) {
        self.drive = opened(&self.folder, &self.clock, &self.memory);
        self.told_when_opened();
        self.read(0, self.bytes.len() as u64);
    }

    /// The process is killed: all that it acknowledged is there.
    pub fn kill(&mut self) {
        self.text.push_str("killed\n");
        self.folder = self.folder.after_crash(0, CrashMode::KeepEverything);
        self.memory = self.memory.after_kill();
        self.begin_again();
    }

    /// The power goes once all is flushed.
    pub fn power_cut(&mut self) {
        let done = self.device().flush();
        self.line("flush", done);
        self.text.push_str("the power goes\n");
        self.folder = self.folder.after_crash(3, CrashMode::KeepNothing);
        self.memory = SimHandover::new().after_boot();
        self.begin_again();
    }

    /// The drive is closed and opened.
    pub fn close(&mut self) {
        let folder = self.folder.clone();
        let other = SimFolder::new();
        create(&other, &spec(&[])).expect("made");
        let stand_in = opened(&other, &self.clock, &SimHandover::new());
        std::mem::replace(&mut self.drive, stand_in).close().expect("closed");
        self.text.push_str("closed\n");
        self.folder = folder;
        self.begin_again();
    }
}
