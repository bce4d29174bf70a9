//! `onefold scrambler make`: the dump that a scrambler would leave on the flash.
//! Room: onefold.

use onefold_block::ByteSize;
use onefold_code::infer::DumpMaker;
use onefold_code::{CodeError, PageAddress, ScramblerSpec, SeedMap, preset};

use super::scrambler_infer::{addresses_end, known_length, read_known};
use crate::args::models::{ScramblerChoice, ScramblerMakeArgs};
use crate::failure::{Failure, Result};
use crate::output::Printer;
use crate::progress::{self, Bar};
use crate::table::plural;
use crate::text_file;
use crate::transfer::target::Target;

/// Most bytes of a scrambler file, which may hold a table of seeds.
const SCRAMBLER_BYTES_MAX: u64 = 16 << 20;

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// Make the dump.
pub fn run(args: &ScramblerMakeArgs, printer: &Printer) -> Result<()> {
    let spec = chosen(&args.scrambler)?;
    let pages = args.pages;
    let total = args.count.checked_mul((pages.page_size + pages.oob) as u64);
    let total = total.filter(|&total| i64::try_from(total).is_ok()).ok_or_else(|| {
        Failure::nothing_done(format!("--pages {}: the dump would exceed 8 EiB", args.count))
    })?;
    check_addresses(args, &spec)?;
    let data = data(args)?;
    let seed = args.seed;
    let mut maker = DumpMaker::new(&spec, pages.first_address, pages.oob, args.rber, seed)
        .map_err(|e| Failure::nothing_done(e.to_string()))?;
    let target = Target::open(&args.output, total, args.force)?;
    let made = {
        let bar = progress::bytes(printer, "making", Some(total));
        write(args, &data, &mut maker, &target, &bar)
    };
    made.and_then(|()| target.finish())?;
    let made = plural(args.count, "page", "pages");
    printer.note(&format!("made {made} with {}, {}", spec.name, ByteSize(total)));
    Ok(())
}

fn chosen(choice: &ScramblerChoice) -> Result<ScramblerSpec> {
    match (&choice.preset, &choice.file) {
        (_, Some(path)) => {
            let text = text_file::read(path, "scrambler file", SCRAMBLER_BYTES_MAX)?;
            ScramblerSpec::from_toml(&text)
                .map_err(|e| Failure::nothing_done(format!("--file '{}': {e}", path.display())))
        }
        (name, None) => preset(name.as_deref().unwrap_or_default())
            .map_err(|e| Failure::nothing_done(format!("--preset: {e}"))),
    }
}

/// Every address must exist and have a seed; inferred rules do not cover all of them.
fn check_addresses(args: &ScramblerMakeArgs, spec: &ScramblerSpec) -> Result<()> {
    let first = args.pages.first_address;
    let end = first.checked_add(args.count).ok_or_else(|| addresses_end(first, args.count))?;
    if !matches!(spec.seed_map, SeedMap::Linear { mask, .. } if mask != u64::MAX) {
        return Ok(());
    }
    // This ends soon: either the range is covered, or an address is not that lies among the first.
    let uncovered = (first..end).find_map(|number| {
        let value = spec.seed_source.value(&PageAddress::of(number))?;
        spec.seed_map.seed(value).err()
    });
    match uncovered {
        None => Ok(()),
        Some(error @ CodeError::AddressNotCovered { .. }) => {
            Err(Failure::nothing_done(format!("--first-address, --pages: {error}"))
                .hint("an inferred rule ends with its dump; infer it from a longer one"))
        }
        Some(error) => Err(Failure::nothing_done(error.to_string())),
    }
}

/// What to write: one page or all of them.
fn data(args: &ScramblerMakeArgs) -> Result<Vec<u8>> {
    let page = args.pages.page_size;
    match args.known.to_str() {
        Some("zeros") => return Ok(vec![0; page]),
        Some("unknown") => {
            return Err(Failure::nothing_done(
                "--known unknown: a dump is made of data; accepted are zeros and a file",
            ));
        }
        _ => {}
    }
    let data = read_known(&args.known, "zeros or the file to write")?;
    let all = args.count.saturating_mul(page as u64);
    if data.len() != page && data.len() as u64 != all {
        return Err(Failure::nothing_done(known_length(&args.known, data.len(), page, all)));
    }
    Ok(data)
}

