//! `onefold scrambler infer`: the scrambler behind a dump of raw pages.
//! Room: onefold.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::Path;

use onefold_code::infer::{InferError, InferOptions, Inference, Known, SeedRuleKind, infer};
use onefold_code::{BitOrder, GeneratorSpec, LfsrSpec, ScramblerSpec, SeedMap, SeedSource};
use serde::Serialize;

use crate::args::models::ScramblerInferArgs;
use crate::failure::{Failure, Result};
use crate::interrupt::Piped;
use crate::out_file::OutFile;
use crate::output::{JSON_SCHEMA_VERSION, Printer};
use crate::table::{Align, Table, count, plural};

#[derive(Serialize)]
struct FoundJson<'a> {
    schema_version: u32,
    dump: String,
    found: bool,
    register: Option<RegisterJson>,
    ring_bytes: Option<u32>,
    restart_bytes: u32,
    seed_rule: SeedRuleKind,
    pages: PagesJson,
    bits_checked: u64,
    bit_errors: u64,
    raw_bit_error_rate: f64,
    chance_log2: f64,
    scrambler: &'a ScramblerSpec,
}

#[derive(Serialize)]
struct RegisterJson {
    length: u32,
    polynomial: String,
    polynomial_hex: String,
    bit_order: BitOrder,
    word_bytes: u8,
    inverted: bool,
}

#[derive(Serialize)]
struct PagesJson {
    in_dump: usize,
    explained: usize,
    needed: usize,
    verified: usize,
}

#[derive(Serialize)]
struct NotFoundJson {
    schema_version: u32,
    dump: String,
    found: bool,
    reason: String,
    polynomial: Option<String>,
}

/// Recover the scrambler, and say how sure that is.
pub fn run(args: &ScramblerInferArgs, printer: &Printer) -> Result<()> {
    if args.output.as_deref() == Some(Path::new("-")) {
        return Err(Failure::nothing_done("the report goes to stdout, the scrambler cannot")
            .hint("name a file after -o, or take `scrambler` out of what --json prints"));
    }
    let dump = read(&args.dump)?;
    let written;
    let known = match args.known.to_str() {
        Some("zeros") => Known::Zeros,
        Some("unknown") => Known::Unknown,
        _ => {
            written = read_known(&args.known, "zeros, unknown or the file that was written")?;
            Known::Bytes(&written)
        }
    };
    let options = InferOptions {
        page_size: args.pages.page_size,
        oob: args.pages.oob,
        known,
        first_address: args.pages.first_address,
        seed_source: SeedSource::Lba,
    };
    check_last_address(args, dump.len())?;
    let output =
        args.output.as_deref().map(|path| OutFile::create(path, args.force)).transpose()?;
    let found = match infer(&dump, options) {
        Ok(found) => found,
        Err(error) => return Err(refused(args, &error, printer)?),
    };
    if let (Some(mut file), Some(path)) = (output, &args.output) {
        file.write_all(found.spec.to_toml().as_bytes())
            .map_err(|error| Failure::broke("write", path, error))?;
        file.finish()?;
    }
    if args.json {
        printer.json(&json(args, &found))?;
    } else {
        printer.data(&(table(&found).lines(0).join("\n") + "\n"))?;
    }
    if let Some(path) = &args.output {
        let at = path.display();
        printer.note(&format!("written to {at}, for: onefold scrambler make --file {at}"));
    }
    Ok(())
}

/// The bytes of a file, a block device, or stdin for `-`.
fn read(path: &Path) -> Result<Vec<u8>> {
    if path != Path::new("-") {
        return std::fs::read(path).map_err(|e| Failure::unusable("read", path, e));
    }
    if std::io::stdin().is_terminal() {
        return Err(Failure::nothing_done("stdin is a terminal, not a dump")
            .hint("pipe the dump in, or name a file"));
    }
    let mut bytes = Vec::new();
    let all = Piped(std::io::stdin()).read_to_end(&mut bytes);
    all.map(|_| bytes).map_err(|e| Failure::unusable("read", Path::new("stdin"), e))
}

/// The bytes of `--known FILE`; `accepted` is what might have been meant.
pub(super) fn read_known(path: &Path, accepted: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        Failure::unusable("read", path, error).hint(format!("--known takes {accepted}"))
    })
}

fn check_last_address(args: &ScramblerInferArgs, dump_bytes: usize) -> Result<()> {
    let pages = (dump_bytes / (args.pages.page_size + args.pages.oob)) as u64;
    match args.pages.first_address.checked_add(pages) {
        Some(_) => Ok(()),
        None => Err(addresses_end(args.pages.first_address, pages)),
    }
}

/// That addresses would go past the last one.
pub(super) fn addresses_end(first_address: u64, pages: u64) -> Failure {
    Failure::nothing_done(format!(
        "--first-address {first_address:#x}: {} from there on would pass the last one, 2^64 - 1",
        plural(pages, "page", "pages")
    ))
}

