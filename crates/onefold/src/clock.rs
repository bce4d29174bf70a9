//! The clock of this process. There is one, so that who watches a call and who times a device look
//! at it once between them (`onefold_block::spent`).
//! Room: onefold.

use std::sync::{Arc, LazyLock};

use onefold_block::wrappers::{Clock, SystemClock};

static CLOCK: LazyLock<Arc<dyn Clock>> = LazyLock::new(|| Arc::new(SystemClock::new()));

/// It goes on from the first time that somebody asks for it.
pub fn system() -> Arc<dyn Clock> {
    Arc::clone(&CLOCK)
}
