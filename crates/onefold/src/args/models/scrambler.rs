//! `onefold scrambler ...`, as written.
//! Room: onefold.

use std::path::PathBuf;

use clap::Subcommand;
use onefold_block::ByteSize;
use onefold_code::PRESET_NAMES;

/// Smallest page in which a scrambler shows.
const PAGE_BYTES_MIN: u64 = 64;
/// Largest page, and most out-of-band bytes of one: beyond any flash, and safe to add up.
const PAGE_BYTES_MAX: u64 = 16 << 20;

const INFER_EXAMPLES: &str = "\
DUMP holds pages one after another, at consecutive addresses; it is read into memory as a whole.
Exit status: 0 a scrambler was found, and verified on pages that it was not derived from; 1 no
linear generator with a seed rule explains the dump; 2 the dump or the arguments cannot be used.

Examples:
  onefold scrambler infer dump.bin --page-size 8K -o found.toml       written with zeros
  onefold scrambler infer dump.bin --page-size 16K --oob 1664 --known written.bin
  onefold scrambler infer dump.bin --page-size 8K --known unknown     pages of one value will do";

const MAKE_EXAMPLES: &str = "\
Examples:
  onefold scrambler make --preset samsung-prbs15 --pages 600 --page-size 8K --rber 1e-3 -o dump.bin
  onefold scrambler make --file found.toml --pages 600 --page-size 8K -o again.bin";

/// Recover scramblers from dumps of raw flash, and make such dumps.
#[derive(Debug, Subcommand)]
pub enum ScramblerCommand {
    /// Recover the scrambler behind a dump of raw pages
    #[command(after_help = INFER_EXAMPLES)]
    Infer(ScramblerInferArgs),
    /// Make the dump that a scrambler would leave on the flash
    #[command(after_help = MAKE_EXAMPLES)]
    Make(ScramblerMakeArgs),
    /// List the scramblers of known controllers
    List(ScramblerListArgs),
    /// Print the scrambler file of a preset
    Show(ScramblerShowArgs),
}

/// How pages lie in a dump.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct PagesArgs {
    /// Data bytes of a page, such as 8K
    #[arg(long, value_name = "SIZE", value_parser = page_size, allow_negative_numbers = true)]
    pub page_size: usize,
    /// Out-of-band bytes after the data of each page
    #[arg(long, value_name = "SIZE", value_parser = oob_size, allow_negative_numbers = true)]
    #[arg(default_value = "0")]
    pub oob: usize,
    /// Address of the first page, such as 4096 or 0x1000; the others follow by one
    #[arg(long, value_name = "ADDRESS", value_parser = number, allow_negative_numbers = true)]
    #[arg(default_value = "0")]
    pub first_address: u64,
}

/// `onefold scrambler infer`
#[derive(Clone, Debug, clap::Args)]
pub struct ScramblerInferArgs {
    /// File or block device, or `-` for stdin
    #[arg(value_name = "DUMP")]
    pub dump: PathBuf,
    /// How the pages lie.
    #[command(flatten)]
    pub pages: PagesArgs,
    /// What was written: zeros, unknown, or a file with one page (the same at every address) or
    /// all pages
    #[arg(long, value_name = "DATA", default_value = "zeros")]
    pub known: PathBuf,
    /// Write the scrambler to FILE, for `onefold scrambler make --file`
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite FILE if it exists
    #[arg(long, short, requires = "output")]
    pub force: bool,
    /// Print one JSON object (docs/scramblers.md)
    #[arg(long)]
    pub json: bool,
}

/// `onefold scrambler make`
#[derive(Clone, Debug, clap::Args)]
pub struct ScramblerMakeArgs {
    /// The scrambler.
    #[command(flatten)]
    pub scrambler: ScramblerChoice,
    /// How the pages lie; out-of-band bytes are 0xff.
    #[command(flatten)]
    pub pages: PagesArgs,
    /// Pages of the dump
    #[arg(long = "pages", value_name = "COUNT", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// What is written: zeros, or a file with one page (the same at every address) or all pages
    #[arg(long, value_name = "DATA", default_value = "zeros")]
    pub known: PathBuf,
    /// Raw bit error rate: each bit of the dump is flipped with this probability, 0 to 0.5
    #[arg(long, value_name = "RATE", value_parser = rate, allow_negative_numbers = true)]
    #[arg(default_value = "0")]
    pub rber: f64,
    /// Seed of the bit errors: the same seed, the same errors
    #[arg(long, value_name = "NUMBER", value_parser = number, allow_negative_numbers = true)]
    #[arg(default_value = "1")]
    pub seed: u64,
    /// File or block device, or `-` for stdout
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Overwrite FILE if it exists
    #[arg(long, short)]
    pub force: bool,
}

/// Where a scrambler comes from.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct ScramblerChoice {
    /// A known controller's; `onefold scrambler list` lists them
    #[arg(long, value_name = "NAME", value_parser = PRESET_NAMES, hide_possible_values = true)]
    pub preset: Option<String>,
    /// A scrambler file, such as `onefold scrambler infer -o` writes
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

/// `onefold scrambler list`
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ScramblerListArgs {
    /// Print one JSON object (docs/scramblers.md)
    #[arg(long)]
    pub json: bool,
}

/// `onefold scrambler show`
#[derive(Clone, Debug, clap::Args)]
pub struct ScramblerShowArgs {
    /// A known controller's; `onefold scrambler list` lists them
    #[arg(value_name = "PRESET", value_parser = PRESET_NAMES, hide_possible_values = true)]
    pub preset: String,
}

fn size(text: &str, min: u64) -> Result<usize, String> {
    let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
    if !(min..=PAGE_BYTES_MAX).contains(&size.bytes()) {
        let (min, max) = (ByteSize(min), ByteSize(PAGE_BYTES_MAX));
        return Err(format!("{size} is not accepted: from {min} to {max} is"));
    }
    Ok(size.bytes() as usize)
}

fn page_size(text: &str) -> Result<usize, String> {
    size(text, PAGE_BYTES_MIN)
}

fn oob_size(text: &str) -> Result<usize, String> {
    size(text, 0)
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "accepted are whole numbers below 2^64, like 4096 or 0x1000".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.0..=0.5).contains(rate));
    rate.ok_or_else(|| "accepted are probabilities from 0 to 0.5, like 1e-3".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal_and_in_range() {
        assert_eq!(["7", "0x1F", "0"].map(number), [Ok(7), Ok(31), Ok(0)]);
        assert_eq!(number("0xffffffffffffffff"), Ok(u64::MAX));
        assert!(["", "-1", "0x", "1e3", "18446744073709551616"].iter().all(|t| number(t).is_err()));
        assert_eq!(["8K", "8192", "64"].map(page_size), [Ok(8192), Ok(8192), Ok(64)]);
        assert!(["63", "17M", "-1", ""].iter().all(|text| page_size(text).is_err()));
        assert_eq!((rate("1e-3"), oob_size("0")), (Ok(1e-3), Ok(0)));
        assert!(["0.6", "-0.1", "NaN", "some"].iter().all(|text| rate(text).is_err()));
    }
}
