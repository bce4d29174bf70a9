//! Every flash operation of some short, eventful lives, as the texts beside this file have them: a
//! change of one of them is a change of what a drive decides, does, counts or remembers.
//! `ONEFOLD_UPDATE=1` writes them anew.
//! Room: onefold-flash.

use super::life::Life;
use super::plan::{ALL, Mix, Plan, WRITES, planes};
use crate::dedup::Engine;
use crate::ftl::{Durability, FtlSettings, Pacing, Temperature, VictimRule};
use crate::nand::{Cut, Faults, Sizes};
use crate::spec::IdleOrder;

/// Settings of a drive of 64 pages that collects as late as it may.
pub fn settings() -> FtlSettings {
    FtlSettings { logical_pages: 64, gc_reserve_blocks: 2, ..FtlSettings::default() }
}

/// The same of 128 pages, with pages of the drive's own.
pub fn durable(durability: Durability) -> FtlSettings {
    FtlSettings { logical_pages: 128, durability, checkpoint_pages: 100, ..settings() }
}

/// Writes, most of them to a quarter of the pages, and some trims.
pub fn skewed(settings: FtlSettings) -> Plan {
    let mix = Mix { write: 20, trim: 1, ..WRITES };
    Plan { mix, hot: Some((16, 75)), ..Plan::new(planes(14, 4, 128), settings) }
}

/// Some of everything, with some duplicates, on planes of so many blocks of four pages.
pub fn mixed(blocks: u32, settings: FtlSettings) -> Plan {
    Plan {
        mix: ALL,
        hot: Some((40, 75)),
        contents: 150,
        inline_percent: 50,
        ..Plan::new(planes(blocks, 4, 256), settings)
    }
}

/// Compressed pages of so many percent of four sub-pages, more or less.
pub fn sizes(percent: u32, spread: u32) -> Sizes {
    Sizes { subpages: 4, percent, spread, engine: Engine::BeforeScrambler, plain: None }
}

fn victims(rule: VictimRule) -> Vec<String> {
    let each = |pacing| {
        let settings = FtlSettings { victim: rule, pacing, ..settings() };
        let mut life = Life::new(&format!("{rule:?}, {pacing:?}"), skewed(settings));
        life.fill();
        life.quietly(200);
        life.loudly(24);
        life.end()
    };
    [Pacing::Incremental, Pacing::WholeBlock].map(each).to_vec()
}

#[test]
fn each_rule_takes_these_victims() {
    let rules = [VictimRule::Greedy, VictimRule::Fifo, VictimRule::CostBenefit];
    Life::holds("victims.txt", &rules.map(victims).concat());
}

#[test]
fn drawn_victims_are_these() {
    let rules = [VictimRule::DChoices(1), VictimRule::DChoices(3)];
    Life::holds("victims_drawn.txt", &rules.map(victims).concat());
}

#[test]
fn two_pools_fill_and_give_up_these_blocks() {
    let rules = [VictimRule::Greedy, VictimRule::Fifo, VictimRule::CostBenefit];
    let each = |victim| {
        let temperature = Temperature::HotRange { hot_pages: 16, hot_writes_permille: 750 };
        let settings =
            FtlSettings { logical_pages: 64, victim, temperature, ..durable(Durability::Journal) };
        let plan = Plan { geometry: planes(19, 4, 128), ..skewed(settings) };
        let mut life = Life::new(&format!("{victim:?}"), plan);
        life.fill();
        life.quietly(200);
        life.loudly(16);
        life.power_cut(false);
        life.quietly(50);
        life.end()
    };
    Life::holds("pools.txt", &rules.map(each));
}

#[test]
fn worn_blocks_get_cold_pages() {
    let each = |wear_spread| {
        let settings = FtlSettings { logical_pages: 60, wear_spread, ..settings() };
        let plan = Plan { hot: Some((20, 98)), ..skewed(settings) };
        let mut life = Life::new(&format!("spread {wear_spread}"), plan);
        life.fill();
        life.quietly(400);
        life.loudly(16);
        life.quietly(400);
        life.end()
    };
    Life::holds("wear.txt", &[1, 3].map(each));
}

