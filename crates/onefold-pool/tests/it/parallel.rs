//! Many threads on one pool.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use onefold_block::{BlockDevice, ByteSize, SplitMix64};
use onefold_pool::Pool;

use crate::support::{assert_sound, content, new_pool, options, small};

/// Chunks of each thread's region.
const REGION: u64 = 700;

#[test]
fn threads_in_their_own_regions_do_not_disturb_each_other() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(64 << 20)).unwrap();
    let contents: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let (volume, pool) = (volume.clone(), pool.clone());
                scope.spawn(move || {
                    let mut random = SplitMix64::new(thread);
                    let mut held = vec![0u64; REGION as usize];
                    for _ in 0..1500 {
                        let n = random.below(REGION);
                        let at = (thread * REGION + n) * 4096;
                        match random.below(10) {
                            0 => {
                                volume.trim(at, 4096, false).unwrap();
                                held[n as usize] = 0;
                            }
                            1 => volume.flush().unwrap(),
                            2 if thread == 0 && n < 20 => pool.checkpoint().unwrap(),
                            3 | 4 => {
                                let mut found = vec![0; 4096];
                                volume.read_at(at, &mut found).unwrap();
                                assert!(found == chunk(held[n as usize]), "thread {thread} {n}");
                            }
                            _ => {
                                // Contents are shared between the threads.
                                held[n as usize] = 1 + random.below(900);
                                volume.write_at(at, &chunk(held[n as usize]), false).unwrap();
                            }
                        }
                    }
                    held
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "after parallel work");
    let pool = Pool::open(&folder, &options()).unwrap();
    let volume = pool.volume("main").unwrap();
    let mut found = vec![0; 4096];
    for (n, kind) in contents.into_iter().flatten().enumerate() {
        volume.read_at(n as u64 * 4096, &mut found).unwrap();
        assert!(found == chunk(kind), "chunk {n}");
    }
}

fn chunk(kind: u64) -> Vec<u8> {
    if kind == 0 { vec![0; 4096] } else { content(kind, 4096) }
}

#[test]
fn the_same_chunks_written_by_all_threads_at_once_are_stored_once() {
    let (_, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(64 << 20)).unwrap();
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (volume, start) = (&volume, &start);
            scope.spawn(move || {
                for round in 0..20u64 {
                    let data: Vec<u8> =
                        (0..32).map(|n| content(round * 32 + n, 4096)).collect::<Vec<_>>().concat();
                    start.wait();
                    volume.write_at((thread * 640 + round * 32) * 4096, &data, false).unwrap();
                }
            });
        }
    });
    let status = pool.status().unwrap();
    assert_eq!(status.chunks, 640);
    assert_eq!(status.logical_bytes, 4 * 640 * 4096);
    let done = status.activity;
    assert_eq!((done.stored, done.duplicate), (640, 3 * 640));
}

#[test]
fn pieces_of_one_chunk_written_at_once_are_all_there() {
    let (_, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
    for round in 1..40u8 {
        std::thread::scope(|scope| {
            for piece in 0..8u64 {
                let volume = &volume;
                scope.spawn(move || {
                    volume.write_at(piece * 512, &[round ^ piece as u8; 512], false).unwrap();
                });
            }
        });
        let mut found = vec![0; 4096];
        volume.read_at(0, &mut found).unwrap();
        for (piece, bytes) in found.chunks(512).enumerate() {
            assert!(bytes.iter().all(|&b| b == round ^ piece as u8), "round {round} piece {piece}");
        }
    }
}

#[test]
fn readers_never_meet_a_reclaimed_container() {
    let (folder, pool) = new_pool(&small());
    let volume = pool.create_volume("main", ByteSize(64 << 20)).unwrap();
    let data = |round: u64| -> Vec<u8> {
        (0..200).map(|n| content(round * 1000 + n, 4096)).collect::<Vec<_>>().concat()
    };
    volume.write_at(0, &data(0), false).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut found = vec![0; 200 * 4096];
                while !done.load(Ordering::Relaxed) {
                    volume.read_at(0, &mut found).unwrap();
                }
            });
        }
        for round in 1..40 {
            volume.write_at(0, &data(round), false).unwrap();
            pool.checkpoint().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(pool.status().unwrap().containers < 10, "overwritten containers were removed");
    drop(volume);
    pool.close().unwrap();
    assert_sound(&folder, "after overwriting");
}
