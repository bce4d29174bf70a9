//! `onefold cache`: simulations of an SSD read cache.
//! Room: onefold.

use std::path::Path;

use onefold_block::ByteSize;
use onefold_cache::simulate::{CurvePoint, sampled_curves};
use onefold_cache::trace::Trace;
use onefold_cache::{Outcomes, POLICIES, Spec, simulate};
use serde::Serialize;

use super::cache_amplification::{self, Amplification};
use super::cache_trace::{read_trace, unusable};
use crate::args::models::{CachePoliciesArgs, CacheRunArgs};
use crate::failure::{Failure, Result};
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::table::{Align, Table, count};
use crate::text_file;

#[derive(Serialize)]
struct RunJson<'a> {
    schema_version: u32,
    #[serde(flatten)]
    outcomes: &'a Outcomes,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_amplification: Option<&'a [Amplification]>,
}

#[derive(Serialize)]
struct CurvesJson<'a> {
    schema_version: u32,
    sample_one_in: u64,
    reads_per_container: f64,
    curves: &'a [CurvePoint],
}

/// Simulate.
pub fn run(args: &CacheRunArgs, printer: &Printer) -> Result<()> {
    let mut spec = match &args.spec {
        Some(path) if path != Path::new("-") => {
            let text = text_file::read(path, "specification", text_file::SETTINGS_BYTES_MAX)?;
            Spec::from_toml(&text).map_err(|error| {
                Failure::nothing_done(format!("{}: {error}", path.display()))
                    .hint("`onefold cache spec` prints every key with its default")
            })?
        }
        _ => Spec::new(),
    };
    for assignment in &args.set {
        spec.set(assignment)
            .map_err(|error| Failure::nothing_done(format!("--set {assignment}: {error}")))?;
    }
    let plan = spec.plan().map_err(unusable)?;
    let trace = match &args.trace {
        Some(path) => read_trace(path, args.format, &spec, printer)?,
        None => spec.workload.trace().map_err(unusable)?,
    };
    if trace.requests.is_empty() {
        return Err(Failure::nothing_done("nothing is read: the trace has no reads")
            .hint("--set trace.writes=1 counts writes as well"));
    }
    let one_in = spec.run.sample_one_in;
    if one_in > 1 {
        let curves = sampled_curves(&trace, &plan, one_in).map_err(unusable)?;
        return show_curves(&curves, &trace, one_in, args.json, printer);
    }
    let outcomes = simulate(&trace, &plan).map_err(unusable)?;
    let amplified = match &args.write_amplification {
        Some(units) => Some(cache_amplification::run(units, args, &spec, &trace, printer)?),
        None => None,
    };
    if args.json {
        let (schema_version, outcomes) = (JSON_SCHEMA_VERSION, &outcomes);
        let write_amplification = amplified.as_deref();
        return printer.json(&RunJson { schema_version, outcomes, write_amplification });
    }
    printer.data(&text(&outcomes, printer))?;
    amplified.map_or(Ok(()), |runs| printer.data(&cache_amplification::text(&runs, printer)))
}

fn text(outcomes: &Outcomes, printer: &Printer) -> String {
    let mut table = Table::new(&[
        Align::Left,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
        Align::Right,
    ]);
    table.row([
        "POLICY",
        "SIZE",
        "HITS",
        "FILES",
        "BYTES",
        "WRITTEN",
        "FILLS",
        "A/B/C/D %",
        "MS/FILE",
        "DAYS",
    ]);
    for run in &outcomes.runs {
        let percent = |share: f64| format!("{:.2}%", share * 100.0);
        let quadrants = run.quadrants.shares().map(|share| format!("{:.0}", share * 100.0));
        let days = run.latency.lifetime_days;
        table.row([
            run.policy.clone(),
            format!("{:.1}%", run.size * 100.0),
            percent(run.hit_rate),
            percent(run.file_hit_rate),
            percent(run.byte_hit_rate),
            ByteSize(run.written_bytes).to_string(),
            format!("{:.2}", run.fills),
            quadrants.join("/"),
            format!("{:.2}", run.latency.file_ms),
            if days.is_finite() { format!("{days:.1}") } else { "-".to_owned() },
        ]);
    }
    let mut lines = table.lines(0);
    if let Some(head) = lines.first_mut() {
        *head = printer.heading(head);
    }
    let first = outcomes.runs.first();
    let hdd_only = first.map_or(0.0, |run| run.latency.hdd_only_ms);
    lines.push(String::new());
    lines.push(format!(
        "{} reads of {} containers: {:.2} per container; {} read of {}; {hdd_only:.2} ms a file \
         without the SSD",
        count(outcomes.requests),
        count(outcomes.containers),
        outcomes.reads_per_container,
        ByteSize(outcomes.read_bytes),
        ByteSize(outcomes.data_bytes),
    ));
    lines.push(format!("result {}", outcomes.result_hash));
    lines.join("\n") + "\n"
}

fn show_curves(
    curves: &[CurvePoint],
    trace: &Trace,
    sample_one_in: u64,
    json: bool,
    printer: &Printer,
) -> Result<()> {
    let reads_per_container = trace.reads_per_container();
    if json {
        let schema_version = JSON_SCHEMA_VERSION;
        let json = CurvesJson { schema_version, sample_one_in, reads_per_container, curves };
        return printer.json(&json);
    }
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
    table.row(["POLICY", "SIZE", "MISSES", "FILLS"]);
    for point in curves {
        table.row([
            point.policy.clone(),
            format!("{:.1}%", point.size * 100.0),
            format!("{:.2}%", point.miss_ratio * 100.0),
            format!("{:.2}", point.fills),
        ]);
    }
    let mut lines = table.lines(0);
    if let Some(head) = lines.first_mut() {
        *head = printer.heading(head);
    }
    lines.push(format!(
        "\nestimated from one of {sample_one_in} containers; {reads_per_container:.2} reads per \
         container"
    ));
    printer.data(&(lines.join("\n") + "\n"))
}

