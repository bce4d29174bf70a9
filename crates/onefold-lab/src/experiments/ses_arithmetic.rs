//! SES-Dedup: what follows from the parameters that the paper prints, without any simulation.
//! Room: onefold-lab.
//! Source: [ses-dedup] sec. II, IV and V with Tables I and II; the write path is taken to be
//! serial, one page at a time, wherever a time is computed.

use crate::error::Result;
use crate::published::Published;
use crate::row::{Kind, Row};
use crate::settings::Settings;

/// Kinds of flash in Table I.
const FLASH: [&str; 3] = ["SLC", "MLC-1", "MLC-2"];
const MIB: f64 = 1_048_576.0;

/// Computes everything.
pub fn run(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let published = &settings.published;
    let mut rows = parameters(published);
    rows.extend(geometry(settings)?);
    rows.extend(table(settings)?);
    rows.extend(times(settings)?);
    rows.extend(break_even(settings)?);
    rows.extend(collisions(settings)?);
    Ok(rows)
}

/// The numbers that are inputs here: stated, not measured.
fn parameters(published: &Published) -> Vec<Row> {
    let computed = ["ssd_capacity", "pages", "fingerprint_table"];
    let inputs = published.numbers.iter().filter(|number| {
        !computed.contains(&number.row.as_str())
            && !["parity_per_8KB_page", "page_fingerprint", "observed_hash_false_positives"]
                .contains(&number.column.as_str())
    });
    let row = |number| published.beside(number, None).kind(Kind::Given).note("input");
    inputs.map(row).collect()
}

/// Pages of the drive.
fn pages(published: &Published) -> Result<f64> {
    let number = |row| published.value(row, "value");
    Ok(number("pages_per_block")?
        * number("blocks_per_plane")?
        * number("planes_per_package")?
        * number("packages")?)
}

fn geometry(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let published = &settings.published;
    let pages = pages(published)?;
    let page_bytes = published.value("flash_page_size", "value")? * 1024.0;
    let codewords = page_bytes / (published.value("ldpc", "info_per_codeword")? * 1024.0);
    let rate = published.value("ldpc", "rate_num")? / published.value("ldpc", "rate_den")?;
    let parity = page_bytes * (1.0 / rate - 1.0);
    let kept = published.value("fingerprint", "truncated_ecc_per_codeword")?;
    Ok(vec![
        published.row("ssd_capacity", "value", pages * page_bytes / MIB / 1024.0)?,
        published.row("pages", "value", pages / MIB)?,
        published.row("ldpc", "parity_per_8KB_page", parity)?,
        published.row("fingerprint", "page_fingerprint", codewords * kept)?,
    ])
}

fn table(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let published = &settings.published;
    let pages = pages(published)?;
    let whole = published.value("fingerprint", "page_fingerprint")?;
    let chosen = settings.real("table_ratio_percent")? / 100.0;
    let dram = published.value("ssd_dram", "value")?;
    let size = |share: f64, bytes: f64| pages * share * bytes / MIB;
    let entry = whole / 4.0;
    let sizes = [size(1.0, whole), size(chosen, whole), size(chosen, entry)];
    let printed = published.numbers.iter().filter(|number| {
        (number.row.as_str(), number.column.as_str()) == ("fingerprint_table", "size")
    });
    let mut rows: Vec<Row> = printed
        .zip(sizes)
        .map(|(number, size)| published.beside(number, Some(size)).note(number.config.clone()))
        .collect();
    rows.push(published.row("fingerprint_table", "share_of_dram", 100.0 * sizes[2] / dram)?);
    let tenth = published.row("fingerprint_table", "entries_at_10pct", 0.1 * pages / 1e6)?;
    rows.push(tenth.note("0.419 M; the paper rounds to 0.4 M"));
    let stated = settings.number("location_bytes")? + settings.number("count_bytes")?;
    let real = size(chosen, entry + stated as f64);
    let row =
        Row::new(settings.id, "fingerprint_table", "size with location and count", real, "MiB");
    rows.push(row.note("the paper counts fingerprints only"));
    Ok(rows)
}

