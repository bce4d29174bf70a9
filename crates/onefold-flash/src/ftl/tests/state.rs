//! What a drive knows of itself, in words.
//! Room: onefold-flash.

use std::fmt::Write as _;

use super::told::Drive;
use crate::ftl::blocks::BlockState;
use crate::ftl::stream::Stream;

const STREAMS: [Stream; 5] =
    [Stream::Host, Stream::Apart, Stream::Moved, Stream::MovedHot, Stream::Levelled];

/// Blocks, victims, own pages, map, journal and buffers of a drive.
pub fn of(drive: &Drive) -> String {
    // Counts of nothing are left out.
    let counters = format!("{:?}", drive.counters());
    let counted: Vec<&str> = counters.split(", ").filter(|one| !one.ends_with(": 0")).collect();
    let mut text = format!("{}\n", counted.join(", "));
    let blocks = drive.blocks();
    for plane in 0..drive.geometry().planes() {
        let (free, good, live, hot) = (
            blocks.free_of(plane),
            blocks.good_of(plane),
            blocks.live_of_plane(plane),
            blocks.hot_of(plane),
        );
        let open = STREAMS.map(|stream| drive.space.open_of(plane, stream));
        let victim = drive.victims.of(plane);
        writeln!(
            text,
            "  plane {plane}: free {free}, good {good}, live {live}, hot {hot}, open {open:?}, \
             {victim:?}, gathered {:?}",
            drive.gathered[plane as usize].is_empty()
        )
        .unwrap();
    }
    text += "  blocks:";
    for block in 0..drive.geometry().blocks() {
        let state = match blocks.state(block) {
            BlockState::Free => "-",
            BlockState::Open => "o",
            BlockState::Full => "f",
            BlockState::Victim => "v",
            BlockState::Condemned => "c",
            BlockState::Bad => "b",
        };
        write!(
            text,
            " {block}{state}{}/{}e{}@{}n{}{}",
            blocks.live(block),
            blocks.written(block),
            blocks.erases(block),
            blocks.closed_at(block),
            blocks.needs(block),
            if blocks.is_hot(block) { "h" } else { "" },
        )
        .unwrap();
    }
    if drive.own.is_on() {
        let slots = drive.own.slots();
        let segments = drive.books.segments();
        let of = (0..slots.segments).map(|segment| {
            let clean = if segments.is_clean(segment) { "" } else { "*" };
            let held = segment >= slots.logical || drive.cache.holds(segment);
            let held = if held { "" } else { "-" };
            format!("{}{clean}{held}", segments.stored_at(segment))
        });
        let of: Vec<String> = of.collect();
        let own: Vec<_> = drive.own.all().collect();
        write!(text, "\n  segments {of:?}\n  own {own:?}\n  {:?}", drive.rounds).unwrap();
    }
    let shared = drive.shared();
    write!(text, "\n  shared {} of {}, {:?}", shared.live(), shared.len(), drive.journal).unwrap();
    let waiting: Vec<_> = drive.waiting().map(|(lpns, one)| (lpns, one.subpages)).collect();
    write!(text, "\n  waiting {waiting:?}, stored {:?}", drive.stored()).unwrap();
    text
}
