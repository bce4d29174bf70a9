//! V9: random drives, random operations, power cuts at random flash operations, and a plain map
//! that says which contents each logical page may have afterwards.
//! Room: onefold-flash.
//! Invariants: what was there at the last flush, or came later, is there; never anything else.

use onefold_block::SplitMix64;

use onefold_flash::Geometry;
use onefold_flash::dedup::Engine;
use onefold_flash::ftl::{Durability, Ftl, FtlError, FtlSettings, Pacing, Recovered, VictimRule};
use onefold_flash::nand::{Cut, Faults, Identity, IdentityNand, NandError, PowerCut, Sizes};

use super::kinds::{Array, untimed};
use super::perfect::PerfectTable;

type Drive = Ftl<Array, PerfectTable>;

/// What a seed went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ordeal {
    /// Power cuts survived.
    pub cuts: u32,
    /// Power cuts during recovery among them.
    pub cuts_in_recovery: u32,
    /// Host operations.
    pub operations: u64,
    /// Programs and erases.
    pub flash_operations: u64,
    /// Pages shared inline and offline.
    pub shared: u64,
    /// Pages that were compressed.
    pub compressed: u64,
    /// Blocks that failed.
    pub failures: u64,
    /// Whether the drive ended for want of good blocks.
    pub ended: bool,
}

/// The contents that a logical page may have: the durable one first, then every later one.
struct Model {
    allowed: Vec<Vec<Option<u64>>>,
}

impl Model {
    fn now(&self, lpn: u32) -> Option<u64> {
        *self.allowed[lpn as usize].last().expect("there is always a durable content")
    }

    fn set(&mut self, lpn: u32, content: Option<u64>) {
        self.allowed[lpn as usize].push(content);
    }

    /// Everything so far is durable.
    fn settle(&mut self) {
        for allowed in &mut self.allowed {
            allowed.drain(..allowed.len() - 1);
        }
    }
}

/// Puts one drive through it.
///
/// # Errors
/// What is wrong, as one line that ends with how to see it again.
pub fn check(seed: u64, durability: Durability) -> Result<Ordeal, String> {
    check_drive(seed, durability, Grain::Page)
}

/// The same with a drive that compresses pages and packs them.
///
/// # Errors
/// As [`check`].
pub fn check_packed(seed: u64, durability: Durability) -> Result<Ordeal, String> {
    check_drive(seed, durability, Grain::Compressed)
}

/// The same with a drive whose map has an entry for every codeword.
///
/// # Errors
/// As [`check`].
pub fn check_codewords(seed: u64, durability: Durability) -> Result<Ordeal, String> {
    check_drive(seed, durability, Grain::Codeword)
}

/// What a logical page of the drive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grain {
    /// A flash page.
    Page,
    /// As much of one as compression leaves.
    Compressed,
    /// A codeword.
    Codeword,
}

fn check_drive(seed: u64, durability: Durability, grain: Grain) -> Result<Ordeal, String> {
    let flag = match grain {
        Grain::Page => "",
        Grain::Compressed => " --packed",
        Grain::Codeword => " --codewords",
    };
    let replay = format!("replay: validate power --durability {durability:?} --seed {seed}{flag}");
    match std::panic::catch_unwind(|| run(seed, durability, grain)) {
        Ok(result) => result.map_err(|what| format!("{what}; {replay}")),
        Err(panic) => {
            let what = panic.downcast_ref::<String>().map_or("a panic", String::as_str);
            Err(format!("{what}; {replay}"))
        }
    }
}

fn run(seed: u64, durability: Durability, grain: Grain) -> Result<Ordeal, String> {
    let mut random = SplitMix64::new(seed);
    let (geometry, settings, faults) = draw_drive(&mut random, durability);
    let (settings, sizes) = match grain {
        Grain::Page => (settings, None),
        Grain::Compressed => packing(seed, settings),
        Grain::Codeword => codewords(&geometry, packing(seed, settings).0),
    };
    let nand = PowerCut::new(IdentityNand::new(geometry).with_sizes(sizes), faults);
    let table = PerfectTable::new(random.below(101), random.next_u64());
    let mut drive = Drive::format(nand, table, settings).map_err(|e| format!("format: {e}"))?;
    let pages = settings.logical_pages;
    let mut model = Model { allowed: vec![vec![None]; pages as usize] };
    let mut ordeal = Ordeal::default();
    let contents = 1 + random.below(u64::from(pages) * 2);
    let rounds = 2 + random.below(5);
    for _ in 0..rounds {
        plan_cut(&mut drive, &mut random, &settings);
        let operations = 1 + random.below(12 * u64::from(pages));
        let ended = act(&mut drive, &mut model, &mut random, operations, contents, &mut ordeal)?;
        drive.check_invariants();
        ordeal.shared += drive.counters().inline_pages + drive.counters().offline_pages;
        ordeal.failures += drive.counters().block_failures;
        ordeal.compressed += drive.counters().fragments;
        if ended {
            ordeal.ended = true;
        }
        if durability == Durability::Protected {
            let stored = drive.power_loss(&mut untimed());
            stored.map_err(|error| format!("power loss: {error}"))?;
            if !ended {
                model.settle();
            }
        }
        ordeal.cuts += 1;
        drive = recover(drive, &mut random, settings, &mut ordeal)?;
        verify(&mut drive, &mut model)?;
    }
    ordeal.flash_operations = drive.nand().operations();
    Ok(ordeal)
}

