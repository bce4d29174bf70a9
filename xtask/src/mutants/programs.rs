//! The test programs of a crate: built once, run with one switch on.
//! Room: xtask.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::ops::Range;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::schema::{REACHED, SWITCH};
use super::tree::Places;
use crate::cargo;

/// What a process of tests may have in private memory that it can write, in bytes, and each process
/// that it starts too. The sound tests of any crate stay far below it; a change that never stops
/// asking for memory must be refused long before the machine has none left, or the kernel ends
/// other programs instead.
const MEMORY_MAX: u64 = 4 << 30;

/// The name in the environment by which all processes of one run of tests are known, those too that
/// began a session of their own.
const TRIAL: &str = "ONEFOLD_TRIAL";

/// How often processes of a run are looked for and killed: one may start another meanwhile.
const ROUNDS: u32 = 100;

/// How often a process that is between two programs is looked at, and how soon again.
const LOOKS: u32 = 1000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// A test program.
#[derive(Clone, Debug)]
pub struct Program {
    /// `lib` or `bin` for the tests inside, or the name of the folder under `tests/`.
    pub name: String,
    path: PathBuf,
    folder: PathBuf,
    /// The programs that its tests start, and when each was built.
    starts: Vec<(PathBuf, SystemTime)>,
}

/// How a run of tests ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All passed.
    Passed,
    /// One failed, or the program died.
    Failed,
    /// It ran for longer than it may.
    TooLong,
}

/// What a build came to.
pub enum Built {
    /// The programs, those with the tests inside first.
    Programs(Vec<Program>),
    /// These switches stand where the compiler refuses what they do.
    Refused(BTreeSet<u32>),
}

/// Which test programs of a crate are built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of them, without examples, which no test runs.
    All,
    /// The one of this name: `lib`, `bin`, or that of tests from outside.
    Only(String),
}

impl Wanted {
    /// The program that all of these name, or all programs.
    pub fn of<'a>(mut names: impl Iterator<Item = &'a str>) -> Self {
        match names.next() {
            Some(first) if names.all(|name| name == first) => Self::Only(first.to_owned()),
            _ => Self::All,
        }
    }

    fn args(&self) -> Vec<&str> {
        match self {
            Self::All => vec!["--tests"],
            Self::Only(name) if name == "lib" => vec!["--lib"],
            Self::Only(name) if name == "bin" => vec!["--bins"],
            Self::Only(name) => vec!["--test", name],
        }
    }
}

/// Build tests of a crate in the copied tree.
pub fn build(
    copy: &Path,
    (name, wanted): (&str, &Wanted),
    target: &Path,
    places: &Places,
) -> Result<Built> {
    // With all features, as `cargo xtask ci` tests it.
    let output = cargo::command(&["test", "--no-run", "--all-features"])
        .args(wanted.args())
        .args(["--package", name, "--message-format", "json"])
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", target)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    let lines = String::from_utf8_lossy(&output.stdout);
    let messages = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let (mut programs, mut starts) = (Vec::new(), Vec::new());
    let mut refused = BTreeSet::new();
    let mut other = None;
    for message in messages {
        if let Some(program) = program(&message, copy) {
            programs.push(program);
        } else if let Some(path) = message["executable"].as_str() {
            starts.push((PathBuf::from(path), built(Path::new(path))?));
        }
        let report = &message["message"];
        if report["level"] == "error" {
            let guilty = guilty(report, places);
            if guilty.is_empty() && !report["spans"].as_array().is_none_or(Vec::is_empty) {
                other = report["rendered"].as_str().map(str::to_owned);
            }
            refused.extend(guilty);
        }
    }
    if output.status.success() {
        let inside = |program: &Program| matches!(program.name.as_str(), "lib" | "bin");
        programs.sort_by_key(|program| (!inside(program), program.name.clone()));
        for program in &mut programs {
            program.starts.clone_from(&starts);
        }
        return Ok(Built::Programs(programs));
    }
    if refused.is_empty() {
        bail!("the changed tree does not build: {}", other.unwrap_or_default());
    }
    Ok(Built::Refused(refused))
}

/// The test program that a message of cargo announces.
fn program(message: &Value, copy: &Path) -> Option<Program> {
    let path = PathBuf::from(message["executable"].as_str()?);
    if message["profile"]["test"] != true {
        return None;
    }
    let kind = message["target"]["kind"][0].as_str()?;
    let inside = matches!(kind, "lib" | "bin");
    let name = if inside { kind } else { message["target"]["name"].as_str()? };
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let folder = manifest.parent().unwrap_or(copy).to_owned();
    Some(Program { name: name.to_owned(), path, folder, starts: Vec::new() })
}

