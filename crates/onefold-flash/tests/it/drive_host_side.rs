//! The host side of `ses-host` on the emulated drive: what lies in the cells, and what comes back.
//! Room: onefold-flash.   Source: [ses-dedup] sec. III and IV.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onefold_block::conformance::check_device;
use onefold_block::{BlockDevice as _, Folder as _, SimFolder, SplitMix64, ZeroOptions};
use onefold_code::{PageAddress, PageStatus, preset};
use onefold_flash::drive::{
    self, Clock, Door, DriveError, EmulatedDrive, HostScrambler, OpenDrive, Pace, SPEC_FILE,
    WallClock,
};
use onefold_flash::nand::bytes::{Channel, FileStore, RECORD_BYTES, Store as _};
use onefold_flash::nand::{Nand as _, PageKey};
use onefold_flash::spec::DriveSpec;
use onefold_flash::{Ftl, FtlSettings};

use crate::drive_power;
use crate::support::bytes_in_a_file;

const PAGE: usize = 1024;

/// Whoever looks finds that units have become idle.
#[derive(Default)]
struct Unhurried(AtomicU64);

impl Clock for Unhurried {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1_000_000_000, Ordering::Relaxed)
    }

    fn unix_s(&self) -> u64 {
        1_700_000_000
    }

    fn wait_until(&self, _until_ns: u64) {}
}

fn spec(options: &str) -> DriveSpec {
    let mut spec = drive_power::spec("ses-host");
    spec.dedup.options = options.parse().expect("TOML");
    spec
}

fn open(folder: &SimFolder) -> OpenDrive {
    OpenDrive::open(Arc::new(folder.clone()), false, Arc::new(Unhurried::default()), None)
        .expect("opened")
}

fn made(spec: &DriveSpec) -> (SimFolder, OpenDrive) {
    let folder = SimFolder::new();
    drive::create(&folder, spec).expect("made");
    let drive = open(&folder);
    (folder, drive)
}

/// What the cells of a page hold, its parity, and the kind in its out-of-band area.
#[derive(PartialEq)]
struct Cells {
    data: Vec<u8>,
    parity: Vec<u8>,
    kind: u8,
}

impl fmt::Debug for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, parity, kind } = self;
        write!(f, "kind {kind:#x}, {:x?}.., parity {:x?}..", &data[..8], &parity[..8])
    }
}

fn cells(drive: &OpenDrive, lpn: u32) -> Cells {
    drive.device().with_ftl(|ftl| {
        let ppn = ftl.locate(lpn).expect("stored");
        let (mut data, mut oob) = (vec![0; PAGE], vec![0; 96]);
        let store: &FileStore = ftl.nand().store();
        store.read_page(ppn, &mut data, &mut oob).expect("read");
        let parity = ftl.nand().channel().parity_bytes();
        assert!(parity + RECORD_BYTES <= 96);
        Cells { data, parity: oob[..parity].to_vec(), kind: oob[parity] }
    })
}

/// What the cells hold of content that was written under an address: plain, or scrambled with the
/// seed of the address.
fn expected(lpn: u32, content: &[u8], plain: bool) -> Cells {
    let channel = spec("").channel().expect("a preset");
    let mut data = content.to_vec();
    if !plain {
        let scrambler = channel.scrambler.as_ref().expect("there is one").compile();
        scrambler
            .expect("compiles")
            .scramble(&PageAddress::of(u64::from(lpn)), &mut data)
            .expect("covered");
    }
    let built = Channel::new(&channel, PAGE, 320).expect("fits");
    let mut parity = vec![0; built.parity_bytes()];
    built.code().encode_page(&data, &mut parity).expect("lengths");
    Cells { data, parity, kind: 1 | if plain { 0x40 } else { 0 } }
}

fn write(drive: &OpenDrive, lpn: u32, content: &[u8]) {
    drive.device().write_at(u64::from(lpn) * PAGE as u64, content, false).expect("written");
}

fn read(drive: &OpenDrive, lpn: u32) -> Vec<u8> {
    let mut found = vec![1; PAGE];
    drive.device().read_at(u64::from(lpn) * PAGE as u64, &mut found).expect("read");
    found
}