fn draw_drive(random: &mut SplitMix64, durability: Durability) -> (Geometry, FtlSettings, Faults) {
    let geometry = Geometry {
        channels: 1,
        packages: 1 + random.below(2) as u32,
        dies_per_package: 1,
        planes_per_die: 1 + random.below(2) as u32,
        blocks_per_plane: 20 + random.below(20) as u32,
        pages_per_block: 4 + random.below(13) as u32,
        page_bytes: [64, 128, 256][random.below(3) as usize],
        oob_bytes: 64,
    };
    let failing = random.chance(1, 3);
    let faults = Faults {
        program_ppm: if failing { 3_000 } else { 0 },
        erase_ppm: if failing { 10_000 } else { 0 },
        blocks_max: if random.chance(1, 4) { u32::MAX } else { 3 },
        seed: random.next_u64(),
    };
    let reserve = 2 + random.below(4) as u32;
    let victim = match random.below(4) {
        0 => VictimRule::Fifo,
        1 => VictimRule::DChoices(3),
        2 => VictimRule::CostBenefit,
        _ => VictimRule::Greedy,
    };
    let spare = (reserve + 5 + random.below(4) as u32) * geometry.planes() + 6;
    let pages = geometry.blocks().saturating_sub(spare).max(4) * geometry.pages_per_block;
    let cached = random.chance(1, 3);
    let settings = FtlSettings {
        // What the FTL's own pages need, with room.
        logical_pages: (pages * 3 / 5).max(8),
        gc_reserve_blocks: reserve,
        victim,
        pacing: if random.chance(1, 2) { Pacing::Incremental } else { Pacing::WholeBlock },
        wear_spread: if random.chance(1, 2) { 1 + random.below(4) as u32 } else { 0 },
        seed: random.next_u64(),
        durability,
        map_cache_bytes: if cached { u64::from(geometry.page_bytes) * 4 } else { 0 },
        checkpoint_pages: 1 + random.below(u64::from(geometry.pages())) as u32,
        ..FtlSettings::default()
    };
    (geometry, settings, faults)
}

/// A drive with these settings that packs pages; how short they get.
fn packing(seed: u64, settings: FtlSettings) -> (FtlSettings, Option<Sizes>) {
    let mut random = SplitMix64::new(seed ^ 0x9ac4);
    let subpages = [2, 4, 8][random.below(3) as usize];
    let settings = FtlSettings {
        subpages,
        packing_pages: 1 + random.below(3) as u32,
        packing_survives: settings.durability == Durability::Protected,
        map_cache_bytes: 0,
        ..settings
    };
    let percent = random.below(100) as u32;
    let spread = random.below(60) as u32;
    let engine = Engine::BeforeScrambler;
    (settings, Some(Sizes { subpages, percent, spread, engine, plain: None }))
}

/// A packing drive that maps codewords instead of compressing: of each page several, with room for
/// what collection leaves open.
fn codewords(geometry: &Geometry, settings: FtlSettings) -> (FtlSettings, Option<Sizes>) {
    let (subpages, pages) = (settings.subpages, geometry.pages_per_block);
    let logical_pages = settings.logical_pages * (pages - 1) / pages * subpages * 4 / 5;
    let settings = FtlSettings { codewords: true, logical_pages, ..settings };
    (settings, Some(Sizes::codewords(subpages)))
}

fn plan_cut(drive: &mut Drive, random: &mut SplitMix64, settings: &FtlSettings) {
    if settings.durability == Durability::Protected {
        return;
    }
    let after = random.below(4 * u64::from(settings.logical_pages));
    let cut = [Cut::Before, Cut::Torn, Cut::After][random.below(3) as usize];
    drive.nand().cut_after(after, cut);
}

