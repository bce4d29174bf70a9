//! `onefold pool set`: limits of the server that has a pool, without a restart.
//! Room: onefold.

use onefold_block::ByteSize;
use onefold_cache::tier::{TierSize, WearBudget};
use onefold_control::Report;
use onefold_pool::SpaceTarget;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pool_drain::served;
use crate::args::{
    Background, BackgroundArgs, CacheWrites, MemoryArgs, PoolSetArgs, Thousandths, parse_times,
    parse_years,
};
use crate::endurance;
use crate::failure::{Failure, Result};
use crate::operate::live::Live;
use crate::operate::{Context, table};
use crate::output::Printer;

/// What to set; what is left out stays as it is.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// When to work in the background.
    pub background: Option<Background>,
    /// How many bytes may be stored for each byte that is alive.
    pub space_target: Option<f64>,
    /// Memory for decompressed blocks that were read lately, in bytes.
    pub cache_memory_bytes: Option<u64>,
    /// Memory for finding duplicates, in bytes.
    pub index_memory_bytes: Option<u64>,
    /// Most that the cache takes on its fast device: a size such as `100G`, or a share such as
    /// `20%`.
    pub cache_size: Option<String>,
    /// How often the cache's size may be written in a day, from 0.001 to 1000; 0: as often as the
    /// policy likes.
    pub cache_writes_per_day: Option<f64>,
    /// Years that the cache's device is to last from now on, from 0.1 to 100.
    pub cache_years: Option<f64>,
}

impl Request {
    const fn is_about_cache(&self) -> bool {
        self.cache_size.is_some()
            || self.cache_writes_per_day.is_some()
            || self.cache_years.is_some()
    }
}

/// Set limits.
pub fn operate(context: &Context<'_>, request: &Request) -> Result<Report> {
    let Some(live) = context.live else {
        return Err(Failure::nothing_done("only a running server has limits to set"));
    };
    // All that can be refused is refused before anything is set.
    if request.cache_memory_bytes.is_some() || request.index_memory_bytes.is_some() {
        check_memory(context, request)?;
    }
    let background = background_of(context, live, request)?;
    let mut report = Report::default();
    if request.is_about_cache() {
        set_cache(context, request, &mut report)?;
    }
    if let Some(bytes) = request.cache_memory_bytes {
        context.pool.set_cache_memory(bytes).map_err(|error| context.failed(error))?;
        report.notes.push(format!("memory of the read cache: {}", ByteSize(bytes)));
    }
    if let Some(bytes) = request.index_memory_bytes {
        let again = context.pool.set_index_memory(bytes).map_err(|error| context.failed(error))?;
        if let Some(bell) = live.index.as_ref().filter(|_| again) {
            bell.fill();
        }
        report.notes.push(format!("memory for finding duplicates: {}", ByteSize(bytes)));
    }
    if let Some(now) = background {
        live.set_background(context.pool, now);
        if request.background.is_some() {
            report.notes.push(format!("work in the background: {}", now.background.name()));
        }
        if request.space_target.is_some() {
            report.notes.push(format!("space target: {}", now.space_target));
        }
    }
    if report.notes.is_empty() {
        let all = "--background, --space-target, --cache-memory, --index-memory, --cache-size, \
                   --cache-writes-per-day and --cache-years can be set";
        return Err(Failure::nothing_done("there is nothing to set").hint(all));
    }
    Ok(report)
}

/// How to work in the background from now on, if that is to change.
fn background_of(
    context: &Context<'_>,
    live: &Live,
    request: &Request,
) -> Result<Option<BackgroundArgs>> {
    if request.background.is_none() && request.space_target.is_none() {
        return Ok(None);
    }
    let Some(mut now) = live.background() else {
        return Err(Failure::nothing_done("a pool that is served read-only has no work to do"));
    };
    if let Some(when) = request.background {
        now.background = when;
    }
    if let Some(ratio) = request.space_target {
        now.space_target = SpaceTarget::new(ratio).map_err(|e| context.failed(e))?;
    }
    Ok(Some(now))
}

