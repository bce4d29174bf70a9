//! What a drive's files say of themselves: the header before their cells.
//! Room: onefold-flash.   Layout: docs/ssd-format.md.
//! Invariants: a file made for another array is refused, and the refusal names the field.

use onefold_block::MediaError;
use thiserror::Error;

use super::channel::ChannelSpec;
use crate::geometry::Geometry;

/// The first bytes of a file of cells.
pub(super) const MAGIC: [u8; 8] = *b"ONEFNAND";
/// Version of the layout.
const VERSION: u32 = 1;
/// Bytes of the header, texts included.
pub(super) const HEADER_BYTES: usize = 64 << 10;

pub(super) const VERSION_AT: usize = MAGIC.len();
const CRC_AT: usize = VERSION_AT + 4;
const GEOMETRY_AT: usize = CRC_AT + 4;
const LENGTHS_AT: usize = GEOMETRY_AT + 8 * 4;
pub(super) const TEXTS_AT: usize = LENGTHS_AT + 3 * 4;
pub(super) const ID_AT: usize = HEADER_BYTES - 16;

/// Why a file cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// It does not begin as such a file does.
    #[error("this is no NAND file: it does not begin with {}", String::from_utf8_lossy(&MAGIC))]
    NoNand,
    /// It was written by a later version.
    #[error("the NAND file has format version {0}, and this program knows up to {VERSION}")]
    NewerFormat(u32),
    /// The header's checksum is wrong.
    #[error("the header of the NAND file is damaged")]
    Damaged,
    /// It holds another array.
    #[error("the NAND file was made with {field} {has}, not {wants}")]
    Different {
        /// What is different.
        field: &'static str,
        /// As recorded.
        has: String,
        /// As asked for.
        wants: String,
    },
    /// The texts do not fit into the header.
    #[error("{bytes} bytes of description do not fit into the {limit} of a header")]
    TooLong {
        /// Bytes to be recorded.
        bytes: usize,
        /// Bytes possible.
        limit: usize,
    },
    /// The file failed.
    #[error(transparent)]
    Media(#[from] MediaError),
}

/// What a file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The shape of the array.
    pub geometry: Geometry,
    /// Name of the code.
    pub code: String,
    /// The scrambler file, empty without a scrambler.
    pub scrambler: String,
    /// The drive's spec as it was when the file was made, for people; nothing depends on it.
    pub spec: String,
    /// The number of the drive: its files have it in common with no other drive's.
    pub id: [u8; 16],
}

impl Description {
    /// The description of an array.
    pub fn new(geometry: Geometry, channel: &ChannelSpec, spec: &str) -> Self {
        Self {
            geometry,
            code: channel.code.clone(),
            scrambler: channel
                .scrambler
                .as_ref()
                .map(onefold_code::ScramblerSpec::to_toml)
                .unwrap_or_default(),
            spec: spec.to_owned(),
            id: [0; 16],
        }
    }

    /// Where in the file the spec begins.
    pub const fn spec_at(&self) -> u64 {
        (TEXTS_AT + self.code.len() + self.scrambler.len()) as u64
    }

    pub(super) fn encode(&self, magic: [u8; 8]) -> Result<Vec<u8>, FileError> {
        let texts = [&self.code, &self.scrambler, &self.spec];
        let bytes = texts.iter().map(|text| text.len()).sum();
        let limit = ID_AT - TEXTS_AT;
        if bytes > limit {
            return Err(FileError::TooLong { bytes, limit });
        }
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(&magic);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        for (_, value) in fields(&self.geometry) {
            out.extend_from_slice(&value.to_le_bytes());
        }
        for text in texts {
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
        }
        for text in texts {
            out.extend_from_slice(text.as_bytes());
        }
        out.resize(ID_AT, 0);
        out.extend_from_slice(&self.id);
        let crc = crc32fast::hash(&out[GEOMETRY_AT..]);
        out[CRC_AT..GEOMETRY_AT].copy_from_slice(&crc.to_le_bytes());
        Ok(out)
    }

    pub(super) fn decode(header: &[u8], magic: [u8; 8]) -> Result<Self, FileError> {
        let word = |at: usize| {
            let bytes: Option<[u8; 4]> = header.get(at..at + 4).and_then(|b| b.try_into().ok());
            bytes.map(u32::from_le_bytes).ok_or(FileError::Damaged)
        };
        if !header.starts_with(&magic) {
            return Err(FileError::NoNand);
        }
        let version = word(VERSION_AT)?;
        if version > VERSION {
            return Err(FileError::NewerFormat(version));
        }
        let body = header.get(GEOMETRY_AT..).ok_or(FileError::Damaged)?;
        if crc32fast::hash(body) != word(CRC_AT)? {
            return Err(FileError::Damaged);
        }
        let field = |index: usize| word(GEOMETRY_AT + 4 * index);
        let geometry = Geometry {
            channels: field(0)?,
            packages: field(1)?,
            dies_per_package: field(2)?,
            planes_per_die: field(3)?,
            blocks_per_plane: field(4)?,
            pages_per_block: field(5)?,
            page_bytes: field(6)?,
            oob_bytes: field(7)?,
        };
        geometry.check().map_err(|_| FileError::Damaged)?;
        let mut at = TEXTS_AT;
        let mut text = |index: usize| {
            let end = at + word(LENGTHS_AT + 4 * index)? as usize;
            let bytes = header.get(at..end).ok_or(FileError::Damaged)?;
            at = end;
            String::from_utf8(bytes.to_vec()).map_err(|_| FileError::Damaged)
        };
        let id = header.get(ID_AT..).and_then(|id| id.try_into().ok()).ok_or(FileError::Damaged)?;
        Ok(Self { geometry, code: text(0)?, scrambler: text(1)?, spec: text(2)?, id })
    }

