//! What a drive tells of its wear: `smartctl --json`, run and read.
//! Room: onefold.
//! Source: smartmontools 7.0 and later (the fields of its JSON, and its exit status: bits 0 and 1
//! say that the drive was not asked at all); NVM Express 1.4, 5.14.1.2 (a data unit is 1,000 times
//! 512 bytes); ATA Command Set 4, 9.5 (device statistics, pages 1 and 7).
//! What makers call their attributes is no standard: those that smartmontools knows by these names
//! are understood, and no others.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use onefold_block::ByteSize;
use serde_json::Value;

use super::Drive;

/// Longest that a drive may take to answer, and how often it is looked whether it has.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);
/// Most that an answer may have.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// Where it is, for users whose search path does not say.
const PROGRAMS: [&str; 3] = ["smartctl", "/usr/sbin/smartctl", "/usr/local/sbin/smartctl"];
/// Bits of its exit status that say that the drive was not asked.
const NOT_ASKED: i32 = 0b11;

const NVME_UNIT_BYTES: u64 = 512_000;
const SECTOR_BYTES: u64 = 512;
/// Attributes whose value, from 100 on, is what is left of a drive's life in per cent.
const LEFT: [&str; 7] = [
    "SSD_Life_Left",
    "Media_Wearout_Indicator",
    "Percent_Lifetime_Remain",
    "Percent_Life_Remaining",
    "Remaining_Lifetime_Perc",
    "Drive_Life_Remaining%",
    "Wear_Leveling_Count",
];
/// Attributes whose raw value says what was written, and in which unit.
const WRITTEN: [(&str, u64); 5] = [
    ("Total_LBAs_Written", SECTOR_BYTES),
    ("Host_Writes_32MiB", 32 << 20),
    ("Host_Writes_GiB", 1 << 30),
    ("Total_Writes_GiB", 1 << 30),
    ("Lifetime_Writes_GiB", 1 << 30),
];

/// Ask a drive.
pub fn ask(drive: &Path) -> Result<Drive, String> {
    let (status, answer) = run(&PROGRAMS, drive, PATIENCE)?;
    read(&drive.display().to_string(), status, &answer)
}

/// The program's exit status and what it said, within limits of time and size.
fn run(programs: &[&str], drive: &Path, patience: Duration) -> Result<(i32, Vec<u8>), String> {
    let missing = || {
        "smartctl is not installed (package smartmontools); without it, name the bytes (TBW) of \
         the drive's data sheet"
            .to_owned()
    };
    let start = |program: &&str| {
        let mut command = Command::new(program);
        // All of it, since what SATA drives say of their wear is not in `--all`.
        command.args(["--json", "--xall"]).arg(drive);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    };
    let started = programs.iter().map(start);
    let mut child = started
        .filter(|child| !child.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound))
        .map(|child| child.map_err(|error| format!("cannot run smartctl: {error}")))
        .next()
        .unwrap_or_else(|| Err(missing()))?;
    let out = child.stdout.take().expect("it is piped");
    let reader = std::thread::spawn(move || {
        let mut answer = Vec::new();
        let read = out.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
        read.map(|_| answer)
    });
    let until = Instant::now() + patience;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            Ok(None) => {
                // It fails only if the program has ended by now. One that waits for a drive that is
                // stuck does not end before the drive answers: nobody waits for it here.
                let _ = child.kill();
                std::thread::spawn(move || child.wait());
                return Err(format!("smartctl did not answer in {} s", patience.as_secs_f64()));
            }
            Err(error) => return Err(format!("cannot wait for smartctl: {error}")),
        }
    };
    let answer = reader.join().map_err(|_| "reading what smartctl says failed".to_owned())?;
    let answer = answer.map_err(|error| format!("cannot read what smartctl says: {error}"))?;
    let status = status.code().ok_or_else(|| format!("smartctl was ended: {status}"))?;
    Ok((status, answer))
}

