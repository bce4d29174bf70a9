//! `onefold pool status`: what a pool holds, saves and uses.
//! Room: onefold.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use onefold_block::ByteSize;
use onefold_control::Report;
use onefold_control::report::heading;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::PoolStatusArgs;
use crate::endurance::{self, Endurance};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::open_pool::uuid_text;
use crate::operate::door::{self, Opening};
use crate::operate::{Context, table};
use crate::output::Printer;
use crate::pool_cache::{CacheReport, ServedCache};
use crate::scrub_state::ScrubState;
use crate::status_view::{StatusJson, status_text};
use crate::utc::utc_text;

/// Between two looks of `--watch`, and how soon it hears of Ctrl-C.
const PERIOD: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);
/// Has a terminal begin at the top of an empty screen.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// What to tell.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Folder of the pool's cache, of which is told what it saved last; a running server knows its
    /// own.
    pub cache: Option<PathBuf>,
    /// Bytes that the cache's device can take in its life.
    pub cache_endurance_bytes: Option<u64>,
    /// Instead of that, to ask the drive: `smart`, or `smart:/dev/DRIVE`.
    pub cache_smart: Option<String>,
}

/// Tell the status.
pub fn operate(context: &Context<'_>, request: &Request) -> Result<Report> {
    let status = context.pool.status().map_err(|error| context.failed(error))?;
    // A server says nothing of folders that clients name.
    let folder = request.cache.as_deref().filter(|_| context.live.is_none());
    let smart = request.cache_smart.as_deref().map(str::parse).transpose();
    let smart: Option<Endurance> = smart.map_err(Failure::nothing_done)?;
    let size = || request.cache_endurance_bytes.map(|bytes| Endurance::Bytes(ByteSize(bytes)));
    let endurance = smart.or_else(size);
    let saved = folder.map(|folder| {
        let life = endurance::ask(endurance.as_ref(), folder);
        CacheReport::saved(folder, life, &status.uuid)
    });
    let cache = context.cache.and_then(ServedCache::report).or(saved);
    let scrub = ScrubState::read(context.folder, &uuid_text(&status.uuid));
    let mut text = status_text(context.at, &status, cache.as_ref(), heading);
    text.extend(scrub.as_ref().map(scrub_line));
    let json = StatusJson::new(context.at, &status, cache.as_ref(), scrub);
    Ok(Report::default().with_result(&json).with_text(&text))
}

/// Print the status.
pub fn run(args: &PoolStatusArgs, printer: &Printer) -> Result<()> {
    let (cache_endurance_bytes, cache_smart) = match &args.cache.cache_endurance {
        None => (None, None),
        Some(Endurance::Bytes(size)) => (Some(size.bytes()), None),
        Some(drive) => (None, Some(drive.to_string())),
    };
    let request = Request { cache: args.cache.cache.clone(), cache_endurance_bytes, cache_smart };
    let opening = Opening::Read(args.memory.budgets()?);
    let ask = || door::call(&args.pool, opening, &table::POOL_STATUS, &request, printer);
    if !args.watch {
        return printer.report(ask()?, args.json);
    }
    interrupt::heed();
    let clears = !args.json && std::io::stdout().is_terminal();
    while !interrupt::asked() {
        let report = ask()?;
        if clears {
            printer.data(CLEAR)?;
        }
        printer.report(report, args.json)?;
        let until = Instant::now() + PERIOD;
        while !interrupt::asked() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }
    Ok(())
}

fn scrub_line(scrub: &ScrubState) -> String {
    let (read, found) = (scrub.read_text(), scrub.verdict());
    let when = match scrub.ended_s {
        Some(seconds) => {
            let at = i64::try_from(seconds).unwrap_or(i64::MAX);
            format!("last scrub ended {}", utc_text(at))
        }
        None => "a scrub is not at its end".to_owned(),
    };
    let hint = if scrub.findings_total > 0 { " (details in POOL/scrub.json)" } else { "" };
    format!("{when}: {found}{hint}; it read {read}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrub_is_told_with_its_end_and_where_its_findings_are() {
        let mut scrub = ScrubState::new("p".to_owned());
        let read = "it read 0 records in 0 containers (0 B)";
        let sound = format!("a scrub is not at its end: nothing is wrong; {read}\n");
        assert_eq!(scrub_line(&scrub), sound);
        (scrub.ended_s, scrub.findings_total, scrub.blocks_total) = (Some(0), 1, 2);
        let found = format!(
            "last scrub ended 1970-01-01 00:00:00: 1 container is damaged, 2 blocks cannot be \
             read (details in POOL/scrub.json); {read}\n"
        );
        assert_eq!(scrub_line(&scrub), found);
    }

    #[test]
    fn a_status_ends_with_the_last_scrub() {
        use crate::commands::heard::Folder;

        let here = Folder::new();
        let said = here.ok("pool create ./p --chunk-size 8K");
        let made = "made pool './p': 8 KiB chunks, ";
        assert!(said.err.starts_with(made), "{}", said.err);
        assert!(said.err.ends_with("next: onefold volume create ./p NAME --size 64G\n"));
        let before = here.ok("pool status ./p");
        assert!(!before.out.contains("scrub") && before.err.is_empty(), "{}", before.out);
        here.ok("pool scrub ./p");
        let last = here.ok("pool status ./p").out.lines().last().unwrap().to_owned();
        assert!(last.starts_with("last scrub ended 2") && last.contains("nothing is wrong"));
        assert_eq!(here.ok("pool status ./p --json").json()["settings"]["chunk_bytes"], 8192);
    }

    #[test]
    fn what_a_cache_saved_last_is_told_to_whoever_names_its_folder() {
        use crate::commands::heard::{self, Folder};
        use crate::test_pool;

        let here = Folder::new();
        here.ok("pool create ./p --cache ./fast --cache-size 64M");
        let without = here.ok("pool status ./p").out;
        let with = here.ok("pool status ./p --cache ./fast").out;
        assert!(with.len() > without.len() && with.to_lowercase().contains("cache"), "{with}");
        let request = Request { cache_smart: Some("odd".to_owned()), ..Request::default() };
        assert!(heard::operate(&test_pool::pool(), &table::POOL_STATUS, &request).is_err());
    }
}
