//! The same lives where flash pages are packed.
//! Room: onefold-flash.

use super::life::Life;
use super::lives::{durable, mixed, settings, sizes, skewed};
use super::plan::{Mix, Plan, WRITES, planes};
use crate::ftl::{Durability, FtlSettings, Pacing, Temperature};
use crate::nand::Sizes;

#[test]
fn compressed_pages_lie_like_this() {
    let each = |(packing_pages, durability, packing_survives, percent, spread)| {
        let settings = FtlSettings {
            subpages: 4,
            packing_pages,
            packing_survives,
            apart: true,
            ..durable(durability)
        };
        let sizes = Some(sizes(percent, spread));
        let plan = Plan { sizes, apart_every: 5, contents: 400, ..mixed(27, settings) };
        let name = format!("{packing_pages} at a time, {durability:?}");
        let mut life = Life::new(&name, plan);
        life.fill();
        life.quietly(250);
        life.loudly(30);
        life.power_cut(packing_survives);
        life.quietly(100);
        life.end()
    };
    let drives = [
        (1, Durability::Journal, false, 60, 40),
        (2, Durability::Protected, true, 75, 25),
        (3, Durability::Protected, true, 40, 39),
    ];
    Life::holds("packed.txt", &drives.map(each));
}

/// Collection where much is live: what it packs anew, in every stream.
#[test]
fn collection_packs_what_it_moves_like_this() {
    let each = |(packing_pages, codewords, pacing)| {
        let settings = FtlSettings {
            subpages: 4,
            packing_pages,
            codewords,
            pacing,
            logical_pages: if codewords { 208 } else { 64 },
            wear_spread: 1,
            temperature: Temperature::HotRange { hot_pages: 12, hot_writes_permille: 600 },
            ..settings()
        };
        let sizes = if codewords { Sizes::codewords(4) } else { sizes(60, 15) };
        let mix = Mix { write: 20, kept: 2, trim: 1, ..WRITES };
        let plan =
            Plan { sizes: Some(sizes), mix, geometry: planes(17, 4, 128), ..skewed(settings) };
        let mut life = Life::new(&format!("{packing_pages}, codewords: {codewords}"), plan);
        life.fill();
        life.quietly(500);
        life.loudly(16);
        life.quietly(200);
        life.end()
    };
    let drives = [
        (1, false, Pacing::Incremental),
        (2, false, Pacing::WholeBlock),
        (1, true, Pacing::Incremental),
        (2, true, Pacing::Incremental),
    ];
    Life::holds("gathered.txt", &drives.map(each));
}

#[test]
fn codewords_lie_like_this() {
    let settings = FtlSettings {
        logical_pages: 200,
        subpages: 4,
        codewords: true,
        packing_pages: 2,
        wear_spread: 2,
        ..durable(Durability::Journal)
    };
    let sizes = Some(Sizes::codewords(4));
    let plan = Plan {
        geometry: planes(23, 4, 128),
        sizes,
        hot: Some((60, 75)),
        contents: 600,
        ..mixed(20, settings)
    };
    let mut life = Life::new("codewords", plan);
    life.fill();
    life.quietly(600);
    life.loudly(30);
    life.power_cut(false);
    life.quietly(50);
    Life::holds("codewords.txt", &[life.end()]);
}
