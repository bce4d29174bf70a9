//! `onefold pool create`: an empty pool.
//! Room: onefold.

use crate::args::PoolCreateArgs;
use crate::failure::Result;
use crate::make_pool;
use crate::output::Printer;
use crate::store_folder;

/// Make the pool.
pub fn run(args: &PoolCreateArgs, printer: &Printer) -> Result<()> {
    let settings = args.store.settings()?;
    make_pool::create(&args.pool, &settings, &args.memory, &args.cache, args.access)?;
    store_folder::tell_if_open(&args.pool, args.cache.cache.as_deref(), printer);
    let at = args.pool.display();
    printer.note(&format!(
        "made pool '{at}': {} chunks, {}, {}",
        settings.chunk_size, settings.fingerprint, settings.compression
    ));
    printer.note(&format!("next: onefold volume create {at} NAME --size 64G"));
    Ok(())
}
