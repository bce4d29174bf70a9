//! What a root says: the page by which a checkpoint counts.
//! Room: onefold-flash.

/// The first bytes of a root.
pub(super) const ROOT_MAGIC: [u8; 8] = *b"onefoldR";

/// What a root says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Root {
    /// Everything up to here is in mapping pages.
    pub seq: u64,
    pub logical_pages: u32,
    pub pages: u32,
    pub odd: bool,
    /// Sub-pages of a flash page.
    pub subpages: u32,
}

impl Root {
    pub fn encode(self) -> Vec<u8> {
        let mut bytes = ROOT_MAGIC.to_vec();
        bytes.extend(self.seq.to_le_bytes());
        bytes.extend(self.logical_pages.to_le_bytes());
        bytes.extend(self.pages.to_le_bytes());
        bytes.push(self.odd.into());
        if self.subpages > 1 {
            bytes.push(self.subpages as u8);
        }
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&ROOT_MAGIC)?;
        let (seq, rest) = rest.split_first_chunk::<8>()?;
        let (logical, rest) = rest.split_first_chunk::<4>()?;
        let (pages, rest) = rest.split_first_chunk::<4>()?;
        Some(Self {
            seq: u64::from_le_bytes(*seq),
            logical_pages: u32::from_le_bytes(*logical),
            pages: u32::from_le_bytes(*pages),
            odd: *rest.first()? != 0,
            // Not said where pages are not packed.
            subpages: rest.get(1).map_or(1, |&subpages| subpages.max(1).into()),
        })
    }
}

/// Marks a block as open in its state entry; the rest is its erase count.
pub(super) const OPEN: u32 = 1 << 31;
