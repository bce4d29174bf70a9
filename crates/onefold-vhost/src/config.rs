//! What a guest sees of its disk before it asks for anything: features and configuration space.
//! Room: onefold-vhost.   The virtio specification, 5.2.

use onefold_block::BlockDevice;

/// What the unit of addresses is, whatever the device's blocks are.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// Bytes of a configuration space.
pub(crate) const CONFIG_BYTES: usize = 60;
/// Most queues. A monitor takes one for each processor of its guest; those that are not used cost
/// nothing.
pub(crate) const QUEUES_MAX: usize = 64;
/// Most entries of a queue.
pub(crate) const QUEUE_ENTRIES_MAX: u16 = 1024;
/// Most pieces of memory that a guest should use for a request; more are served as well.
const SEGMENTS_MAX: u32 = 126;
/// Most sectors that one discard or zeroing should be for: 2 GiB.
const RANGE_SECTORS_MAX: u32 = 4 << 20;
/// Most ranges in a discard or a zeroing.
pub(crate) const RANGES_MAX: u32 = 32;

/// Features by their bits.
pub(crate) mod feature {
    pub const SEG_MAX: u64 = 1 << 2;
    pub const READ_ONLY: u64 = 1 << 5;
    pub const BLK_SIZE: u64 = 1 << 6;
    pub const FLUSH: u64 = 1 << 9;
    pub const TOPOLOGY: u64 = 1 << 10;
    pub const MULTI_QUEUE: u64 = 1 << 12;
    pub const DISCARD: u64 = 1 << 13;
    pub const WRITE_ZEROES: u64 = 1 << 14;
    pub const INDIRECT: u64 = 1 << 28;
    pub const EVENT_INDEX: u64 = 1 << 29;
    /// Of vhost-user: there are features of the protocol, too.
    pub const PROTOCOL: u64 = 1 << 30;
    pub const VERSION_1: u64 = 1 << 32;
}

/// Features of the protocol by their bits.
pub(crate) mod protocol_feature {
    pub const MULTI_QUEUE: u64 = 1;
    pub const REPLY_ACK: u64 = 1 << 3;
    pub const BACKEND_REQUESTS: u64 = 1 << 5;
    pub const CONFIG: u64 = 1 << 9;
    pub const ALL: u64 = MULTI_QUEUE | REPLY_ACK | BACKEND_REQUESTS | CONFIG;
}

/// What is offered.
pub(crate) fn features(read_only: bool) -> u64 {
    let always = feature::SEG_MAX
        | feature::BLK_SIZE
        | feature::FLUSH
        | feature::TOPOLOGY
        | feature::MULTI_QUEUE
        | feature::INDIRECT
        | feature::EVENT_INDEX
        | feature::PROTOCOL
        | feature::VERSION_1;
    let access =
        if read_only { feature::READ_ONLY } else { feature::DISCARD | feature::WRITE_ZEROES };
    always | access
}

/// How many sectors a guest sees; what is left at the end of a device of another size it does not.
pub(crate) fn sectors(device: &dyn BlockDevice) -> u64 {
    device.size_bytes() / SECTOR_BYTES
}

/// The configuration space of a device with so many sectors.
pub(crate) fn config_space(sectors: u64, block_bytes: u32) -> [u8; CONFIG_BYTES] {
    let block_sectors = (block_bytes / SECTOR_BYTES as u32).max(1);
    let mut space = [0; CONFIG_BYTES];
    let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &sectors.to_le_bytes());
    put(12, &SEGMENTS_MAX.to_le_bytes());
    put(20, &(SECTOR_BYTES as u32).to_le_bytes());
    // Two to the power of this many sectors are a block of the device.
    put(24, &[block_sectors.ilog2() as u8]);
    put(26, &u16::try_from(block_sectors).unwrap_or(u16::MAX).to_le_bytes());
    put(28, &block_sectors.to_le_bytes());
    // Writes are durable after a flush and not before.
    put(32, &[1]);
    put(34, &(QUEUES_MAX as u16).to_le_bytes());
    put(36, &RANGE_SECTORS_MAX.to_le_bytes());
    put(40, &RANGES_MAX.to_le_bytes());
    put(44, &block_sectors.to_le_bytes());
    put(48, &RANGE_SECTORS_MAX.to_le_bytes());
    put(52, &RANGES_MAX.to_le_bytes());
    put(56, &[1]);
    space
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_space_has_its_fields_where_drivers_look_for_them() {
        let space = config_space(0x0102_0304_0506, 8192);
        let u32_at = |at: usize| u32::from_le_bytes(space[at..at + 4].try_into().unwrap());
        assert_eq!(space[..8], [6, 5, 4, 3, 2, 1, 0, 0]);
        assert_eq!((u32_at(12), u32_at(20)), (126, 512));
        assert_eq!((space[24], space[25], space[26], space[27]), (4, 0, 16, 0));
        assert_eq!((u32_at(28), space[32], space[34], space[35]), (16, 1, 64, 0));
        assert_eq!([36, 40, 44, 48, 52].map(u32_at), [4 << 20, 32, 16, 4 << 20, 32]);
        assert_eq!(space[56..], [1, 0, 0, 0]);
        assert_eq!(config_space(1, 512)[24..28], [0, 0, 1, 0]);
    }

    #[test]
    fn what_is_read_only_offers_no_change() {
        let (both, read_only) = (features(false), features(true));
        let changes = feature::DISCARD | feature::WRITE_ZEROES;
        assert_eq!(both & changes, changes);
        assert_eq!(read_only & changes, 0);
        assert_eq!((both ^ read_only) & !changes, feature::READ_ONLY);
    }
}
