//! Interleaved rounds, CPU time, medians, and the printed table.
//! Room: onefold-content.

/// How thorough a run is.
#[derive(Clone, Copy)]
pub struct Settings {
    /// Few rounds on little data: shows that everything runs.
    pub quick: bool,
}

/// One row of a table: a name and what to run over the whole data set.
pub struct Candidate<'a> {
    name: &'static str,
    /// Adds the stored bytes to its argument.
    run: Box<dyn FnMut(&mut usize) + 'a>,
    sized: bool,
}

impl<'a> Candidate<'a> {
    /// A row without sizes.
    pub fn new(name: &'static str, mut run: impl FnMut(()) + 'a) -> Self {
        Self { name, run: Box::new(move |_| run(())), sized: false }
    }

    /// A row whose stored bytes are counted too.
    pub fn sized(name: &'static str, run: impl FnMut(&mut usize) + 'a) -> Self {
        Self { name, run: Box::new(run), sized: true }
    }
}

/// CPU seconds this thread has used.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, which is a valid place for it.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "the thread clock is always there on Linux");
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Runs all candidates in interleaved rounds over `bytes` bytes of data and prints their medians;
/// the first is the reference.
pub fn table(settings: Settings, title: &str, bytes: usize, mut candidates: Vec<Candidate>) {
    let rounds = if settings.quick { 3 } else { 11 };
    let mut seconds = vec![Vec::new(); candidates.len()];
    let mut stored = vec![0; candidates.len()];
    for round in 0..=rounds {
        for (i, candidate) in candidates.iter_mut().enumerate() {
            stored[i] = 0;
            let start = cpu_seconds();
            (candidate.run)(&mut stored[i]);
            // The first round warms caches, tables and branch predictors.
            if round > 0 {
                seconds[i].push(cpu_seconds() - start);
            }
        }
    }
    println!("\n{title}");
    println!("{:<40} {:>8} {:>8} {:>8}", "", "GB/s", "ratio", "stored");
    let median = |list: &mut Vec<f64>| {
        list.sort_by(f64::total_cmp);
        list[list.len() / 2]
    };
    let reference = median(&mut seconds[0]);
    for (i, candidate) in candidates.iter().enumerate() {
        let time = median(&mut seconds[i]);
        let speed = bytes as f64 / time * 1e-9;
        let size = if candidate.sized {
            format!("{:.4}", stored[i] as f64 / bytes as f64)
        } else {
            String::from("-")
        };
        println!("{:<40} {speed:>8.3} {:>8.2} {size:>8}", candidate.name, reference / time);
    }
}
