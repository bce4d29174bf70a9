//! A drive as a folder: its specification, its NAND file, its counters, its lock.
//! Room: onefold-flash.   In: a folder, a policy.   Out: an `EmulatedDrive`, and its health.
//! Invariants: a drive is open in one process at a time; counters are saved when it is opened, now
//! and then, and when it is closed.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onefold_block::handover::Handover;
use onefold_block::{FileFolder, Folder, FolderLock, Generation, GenerationFile, Hold, MediaError};

use super::clock::Clock;
use super::device::EmulatedDrive;
use super::error::DriveError;
use super::files::{COPIES_FILE, NAND_FILE};
use super::health::{DriveState, FILES, SavedHealth};
use super::host_scrambler::HostScrambler;
use super::kept::{self, Kept, Left};
use super::making::end_making;
use super::pace::Pace;
use super::stored_spec::{exists, read_spec, settings};
use crate::dedup::{AnyPolicy, Bytes, Policy};
use crate::ftl::{Counters, Ftl, STREAMS};
use crate::nand::bytes::{ByteNand, CopyFile, Description, FileStore, PageBytes, Store};
use crate::nand::{Nand as _, PageKey};
use crate::spec::DriveSpec;

/// An emulated drive in a file, with the policy that its specification names.
pub type FileDrive = EmulatedDrive<FileStore, AnyPolicy<Bytes>>;

/// A drive that is open in this process.
pub struct OpenDrive {
    device: Arc<FileDrive>,
    folder: Arc<dyn Folder>,
    clock: Arc<dyn Clock>,
    spec: DriveSpec,
    remarks: Vec<Remark>,
    generation: Mutex<GenerationFile>,
    /// As it was when this run began.
    before: SavedHealth,
    /// What the FTL had counted by then.
    counted: Counters,
    opened_ns: u64,
    /// Sequence number of the last save.
    sequence: Mutex<u64>,
    lock: Option<FolderLock>,
}

impl OpenDrive {
    /// Opens the drive in a directory, alone.
    ///
    /// # Errors
    /// [`DriveError::Locked`], and those of [`OpenDrive::open`].
    pub fn open_at(
        path: &Path,
        paced: bool,
        clock: Arc<dyn Clock>,
        handover: Option<Arc<dyn Handover>>,
    ) -> Result<Self, DriveError> {
        let folder = FileFolder::open(path)?;
        if !exists(&folder) {
            return Err(DriveError::NoDrive);
        }
        let lock = FolderLock::take(path, Hold::Alone, Hold::Alone)?;
        let mut open = Self::open(Arc::new(folder), paced, clock, handover)?;
        lock.keep();
        open.lock = Some(lock);
        Ok(open)
    }

