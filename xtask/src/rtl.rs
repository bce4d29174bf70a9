//! Hardware descriptions: lint, synthesis, cycles, and the figures that the model takes from them.
//! Room: xtask.   In: `rtl/`.   Out: `rtl/results.toml`.
//! Invariants: the figures carry marks of the sources that they are of, all and for each module, a
//! test compares them; to write them, a module is synthesised only if its mark or the tools have
//! changed; without the tools nothing is checked and that is said.

mod area;
mod measure;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use area::Area;

use crate::turn::choice;

/// Modules that are synthesised, each as it is instantiated with its defaults, and what it is made
/// of: figures of a module do not hang on files that it does not use.
const MODULES: [(&str, &[&str]); 11] = [
    ("sha256_unit", &[]),
    ("rr_arbiter", &[]),
    ("buffer", &[]),
    ("xbar", &["rr_arbiter"]),
    ("lz4_enc", &["buffer", "byte_window", "lz4_writer"]),
    ("lz4_dec", &["byte_window"]),
    ("index_unit", &[]),
    ("hash_array", &["rr_arbiter", "buffer", "xbar", "unit_tags", "sha256_unit"]),
    ("compress_array", &COMPRESS_ARRAY),
    ("decompress_array", &DECOMPRESS_ARRAY),
    ("cidr_engine", &ENGINE),
];
const COMPRESS_ARRAY: [&str; 8] = [
    "rr_arbiter",
    "buffer",
    "xbar",
    "unit_tags",
    "packet_buffer",
    "byte_window",
    "lz4_writer",
    "lz4_enc",
];
const DECOMPRESS_ARRAY: [&str; 6] =
    ["rr_arbiter", "buffer", "xbar", "unit_tags", "byte_window", "lz4_dec"];
const ENGINE: [&str; 13] = [
    "rr_arbiter",
    "buffer",
    "xbar",
    "unit_tags",
    "packet_buffer",
    "byte_window",
    "lz4_writer",
    "lz4_enc",
    "lz4_dec",
    "sha256_unit",
    "hash_array",
    "compress_array",
    "decompress_array",
];
/// What is made of more than this is an array or more, whose synthesis takes minutes: it is done to
/// write the figures, and not to check them, for the mark says whether they are of these sources.
const UNIT_PARTS: usize = 3;
const RESULTS: &str = "rtl/results.toml";

/// What becomes of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// They are written, anew where sources or tools have changed.
    Write,
    /// They are compared, with those of every unit synthesised anew.
    Check,
    /// They are compared, with those of one unit synthesised anew, which the commit decides.
    Rotate,
}

impl Task {
    /// What is synthesised whatever its mark says.
    fn anew(self, root: &Path) -> Result<Vec<&'static str>> {
        let units: Vec<&str> = MODULES
            .iter()
            .filter(|(_, parts)| parts.len() <= UNIT_PARTS)
            .map(|(n, _)| *n)
            .collect();
        Ok(match self {
            Self::Write => Vec::new(),
            Self::Check => units,
            Self::Rotate => {
                let turn = choice(root)? % units.len() as u64;
                vec![units[turn as usize]]
            }
        })
    }
}

/// Checks everything in `rtl/`, and writes the figures or compares them with those that are there.
/// Returns whether all is well.
pub fn run(root: &Path, task: Task) -> Result<bool> {
    let check = task != Task::Write;
    for (tool, flag) in [("verilator", "--version"), ("yosys", "-V")] {
        if Command::new(tool).arg(flag).output().is_err() {
            println!("rtl: skipped, for want of {tool}: apt-get install verilator yosys");
            return Ok(true);
        }
    }
    lint(root)?;
    measure::build(root)?;
    let tools = tools()?;
    let path = root.join(RESULTS);
    // A file that cannot be read is like none: what is missing in it is found to differ.
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let there: toml::Table = committed.parse().unwrap_or_default();
    let mut text = format!(
        "# Written by `cargo xtask rtl`: figures of the hardware descriptions in this folder.\n\
         # LUTs include those that shift registers take; chips are of the UltraScale+ family.\n\n\
         sources = \"{:016x}\"\ntools = \"{tools}\"\n",
        mark(&sources(root, "rtl", "sv")?)?
    );
    let anew = task.anew(root)?;
    for (module, parts) in MODULES {
        let sources = module_mark(root, module, parts)?;
        let known =
            if anew.contains(&module) { None } else { written(&there, module, &sources, &tools) };
        if known.is_some() && !check {
            println!("rtl: {module} has not changed, and keeps its figures");
        }
        let area = known.map_or_else(|| area::area(root, module, parts), Ok)?;
        let _ = write!(
            text,
            "\n[{module}]\nsources = \"{sources}\"\nluts = {}\nflip_flops = {}\ncarry4 = {}\n\
             block_rams_18k = {}\n",
            area.luts, area.flip_flops, area.carry4, area.block_rams_18k
        );
        text.push_str(&more(root, module)?);
    }
    text.push_str(&by_contents(root)?);
    if !check {
        fs::write(&path, text).with_context(|| format!("cannot write {RESULTS}"))?;
        println!("rtl: wrote {RESULTS}");
        return Ok(true);
    }
    if !committed.contains(&tools) {
        println!("rtl: lint and synthesis pass; figures are of other tools and not compared");
        return Ok(true);
    }
    println!("rtl: synthesised anew: {}", anew.join(", "));
    let same = committed == text;
    let stale = format!("rtl: {RESULTS} is stale; `cargo xtask rtl` writes it anew\n{text}");
    println!("{}", if same { "rtl: all is well" } else { stale.as_str() });
    Ok(same)
}

