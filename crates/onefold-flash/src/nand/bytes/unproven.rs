//! Pages that are not known to be durable yet, and sets of pages.
//! Room: onefold-flash.

use super::record::RECORD_BYTES;

/// A programmed page that is not known to be durable yet.
#[derive(Debug)]
pub(super) struct Unproven {
    pub ppn: u32,
    pub erases: u32,
    pub record: [u8; RECORD_BYTES],
    /// All of the page, if it is one of the FTL's own.
    pub own: Option<Vec<u8>>,
}

/// Pages by number, one bit each; without bits none is in it.
#[derive(Debug, Default)]
pub(super) struct PageBits(Vec<u64>);

impl PageBits {
    pub fn new(pages: u32) -> Self {
        Self(vec![0; pages.div_ceil(64) as usize])
    }

    pub fn holds(&self, ppn: u32) -> bool {
        self.0.get(ppn as usize / 64).is_some_and(|word| word >> (ppn % 64) & 1 == 1)
    }

    pub fn set(&mut self, ppn: u32, held: bool) {
        if let Some(word) = self.0.get_mut(ppn as usize / 64) {
            *word = *word & !(1 << (ppn % 64)) | u64::from(held) << (ppn % 64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_held_one_by_one_and_none_beyond_the_last() {
        for pages in [1, 63, 64, 65, 128, 130] {
            let mut bits = PageBits::new(pages);
            for ppn in (0..pages).step_by(3) {
                bits.set(ppn, true);
            }
            let held = |bits: &PageBits| -> Vec<u32> {
                (0..pages + 64).filter(|&ppn| bits.holds(ppn)).collect()
            };
            let every_third: Vec<u32> = (0..pages).step_by(3).collect();
            assert_eq!(held(&bits), every_third, "{pages} pages");
            for ppn in (0..pages).step_by(6) {
                bits.set(ppn, false);
            }
            let odd: Vec<u32> = every_third.into_iter().skip(1).step_by(2).collect();
            assert_eq!(held(&bits), odd, "{pages} pages");
            assert_eq!(bits.0.len(), pages.div_ceil(64) as usize);
        }
        let mut none = PageBits::default();
        none.set(3, true);
        assert!(!none.holds(3), "without bits none is in it");
    }
}
