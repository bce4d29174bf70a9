//! SES-Dedup: what follows from the parameters that the paper prints, without any simulation.
//! Room: onefold-lab.
//! Source: [ses-dedup] sec. II, IV and V with Tables I and II; the write path is taken to be
//! serial, one page at a time, wherever a time is computed.

use crate::error::Result;
use crate::published::Published;
use crate::series::{Data, Line};
use crate::settings::Settings;

/// Kinds of flash in Table I.
const FLASH: [&str; 3] = ["SLC", "MLC-1", "MLC-2"];
const MIB: f64 = 1_048_576.0;

/// Computes everything.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    geometry(settings, data)?;
    table(settings, data)?;
    times(settings, data)?;
    break_even(settings, data)?;
    collisions(settings, data)
}

/// Pages of the drive.
fn pages(published: &Published) -> Result<f64> {
    let number = |row| published.value(row, "value");
    Ok(number("pages_per_block")?
        * number("blocks_per_plane")?
        * number("planes_per_package")?
        * number("packages")?)
}

fn geometry(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let published = &settings.published;
    let pages = pages(published)?;
    let page_bytes = published.value("flash_page_size", "value")? * 1024.0;
    let codewords = page_bytes / (published.value("ldpc", "info_per_codeword")? * 1024.0);
    let rate = published.value("ldpc", "rate_num")? / published.value("ldpc", "rate_den")?;
    let parity = page_bytes * (1.0 / rate - 1.0);
    let kept = published.value("fingerprint", "truncated_ecc_per_codeword")?;
    let gib = pages * page_bytes / MIB / 1024.0;
    for (printed, name, unit, value) in [
        (("ssd_capacity", "value"), "capacity", "GiB", gib),
        (("pages", "value"), "pages", "Mi", pages / MIB),
        (("ldpc", "parity_per_8KB_page"), "parity of a page", "B", parity),
        (("fingerprint", "page_fingerprint"), "fingerprint of a page", "B", codewords * kept),
    ] {
        data.beside(printed, &Line::new(name, unit).of("drive"), (), value)?;
    }
    Ok(())
}

fn table(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let published = &settings.published;
    let pages = pages(published)?;
    let whole = published.value("fingerprint", "page_fingerprint")?;
    let chosen = settings.real("table_ratio_percent")? / 100.0;
    let dram = published.value("ssd_dram", "value")?;
    let size = |share: f64, bytes: f64| pages * share * bytes / MIB;
    let entry = whole / 4.0;
    let sizes = [size(1.0, whole), size(chosen, whole), size(chosen, entry)];
    let of_table = |name: &str, unit: &str| Line::new(name, unit).of("fingerprint table");
    let printed = published.numbers.iter().filter(|number| {
        (number.row.as_str(), number.column.as_str()) == ("fingerprint_table", "size")
    });
    for (number, size) in printed.zip(sizes) {
        data.beside_number(number, &of_table(&number.config, "MiB"), (), size)?;
    }
    let share = of_table("share of the drive's memory", "%");
    data.beside(("fingerprint_table", "share_of_dram"), &share, (), 100.0 * sizes[2] / dram)?;
    let entries = of_table("entries at 10 % of the pages", "M");
    data.beside(("fingerprint_table", "entries_at_10pct"), &entries, (), 0.1 * pages / 1e6)?
        .note("the paper rounds to 0.4 M");
    let stated = settings.number("location_bytes")? + settings.number("count_bytes")?;
    let real = size(chosen, entry + stated as f64);
    data.put(&of_table("size with location and count", "MiB"), (), real)
        .note("the paper counts fingerprints only");
    Ok(())
}

/// Read and program time of a kind of flash, in us.
fn read_write(published: &Published, flash: &str) -> Result<(f64, f64)> {
    Ok((published.value(flash, "read")?, published.value(flash, "write")?))
}

fn times(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let published = &settings.published;
    let sha = published.value("all", "sha256_8KB")?;
    let ecc = published.value("device-side", "ecc_recompute")?;
    let inline = settings.numbers("inline_permille")?;
    let line = |name: &str| Line::new(name, "%").of("serial write path").over("flash", "");
    for (flash, inline) in FLASH.into_iter().zip(inline) {
        let (read, write) = read_write(published, flash)?;
        let share = inline as f64 / 1000.0;
        let overhead = 100.0 * sha / (sha + write);
        data.put(&line("share of a write that SHA-256 takes"), flash, overhead).note(match flash {
            "MLC-2" => "Fig. 2's text prints 17.3 %",
            _ => "above the 17.3 % that Fig. 2's text calls the most",
        });
        let dup = (1.0 - share) * write + share * read;
        let sooner = 100.0 * (1.0 - dup / write);
        data.put(&line("writes faster, free fingerprints"), flash, sooner);
        let more = 100.0 * (write / dup - 1.0);
        data.put(&line("more writes a second, free fingerprints"), flash, more);
        let ratio = (write + sha) / (write + ecc);
        let line = line("more writes a second than with SHA-256");
        data.put(&line, flash, 100.0 * (ratio - 1.0)).note(match flash {
            "MLC-2" => "Fig. 5's text prints 19.9 % as the least gain of the inline share",
            _ => "Fig. 5's text prints 42.8 % as the most; nothing serial gives that",
        });
    }
    let (read, write) = read_write(published, "MLC-2")?;
    let found = settings.real("duplicate_percent")? * settings.real("hot_share_percent")? / 1e4;
    let time = sha + (1.0 - found) * write + found * read;
    let line = Line::new("more writes a second with SHA-256, 30.7 % duplicates", "%").of("MLC-2");
    data.put(&line, (), 100.0 * (write / time - 1.0))
        .note("sec. II prints at most 5.8 %; duplicates of hot contents only");
    Ok(())
}

/// The duplicate ratio from which a policy saves time: its cost over what a duplicate saves. A
/// strong hash is trusted; parity has a candidate read and compared.
fn break_even(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let published = &settings.published;
    let line = Line::new("break-even duplicates", "% of writes").over("flash", "");
    for flash in FLASH {
        let (read, write) = read_write(published, flash)?;
        let compared = write - read;
        for (policy, cost, saved) in [
            ("SHA-256", published.value("all", "sha256_8KB")?, write),
            ("device ECC", published.value("device-side", "ecc_recompute")?, compared),
            ("host ECC", published.value("host-side", "device_hash_cost")?, compared),
        ] {
            data.put(&line.of(policy), flash, 100.0 * cost / saved);
        }
    }
    Ok(())
}

/// Expected colliding pairs of random fingerprints, as a power of two: n (n - 1) / 2 / 2^bits.
fn collisions(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    // The number of pages is a power of two, so that no logarithm is taken.
    let log_pages = f64::from((pages(&settings.published)? as u64).ilog2());
    for (of, bits) in [("whole fingerprint", 256.0), ("8 bytes", 64.0)] {
        let line = Line::new("expected colliding pairs", "log2").of(of);
        data.put(&line, (), 2.0 * log_pages - 1.0 - bits)
            .note("if parity were random; beyond/collisions measures what it is");
    }
    Ok(())
}