/// When a program was built.
fn built(path: &Path) -> Result<SystemTime> {
    let of = || path.metadata()?.modified();
    of().with_context(|| format!("cannot look at {}", path.display()))
}

/// The switches within which an error of the compiler lies.
fn guilty(report: &Value, places: &Places) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for span in report["spans"].as_array().into_iter().flatten() {
        let file = span["file_name"].as_str().unwrap_or_default();
        let number = |name: &str| span[name].as_u64().unwrap_or_default() as usize;
        let at: Range<usize> = number("byte_start")..number("byte_end");
        let inside = places.get(file).into_iter().flatten();
        let inside = inside.filter(|(_, place)| at.start < place.end && place.start < at.end);
        found.extend(inside.map(|(id, _)| *id));
    }
    found
}

impl Program {
    /// The names of its tests, without those that are left out by default.
    pub fn tests(&self) -> Result<Vec<String>> {
        let list = |more: &[&str]| -> Result<BTreeSet<String>> {
            let args = ["--list", "--format", "terse"];
            let output = self.command(&[]).args(args).args(more).output();
            let output = output.with_context(|| format!("cannot run {}", self.name))?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
            Ok(names.map(str::to_owned).collect())
        };
        let ignored = list(&["--ignored"])?;
        Ok(list(&[])?.difference(&ignored).cloned().collect())
    }

    /// Run one test unchanged; the switches that it comes by.
    pub fn switches_of(
        &self,
        test: &str,
        notes: &Path,
        limit: Duration,
    ) -> Result<(Outcome, BTreeSet<u32>)> {
        let _ = std::fs::remove_file(notes);
        let mut command = self.command(&[test]);
        command.env(REACHED, notes);
        let outcome = watch(command, limit)?;
        self.must_start_what_was_built()?;
        let noted = std::fs::read_to_string(notes).unwrap_or_default();
        let _ = std::fs::remove_file(notes);
        Ok((outcome, noted.lines().filter_map(|line| line.parse().ok()).collect()))
    }

    /// Run tests with a switch on: those named, or all.
    pub fn run(&self, switch: u32, tests: &[&str], limit: Duration) -> Result<Outcome> {
        let mut command = self.command(tests);
        command.env(SWITCH, switch.to_string());
        let outcome = watch(command, limit)?;
        self.must_start_what_was_built()?;
        Ok(outcome)
    }

    /// Whoever builds in the same target folder meanwhile puts a program there that knows no
    /// switch, and every test that starts it passes.
    fn must_start_what_was_built(&self) -> Result<()> {
        for (path, then) in &self.starts {
            if built(path)? != *then {
                bail!("{} was built anew meanwhile: nothing can be said", path.display());
            }
        }
        Ok(())
    }

    fn command(&self, tests: &[&str]) -> Command {
        let mut command = limited(&self.path, MEMORY_MAX);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        if !tests.is_empty() {
            command.arg("--exact").args(tests);
        }
        command
    }
}

/// A program that gets no more memory than so many bytes. The kernel counts what is private and can
/// be written (`RLIMIT_DATA`): not addresses that are only set aside, nor files that are mapped, of
/// which the tests of a sound program have many.
fn limited(program: &Path, bytes: u64) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit -d {} && exec \"$0\" \"$@\"", bytes >> 10);
    command.args(["-c", &script]).arg(program);
    command
}

/// Run tests up to the first that fails. Nothing that they start outlives them.
fn watch(mut command: Command, limit: Duration) -> Result<Outcome> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let trial = format!("{}-{count}", std::process::id());
    let outcome = watch_group(command.env(TRIAL, &trial), limit);
    end_all(&trial)?;
    outcome
}

