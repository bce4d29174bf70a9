//! The suite of checks for [`Handover`].
//! Room: onefold-block.

use std::sync::Arc;

use super::{assert_same, ok};
use crate::handover::Handover;
use crate::media::MediaError;

/// Makes memory without regions.
pub type MakeHandover<'a> = dyn Fn() -> Arc<dyn Handover> + 'a;

/// A named check.
pub type HandoverCheck = (&'static str, fn(&MakeHandover<'_>));

/// Every check of the suite.
pub const CHECKS: &[HandoverCheck] = &[
    ("regions are zero and come back as they were left", regions_come_back),
    ("making replaces", making_replaces),
    ("names come and go", names_come_and_go),
    ("a removed region can still be used", removed_regions_can_be_used),
];

/// Put an implementation through every check.
pub fn check_handover(make: &MakeHandover<'_>) {
    for (_, check) in CHECKS {
        check(make);
    }
}

const BYTES: usize = 3 * 4096;

fn regions_come_back(make: &MakeHandover<'_>) {
    let memory = make();
    let mut region = ok(memory.create("a", BYTES), "making");
    assert_same(region.bytes(), &[0; BYTES], 0, "a new region");
    assert_eq!(region.bytes().as_ptr().align_offset(4096), 0, "on a page of its own");
    region.bytes_mut()[5000..5005].copy_from_slice(b"hello");
    region.publish(8192, 0x0123_4567_89ab_cdef);
    drop(region);
    let region = ok(memory.open("a"), "opening");
    assert_eq!(region.bytes().len(), BYTES, "a region keeps its length");
    assert_eq!(
        (&region.bytes()[5000..5005], region.number(8192)),
        (&b"hello"[..], 0x0123_4567_89ab_cdef)
    );
    assert_eq!(region.bytes()[8192], 0xef, "numbers have their low byte first");
}

fn making_replaces(make: &MakeHandover<'_>) {
    let memory = make();
    ok(memory.create("a", BYTES), "making").bytes_mut().fill(7);
    let region = ok(memory.create("a", 4096), "making again");
    assert_same(region.bytes(), &[0; 4096], 0, "a region made again");
    drop(region);
    assert_eq!(ok(memory.open("a"), "opening").bytes().len(), 4096);
}

fn names_come_and_go(make: &MakeHandover<'_>) {
    let memory = make();
    assert!(ok(memory.list(), "listing").is_empty());
    assert!(
        matches!(memory.open("a"), Err(MediaError::NotFound { .. })),
        "opening what is not there"
    );
    for name in ["journal", "container.1", "container.0"] {
        ok(memory.create(name, 4096), "making");
    }
    assert_eq!(ok(memory.list(), "listing"), ["container.0", "container.1", "journal"]);
    ok(memory.remove("container.0"), "removing");
    ok(memory.remove("container.0"), "removing what is not there");
    assert_eq!(ok(memory.list(), "listing"), ["container.1", "journal"]);
}

fn removed_regions_can_be_used(make: &MakeHandover<'_>) {
    let memory = make();
    let mut region = ok(memory.create("a", 4096), "making");
    ok(memory.remove("a"), "removing");
    region.bytes_mut()[0] = 9;
    let other = ok(memory.create("a", 4096), "making another");
    assert_eq!((region.bytes()[0], other.bytes()[0]), (9, 0));
}