/// What an answer says.
fn read(device: &str, status: i32, answer: &[u8]) -> Result<Drive, String> {
    let told: Value = serde_json::from_slice(answer).map_err(|error| {
        format!(
            "smartctl answered of '{device}' what cannot be read (exit status {status}): {error}"
        )
    })?;
    if status & NOT_ASKED != 0 {
        let why = messages(&told);
        let why = if why.is_empty() { format!("exit status {status}") } else { why };
        return Err(format!("smartctl cannot ask '{device}': {why}"));
    }
    let model = told["model_name"].as_str().unwrap_or("unknown model").to_owned();
    if told["rotation_rate"].as_u64().is_some_and(|rate| rate > 0) {
        return Err(format!("'{device}' ({model}) is a hard disk, which does not wear by writes"));
    }
    let silent = |what: &str| {
        format!("'{device}' ({model}) does not tell {what}; name the bytes (TBW) of its data sheet")
    };
    let used_percent = used_percent(&told).ok_or_else(|| silent("how much of its life is used"))?;
    let written = written(&told).ok_or_else(|| silent("how much was written to it"))?;
    Ok(Drive { device: device.to_owned(), model, used_percent, written: ByteSize(written) })
}

fn messages(told: &Value) -> String {
    let all = told["smartctl"]["messages"].as_array().into_iter().flatten();
    let all: Vec<&str> = all.filter_map(|message| message["string"].as_str()).collect();
    all.join("; ")
}

/// Per cent of its life that are used.
fn used_percent(told: &Value) -> Option<u64> {
    let nvme = told["nvme_smart_health_information_log"]["percentage_used"].as_u64();
    let since_7_4 = told["endurance_used"]["current_percent"].as_u64();
    let of_ata = || statistic(told, 7, "Percentage Used Endurance Indicator");
    let by_attribute = || {
        let value = |name: &&str| attribute(told, name)?["value"].as_u64();
        LEFT.iter().find_map(value).and_then(|left| 100u64.checked_sub(left))
    };
    nvme.or(since_7_4).or_else(of_ata).or_else(by_attribute)
}

/// Bytes that were written.
fn written(told: &Value) -> Option<u64> {
    let units = told["nvme_smart_health_information_log"]["data_units_written"].as_u64();
    let nvme = units.and_then(|units| units.checked_mul(NVME_UNIT_BYTES));
    let sector = told["logical_block_size"].as_u64().unwrap_or(SECTOR_BYTES);
    let of_ata = || statistic(told, 1, "Logical Sectors Written")?.checked_mul(sector);
    let by_attribute = || {
        WRITTEN.iter().find_map(|(name, unit)| {
            attribute(told, name)?["raw"]["value"].as_u64()?.checked_mul(*unit)
        })
    };
    nvme.or_else(of_ata).or_else(by_attribute)
}

/// A row of ATA's device statistics that the drive says is valid.
fn statistic(told: &Value, page: u64, name: &str) -> Option<u64> {
    let pages = told["ata_device_statistics"]["pages"].as_array()?;
    let page = pages.iter().find(|known| known["number"] == page)?;
    let row = page["table"].as_array()?.iter().find(|row| row["name"] == name)?;
    row["value"].as_u64().filter(|_| row["flags"]["valid"] == true)
}