/// The same for those that stay in one group of processes.
fn watch_group(command: &mut Command, limit: Duration) -> Result<Outcome> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // A group of their own, so that what tests start can be ended with them.
    let child = child.process_group(0);
    let mut child = child.spawn().context("cannot run a test program")?;
    let Some(output) = child.stdout.take() else { bail!("a test program without output") };
    let (send, lines) = mpsc::channel();
    // It ends with the program, whose output it reads.
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    let end = Instant::now() + limit;
    let mut ran = false;
    loop {
        let next = lines.recv_timeout(end.saturating_duration_since(Instant::now()));
        match next {
            Ok(line) if line.ends_with(" ... FAILED") => return stop(child, Outcome::Failed),
            Ok(line) => ran |= line.starts_with("test result: ok. ") && !line.contains(" 0 passed"),
            Err(mpsc::RecvTimeoutError::Timeout) => return stop(child, Outcome::TooLong),
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait().context("cannot wait for a test program")?;
    if status.success() && !ran {
        bail!("no test ran: {command:?}");
    }
    Ok(if status.success() { Outcome::Passed } else { Outcome::Failed })
}

/// End tests with all that they started: who is killed stops no servers.
fn stop(mut child: Child, outcome: Outcome) -> Result<Outcome> {
    let group = format!("-{}", child.id());
    let mut kill = Command::new("kill");
    kill.args(["-KILL", "--", &group]).stderr(Stdio::null());
    // They may have ended by themselves meanwhile.
    let _ = kill.status().context("cannot run `kill`")?;
    child.wait().context("cannot wait for a test program")?;
    Ok(outcome)
}

/// Kill every process of a run.
fn end_all(trial: &str) -> Result<()> {
    let mark = format!("{TRIAL}={trial}");
    let mut none_before = false;
    for _ in 0..ROUNDS {
        let left = processes_with(&mark)?;
        if left.is_empty() {
            // One that had passed on to another, behind who was looking, is met the second time.
            if none_before {
                return Ok(());
            }
            none_before = true;
            continue;
        }
        none_before = false;
        let mut kill = Command::new("kill");
        kill.arg("-KILL").arg("--").args(left).stderr(Stdio::null());
        // They may have ended by themselves meanwhile.
        let _ = kill.status().context("cannot run `kill`")?;
    }
    bail!("processes of a run of tests cannot be ended: look for {mark} in /proc/*/environ")
}

/// The processes with this in their environment.
fn processes_with(mark: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").context("cannot look into /proc")? {
        let name = entry.context("cannot look into /proc")?.file_name();
        let number = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        let Some(number) = number else { continue };
        // Some are of others, and some have ended.
        let Ok(environment) = environment_of(number) else { continue };
        if environment.split(|&byte| byte == 0).any(|one| one == mark.as_bytes()) {
            found.push(number.to_owned());
        }
    }
    Ok(found)
}