    /// Whether this is the array that is asked for; the specs may differ.
    ///
    /// # Errors
    /// [`FileError::Different`].
    pub fn must_be(&self, wanted: &Self) -> Result<(), FileError> {
        for ((field, has), (_, wants)) in
            fields(&self.geometry).iter().zip(fields(&wanted.geometry))
        {
            if *has != wants {
                let (has, wants) = (has.to_string(), wants.to_string());
                return Err(FileError::Different { field, has, wants });
            }
        }
        let named = |text: &str| {
            let name = text.lines().find(|line| line.starts_with("name"));
            name.map_or_else(|| "none".to_owned(), str::to_owned)
        };
        if self.code != wanted.code {
            let (has, wants) = (self.code.clone(), wanted.code.clone());
            return Err(FileError::Different { field: "code", has, wants });
        }
        if self.scrambler != wanted.scrambler {
            let (has, wants) = (named(&self.scrambler), named(&wanted.scrambler));
            return Err(FileError::Different { field: "scrambler", has, wants });
        }
        Ok(())
    }
}

fn fields(geometry: &Geometry) -> [(&'static str, u32); 8] {
    [
        ("channels", geometry.channels),
        ("packages", geometry.packages),
        ("dies_per_package", geometry.dies_per_package),
        ("planes_per_die", geometry.planes_per_die),
        ("blocks_per_plane", geometry.blocks_per_plane),
        ("pages_per_block", geometry.pages_per_block),
        ("page_bytes", geometry.page_bytes),
        ("oob_bytes", geometry.oob_bytes),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Description {
        Description {
            geometry: Geometry {
                channels: 2,
                packages: 4,
                dies_per_package: 3,
                planes_per_die: 5,
                blocks_per_plane: 6,
                pages_per_block: 7,
                page_bytes: 8,
                oob_bytes: 9,
            },
            code: "a code".into(),
            scrambler: "seed = 1\nname = \"one\"\n".into(),
            spec: "spec".into(),
            id: [3; 16],
        }
    }

    /// A header that somebody wrote with the right checksum.
    fn written(change: impl FnOnce(&mut [u8])) -> Result<Description, FileError> {
        let mut header = some().encode(MAGIC).expect("fits");
        change(&mut header);
        let crc = crc32fast::hash(&header[GEOMETRY_AT..]);
        header[CRC_AT..GEOMETRY_AT].copy_from_slice(&crc.to_le_bytes());
        Description::decode(&header, MAGIC)
    }

    #[test]
    fn what_cannot_be_is_damage_whatever_the_checksum_says() {
        assert_eq!(written(|_| ()).expect("as it was"), some());
        let damaged = |change: &dyn Fn(&mut [u8])| {
            assert!(matches!(written(change), Err(FileError::Damaged)));
        };
        damaged(&|header| header[GEOMETRY_AT..GEOMETRY_AT + 4].fill(0));
        damaged(&|header| header[TEXTS_AT] = 0xff);
        damaged(&|header| header[LENGTHS_AT + 2] = 1);
        let version = |number: u32| {
            written(|header| header[VERSION_AT..CRC_AT].copy_from_slice(&number.to_le_bytes()))
        };
        assert!(version(0).is_ok() && version(1).is_ok(), "older ones are read");
        assert!(matches!(version(2), Err(FileError::NewerFormat(2))));
        let whole = some().encode(MAGIC).expect("fits");
        assert_eq!(whole.len(), HEADER_BYTES);
        for len in [0, 7, 8, 11, 15, 100, HEADER_BYTES - 1] {
            assert!(Description::decode(&whole[..len], MAGIC).is_err(), "{len} bytes");
        }
        assert!(matches!(Description::decode(&whole, *b"ONEFCOPY"), Err(FileError::NoNand)));
    }

    #[test]
    fn every_field_that_differs_is_named_with_both_values() {
        let made = some();
        assert!(made.must_be(&Description { spec: String::new(), id: [0; 16], ..some() }).is_ok());
        let said = |wanted: Description| made.must_be(&wanted).expect_err("differs").to_string();
        for (at, (name, has)) in fields(&made.geometry).into_iter().enumerate() {
            let mut header = made.encode(MAGIC).expect("fits");
            header[GEOMETRY_AT + 4 * at] *= 2;
            let crc = crc32fast::hash(&header[GEOMETRY_AT..]);
            header[CRC_AT..GEOMETRY_AT].copy_from_slice(&crc.to_le_bytes());
            let wanted = Description::decode(&header, MAGIC).expect("a shape that can be");
            let expected = format!("the NAND file was made with {name} {has}, not {}", 2 * has);
            assert_eq!(said(wanted), expected);
        }
        let scrambler = |text: &str| said(Description { scrambler: text.into(), ..some() });
        let other = "the NAND file was made with scrambler name = \"one\", not ";
        assert_eq!(scrambler("name = \"two\"\n"), format!("{other}name = \"two\""));
        assert_eq!(scrambler("seed = 1\n"), format!("{other}none"));
        let code = said(Description { code: "another".into(), ..some() });
        assert_eq!(code, "the NAND file was made with code a code, not another");
    }
}
