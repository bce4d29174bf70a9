//! The host tells a drive that is served that it is idle: `onefold ssd idle`.
//! Room: onefold.

use std::time::Duration;

use super::harness::{Sandbox, tool};
use super::ssd::{SHARING, SMALL, serve};

/// A drive that begins nothing by itself, with duplicates that only idle moments find.
const QUIET: [&str; 4] =
    ["--set", "dedup.policy=crc-compare", "--set", "controller.idle_after_ns=0"];

fn ratio(sandbox: &Sandbox) -> f64 {
    let json = sandbox.ok(&["ssd", "smart", "drive", "--json"]).json();
    json["deduplication"]["ratio"].as_f64().expect("a ratio")
}

/// 512 pages of four contents.
fn image(sandbox: &Sandbox) -> String {
    let image = sandbox.text("image");
    let page = |number: u64| onefold_block::SplitMix64::new(number % 4).bytes(4096);
    std::fs::write(&image, (0..512).flat_map(page).collect::<Vec<u8>>()).unwrap();
    image
}

#[test]
fn a_drive_deduplicates_when_its_host_says_that_it_is_idle() {
    let sandbox = Sandbox::new();
    let image = image(&sandbox);
    let made = [&SMALL[..], &SHARING[..4], &QUIET].concat();
    let server = serve(&sandbox, &made);
    tool("nbdcopy", &["--flush", &image, &server.uri("")]);
    server.stop();
    assert!((ratio(&sandbox) - 1.0).abs() < 1e-9, "nobody said anything");
    let said = sandbox.onefold(&["ssd", "idle", "drive"]);
    assert!(said.code != Some(0) && said.err.contains("is not being served"), "{}", said.err);

    let server = serve(&sandbox, &["--record", "said.rec"]);
    sandbox.ok(&["ssd", "idle", "drive"]);
    // The counts are saved every few seconds.
    let mut looks = 0;
    while ratio(&sandbox) < 128.0 {
        looks += 1;
        assert!(looks < 1000, "the drive does nothing");
        std::thread::sleep(Duration::from_millis(100));
    }
    let compare = ["compare", "-f", "raw", "-F", "raw", &image, &server.uri("")];
    tool("qemu-img", &compare);
    server.stop();
    assert!(!sandbox.path("drive").join("control").exists());
    sandbox.ok(&["trace", "convert", "said.rec", "said.csv"]);
    let trace = std::fs::read_to_string(sandbox.path("said.csv")).unwrap();
    assert_eq!(trace.lines().filter(|line| line.contains(",idle,0,0,")).count(), 1, "{trace}");
    let info = sandbox.ok(&["trace", "info", "said.csv", "--json"]).json();
    assert_eq!(info["operations"]["idle"]["requests"], 1);
}

#[test]
fn a_drive_that_takes_no_hints_says_so_and_so_does_one_that_is_none() {
    let sandbox = Sandbox::new();
    let server = serve(&sandbox, &[&SMALL[..], &["--set", "controller.idle_hint=false"]].concat());
    let said = sandbox.onefold(&["ssd", "idle", "drive"]);
    assert!(said.code != Some(0) && said.err.contains("controller.idle_hint"), "{}", said.err);
    server.stop();
    let said = sandbox.onefold(&["ssd", "idle", "nothing"]);
    assert!(said.code != Some(0) && said.err.contains("ssd serve"), "{}", said.err);
}
