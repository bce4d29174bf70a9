//! Exports that tell clients which generation of a store they are of, and that are kept from
//! clients which connect again as long as nobody has accepted that writes may have been lost.
//! Room: onefold.
//! Invariants: (1) `NAME@gN` is the export `NAME` in generation N and in no other; (2) while a loss
//! is not accepted, only who names the new generation gets anything; (3) a volume whose own name
//! looks like that is found first; (4) what is opened refuses requests there is no memory for.

use std::sync::Arc;
use std::sync::Once;

use onefold_block::{BlockDevice, Generation};
use onefold_export::reserve::{self, Careful};
use onefold_nbd::{Client, Compared, ExportEntry, Exports};

use crate::args::GuardArgs;
use crate::failure::{Failure, Result};
use crate::output::Printer;

/// Between the name of an export and the number of its generation.
const MARK: &str = "@g";

/// The exports of one generation of a store.
pub struct Guard {
    table: Box<dyn Exports>,
    generation: Generation,
    /// Whether clients that do not name the generation are refused.
    closed: bool,
    told: Once,
}

impl Guard {
    /// These exports, closed to whoever does not name the generation if `closed`.
    pub fn new(table: impl Exports + 'static, generation: Generation, closed: bool) -> Self {
        // Before the first request wants it.
        reserve::set_aside();
        Self { table: Box::new(table), generation, closed, told: Once::new() }
    }

    /// The export and the generation that a name asks for, if it names one.
    fn dated(&self, name: &str, client: &Client) -> Option<(String, u64)> {
        if !name.is_empty() && self.table.open(name, client).is_some() {
            return None;
        }
        let (export, number) = name.rsplit_once(MARK)?;
        let plain = number.bytes().all(|digit| digit.is_ascii_digit()) && !number.starts_with('0');
        Some((export.to_owned(), number.parse().ok().filter(|_| plain)?))
    }

    /// The export that a name asks for, if whoever asks gets it.
    fn admitted(&self, name: &str, client: &Client) -> Option<String> {
        match self.dated(name, client) {
            Some((export, number)) => (number == self.generation.number).then_some(export),
            None => (!self.closed).then(|| name.to_owned()),
        }
    }
}

impl Exports for Guard {
    fn list(&self, client: &Client) -> Vec<ExportEntry> {
        let mut entries = self.table.list(client);
        if self.closed {
            for entry in &mut entries {
                entry.name = format!("{}{MARK}{}", entry.name, self.generation.number);
            }
        }
        entries
    }

    fn open(&self, name: &str, client: &Client) -> Option<Arc<dyn BlockDevice>> {
        let device = self.table.open(&self.admitted(name, client)?, client)?;
        Some(Arc::new(Careful::new(device)))
    }

    fn changes_listed(&self, name: &str, client: &Client) -> Vec<String> {
        let name = self.admitted(name, client);
        name.map(|name| self.table.changes_listed(&name, client)).unwrap_or_default()
    }

    fn compared(&self, name: &str, since: &str, client: &Client) -> Option<Compared> {
        let name = self.admitted(name, client)?;
        let (device, changes) = self.table.compared(&name, since, client)?;
        Some((Arc::new(Careful::new(device)), changes))
    }

    fn refusal(&self, name: &str, client: &Client) -> Option<String> {
        let now = self.generation.number;
        let why = match self.dated(name, client) {
            Some((export, number))
                if number != now && self.table.open(&export, client).is_some() =>
            {
                format!(
                    "generation {number} of '{export}' is not there: it is {now} now, and writes \
                     that were acknowledged and not flushed may have been lost before it began"
                )
            }
            None if self.closed && self.table.open(name, client).is_some() => format!(
                "writes that were acknowledged and not flushed may have been lost before \
                 generation {now} began: stop what uses '{name}', check it, and connect to \
                 '{name}{MARK}{now}', or start the server once with --accept-loss {now}"
            ),
            _ => return None,
        };
        self.told.call_once(|| tracing::warn!("a client is refused: {why}"));
        Some(why)
    }
}

