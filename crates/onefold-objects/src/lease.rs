//! Who may use a place in an object store at the same time: locks that end when nobody renews them.
//! Room: onefold-objects.
//! Whoever comes puts an object of its own into a folder and then looks who else is there, so that
//! of two that come together at least one sees the other. It puts the object again and again. One
//! that was not put for [`LEASE_S`] seconds, by the clock of the store, holds nobody up any more;
//! long before that, by a clock of its own that does not stop in a suspended machine, its owner
//! changes nothing any more. A reader may take it again if nobody removes anything by then: what
//! was removed meanwhile is missing, and nothing more is removed from then on.
//! Invariant: [`HOLD_MS`] and the longest request are together less than [`LEASE_S`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;

use crate::objects::{Expect, Listed, ObjectError, Objects};

/// Seconds after which a lock that was not renewed ends, by the clock of the store.
pub const LEASE_S: i64 = 300;
/// Milliseconds after which its owner no longer relies on it, by its own clock.
pub const HOLD_MS: u64 = 180_000;
/// How often it is renewed.
const RENEW: Duration = Duration::from_secs(45);
/// How soon again, if that failed.
const RENEW_AGAIN: Duration = Duration::from_secs(5);
/// Seconds between two that came together.
const TOGETHER_S: i64 = 2;
/// How often one of these tries again.
const ATTEMPTS: u32 = 4;
/// Longest note of an owner that is read.
const NOTE_BYTES: u64 = 200;

/// Folder of the locks.
pub const LOCKS: &str = "locks/";

/// What a place is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Looking; others may look and add.
    Read,
    /// Adding; others may look.
    Add,
    /// Removing; alone.
    Remove,
}

impl Use {
    const ALL: [Self; 3] = [Self::Read, Self::Add, Self::Remove];

    const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Add => "add",
            Self::Remove => "remove",
        }
    }

    const fn goes_beside(self, other: Self) -> bool {
        matches!((self, other), (Self::Read, Self::Read | Self::Add) | (Self::Add, Self::Read))
    }
}

/// Why a lock could not be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// Somebody else has one.
    #[error("it is in use by {holder}")]
    Held {
        /// Who, as far as that is known.
        holder: String,
    },
    /// The store failed.
    #[error("{address}: {source}")]
    Store {
        /// The lock.
        address: String,
        /// What failed.
        source: ObjectError,
    },
}

/// What a lock is made of that differs from one to the next.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Random, so that no two are alike.
    pub token: u64,
    /// Who it is, for whoever comes second: "process 7 on here" or the like.
    pub note: String,
}

/// Milliseconds since any moment, of a clock that goes on while the machine is suspended.
pub type Clock = fn() -> u64;

/// What becomes of a lock while it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseChange {
    /// It has run out: others may have been let in.
    RanOut,
    /// It was taken again.
    TakenAgain,
}

/// A lock that is held; dropping it gives it up.
pub struct Lease {
    inner: Arc<Inner>,
    renewing: Option<JoinHandle<()>>,
}

struct Inner {
    objects: Arc<dyn Objects>,
    clock: Clock,
    usage: Use,
    name: String,
    note: String,
    /// Its tag; none for a reader that may write nothing, and has none.
    tag: Mutex<Option<String>>,
    /// When it was put last.
    renewed_ms: AtomicU64,
    is_lost: AtomicBool,
    /// Set at the end.
    ends: Mutex<bool>,
    end: Condvar,
}

/// The clock of the system that goes on while it is suspended.
pub fn boot_clock() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// The use that a lock's name tells of.
fn use_of(listed: &Listed) -> Option<Use> {
    let (name, _) = listed.name.split_once('.')?;
    Use::ALL.into_iter().find(|usage| usage.name() == name)
}

impl Lease {
    /// Take a lock. Of two that come together and cannot go together, each waits for a moment of
    /// its own and tries again, by `wait`, which gets milliseconds; somebody who was there before
    /// is not waited for. A reader whose credentials allow no writing has none.
    ///
    /// # Errors
    /// [`LeaseError::Held`] if somebody else has the place; [`LeaseError::Store`] for whatever the
    /// store refuses.
    pub fn take(
        objects: &Arc<dyn Objects>,
        usage: Use,
        owner: &Owner,
        clock: Clock,
        wait: &mut dyn FnMut(u64),
    ) -> Result<Self, LeaseError> {
        for attempt in 1.. {
            match Self::try_take(objects, usage, owner, clock)? {
                Ok(lease) => return Ok(lease),
                Err((_, true)) if attempt < ATTEMPTS => {
                    wait(500 + owner.token.rotate_left(attempt * 7) % 3000);
                }
                Err((other, _)) => {
                    let note = objects.tail(&format!("{LOCKS}{}", other.name), NOTE_BYTES);
                    let note = note.ok().and_then(|tail| String::from_utf8(tail.bytes).ok());
                    let is_plain = |note: &String| {
                        !note.is_empty() && !note.contains(|letter: char| letter.is_control())
                    };
                    let holder = note.filter(is_plain);
                    let holder = holder.unwrap_or_else(|| "another process".to_owned());
                    return Err(LeaseError::Held { holder });
                }
            }
        }
        unreachable!("the last attempt answers")
    }