#[derive(Serialize)]
struct PoliciesJson {
    schema_version: u32,
    policies: Vec<PolicyJson>,
}

#[derive(Serialize)]
struct PolicyJson {
    name: &'static str,
    doc: &'static str,
    offline: bool,
    settings: Vec<SettingJson>,
}

#[derive(Serialize)]
struct SettingJson {
    name: &'static str,
    doc: &'static str,
    default: String,
    accepted: String,
}

/// Print the list of policies.
pub fn policies(args: CachePoliciesArgs, printer: &Printer) -> Result<()> {
    if args.json {
        let policies = POLICIES.iter().map(|entry| PolicyJson {
            name: entry.name,
            doc: entry.doc,
            offline: entry.offline,
            settings: (entry.infos)()
                .into_iter()
                .map(|info| SettingJson {
                    name: info.name,
                    doc: info.doc,
                    default: info.default,
                    accepted: info.accepted,
                })
                .collect(),
        });
        let policies = policies.collect();
        return printer.json(&PoliciesJson { schema_version: JSON_SCHEMA_VERSION, policies });
    }
    let mut lines = Vec::new();
    for entry in POLICIES {
        let bound = if entry.offline { " (a bound: knows all requests beforehand)" } else { "" };
        lines.push(format!("{}  {}{bound}", printer.heading(entry.name), entry.doc));
        let mut table = Table::new(&[Align::Left; 3]);
        for info in (entry.infos)() {
            let meaning = format!("{}; {}", info.doc, info.accepted);
            table.row([format!("{}={}", info.name, info.default), meaning]);
        }
        lines.extend(table.lines(4));
    }
    lines.push("\nSettings follow a colon: plc:threshold=8,delay=3".to_owned());
    printer.data(&(lines.join("\n") + "\n"))
}

/// Print the specification with all defaults.
pub fn spec(printer: &Printer) -> Result<()> {
    printer.data(&Spec::commented())
}

#[cfg(test)]
mod tests {
    use crate::commands::heard::Folder;

    #[test]
    fn a_simulation_is_a_table_for_people_and_an_object_for_programs() {
        let here = Folder::new();
        let small = "cache run --set workload.data_mib=64 --set workload.read_gib=1 --set \
                     workload.container_kib=512 --set sizes=0.1 --set policies=lru";
        let table = "\
            POLICY   SIZE    HITS   FILES   BYTES  WRITTEN   FILLS  A/B/C/D %  MS/FILE  DAYS\n\
            lru     10.0%  13.86%  14.77%  12.89%  882 MiB  147.08   1/96/0/4   113.44  19.6\n\n\
            2,049 reads of 128 containers: 16.01 per container; 1.00 GiB read of 64 MiB; 130.14 ms \
            a file without the SSD\nresult f1c77a9e859ec113\n";
        assert_eq!(here.ok(small).out, table);
        let amplified = "\nPOLICY   SIZE     UNIT   FILLS  SSD WRITE AMPLIFICATION\n\
            lru     10.0%  512 KiB  147.08                    1.005\n\
            lru     10.0%  256 KiB  139.44                    1.000\n";
        let said = here.ok(&format!("{small} --write-amplification 512,256"));
        assert_eq!(said.out, [table, amplified].concat());
        let curves = "POLICY   SIZE  MISSES   FILLS\n\
            lru     10.0%  85.11%  145.33\n\n\
            estimated from one of 2 containers; 16.01 reads per container\n";
        assert_eq!(here.ok(&format!("{small} --set run.sample_one_in=2")).out, curves);
        let json = here.ok(&format!("{small} --json --write-amplification 512")).json();
        assert_eq!(json["result_hash"], "f1c77a9e859ec113");
        assert_eq!(json["write_amplification"][0]["unit_kib"], 512);
        let json = here.ok(&format!("{small} --set run.sample_one_in=2 --json")).json();
        assert_eq!(json["sample_one_in"], 2);

        let spec = here.ok("cache spec").out;
        here.file("spec.toml", spec.as_bytes());
        let laid_over = small.replace("cache run", "cache run ./spec.toml");
        assert_eq!(here.ok(&laid_over).out, table, "the defaults");
        let zero = here.refused(&format!("{small} --write-amplification 0"), 2);
        assert_eq!(zero, "error: --write-amplification 0: expected 1 KiB or more\n");
        assert!(here.refused("cache run --set x=1", 2).contains("unknown key `x`"));
        here.file("t", b"time_ns,op,offset,length,identity,stream,pid\n0,write,0,4096,,,\n");
        let nothing = here.refused("cache run --trace ./t", 2);
        let why = "error: nothing is read: the trace has no reads\n\
                   hint: --set trace.writes=1 counts writes as well\n";
        assert_eq!(nothing, why);
        let list = here.ok("cache policies").out;
        let clock = "\nclock  FIFO with another round for what was used\n\
                     \x20   rounds=1  rounds that an object can earn; 1 to 255\n";
        assert!(list.starts_with("fifo  first in, first out\nlru  ") && list.contains(clock));
        assert!(list.ends_with("\n\nSettings follow a colon: plc:threshold=8,delay=3\n"));
        let bounds = list.matches(" (a bound: knows all requests beforehand)\n").count();
        let json = here.ok("cache policies --json").json();
        let policies = json["policies"].as_array().unwrap();
        let offline = policies.iter().filter(|policy| policy["offline"] == true).count();
        assert!(bounds > 0 && bounds == offline && offline < policies.len());
    }
}