/// Whether clients are refused that do not name the generation, after what the arguments accept.
/// `accept` notes durably that the loss is accepted.
pub fn settle(
    args: &GuardArgs,
    what: &str,
    generation: Generation,
    accept: impl FnOnce() -> Result<()>,
    printer: &Printer,
) -> Result<bool> {
    let now = generation.number;
    if let Some(number) = args.accept_loss.filter(|&number| number > now) {
        let message = format!("{what} is in generation {now}, and there is no {number} to accept");
        return Err(Failure::nothing_done(message));
    }
    if !generation.is_unaccepted() {
        return Ok(false);
    }
    if args.guard_reconnect && args.accept_loss != Some(now) {
        printer.warning(&format!(
            "{what} is in generation {now}: clients are refused that do not name it, until the \
             loss is accepted with --accept-loss {now}"
        ));
        return Ok(true);
    }
    if !args.guard_reconnect {
        printer.warning(&format!(
            "{what} is in generation {now}: clients that connect again are not told that writes \
             may have been lost (--guard-reconnect)"
        ));
    }
    accept().map(|()| false)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use onefold_block::MemDevice;
    use onefold_nbd::ExportTable;

    use super::*;

    fn guard(closed: bool) -> Guard {
        let device = |size| Arc::new(MemDevice::new(size)) as Arc<dyn BlockDevice>;
        let table = ExportTable::new()
            .with("main", "", device(512))
            .with("odd@g7", "", device(1024))
            .with("odd", "", device(2048));
        let accepted = if closed { 7 } else { 8 };
        Guard::new(table, Generation { number: 8, accepted }, closed)
    }

    fn size(guard: &Guard, name: &str) -> Option<u64> {
        let found = guard.open(name, &Client::Local).map(|device| device.size_bytes());
        assert!(found.is_none() || guard.refusal(name, &Client::Local).is_none(), "{name}");
        found
    }

    #[test]
    fn a_generation_in_the_name_must_be_the_one_that_is() {
        let guard = guard(false);
        for (name, bytes) in [("main", 512), ("", 512), ("main@g8", 512), ("@g8", 512)] {
            assert_eq!(size(&guard, name), Some(bytes), "{name}");
        }
        assert_eq!(size(&guard, "odd@g7"), Some(1024), "a volume of just that name");
        assert_eq!(size(&guard, "odd@g8"), Some(2048));
        for name in ["main@g7", "main@g9", "@g7"] {
            assert_eq!(size(&guard, name), None);
            assert!(guard.refusal(name, &Client::Local).unwrap().contains("it is 8 now"), "{name}");
        }
        for name in ["main@g08", "main@g", "main@8", "nosuch", "nosuch@g8", "nosuch@g7"] {
            assert_eq!(
                (size(&guard, name), guard.refusal(name, &Client::Local)),
                (None, None),
                "{name}"
            );
        }
        assert_eq!(guard.list(&Client::Local)[0].name, "main");
    }

    #[test]
    fn a_loss_is_accepted_by_its_number_or_by_who_does_not_guard_and_both_are_told() {
        let settled = |(number, accepted), guard_reconnect, accept_loss| {
            let (printer, accepts) = (Printer::kept(false), Cell::new(false));
            let args = GuardArgs { guard_reconnect, accept_loss };
            let accept = || {
                accepts.set(true);
                Ok(())
            };
            let closed =
                settle(&args, "it", Generation { number, accepted }, accept, &printer).ok();
            (closed, accepts.get(), printer.told())
        };
        let (calm, lost) = ((8, 8), (8, 7));
        let quiet = |closed, accepts| (closed, accepts, String::new());
        assert_eq!(settled(calm, true, Some(8)), quiet(Some(false), false));
        assert_eq!(settled(calm, true, Some(9)), quiet(None, false), "there is no such one");
        assert_eq!(settled(lost, true, Some(8)), quiet(Some(false), true));
        for other in [None, Some(7)] {
            let (closed, accepts, told) = settled(lost, true, other);
            assert_eq!((closed, accepts), (Some(true), false));
            assert!(told.contains("until the loss is accepted with --accept-loss 8"), "{told}");
        }
        let (closed, accepts, told) = settled(lost, false, None);
        assert_eq!((closed, accepts), (Some(false), true));
        assert!(told.contains("are not told that writes may have been lost"), "{told}");
    }

    #[test]
    fn after_a_loss_only_those_who_name_the_generation_get_in() {
        let guard = guard(true);
        assert_eq!(size(&guard, "main@g8"), Some(512));
        for name in ["main", "", "odd", "odd@g7"] {
            assert_eq!(size(&guard, name), None, "{name}");
            assert!(
                guard.refusal(name, &Client::Local).unwrap().contains("--accept-loss 8"),
                "{name}"
            );
        }
        assert_eq!(guard.list(&Client::Local)[0].name, "main@g8", "a list says what can be had");
    }
}