fn write(
    args: &ScramblerMakeArgs,
    data: &[u8],
    maker: &mut DumpMaker,
    target: &Target,
    bar: &Bar,
) -> Result<()> {
    let page = args.pages.page_size;
    let mut buffer = Vec::with_capacity(BUFFER_BYTES + page + args.pages.oob);
    let mut at = 0;
    for (written, left) in data.chunks_exact(page).cycle().zip((0..args.count).rev()) {
        let stored = maker.page(written).map_err(|e| Failure::bad(e.to_string()))?;
        buffer.extend_from_slice(stored);
        if buffer.len() >= BUFFER_BYTES || left == 0 {
            target.write(at, &buffer)?;
            at += buffer.len() as u64;
            bar.set_position(at);
            buffer.clear();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::commands::heard::Folder;

    #[test]
    fn a_dump_is_made_of_one_page_or_of_all_and_seen_through_again() {
        let here = Folder::new();
        let make = "scrambler make --preset lba-prbs31 --page-size 512 --pages 600";
        let said = here.ok(&format!("{make} -o ./zeros"));
        assert_eq!(said.err, "made 600 pages with lba-prbs31, 300 KiB\n");
        let zeros = std::fs::read(here.path("zeros")).unwrap();
        assert_eq!(zeros.len(), 600 * 512);
        here.file("page", &[1; 512]);
        here.file("all", &vec![1; 600 * 512]);
        here.ok(&format!("{make} -o ./one --known ./page"));
        here.ok(&format!("{make} -o ./many --known ./all"));
        let one = std::fs::read(here.path("one")).unwrap();
        assert!(one == std::fs::read(here.path("many")).unwrap() && one != zeros);
        assert!(one.iter().zip(&zeros).all(|(a, b)| a ^ b == 1), "the same key stream");
        here.file("odd", &[1; 513]);
        for (more, why) in [
            ("--known ./odd", "--known './odd' has 513 bytes; accepted are 512 (one page"),
            ("--known unknown", "a dump is made of data; accepted are zeros and a file"),
            ("--known ./none", "--known takes zeros or the file to write"),
            ("--first-address 18446744073709551615", "would pass the last one, 2^64 - 1"),
        ] {
            let said = here.refused(&format!("{make} -o ./new {more}"), 2);
            assert!(said.contains(why), "{more}: {said}");
        }
        assert!(!here.path("new").exists());
        let found = here.ok("scrambler infer ./zeros --page-size 512 -o ./found.toml");
        let rows: Vec<String> = found
            .out
            .lines()
            .map(|row| row.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        for row in [
            "register length 31 bits",
            "polynomial x^31 + x^28 + 1 (0x90000001)",
            "pages in the dump 600",
            "pages explained 600",
        ] {
            assert!(rows.iter().any(|one| one == row), "{row}: {rows:?}");
        }
        for row in [
            "bit order ",
            "byte order ",
            "restarts ",
            "seed ",
            "raw bit error rate 0",
            "confidence unrelated",
            "pages needed ",
            "pages verified ",
        ] {
            assert!(rows.iter().any(|one| one.starts_with(row)), "{row}: {rows:?}");
        }
        assert!(found.out.starts_with("register length "), "{}", found.out);
        let written = "written to ./found.toml, for: onefold scrambler make --file ./found.toml\n";
        assert_eq!(found.err, written);
        here.ok("scrambler make --file ./found.toml --page-size 512 --pages 600 -o ./again");
        assert!(std::fs::read(here.path("again")).unwrap() == zeros);
        let json = here.ok("scrambler infer ./zeros --page-size 512 --json").json();
        assert_eq!((&json["found"], &json["pages"]["in_dump"]), (&true.into(), &600.into()));
        let short = here.refused("scrambler infer ./odd --page-size 512", 2);
        assert!(short.contains("dump './odd' has 513 bytes; accepted is a positive multiple"));
        let out = here.refused("scrambler infer ./zeros --page-size 512 -o -", 2);
        assert!(out.contains("the report goes to stdout, the scrambler cannot"), "{out}");
    }
}
