//! What a policy must know of the drive that it is for.
//! Room: onefold-flash.

use onefold_code::SeedSource;

use crate::geometry::Geometry;

/// Streams of the host, each with flash pages of its own in which compressed pages wait.
const HOST_STREAMS: u32 = 2;

/// Names of pages that wait to be packed into flash pages of so many sub-pages, of which so many
/// are filled side by side.
pub(crate) const fn packing_slots(subpages: u32, packing_pages: u32) -> u32 {
    if subpages > 1 { HOST_STREAMS * packing_pages * subpages } else { 0 }
}

/// What a policy must know of the drive.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// The shape of the array.
    pub geometry: Geometry,
    /// Numbers by which the drive may name a page to its policy.
    pub places: u32,
    /// What the drive seeds its scrambler from; `None` without a scrambler.
    pub seed_source: Option<SeedSource>,
    /// Codewords of a page that have places of their own; 1 where it is pages that have them.
    pub codewords: u32,
    /// Whether a strong fingerprint is made sooner than a page is read and compared.
    pub hash_outruns_read: bool,
    /// What a read and a comparison take, as a share of a program.
    pub read_of_program: f64,
}

impl Site {
    /// A drive that names pages by where they are.
    pub const fn new(geometry: Geometry, seed_source: Option<SeedSource>) -> Self {
        let places = geometry.pages();
        Self {
            geometry,
            places,
            seed_source,
            codewords: 1,
            hash_outruns_read: false,
            read_of_program: 0.5,
        }
    }

    /// Places of a block.
    pub(crate) const fn places_per_block(&self) -> u32 {
        self.geometry.pages_per_block * (self.places / self.geometry.pages())
    }

    /// The same where flash pages of so many sub-pages are packed, so many at a time.
    #[must_use]
    pub const fn packed(self, subpages: u32, packing_pages: u32) -> Self {
        let waiting = packing_slots(subpages, packing_pages);
        Self { places: self.geometry.pages() * subpages + waiting, ..self }
    }

    /// The same where so many codewords of each flash page have places of their own.
    #[must_use]
    pub const fn of_codewords(self, codewords: u32, packing_pages: u32) -> Self {
        Self { codewords, ..self.packed(codewords, packing_pages) }
    }
}
