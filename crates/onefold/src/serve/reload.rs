//! `--on-hangup reload`: certificates and settings are read again while clients are served.
//! Room: onefold.
//! Invariant: what cannot be used is told, and stays as it was.

use onefold_pool::{Budgets, Pool};

use super::background::{self, Knobs};
use super::index_filler::Bell;
use super::listeners::Servers;
use super::notify;
use crate::args::{Command, ServeArgs};
use crate::output::Printer;
use crate::pool_cache::ServedCache;
use crate::settings_file::{self, ParseError};
use crate::watch::Watch;

/// What is read again, and for whom.
pub struct Reload<'a> {
    /// Who takes the certificates.
    pub servers: &'a Servers,
    /// And so does the page.
    pub watch: Option<&'a Watch>,
    /// And the cache its limits.
    pub cache: &'a ServedCache,
    /// Work in the background, if there is any.
    pub knobs: Option<&'a Knobs>,
    /// What asks for the index to be filled, if the pool may be changed.
    pub index: Option<&'a Bell>,
}

impl Reload<'_> {
    /// Read all of it again.
    pub fn run(&self, pool: &Pool, printer: &Printer) {
        notify::tell(&notify::reloading());
        let page = self.watch.map_or(Ok(()), Watch::renew_tls);
        for error in [self.servers.renew_tls(), page].into_iter().filter_map(Result::err) {
            tracing::error!("the certificates stay what they were: {error}");
        }
        match settings() {
            Ok(args) => self.apply(pool, &args),
            Err(why) => tracing::error!("the settings stay what they were: {why}"),
        }
        printer.note("reloaded: certificates for new connections, settings from now on");
        notify::tell(notify::READY);
    }

    fn apply(&self, pool: &Pool, args: &ServeArgs) {
        if let Some(knobs) = self.knobs {
            background::set(pool, knobs, args.background);
        }
        if let Err(why) = self.cache.apply(&args.cache) {
            tracing::error!("the cache stays what it was: {why}");
        }
        match args.memory.budgets() {
            Ok(budgets) => self.set_memory(pool, &budgets),
            Err(failure) => tracing::error!("the memory stays what it was: {}", failure.message),
        }
    }

    fn set_memory(&self, pool: &Pool, budgets: &Budgets) {
        if let Err(error) = pool.set_cache_memory(budgets.cache_bytes) {
            tracing::error!("the memory of the read cache stays what it was: {error}");
        }
        match pool.set_index_memory(budgets.index_bytes) {
            Ok(again) => {
                if let Some(bell) = self.index.filter(|_| again) {
                    bell.fill();
                }
            }
            Err(error) => tracing::error!("the memory of the index stays what it was: {error}"),
        }
    }
}

/// What the command line, the environment and the settings files say by now.
fn settings() -> Result<Box<ServeArgs>, String> {
    match settings_file::parse(std::env::args_os()) {
        Ok(parsed) => match parsed.args.command {
            Command::Serve(args) => Ok(args),
            _ => Err("this process does not serve a pool".to_owned()),
        },
        Err(ParseError::Clap(error)) => Err(error.to_string()),
        Err(ParseError::File(failure)) => Err(failure.message),
    }
}