/// The area that was written of a module, if it was of these sources and by these tools.
fn written(there: &toml::Table, module: &str, sources: &str, tools: &str) -> Option<Area> {
    let is =
        |value: Option<&toml::Value>, expected| value.and_then(|v| v.as_str()) == Some(expected);
    let same = is(there.get(module)?.get("sources"), sources) && is(there.get("tools"), tools);
    same.then(|| Area::written(there, module)).flatten()
}

/// What is measured of a module by running it.
fn more(root: &Path, module: &str) -> Result<String> {
    Ok(match module {
        "sha256_unit" => {
            let cycles = measure::hash_cycles(root)?.join(", ");
            format!("# bytes of a message, and its cycles\ncycles = [{cycles}]\n")
        }
        "index_unit" => {
            let (count, cycles) = measure::look_ups(root)?;
            format!("# look-ups, and their cycles\nlook_ups = {count}\ncycles = {cycles}\n")
        }
        "hash_array" => {
            format!("units = 4\nbusy_permille = {}\n", measure::busy_permille(root)?)
        }
        "compress_array" => "units = 4\n".to_owned(),
        "decompress_array" => "units = 2\n".to_owned(),
        "cidr_engine" => {
            let (hash, compress) = measure::engine_writes(root)?;
            let read = measure::engine_reads(root)?;
            format!(
                "# noise that is hashed and compressed, half noise that is read\n\
                 hash_busy_permille = {hash}\ncompress_busy_permille = {compress}\n\
                 decompress_busy_permille = {read}\n"
            )
        }
        _ => String::new(),
    })
}

/// Cycles of the LZ4 units by what chunks hold.
fn by_contents(root: &Path) -> Result<String> {
    let mut text =
        "\n# Chunks of 4 KiB by what they hold: bytes of 1000 that are left, and cycles \
                    of a chunk,\n# mean and most, one chunk behind the other.\n"
            .to_owned();
    for (name, contents) in measure::Contents::ALL {
        let coded = measure::coded(root, contents)?;
        let _ = write!(text, "\n[lz4.{name}]\npermille = {}\n", coded.permille);
        let _ = writeln!(text, "compress = [{}, {}]", coded.compress.0, coded.compress.1);
        if let Some((mean, most)) = coded.decompress {
            let _ = writeln!(text, "decompress = [{mean}, {most}]");
        }
    }
    Ok(text)
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

/// Files of a folder that end so, in order of their names.
fn sources(root: &Path, folder: &str, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join(folder)).with_context(|| format!("no folder {folder}"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The mark of a module and of what it is made of.
fn module_mark(root: &Path, module: &str, parts: &[&str]) -> Result<String> {
    let names = parts.iter().chain([&module]);
    let paths: Vec<PathBuf> = names.map(|name| root.join(format!("rtl/{name}.sv"))).collect();
    Ok(format!("{:016x}", mark(&paths)?))
}

/// FNV-1a of names and contents: enough to see that they have changed.
fn mark(paths: &[PathBuf]) -> Result<u64> {
    let mut mark = 0xcbf2_9ce4_8422_2325_u64;
    for path in paths {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
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
    for (module, _) in MODULES {
        let mut command = Command::new("verilator");
        command
            .args(["--lint-only", "-Wall", "--top-module", module])
            .args(sources(root, "rtl", "sv")?);
        output(&mut command)?;
    }
    Ok(())
}

/// Where what is built for this lies.
fn folder(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/rtl");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_of_these_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let text = fs::read_to_string(root.join(RESULTS)).unwrap();
        let table: toml::Table = text.parse().unwrap();
        let all = sources(root, "rtl", "sv").unwrap();
        let expected = format!("{:016x}", mark(&all).unwrap());
        let stale = "rtl/results.toml is stale: cargo xtask rtl writes it anew";
        assert_eq!(table["sources"].as_str(), Some(expected.as_str()), "{stale}");
        for (module, parts) in MODULES {
            assert!(table[module]["luts"].as_integer().unwrap() > 0, "{module}");
            let expected = module_mark(root, module, parts).unwrap();
            assert_eq!(table[module]["sources"].as_str(), Some(&*expected), "{module}: {stale}");
        }
    }

    #[test]
    fn figures_of_other_sources_or_tools_are_not_kept() {
        let text = "tools = 't 1'\n[buffer]\nsources = 'a'\nluts = 3\nflip_flops = 2\n\
                    carry4 = 1\nblock_rams_18k = 0\n[xbar]\nluts = 3\n";
        let there: toml::Table = text.parse().unwrap();
        let luts =
            |module, sources, tools| written(&there, module, sources, tools).map(|area| area.luts);
        assert_eq!(luts("buffer", "a", "t 1"), Some(3));
        assert_eq!(luts("buffer", "b", "t 1"), None);
        assert_eq!(luts("buffer", "a", "t 2"), None);
        assert_eq!(luts("xbar", "a", "t 1"), None);
        assert_eq!(luts("lz4_enc", "a", "t 1"), None);
    }

    #[test]
    fn a_module_s_mark_hangs_on_its_own_files_only() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            fs::write(folder.path().join(format!("rtl/{name}.sv")), text).unwrap();
        };
        fs::create_dir(folder.path().join("rtl")).unwrap();
        for name in ["top", "part", "other"] {
            write(name, "module");
        }
        let now = || module_mark(folder.path(), "top", &["part"]).unwrap();
        let before = now();
        write("other", "changed");
        assert_eq!(now(), before);
        write("part", "changed");
        assert_ne!(now(), before);
    }
}