/// Whether an operation was done (`Some`), cut (`None` and the power is off), or ended the drive.
fn done<T>(result: Result<T, FtlError>, ended: &mut bool) -> Result<Option<T>, String> {
    match result {
        Ok(answer) => Ok(Some(answer)),
        Err(FtlError::Nand(NandError::PowerOff)) => Ok(None),
        Err(FtlError::NoSpace { bad_blocks: 1.., .. }) => {
            *ended = true;
            Ok(None)
        }
        Err(error) => Err(format!("unexpected: {error}")),
    }
}

/// Operations until the power goes or the drive ends, which is the answer.
fn act(
    drive: &mut Drive,
    model: &mut Model,
    random: &mut SplitMix64,
    operations: u64,
    contents: u64,
    ordeal: &mut Ordeal,
) -> Result<bool, String> {
    let pages = u64::from(drive.settings().logical_pages);
    let mut ended = false;
    for _ in 0..operations {
        ordeal.operations += 1;
        let lpn = random.below(pages) as u32;
        let answer = match random.below(100) {
            0..65 => {
                let content = 1 + random.below(contents);
                let page = Identity::of_number(content);
                let before = model.now(lpn);
                model.set(lpn, Some(content));
                let answer = done(drive.write(lpn, &page, &mut untimed()), &mut ended)?;
                if answer.is_none() && ended {
                    // Refused for want of space: still the old content.
                    model.set(lpn, before);
                }
                answer.map(drop)
            }
            65..72 => trim(drive, model, lpn, 1, &mut ended)?,
            72..74 => {
                let count = 1 + random.below(pages - u64::from(lpn)) as u32;
                trim(drive, model, lpn, count.min(40), &mut ended)?
            }
            74..80 => {
                let flushed = done(drive.flush(&mut untimed()), &mut ended)?;
                if flushed.is_some() {
                    model.settle();
                }
                flushed
            }
            80..90 => done(drive.deduplicate_step(&mut untimed()), &mut ended)?.map(drop),
            90..96 => {
                let read = done(drive.read(lpn, &mut untimed()), &mut ended)?;
                if let Some(page) = read
                    && page.map(|page| page.0 as u64) != model.now(lpn)
                {
                    return Err(format!("LPN {lpn} reads {page:?}, not {:?}", model.now(lpn)));
                }
                read.map(drop)
            }
            96..99 => {
                let plane = random.below(u64::from(drive.geometry().planes())) as u32;
                done(drive.collect_idle(plane, &mut untimed()), &mut ended)?.map(drop)
            }
            _ => done(drive.checkpoint(&mut untimed()), &mut ended)?,
        };
        if answer.is_none() {
            break;
        }
    }
    Ok(ended)
}

fn trim(
    drive: &mut Drive,
    model: &mut Model,
    lpn: u32,
    count: u32,
    ended: &mut bool,
) -> Result<Option<()>, String> {
    for lpn in lpn..lpn + count {
        model.set(lpn, None);
    }
    done(drive.trim_range(lpn, count, &mut untimed()), ended)
}

/// Opens the drive again, with the power going off in the middle of that at times.
fn recover(
    drive: Drive,
    random: &mut SplitMix64,
    settings: FtlSettings,
    ordeal: &mut Ordeal,
) -> Result<Drive, String> {
    let mut nand = drive.into_nand();
    nand.restore();
    if random.chance(1, 3) {
        let cut = [Cut::Before, Cut::Torn, Cut::After][random.below(3) as usize];
        nand.cut_after(random.below(3), cut);
        let table = PerfectTable::new(50, 1);
        match Ftl::open(&mut nand, table, settings) {
            Ok(_) => {}
            Err(FtlError::Nand(NandError::PowerOff)) => ordeal.cuts_in_recovery += 1,
            Err(error) => return Err(format!("recovery: {error}")),
        }
        nand.restore();
    }
    let table = PerfectTable::new(random.below(101), random.next_u64());
    let (drive, report) =
        Drive::open(nand, table, settings).map_err(|error| format!("recovery: {error}"))?;
    let Recovered { lost_entries, .. } = report;
    if lost_entries > 0 {
        return Err(format!("{lost_entries} entries of data that is not there"));
    }
    drive.check_invariants();
    Ok(drive)
}

/// Every logical page must have an allowed content, which is durable from now on.
fn verify(drive: &mut Drive, model: &mut Model) -> Result<(), String> {
    for lpn in 0..drive.settings().logical_pages {
        let page =
            drive.read(lpn, &mut untimed()).map_err(|error| format!("LPN {lpn}: {error}"))?;
        let content = page.map(|page| page.0 as u64);
        let allowed = &mut model.allowed[lpn as usize];
        if !allowed.contains(&content) {
            return Err(format!("LPN {lpn} has {content:?} after a power cut, not {allowed:?}"));
        }
        *allowed = vec![content];
    }
    Ok(())
}
