//! Fingerprints of identities that are not the identities themselves.
//! Room: onefold-flash.

use onefold_block::SplitMix64;
use onefold_code::Truncation;
use onefold_content::FingerprintKind;
use onefold_flash::dedup::{Bytes, Fingerprinting, Identities};
use onefold_flash::nand::Identity;
use onefold_flash::nand::bytes::PageBytes;

/// Ways to make them, as one type: the policies are compiled anew for each.
pub enum Prints {
    /// Those of the identities after all.
    Own(Identities),
    /// Of a few bits only: most candidates are other content.
    Weak,
    /// Those of the bytes that the identities stand for, so many a page.
    Behind(Box<Bytes>, usize),
}

/// The bytes that a number stands for.
pub fn bytes(number: u64, page_bytes: usize) -> PageBytes {
    PageBytes::from(SplitMix64::new(number).bytes(page_bytes))
}

fn behind(page: &Identity, page_bytes: usize) -> PageBytes {
    bytes(page.0 as u64, page_bytes)
}

impl Fingerprinting<Identity> for Prints {
    fn light(&mut self, page: &Identity) -> u32 {
        match self {
            Self::Own(own) => own.light(page),
            Self::Weak => page.0 as u32 % 5,
            Self::Behind(prints, len) => prints.light(&behind(page, *len)),
        }
    }

    fn strong(&mut self, page: &Identity) -> u128 {
        match self {
            Self::Own(own) => own.strong(page),
            Self::Weak => page.0,
            Self::Behind(prints, len) => prints.strong(&behind(page, *len)),
        }
    }

    fn parity(&mut self, lpn: u32, page: &Identity) -> u64 {
        match self {
            Self::Own(own) => own.parity(lpn, page),
            Self::Weak => 1 + page.0 as u64 % 5,
            Self::Behind(prints, len) => prints.parity(lpn, &behind(page, *len)),
        }
    }

    fn plain_parity(&mut self, page: &Identity) -> u64 {
        match self {
            Self::Own(own) => own.plain_parity(page),
            Self::Weak => 1 + page.0 as u64 % 5,
            Self::Behind(prints, len) => prints.plain_parity(&behind(page, *len)),
        }
    }

    fn codewords(&mut self, page: &Identity, each: &mut dyn FnMut(u128)) {
        if let Self::Behind(prints, len) = self {
            prints.codewords(&behind(page, *len), each);
        }
    }

    fn configure(&mut self, truncation: Truncation, strong: FingerprintKind) {
        if let Self::Behind(prints, _) = self {
            Fingerprinting::<PageBytes>::configure(&mut **prints, truncation, strong);
        }
    }
}