    /// Once. The inner error is who has it, and whether that one came together with us.
    fn try_take(
        objects: &Arc<dyn Objects>,
        usage: Use,
        owner: &Owner,
        clock: Clock,
    ) -> Result<Result<Self, (Listed, bool)>, LeaseError> {
        let name = format!("{LOCKS}{}.{:016x}", usage.name(), owner.token);
        let failed = |source| LeaseError::Store { address: objects.address(&name), source };
        let begun_ms = clock();
        let tag = match objects.put(&name, owner.note.as_bytes(), &Expect::Anything) {
            Ok(tag) => Some(tag),
            Err(ObjectError::Refused(_)) if usage == Use::Read => None,
            Err(error) => return Err(failed(error)),
        };
        let is_there = tag.is_some();
        let inner = Inner {
            objects: Arc::clone(objects),
            clock,
            usage,
            note: owner.note.clone(),
            tag: Mutex::new(tag),
            renewed_ms: AtomicU64::new(begun_ms),
            is_lost: AtomicBool::new(false),
            ends: Mutex::new(false),
            end: Condvar::new(),
            name: name.clone(),
        };
        // From here on it is given up again whatever happens.
        let lease = Self { inner: Arc::new(inner), renewing: None };
        match lease.inner.others().map_err(failed)? {
            Others::InTheWay { other, together } => Ok(Err((other, together))),
            Others::Forgotten if is_there => {
                Err(failed(ObjectError::Failed("the store forgets".to_owned())))
            }
            Others::None | Others::Forgotten => Ok(Ok(lease)),
        }
    }

    /// Renew it from now on, until it is dropped, and tell what becomes of it.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn keep_renewing(
        &mut self,
        tell: impl FnMut(LeaseChange) + Send + 'static,
    ) -> std::io::Result<()> {
        self.renew_after(RENEW, RENEW_AGAIN, tell)
    }

    /// The same, so long after it was renewed, and after that failed.
    fn renew_after(
        &mut self,
        renewed: Duration,
        failed: Duration,
        mut tell: impl FnMut(LeaseChange) + Send + 'static,
    ) -> std::io::Result<()> {
        let inner = Arc::clone(&self.inner);
        let run = move || {
            let (mut pause, mut is_over) = (renewed, false);
            loop {
                let ends = inner.ends.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = inner.end.wait_timeout_while(ends, pause, |ends| !*ends);
                if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                    return;
                }
                pause = if inner.renew() { renewed } else { failed };
                tell_change(&mut is_over, inner.may_be_over(), &mut tell);
            }
        };
        let builder = std::thread::Builder::new().name("renew the lock".to_owned());
        self.renewing = Some(builder.spawn(run)?);
        Ok(())
    }

    /// Renew it now; whether that worked.
    pub fn renew(&self) -> bool {
        self.inner.renew()
    }

    /// An error once others may have been let in.
    pub fn must_hold(&self) -> Result<(), ObjectError> {
        if self.inner.may_be_over() {
            let problem = "the lock on it has run out: others may be using it now";
            return Err(ObjectError::Failed(problem.to_owned()));
        }
        Ok(())
    }
}

/// Tell once when a lock has run out, and once when it was taken again.
fn tell_change(was_over: &mut bool, is_over: bool, tell: &mut dyn FnMut(LeaseChange)) {
    if std::mem::replace(was_over, is_over) != is_over {
        tell(if is_over { LeaseChange::RanOut } else { LeaseChange::TakenAgain });
    }
}

/// Who else is there, for one whose own object was put.
enum Others {
    /// Nobody who is in the way.
    None,
    /// This one, which came together with us or before.
    InTheWay { other: Listed, together: bool },
    /// Our own object is not there.
    Forgotten,
}

impl Inner {
    /// Look who else is there, and clear away the locks of the dead.
    fn others(&self) -> Result<Others, ObjectError> {
        let mut listed = self.objects.list(LOCKS)?;
        let mine =
            listed.iter().position(|listed| self.name.strip_prefix(LOCKS) == Some(&listed.name));
        let Some(mine) = mine.map(|at| listed.swap_remove(at)) else {
            return Ok(Others::Forgotten);
        };
        for other in listed {
            let Some(other_use) = use_of(&other) else { continue };
            if mine.modified_s - other.modified_s > LEASE_S {
                // Its owner has died, or changes nothing any more; a failure is the next one's.
                let _ = self.objects.remove(&format!("{LOCKS}{}", other.name));
            } else if !self.usage.goes_beside(other_use) {
                let together = mine.modified_s - other.modified_s <= TOGETHER_S;
                return Ok(Others::InTheWay { other, together });
            }
        }
        Ok(Others::None)
    }