    /// Opens the drive in a folder, recovering from whatever ended its last run. With memory of
    /// this drive alone that outlives the process, acknowledged writes survive the death of the
    /// process and not only what was flushed.
    ///
    /// # Errors
    /// [`DriveError`].
    pub fn open(
        folder: Arc<dyn Folder>,
        paced: bool,
        clock: Arc<dyn Clock>,
        handover: Option<Arc<dyn Handover>>,
    ) -> Result<Self, DriveError> {
        let spec = read_spec(&*folder)?;
        end_making(&*folder)?;
        let mut remarks = Vec::new();
        let (saved, unread) = SavedHealth::load(&*folder);
        let mut before = saved.unwrap_or_else(|| {
            // Only what was counted is lost.
            remarks.push(Remark::CountersLost);
            SavedHealth { since_unix_s: Some(clock.unix_s()), ..SavedHealth::default() }
        });
        let (store, id) = open_store(&*folder, &spec, &mut remarks)?;
        let mut generation = GenerationFile::open(&*folder, id, clock.unix_s())?;
        let channel = spec.channel()?;
        let nand = ByteNand::open(store, spec.geometry, &channel, spec.wear_model())?;
        let mut nand = nand.with_engine(spec.engine(), spec.ftl.subpages);
        nand.set_time(clock.unix_s());
        let opening = before.power_cycles;
        let of = |memory: &Arc<dyn Handover>| kept::left(&**memory, id, opening, spec.packs());
        let left = handover.as_ref().map(of).unwrap_or_default();
        if left.lost.is_some()
            && let Some(error) = unread
        {
            // The counters say whose it is, and may be readable the next time.
            return Err(error.into());
        }
        let ftl = recover(nand, &spec, &left, &mut remarks)?;
        let boot = handover.as_ref().map(|handover| handover.boot());
        if generation.settle(left.survival(), boot)? {
            remarks.push(Remark::MayBeLost(left.lost));
        }
        // Not before that: an opening that fails in between would leave nothing to tell by.
        if let Some(handover) = &handover {
            kept::remove(&**handover)?;
        }
        let counted = *ftl.counters();
        let pace = Pace::new(spec.geometry, spec.latencies());
        let device = EmulatedDrive::new(ftl, pace, paced, Arc::clone(&clock))?;
        let device = device.with_idle_order(spec.idle_order());
        let device = Arc::new(device.with_host_scrambler(HostScrambler::new(&spec)?));
        before.power_cycles += 1;
        before.unsafe_shutdowns += u64::from(!before.clean);
        before.clean = false;
        let sequence = Mutex::new(before.sequence);
        let opened_ns = clock.now_ns();
        let mut open = Self {
            device,
            folder,
            clock,
            spec,
            remarks,
            generation: Mutex::new(generation),
            before,
            counted,
            opened_ns,
            sequence,
            lock: None,
        };
        open.save(false)?;
        let keeps = handover.map(|handover| open.keep_in(handover, id));
        open.generation().begin(boot.filter(|_| matches!(keeps, Some(Ok(())))))?;
        if let Some(Err(error)) = keeps {
            open.remarks.push(Remark::NotKept(error.to_string()));
        }
        Ok(open)
    }

    /// Keep what is not on the flash in this memory too.
    fn keep_in(&self, handover: Arc<dyn Handover>, id: [u8; 16]) -> Result<(), MediaError> {
        let mut inner = self.device.lock();
        let records_per_page = inner.ftl.records_per_page();
        let opening = self.before.power_cycles;
        let packing = self.spec.packs().then(|| inner.ftl.packing_bytes());
        inner.kept = Some(Kept::begin(handover, id, opening, records_per_page, packing)?);
        Ok(())
    }

    fn generation(&self) -> MutexGuard<'_, GenerationFile> {
        self.generation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which generation of the drive this is.
    pub fn current_generation(&self) -> Generation {
        self.generation().current()
    }

    /// Note that whoever owns the drive knows that writes may have been lost.
    ///
    /// # Errors
    /// [`DriveError::Media`].
    pub fn accept_loss(&self) -> Result<(), DriveError> {
        Ok(self.generation().accept()?)
    }

    /// The drive as a block device.
    pub fn device(&self) -> &Arc<FileDrive> {
        &self.device
    }

    /// Its specification.
    pub fn spec(&self) -> &DriveSpec {
        &self.spec
    }

    /// What had happened to it when it was opened.
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    /// Everything counted since the drive was made.
    pub fn health(&self) -> SavedHealth {
        let mut inner = self.device.lock();
        let counters = inner.ftl.counters().since(&self.counted);
        let nand = *inner.ftl.nand().health();
        let mut sum = self.before.plus(&inner.host, &counters, &nand);
        sum.state = state(&mut inner.ftl);
        sum.power_on_s += self.clock.now_ns().saturating_sub(self.opened_ns) / 1_000_000_000;
        sum
    }

    /// Saves the counters.
    ///
    /// # Errors
    /// [`DriveError::Media`].
    pub fn save_health(&self) -> Result<(), DriveError> {
        let saved = self.save(false);
        if matches!(saved, Err(DriveError::Media(MediaError::NotFound { .. }))) {
            // Nothing that is stored now would be found again.
            self.device.condemn("the folder of the drive is gone");
        }
        saved
    }

