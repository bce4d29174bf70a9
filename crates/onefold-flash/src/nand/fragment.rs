//! Compressed pages as they lie in a flash page, one behind the other.
//! Room: onefold-flash.   Source: [ses-dedup] sec. IV for where the engine may be; packing is ours.
//! Invariants: the fragments of a flash page take whole sub-pages, in order and without gaps from
//! the first on; each says itself whose it is.

use crate::nand::PageKey;

/// A compressed page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment<P> {
    /// Whose it is: data, kept or shared.
    pub key: PageKey,
    /// The LPN that it was written for first.
    pub seed: u64,
    /// The fingerprint of the deduplication policy, 0 without one.
    pub tag: u64,
    /// Sub-pages that it takes.
    pub subpages: u32,
    /// What the engine put out, where an identity stays as it is; nothing if it could not be read
    /// any more when it was moved here.
    pub content: Option<P>,
}

/// The fragment that begins at a sub-page.
pub fn fragment_at<P>(fragments: &[Fragment<P>], subpage: u32) -> Option<&Fragment<P>> {
    let mut at = 0;
    for fragment in fragments {
        if at == subpage {
            return Some(fragment);
        }
        at += fragment.subpages;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_is_found_at_the_sub_page_at_which_it_begins_and_at_no_other() {
        let fragments: Vec<Fragment<()>> = [2, 1, 3]
            .into_iter()
            .zip(0..)
            .map(|(subpages, number)| Fragment {
                key: PageKey::Data(number),
                seed: 0,
                tag: 0,
                subpages,
                content: None,
            })
            .collect();
        let found: Vec<Option<PageKey>> =
            (0..7).map(|at| fragment_at(&fragments, at).map(|one| one.key)).collect();
        let data = |number| Some(PageKey::Data(number));
        assert_eq!(found, [data(0), None, data(1), data(2), None, None, None]);
    }
}
