//! Streams of snapshots, read and received.
//! Room: onefold-fuzz.

use onefold_block::{BlockDevice as _, ByteSize, MemDevice, SimFolder};
use onefold_content::{FingerprintKind, Fingerprinter};
use onefold_pool::stream::{MAGIC, Receiver, StreamReader, receiving_bytes};
use onefold_pool::{Budgets, OpenOptions, Pool, PoolIdentity, PoolSettings};

/// Largest volume that is received into.
const SIZE_MAX: u64 = 256 << 10;
/// Bytes of a frame besides its body, and of its check.
const FRAME: (usize, usize) = (56, 16);

/// Any bytes as a stream, once as they are and once with every frame's check made right.
pub fn stream(data: &[u8]) {
    receive(data);
    receive(&with_checks(data));
}

fn with_checks(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let mut at = MAGIC.len();
    while let Some(len) = bytes.get(at..at + 4) {
        let body = u32::from_le_bytes(len.try_into().expect("four")) as usize;
        let end = at.saturating_add(body).saturating_add(FRAME.0);
        let Some(frame) = bytes.get_mut(at..end) else { break };
        let (covered, check) = frame.split_at_mut(body + FRAME.0 - FRAME.1);
        let digest = Fingerprinter::new(FingerprintKind::Blake3).hash(covered);
        check.copy_from_slice(&digest.as_bytes()[..FRAME.1]);
        at = end;
    }
    bytes
}

fn receive(data: &[u8]) {
    let Ok(mut reader) = StreamReader::open(data) else { return };
    let header = reader.header().clone();
    let size = header.size_bytes;
    let device = MemDevice::new(receiving_bytes(size.min(SIZE_MAX), 4096).unwrap_or(0));
    let mut receiver = Receiver::new(header, &device);
    let mut upto = 0;
    while let Ok(Some(frame)) = reader.next_frame() {
        assert!(frame.upto > upto && frame.from <= upto && frame.upto <= size, "in order");
        upto = frame.upto;
        assert!(frame.items().next().is_some());
        if size <= SIZE_MAX {
            let _ = receiver.store(&frame);
        }
    }
    if size <= SIZE_MAX {
        let _ = receiver.mark(upto);
        let marked = receiver.marked().expect("memory does not fail");
        assert_eq!(marked, Some(upto), "nothing was written past the end");
    }
}

/// Streams of a small pool.
pub fn streams() -> Vec<Vec<u8>> {
    let folder = SimFolder::new();
    let identity = PoolIdentity { uuid: [1; 16], key: [2; 32] };
    Pool::create(&folder, &PoolSettings::default(), identity).expect("nothing fails here");
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
    let pool = Pool::open(&folder, &OpenOptions { read_only: false, budgets });
    let pool = pool.expect("nothing fails here");
    let volume = pool.create_volume("main", ByteSize(20 * 4096 + 512)).expect("nothing fails here");
    volume.write_at(4096, &[7; 9000], false).expect("nothing fails here");
    pool.snapshot("main@a", 0, false).expect("nothing fails here");
    volume.write_at(0, &[9; 4096], false).expect("nothing fails here");
    pool.snapshot("main@b", 0, false).expect("nothing fails here");
    let stream = |name, base| {
        let mut bytes = Vec::new();
        pool.stream_header(name, base, &mut bytes).expect("nothing fails here");
        let mut next = Some(0);
        while let Some(from) = next {
            next = pool.stream_frame(name, base, from, &mut bytes).expect("nothing fails here");
        }
        bytes
    };
    vec![stream("main@a", None), stream("main@b", Some("main@a"))]
}