/// Why there is no scrambler to report; programs are told on stdout as well.
fn refused(args: &ScramblerInferArgs, error: &InferError, printer: &Printer) -> Result<Failure> {
    let dump = args.dump.display();
    if error.is_bad_input() {
        return Ok(Failure::nothing_done(match error {
            InferError::DumpLength { got, page } => format!(
                "dump '{dump}' has {}; accepted is a positive multiple of --page-size and --oob \
                 together, {page} bytes",
                plural(*got as u64, "byte", "bytes")
            ),
            InferError::KnownLength { got, page, all } => {
                known_length(&args.known, *got, *page, *all as u64)
            }
            InferError::TooFewPages { pages, needed } => format!(
                "dump '{dump}' has {} to learn from; accepted are at least {needed}",
                plural(*pages as u64, "usable page", "usable pages")
            ),
            other => format!("dump '{dump}': {other}"),
        }));
    }
    if args.json {
        let polynomial = match error {
            InferError::Contradictory { polynomial, .. }
            | InferError::NoSeedRule { polynomial, .. }
            | InferError::OnlyDifferences { polynomial, .. } => Some(polynomial.to_string()),
            _ => None,
        };
        printer.json(&NotFoundJson {
            schema_version: JSON_SCHEMA_VERSION,
            dump: dump.to_string(),
            found: false,
            reason: error.to_string(),
            polynomial,
        })?;
    }
    let failure = Failure::bad(format!("dump '{dump}': {error}"));
    Ok(match error {
        InferError::NotLinear { .. } | InferError::Contradictory { .. } => {
            failure.hint("a wrong --page-size, --oob or --known looks like this, too")
        }
        _ => failure,
    })
}

/// That known data fit neither one page nor all pages.
pub(super) fn known_length(path: &Path, got: usize, page: usize, all: u64) -> String {
    format!(
        "--known '{}' has {}; accepted are {page} (one page, the same at every address) or {all} \
         (all pages)",
        path.display(),
        plural(got as u64, "byte", "bytes")
    )
}

fn register(spec: &ScramblerSpec) -> Option<LfsrSpec> {
    match spec.generator {
        GeneratorSpec::Lfsr(register) | GeneratorSpec::Ring { register, .. } => Some(register),
        GeneratorSpec::AddRotate { .. } => None,
    }
}

fn ring_bytes(spec: &ScramblerSpec) -> Option<u32> {
    match spec.generator {
        GeneratorSpec::Ring { ring_bytes, .. } => Some(ring_bytes),
        GeneratorSpec::Lfsr(_) | GeneratorSpec::AddRotate { .. } => None,
    }
}

fn json<'a>(args: &ScramblerInferArgs, found: &'a Inference) -> FoundJson<'a> {
    FoundJson {
        schema_version: JSON_SCHEMA_VERSION,
        dump: args.dump.display().to_string(),
        found: true,
        register: register(&found.spec).map(|register| RegisterJson {
            length: register.polynomial.degree(),
            polynomial: register.polynomial.to_string(),
            polynomial_hex: format!("{:#x}", register.polynomial.bits()),
            bit_order: register.bit_order,
            word_bytes: register.word_bytes,
            inverted: register.inverted,
        }),
        ring_bytes: ring_bytes(&found.spec),
        restart_bytes: found.spec.restart_bytes,
        seed_rule: found.rule,
        pages: PagesJson {
            in_dump: found.pages_in_dump,
            explained: found.pages_explained,
            needed: found.pages_needed,
            verified: found.pages_verified,
        },
        bits_checked: found.bits_checked,
        bit_errors: found.bit_errors,
        raw_bit_error_rate: found.raw_bit_error_rate(),
        chance_log2: found.chance_log2,
        scrambler: &found.spec,
    }
}

fn table(found: &Inference) -> Table {
    let mut table = Table::new(&[Align::Left, Align::Left]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    if let Some(register) = register(&found.spec) {
        let polynomial = register.polynomial;
        let first = match register.bit_order {
            BitOrder::Lsb => "least",
            BitOrder::Msb => "most",
        };
        row("register length", plural(polynomial.degree().into(), "bit", "bits"));
        row("polynomial", format!("{polynomial} ({:#x})", polynomial.bits()));
        row("bit order", format!("{first} significant bit of a byte first"));
        row(
            "byte order",
            match register.word_bytes {
                1 => "as stored".to_owned(),
                bytes => format!("reversed in words of {bytes} bytes"),
            },
        );
        if register.inverted {
            row("key stream", "complemented".to_owned());
        }
    }
    if let Some(bytes) = ring_bytes(&found.spec) {
        row("ring", format!("{} bytes; the seed is the first one used", count(bytes.into())));
    }
    row(
        "restarts",
        match found.spec.restart_bytes {
            0 => "never within a page".to_owned(),
            bytes => format!("every {} bytes", count(bytes.into())),
        },
    );
    row("seed", seed_rule(found));
    let pages = |number: usize| count(number as u64);
    row("pages in the dump", pages(found.pages_in_dump));
    row("pages explained", pages(found.pages_explained));
    row("pages needed", format!("{} to derive the seeds", pages(found.pages_needed)));
    row("pages verified", format!("{} others, predicted correctly", pages(found.pages_verified)));
    row(
        "raw bit error rate",
        format!(
            "{:.2e} ({} of {} bits)",
            found.raw_bit_error_rate(),
            count(found.bit_errors),
            count(found.bits_checked)
        ),
    );
    let odds = found.chance_log2;
    row("confidence", format!("unrelated seeds would pass with odds of 2^{odds:.0}"));
    table
}

fn seed_rule(found: &Inference) -> String {
    match (found.rule, &found.spec.seed_map) {
        (SeedRuleKind::Constant, _) => "the same for all pages".to_owned(),
        (SeedRuleKind::Table { period }, _) => {
            format!("a table that repeats after {}", plural(period, "page", "pages"))
        }
        (SeedRuleKind::Linear { address_bits }, SeedMap::Linear { mask, base, .. }) => {
            let bits = plural(address_bits.into(), "address bit", "address bits");
            format!("linear in {bits} (mask {mask:#x}, the others as in {base:#x})")
        }
        (SeedRuleKind::Linear { address_bits }, SeedMap::Table { .. }) => {
            format!("linear in {}", plural(address_bits.into(), "address bit", "address bits"))
        }
    }
}