/// Set what the cache may be. What cannot be read is refused before anything is set.
fn set_cache(context: &Context<'_>, request: &Request, report: &mut Report) -> Result<()> {
    let Some((cache, tier)) = context.cache.and_then(|cache| Some((cache, cache.tier.as_ref()?)))
    else {
        return Err(Failure::nothing_done("the pool has no cache that is in use")
            .hint("serve it with --cache FOLDER on a fast device"));
    };
    let size = request.cache_size.as_deref().map(str::parse::<TierSize>).transpose();
    let size = size.map_err(|error| Failure::nothing_done(error.to_string()))?;
    let budget = match (request.cache_writes_per_day, request.cache_years) {
        (None, None) => None,
        (Some(0.0), None) => Some(None),
        (Some(times), None) => {
            let Thousandths(times) =
                parse_times(&times.to_string()).map_err(Failure::nothing_done)?;
            Some(Some(WearBudget::Share(times)))
        }
        (None, Some(years)) => {
            let years = parse_years(&years.to_string()).map_err(Failure::nothing_done)?;
            let budget = endurance::budget_of(years, &cache.life.life());
            Some(Some(budget.map_err(Failure::nothing_done)?))
        }
        (Some(_), Some(_)) => {
            return Err(Failure::nothing_done("writes a day follow from years: name one of them"));
        }
    };
    if let Some(size) = size {
        tier.resize(size).map_err(|error| Failure::nothing_done(error.to_string()))?;
        let bytes = ByteSize(tier.status().capacity_bytes);
        report.notes.push(format!("cache on the fast device: {size}, {bytes} for now"));
    }
    if let Some(budget) = budget {
        tier.set_writes_per_day(budget);
        let text = match tier.status().writes_per_day {
            None => "as many as the policy likes".to_owned(),
            Some(bytes) => format!("{} a day", ByteSize(bytes)),
        };
        report.notes.push(format!("writes to the cache's device: {text}"));
    }
    Ok(())
}

/// Refuse memory that the machine can never give, or that a pool does not work with.
fn check_memory(context: &Context<'_>, request: &Request) -> Result<()> {
    let now = context.pool.status().map_err(|error| context.failed(error))?;
    let memory = MemoryArgs {
        index_memory: ByteSize(request.index_memory_bytes.unwrap_or(now.index_memory_max_bytes)),
        map_memory: ByteSize(now.map_memory_max_bytes),
        cache_memory: ByteSize(request.cache_memory_bytes.unwrap_or(now.cache_memory_max_bytes)),
    };
    memory.budgets().map(drop)
}

/// Set limits, and say what they are.
pub fn run(args: &PoolSetArgs, printer: &Printer) -> Result<()> {
    let door = served(&args.pool)?;
    let request = Request {
        background: args.background,
        space_target: args.space_target.map(|target| target.stored_over_live()),
        cache_memory_bytes: args.cache_memory.map(ByteSize::bytes),
        index_memory_bytes: args.index_memory.map(ByteSize::bytes),
        cache_size: args.cache_size.map(|size| match size {
            TierSize::Bytes(bytes) => bytes.to_string(),
            TierSize::Percent(percent) => format!("{percent}%"),
        }),
        cache_writes_per_day: args.cache_writes_per_day.map(|writes| match writes {
            CacheWrites::Times(times) => times.value(),
            CacheWrites::Unlimited => 0.0,
        }),
        cache_years: args.cache_years.map(Thousandths::value),
    };
    let report = door.call(&table::POOL_SET, &request, printer)?;
    printer.report(report, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::heard::{self, Folder};
    use crate::test_pool;

    #[test]
    fn a_pool_that_no_server_has_has_nothing_to_set() {
        let here = Folder::new();
        here.ok("pool create ./p");
        let said = here.refused("pool set ./p --cache-memory 1M", 2);
        let none = "error: no server has pool './p'\n\
                    hint: one is started with: onefold serve ./p\n";
        assert_eq!(said, none);
        assert_eq!(here.refused("pool drain ./p", 2), none);
        assert!(here.refused("pool drain ./q", 2).contains("there is no pool at './q'"));
        let report = heard::operate(&test_pool::pool(), &table::POOL_SET, &Request::default());
        assert_eq!(report.unwrap_err().message, "only a running server has limits to set");
        for (operation, why) in [
            (&table::POOL_DRAIN, "no server is there to stop"),
            (&table::POOL_ADDRESSES, "only a running server listens anywhere"),
        ] {
            let report = heard::operate(&test_pool::pool(), operation, &serde_json::json!({}));
            assert_eq!(report.unwrap_err().message, why);
        }
    }
}
