//! The pages of an encrypted file: XChaCha20-Poly1305, each bound to its file and place.
//! Room: onefold-archive.
//! The nonce is a keyed hash of file, place and content, as in SIV modes: no randomness is needed
//! below the doors, and a nonce comes twice only for the same page with the same content. Who sees
//! the disk twice learns that a page did not change, and the lengths of files; no more.

use chacha20poly1305::{AeadInOut as _, KeyInit as _, Tag, XChaCha20Poly1305, XNonce};

/// Bytes of a sealed page beyond those of its content: nonce and tag.
pub const OVERHEAD: usize = NONCE_BYTES + TAG_BYTES;

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
const PAGES_CONTEXT: &str = "onefold archive 2026-11 pages";
const NONCES_CONTEXT: &str = "onefold archive 2026-11 nonces of pages";

/// What tells a file from all others.
pub type FileId = [u8; 16];

/// How a file is cut into pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of content of a whole page.
    pub plain: u64,
    /// Bytes from one page's start to the next one's.
    pub slot: u64,
}

impl Geometry {
    /// One record of the log a page, in two sectors of its own: what a power cut tears is one
    /// record.
    pub const LOG: Self = Self { plain: 512, slot: 1024 };
    /// Of containers, which are read in large pieces.
    pub const CONTAINER: Self = Self { plain: (16 << 10) - OVERHEAD as u64, slot: 16 << 10 };
    /// Of everything else.
    pub const OTHER: Self = Self { plain: (4 << 10) - OVERHEAD as u64, slot: 4 << 10 };

    /// Bytes on disk of so many bytes of content; `None` if no number holds them.
    pub fn stored(self, plain: u64) -> Option<u64> {
        let rest = plain % self.plain;
        let whole = (plain / self.plain).checked_mul(self.slot)?;
        whole.checked_add(if rest > 0 { rest + OVERHEAD as u64 } else { 0 })
    }

    /// Bytes of content in so many on disk.
    pub const fn content(self, stored: u64) -> u64 {
        let rest = (stored % self.slot).saturating_sub(OVERHEAD as u64);
        let rest = if rest < self.plain { rest } else { self.plain };
        stored / self.slot * self.plain + rest
    }
}

/// The keys of all pages of an archive.
pub struct PageKeys {
    pages: XChaCha20Poly1305,
    nonces: [u8; 32],
}

impl PageKeys {
    /// Those that come from a master key.
    pub fn new(master: &[u8; 32]) -> Self {
        let pages = blake3::derive_key(PAGES_CONTEXT, master);
        let nonces = blake3::derive_key(NONCES_CONTEXT, master);
        Self { pages: XChaCha20Poly1305::new(&pages.into()), nonces }
    }

    /// What a new file of that path is bound to.
    pub fn file_id(&self, path: &str) -> FileId {
        let hash = blake3::keyed_hash(&self.nonces, path.as_bytes());
        *hash.as_bytes().first_chunk().expect("a hash is longer")
    }

    /// Append a page: nonce, encrypted content, tag.
    pub fn seal(&self, file: &FileId, page: u64, content: &[u8], out: &mut Vec<u8>) {
        let place = place(file, page);
        let mut hasher = blake3::Hasher::new_keyed(&self.nonces);
        hasher.update(&place);
        hasher.update(content);
        let mut nonce = XNonce::default();
        nonce.copy_from_slice(&hasher.finalize().as_bytes()[..NONCE_BYTES]);
        out.extend_from_slice(&nonce);
        let start = out.len();
        out.extend_from_slice(content);
        let tag = self.pages.encrypt_inout_detached(&nonce, &place, (&mut out[start..]).into());
        out.extend_from_slice(&tag.expect("a page is no too long message"));
    }

    /// The content of a page, in place; `None` if it is not what was sealed there.
    pub fn open<'a>(&self, file: &FileId, page: u64, bytes: &'a mut [u8]) -> Option<&'a [u8]> {
        let (nonce_bytes, rest) = bytes.split_at_mut_checked(NONCE_BYTES)?;
        let (content, tag_bytes) = rest.split_at_mut_checked(rest.len().checked_sub(TAG_BYTES)?)?;
        let (mut nonce, mut tag) = (XNonce::default(), Tag::default());
        nonce.copy_from_slice(nonce_bytes);
        tag.copy_from_slice(tag_bytes);
        let place = place(file, page);
        let opened =
            self.pages.decrypt_inout_detached(&nonce, &place, (&mut *content).into(), &tag);
        opened.ok().map(|()| &*content)
    }
}

fn place(file: &FileId, page: u64) -> [u8; 24] {
    let mut place = [0; 24];
    place[..16].copy_from_slice(file);
    place[16..].copy_from_slice(&page.to_le_bytes());
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_counts_only_where_it_was_sealed_and_unchanged() {
        let keys = PageKeys::new(&[1; 32]);
        let (file, content) = (keys.file_id("a"), [9; 100]);
        let mut sealed = Vec::new();
        keys.seal(&file, 3, &content, &mut sealed);
        assert_eq!(sealed.len(), content.len() + OVERHEAD);
        assert!(!sealed.windows(4).any(|four| four == [9; 4]), "it is encrypted");
        assert_eq!(keys.open(&file, 3, &mut sealed.clone()), Some(&content[..]));
        assert_eq!(keys.open(&file, 4, &mut sealed.clone()), None);
        assert_eq!(keys.open(&keys.file_id("b"), 3, &mut sealed.clone()), None);
        assert_eq!(PageKeys::new(&[2; 32]).open(&file, 3, &mut sealed.clone()), None);
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert_eq!(keys.open(&file, 3, &mut damaged), None, "byte {at}");
            assert_eq!(keys.open(&file, 3, &mut sealed[..at].to_vec()), None, "cut at {at}");
        }
        let mut again = Vec::new();
        keys.seal(&file, 3, &[8; 100], &mut again);
        assert_ne!(again[..NONCE_BYTES], sealed[..NONCE_BYTES], "other content, other nonce");
    }

    #[test]
    fn lengths_are_those_of_whole_and_last_pages() {
        for geometry in [Geometry::LOG, Geometry::CONTAINER, Geometry::OTHER] {
            assert!(geometry.plain + OVERHEAD as u64 <= geometry.slot);
            for plain in [0, 1, geometry.plain - 1, geometry.plain, geometry.plain * 7 + 5] {
                assert_eq!(geometry.content(geometry.stored(plain).unwrap()), plain);
            }
            let mut before = 0;
            for stored in 0..geometry.slot * 3 {
                let content = geometry.content(stored);
                assert!(content >= before && content <= before + 1, "{stored}");
                before = content;
            }
            assert_eq!(geometry.stored(u64::MAX), None);
        }
    }

    #[test]
    fn whole_pages_take_their_slots_and_the_last_one_what_it_has() {
        for (plain, stored) in [(0, 0), (1, 41), (511, 551), (512, 1024), (513, 1065), (1024, 2048)]
        {
            assert_eq!(Geometry::LOG.stored(plain), Some(stored), "{plain}");
        }
        assert_eq!(Geometry::OTHER.stored(4056), Some(4096));
        assert_eq!(Geometry::CONTAINER.stored(16_344 * 2 + 1), Some(32_768 + 41));
    }
}