/// A row of ATA's attributes.
fn attribute<'a>(told: &'a Value, name: &str) -> Option<&'a Value> {
    told["ata_smart_attributes"]["table"].as_array()?.iter().find(|row| row["name"] == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NVME: &str = include_str!("../../tests/it/smart/nvme.json");
    const SATA: &str = include_str!("../../tests/it/smart/sata.json");

    fn sata() -> Value {
        serde_json::from_str(SATA).unwrap()
    }

    fn of(told: &Value) -> Result<Drive, String> {
        read("/dev/x", 0, &serde_json::to_vec(told).unwrap())
    }

    #[test]
    fn nvme_drives_tell_it_in_their_health_log() {
        let drive = read("/dev/nvme0n1", 0, NVME.as_bytes()).unwrap();
        assert_eq!((drive.device.as_str(), drive.used_percent), ("/dev/nvme0n1", 12));
        assert_eq!(drive.written, ByteSize(68_359_375 * 512_000));
        assert_eq!(drive.model, "SAMPLE PRO 1TB");
    }

    #[test]
    fn sata_drives_tell_it_in_statistics_or_attributes() {
        // Bit 2 says that some answer did not come, which is so with many drives.
        let drive = read("/dev/sda", 4, SATA.as_bytes()).unwrap();
        assert_eq!((drive.used_percent, drive.written), (7, ByteSize(27_343_750_000 * 512)));
        let mut told = sata();
        told["ata_device_statistics"]["pages"][1]["table"][0]["flags"]["valid"] = false.into();
        assert_eq!(of(&told).unwrap().used_percent, 9, "what is left by an attribute: 91 %");
        told["ata_device_statistics"] = Value::Null;
        assert_eq!(of(&told).unwrap().written, ByteSize(27_343_750_123 * 512), "its raw value");
        told["endurance_used"] = serde_json::json!({ "current_percent": 8 });
        assert_eq!(of(&told).unwrap().used_percent, 8, "smartctl 7.4 knows by itself");
        for (name, unit) in [("Host_Writes_32MiB", 32 << 20), ("Total_Writes_GiB", 1 << 30)] {
            let row = serde_json::json!({ "name": name, "value": 100, "raw": { "value": 5000 } });
            told["ata_smart_attributes"]["table"] = Value::Array(vec![row]);
            assert_eq!(of(&told).unwrap().written, ByteSize(5000 * unit), "{name}");
        }
    }

    #[test]
    fn drives_that_do_not_tell_are_named_with_what_is_missing() {
        let error = |told: &Value| of(told).unwrap_err();
        let mut told = sata();
        told["ata_device_statistics"] = Value::Null;
        told["ata_smart_attributes"]["table"] = Value::Array(Vec::new());
        assert!(error(&told).contains("does not tell how much of its life"), "{}", error(&told));
        told["endurance_used"] = serde_json::json!({ "current_percent": 8 });
        assert!(error(&told).contains("does not tell how much was written"), "{}", error(&told));
        let mut disk = sata();
        disk["rotation_rate"] = 7200.into();
        assert!(error(&disk).contains("is a hard disk"), "{}", error(&disk));
    }

    #[test]
    fn a_program_that_is_missing_or_hangs_is_told_of() {
        use std::os::unix::fs::PermissionsExt as _;
        let drive = Path::new("/dev/x");
        let error = run(&["/nowhere/smartctl", "/nor/here"], drive, PATIENCE).unwrap_err();
        assert!(error.contains("not installed (package smartmontools)"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("smartctl");
        std::fs::write(&script, "#!/bin/sh\nexec sleep 600\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let hangs = run(&[script.to_str().unwrap()], drive, Duration::from_millis(50)).unwrap_err();
        assert!(hangs.contains("did not answer in 0.05 s"), "{hangs}");
        // One that cannot be run is not taken for one that is missing.
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o644)).unwrap();
        let refused = run(&[script.to_str().unwrap()], drive, PATIENCE).unwrap_err();
        assert!(refused.contains("cannot run smartctl"), "{refused}");
    }

    #[test]
    fn what_smartctl_complains_of_is_passed_on() {
        let refused = r#"{"smartctl": {"exit_status": 2, "messages": [
            {"string": "Smartctl open device: /dev/sda failed: Permission denied",
             "severity": "error"}]}}"#;
        let error = read("/dev/sda", 2, refused.as_bytes()).unwrap_err();
        assert!(error.contains("cannot ask '/dev/sda'") && error.contains("Permission denied"));
        let error = read("/dev/sda", 1, b"{}").unwrap_err();
        assert!(error.ends_with("exit status 1"), "{error}");
        for junk in [&b""[..], b"smartctl 6.6", b"[1, 2", b"\xff\xfe"] {
            assert!(read("/dev/sda", 0, junk).unwrap_err().contains("cannot be read"));
        }
        // Whatever a field is, it is a value or none.
        for odd in ["{}", "[]", "7", r#"{"rotation_rate": {}, "ata_smart_attributes": 3}"#] {
            assert!(read("/dev/sda", 0, odd.as_bytes()).unwrap_err().contains("does not tell"));
        }
        let mut told: Value = serde_json::from_str(NVME).unwrap();
        told["nvme_smart_health_information_log"]["data_units_written"] = u64::MAX.into();
        assert!(of(&told).unwrap_err().contains("how much was written"));
    }
}
