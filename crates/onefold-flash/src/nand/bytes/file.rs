//! Cells in one sparse file: a header, a table of blocks, all pages, all out-of-band bytes.
//! Room: onefold-flash.   In: a `Media`.   Out: a `Store`.
//! Layout: docs/ssd-format.md. The pages are one raw dump, and so are the out-of-band bytes.
//! Invariants: nothing is read or written without a checked header; a file made for another
//! array is refused, and the refusal names the field.
//! Cost: two writes a page; a block's space is given back when it is cleared.

use std::sync::Arc;

use onefold_block::{Media, MediaError};

use super::block::ENTRY_BYTES;
use super::copies::CopyFile;
use super::description::{Description, FileError, HEADER_BYTES, MAGIC};
use super::store::Store;
use crate::geometry::Geometry;

/// The regions begin on multiples of this.
const ALIGN: u64 = 4096;

/// Where the regions of a file begin, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    entries: u64,
    pages: u64,
    oob: u64,
    end: u64,
}

impl Layout {
    fn of(geometry: &Geometry) -> Self {
        let entries = HEADER_BYTES as u64;
        let table = u64::from(geometry.blocks()) * ENTRY_BYTES as u64;
        let pages = (entries + table).next_multiple_of(ALIGN);
        let oob = (pages + geometry.capacity_bytes()).next_multiple_of(ALIGN);
        let end = oob + u64::from(geometry.pages()) * u64::from(geometry.oob_bytes);
        Self { entries, pages, oob, end }
    }
}

/// Cells in a file.
pub struct FileStore {
    media: Arc<dyn Media>,
    geometry: Geometry,
    layout: Layout,
    copies: Option<CopyFile>,
}

impl std::fmt::Debug for FileStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileStore").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

impl FileStore {
    /// Makes an erased array in an empty file. It is durable when this returns; its name is not.
    ///
    /// # Errors
    /// [`FileError::TooLong`], [`FileError::Media`].
    pub fn create(media: Arc<dyn Media>, description: &Description) -> Result<Self, FileError> {
        let layout = Layout::of(&description.geometry);
        media.set_len(layout.end)?;
        media.write(0, &description.encode(MAGIC)?)?;
        media.sync()?;
        Ok(Self { media, geometry: description.geometry, layout, copies: None })
    }

    /// What a file says of itself.
    ///
    /// # Errors
    /// [`FileError::NoNand`], [`FileError::NewerFormat`], [`FileError::Damaged`],
    /// [`FileError::Media`].
    pub fn describe(media: &dyn Media) -> Result<Description, FileError> {
        let mut header = vec![0; HEADER_BYTES];
        match media.read(0, &mut header) {
            Err(MediaError::Truncated { .. }) => return Err(FileError::NoNand),
            read => read?,
        }
        Description::decode(&header, MAGIC)
    }

    /// Opens the array of a file.
    ///
    /// # Errors
    /// [`FileError::Different`] for another array, and those of [`FileStore::describe`].
    pub fn open(media: Arc<dyn Media>, wanted: &Description) -> Result<Self, FileError> {
        Self::describe(&*media)?.must_be(wanted)?;
        let layout = Layout::of(&wanted.geometry);
        // A file that was cut short reads as erased beyond its end.
        if media.len()? < layout.end {
            media.set_len(layout.end)?;
        }
        Ok(Self { media, geometry: wanted.geometry, layout, copies: None })
    }

    /// Opens the array of a file to be looked at, and changes nothing.
    ///
    /// # Errors
    /// Those of [`FileStore::open`].
    pub fn look(media: Arc<dyn Media>, wanted: &Description) -> Result<Self, FileError> {
        Self::describe(&*media)?.must_be(wanted)?;
        let layout = Layout::of(&wanted.geometry);
        Ok(Self { media, geometry: wanted.geometry, layout, copies: None })
    }

