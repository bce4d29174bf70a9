//! Small searches by short runs, number for number: their texts are kept, and `ONEFOLD_UPDATE=1`
//! writes them anew. That servers reach their goals is held by longer ones, in `tests/it/size.rs`.
//! Room: onefold-array.

use std::fmt::Write as _;
use std::path::Path;

use onefold_block::kept_text::assert_text;

use super::*;

const GOAL: Goal = Goal { gb_per_s: 4.0, capacity_tb: 10.0, reduction: 0.6 };

fn with(preset: &str, settings: &str) -> SpecBuilder {
    let set = |builder: SpecBuilder, setting| builder.set(setting).unwrap();
    settings.split_whitespace().fold(SpecBuilder::preset(preset).unwrap(), set)
}

/// Hold the searches of these to the text that is kept under this name.
#[allow(clippy::disallowed_methods, reason = "the environment says whether texts are written")]
fn assert_told(name: &str, searches: &[(&str, &str, Goal)]) {
    let mut told = String::new();
    for &(preset, settings, goal) in searches {
        let sized = size_by(&with(preset, settings), goal, 600);
        writeln!(told, "{preset} {settings} {goal:?}").unwrap();
        match sized {
            Ok(sized) => writeln!(told, "{sized:#.6?}\n").unwrap(),
            Err(error) => writeln!(told, "{error}\n").unwrap(),
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/size/told/{name}.txt"));
    assert_text(&path, &told, std::env::var_os("ONEFOLD_UPDATE").is_some());
}

#[test]
fn small_servers_of_software_are_what_they_were() {
    assert_told("software", &[("software", "", GOAL)]);
}

#[test]
fn small_servers_with_too_many_parts_are_what_they_were() {
    assert_told("many", &[("cidr", "ssd.count=40 table_ssd.count=30 nic.count=9", GOAL)]);
}

#[test]
fn small_servers_that_wait_for_each_other_are_what_they_were() {
    let narrow = "engine.queue_batches=1 link.queue_transfers=1 workload.outstanding=8";
    assert_told("narrow", &[("cidr", narrow, Goal { gb_per_s: 9.0, ..GOAL })]);
}

#[test]
fn small_servers_with_slow_drives_are_what_they_were() {
    let few = Goal { reduction: 0.1, ..GOAL };
    assert_told("slow-table", &[("fidr", "table_ssd.reads_per_s=200000", few)]);
    let none = Goal { reduction: 0.0, capacity_tb: 0.5, ..GOAL };
    assert_told("slow-data", &[("cal17", "ssd.write_gb_per_s=0.5", none)]);
}

#[test]
fn small_servers_whose_drives_find_duplicates_are_what_they_were() {
    let much = Goal { reduction: 0.95, ..GOAL };
    assert_told("drives", &[("intra-ssd", "ssd.read_gb_per_s=0.5", much)]);
}

#[test]
fn what_stops_small_servers_is_what_it_was() {
    assert_told(
        "stopped",
        &[
            ("fidr", "table.engine_lookups_per_s=100000", GOAL),
            ("software", "memory.gb_per_s_per_socket=0.002", GOAL),
        ],
    );
}

/// Hold the numbers of parts for these goals, a line for each, to the text of this name.
#[allow(clippy::disallowed_methods, reason = "the environment says whether texts are written")]
fn assert_parts(preset: &str, settings: &[&str]) {
    let mut told = String::new();
    for settings in settings {
        for gb_per_s in [0.5, 2.0, 5.0, 7.0, 9.0] {
            let found = size_by(&with(preset, settings), Goal { gb_per_s, ..GOAL }, 300);
            let found = found.map_or_else(
                |error| error.to_string(),
                |sized| {
                    let parts = sized.parts.iter();
                    let part = |part: &Part| {
                        let less = part.one_less_gb_per_s.map_or(0.0, |less| less);
                        format!("{} {} ({less:.4})", part.count, part.name)
                    };
                    let parts = parts.map(part).collect::<Vec<_>>().join(", ");
                    format!("{:.4}: {parts}", sized.gb_per_s)
                },
            );
            writeln!(told, "{preset} {settings} {gb_per_s} GB/s: {found}").unwrap();
        }
    }
    let path = format!("src/size/told/parts-{preset}.txt");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    assert_text(&path, &told, std::env::var_os("ONEFOLD_UPDATE").is_some());
}

#[test]
fn so_many_parts_of_software_as_before_reach_more_and_more() {
    assert_parts("software", &["", "ssd.latency_ns=3000000 workload.read_share=0.5"]);
}

#[test]
fn so_many_parts_with_engines_as_before_reach_more_and_more() {
    assert_parts("cidr", &["", "ssd.count=1 ssd.write_gb_per_s=0.2"]);
}

#[test]
fn so_many_parts_with_cards_as_before_reach_more_and_more() {
    assert_parts("fidr", &[""]);
}

#[test]
fn what_saves_nothing_pays_at_no_capacity() {
    let goal = Goal { gb_per_s: 0.1, reduction: 0.0, ..GOAL };
    let sized = size_by(&with("software", "price.dram_usd_per_gb=0"), goal, 300).unwrap();
    assert_eq!(sized.break_even_capacity_tb, None);
    // And what does save pays from there on.
    let sized = size_by(&with("software", ""), Goal { gb_per_s: 0.1, ..GOAL }, 300).unwrap();
    let times = sized.break_even_capacity_tb.unwrap() / GOAL.capacity_tb;
    assert!(sized.saved_share_at(times).abs() < 1e-9);
    assert!(sized.saved_share_at(2.0 * times) > 0.1 && sized.saved_share_at(times / 2.0) < -0.1);
}

#[test]
fn each_resource_belongs_to_the_part_that_there_can_be_more_of() {
    let parts = |engines| {
        let name = |resource| part_of(resource, engines).map(|part| PARTS[part].0);
        ["batches in flight", "hash units", "engine link in", "cores", "memory", "nic out"]
            .map(name)
            .into_iter()
            .chain(["nic hash units", "data drives", "table drives", "index engine"].map(name))
            .map(|name| name.unwrap_or("none"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let rest = "engines, engines, processors, processors, network cards, network cards, data \
                drives, table drives, none";
    assert_eq!(parts(true), format!("engines, {rest}"));
    assert_eq!(parts(false), format!("processors, {rest}"));
}
