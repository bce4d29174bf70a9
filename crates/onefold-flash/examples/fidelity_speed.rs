//! Speed of full fidelity, bytes through scrambler and code, per CPU second of one thread, beside
//! memcpy of the same pages in the same run.
//! Room: onefold-flash.
//! Run: `cargo run --release -p onefold-flash --example fidelity_speed [-- --quick]`.
//! Pages of 8 KiB, `ses-33x256` and `lba-prbs31` unless a row says otherwise; medians of
//! interleaved rounds, so that a busy machine disturbs all rows alike.

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;

use onefold_block::{BlockDevice as _, FileFolder, Folder as _, SplitMix64};
use onefold_code::preset;
use onefold_flash::dedup::NoDedup;
use onefold_flash::drive::{EmulatedDrive, Latencies, Pace, WallClock};
use onefold_flash::nand::bytes::{
    ChannelSpec, CopyFile, Description, FileStore, MemStore, PageBytes, Store,
};
use onefold_flash::nand::{ByteNand, Nand as _, Oob, PageKey, Payload, WearModel};
use onefold_flash::{Ftl, FtlSettings, Geometry, Untimed};
use rustix::time::{ClockId, clock_gettime};

const PAGE: usize = 8192;

type Call = Box<dyn FnMut()>;
type Fallible<T> = Result<T, Box<dyn Error>>;
type Plain<S> = Ftl<ByteNand<S>, NoDedup>;

/// One row: a call that works on so many pages of the host.
struct Row {
    name: &'static str,
    pages: u32,
    call: Call,
    rounds: Vec<f64>,
}

fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn geometry(blocks: u32) -> Geometry {
    Geometry {
        channels: 1,
        packages: 1,
        dies_per_package: 1,
        planes_per_die: 4,
        blocks_per_plane: blocks / 4,
        pages_per_block: 256,
        page_bytes: PAGE as u32,
        oob_bytes: 320,
    }
}

fn channel(code: &str) -> ChannelSpec {
    ChannelSpec { code: code.to_owned(), scrambler: preset("lba-prbs31").ok() }
}

fn errs(rate: f64) -> WearModel {
    WearModel { fresh_rate: rate, noise_share: 0.1, retries: 6, ..WearModel::none() }
}

fn pages(count: usize) -> Vec<PageBytes> {
    let mut random = SplitMix64::new(1);
    (0..count).map(|_| PageBytes::from(random.bytes(PAGE))).collect()
}

const fn oob(lpn: u32) -> Oob {
    Oob { key: PageKey::Data(lpn), seq: lpn as u64, seed: lpn as u64, tag: 0 }
}

/// Copies pages about, as far apart as the drives below have theirs.
fn memcpy(blocks: usize) -> Row {
    let bytes = SplitMix64::new(2).bytes(blocks * 256 * PAGE);
    let mut to = vec![0; 256 * PAGE];
    let mut at = 0;
    let call = Box::new(move || {
        at = (at + 1) % blocks;
        for (to, from) in to.chunks_mut(PAGE).zip(bytes[at * 256 * PAGE..].chunks(PAGE)) {
            to.copy_from_slice(from);
            black_box(&to);
        }
    });
    Row { name: "memcpy of pages", pages: 256, call, rounds: Vec::new() }
}