    /// Writes the header anew if it is damaged, as only who knows the array from elsewhere may;
    /// whether that was needed.
    ///
    /// # Errors
    /// [`FileError::TooLong`], [`FileError::Media`].
    pub fn repair_header(media: &dyn Media, known: &Description) -> Result<bool, FileError> {
        match Self::describe(media) {
            Err(FileError::NoNand | FileError::Damaged) => {
                media.write(0, &known.encode(MAGIC)?)?;
                media.sync()?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Keeps second copies of what pages say of themselves in another file.
    #[must_use]
    pub fn with_copies(self, copies: CopyFile) -> Self {
        Self { copies: Some(copies), ..self }
    }

    fn data_at(&self, ppn: u32) -> u64 {
        self.layout.pages + u64::from(ppn) * u64::from(self.geometry.page_bytes)
    }

    fn oob_at(&self, ppn: u32) -> u64 {
        self.layout.oob + u64::from(ppn) * u64::from(self.geometry.oob_bytes)
    }
}

impl Store for FileStore {
    fn write_page(&mut self, ppn: u32, data: &[u8], oob: &[u8]) -> Result<(), MediaError> {
        self.media.write(self.data_at(ppn), data)?;
        self.media.write(self.oob_at(ppn), oob)
    }

    fn read_page(&self, ppn: u32, data: &mut [u8], oob: &mut [u8]) -> Result<(), MediaError> {
        self.media.read(self.data_at(ppn), data)?;
        self.media.read(self.oob_at(ppn), oob)
    }

    fn read_oob(&self, ppn: u32, oob: &mut [u8]) -> Result<(), MediaError> {
        self.media.read(self.oob_at(ppn), oob)
    }

    fn is_blank(&self, block: u32) -> Result<bool, MediaError> {
        let first = self.geometry.first_page(block);
        let from = self.oob_at(first);
        let end = from + u64::from(self.geometry.pages_per_block * self.geometry.oob_bytes);
        let holds = self.media.next_data(from)?.is_some_and(|data| data < end);
        Ok(!holds && self.copies.as_ref().is_none_or(|copies| copies.is_blank(first)))
    }

    fn clear_block(&mut self, block: u32) -> Result<(), MediaError> {
        let first = self.geometry.first_page(block);
        let pages = u64::from(self.geometry.pages_per_block);
        self.media.punch(self.data_at(first), pages * u64::from(self.geometry.page_bytes))?;
        self.media.punch(self.oob_at(first), pages * u64::from(self.geometry.oob_bytes))
    }

    fn write_entry(&mut self, block: u32, entry: &[u8; ENTRY_BYTES]) -> Result<(), MediaError> {
        self.media.write(self.layout.entries + u64::from(block) * ENTRY_BYTES as u64, entry)?;
        self.copies.as_ref().map_or(Ok(()), |copies| copies.write_entry(block, entry))
    }

    fn read_entries(&self) -> Result<Vec<u8>, MediaError> {
        let mut entries = vec![0; self.geometry.blocks() as usize * ENTRY_BYTES];
        self.media.read(self.layout.entries, &mut entries)?;
        Ok(entries)
    }

    fn sync(&mut self) -> Result<(), MediaError> {
        self.media.sync()
    }

    fn allocated_bytes(&self) -> Result<u64, MediaError> {
        let copies = self.copies.as_ref().map_or(Ok(0), CopyFile::allocated_bytes)?;
        Ok(self.media.allocated_bytes()? + copies)
    }

    fn copies(&self) -> Option<&CopyFile> {
        self.copies.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::{Folder as _, SimFolder};

    use super::super::channel::ChannelSpec;
    use super::super::description::{ID_AT, TEXTS_AT, VERSION_AT};
    use super::*;

    fn description() -> Description {
        let geometry = Geometry {
            channels: 1,
            packages: 2,
            dies_per_package: 1,
            planes_per_die: 1,
            blocks_per_plane: 4,
            pages_per_block: 4,
            page_bytes: 4096,
            oob_bytes: 192,
        };
        let scrambler = onefold_code::preset("lba-prbs31").ok();
        let channel = ChannelSpec { code: "ses-33x256".into(), scrambler };
        Description::new(geometry, &channel, "a = 1\n")
    }

    #[test]
    fn a_file_of_another_array_is_refused_by_name() {
        let folder = SimFolder::new();
        let media = folder.create("nand").expect("made");
        let made = description();
        drop(FileStore::create(Arc::clone(&media), &made).expect("made"));
        assert_eq!(FileStore::describe(&*media).expect("described"), made);
        assert!(FileStore::open(Arc::clone(&media), &made).is_ok());
        let other_spec = Description { spec: String::new(), ..made.clone() };
        assert!(FileStore::open(Arc::clone(&media), &other_spec).is_ok());
        let refused = |wanted: Description| {
            FileStore::open(Arc::clone(&media), &wanted).expect_err("refused").to_string()
        };
        let geometry = Geometry { blocks_per_plane: 5, ..made.geometry };
        let said = refused(Description { geometry, ..made.clone() });
        assert_eq!(said, "the NAND file was made with blocks_per_plane 4, not 5");
        let said = refused(Description { code: "bch-t18-1k".into(), ..made.clone() });
        assert_eq!(said, "the NAND file was made with code ses-33x256, not bch-t18-1k");
        let said = refused(Description { scrambler: String::new(), ..made.clone() });
        assert!(said.contains("scrambler name = \"lba-prbs31\", not none"), "{said}");
    }

    #[test]
    fn other_files_damage_and_later_versions_are_told_apart() {
        let folder = SimFolder::new();
        let media = folder.create("nand").expect("made");
        assert!(matches!(FileStore::describe(&*media), Err(FileError::NoNand)));
        drop(FileStore::create(Arc::clone(&media), &description()).expect("made"));
        folder.flip_bit("nand", 40, 3).expect("flipped");
        assert!(matches!(FileStore::describe(&*media), Err(FileError::Damaged)));
        folder.flip_bit("nand", 40, 3).expect("flipped back");
        media.write(VERSION_AT as u64, &2u32.to_le_bytes()).expect("written");
        assert!(matches!(FileStore::describe(&*media), Err(FileError::NewerFormat(2))));
        media.write(0, b"something else").expect("written");
        assert!(matches!(FileStore::describe(&*media), Err(FileError::NoNand)));
        let long = Description { spec: "x".repeat(HEADER_BYTES), ..description() };
        let refused = FileStore::create(media, &long);
        assert!(matches!(refused, Err(FileError::TooLong { .. })));
    }

    #[test]
    fn the_regions_do_not_overlap() {
        let geometry = description().geometry;
        let layout = Layout::of(&geometry);
        assert_eq!(layout.entries, 65_536);
        assert_eq!(layout.pages, 65_536 + 4096);
        assert_eq!(layout.oob, layout.pages + 32 * 4096);
        assert_eq!(layout.end, layout.oob + 32 * 192);
    }

    #[test]
    fn a_description_may_fill_the_header_to_its_last_byte() {
        let made = description();
        let left = ID_AT - TEXTS_AT - made.code.len() - made.scrambler.len();
        let folder = SimFolder::new();
        let full = Description { spec: "x".repeat(left), id: [9; 16], ..made };
        let media = folder.create("nand").expect("made");
        drop(FileStore::create(Arc::clone(&media), &full).expect("fits"));
        assert_eq!(FileStore::describe(&*media).expect("described"), full);
        let longer = Description { spec: "x".repeat(left + 1), ..full };
        let refused = FileStore::create(folder.create("other").expect("made"), &longer);
        let Err(FileError::TooLong { bytes, limit }) = refused else { panic!("{refused:?}") };
        assert_eq!((bytes, limit), (ID_AT - TEXTS_AT + 1, ID_AT - TEXTS_AT));
    }
}
