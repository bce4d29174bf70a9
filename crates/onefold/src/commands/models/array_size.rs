//! `onefold array size`: the least hardware for a goal, of several kinds of servers.
//! Room: onefold.

use std::fmt::Write as _;

use onefold_array::size::{Goal, SizeError, Sized, size};
use onefold_array::spec::SpecBuilder;
use serde::Serialize;

use super::array_spec;
use crate::args::models::{ArraySizeArgs, ServerChoice};
use crate::failure::{Failure, Result};
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::table::{Align, Table, percent};

/// What is sized if nothing is named.
const PRESETS: [&str; 4] = ["software", "cidr", "cidr+", "fidr"];
/// Processors of the largest server that is sold.
const PROCESSORS_MAX: u32 = 8;

#[derive(Serialize)]
struct SizeJson<'a> {
    schema_version: u32,
    throughput_gb_per_s: f64,
    capacity_tb: f64,
    reduction: f64,
    servers: &'a [Sized],
    out_of_reach: Vec<OutOfReach>,
}

#[derive(Serialize)]
struct OutOfReach {
    name: String,
    why: String,
}

/// Sizes every description, the cheapest first.
pub fn run(args: &ArraySizeArgs, printer: &Printer) -> Result<()> {
    let goal =
        Goal { gb_per_s: args.throughput, capacity_tb: args.capacity, reduction: args.reduction };
    let presets: Vec<&str> = if args.preset.is_empty() {
        PRESETS.to_vec()
    } else {
        args.preset.iter().map(String::as_str).collect()
    };
    let builders = presets.iter().map(|preset| builder(preset, &args.set));
    let builders = builders.collect::<Result<Vec<SpecBuilder>>>()?;
    let results: Vec<std::result::Result<Sized, SizeError>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            builders.iter().map(|builder| scope.spawn(|| size(builder, goal))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    let (mut servers, mut out_of_reach) = (Vec::new(), Vec::new());
    for (preset, result) in presets.iter().zip(results) {
        match result {
            Ok(sized) => servers.push(sized),
            Err(error @ SizeError::Stopped { .. }) => {
                out_of_reach.push(OutOfReach { name: (*preset).into(), why: error.to_string() });
            }
            Err(error) => return Err(Failure::nothing_done(error.to_string())),
        }
    }
    servers.sort_by(|a, b| a.cost_usd.total_cmp(&b.cost_usd));
    if servers.is_empty() {
        let why: Vec<String> = out_of_reach.into_iter().map(|server| server.why).collect();
        return Err(Failure::bad(why.join("; ")));
    }
    if args.json {
        return printer.json(&SizeJson {
            schema_version: JSON_SCHEMA_VERSION,
            throughput_gb_per_s: goal.gb_per_s,
            capacity_tb: goal.capacity_tb,
            reduction: goal.reduction,
            servers: &servers,
            out_of_reach,
        });
    }
    for server in out_of_reach {
        printer.warning(&server.why);
    }
    printer.data(&text(goal, &servers, printer))
}

fn builder(preset: &str, settings: &[String]) -> Result<SpecBuilder> {
    let choice = ServerChoice { preset: Some(preset.into()), set: settings.to_vec(), seed: None };
    array_spec::builder(None, &choice)
}

fn text(goal: Goal, servers: &[Sized], printer: &Printer) -> String {
    let mut text = String::new();
    for server in servers {
        text.push_str(&printer.heading(&server.name));
        text.push('\n');
        for line in table(server).lines(2) {
            text.push_str(&line);
            text.push('\n');
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "{:.0} TB of flash without reduction cost ${}. Prices and watts are assumptions; cards\n\
         without hash units and drives for the table have none.",
        goal.capacity_tb,
        dollars(servers[0].without_usd)
    );
    text
}

fn table(server: &Sized) -> Table {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    for part in &server.parts {
        let mut less = part.one_less_gb_per_s.map_or_else(
            || "at least one".to_owned(),
            |less| format!("with one less {less:.1} GB/s"),
        );
        if part.key == "cpu.sockets" && part.count > PROCESSORS_MAX {
            less.push_str("; more than one server has");
        }
        table.row([part.name.to_owned(), part.count.to_string(), less]);
    }
    let by = server.stopped_by.map_or_else(String::new, |by| format!("then stopped by {by}"));
    table.row(["throughput".to_owned(), format!("{:.1} GB/s", server.gb_per_s), by]);
    let cost = &server.cost;
    let watts = format!("{:.0} W", server.watts);
    table.row(["power".to_owned(), watts, "of cores and engines".to_owned()]);
    let rows = [
        ("cost of cores", cost.cpu_usd, String::new()),
        ("of memory", cost.dram_usd, format!("{:.1} GB", server.dram_gb)),
        ("of boards", cost.boards_usd, String::new()),
        ("of flash", cost.flash_usd, format!("{:.1} TB", server.flash_tb)),
        ("in all", server.cost_usd, saved(server.saved_share)),
    ];
    for (name, usd, note) in rows {
        table.row([name.to_owned(), format!("${}", dollars(usd)), note]);
    }
    let or_never = |text: Option<String>| text.unwrap_or_else(|| "never".to_owned());
    let reduction = or_never(server.break_even_reduction.map(percent));
    table.row(["breaks even at".to_owned(), reduction, "reduction".to_owned()]);
    let capacity = or_never(server.break_even_capacity_tb.map(|tb| format!("{tb:.1} TB")));
    table.row(["or at".to_owned(), capacity, "with the goal's reduction".to_owned()]);
    table
}

fn saved(share: f64) -> String {
    if share >= 0.0 {
        format!("{} saved", percent(share))
    } else {
        format!("{} more than without", percent(-share))
    }
}

/// Whole dollars.
pub fn dollars(usd: f64) -> String {
    crate::table::count(usd.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_a_share_and_so_is_what_is_not() {
        assert_eq!(saved(0.25), "25.0 % saved");
        assert_eq!(saved(0.0), "0.0 % saved");
        assert_eq!(saved(-0.25), "25.0 % more than without");
        assert_eq!(dollars(1999.5), "2,000");
    }
}