fn nand_rows(rows: &mut Vec<Row>, code: &'static str, names: [&'static str; 3]) -> Fallible<()> {
    let data = pages(256);
    let mut nand = ByteNand::in_memory(geometry(16), &channel(code), WearModel::none())?;
    let (mut block, source) = (0, data.clone());
    let program = Box::new(move || {
        block = (block + 1) % 16;
        nand.erase(block).expect("erased");
        for (at, page) in (0..).zip(&source) {
            nand.program(block * 256 + at, Payload::Data(page), &oob(at)).expect("programmed");
        }
    });
    rows.push(Row { name: names[0], pages: 256, call: program, rounds: Vec::new() });
    let mut nand = ByteNand::in_memory(geometry(16), &channel(code), WearModel::none())?;
    for at in 0..256 * 16 {
        nand.program(at, Payload::Data(&data[at as usize % 256]), &oob(at))?;
    }
    let mut block = 0;
    let read = Box::new(move || {
        block = (block + 1) % 16;
        for at in 0..256 {
            black_box(nand.read(block * 256 + at).expect("read"));
        }
    });
    rows.push(Row { name: names[1], pages: 256, call: read, rounds: Vec::new() });
    let mut nand = ByteNand::in_memory(geometry(16), &channel(code), WearModel::none())?;
    for (at, page) in (0..).zip(&data) {
        nand.program(at, Payload::Data(page), &oob(at))?;
    }
    let mut block = 1;
    let copy = Box::new(move || {
        block = block % 15 + 1;
        nand.erase(block).expect("erased");
        for at in 0..256 {
            let to = block * 256 + at;
            nand.copy(at, to, PageKey::Data(at), u64::from(at)).expect("copied");
        }
    });
    rows.push(Row { name: names[2], pages: 256, call: copy, rounds: Vec::new() });
    Ok(())
}

fn read_with_errors(name: &'static str, code: &str, rate: f64) -> Fallible<Row> {
    let data = pages(256);
    let mut nand = ByteNand::in_memory(geometry(16), &channel(code), errs(rate))?;
    for (at, page) in (0..).zip(&data) {
        nand.program(at, Payload::Data(page), &oob(at))?;
    }
    let call = Box::new(move || {
        for at in 0..256 {
            // A rare page fails after all retries; that takes its time too.
            let _ = black_box(nand.read(at));
        }
    });
    Ok(Row { name, pages: 256, call, rounds: Vec::new() })
}

const BLOCKS: u32 = 64;

/// A full drive of 128 MiB raw and 28 % over-provisioning, after its own size in random writes.
fn full<S: Store>(nand: ByteNand<S>) -> Fallible<(Plain<S>, Vec<PageBytes>)> {
    let data = pages(64);
    let logical_pages = (f64::from((BLOCKS - 16) * 256) / 1.28) as u32;
    let settings = FtlSettings { logical_pages, gc_reserve_blocks: 2, ..FtlSettings::default() };
    let mut ftl = Ftl::format(nand, NoDedup, settings)?;
    let mut random = SplitMix64::new(3);
    for at in 0..logical_pages * 2 {
        let random = random.below(u64::from(logical_pages)) as u32;
        let lpn = if at < logical_pages { at } else { random };
        ftl.write(lpn, &data[at as usize % 64], &mut Untimed)?;
    }
    Ok((ftl, data))
}

fn ftl_row(rate: f64, name: &'static str) -> Fallible<Row> {
    let nand = ByteNand::in_memory(geometry(BLOCKS), &channel("ses-33x256"), errs(rate))?;
    let (mut ftl, data) = full(nand)?;
    let logical = u64::from(ftl.settings().logical_pages);
    let mut random = SplitMix64::new(4);
    let call = Box::new(move || {
        for page in &data {
            let lpn = random.below(logical) as u32;
            ftl.write(lpn, page, &mut Untimed).expect("written");
        }
    });
    Ok(Row { name, pages: 64, call, rounds: Vec::new() })
}

fn drive_rows<S: Store + 'static>(
    rows: &mut Vec<Row>,
    nand: impl Fn() -> Fallible<ByteNand<S>>,
    names: [&'static str; 2],
) -> Fallible<()> {
    for (reads, name) in [false, true].into_iter().zip(names) {
        let (ftl, data) = full(nand()?)?;
        let pace = Pace::new(*ftl.geometry(), Latencies::default());
        let drive = EmulatedDrive::new(ftl, pace, false, Arc::new(WallClock::start()))?;
        let requests = drive.size_bytes() / (64 << 10);
        let chunk: Vec<u8> = data[..8].iter().flat_map(|page| page.iter().copied()).collect();
        let mut buffer = chunk.clone();
        let mut random = SplitMix64::new(5);
        let call = Box::new(move || {
            for _ in 0..8 {
                let at = random.below(requests) * (64 << 10);
                if reads {
                    drive.read_at(at, &mut buffer).expect("read");
                } else {
                    drive.write_at(at, &chunk, false).expect("written");
                }
            }
        });
        rows.push(Row { name, pages: 64, call, rounds: Vec::new() });
    }
    Ok(())
}

