//! The same calls and the same seed leave the same bytes, today and in every later version: tests
//! that fail name such seeds.
//! Room: onefold-block.

use onefold_block::{CrashMode, FaultKind, Folder, OpKind, SimFolder, SplitMix64};

/// Everything that a disk holds, as one number.
fn digest(folder: &dyn Folder, into: &mut crc32fast::Hasher) {
    for name in folder.list().unwrap() {
        let media = folder.open(&name).unwrap();
        let mut bytes = vec![0; media.len().unwrap() as usize];
        media.read(0, &mut bytes).unwrap();
        let space = media.allocated_bytes().unwrap();
        into.update(format!("{name} {} {space};", bytes.len()).as_bytes());
        into.update(&bytes);
    }
    if let Ok(inner) = folder.existing_subfolder("inner") {
        into.update(b"inner");
        digest(&*inner, into);
    }
}

/// Some life on a disk with two folders, with failures of syncs.
fn lived(seed: u64) -> SimFolder {
    let mut random = SplitMix64::new(seed);
    let folder = SimFolder::new();
    let inner = folder.subfolder("inner").unwrap();
    folder.sync_names().unwrap();
    let names = ["a", "b", "c", "d"];
    for _ in 0..60 {
        let place: &dyn Folder = if random.chance(1, 2) { &folder } else { &*inner };
        let name = names[random.below(4) as usize];
        let other = names[random.below(4) as usize];
        let Ok(media) = place.open(name) else {
            place.create(name).unwrap();
            continue;
        };
        let (at, len) = (random.below(20_000), 1 + random.below(9000));
        match random.below(16) {
            0..7 => media.write(at, &random.bytes(len as usize)).unwrap(),
            7 => media.punch(at, len).unwrap(),
            8 => media.set_len(at).unwrap(),
            9 => media.reserve(at, len).unwrap(),
            10 | 11 => media.sync().unwrap(),
            12 => {
                folder.fail_once(&[OpKind::Sync, OpKind::SyncNames], 1, FaultKind::Eio);
                let _ = media.sync();
            }
            13 => place.rename(name, other).unwrap(),
            14 => place.remove(name).unwrap(),
            _ => {
                let _ = place.sync_names();
            }
        }
    }
    folder
}

#[test]
fn what_a_power_cut_leaves_follows_from_its_seed() {
    let modes = [CrashMode::KeepNothing, CrashMode::KeepEverything, CrashMode::Random];
    let found = modes.map(|mode| {
        let mut hasher = crc32fast::Hasher::new();
        for seed in 0..40 {
            let folder = lived(seed);
            digest(&folder, &mut hasher);
            for crash_seed in 0..12 {
                digest(&folder.after_crash(crash_seed, mode), &mut hasher);
            }
        }
        hasher.finalize()
    });
    assert_eq!(found, LEFT, "{found:#010x?}");
}

/// Space against a plain set of pages: what writes and reservations touch is taken, what cuts and
/// holes cover whole is given back.
#[test]
fn space_is_that_of_the_pages_touched() {
    for seed in 0..30 {
        let mut random = SplitMix64::new(seed);
        let folder = SimFolder::new();
        let media = folder.create("a").unwrap();
        let mut taken = std::collections::BTreeSet::new();
        for step in 0..60 {
            let edge = |random: &mut SplitMix64| {
                (random.below(12) * 4096 + random.below(3)).saturating_sub(1)
            };
            let (at, end) = (edge(&mut random), edge(&mut random));
            let len = end.saturating_sub(at);
            let size = media.len().unwrap();
            match random.below(4) {
                0 => {
                    media.write(at, &vec![1; len as usize]).unwrap();
                    taken.extend(
                        (at..at + len)
                            .step_by(512)
                            .chain((len > 0).then(|| at + len - 1))
                            .map(|b| b / 4096),
                    );
                }
                1 => {
                    media.reserve(at, len).unwrap();
                    taken.extend((at..at + len).map(|byte| byte / 4096));
                }
                2 => {
                    media.set_len(at).unwrap();
                    taken.retain(|page| page * 4096 < at);
                }
                _ => {
                    media.punch(at, len).unwrap();
                    // The last page of a file is covered where its bytes are.
                    let end = if at + len >= size {
                        (at + len).min(size.next_multiple_of(4096)).max(at)
                    } else {
                        at + len
                    };
                    taken.retain(|page| page * 4096 < at || (page + 1) * 4096 > end);
                }
            }
            let found = media.allocated_bytes().unwrap();
            assert_eq!(found, taken.len() as u64 * 4096, "seed {seed}, step {step}");
        }
    }
}

const LEFT: [u32; 3] = [0x70b1_51bf, 0x50b1_b2bb, 0xb886_d8f2];
