//! An emulated drive with real clients: served, filled, killed, recovered, looked at.
//! Room: onefold.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use super::file_system::{Fuse, loop_device, mounted};
use super::harness::{Sandbox, Server, copy_tree, machine, nbdsh, run, tool};

/// A drive of 256 MiB raw: small enough for a test, large enough for a file system.
pub const SMALL: [&str; 10] = [
    "--preset",
    "ses-mlc1",
    "--set",
    "geometry.blocks_per_plane=32",
    "--set",
    "geometry.pages_per_block=16",
    "--set",
    "ftl.over_provisioning=0.6",
    "--set",
    "ftl.gc_reserve_blocks=4",
];

/// The same with pages of 4 KiB, as file systems have blocks, and deduplication by parity.
pub const SHARING: [&str; 6] = [
    "--set",
    "geometry.page_bytes=4096",
    "--set",
    "geometry.oob_bytes=192",
    "--set",
    "dedup.policy=ses-device",
];

pub fn serve(sandbox: &Sandbox, more: &[&str]) -> Server {
    let socket = sandbox.path("socket");
    let listen = format!("unix:{}", socket.display());
    let args = [&["ssd", "serve", "--dir", "drive", "--listen", &listen], more].concat();
    Server::start(sandbox.command(&args), socket)
}

fn smart(sandbox: &Sandbox) -> serde_json::Value {
    sandbox.ok(&["ssd", "smart", "drive", "--json"]).json()
}

