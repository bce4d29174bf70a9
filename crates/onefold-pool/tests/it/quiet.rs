//! What is no damage is not logged as damage.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use onefold_block::{BlockDevice as _, BlockError, SplitMix64};
use tracing::span;

use crate::model::{CHUNK, main_volume};
use crate::support::{content, new_pool, small};

/// Counts what is logged as an error.
struct Errors(Arc<AtomicU64>);

impl tracing::Subscriber for Errors {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[test]
fn a_full_disk_is_not_logged_as_damage() {
    let logged = Arc::new(AtomicU64::new(0));
    tracing::subscriber::with_default(Errors(Arc::clone(&logged)), || {
        for seed in 0..20 {
            let (folder, pool) = new_pool(&small());
            let volume = main_volume(&pool, 4000).unwrap();
            folder.set_capacity(Some(6 << 20));
            let mut random = SplitMix64::new(seed);
            // Of several chunks each, so that one write fills more than one container.
            let chunks = 1 + random.below(100);
            let mut full = 0;
            for n in 0..2000 {
                let at = random.below(4000 - chunks) * CHUNK as u64;
                let data: Vec<u8> = (0..chunks)
                    .map(|i| content(seed << 32 | n << 8 | i, CHUNK))
                    .collect::<Vec<_>>()
                    .concat();
                match volume.write_at(at, &data, false) {
                    Ok(()) => {}
                    Err(BlockError::NoSpace(_)) => full += 1,
                    Err(error) => panic!("seed {seed}, write {n}: {error}"),
                }
                if full > 5 {
                    break;
                }
            }
            assert!(full > 0, "seed {seed}: the disk never ran full");
            assert_eq!(logged.load(Ordering::Relaxed), 0, "seed {seed}");
        }
    });
}
