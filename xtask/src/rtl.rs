//! Hardware descriptions: lint, synthesis, cycles, and the figures that the model takes from them.
//! Room: xtask.   In: `rtl/`.   Out: `rtl/results.toml`.
//! Invariants: the figures carry a mark of the sources that they are of, a test compares it;
//! without the tools nothing is checked and that is said.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Modules that are synthesised, each as it is instantiated with its defaults.
const MODULES: [&str; 5] = ["sha256_unit", "rr_arbiter", "buffer", "xbar", "hash_array"];
/// Sizes of messages whose cycles are counted, in bytes. They do not depend on the contents.
const SIZES: [usize; 3] = [4096, 32_768, 65_536];
/// Chunks of 4 KiB that show how busy the units of an array are.
const CHUNKS: usize = 200;
const RESULTS: &str = "rtl/results.toml";

/// Checks everything in `rtl/` and writes the figures, or with `check` compares them with those
/// that are there. Returns whether all is well.
pub fn run(root: &Path, check: bool) -> Result<bool> {
    for (tool, flag) in [("verilator", "--version"), ("yosys", "-V")] {
        if Command::new(tool).arg(flag).output().is_err() {
            println!("rtl: skipped, for want of {tool}: apt-get install verilator yosys");
            return Ok(true);
        }
    }
    lint(root)?;
    let tools = tools()?;
    let mut text = format!(
        "# Written by `cargo xtask rtl`: figures of the hardware descriptions in this folder.\n\
         # LUTs include those that shift registers take; chips are of the UltraScale+ family.\n\n\
         sources = \"{:016x}\"\ntools = \"{tools}\"\n",
        mark(root)?
    );
    for module in MODULES {
        let area = area(root, module)?;
        let _ = write!(
            text,
            "\n[{module}]\nluts = {}\nflip_flops = {}\ncarry4 = {}\nblock_rams = {}\n",
            area.luts, area.flip_flops, area.carry4, area.block_rams
        );
        if module == "sha256_unit" {
            text.push_str("# bytes of a message, and its cycles\n");
            let cycles: Vec<String> = cycles(root)?;
            let _ = writeln!(text, "cycles = [{}]", cycles.join(", "));
        }
        if module == "hash_array" {
            let _ = writeln!(text, "units = 4\nbusy_permille = {}", busy_permille(root)?);
        }
    }
    let path = root.join(RESULTS);
    if !check {
        fs::write(&path, text).with_context(|| format!("cannot write {RESULTS}"))?;
        println!("rtl: wrote {RESULTS}");
        return Ok(true);
    }
    let there = fs::read_to_string(&path).with_context(|| format!("cannot read {RESULTS}"))?;
    if !there.contains(&tools) {
        println!("rtl: lint and synthesis pass; figures are of other tools and not compared");
        return Ok(true);
    }
    let same = there == text;
    let stale = format!("rtl: {RESULTS} is stale; `cargo xtask rtl` writes it anew\n{text}");
    println!("{}", if same { "rtl: all is well" } else { stale.as_str() });
    Ok(same)
}

/// Names and versions of the tools, whose figures differ.
fn tools() -> Result<String> {
    let verilator = output(Command::new("verilator").arg("--version"))?;
    let yosys = output(Command::new("yosys").arg("-V"))?;
    let words = |line: &[u8]| {
        let line = String::from_utf8_lossy(line).into_owned();
        line.split_ascii_whitespace().take(2).collect::<Vec<_>>().join(" ")
    };
    Ok(format!("{}, {}", words(&verilator), words(&yosys)))
}

