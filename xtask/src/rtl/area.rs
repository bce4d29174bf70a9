//! What a module takes of a chip, as Yosys counts it.
//! Room: xtask.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::{folder, output};

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Area {
    pub luts: u64,
    pub flip_flops: u64,
    pub carry4: u64,
    /// Of 18 Kibit; one of 36 Kibit is two.
    pub block_rams_18k: u64,
}

impl Area {
    /// What was written of a module before.
    pub fn written(results: &toml::Table, module: &str) -> Option<Self> {
        let table = results.get(module)?.as_table()?;
        let number = |key: &str| u64::try_from(table.get(key)?.as_integer()?).ok();
        Some(Self {
            luts: number("luts")?,
            flip_flops: number("flip_flops")?,
            carry4: number("carry4")?,
            block_rams_18k: number("block_rams_18k")?,
        })
    }

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
                "RAMB36E2" => area.block_rams_18k += 2 * count,
                "RAMB18E2" => area.block_rams_18k += count,
                // Eight look-up tables hold 32 words of 14 to 16 bits, or 64 of 7 to 8.
                "RAM32M16" | "RAM64M8" => area.luts += 8 * count,
                cell if cell.starts_with("LUT") || cell.starts_with("SRL") => area.luts += count,
                _ => {}
            }
        }
        area
    }
}

/// Synthesises a module and counts.
pub fn area(root: &Path, module: &str, parts: &[&str]) -> Result<Area> {
    let folder = folder(root)?;
    let stat = folder.join(format!("{module}.stat"));
    let name = |part: &&str| root.join(format!("rtl/{part}.sv")).display().to_string();
    let files: Vec<String> = parts.iter().chain([&module]).map(name).collect();
    let script = format!(
        "read_verilog -sv {}; synth_xilinx -family xcup -flatten -top {module}; tee -q -o {} stat",
        files.join(" "),
        stat.display()
    );
    output(Command::new("yosys").args(["-q", "-p", &script]))?;
    Ok(Area::read(&fs::read_to_string(stat)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_counted_by_what_they_take() {
        let stat = "     LUT2   408\n     SRL16E   64\n     FDRE   413\n     FDSE 272\n\
                    Number of cells: 9\n     RAMB36E2 4\n     RAMB18E2 3\n     RAM32M16 3\n \
                    CARRY4 106\n";
        let area = Area { luts: 408 + 64 + 24, flip_flops: 685, carry4: 106, block_rams_18k: 11 };
        assert_eq!(Area::read(stat), area);
    }
}