#[test]
fn what_is_promised_is_stored_then() {
    let kinds = [Durability::NoJournal, Durability::Journal, Durability::Protected];
    let each = |durability| {
        let plan = Plan { apart_every: 3, ..mixed(27, durable(durability)) };
        let plan = Plan { settings: FtlSettings { apart: true, ..plan.settings }, ..plan };
        let mut life = Life::new(&format!("{durability:?}"), plan);
        life.fill();
        life.quietly(250);
        life.loudly(30);
        life.power_cut(durability == Durability::Protected);
        life.quietly(100);
        life.power_cut(true);
        life.end()
    };
    Life::holds("promises.txt", &kinds.map(each));
}

#[test]
fn map_pages_come_and_go() {
    let kinds = [Durability::Volatile, Durability::Journal];
    let each = |durability| {
        let settings = FtlSettings {
            logical_pages: 112,
            map_cache_bytes: 4 * 64,
            gc_idle_blocks: 5,
            ..durable(durability)
        };
        let geometry = planes(27, 4, 64);
        let plan = Plan { geometry, contents: 400, ..mixed(27, settings) };
        let mut life = Life::new(&format!("{durability:?}"), plan);
        life.fill();
        life.quietly(250);
        life.loudly(24);
        if durability == Durability::Journal {
            life.power_cut(false);
            life.quietly(50);
        }
        life.end()
    };
    Life::holds("map_cache.txt", &kinds.map(each));
}

#[test]
fn policies_are_asked_and_told_like_this() {
    let policies = [
        ("caftl-online", "background = true"),
        ("caftl-offline", ""),
        ("block-separation", ""),
        ("crc-compare", ""),
        ("ses-host", ""),
        ("ses-device", ""),
    ];
    let each = |policy: (&'static str, &'static str)| {
        let subpages = if policy.0 == "caftl-offline" { 4 } else { 1 };
        let settings = FtlSettings {
            apart: true,
            subpages,
            packing_pages: 2,
            gc_idle_blocks: 5,
            ..durable(Durability::Journal)
        };
        let mix = Mix { merge: 40, ..ALL };
        let sizes = (subpages > 1).then(|| sizes(60, 40));
        let contents = 60;
        let plan = Plan { policy: Some(policy), mix, sizes, contents, ..mixed(27, settings) };
        let mut life = Life::new(policy.0, plan);
        life.fill();
        life.quietly(250);
        life.loudly(12);
        life.power_cut(false);
        life.quietly(150);
        life.end()
    };
    Life::holds("policies.txt", &policies.map(each));
}

#[test]
fn blocks_fail_and_what_they_held_goes_elsewhere() {
    let each = |(packs, durability)| {
        let settings = FtlSettings {
            subpages: if packs { 4 } else { 1 },
            packing_pages: 2,
            packing_survives: packs,
            ..durable(durability)
        };
        let sizes = packs.then(|| sizes(60, 40));
        let faults = Faults { program_ppm: 40_000, erase_ppm: 30_000, blocks_max: 48, seed: 3 };
        let plan = Plan { sizes, faults, contents: 400, ..mixed(30, settings) };
        let mut life = Life::new(&format!("packs: {packs}, {durability:?}"), plan);
        life.fill();
        life.quietly(100);
        life.loudly(12);
        life.quietly(400);
        life.power_cut(true);
        life.loudly(12);
        life.end()
    };
    let drives = [(false, Durability::Journal), (true, Durability::Protected)];
    Life::holds("worn.txt", &drives.map(each));
}

#[test]
fn the_power_goes_anywhere() {
    let each = |packs: bool| {
        let settings = FtlSettings {
            subpages: if packs { 4 } else { 1 },
            packing_pages: 2,
            wear_spread: 2,
            ..durable(Durability::Journal)
        };
        let sizes = packs.then(|| sizes(60, 40));
        let plan = Plan { sizes, contents: 300, ..mixed(27, settings) };
        let mut life = Life::new(&format!("packs: {packs}"), plan);
        life.fill();
        life.quietly(100);
        for (round, cut) in (1..).zip([Cut::Torn, Cut::Before, Cut::After].repeat(5)) {
            life.cut_in(7 * round, cut);
        }
        life.loudly(6);
        life.end()
    };
    Life::holds("cuts.txt", &[false, true].map(each));
}