/// The descriptions, without the bench, in order of their names.
fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join("rtl")).context("no folder rtl")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "sv") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// FNV-1a of names and contents: enough to see that they have changed.
fn mark(root: &Path) -> Result<u64> {
    let mut mark = 0xcbf2_9ce4_8422_2325_u64;
    for path in sources(root)? {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for byte in name.iter().chain(&[0]).chain(&text).chain(&[0]) {
            mark = (mark ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(mark)
}

/// Runs a program; its standard output. Its complaints are the error.
fn output(command: &mut Command) -> Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().with_context(|| format!("cannot run {name}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{name}: {}\n{said}", out.status);
    Ok(out.stdout)
}

/// Warnings are errors.
fn lint(root: &Path) -> Result<()> {
    for module in MODULES {
        let mut command = Command::new("verilator");
        command.args(["--lint-only", "-Wall", "--top-module", module]).args(sources(root)?);
        output(&mut command)?;
    }
    Ok(())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Area {
    luts: u64,
    flip_flops: u64,
    carry4: u64,
    block_rams: u64,
}

impl Area {
    /// What the table of `stat` says.
    fn read(stat: &str) -> Self {
        let mut area = Self::default();
        for line in stat.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(cell), Some(Ok(count)), None) =
                (words.next(), words.next().map(str::parse::<u64>), words.next())
            else {
                continue;
            };
            match cell {
                "FDRE" | "FDSE" | "FDCE" | "FDPE" => area.flip_flops += count,
                "CARRY4" => area.carry4 += count,
                "RAMB36E2" => area.block_rams += count,
                // Eight look-up tables hold 32 words of 14 to 16 bits.
                "RAM32M16" => area.luts += 8 * count,
                cell if cell.starts_with("LUT") || cell.starts_with("SRL") => area.luts += count,
                _ => {}
            }
        }
        area
    }
}

fn area(root: &Path, module: &str) -> Result<Area> {
    let folder = folder(root)?;
    let stat = folder.join(format!("{module}.stat"));
    let files: Vec<String> = sources(root)?.iter().map(|path| path.display().to_string()).collect();
    let script = format!(
        "read_verilog -sv {}; synth_xilinx -family xcup -flatten -top {module}; tee -q -o {} stat",
        files.join(" "),
        stat.display()
    );
    output(Command::new("yosys").args(["-q", "-p", &script]))?;
    Ok(Area::read(&fs::read_to_string(stat)?))
}

/// Where what is built for this lies.
fn folder(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/rtl");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The Verilated bench.
fn bench(root: &Path) -> Result<PathBuf> {
    let folder = folder(root)?.join("bench");
    let mut command = Command::new("verilator");
    command.args(["-Wall", "--cc", "--exe", "--build", "-O3", "-CFLAGS", "-O1"]);
    command.args(["--top-module", "bench", "-o", "bench", "--Mdir"]).arg(&folder);
    command.args(sources(root)?).arg(root.join("rtl/harness/bench.sv"));
    output(command.arg(root.join("rtl/harness/main.cpp")))?;
    Ok(folder.join("bench"))
}

/// Feeds messages to a module of the bench; what it answers.
fn ask(root: &Path, module: &str, sizes: &[usize]) -> Result<Vec<u8>> {
    let mut child = Command::new(bench(root)?)
        .arg(module)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run the bench")?;
    let mut input = Vec::new();
    for &size in sizes {
        input.extend(u32::try_from(size)?.to_le_bytes());
        input.resize(input.len() + size, 0x5a);
    }
    // It reads all before it fills a pipe, or answers less than a pipe holds.
    child.stdin.take().context("no input")?.write_all(&input)?;
    let out = child.wait_with_output()?;
    ensure!(out.status.success(), "the bench ended with {}", out.status);
    Ok(out.stdout)
}

fn cycles(root: &Path) -> Result<Vec<String>> {
    let answers = ask(root, "sha", &SIZES)?;
    let of = |(answer, size): (&[u8], usize)| match answer.last_chunk::<4>() {
        Some(cycles) => Ok(format!("[{size}, {}]", u32::from_le_bytes(*cycles))),
        None => bail!("the bench broke off"),
    };
    answers.chunks(36).zip(SIZES).map(of).collect()
}

fn busy_permille(root: &Path) -> Result<u64> {
    let answers = ask(root, "array", &[4096; CHUNKS])?;
    let Some((rest, busy)) = answers.split_last_chunk::<8>() else { bail!("the bench broke off") };
    let cycles = rest.last_chunk::<8>().context("the bench broke off")?;
    let (busy, cycles) = (u64::from_le_bytes(*busy), u64::from_le_bytes(*cycles));
    Ok(1000 * busy / (4 * cycles).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_counted_by_what_they_take() {
        let stat = "     LUT2   408\n     SRL16E   64\n     FDRE   413\n     FDSE 272\n\
                    Number of cells: 9\n     RAMB36E2 4\n     RAM32M16 3\n     CARRY4 106\n";
        let area = Area { luts: 408 + 64 + 24, flip_flops: 685, carry4: 106, block_rams: 4 };
        assert_eq!(Area::read(stat), area);
    }

    #[test]
    fn the_figures_are_of_these_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let text = fs::read_to_string(root.join(RESULTS)).unwrap();
        let table: toml::Table = text.parse().unwrap();
        let expected = format!("{:016x}", mark(root).unwrap());
        let stale = "rtl/results.toml is stale: cargo xtask rtl writes it anew";
        assert_eq!(table["sources"].as_str(), Some(expected.as_str()), "{stale}");
        for module in MODULES {
            assert!(table[module]["luts"].as_integer().unwrap() > 0, "{module}");
        }
    }
}
