//! Drives of one plane, as the closed forms have them.
//! Room: onefold-flash.

use onefold_flash::Geometry;

/// A drive of one plane.
pub const fn plane(blocks: u32, pages_per_block: u32) -> Geometry {
    Geometry {
        channels: 1,
        packages: 1,
        dies_per_package: 1,
        planes_per_die: 1,
        blocks_per_plane: blocks,
        pages_per_block,
        page_bytes: 4096,
        oob_bytes: 128,
    }
}
