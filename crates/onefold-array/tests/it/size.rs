//! The least hardware for a goal, against runs of what it says.

use onefold_array::size::{Goal, Part, SizeError, Sized, size, with_load};
use onefold_array::{ServerSpec, SpecBuilder, simulate};

use crate::told::assert_sized;

const GOAL: Goal = Goal { gb_per_s: 12.0, capacity_tb: 100.0, reduction: 0.75 };

fn sized(preset: &str, settings: &[&str], goal: Goal) -> Result<Sized, SizeError> {
    let builder = SpecBuilder::preset(preset).unwrap();
    let with = |builder: SpecBuilder, setting: &&str| builder.set(setting).unwrap();
    size(&settings.iter().fold(builder, with), goal)
}

/// A description with the parts that were found, under the goal's load.
fn size_of(preset: &str, sized: &Sized) -> ServerSpec {
    let builder = with_load(&SpecBuilder::preset(preset).unwrap(), GOAL).unwrap();
    let parts = sized.parts.iter();
    let set = |builder: SpecBuilder, part: &Part| {
        builder.set(&format!("{}={}", part.key, part.count)).unwrap()
    };
    parts.fold(builder, set).build().unwrap()
}

/// A test for each kind of server, so that each is quick.
macro_rules! each {
    ($($name:ident = $preset:literal,)*) => {
        $(#[test]
        fn $name() {
            reaches_its_goal_and_with_any_part_less_does_not($preset);
        })*
    };
}

each! {
    a_software_server_reaches_its_goal_and_with_any_part_less_it_does_not = "software",
    a_server_with_engines_reaches_its_goal_and_with_any_part_less_it_does_not = "cidr",
    a_server_with_cards_reaches_its_goal_and_with_any_part_less_it_does_not = "fidr",
}

fn reaches_its_goal_and_with_any_part_less_does_not(preset: &str) {
    let sized = sized(preset, &[], GOAL).unwrap();
    assert!(sized.gb_per_s >= GOAL.gb_per_s, "{preset}: {sized:?}");
    for part in &sized.parts {
        assert_eq!(part.one_less_gb_per_s.is_none(), part.count == 1, "{preset}: {part:?}");
        assert!(part.one_less_gb_per_s.is_none_or(|less| less < GOAL.gb_per_s), "{part:?}");
    }
    let cost = sized.cost;
    assert!((sized.cost_usd - cost.total()).abs() < 1e-9);
    assert!((sized.flash_tb - 25.0).abs() < 1e-9);
    // At the break-even capacity the same parts cost what they save.
    let capacity = sized.break_even_capacity_tb.unwrap();
    let there = super::size::sized(preset, &[], Goal { capacity_tb: capacity, ..GOAL }).unwrap();
    assert!(there.saved_share.abs() < 1e-6, "{preset}: {capacity} TB {there:?}");
    assert_eq!(there.parts, sized.parts);
    let times = capacity / GOAL.capacity_tb;
    assert!(sized.saved_share_at(times).abs() < 1e-6, "{preset}: {sized:?}");
    assert!((sized.saved_share_at(1.0) - sized.saved_share).abs() < 1e-12);
    let run = simulate(&size_of(preset, &sized)).unwrap();
    let crossing = run.memory_bytes_per_client_byte * run.gb_per_s;
    assert!((sized.memory_gb_per_s / crossing - 1.0).abs() < 0.05, "{preset}: {crossing}");
    assert_sized(preset, &[&sized, &there]);
}

#[test]
fn more_throughput_never_takes_fewer_parts_and_reduction_pays() {
    let parts = |gb_per_s: f64| {
        let sized = sized("cidr", &[], Goal { gb_per_s, ..GOAL }).unwrap();
        sized.parts.iter().map(|part| part.count).collect::<Vec<_>>()
    };
    let (few, many) = (parts(6.0), parts(40.0));
    assert!(few.iter().zip(&many).all(|(few, many)| few <= many), "{few:?} {many:?}");
    assert_ne!(few, many);
    let saved =
        |reduction: f64| sized("cidr", &[], Goal { reduction, ..GOAL }).unwrap().saved_share;
    assert!(saved(0.2) < saved(0.6) && saved(0.6) < saved(0.9));
}

#[test]
fn a_goal_that_nothing_reaches_says_what_stops_it() {
    // Look-ups cannot be bought more of.
    let slow = ["table.engine_lookups_per_s=100000"];
    let error = sized("fidr", &slow, GOAL).unwrap_err().to_string();
    assert!(error.contains("index engine") && error.contains("12 GB/s"), "{error}");
    for (goal, named) in [
        (Goal { gb_per_s: 0.0, ..GOAL }, "more than 0"),
        (Goal { reduction: 1.0, ..GOAL }, "below 100 %"),
        (Goal { capacity_tb: f64::NAN, ..GOAL }, "more than 0"),
    ] {
        let error = sized("cidr", &[], goal).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn what_it_runs_reduces_by_what_was_asked() {
    for (preset, reduction) in [("cidr", 0.75), ("cidr", 0.3), ("cal17", 0.6)] {
        let goal = Goal { gb_per_s: 3.0, reduction, ..GOAL };
        let spec = with_load(&SpecBuilder::preset(preset).unwrap(), goal);
        let bytes = simulate(&spec.unwrap().build().unwrap()).unwrap().bytes;
        let kept = bytes.stored as f64 / bytes.client_in as f64;
        assert!((kept - (1.0 - reduction)).abs() < 0.02, "{preset} {reduction}: {kept}");
    }
}

#[test]
fn parts_that_were_guessed_too_many_are_taken_away_one_by_one() {
    let goal = Goal { gb_per_s: 9.0, ..GOAL };
    for part in &sized("cidr", &[], goal).unwrap().parts {
        assert!(part.one_less_gb_per_s.is_none_or(|less| less < 9.0), "{part:?}");
    }
}
