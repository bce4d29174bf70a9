//! What happens to batches, as a picture for Perfetto: a row for each batch that may be on its way
//! at a time, with the steps of one batch after the other.
//! Room: onefold-array.
//! Cost: nothing in runs that are not followed; two words for each step of those that are.

use onefold_sim::trace::Track;
use onefold_sim::{ChromeTrace, SimTime};

use super::machine::Batch;

/// The picture in the making.
pub struct Follow {
    trace: ChromeTrace,
    rows: Vec<Track>,
}

impl Follow {
    /// Keeps the first so many steps.
    pub fn new(steps: usize) -> Self {
        Self { trace: ChromeTrace::new(steps), rows: Vec::new() }
    }

    /// A batch begins a step, which ends at `to`.
    pub(super) fn step(&mut self, id: u32, batch: &Batch, from: SimTime, to: SimTime) {
        while self.rows.len() <= id as usize {
            let number = self.rows.len();
            self.rows.push(self.trace.track(format!("batch {number}")));
        }
        let row = self.rows[id as usize];
        if self.trace.is_full() {
            // Only counted: no name is made.
            self.trace.span(row, "", from, to);
            return;
        }
        let (kind, step, chunks) = (batch.kind.name(), batch.step.name(), batch.chunks.len());
        let name = match batch.engine {
            Some(engine) if step.contains("engine") => {
                format!("{kind}: {step} {engine}, {chunks} chunks")
            }
            _ => format!("{kind}: {step}, {chunks} chunks"),
        };
        self.trace.span(row, &name, from, to);
    }

    /// The picture.
    pub fn into_trace(self) -> ChromeTrace {
        self.trace
    }
}
