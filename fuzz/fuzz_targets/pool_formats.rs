//! Any bytes as each structure of a pool on disk.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_block::ContainerId;
use onefold_pool::format::{container, frame, superblock::Superblock};

fuzz_target!(|data: &[u8]| {
    let id = ContainerId::new(1);
    if let Ok(superblock) = Superblock::decode("super.0", data) {
        let again = Superblock::decode("super.0", &superblock.encode());
        assert_eq!(again.ok().as_ref(), Some(&superblock), "decoding loses nothing");
    }
    if let Some(frame) = frame::decode(data) {
        assert!(frame.payload.len() <= data.len());
    }
    let _ = frame::decode_changes(data);
    let _ = container::check_header(data, id, &[0; 16]);
    let _ = container::decode_entry(data, id);
    if let Ok(footer) = container::decode_footer(data, id, data.len() as u64) {
        let _ = container::decode_directory(data, id, &footer);
    }
});