fn content(id: u64) -> Vec<u8> {
    if id == 0 { vec![0; PAGE] } else { SplitMix64::new(id).bytes(PAGE) }
}

#[test]
fn plain_data_lies_in_the_cells_where_the_host_wants_it_and_scrambled_data_elsewhere() {
    let (_folder, drive) = made(&spec("lba_ranges = [[4, 7], [20, 20]]"));
    for lpn in 0..24 {
        // Text, as a scrambler is there for: one byte again and again, and one more.
        let mut page = vec![b'a'; PAGE];
        page[0] = lpn as u8;
        write(&drive, lpn, &page);
        let wanted = (4..=7).contains(&lpn) || lpn == 20;
        assert_eq!(cells(&drive, lpn), expected(lpn, &page, wanted), "page {lpn}");
        assert_eq!(read(&drive, lpn), page, "page {lpn}");
    }
    // The fingerprint of plain cells is that of their parity as it is.
    let same = content(9);
    (4..8).for_each(|lpn| write(&drive, lpn, &same));
    (0..4).for_each(|lpn| write(&drive, lpn, &same));
    drive.device().with_ftl(|ftl| {
        assert_eq!(ftl.counters().inline_pages, 3, "pages out of the ranges are kept apart");
        assert_eq!(ftl.nand().health().plain_programs, 6);
        assert_eq!(ftl.locate(4), ftl.locate(7));
        let parity = onefold_code::ParityFingerprint::new(
            ftl.nand().channel().code().clone(),
            ftl.nand().channel().scrambler().expect("one").clone(),
            PAGE,
            onefold_code::Truncation::Crc64,
        )
        .expect("fits");
        for lpn in [2, 5] {
            let ppn = ftl.locate(lpn).expect("stored");
            let stored = ftl.nand().stored_parity(ppn).expect("read");
            assert_eq!(stored.scrambler_seed.is_none(), lpn == 5);
            let of_stored = stored.fingerprint(&parity).expect("lengths");
            assert_eq!(of_stored, parity.of_data(&same).expect("lengths"));
        }
    });
    assert!((0..8).all(|lpn| read(&drive, lpn) == same));
}

#[test]
fn a_host_that_scrambles_ahead_sees_a_block_device() {
    for ranges in ["", "lba_ranges = [[1, 2], [5, 9]]"] {
        check_device(&|size| {
            let mut spec = spec(ranges);
            spec.geometry.blocks_per_plane = size.div_ceil(PAGE as u64 * 16) as u32 + 9;
            let channel = spec.channel().expect("a preset");
            let nand = bytes_in_a_file(spec.geometry, &channel, spec.wear_model());
            let settings = FtlSettings {
                logical_pages: size.div_ceil(PAGE as u64) as u32,
                gc_reserve_blocks: 3,
                ..FtlSettings::default()
            };
            let policy = spec.bytes_policy().expect("known");
            let ftl = Ftl::format(nand, policy, settings).expect("fits");
            let pace = Pace::new(spec.geometry, spec.latencies());
            let clock = Arc::new(WallClock::start());
            let drive = EmulatedDrive::new(ftl, pace, false, clock).expect("a power of two");
            let host = HostScrambler::new(&spec).expect("known");
            assert!(host.is_some());
            Arc::new(drive.with_host_scrambler(host))
        });
    }
}

