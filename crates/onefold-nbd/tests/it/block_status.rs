//! Block status and reads with holes against a slow obvious model.
//! Room: onefold-nbd.

use std::sync::Arc;

use onefold_block::{BlockDevice, ExtentKind, ZeroOptions};
use onefold_nbd::protocol::constants::{chunk, command, command_flag};
use proptest::prelude::*;

use crate::device::{BLOCK, TestDevice};
use crate::raw::{Fixture, Raw, pattern};

const SIZE: u64 = 64 * BLOCK + 100;

/// Number of a block, how many, and what is done to them.
fn changes() -> impl Strategy<Value = Vec<(u64, u64, u8)>> {
    prop::collection::vec((0u64..64, 1u64..24, 0u8..4), 0..12)
}

fn apply(device: &TestDevice, changes: &[(u64, u64, u8)]) {
    for &(block, count, kind) in changes {
        let offset = block * BLOCK;
        let len = (count * BLOCK).min(SIZE - offset);
        let no_hole = ZeroOptions { no_hole: true, ..ZeroOptions::default() };
        match kind {
            0 | 1 => device.write_at(offset, &pattern(block, len as usize), false),
            2 => device.write_zeroes(offset, len, no_hole),
            _ => device.trim(offset, len, false),
        }
        .unwrap();
    }
}

/// Length and flags of each extent told.
fn status(raw: &mut Raw, flags: u16, offset: u64, len: u32) -> Vec<(u32, u32)> {
    raw.request(command::BLOCK_STATUS, flags, 3, offset, len);
    let told = raw.chunk();
    assert!(told.done && told.kind == chunk::BLOCK_STATUS && told.payload[..4] == [0, 0, 0, 1]);
    let words: Vec<u32> = told.payload[4..]
        .chunks_exact(4)
        .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
        .collect();
    words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Read with structured replies; also how many bytes came as holes.
fn read(raw: &mut Raw, flags: u16, offset: u64, len: u32) -> (Vec<u8>, u32) {
    raw.request(command::READ, flags, 8, offset, len);
    let mut data = vec![0xee; len as usize];
    let mut holes = 0;
    loop {
        let piece = raw.chunk();
        assert_eq!(piece.cookie, 8);
        let at = u64::from_be_bytes(piece.payload[..8].try_into().unwrap()) - offset;
        let room = &mut data[at as usize..];
        if piece.kind == chunk::OFFSET_HOLE {
            let count = u32::from_be_bytes(piece.payload[8..].try_into().unwrap());
            room[..count as usize].fill(0);
            holes += count;
        } else {
            assert_eq!(piece.kind, chunk::OFFSET_DATA);
            room[..piece.payload.len() - 8].copy_from_slice(&piece.payload[8..]);
        }
        if piece.done {
            return (data, holes);
        }
        assert_eq!(flags & command_flag::DF, 0, "DF means one chunk");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn told_extents_and_read_bytes_are_the_device_s(
        changes in changes(),
        ranges in prop::collection::vec((0..SIZE, 1..SIZE), 1..6),
    ) {
        let device = Arc::new(TestDevice::new(SIZE));
        apply(&device, &changes);
        let contents = device.contents();
        let fixture = Fixture::new(Arc::clone(&device) as Arc<dyn BlockDevice>);
        let mut raw = fixture.ready(true);
        for (offset, len) in ranges {
            let len = len.min(SIZE - offset) as u32;
            let told = status(&mut raw, 0, offset, len);
            let one = status(&mut raw, command_flag::REQ_ONE, offset, len);
            prop_assert_eq!(&one, &told[..1]);
            prop_assert!(told.windows(2).all(|pair| pair[0].1 != pair[1].1), "joined");
            let mut at = offset;
            for (count, flags) in told {
                for byte in (at..at + u64::from(count)).step_by(509) {
                    let expected = match device.kind_of_byte(byte) {
                        ExtentKind::Data => 0,
                        ExtentKind::Hole => 3,
                        ExtentKind::Zero => 2,
                    };
                    prop_assert_eq!(flags, expected, "byte {}", byte);
                }
                at += u64::from(count);
            }
            prop_assert_eq!(at, offset + u64::from(len));
            let expected = &contents[offset as usize..][..len as usize];
            prop_assert_eq!(&read(&mut raw, 0, offset, len).0, expected);
            prop_assert_eq!(&read(&mut raw, command_flag::DF, offset, len).0, expected);
        }
    }
}

#[test]
fn holes_cross_the_wire_as_holes() {
    let device = Arc::new(TestDevice::new(8 << 20));
    device.write_at(3 << 20, &pattern(1, 1 << 20), false).unwrap();
    let fixture = Fixture::new(Arc::clone(&device) as Arc<dyn BlockDevice>);
    let mut raw = fixture.ready(true);
    let (data, holes) = read(&mut raw, 0, 0, 8 << 20);
    assert!(data == device.contents());
    assert_eq!(holes, 7 << 20);
    let (data, holes) = read(&mut raw, command_flag::DF, 1 << 20, 4 << 20);
    assert!(data == device.contents()[1 << 20..5 << 20]);
    assert_eq!(holes, 0);
    raw.request(command::READ, command_flag::DF, 9, 0, (4 << 20) + 1);
    assert_eq!(raw.chunk().payload[..4], [0, 0, 0, 75], "too long for one chunk");
}