/// The environment of a process. It has none for an instant while one program takes the place of
/// another, which is waited for.
fn environment_of(process: &str) -> std::io::Result<Vec<u8>> {
    let read = |file: &str| std::fs::read(format!("/proc/{process}/{file}"));
    for _ in 0..LOOKS {
        let environment = read("environ")?;
        if !environment.is_empty() || !is_between_programs(&String::from_utf8_lossy(&read("stat")?))
        {
            return Ok(environment);
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    Ok(Vec::new())
}

/// Whether the `stat` of a process that can be looked into is that of one whose program has no
/// environment yet: one that is empty has a place all the same. The kernel's own have no program.
fn is_between_programs(stat: &str) -> bool {
    const OF_KERNEL: u64 = 0x0020_0000;
    // Fields from the third on; the second is a name in parentheses.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let fields: Vec<&str> = fields.collect();
    let number = |field: usize| fields.get(field - 3).and_then(|field| field.parse::<u64>().ok());
    let (flags, environment_end) = (number(9), number(51));
    flags.is_some_and(|flags| flags & OF_KERNEL == 0) && environment_end == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_nobody_runs_is_not_built() {
        let args = |names: &[&str]| Wanted::of(names.iter().copied()).args().join(" ");
        assert_eq!(args(&["lib", "lib"]), "--lib");
        assert_eq!(args(&["bin"]), "--bins");
        assert_eq!(args(&["it", "it"]), "--test it");
        assert_eq!([args(&["it", "lib"]), args(&[])], ["--tests", "--tests"]);
    }

    #[test]
    fn a_run_ends_with_the_first_test_that_fails() {
        let passed = "echo 'test a ... ok'; echo 'test result: ok. 1 passed; 0 failed'";
        let failed = "echo 'test a ... FAILED'; exec sleep 1000";
        let died = "kill -9 $$";
        let limit = Duration::from_mins(10);
        assert_eq!(watch(shell(passed), limit).unwrap(), Outcome::Passed);
        assert_eq!(watch(shell(failed), limit).unwrap(), Outcome::Failed);
        assert_eq!(watch(shell(died), limit).unwrap(), Outcome::Failed);
        let endless = watch(shell("exec sleep 1000"), Duration::ZERO).unwrap();
        assert_eq!(endless, Outcome::TooLong);
    }

    #[test]
    fn a_process_between_two_programs_is_told_from_one_without_an_environment() {
        let fields = |flags: u64, environment_end: u64| {
            let rest = ["0"; 52 - 10].join(" ").replacen('0', "1", 1);
            let stat = format!("7 (a) b) S 1 1 1 0 -1 {flags} {rest}");
            let mut fields: Vec<String> = stat.split(' ').map(str::to_owned).collect();
            // The name has a space in it.
            fields[51] = environment_end.to_string();
            fields.join(" ")
        };
        assert!(is_between_programs(&fields(0x0040_0000, 0)));
        assert!(!is_between_programs(&fields(0x0040_0000, 4096)), "it is empty");
        assert!(!is_between_programs(&fields(0x0020_8040, 0)), "a thread of the kernel");
        assert!(!is_between_programs("") && !is_between_programs("7 (a) S 1"));
        // Those of real processes, whose places are of this kernel.
        let mut child = shell("exec sleep 1000");
        let mut child = child.env_clear().env("PATH", "/usr/bin:/bin").spawn().unwrap();
        let read = || environment_of(&child.id().to_string()).unwrap();
        let begun = Instant::now();
        while !read().starts_with(b"PATH=") {
            assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", read());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(!is_between_programs(&own));
    }

    #[test]
    fn tests_that_are_ended_leave_nothing_running() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let failed = "echo 'test a ... FAILED'; exec sleep 1000";
        let passed = "echo 'test result: ok. 1 passed; 0 failed'";
        for (starts, end, expected) in [
            ("sh", failed, Outcome::Failed),
            ("setsid sh", failed, Outcome::Failed),
            ("setsid sh", passed, Outcome::Passed),
        ] {
            let pipe = pipe.clone();
            let script = format!(
                "exec 3>{}; {starts} -c 'sleep 1000; echo left >&3' >/dev/null & {end}",
                pipe.display()
            );
            // It ends when nobody is there any more who could write.
            let reader = std::thread::spawn(move || std::fs::read_to_string(pipe));
            assert_eq!(watch(shell(&script), Duration::from_mins(10)).unwrap(), expected);
            assert_eq!(reader.join().unwrap().unwrap(), "");
        }
    }

    #[test]
    fn a_program_gets_no_more_memory_than_it_may_have() {
        // It asks for a buffer of that size at once.
        let copy = |block: &str| {
            let mut command = limited(Path::new("dd"), 256 << 20);
            let block = format!("bs={block}");
            command.args(["if=/dev/zero", "of=/dev/null", "count=1", "status=none", &block]);
            command.stderr(Stdio::null());
            command.status().unwrap().success()
        };
        assert!(copy("1M") && !copy("257M"));
        assert!(limited(Path::new("true"), MEMORY_MAX).status().unwrap().success());
    }

    #[test]
    fn words_of_a_program_stay_whole_under_a_limit() {
        let mut command = limited(Path::new("printf"), MEMORY_MAX);
        let output = command.args(["[%s]", "a b", "$c"]).output().unwrap();
        assert_eq!(output.stdout, b"[a b][$c]");
    }

    #[test]
    fn a_run_that_is_refused_memory_has_failed() {
        let mut command = limited(Path::new("dd"), 256 << 20);
        command.args(["if=/dev/zero", "of=/dev/null", "count=1", "bs=257M"]);
        assert_eq!(watch(command, Duration::from_mins(10)).unwrap(), Outcome::Failed);
    }

    #[test]
    fn a_run_without_a_test_is_an_error() {
        let empty = "echo 'test result: ok. 0 passed; 0 failed; 5 filtered out'";
        assert!(watch(shell(empty), Duration::from_mins(10)).is_err());
    }

    #[test]
    fn a_program_that_was_built_anew_meanwhile_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("started");
        std::fs::write(&path, "").unwrap();
        let then = built(&path).unwrap();
        let program = Program {
            name: "it".to_owned(),
            path: "true".into(),
            folder: folder.path().to_owned(),
            starts: vec![(path.clone(), then)],
        };
        program.must_start_what_was_built().unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(then + Duration::from_secs(1)).unwrap();
        let error = program.must_start_what_was_built().unwrap_err();
        assert!(error.to_string().contains("built anew"), "{error}");
    }

    #[test]
    fn tests_inside_a_program_are_called_by_its_kind() {
        let message = |kind: &str, test: bool| {
            serde_json::json!({
                "executable": "/t/onefold-1", "profile": {"test": test},
                "target": {"kind": [kind], "name": "named"}, "manifest_path": "/c/Cargo.toml",
            })
        };
        let called = |kind, test| program(&message(kind, test), Path::new("/")).map(|p| p.name);
        for (kind, name) in [("lib", "lib"), ("bin", "bin"), ("test", "named")] {
            assert_eq!(called(kind, true).as_deref(), Some(name));
        }
        assert!(called("bin", false).is_none(), "the program that tests start");
    }

    #[test]
    fn errors_are_laid_at_the_switch_in_which_they_are() {
        let mut places = Places::new();
        places.insert("a.rs".to_owned(), vec![(7, 10..20), (8, 30..40)]);
        let report = serde_json::json!({"level": "error", "spans": [
            {"file_name": "a.rs", "byte_start": 35, "byte_end": 36},
            {"file_name": "b.rs", "byte_start": 12, "byte_end": 13},
        ]});
        assert_eq!(guilty(&report, &places), BTreeSet::from([8]));
    }
}