/// Pages of every kind, written in parts, trimmed and shared, moved by collection, across closing
/// and killing, while the host changes its mind about what it wants.
#[test]
fn pages_come_back_whatever_the_host_wanted_when_they_were_written() {
    let rules = [
        ("ses-host", "lba_ranges = [[0, 29]]"),
        ("ses-host", ""),
        ("ses-host", "lba_ranges = [[20, 49]]"),
        ("none", ""),
        ("ses-host", "compression = 'before-scrambler'"),
        ("ses-device", ""),
        ("ses-host", "lba_ranges = [[90, 91]]"),
    ];
    let (folder, mut drive) = made(&spec(rules[0].1));
    let pages = drive.device().size_bytes() / PAGE as u64;
    let mut model = vec![vec![0; PAGE]; pages as usize];
    let mut random = SplitMix64::new(3);
    let (mut moved_plain, mut shared) = (0, 0);
    for round in 0..21 {
        for _ in 0..250 {
            let lpn = random.below(pages);
            let offset = lpn * PAGE as u64;
            let page = &mut model[lpn as usize];
            match random.below(12) {
                0 => {
                    drive.device().trim(offset, PAGE as u64, false).expect("trimmed");
                    page.fill(0);
                }
                1 => {
                    let options = ZeroOptions { no_hole: true, ..ZeroOptions::default() };
                    drive.device().write_zeroes(offset, PAGE as u64, options).expect("written");
                    page.fill(0);
                }
                2 | 3 => {
                    let start = random.below(PAGE as u64) as usize;
                    let len = 1 + random.below((PAGE - start) as u64) as usize;
                    let part = random.bytes(len);
                    let at = offset + start as u64;
                    drive.device().write_at(at, &part, false).expect("written");
                    page[start..start + len].copy_from_slice(&part);
                }
                4 => drop(drive.device().idle().expect("done")),
                5 => drive.device().flush().expect("flushed"),
                _ => {
                    let id = if random.chance(1, 2) { random.below(6) } else { random.next_u64() };
                    *page = content(id);
                    drive.device().write_at(offset, page, false).expect("written");
                }
            }
            if random.chance(1, 20) {
                assert!(read(&drive, lpn as u32) == model[lpn as usize], "page {lpn}");
            }
        }
        let check = |drive: &OpenDrive| {
            for (lpn, page) in (0..).zip(&model) {
                assert!(read(drive, lpn) == *page, "round {round}, page {lpn}");
            }
            drive.device().with_ftl(|ftl| ftl.check_invariants());
        };
        check(&drive);
        drive.device().with_ftl(|ftl| {
            shared += ftl.counters().inline_pages + ftl.counters().offline_pages;
            moved_plain += ftl.nand().health().copies_as_stored;
            assert_eq!(ftl.nand().health().copies_encoded, 0, "nothing is scrambled anew");
        });
        // Flushed and killed, or closed.
        drive.device().flush().expect("flushed");
        if random.chance(1, 2) {
            drive.close().expect("closed");
        } else {
            drop(drive);
        }
        rewrite_spec(&folder, rules[(round + 1) % rules.len()]);
        drive = open(&folder);
        check(&drive);
    }
    assert!(moved_plain > 100 && shared > 500, "{moved_plain} moved, {shared} shared");
}

/// Puts another policy into the specification of a drive.
fn rewrite_spec(folder: &SimFolder, (policy, options): (&str, &str)) {
    let mut spec = spec(options);
    policy.clone_into(&mut spec.dedup.policy);
    let media = folder.open(SPEC_FILE).expect("there");
    let text = spec.to_commented_toml();
    media.write(0, text.as_bytes()).expect("written");
    media.set_len(text.len() as u64).expect("cut");
}

#[test]
fn plain_pages_stay_plain_until_they_are_written_under_another_rule() {
    let (folder, drive) = made(&spec("lba_ranges = [[0, 9]]"));
    let (old, new) = (content(1), content(2));
    (5..15).for_each(|lpn| write(&drive, lpn, &old));
    drive.close().expect("closed");
    // What the host wants may change, the policy may not.
    let other = ["dedup.table_share=0.5".to_owned()];
    let refused = drive::revise(&folder, &other, None).expect_err("another table");
    assert!(matches!(refused, DriveError::Fixed { .. }), "{refused}");
    let other = ["dedup.lba_ranges=[[10, 19]]".to_owned()];
    let changed = drive::revise(&folder, &other, None).expect("the host's affair");
    assert_eq!(changed, ["dedup.lba_ranges = [[10, 19]]"]);
    let drive = open(&folder);
    for lpn in 5..15 {
        assert_eq!(cells(&drive, lpn).kind & 0x40 != 0, lpn < 10, "page {lpn}");
        assert_eq!(read(&drive, lpn), old, "page {lpn}");
    }
    // A new page is like the old plain one, and of the same content: it shares it.
    write(&drive, 12, &old);
    assert_eq!(drive.device().with_ftl(|ftl| (ftl.locate(12), ftl.locate(5))), {
        let place = drive.device().with_ftl(|ftl| ftl.locate(5));
        (place, place)
    });
    for lpn in 5..15 {
        write(&drive, lpn, &new);
        let (found, rule) = (cells(&drive, lpn), expected(lpn, &new, lpn >= 10));
        assert_eq!((found.data, found.kind & 0x40), (rule.data, rule.kind & 0x40), "page {lpn}");
        assert_eq!(read(&drive, lpn), new, "page {lpn}");
    }
}