/// Read and program time of a kind of flash, in us.
fn read_write(published: &Published, flash: &str) -> Result<(f64, f64)> {
    Ok((published.value(flash, "read")?, published.value(flash, "write")?))
}

fn times(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let published = &settings.published;
    let sha = published.value("all", "sha256_8KB")?;
    let ecc = published.value("device-side", "ecc_recompute")?;
    let inline = settings.numbers("inline_permille")?;
    let mut rows = Vec::new();
    for (flash, inline) in FLASH.into_iter().zip(inline) {
        let (read, write) = read_write(published, flash)?;
        let share = inline as f64 / 1000.0;
        let mut add = |column: &str, value: f64, note: &str| {
            rows.push(Row::new(settings.id, flash, column, value, "%").note(note));
        };
        let overhead = 100.0 * sha / (sha + write);
        let note = match flash {
            "MLC-2" => "Fig. 2 text prints 17.3 %",
            _ => "above the 17.3 % that Fig. 2's text calls the most",
        };
        add("share of a write that SHA-256 takes", overhead, note);
        let dup = (1.0 - share) * write + share * read;
        let note = match flash {
            "SLC" => "latency; the abstract prints 17.0 % without saying of what",
            _ => "latency",
        };
        add("writes faster, free fingerprints", 100.0 * (1.0 - dup / write), note);
        add("more writes a second, free fingerprints", 100.0 * (write / dup - 1.0), "throughput");
        let ratio = (write + sha) / (write + ecc);
        let note = match flash {
            "MLC-2" => "Fig. 5's text prints 19.9 % as the least gain of the inline share",
            _ => "Fig. 5's text prints 42.8 % as the most; nothing serial gives that",
        };
        add("more writes a second than with SHA-256", 100.0 * (ratio - 1.0), note);
    }
    let (read, write) = read_write(published, "MLC-2")?;
    let found = settings.real("duplicate_percent")? * settings.real("hot_share_percent")? / 1e4;
    let time = sha + (1.0 - found) * write + found * read;
    let row = Row::new(
        settings.id,
        "MLC-2",
        "more writes a second with SHA-256, 30.7 % duplicates",
        100.0 * (write / time - 1.0),
        "%",
    );
    rows.push(row.note("sec. II prints at most 5.8 %; duplicates of hot contents only"));
    Ok(rows)
}

/// The duplicate ratio from which a policy saves time: its cost over what a duplicate saves. A
/// strong hash is trusted; parity has a candidate read and compared.
fn break_even(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let published = &settings.published;
    let mut rows = Vec::new();
    for flash in FLASH {
        let (read, write) = read_write(published, flash)?;
        for (policy, cost, saved) in [
            ("SHA-256", published.value("all", "sha256_8KB")?, write),
            ("device ECC", published.value("device-side", "ecc_recompute")?, write - read),
            ("host ECC", published.value("host-side", "device_hash_cost")?, write - read),
        ] {
            let (column, ratio) =
                (format!("break-even duplicates, {policy}"), 100.0 * cost / saved);
            rows.push(Row::new(settings.id, flash, &column, ratio, "% of writes"));
        }
    }
    Ok(rows)
}

/// Expected colliding pairs of random fingerprints, as a power of two: n (n - 1) / 2 / 2^bits.
fn collisions(settings: &Settings<'_>) -> Result<Vec<Row>> {
    let published = &settings.published;
    // The number of pages is a power of two, so that no logarithm is taken.
    let log_pages = f64::from((pages(published)? as u64).ilog2());
    let mut rows = Vec::new();
    for (column, bits) in [("whole fingerprint", 256.0), ("8 bytes", 64.0)] {
        let row =
            Row::new(settings.id, "colliding pairs", column, 2.0 * log_pages - 1.0 - bits, "log2");
        rows.push(row.note("if parity were random; beyond/collisions measures what it is"));
    }
    let why = "the paper's data are not public; the expected number is above";
    rows.push(published.not_reproducible("fingerprint", "observed_hash_false_positives", why)?);
    Ok(rows)
}
