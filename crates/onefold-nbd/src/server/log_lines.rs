//! What a test's own thread says to the log, as lines.
//! Room: onefold-nbd.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};

/// Keeps warnings and errors.
pub(super) struct LogLines(Arc<Mutex<Vec<String>>>);

impl LogLines {
    /// Those that `work` leads to.
    pub fn of(work: impl FnOnce()) -> Vec<String> {
        let lines = Arc::default();
        tracing::subscriber::with_default(Self(Arc::clone(&lines)), work);
        std::mem::take(&mut lines.lock().unwrap())
    }
}

/// Fields of a line, in their order.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl tracing::Subscriber for LogLines {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