    fn may_be_over(&self) -> bool {
        let held_ms = (self.clock)().saturating_sub(self.renewed_ms.load(Ordering::Acquire));
        self.is_lost.load(Ordering::Acquire) || held_ms > HOLD_MS
    }

    fn renew(&self) -> bool {
        let mut tag = self.tag.lock().unwrap_or_else(PoisonError::into_inner);
        if tag.is_none() {
            return false;
        }
        // Others were free to pass it over: who changes something must not come back, and who looks
        // only as one who comes anew.
        if self.may_be_over() {
            return self.usage == Use::Read && self.take_again(&mut tag).unwrap_or(false);
        }
        let begun_ms = (self.clock)();
        let expect = match tag.as_deref() {
            None | Some("") => Expect::Anything,
            Some(tag) => Expect::Tag(tag.to_owned()),
        };
        match self.objects.put(&self.name, self.note.as_bytes(), &expect) {
            Ok(new) => {
                *tag = Some(new);
                self.renewed_ms.store(begun_ms, Ordering::Release);
                true
            }
            Err(ObjectError::Conflict) => {
                // Ours, if the first of two answers was lost: nobody else knows its name. Not
                // there: somebody has found it too old.
                match self.objects.tail(&self.name, 1) {
                    Ok(found) => *tag = Some(found.stored.tag),
                    Err(ObjectError::NotFound) => self.is_lost.store(true, Ordering::Release),
                    Err(_) => {}
                }
                false
            }
            Err(_) => false,
        }
    }

    /// Take a lock that ran out again, if nobody is there whom it would be in the way of.
    fn take_again(&self, tag: &mut Option<String>) -> Result<bool, ObjectError> {
        let begun_ms = (self.clock)();
        *tag = Some(self.objects.put(&self.name, self.note.as_bytes(), &Expect::Anything)?);
        if !matches!(self.others()?, Others::None) {
            self.objects.remove(&self.name)?;
            return Ok(false);
        }
        self.renewed_ms.store(begun_ms, Ordering::Release);
        self.is_lost.store(false, Ordering::Release);
        Ok(true)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.inner.ends.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.inner.end.notify_all();
        if let Some(thread) = self.renewing.take() {
            let _ = thread.join();
        }
        let tag = self.inner.tag.lock().unwrap_or_else(PoisonError::into_inner);
        if tag.is_some() {
            // One that stays ends by itself.
            let _ = self.inner.objects.remove(&self.inner.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::sim::SimObjects;

    #[test]
    fn a_lock_is_renewed_until_it_is_dropped_and_its_end_is_told() {
        let store = SimObjects::new();
        let objects: Arc<dyn Objects> = Arc::new(store.clone());
        let owner = Owner { token: 1, note: "process 1 on here".to_owned() };
        let taken = Lease::take(&objects, Use::Add, &owner, || 0, &mut |_| ());
        let mut lease = taken.expect("nobody else is there");
        let (tell, told) = mpsc::channel();
        let tell = move |change| tell.send(change).expect("it is listened to");
        // Renewed at once again, and not for long once that has failed.
        lease.renew_after(Duration::ZERO, Duration::from_hours(9), tell).expect("a thread");

        // Somebody found it too old, which only who renews it finds out. The time is for a test
        // that fails.
        let name = store.contents().into_keys().next().expect("the lock");
        store.damage(&name, |_| None);
        assert_eq!(told.recv_timeout(Duration::from_mins(1)), Ok(LeaseChange::RanOut));
        drop(lease);
        assert!(told.recv().is_err(), "once, and never after the end");
        assert!(store.contents().is_empty(), "what was lost is not made again");
    }

    #[test]
    fn somebody_renews_what_is_to_be_renewed() {
        let objects: Arc<dyn Objects> = Arc::new(SimObjects::new());
        let owner = Owner { token: 1, note: String::new() };
        let taken = Lease::take(&objects, Use::Add, &owner, || 0, &mut |_| ());
        let mut lease = taken.expect("nobody else is there");
        assert!(lease.renewing.is_none());
        lease.keep_renewing(|_| ()).expect("a thread");
        assert!(lease.renewing.is_some());
    }

    #[test]
    fn the_clock_is_that_of_the_system_in_milliseconds() {
        let now = || {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
            Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
        };
        let (before, found, after) = (now(), Duration::from_millis(boot_clock()), now());
        assert!(before < found + Duration::from_millis(1) && found <= after);
    }

    #[test]
    fn each_change_is_told_once() {
        let (mut was_over, mut told) = (false, Vec::new());
        for is_over in [false, true, true, false, false, true] {
            tell_change(&mut was_over, is_over, &mut |change| told.push(change));
        }
        let expected = [LeaseChange::RanOut, LeaseChange::TakenAgain, LeaseChange::RanOut];
        assert_eq!(told, expected);
    }
}
