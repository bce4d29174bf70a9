//! Compressed pages in an array of bytes: the engine, and how a flash page holds several.
//! Room: onefold-flash.   Source: [ses-dedup] sec. IV for where the engine is; the layout is ours.
//! Each fragment begins at a sub-page with a head of [`HEAD_BYTES`] that says whose it is, and goes
//! on in the sub-pages behind it; the first head of kind 0 ends the page. Layout:
//! docs/ssd-format.md.
//! Invariants: a page is compressed to a fragment only if that leaves a sub-page free, and comes
//! back as it was.

use onefold_content::{Codec, Compression, Compressor, Decompressor};

use super::record::{join, split};
use super::{Channel, PageBytes};
use crate::dedup::Engine;
use crate::nand::{Fragment, PageKey};

/// Bytes ahead of the compressed bytes of a fragment.
pub const HEAD_BYTES: usize = 28;
/// Flag of a fragment that was plain on its way to the cells.
const PLAIN: u8 = 1;
/// Flag of a fragment whose content is lost.
const LOST: u8 = 2;

/// The compression engine.
#[derive(Debug)]
pub(super) struct Packer {
    engine: Engine,
    subpages: u32,
    lz4: Compressor,
    back: Decompressor,
    out: Vec<u8>,
}

impl Packer {
    pub fn new(engine: Engine, subpages: u32) -> Self {
        let lz4 = Compressor::new(Compression::Lz4);
        Self { engine, subpages, lz4, back: Decompressor::new(), out: Vec::new() }
    }

    /// Sub-pages of a flash page.
    pub const fn subpages(&self) -> u32 {
        self.subpages
    }

    /// Whether packed pages go through the scrambler.
    pub fn is_before_scrambler(&self) -> bool {
        self.engine == Engine::BeforeScrambler
    }

    /// What the engine makes of a page; `None` if that leaves no sub-page free.
    pub fn compress(
        &mut self,
        channel: &Channel,
        lpn: u32,
        page: &PageBytes,
    ) -> Option<Fragment<PageBytes>> {
        let unit = page.len() / self.subpages as usize;
        let most = (page.len() - unit).checked_sub(HEAD_BYTES)?;
        let plain = page.is_plain_on_flash();
        let scrambled = (!plain && !self.is_before_scrambler()).then(|| {
            let mut bytes = page.to_vec();
            channel.scramble(lpn, &mut bytes);
            bytes
        });
        self.out.clear();
        let data = scrambled.as_deref().unwrap_or(page);
        if self.lz4.compress_into(data, &mut self.out, most) == Codec::Raw {
            return None;
        }
        let subpages = (HEAD_BYTES + self.out.len()).div_ceil(unit) as u32;
        let content = if plain {
            PageBytes::plain_on_flash(self.out.clone())
        } else {
            PageBytes::from(&self.out[..])
        };
        let (key, seed) = (PageKey::Data(lpn), lpn.into());
        Some(Fragment { key, seed, tag: 0, subpages, content: Some(content) })
    }

    /// The page that a fragment was; `None` if it is no output of the engine.
    pub fn expand(
        &mut self,
        channel: &Channel,
        fragment: &Fragment<PageBytes>,
    ) -> Option<PageBytes> {
        let content = fragment.content.as_ref()?;
        let mut page = vec![0; channel.page_bytes()];
        self.back.decompress_into(Codec::Lz4, content, &mut page).ok()?;
        if content.is_plain_on_flash() {
            return Some(PageBytes::plain_on_flash(page));
        }
        if !self.is_before_scrambler() {
            // The scrambler undoes what it did, with the seed of whoever wrote the page.
            channel.scramble(u32::try_from(fragment.seed).ok()?, &mut page);
        }
        Some(PageBytes::from(page))
    }

    /// Lays fragments into a flash page.
    pub fn lay(&self, fragments: &[Fragment<PageBytes>], page: &mut [u8]) {
        let unit = page.len() / self.subpages as usize;
        page.fill(0);
        let mut at = 0;
        for fragment in fragments {
            let content: &[u8] = fragment.content.as_deref().unwrap_or_default();
            let plain = fragment.content.as_ref().is_some_and(PageBytes::is_plain_on_flash);
            let (kind, number) = split(fragment.key);
            let lost = fragment.content.is_none();
            let head = &mut page[at..at + HEAD_BYTES];
            head[0] = kind;
            head[1] = if plain { PLAIN } else { 0 } | if lost { LOST } else { 0 };
            head[2] = fragment.subpages as u8;
            head[4..8].copy_from_slice(&number.to_le_bytes());
            head[8..12].copy_from_slice(&(content.len() as u32).to_le_bytes());
            head[12..20].copy_from_slice(&fragment.seed.to_le_bytes());
            head[20..28].copy_from_slice(&fragment.tag.to_le_bytes());
            page[at + HEAD_BYTES..at + HEAD_BYTES + content.len()].copy_from_slice(content);
            at += fragment.subpages as usize * unit;
        }
    }
}