#[test]
fn clients_copy_images_in_and_out_and_smart_counts_them() {
    let sandbox = Sandbox::new();
    let server = serve(&sandbox, &SMALL);
    let uri = server.uri("");
    tool("nbdinfo", &[&uri]);
    let image = sandbox.text("image");
    let mut bytes = onefold_block::SplitMix64::new(1).bytes(24 << 20);
    bytes[5 << 20..9 << 20].fill(0);
    std::fs::write(&image, &bytes).unwrap();
    tool("nbdcopy", &["--flush", &image, &uri]);
    tool("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, &uri]);
    let out = sandbox.text("out");
    tool("nbdcopy", &[&uri, &out]);
    let back = std::fs::read(&out).unwrap();
    assert!(back[..bytes.len()] == bytes, "the image came back");
    assert!(back[bytes.len()..].iter().all(|&byte| byte == 0), "and nothing else");
    server.stop();
    let said = smart(&sandbox);
    let log = &said["nvme_smart_health_information_log"];
    assert_eq!(said["smart_status"]["passed"], true, "{said}");
    assert_eq!(log["power_cycles"], 1);
    assert_eq!(log["unsafe_shutdowns"], 0);
    assert!(log["data_units_written"].as_u64().unwrap() >= (20 << 20) / 512_000, "{log}");
    assert!(said["write_amplification"]["total"].as_f64().unwrap() >= 1.0, "{said}");
    assert_eq!(said["closed"], true);
    assert!(said["nand"]["pages_programmed"].as_u64().unwrap() >= (20 << 20) / 8192, "{said}");
    let text = sandbox.ok(&["ssd", "smart", "drive"]);
    assert!(text.text().contains("percentage used"), "{}", text.text());
}

#[test]
fn a_drive_is_opened_as_it_is_and_other_wishes_are_refused_by_name() {
    let sandbox = Sandbox::new();
    serve(&sandbox, &SMALL).stop();
    serve(&sandbox, &[]).stop();
    let run = |more: &[&str]| {
        let listen = format!("unix:{}", sandbox.path("other").display());
        let args = [&["ssd", "serve", "--dir", "drive", "--listen", &listen], more].concat();
        sandbox.onefold(&args)
    };
    let said = run(&["--preset", "ses-slc"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("'ftl.over_provisioning = 0.6'"), "{}", said.err);
    let said = run(&["--set", "geometry.plans_per_die=2"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("planes_per_die"), "{}", said.err);
    assert_eq!(run(&["--run", "exit 1"]).code, Some(1), "the status of what it was for");
    let server = serve(&sandbox, &[]);
    let said = run(&[]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains(&format!("in use by process {}", server.pid())), "{}", said.err);
    server.stop();
    let said = sandbox.onefold(&["ssd", "smart", "nothing"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    std::fs::create_dir(sandbox.path("full")).unwrap();
    std::fs::write(sandbox.path("full/letter"), "dear").unwrap();
    let listen = format!("unix:{}", sandbox.path("other").display());
    let said = sandbox.onefold(&["ssd", "serve", "--dir", "full", "--listen", &listen]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("'letter'"), "{}", said.err);
    assert_eq!(std::fs::read_dir(sandbox.path("full")).unwrap().count(), 1, "left as it was");
}

#[test]
fn a_drive_without_its_specification_is_told_where_it_has_it_from() {
    let sandbox = Sandbox::new();
    serve(&sandbox, &SMALL).stop();
    let spec = sandbox.path("drive/spec.toml");
    let before = std::fs::read(&spec).unwrap();
    std::fs::remove_file(&spec).unwrap();
    let mut hints = Vec::new();
    for args in [
        &["ssd", "serve", "--dir", "drive", "--run", "true"][..],
        &["ssd", "serve", "--dir", "drive", "--run", "true", "--must-exist"],
        &["ssd", "serve", "--dir", "drive", "--run", "true", "--set", "victim=fifo"],
        &["ssd", "smart", "drive"],
    ] {
        let said = sandbox.onefold(args);
        assert_eq!(said.code, Some(2), "{args:?}: {}", said.err);
        assert!(said.err.contains("has lost its spec.toml"), "{args:?}: {}", said.err);
        let hint = said.err.lines().find_map(|line| line.split_once("it is in nand: "));
        hints.push(hint.expect("a way to have it back").1.to_owned());
    }
    assert!(hints.iter().all(|hint| *hint == hints[0]), "{hints:?}");
    let has_it_back = std::process::Command::new("sh")
        .args(["-c", &hints[0]])
        .current_dir(sandbox.path(""))
        .status()
        .unwrap();
    assert!(has_it_back.success() && std::fs::read(&spec).unwrap() == before, "{}", hints[0]);
    serve(&sandbox, &[]).stop();
}

#[test]
fn settings_change_on_top_of_the_drive_s_own_and_what_pages_depend_on_does_not() {
    let sandbox = Sandbox::new();
    serve(&sandbox, &[&SMALL[..], &["--set", "timing.read_latency_ns=77"]].concat()).stop();
    let spec = || std::fs::read_to_string(sandbox.path("drive/spec.toml")).unwrap();
    let before = spec();
    serve(&sandbox, &["--set", "victim=fifo", "--set", "media.wear=none"]).stop();
    let changed = spec();
    for line in ["victim = \"fifo\"", "wear = \"none\"", "read_latency_ns = 77"] {
        assert!(changed.lines().any(|has| has == line), "{line} in {changed}");
    }
    assert_eq!(before.lines().zip(changed.lines()).filter(|(a, b)| a != b).count(), 2);
    let refused = |set: &str, word: &str| {
        let said =
            sandbox.onefold(&["ssd", "serve", "--dir", "drive", "--run", "true", "--set", set]);
        assert_eq!(said.code, Some(2), "{set}: {}", said.err);
        assert!(said.err.contains(word), "{set}: {}", said.err);
    };
    for (set, word) in [
        ("geometry.pages_per_block=32", "pages_per_block = 16"),
        ("geometry.page_bytes=4096", "page_bytes = 8192"),
        ("over_provisioning=0.7", "its size follows from it"),
        ("media.code=bch", "encoded"),
        ("media.scrambler=none", "scrambled"),
        ("dedup.policy=ses-device", "dedup.policy"),
        ("seed=99", "seed"),
        ("gc_reserve_blocks=31", "smaller reserve"),
        ("victim=best", "greedy"),
        ("victim", "KEY=VALUE"),
        ("nonsense=1", "nonsense"),
    ] {
        refused(set, word);
    }
    assert_eq!(spec(), changed, "what is refused changes nothing");
    // The words that made it, and the change, still describe it.
    let words = [&SMALL[..], &["--set", "timing.read_latency_ns=77"]].concat();
    let both = [&words[..], &["--set", "victim=fifo", "--set", "media.wear=none"]].concat();
    serve(&sandbox, &both).stop();
    assert_eq!(spec(), changed);
}

#[test]
fn a_closed_terminal_stops_a_drive_in_order() {
    let sandbox = Sandbox::new();
    let mut server = serve(&sandbox, &SMALL);
    server.signal("HUP");
    assert_eq!(server.ended().code(), Some(0));
    assert_eq!(smart(&sandbox)["nvme_smart_health_information_log"]["unsafe_shutdowns"], 0);
}

#[test]
fn a_drive_without_readable_counters_is_served_and_says_so() {
    let sandbox = Sandbox::new();
    let server = serve(&sandbox, &SMALL);
    let write = "h.pwrite(b'x' * 8192, 0); h.flush()";
    run(&mut nbdsh(&["-u", &server.uri(""), "-c", write])).text();
    server.stop();
    for name in ["health.0", "health.1"] {
        std::fs::write(sandbox.path(&format!("drive/{name}")), "").unwrap();
    }
    let said = sandbox.ok(&["ssd", "smart", "drive"]).text().to_owned();
    assert!(said.contains("The counters cannot be read"), "{said}");
    assert_eq!(smart(&sandbox)["counters"]["readable"], false);
    let served =
        sandbox.ok(&["ssd", "serve", "--dir", "drive", "--run", "nbdcopy $uri - | head -c 4"]);
    assert!(served.text().contains("xxxx"), "{}", served.text());
    assert!(served.err.contains("counters begin anew"), "{}", served.err);
    let report = smart(&sandbox);
    assert_eq!(report["counters"]["readable"], true);
    assert!(report["counters"]["since_unix_s"].as_u64().unwrap() > 1_700_000_000, "{report}");
    let said = sandbox.ok(&["ssd", "smart", "drive"]).text().to_owned();
    assert!(said.contains("Counters since 20"), "{said}");
}

/// Content of a page by its number and version.
const PATTERN: &str = "
import hashlib
def page(i):
    return hashlib.sha256(b'%d' % i).digest() * 256
";

const WRITER: &str = "
i = START
while True:
    for k in range(16):
        h.pwrite(page(i + k), ((i + k) * 7919 % 2048) * 8192)
    i += 16
    h.flush()
    print(i, flush=True)
";

const READER: &str = "
newest = {}
for i in range(END):
    newest[i * 7919 % 2048] = i
late = set((END + k) * 7919 % 2048 for k in range(64))
for place, i in newest.items():
    if place not in late and h.pread(8192, place * 8192) != page(i):
        print('page', place, 'lost version', i)
print('read')
";

#[test]
fn what_was_flushed_outlives_kill_at_any_moment() {
    let sandbox = Sandbox::new();
    let mut end = 0u64;
    for round in 1..=3 {
        let server = serve(&sandbox, if round == 1 { &SMALL } else { &[] });
        let writer = format!("{PATTERN}{}", WRITER.replace("START", &end.to_string()));
        let mut client = nbdsh(&["-u", &server.uri(""), "-c", &writer])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("nbdsh is needed");
        let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
        for _ in 0..round * 60 {
            end = lines.next().unwrap().unwrap().parse().unwrap();
        }
        server.kill();
        for line in lines.map_while(Result::ok) {
            end = line.parse().unwrap();
        }
        client.wait().unwrap();
        let server = serve(&sandbox, &[]);
        // Pages written after the last flush may hold either version: they are left out.
        let reader = format!("{PATTERN}{}", READER.replace("END", &end.to_string()));
        assert_eq!(run(&mut nbdsh(&["-u", &server.uri(""), "-c", &reader])).text(), "read\n");
        server.stop();
    }
    let log = &smart(&sandbox)["nvme_smart_health_information_log"];
    assert_eq!(
        (log["power_cycles"].as_u64(), log["unsafe_shutdowns"].as_u64()),
        (Some(6), Some(3))
    );
}

#[test]
fn a_file_system_survives_kill_and_smart_tells() {
    let _machine = machine();
    let sandbox = Sandbox::new();
    let point = sandbox.text("mnt");
    let tree = sandbox.path("tree");
    copy_tree(Path::new("/usr/share"), &tree, &mut (12 << 20));
    let tree_text = tree.to_str().unwrap();
    let server = serve(&sandbox, &[&SMALL[..], &SHARING].concat());
    {
        let fuse = Fuse::mount(&sandbox, &server, "");
        tool("mkfs.ext4", &["-q", "-F", "-b", "4096", &fuse.file()]);
        let (device, _loop) = loop_device(&fuse.file());
        let _mount = mounted(&device, &point);
        tool("cp", &["-r", tree_text, &format!("{point}/kept")]);
        tool("sync", &["-f", &point]);
        // Nobody waits for these.
        tool("cp", &["-r", tree_text, &format!("{point}/lost")]);
        server.kill();
    }
    let server = serve(&sandbox, &[]);
    {
        let fuse = Fuse::mount(&sandbox, &server, "");
        let repaired = run(std::process::Command::new("e2fsck").args(["-fy", &fuse.file()]));
        // 1 is what a replayed journal and its leftovers look like.
        assert!(matches!(repaired.code, Some(0 | 1)), "{}", repaired.text());
        let (device, _loop) = loop_device(&fuse.file());
        let _mount = mounted(&device, &point);
        tool("diff", &["-r", tree_text, &format!("{point}/kept")]);
        tool("rm", &["-rf", &format!("{point}/lost")]);
        tool("cp", &["-r", tree_text, &format!("{point}/again")]);
        tool("fstrim", &[&point]);
        tool("umount", &[&point]);
        tool("e2fsck", &["-fn", &device]);
    }
    server.stop();
    let said = smart(&sandbox);
    let log = &said["nvme_smart_health_information_log"];
    assert_eq!(
        (log["power_cycles"].as_u64(), log["unsafe_shutdowns"].as_u64()),
        (Some(2), Some(1))
    );
    assert_eq!(
        (log["media_errors"].as_u64(), log["critical_warning"].as_u64()),
        (Some(0), Some(0))
    );
    let written = said["deduplication"]["mapped_pages"].as_u64().unwrap();
    assert!(written * 4096 > 20 << 20, "{said}");
    let ratio = said["deduplication"]["ratio"].as_f64().unwrap();
    // How much of the second copy was compared before the kill is a matter of luck; the file
    // system's own blocks have no twins.
    assert!(ratio > 1.2, "two copies of one tree: {said}");
}

#[test]
fn exports_of_one_drive_keep_pages_or_deduplicate_them() {
    let sandbox = Sandbox::new();
    let image = sandbox.text("image");
    let page = |number: u64| onefold_block::SplitMix64::new(number % 4).bytes(4096);
    std::fs::write(&image, (0..512).flat_map(page).collect::<Vec<u8>>()).unwrap();
    let made = [&SMALL[..], &SHARING[..4], &["--set", "dedup.policy=caftl-online"]].concat();
    for (export, drive, word, ratio) in
        [("keep", &made[..], "no", 1.0), ("deduplicate", &[], "yes", 128.0)]
    {
        let (recording, trace) = (format!("{export}.rec"), format!("{export}.csv"));
        let server = serve(&sandbox, &[drive, &["--record", &recording]].concat());
        tool("nbdcopy", &["--flush", &image, &server.uri(export)]);
        for other in ["", "keep", "deduplicate"] {
            let compare = ["compare", "-f", "raw", "-F", "raw", &image, &server.uri(other)];
            tool("qemu-img", &compare);
        }
        server.stop();
        assert_eq!(smart(&sandbox)["deduplication"]["ratio"], ratio, "{export}");
        sandbox.ok(&["trace", "convert", &recording, &trace]);
        let trace = std::fs::read_to_string(sandbox.path(&trace)).unwrap();
        let mut writes = trace.lines().filter(|line| line.contains(",write,")).peekable();
        assert!(writes.peek().is_some() && writes.all(|line| line.ends_with(word)), "{trace}");
    }
}

#[test]
fn the_host_s_scrambler_leaves_plain_data_in_the_file_where_the_host_wants_it() {
    let sandbox = Sandbox::new();
    let page = |number: u64| format!("page {number:06}, ").repeat(4096 / 13 + 1)[..4096].to_owned();
    let image = sandbox.text("image");
    // The second thousand repeats the first.
    let pages: String = (0..2000).map(|number| page(number % 1000)).collect();
    std::fs::write(&image, &pages).unwrap();
    let host = ["--set", "dedup.policy=ses-host", "--set", "dedup.lba_ranges=[[500, 1599]]"];
    let server = serve(&sandbox, &[&SMALL[..], &SHARING[..4], &host].concat());
    tool("nbdcopy", &["--flush", &image, &server.uri("")]);
    server.kill();
    // One copy of each page that is wanted, whether or not its twin was found so far.
    let cells = std::fs::read(sandbox.path("drive/nand")).unwrap();
    let lies_plain = |number: u64| {
        let wanted = page(number);
        cells.chunks_exact(4096).any(|cells| cells == wanted.as_bytes())
    };
    for number in (0..1000).step_by(50) {
        assert_eq!(lies_plain(number), number >= 500 || number + 1000 <= 1599, "page {number}");
    }
    // Other pages are wanted from now on; all come back as they were written.
    let server = serve(&sandbox, &["--set", "dedup.lba_ranges=[[0, 99]]"]);
    tool("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, &server.uri("")]);
    tool("nbdcopy", &["--flush", &image, &server.uri("")]);
    tool("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, &server.uri("")]);
    server.stop();
    let said = smart(&sandbox);
    assert_eq!(said["nvme_smart_health_information_log"]["media_errors"], 0, "{said}");
}

#[test]
fn smart_says_what_is_in_memory_alone() {
    let sandbox = Sandbox::new();
    let server = serve(&sandbox, &[&SMALL[..], &SHARING].concat());
    let tell = |script: &str| {
        let said = run(&mut nbdsh(&["-u", &server.uri(""), "-c", script]));
        assert_eq!(said.code, Some(0), "{}", said.err);
    };
    let pending = || {
        let pending = &smart(&sandbox)["pending_in_memory"];
        assert_eq!(pending["lost"], serde_json::Value::Null, "{pending}");
        pending["records"].as_u64().unwrap()
    };
    assert_eq!(pending(), 0);
    // Four trims apart, and nothing is flushed by a client that just goes.
    tell("h.pwrite(b'x' * 65536, 0)");
    tell("h.flush()");
    assert_eq!(pending(), 0, "flushed");
    tell("[h.trim(4096, at) for at in (0, 8192, 16384, 24576)]");
    assert_eq!(pending(), 4);
    let text = sandbox.ok(&["ssd", "smart", "drive"]);
    assert!(text.text().contains("4 changes are acknowledged and in memory alone"), "{text:?}");
    server.kill();
    assert_eq!(pending(), 4, "a killed server's, until the next start");
    serve(&sandbox, &[]).stop();
    assert_eq!(pending(), 0);
    let text = sandbox.ok(&["ssd", "smart", "drive"]);
    assert!(!text.text().contains("in memory alone"), "{text:?}");
}