#[test]
fn damaged_pages_are_named_and_passed_over() {
    let each = |packs: bool| {
        let settings = FtlSettings {
            subpages: if packs { 4 } else { 1 },
            packing_pages: 2,
            ..durable(Durability::Journal)
        };
        let sizes = packs.then(|| sizes(60, 40));
        let plan = Plan { sizes, contents: 300, ..mixed(27, settings) };
        let mut life = Life::new(&format!("packs: {packs}"), plan);
        life.fill();
        life.quietly(150);
        life.flush();
        life.damage(3);
        life.loudly(20);
        life.quietly(100);
        life.power_cut(false);
        life.loudly(10);
        life.end()
    };
    Life::holds("damaged.txt", &[true, false].map(each));
}

/// A part of the map is damaged, on drives that have it in DRAM in part and in whole.
#[test]
fn damaged_map_pages_are_named_and_stored_anew() {
    let each = |(map_cache_bytes, durability)| {
        let settings = FtlSettings { logical_pages: 112, map_cache_bytes, ..durable(durability) };
        let plan = Plan { geometry: planes(27, 4, 64), contents: 400, ..mixed(27, settings) };
        let mut life = Life::new(&format!("{map_cache_bytes}, {durability:?}"), plan);
        life.fill();
        life.quietly(100);
        let segments = life.drive.own.slots().segments;
        life.damage_own(|slot| slot < segments && slot % 4 == 1);
        life.loudly(10);
        life.quietly(100);
        life.damage_own(|slot| slot < segments && slot % 3 == 1);
        life.power_cut(true);
        life.quietly(100);
        life.damage_own(|slot| slot >= segments && slot % 2 == 1);
        life.power_cut(false);
        life.end()
    };
    let drives =
        [(4 * 64, Durability::Journal), (0, Durability::Protected), (0, Durability::NoJournal)];
    Life::holds("damaged_map.txt", &drives.map(each));
}

#[test]
fn idle_moments_are_used_like_this() {
    let orders =
        [IdleOrder::ByPolicy, IdleOrder::DedupFirst, IdleOrder::GcFirst, IdleOrder::ByNeed];
    let each = |order| {
        let settings = FtlSettings { gc_idle_blocks: 6, ..durable(Durability::Journal) };
        let mix = Mix { work: 40, ..ALL };
        let plan = Plan { order, mix, inline_percent: 20, ..mixed(25, settings) };
        let mut life = Life::new(&format!("{order:?}"), plan);
        life.fill();
        life.quietly(200);
        life.loudly(16);
        while life.background() {}
        life.show("nothing is left to do");
        life.end()
    };
    Life::holds("idle.txt", &orders.map(each));
}

#[test]
fn wishes_of_a_driver_and_patterns_choose_the_plane() {
    let each = |spread_patterns| {
        let settings = FtlSettings { spread_patterns, apart: true, ..durable(Durability::Journal) };
        let plan = Plan { apart_every: 3, contents: 1 << 20, ..mixed(27, settings) };
        let mut life = Life::new(&format!("spread: {spread_patterns}"), plan);
        life.fill();
        life.loudly(12);
        for plane in [Some(1), Some(0), None] {
            life.want(plane);
            life.quietly(50);
        }
        life.end()
    };
    Life::holds("chosen_planes.txt", &[false, true].map(each));
}

#[test]
fn the_steady_state_is_laid_out_like_this() {
    let rules =
        [VictimRule::Greedy, VictimRule::Fifo, VictimRule::CostBenefit, VictimRule::DChoices(2)];
    let each = |victim| {
        let settings = FtlSettings { victim, ..durable(Durability::Journal) };
        let plan = Plan::new(planes(25, 4, 256), settings);
        let mut life = Life::new(&format!("{victim:?}"), plan);
        life.precondition();
        life.show("laid out");
        life.end()
    };
    Life::holds("steady.txt", &rules.map(each));
}