    fn save(&self, clean: bool) -> Result<(), DriveError> {
        let mut health = self.health();
        let mut sequence = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        health.sequence = *sequence;
        health.clean = clean;
        health.save(&*self.folder)?;
        *sequence = health.sequence;
        Ok(())
    }

    /// Makes everything durable and says that the drive was closed. A drive that has failed is
    /// left as after a power cut, with the failure as the answer.
    ///
    /// # Errors
    /// [`DriveError::Block`], [`DriveError::Media`].
    pub fn close(self) -> Result<(), DriveError> {
        if let Err(error) = self.device.shut_down() {
            // What it went through counts all the same; the failure below is the answer.
            let _ = self.save(false);
            return Err(error.into());
        }
        self.device.with_ftl(|ftl| ftl.nand().sync_copies()).map_err(crate::FtlError::from)?;
        self.save(true)?;
        if let Some(kept) = self.device.lock().kept.take() {
            kept.end()?;
        }
        self.generation().end()?;
        drop(self.lock);
        Ok(())
    }
}

impl std::fmt::Debug for OpenDrive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenDrive").field("device", &self.device).finish_non_exhaustive()
    }
}

/// Opens the FTL with what a process left, and makes that durable.
fn recover(
    nand: ByteNand<FileStore>,
    spec: &DriveSpec,
    left: &Left,
    remarks: &mut Vec<Remark>,
) -> Result<Ftl<ByteNand<FileStore>, AnyPolicy<Bytes>>, DriveError> {
    let (policy, settings) = (spec.bytes_policy()?, settings(spec));
    let (mut ftl, recovered) = Ftl::open_with(nand, policy, settings, &left.records)?;
    ftl.nand().prove_found().map_err(crate::FtlError::from)?;
    if recovered.lost_entries > 0 {
        remarks.push(Remark::PagesLost(recovered.lost_entries));
    }
    let taken_up = take_up(&mut ftl, left)?;
    if taken_up > 0 {
        remarks.push(Remark::TakenUp(taken_up));
    }
    Ok(ftl)
}

/// Writes what waited to be packed when a process ended, which is newer than all that the flash and
/// the records say, and makes both durable; the answer is how many changes that is.
fn take_up(
    ftl: &mut Ftl<ByteNand<FileStore>, AnyPolicy<Bytes>>,
    left: &Left,
) -> Result<u64, crate::FtlError> {
    let mut changes = left.records.len();
    for (lpns, fragment) in &left.pages {
        let page = ftl.nand().expand(0, fragment)?;
        let asked = matches!(fragment.key, PageKey::Kept(_)).then_some(false);
        for &lpn in lpns {
            ftl.write_asked(lpn, &page, asked, &mut crate::Untimed)?;
        }
        changes += lpns.len();
    }
    if changes > 0 {
        // What is shown now may not go back again.
        ftl.flush(&mut crate::Untimed)?;
    }
    Ok(changes as u64)
}

/// The cells of a drive with their second copies.
fn open_store(
    folder: &dyn Folder,
    spec: &DriveSpec,
    remarks: &mut Vec<Remark>,
) -> Result<(FileStore, [u8; 16]), DriveError> {
    let text = spec.to_commented_toml();
    let mut description = Description::new(spec.geometry, &spec.channel()?, &text);
    let media = folder.open(NAND_FILE)?;
    let copies = folder.open(COPIES_FILE);
    let of_nand = FileStore::describe(&*media).ok();
    let of_copies = copies.as_ref().ok().and_then(|copies| CopyFile::describe(&**copies));
    if let (Some(nand), Some(copies)) = (&of_nand, &of_copies)
        && nand.id != copies.id
    {
        return Err(DriveError::Mixed);
    }
    description.id = of_nand.or(of_copies).map(|said| said.id).unwrap_or_default();
    let copies = match copies {
        Ok(copies) if CopyFile::describes(&*copies, &description) => {
            // Two witnesses say what the array is: the specification and the copies.
            if FileStore::repair_header(&*media, &description)? {
                remarks.push(Remark::HeaderRepaired);
            }
            CopyFile::open(copies, &description)?
        }
        _ => {
            // Another array is refused before anything is made for it.
            FileStore::describe(&*media)?.must_be(&description)?;
            remarks.push(Remark::CopiesMadeAnew);
            let copies = CopyFile::create(folder.create(COPIES_FILE)?, &description)?;
            folder.sync_names()?;
            copies
        }
    };
    Ok((FileStore::open(media, &description)?.with_copies(copies), description.id))
}