/// The fragments of a flash page of so many sub-pages; `None` if it holds anything else.
pub(super) fn fragments(page: &[u8], subpages: u32) -> Option<Vec<Fragment<PageBytes>>> {
    let unit = page.len() / subpages as usize;
    let mut all = Vec::new();
    let mut rest = page;
    while let Some((head, behind)) = rest.split_first_chunk::<HEAD_BYTES>()
        && head[0] != 0
    {
        let (words, _) = head.as_chunks::<4>();
        let word = |at: usize| u32::from_le_bytes(words[at]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 1)) << 32;
        let taken = u32::from(head[2]);
        let bytes = behind.get(..word(2) as usize)?;
        let content = match head[1] {
            LOST => None,
            PLAIN => Some(PageBytes::plain_on_flash(bytes.to_vec())),
            0 => Some(PageBytes::from(bytes)),
            _ => return None,
        };
        let key = join(head[0], word(1)).filter(|key| key.is_data())?;
        all.push(Fragment { key, seed: long(3), tag: long(5), subpages: taken, content });
        if taken == 0 {
            return None;
        }
        rest = rest.get(taken as usize * unit..)?;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use onefold_block::SplitMix64;

    use super::*;
    use crate::nand::bytes::{BCH_NAME, ChannelSpec};

    const PAGE: usize = 8192;

    fn channel(scrambler: Option<&str>) -> Channel {
        let scrambler = scrambler.map(|name| onefold_code::preset(name).expect("a preset"));
        let spec = ChannelSpec { code: BCH_NAME.into(), scrambler };
        Channel::new(&spec, PAGE, 1 << 12).expect("fits")
    }

    /// A page of which so many bytes in a hundred are noise.
    fn page(seed: u64, noise: usize) -> Vec<u8> {
        let mut page = SplitMix64::new(seed).bytes(PAGE);
        page[PAGE * noise / 100..].fill(seed as u8);
        page
    }

    #[test]
    fn pages_come_back_from_where_they_were_laid() {
        for (scrambler, engine) in
            [(Some("lba-prbs31"), Engine::BeforeScrambler), (None, Engine::AfterScrambler)]
        {
            let channel = channel(scrambler);
            let mut packer = Packer::new(engine, 8);
            let pages: Vec<PageBytes> = vec![
                page(1, 20).into(),
                PageBytes::plain_on_flash(page(2, 30)),
                page(3, 10).into(),
            ];
            let mut laid: Vec<_> = (7..)
                .zip(&pages)
                .map(|(lpn, page)| packer.compress(&channel, lpn, page).expect("gets shorter"))
                .collect();
            assert_eq!(laid.iter().map(|one| one.subpages).collect::<Vec<_>>(), [2, 3, 1]);
            laid[1].key = PageKey::Kept(8);
            laid[2].tag = u64::MAX - 5;
            laid.push(Fragment {
                key: PageKey::Shared(9),
                content: None,
                subpages: 1,
                ..laid[0].clone()
            });
            let mut flash = vec![0xff; PAGE];
            packer.lay(&laid, &mut flash);
            let found = fragments(&flash, 8).expect("fragments");
            assert_eq!(found, laid);
            for (page, fragment) in pages.iter().zip(&found) {
                assert_eq!(packer.expand(&channel, fragment).as_ref(), Some(page));
            }
            assert_eq!(packer.expand(&channel, &found[3]), None, "it is lost");
        }
    }

    /// [ses-dedup] sec. IV: behind the scrambler the engine sees noise, unless the host scrambled
    /// ahead and so undid it.
    #[test]
    fn behind_the_scrambler_nothing_gets_shorter_but_what_the_host_scrambled_ahead() {
        let channel = channel(Some("lba-prbs31"));
        let (mut before, mut after) =
            (Packer::new(Engine::BeforeScrambler, 8), Packer::new(Engine::AfterScrambler, 8));
        for seed in 0..50 {
            let bytes = page(seed, seed as usize);
            let plain = PageBytes::from(bytes.clone());
            let shorter = before.compress(&channel, seed as u32, &plain).expect("shorter");
            assert!(shorter.subpages < 6);
            assert_eq!(after.compress(&channel, seed as u32, &plain), None, "page {seed}");
            let ahead = after.compress(&channel, seed as u32, &PageBytes::plain_on_flash(bytes));
            assert_eq!(ahead.expect("shorter").subpages, shorter.subpages);
        }
    }

    /// At each length that the output can have.
    #[test]
    fn a_page_is_compressed_only_if_that_leaves_a_sub_page_free() {
        let spec = ChannelSpec { code: BCH_NAME.into(), scrambler: None };
        let channel = Channel::new(&spec, 1024, 16).expect("fits");
        let mut packer = Packer::new(Engine::BeforeScrambler, 4);
        let mut lz4 = Compressor::new(Compression::Lz4);
        let mut lengths = std::collections::BTreeSet::new();
        for noise in 0..1024 {
            let mut page = SplitMix64::new(1).bytes(1024);
            page[noise..].fill(0);
            let mut out = Vec::new();
            let codec = lz4.compress_into(&page, &mut out, 1024);
            let len = if codec == Codec::Raw { 1024 } else { out.len() };
            lengths.insert(len);
            let expected = (28 + len <= 768).then(|| Fragment {
                key: PageKey::Data(5),
                seed: 5,
                tag: 0,
                subpages: (28 + len).div_ceil(256) as u32,
                content: Some(PageBytes::from(out)),
            });
            assert_eq!(packer.compress(&channel, 5, &page.into()), expected, "{len} bytes");
        }
        for boundary in [256, 512, 768] {
            let reached = [0, 1].map(|over| lengths.contains(&(boundary - 28 + over)));
            assert_eq!(reached, [true; 2], "{boundary}");
        }
    }

    /// What comes out of the scrambler as zeroes gets shorter even there.
    #[test]
    fn what_the_scrambler_has_had_goes_through_it_again_when_it_is_expanded() {
        let channel = channel(Some("lba-prbs31"));
        let mut packer = Packer::new(Engine::AfterScrambler, 8);
        for lpn in [0, 1, 77] {
            let mut stream = vec![0; PAGE];
            channel.scramble(lpn, &mut stream);
            let page = PageBytes::from(stream);
            let fragment = packer.compress(&channel, lpn, &page).expect("zeroes get shorter");
            assert_eq!((fragment.subpages, fragment.seed), (1, lpn.into()));
            assert_eq!(packer.expand(&channel, &fragment), Some(page));
        }
    }

    /// Fragments may fill a page to its last byte, and not one more.
    #[test]
    fn the_last_fragment_ends_with_the_page_at_most() {
        let packer = Packer::new(Engine::BeforeScrambler, 4);
        let one = |subpages: u32, len| Fragment {
            key: PageKey::Data(1),
            seed: u64::MAX,
            tag: u64::MAX - 1,
            subpages,
            content: Some(PageBytes::from(vec![7; len])),
        };
        let all = [one(3, 700), one(1, 256 - HEAD_BYTES)];
        let mut page = vec![0xff; 1024];
        packer.lay(&all, &mut page);
        assert_eq!(fragments(&page, 4).as_deref(), Some(&all[..]));
        let len = 768 + 8;
        page[len] += 1;
        assert_eq!(fragments(&page, 4), None, "a byte longer than the page");
        page[len] -= 1;
        page[2] = 4;
        assert_eq!(fragments(&page, 4), Some(vec![one(4, 700)]), "nothing follows");
        page[2] = 5;
        assert_eq!(fragments(&page, 4), None, "a sub-page more than there are");
    }

    #[test]
    fn what_is_no_packed_page_is_told() {
        let channel = channel(None);
        let mut packer = Packer::new(Engine::BeforeScrambler, 8);
        let one = packer.compress(&channel, 3, &page(1, 5).into()).expect("shorter");
        let mut flash = vec![0; PAGE];
        packer.lay(std::slice::from_ref(&one), &mut flash);
        assert_eq!(fragments(&flash, 8), Some(vec![one]));
        assert_eq!(fragments(&[0; PAGE], 8), Some(Vec::new()));
        // Kind, flags, sub-pages, and a length beyond the page.
        for (at, byte) in [(0, 9), (0, 3), (1, 4), (2, 0), (2, 9), (11, 1)] {
            let mut other = flash.clone();
            other[at] = byte;
            assert_eq!(fragments(&other, 8), None, "byte {at}");
        }
    }
}
