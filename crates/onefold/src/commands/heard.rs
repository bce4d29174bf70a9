//! Commands in the tests' own process, and what they say.
//! Room: onefold.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;
use onefold_control::{Job, Report};
use onefold_pool::Pool;
use serde::Serialize;

use crate::args::{Args, Command};
use crate::failure::Result;
use crate::operate::{Context, Operation};
use crate::output::{Heard, Printer};
use crate::settings_file::Parsed;

/// A folder that goes away with the test.
pub struct Folder(tempfile::TempDir);

/// What a command said, and whether it succeeded.
pub struct Said {
    pub code: u8,
    pub out: String,
    pub err: String,
}

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A file with these bytes.
    pub fn file(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    /// Do what a command line says. What begins with `./` is in the folder, and is so in what is
    /// said.
    pub fn onefold(&self, line: &str) -> Said {
        let here = format!("{}/", self.0.path().display());
        let words = line.split_whitespace().map(|word| match word.strip_prefix("./") {
            Some(name) => format!("{here}{name}"),
            None => word.to_owned(),
        });
        let args = args(words);
        let parsed =
            Parsed { args, written: std::iter::empty().collect(), passed_over: Vec::new() };
        let heard = Heard::default();
        let printer = Printer::heard(&heard);
        let code = crate::run(&parsed, &printer).unwrap_or_else(|failure| {
            printer.failure(&failure);
            failure.exit_code()
        });
        let (out, err) = std::mem::take(&mut *heard.lock().unwrap());
        let [out, err] = [out, err].map(|text| text.replace(&here, "./"));
        Said { code: status_of(code), out, err }
    }

    /// The same, which must succeed.
    pub fn ok(&self, line: &str) -> Said {
        let said = self.onefold(line);
        assert_eq!(said.code, 0, "{line}: {}", said.err);
        said
    }

    /// The same, which must fail with this status. What it said of that.
    pub fn refused(&self, line: &str, code: u8) -> String {
        let said = self.onefold(line);
        assert_eq!(said.code, code, "{line}: {}{}", said.out, said.err);
        said.err
    }
}

impl Said {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap()
    }
}

fn args(words: impl Iterator<Item = String>) -> Args {
    let parsed = Args::try_parse_from(std::iter::once("onefold".to_owned()).chain(words));
    parsed.unwrap_or_else(|error| panic!("{error}"))
}

/// What a command line says.
pub fn parsed(line: &str) -> Command {
    args(line.split_whitespace().map(str::to_owned)).command
}

/// The number in an exit status, which does not tell it but is the same as another one.
fn status_of(code: ExitCode) -> u8 {
    let same = |status: &u8| format!("{:?}", ExitCode::from(*status)) == format!("{code:?}");
    (0..=u8::MAX).find(same).unwrap()
}

/// Do an operation with a pool that no server has.
pub fn operate(pool: &Pool, operation: &Operation, request: &impl Serialize) -> Result<Report> {
    let folder = tempfile::tempdir().unwrap();
    let job = &Job::watched(|_| {});
    let (at, folder) = (std::path::Path::new("p"), folder.path());
    let context = Context { pool, at, folder, cache: None, job, live: None };
    (operation.run)(&context, serde_json::to_value(request).unwrap())
}
