//! Keeps similar patterns out of each other's neighbourhood: what the last page of each open block
//! looks like, and which block a plain page goes to.
//! Room: onefold-flash.   In: a page's sketch.   Out: a plane.
//! Source: [ses-dedup] sec. III: the FTL may write plain data to different physical units, to avoid
//! or limit similar patterns in the same block.
//! Invariants: a hint in memory alone, which no recovery needs: a page that meets its like reads
//! with more errors, and is the same page.
//! Cost: 16 B a plane, and a look at every plane for each plain page.

use crate::ftl::stream::Stream;
use crate::nand::Pattern;

/// What lies last in the open blocks that pages of the host go to.
#[derive(Clone, Debug)]
pub(super) struct Neighbours {
    /// By plane, for [`Stream::Host`] and [`Stream::Apart`]; `None` for noise or an empty block.
    last: Vec<[Option<Pattern>; 2]>,
}

impl Neighbours {
    /// Nothing is known of any of `planes`.
    pub fn new(planes: u32) -> Self {
        Self { last: vec![[None; 2]; planes as usize] }
    }

    /// A page of the host was programmed in a plane.
    pub fn note(&mut self, plane: u32, stream: Stream, pattern: Option<Pattern>) {
        self.last[plane as usize][slot(stream)] = pattern;
    }

    /// A plane's open block is another one now.
    pub fn forget(&mut self, plane: u32, stream: Stream) {
        if matches!(stream, Stream::Host | Stream::Apart) {
            self.last[plane as usize][slot(stream)] = None;
        }
    }

    /// The plane, of those given, in which the last page is least like a pattern; of equal ones
    /// the first.
    pub fn least_alike(
        &self,
        stream: Stream,
        pattern: Pattern,
        planes: impl Iterator<Item = u32>,
    ) -> Option<u32> {
        let mut best = None;
        for plane in planes {
            let last = self.last[plane as usize][slot(stream)];
            let alike = last.map_or(0, |last| last.alike(pattern));
            if best.is_none_or(|(least, _)| alike < least) {
                best = Some((alike, plane));
            }
            if alike == 0 {
                break;
            }
        }
        best.map(|(_, plane)| plane)
    }
}

const fn slot(stream: Stream) -> usize {
    matches!(stream, Stream::Apart) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_goes_to_the_first_plane_where_nothing_is_like_it() {
        let [zeroes, ones] = [0x00, 0xff].map(|byte| Pattern::of(&[byte; 64]));
        let mut neighbours = Neighbours::new(3);
        let goes = |neighbours: &Neighbours, pattern, planes: &[u32]| {
            neighbours.least_alike(Stream::Host, pattern, planes.iter().copied())
        };
        assert_eq!(goes(&neighbours, zeroes, &[1, 2, 0]), Some(1));
        neighbours.note(1, Stream::Host, Some(zeroes));
        neighbours.note(2, Stream::Apart, Some(zeroes));
        assert_eq!(goes(&neighbours, zeroes, &[1, 2, 0]), Some(2), "another stream's block");
        assert_eq!(goes(&neighbours, ones, &[1, 2, 0]), Some(1));
        neighbours.note(2, Stream::Host, Some(zeroes));
        assert_eq!(goes(&neighbours, zeroes, &[1, 2]), Some(1), "nowhere better");
        assert_eq!(goes(&neighbours, zeroes, &[]), None);
        neighbours.forget(1, Stream::Moved);
        assert_eq!(goes(&neighbours, zeroes, &[1, 2, 0]), Some(0));
        neighbours.forget(1, Stream::Host);
        assert_eq!(goes(&neighbours, zeroes, &[1, 2, 0]), Some(1));
        neighbours.note(1, Stream::Host, None);
        assert_eq!(goes(&neighbours, zeroes, &[2, 1]), Some(1), "noise");
        // The least of likenesses is one: the search goes on where there may be none.
        let mut random = onefold_block::SplitMix64::new(1);
        let mut drawn = std::iter::repeat_with(|| {
            let mut page = random.bytes(64);
            page[..16].fill(0);
            Pattern::of(&page)
        });
        let least = drawn.find(|pattern| pattern.alike(zeroes) == 1).expect("one of many");
        neighbours.note(1, Stream::Host, Some(least));
        neighbours.note(0, Stream::Host, Some(ones));
        assert_eq!(goes(&neighbours, zeroes, &[1, 0]), Some(0));
    }
}
