//! Cuts and failures, beside a plain array to which the same was done.
//! Room: onefold-flash.

use super::*;
use crate::nand::{Identity, IdentityNand, Sizes};
use crate::testing::plane::plane;

#[test]
fn the_power_goes_at_the_operation_that_was_planned_and_stays_off() {
    for (cut, erased) in [(Cut::Before, 3), (Cut::Torn, 3), (Cut::After, 4)] {
        let inner = IdentityNand::new(plane(8, 16));
        let mut nand = PowerCut::new(inner, Faults::default());
        let oob = Oob { key: PageKey::Journal(1), seq: 1, seed: 0, tag: 0 };
        for block in 0..8 {
            let first = nand.geometry().first_page(block);
            nand.program(first, Payload::Meta(b"x"), &oob).unwrap();
        }
        nand.cut_after(3, cut);
        for block in 0..3 {
            nand.erase(block).unwrap();
        }
        assert!(!nand.is_off());
        assert!(matches!(nand.erase(3), Err(NandError::PowerOff)));
        assert!(nand.is_off());
        let page = nand.geometry().first_page(7);
        assert!(matches!(nand.erase(4), Err(NandError::PowerOff)));
        assert!(matches!(nand.sync(), Err(NandError::PowerOff)));
        assert!(matches!(nand.read_oob(page), Err(NandError::PowerOff)));
        assert!(matches!(nand.read_meta(page), Err(NandError::PowerOff)));
        nand.restore();
        nand.sync().unwrap();
        assert_eq!(nand.read_oob(page).unwrap().seq, 1);
        let holds = |block: &u32| {
            let first = nand.inner.geometry().first_page(*block);
            nand.inner.read_oob(first).is_ok_and(|oob| oob.seq == 1)
        };
        let gone = if cut == Cut::Torn { 4 } else { erased };
        assert_eq!((0..8).filter(holds).count(), 8 - gone, "{cut:?}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Program(u32),
    Copy(u32, u32),
    Erase(u32),
}

const OOB: Oob = Oob { key: PageKey::Data(1), seq: 9, seed: 2, tag: 77 };

fn done<N: Nand<Page = Identity>>(nand: &mut N, deed: Deed) -> Result<u64, NandError> {
    match deed {
        Deed::Program(ppn) => {
            nand.program(ppn, Payload::Data(&Identity(ppn.into())), &OOB).map(|()| 0)
        }
        Deed::Copy(from, to) => nand.copy(from, to, PageKey::Shared(to), 10),
        Deed::Erase(block) => nand.erase(block).map(|()| 0),
    }
}

/// What is programmed, copied and erased, each deed where it may be done.
const DEEDS: [Deed; 9] = [
    Deed::Program(0),
    Deed::Program(1),
    Deed::Copy(0, 4),
    Deed::Program(8),
    Deed::Erase(0),
    Deed::Copy(4, 0),
    Deed::Copy(8, 5),
    Deed::Erase(2),
    Deed::Program(6),
];

fn text(nand: &IdentityNand) -> String {
    format!("{nand:?}")
}

/// A cut at each deed leaves what was done before it, and of it nothing, a torn half or all.
#[test]
fn a_cut_leaves_what_was_done_before_it_and_nothing_is_done_after_it() {
    for at in 0..DEEDS.len() {
        for cut in [Cut::Before, Cut::Torn, Cut::After] {
            let what = format!("{cut:?} {:?}", DEEDS[at]);
            let mut plain = IdentityNand::new(plane(4, 4));
            for deed in &DEEDS[..at] {
                done(&mut plain, *deed).unwrap();
            }
            match (cut, DEEDS[at]) {
                (Cut::Before, _) => {}
                (Cut::After, deed) => drop(done(&mut plain, deed).unwrap()),
                (Cut::Torn, Deed::Erase(block)) => plain.tear_erase(block),
                (Cut::Torn, Deed::Program(to) | Deed::Copy(_, to)) => plain.tear_program(to),
            }
            let mut nand = PowerCut::new(IdentityNand::new(plane(4, 4)), Faults::default());
            nand.cut_after(at as u64, cut);
            for deed in DEEDS {
                let before = nand.operations();
                match done(&mut nand, deed) {
                    Ok(tag) => {
                        assert_eq!(tag, if matches!(deed, Deed::Copy(..)) { 77 } else { 0 });
                        assert!(before < at as u64 && !nand.is_off(), "{what}");
                    }
                    Err(error) => {
                        assert!(matches!(error, NandError::PowerOff), "{what}: {error}");
                        assert!(before >= at as u64 && nand.is_off(), "{what}");
                    }
                }
            }
            assert_eq!(nand.operations(), at as u64 + 1, "{what}");
            assert_eq!(text(nand.inner()), text(&plain), "{what}");
            for ppn in 0..16 {
                let off = |said| matches!(said, Err(NandError::PowerOff));
                assert!(off(nand.read(ppn).map(|_| ())), "{what}");
                assert!(off(nand.read_oob(ppn).map(|_| ())), "{what}");
                assert!(off(nand.read_meta(ppn).map(|_| ())), "{what}");
                assert!(off(nand.read_packed(ppn).map(|_| ())), "{what}");
                assert!(off(nand.sync()), "{what}");
            }
            // The plan is carried out once.
            nand.restore();
            for deed in [Deed::Erase(0), Deed::Program(0), Deed::Erase(3), Deed::Program(12)] {
                done(&mut nand, deed).expect(&what);
                done(&mut plain, deed).expect(&what);
            }
            assert_eq!(text(nand.inner()), text(&plain), "{what}");
        }
    }
}

/// Who is drawn to fail, and what is left of it: beside the same draws and a plain array.
#[test]
fn blocks_fail_as_often_as_the_plan_says_and_keep_what_they_held() {
    let faults = Faults { program_ppm: 60_000, erase_ppm: 150_000, blocks_max: 5, seed: 4 };
    let mut nand = PowerCut::new(IdentityNand::new(plane(12, 4)), faults);
    let mut plain = IdentityNand::new(plane(12, 4));
    let mut draws = SplitMix64::new(faults.seed);
    let mut failed = (0, 0);
    let mut random = SplitMix64::new(12);
    let mut next = [0; 12];
    for _ in 0..300 {
        let block = random.below(12) as u32;
        let at = &mut next[block as usize];
        let deed = if *at == 4 {
            *at = 0;
            Deed::Erase(block)
        } else {
            *at += 1;
            Deed::Program(block * 4 + *at - 1)
        };
        let ppm = if matches!(deed, Deed::Erase(_)) { 150_000 } else { 60_000 };
        let fails = !plain.is_bad(block) && failed.0 + failed.1 < 5 && draws.chance(ppm, 1_000_000);
        let expected = if fails {
            let what = if let Deed::Program(ppn) = deed {
                plain.tear_program(ppn);
                failed.0 += 1;
                "program"
            } else {
                failed.1 += 1;
                "erase"
            };
            plain.mark_bad(block);
            Err(format!("{what} of block {block} failed: the block has gone bad"))
        } else {
            done(&mut plain, deed).map_err(|error| error.to_string())
        };
        let found = done(&mut nand, deed).map_err(|error| error.to_string());
        assert_eq!(found, expected, "{deed:?}");
        assert_eq!(text(nand.inner()), text(&plain), "{deed:?}");
        assert_eq!(nand.is_bad(block), plain.is_bad(block));
    }
    assert!(failed.0 > 0 && failed.1 > 0 && failed.0 + failed.1 == 5, "{failed:?}");
}

/// What the array behind says of compressed pages is said.
#[test]
fn compressed_pages_are_those_of_the_array_behind() {
    let sizes = Sizes { percent: 30, ..Sizes::codewords(4) };
    let inner = IdentityNand::new(plane(4, 4)).with_sizes(Some(sizes));
    let mut nand = PowerCut::new(inner, Faults::default());
    let fragment = nand.compress(6, &Identity(5), None).expect("shorter");
    let expected = Fragment {
        key: PageKey::Data(6),
        seed: 6,
        tag: 0,
        subpages: 2,
        content: Some(Identity(5)),
    };
    assert_eq!(fragment, expected);
    assert_eq!(nand.expand(0, &fragment).unwrap(), Identity(5));
    let fragments = [fragment.clone(), fragment];
    nand.program(0, Payload::Packed(&fragments), &OOB).unwrap();
    let key = PageKey::Packed(2);
    nand.program(1, Payload::Packed(&fragments), &Oob { key, ..OOB }).unwrap();
    assert_eq!(nand.read_packed(1).unwrap(), fragments);
    assert_eq!(nand.operations(), 2, "reading is no operation that counts");
}

#[test]
fn operations_are_counted_and_no_more_blocks_fail_than_may() {
    for blocks_max in [0, 1, 3] {
        let faults = Faults { program_ppm: 0, erase_ppm: 1_000_000, blocks_max, seed: 1 };
        let mut nand = PowerCut::new(IdentityNand::new(plane(8, 4)), faults);
        assert_eq!((nand.operations(), nand.is_off()), (0, false));
        let failed = (0..8).filter(|&block| nand.erase(block).is_err()).count();
        assert_eq!(failed, blocks_max as usize);
        assert_eq!(nand.operations(), 8);
    }
}
