//! `onefold scrambler list` and `show`: the scramblers of known controllers.
//! Room: onefold.

use onefold_code::{GeneratorSpec, PRESET_NAMES, ScramblerSpec, SeedMap, preset};
use serde::Serialize;

use crate::args::models::{ScramblerListArgs, ScramblerShowArgs};
use crate::failure::{Failure, Result};
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::table::{Align, Table, count, plural};

#[derive(Serialize)]
struct ListJson {
    schema_version: u32,
    scramblers: Vec<ScramblerSpec>,
}

/// Print the list.
pub fn list(args: ScramblerListArgs, printer: &Printer) -> Result<()> {
    let scramblers = PRESET_NAMES.iter().map(|name| named(name)).collect::<Result<Vec<_>>>()?;
    if args.json {
        return printer.json(&ListJson { schema_version: JSON_SCHEMA_VERSION, scramblers });
    }
    let mut table = Table::new(&[Align::Left; 5]);
    table.row(["PRESET", "GENERATOR", "RESTARTS", "SEEDS", "SEED SOURCE"]);
    for spec in &scramblers {
        table.row([
            spec.name.clone(),
            generator(&spec.generator),
            match spec.restart_bytes {
                0 => "never".to_owned(),
                bytes => format!("every {} B", count(bytes.into())),
            },
            match &spec.seed_map {
                SeedMap::Linear { .. } => "linear".to_owned(),
                SeedMap::Table { seeds } => format!("table of {}", count(seeds.len() as u64)),
            },
            spec.seed_source.name().to_owned(),
        ]);
    }
    let mut lines = table.lines(0);
    if let Some(head) = lines.first_mut() {
        *head = printer.heading(head);
    }
    printer.data(&(lines.join("\n") + "\n"))
}

/// Print a scrambler file.
pub fn show(args: &ScramblerShowArgs, printer: &Printer) -> Result<()> {
    printer.data(&named(&args.preset)?.to_toml())
}

fn named(name: &str) -> Result<ScramblerSpec> {
    preset(name).map_err(|error| Failure::nothing_done(error.to_string()))
}

fn generator(generator: &GeneratorSpec) -> String {
    match generator {
        GeneratorSpec::Lfsr(register) => register.polynomial.to_string(),
        GeneratorSpec::Ring { register, ring_bytes, .. } => {
            let bytes = plural(u64::from(*ring_bytes), "byte", "bytes");
            format!("{}, a ring of {bytes}", register.polynomial)
        }
        GeneratorSpec::AddRotate { increment, rotate } => {
            format!("add {increment:#x}, rotate by {rotate}")
        }
    }
}