fn main() -> Fallible<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, round_s) = if quick { (1, 0.0) } else { (9, 0.05) };
    let mut rows = vec![memcpy(16)];
    nand_rows(
        &mut rows,
        "ses-33x256",
        ["program, LDPC ses-33x256", "read, no errors", "copy, no errors"],
    )?;
    nand_rows(
        &mut rows,
        "bch-t18-1k",
        ["program, bch-t18-1k", "read, bch, no errors", "copy, bch, no errors"],
    )?;
    rows.push(read_with_errors("read, LDPC, 1e-6 wrong", "ses-33x256", 1e-6)?);
    rows.push(read_with_errors("read, LDPC, 1e-5 wrong", "ses-33x256", 1e-5)?);
    rows.push(read_with_errors("read, LDPC, 1e-4 wrong", "ses-33x256", 1e-4)?);
    rows.push(read_with_errors("read, bch, 1e-4 wrong", "bch-t18-1k", 1e-4)?);
    rows.push(ftl_row(0.0, "FTL random write, collecting")?);
    rows.push(ftl_row(1e-6, "FTL random write, 1e-6 wrong")?);
    let wear = errs(1e-7);
    let memory = || {
        Ok(ByteNand::<MemStore>::in_memory(geometry(BLOCKS), &channel("ses-33x256"), wear.clone())?)
    };
    drive_rows(
        &mut rows,
        memory,
        ["drive, 64 KiB random writes, memory", "drive, 64 KiB random reads, memory"],
    )?;
    let folder = tempfile::tempdir()?;
    let files = FileFolder::open(folder.path())?;
    let made = std::cell::Cell::new(0);
    let file = || {
        made.set(made.get() + 1);
        let media = files.create(&format!("nand{}", made.get()))?;
        let (geometry, channel) = (geometry(BLOCKS), channel("ses-33x256"));
        let description = Description::new(geometry, &channel, "");
        let copies = files.create(&format!("copies{}", made.get()))?;
        let store = FileStore::create(media, &description)?
            .with_copies(CopyFile::create(copies, &description)?);
        Ok(ByteNand::create(store, geometry, &channel, wear.clone())?)
    };
    drive_rows(
        &mut rows,
        file,
        ["drive, 64 KiB random writes, file", "drive, 64 KiB random reads, file"],
    )?;
    measure(&mut rows, rounds, round_s);
    Ok(())
}

fn measure(rows: &mut [Row], rounds: usize, round_s: f64) {
    for _ in 0..rounds {
        for row in rows.iter_mut() {
            let begin = cpu_seconds();
            let mut pages = 0;
            let spent = loop {
                (row.call)();
                pages += u64::from(row.pages);
                let spent = cpu_seconds() - begin;
                if spent >= round_s {
                    break spent;
                }
            };
            row.rounds.push(pages as f64 * PAGE as f64 / spent.max(1e-9));
        }
    }
    let median = |row: &Row| {
        let mut rounds = row.rounds.clone();
        rounds.sort_by(f64::total_cmp);
        rounds[rounds.len() / 2]
    };
    let reference = rows.first().map_or(1.0, median);
    println!("| what, 8 KiB pages, one core | per CPU second | of memcpy |");
    println!("|---|---|---|");
    for row in rows.iter() {
        let speed = median(row);
        println!("| {} | {:.0} MB/s | {:.3} |", row.name, speed / 1e6, speed / reference);
    }
}