/// What had happened to a drive when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remark {
    /// The counters could not be read and begin anew.
    CountersLost,
    /// The second copies could not be read, or there were none, and begin anew.
    CopiesMadeAnew,
    /// The header of the NAND file was damaged and is written anew.
    HeaderRepaired,
    /// So many logical pages are lost to damage.
    PagesLost(u64),
    /// So many records of a process that ended without a flush are durable now.
    TakenUp(u64),
    /// Writes that were acknowledged and not flushed may be lost; why the memory of the process
    /// before this one did not help, if there was any.
    MayBeLost(Option<String>),
    /// The death of this process would lose writes that are not flushed, and why.
    NotKept(String),
}

impl Remark {
    /// Whether it tells of nothing bad.
    pub const fn is_good(&self) -> bool {
        matches!(self, Self::TakenUp(_))
    }
}

impl std::fmt::Display for Remark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CountersLost => write!(
                f,
                "neither {} nor {} can be read: the drive's counters begin anew",
                FILES[0], FILES[1]
            ),
            Self::CopiesMadeAnew => write!(
                f,
                "there is no {COPIES_FILE} that can be read: it is made anew; if {NAND_FILE} was \
                 damaged too, older data may have come back"
            ),
            Self::HeaderRepaired => {
                write!(f, "the header of {NAND_FILE} was damaged and is written anew")
            }
            Self::PagesLost(pages) => write!(
                f,
                "damage took {pages} logical pages: they read as errors until they are written"
            ),
            Self::TakenUp(records) => write!(
                f,
                "{records} changes acknowledged by a process that ended without a flush are \
                 durable now"
            ),
            Self::MayBeLost(why) => {
                write!(f, "writes that were acknowledged and not flushed may be lost")?;
                match why {
                    Some(why) => write!(
                        f,
                        ": what the process before this one left in memory is not used: {why}"
                    ),
                    None => Ok(()),
                }
            }
            Self::NotKept(why) => {
                write!(f, "writes since the last flush would not survive a kill: {why}")
            }
        }
    }
}

/// How full a drive is.
fn state<S: Store, P: Policy<PageBytes>>(ftl: &mut Ftl<ByteNand<S>, P>) -> DriveState {
    let geometry = *ftl.geometry();
    let settings = *ftl.settings();
    let stored = ftl.stored();
    let bad = (0..geometry.blocks()).filter(|&block| ftl.nand().is_bad(block)).count();
    let factory =
        (0..geometry.blocks()).filter(|&block| ftl.nand().wear().is_factory_bad(block)).count();
    let kept =
        u64::from(settings.gc_reserve_blocks + STREAMS as u32) * u64::from(geometry.planes());
    let data_blocks = u64::from(settings.logical_pages.div_ceil(geometry.pages_per_block));
    DriveState {
        logical_pages: u64::from(settings.logical_pages),
        mapped_pages: stored.logical_pages,
        data_pages: stored.data_pages,
        shared_pages: u64::from(ftl.shared().live()),
        bad_blocks: bad as u64,
        factory_bad_blocks: factory as u64,
        needed_blocks: data_blocks + kept,
    }
}
