//! The content of a data page as real bytes: cheap to clone, equal byte by byte.
//! Room: onefold-flash.

use std::ops::Deref;
use std::sync::Arc;

/// The bytes of one data page. A clone shares them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PageBytes(Arc<[u8]>);

impl PageBytes {
    /// A page of zeroes.
    pub fn zeroes(page_bytes: usize) -> Self {
        Self(Arc::from(vec![0; page_bytes]))
    }
}

impl Deref for PageBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for PageBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for PageBytes {
    fn from(bytes: &[u8]) -> Self {
        Self(Arc::from(bytes))
    }
}

impl From<Vec<u8>> for PageBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::from(bytes))
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
    }
}
