//! Chrome trace JSON of the first events of a run, for Perfetto and `chrome://tracing`.
//! Room: onefold-sim.   In: spans and instants on named tracks.   Out: one JSON document.
//! Source: the "Trace Event Format" page of the Chromium project: phases X, i and M.
//! Cost: nothing once the limit is reached; below it, one entry in memory per event.

use std::io::{self, Write};

use crate::time::SimTime;

/// What happened, up to a number of events; the rest is counted.
#[derive(Clone, Debug)]
pub struct ChromeTrace {
    limit: usize,
    tracks: Vec<String>,
    entries: Vec<Entry>,
    left_out: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    name: String,
    track: usize,
    start: SimTime,
    /// `None` for an instant.
    length_ns: Option<u64>,
}

/// A row of the picture, usually a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track(usize);

impl ChromeTrace {
    /// A trace that keeps the first `limit` events.
    pub const fn new(limit: usize) -> Self {
        Self { limit, tracks: Vec::new(), entries: Vec::new(), left_out: 0 }
    }

    /// A new row; rows are shown in the order they are made.
    pub fn track(&mut self, name: impl Into<String>) -> Track {
        self.tracks.push(name.into());
        Track(self.tracks.len() - 1)
    }

    /// Something that took from `start` to `end`.
    pub fn span(&mut self, track: Track, name: &str, start: SimTime, end: SimTime) {
        self.push(track, name, start, Some(end.since(start).ns()));
    }

    /// Something that took no time.
    pub fn instant(&mut self, track: Track, name: &str, at: SimTime) {
        self.push(track, name, at, None);
    }

    /// Whether further events are only counted; callers may then save themselves the names.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.limit
    }

    /// Events beyond the limit.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    fn push(&mut self, track: Track, name: &str, start: SimTime, length_ns: Option<u64>) {
        if self.is_full() {
            self.left_out += 1;
            return;
        }
        self.entries.push(Entry { name: name.to_owned(), track: track.0, start, length_ns });
    }

    /// Writes the document. Times are microseconds with three decimals, so no nanosecond is lost.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        writeln!(to, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        let mut between = "";
        for (track, name) in self.tracks.iter().enumerate() {
            write!(to, "{between}{{\"ph\":\"M\",\"pid\":0,\"tid\":{track},\"name\":")?;
            write!(to, "\"thread_name\",\"args\":{{\"name\":{}}}}}", quoted(name))?;
            between = ",\n";
        }
        for entry in &self.entries {
            let Entry { name, track, start, length_ns } = entry;
            let (name, start) = (quoted(name), micros(start.ns()));
            write!(to, "{between}{{\"pid\":0,\"tid\":{track},\"name\":{name},\"ts\":{start},")?;
            match length_ns {
                Some(ns) => write!(to, "\"ph\":\"X\",\"dur\":{}}}", micros(*ns))?,
                None => write!(to, "\"ph\":\"i\",\"s\":\"t\"}}")?,
            }
            between = ",\n";
        }
        writeln!(to, "\n]}}")
    }
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// A JSON string.
fn quoted(text: &str) -> String {
    use std::fmt::Write as _;

    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if u32::from(c) < 0x20 => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("strings take all text");
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_json_wants_is_escaped() {
        assert_eq!(quoted("a b\u{1f}~\"\\"), "\"a b\\u001f~\\\"\\\\\"");
    }

    #[test]
    fn the_document_is_json_and_keeps_the_first_events() {
        let mut trace = ChromeTrace::new(2);
        let bus = trace.track("bus \"0\"\\\n");
        let die = trace.track("die 0");
        trace.span(bus, "read 7", SimTime::from_ns(1_005), SimTime::from_ns(25_000));
        trace.instant(die, "erase", SimTime::from_ns(30_000));
        trace.span(die, "late", SimTime::from_ns(40_000), SimTime::from_ns(40_001));
        assert_eq!((trace.is_full(), trace.left_out()), (true, 1));
        let mut out = Vec::new();
        trace.write(&mut out).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 4);
        assert_eq!(events[0]["args"]["name"], "bus \"0\"\\\n");
        assert_eq!((&events[2]["ph"], &events[2]["name"]), (&"X".into(), &"read 7".into()));
        assert_eq!((&events[2]["ts"], &events[2]["dur"]), (&1.005.into(), &23.995.into()));
        assert_eq!((&events[3]["ph"], &events[3]["tid"]), (&"i".into(), &1.into()));
    }

    #[test]
    fn an_empty_trace_is_json_too() {
        let mut out = Vec::new();
        ChromeTrace::new(0).write(&mut out).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert!(json["traceEvents"].as_array().unwrap().is_empty());
    }
}