#[test]
fn a_page_that_moves_is_not_scrambled_again() {
    let (_folder, drive) = made(&spec("lba_ranges = [[0, 2], [9, 9]]"));
    let page = content(7);
    for lpn in [2, 0, 9] {
        write(&drive, lpn, &page);
    }
    // Its first writer goes away; two others are left.
    drive.device().trim(2 * PAGE as u64, PAGE as u64, false).expect("trimmed");
    let mut places = BTreeSet::new();
    let mut random = SplitMix64::new(1);
    let mut step = 100;
    while places.len() < 5 && step < 20_000 {
        step += 1;
        write(&drive, 10 + random.below(60) as u32, &content(step));
        let place = drive.device().with_ftl(|ftl| {
            let place = ftl.locate(9).expect("stored");
            let oob = ftl.nand().read_oob(place).expect("read");
            let moved = !places.is_empty() && !places.contains(&place);
            assert!(!moved || matches!(oob.key, PageKey::Shared(_)), "{oob:?}");
            assert_eq!(oob.seed, 2, "the first writer's address");
            place
        });
        if places.insert(place) {
            let Cells { data, kind, .. } = cells(&drive, 9);
            assert_eq!((data == page, kind & 0x40), (true, 0x40), "after {} moves", places.len());
            assert_eq!((read(&drive, 0), read(&drive, 9)), (page.clone(), page.clone()));
        }
    }
    assert_eq!(places.len(), 5, "it moved");
}

#[test]
fn requests_overrule_ranges_in_both_directions() {
    let (folder, drive) = made(&spec("lba_ranges = [[0, 9]]"));
    let kinds = |drive: &OpenDrive| [cells(drive, 3).kind & 0x40, cells(drive, 30).kind & 0x40];
    let page = content(5);
    let mut seen = Vec::new();
    for request in [None, Some(true), Some(false)] {
        let door = Door::new(Arc::clone(drive.device()), request);
        for lpn in [3, 30, 31] {
            door.write_at(lpn * PAGE as u64, &page, false).expect("written");
        }
        seen.push(kinds(&drive));
        let apart = drive.device().with_ftl(|ftl| ftl.locate(30) != ftl.locate(31));
        assert_eq!(apart, request != Some(true), "copies are kept unless sharing is asked for");
        assert!([3, 30, 31].into_iter().all(|lpn| read(&drive, lpn) == page));
    }
    assert_eq!(seen, [[0x40, 0], [0x40, 0x40], [0, 0]]);
    drive.device().flush().expect("flushed");
    drop(drive);
    let drive = open(&folder);
    assert_eq!(kinds(&drive), [0, 0]);
    assert!([3, 30, 31].into_iter().all(|lpn| read(&drive, lpn) == page));
    // Under other policies the host scrambles nothing.
    rewrite_spec(&folder, ("ses-device", ""));
    let drive = open(&folder);
    let door = Door::new(Arc::clone(drive.device()), Some(true));
    door.write_at(40 * PAGE as u64, &page, false).expect("written");
    assert_eq!(cells(&drive, 40).kind & 0x40, 0);
}

