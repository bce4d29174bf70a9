//! Measures for all who look, as often as the one who looks most often.
//! Room: onefold.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use onefold_metrics::{Sample, json};
use serde_json::json;

use super::source::Source;

/// How often a page is told.
const PERIOD: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 1000 });
/// What is as young as this is new enough for whoever asks.
const NEW: Duration = Duration::from_millis(100);
/// Pages that are told at once: scrapes have places beside them.
const STREAMS_MAX: usize = 16;

/// What is measured, and for whom.
pub struct Sampler {
    source: Arc<dyn Source>,
    started: Instant,
    newest: Mutex<Option<(Instant, Arc<Sample>)>>,
    event: Mutex<Option<(Instant, Arc<str>)>>,
    streams: AtomicUsize,
    closed: AtomicBool,
    waiting: Mutex<()>,
    ended: Condvar,
}

/// A page that is told.
pub struct Stream {
    sampler: Arc<Sampler>,
    first: bool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.sampler.streams.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Sampler {
    /// Of this.
    pub fn new(source: Arc<dyn Source>) -> Self {
        Self {
            source,
            started: Instant::now(),
            newest: Mutex::default(),
            event: Mutex::default(),
            streams: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            waiting: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    /// What is measured.
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// How it is now.
    pub fn sample(&self) -> Arc<Sample> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let held = newest.as_ref().filter(|(at, _)| at.elapsed() < NEW);
        if let Some((_, sample)) = held {
            return Arc::clone(sample);
        }
        let sample = Arc::new(self.source.sample());
        *newest = Some((Instant::now(), Arc::clone(&sample)));
        sample
    }

    /// A place for one more page, if there is one.
    pub fn stream(self: &Arc<Self>) -> Option<Stream> {
        let taken = self.streams.fetch_update(Ordering::AcqRel, Ordering::Acquire, |streams| {
            (streams < STREAMS_MAX).then_some(streams + 1)
        });
        taken.ok().map(|_| Stream { sampler: Arc::clone(self), first: true })
    }

    /// Nobody is told any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let _waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.ended.notify_all();
    }

    /// Wait until it is time to tell again; whether it is.
    fn wait(&self) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = |(): &mut ()| !self.closed.load(Ordering::Acquire);
        let _ = self.ended.wait_timeout_while(waiting, PERIOD, is_open);
        !self.closed.load(Ordering::Acquire)
    }

    /// What a page is told, written once for all.
    fn event(&self) -> Arc<str> {
        let mut event = self.event.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, text)) = event.as_ref().filter(|(at, _)| at.elapsed() < PERIOD / 2) {
            return Arc::clone(text);
        }
        let sample = self.sample();
        let told = json!({
            "at_seconds": self.started.elapsed().as_secs_f64(),
            "metrics": json::values(&sample),
            "jobs": self.source.jobs(),
            "drive": self.source.drive(),
        });
        let text: Arc<str> = format!("data: {told}\n\n").into();
        *event = Some((Instant::now(), Arc::clone(&text)));
        text
    }
}

impl Stream {
    /// What is told next; nothing once the server stops.
    pub fn next(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.first) && !self.sampler.wait() {
            return None;
        }
        Some(self.sampler.event().to_string())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Nothing to look at.
    pub struct Nothing;

    impl Source for Nothing {
        fn title(&self) -> String {
            String::new()
        }

        fn sample(&self) -> Sample {
            Sample::default()
        }
    }

    #[test]
    fn whoever_asks_soon_is_told_the_same_and_later_how_it_is_then() {
        let sampler = Sampler::new(Arc::new(Nothing));
        let (first, event) = (sampler.sample(), sampler.event());
        assert!(Arc::ptr_eq(&first, &sampler.sample()) && Arc::ptr_eq(&event, &sampler.event()));
        let before = |time| Instant::now().checked_sub(time).unwrap();
        sampler.newest.lock().unwrap().as_mut().unwrap().0 = before(NEW);
        sampler.event.lock().unwrap().as_mut().unwrap().0 = before(PERIOD / 2);
        let second = sampler.sample();
        assert!(!Arc::ptr_eq(&first, &second));
        let told = sampler.event();
        assert!(!Arc::ptr_eq(&event, &told) && told.ends_with("}\n\n"));
    }

    #[test]
    fn a_page_that_goes_makes_room_for_another_and_none_is_told_after_the_end() {
        let sampler = Arc::new(Sampler::new(Arc::new(Nothing)));
        let mut streams: Vec<Stream> = std::iter::from_fn(|| sampler.stream()).collect();
        assert_eq!(streams.len(), STREAMS_MAX);
        streams.pop();
        let mut stream = sampler.stream().unwrap();
        assert!(sampler.stream().is_none());
        assert!(stream.next().unwrap().starts_with("data: {"));
        assert!(stream.next().unwrap().starts_with("data: {"), "and again in its time");
        sampler.close();
        assert_eq!(stream.next(), None);
    }
}
