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
