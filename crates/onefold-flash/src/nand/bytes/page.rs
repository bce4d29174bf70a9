//! The content of a data page as real bytes: cheap to clone, equal byte by byte.
//! Room: onefold-flash.

use std::ops::Deref;
use std::sync::Arc;

/// The bytes of one data page. A clone shares them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PageBytes {
    bytes: Arc<[u8]>,
    /// The drive's scrambler has had the page already, and undone what the host's did to it.
    plain_on_flash: bool,
}

impl PageBytes {
    /// A page of zeroes.
    pub fn zeroes(page_bytes: usize) -> Self {
        Self::from(vec![0; page_bytes])
    }

    /// A page that a host scrambled ahead, behind the drive's own scrambler: the cells are to hold
    /// these bytes. It is no other page's equal that the cells hold scrambled.
    pub fn plain_on_flash(bytes: Vec<u8>) -> Self {
        Self { bytes: Arc::from(bytes), plain_on_flash: true }
    }

    /// Whether the cells hold these bytes as they are.
    pub fn is_plain_on_flash(&self) -> bool {
        self.plain_on_flash
    }
}

impl Deref for PageBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for PageBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<&[u8]> for PageBytes {
    fn from(bytes: &[u8]) -> Self {
        Self { bytes: Arc::from(bytes), plain_on_flash: false }
    }
}

impl From<Vec<u8>> for PageBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes: Arc::from(bytes), plain_on_flash: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_equal_by_their_bytes() {
        let page = PageBytes::from(vec![1, 2, 3]);
        assert_eq!(page, page.clone());
        assert_eq!(page, PageBytes::from(&[1, 2, 3][..]));
        assert_ne!(page, PageBytes::zeroes(3));
        assert_eq!(page.as_ref(), &page[..]);
        assert_ne!(page, PageBytes::plain_on_flash(vec![1, 2, 3]));
    }
}