#[test]
fn a_drive_whose_seeds_the_host_cannot_know_is_refused() {
    let mut spec = spec("");
    "samsung-prbs15".clone_into(&mut spec.media.scrambler);
    assert!(preset(&spec.media.scrambler).is_ok());
    let refused = drive::create(&SimFolder::new(), &spec).expect_err("refused");
    assert!(matches!(refused, DriveError::Policy(_)), "{refused}");
    assert!(HostScrambler::new(&spec).expect("known").is_none(), "nothing to undo");
    // Without a scrambler all data is plain in the cells, and nobody need do anything.
    "none".clone_into(&mut spec.media.scrambler);
    let (_folder, drive) = made(&spec);
    let page = content(3);
    (0..3).for_each(|lpn| write(&drive, lpn, &page));
    assert_eq!(cells(&drive, 1).data, page);
    assert_eq!(drive.device().with_ftl(|ftl| ftl.counters().inline_pages), 2);
}

#[test]
fn plain_data_costs_raw_bit_errors_where_the_model_says_so() {
    let mut rates = BTreeMap::new();
    for percent in [100, 400] {
        let mut spec = spec("lba_ranges = [[0, 9]]");
        spec.media.raw_bit_errors_ppb = 20_000;
        spec.media.plain_raw_bit_errors_percent = percent;
        let (_folder, drive) = made(&spec);
        for lpn in 0..20 {
            write(&drive, lpn, &content(100 + u64::from(lpn)));
        }
        for (plain, lpns) in [(true, 0..10), (false, 10..20)] {
            let health = || drive.device().with_ftl(|ftl| *ftl.nand().health());
            let before = health();
            for _ in 0..200 {
                for lpn in lpns.clone() {
                    assert_eq!(read(&drive, lpn), content(100 + u64::from(lpn)));
                }
            }
            let after = health();
            let errors = (after.raw_bit_errors - before.raw_bit_errors) as f64;
            rates.insert((percent, plain), errors / (after.bits_read - before.bits_read) as f64);
        }
    }
    println!("{rates:?}");
    let ratio = |percent| rates[&(percent, true)] / rates[&(percent, false)];
    assert!((0.5..2.0).contains(&ratio(100)), "as many as anywhere: {}", ratio(100));
    assert!((2.0..8.0).contains(&ratio(400)), "four times as many: {}", ratio(400));
}

/// With an engine before the scrambler the host's is off; its checksum finds the same.
#[test]
fn a_compression_engine_before_the_scrambler_turns_the_host_side_off() {
    let (_folder, drive) = made(&spec("compression = 'before-scrambler'"));
    let (text, noise) = (vec![b't'; PAGE], content(4));
    for lpn in 0..6 {
        let page = if lpn % 2 == 0 { &text } else { &noise };
        write(&drive, lpn, page);
    }
    assert_eq!(cells(&drive, 0), {
        let scrambled = expected(0, &text, false);
        Cells { kind: cells(&drive, 0).kind, ..scrambled }
    });
    drive.device().with_ftl(|ftl| {
        assert_eq!(ftl.counters().inline_pages, 4);
        assert_eq!(ftl.nand().health().plain_programs, 0);
        for (lpn, page) in [(0, &text), (1, &noise)] {
            let ppn = ftl.locate(lpn).expect("stored");
            let tag = ftl.nand().read_oob(ppn).expect("read").tag;
            assert_eq!(tag, u64::from(crc32fast_of(page)) | 1 << 32, "kept in the oob area");
        }
    });
    assert!((0..6).all(|lpn| read(&drive, lpn) == *if lpn % 2 == 0 { &text } else { &noise }));
}

/// CRC-32 of a page, bit by bit.
fn crc32fast_of(page: &[u8]) -> u32 {
    let step = |crc: u32, _| crc >> 1 ^ if crc & 1 == 1 { 0xEDB8_8320 } else { 0 };
    !page.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

/// The code corrects plain cells as any others.
#[test]
fn plain_cells_are_corrected() {
    let built = Channel::new(&spec("").channel().expect("a preset"), PAGE, 320);
    let mut channel = built.expect("fits");
    let mut page = content(8);
    let mut parity = vec![0; channel.parity_bytes()];
    let crc = channel.encode(&page, &mut parity).expect("lengths");
    page[17] ^= 4;
    let status = channel.correct(&mut page, &mut parity, crc).expect("lengths");
    assert!(matches!(status, PageStatus::Corrected(1)) && page == content(8), "{status:?}");
}
