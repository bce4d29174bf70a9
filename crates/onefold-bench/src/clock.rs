//! CPU clocks of threads and processes, and the time that a ready thread waited for a core.
//! Room: onefold-bench.
//! Source: `clock_gettime`(2), `clock_getcpuclockid`(3), `getrusage`(2), proc(5) on `schedstat`.

use std::io;

use anyhow::{Context, Result};

/// CPU seconds that the calling thread has used.
pub fn thread_cpu() -> f64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID).expect("the thread clock is always there on Linux")
}

/// CPU seconds that a running process has used, all its threads together.
pub fn process_cpu(pid: u32) -> Result<f64> {
    let mut clock: libc::clockid_t = 0;
    let pid = libc::pid_t::try_from(pid).context("a process number that is none")?;
    // SAFETY: the call writes one clock number, which is a valid place for it.
    let error = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error)).context("no CPU clock of that process");
    }
    read(clock).context("cannot read the CPU clock of that process")
}

fn read(clock: libc::clockid_t) -> io::Result<f64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, which is a valid place for it.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } == 0 {
        Ok(time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// CPU seconds of all children that were waited for, theirs included.
pub fn children_cpu() -> f64 {
    let [user, kernel] = children();
    user + kernel
}

/// Of these, the ones that the kernel took.
pub fn children_kernel() -> f64 {
    children()[1]
}

fn children() -> [f64; 2] {
    // SAFETY: all bits zero is a valid rusage, which holds nothing but numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes one rusage, which is a valid place for it.
    let status = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    assert_eq!(status, 0, "a process may always ask for its own usage");
    [usage.ru_utime, usage.ru_stime].map(|time| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6)
}

/// Seconds that the calling thread was ready to run while every core was taken by others; none
/// where the kernel does not count them.
pub fn thread_waited() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(nanoseconds as f64 * 1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_this_process_runs_at_least_as_fast_as_that_of_its_thread() {
        let (process, thread) = (process_cpu(std::process::id()).unwrap(), thread_cpu());
        let mut sum = 0u64;
        while thread_cpu() < thread + 0.002 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(process_cpu(std::process::id()).unwrap() >= process + 0.002);
        assert!(process_cpu(u32::MAX).is_err());
    }

    #[test]
    fn children_are_counted_once_they_are_waited_for() {
        let before = children_cpu();
        let status = std::process::Command::new("true").status().unwrap();
        assert!(status.success());
        assert!(children_cpu() > before && children_cpu() >= children_kernel());
    }
}
