//! Servers that jobs are given to in the order in which they come: engines, links, channels.
//! Room: onefold-flash.
//! Invariant: jobs are given in order of time, so that the time at which one ends is known at once
//! and needs no event of its own for the beginning.
//! Cost: a look at each server per job.

/// Equal servers, first come first served.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    free_at: Vec<u64>,
    busy_ns: u64,
    waited_ns: u64,
    jobs: u64,
}

impl Servers {
    /// So many idle servers, at least one.
    pub(crate) fn new(count: u32) -> Self {
        Self { free_at: vec![0; count as usize], busy_ns: 0, waited_ns: 0, jobs: 0 }
    }

    /// Gives a job that is there now to the first server that is free; the answer is when it ends.
    pub(crate) fn serve(&mut self, now: u64, service_ns: u64) -> u64 {
        let free = self.free_at.iter_mut().min().expect("at least one server");
        let start = now.max(*free);
        *free = start + service_ns;
        self.busy_ns += service_ns;
        self.waited_ns += start - now;
        self.jobs += 1;
        start + service_ns
    }

    /// When the next server is free.
    pub(crate) fn first_free(&self) -> u64 {
        self.free_at.iter().copied().min().expect("at least one server")
    }

    /// Servers.
    pub(crate) const fn count(&self) -> usize {
        self.free_at.len()
    }

    /// Time that servers were busy until the present, summed over them: what they have accepted
    /// and not worked off yet does not count.
    pub(crate) fn busy_until(&self, now: u64) -> u64 {
        let to_come: u64 = self.free_at.iter().map(|&free| free.saturating_sub(now)).sum();
        self.busy_ns - to_come
    }

    /// Time that jobs waited, summed.
    pub(crate) const fn waited_ns(&self) -> u64 {
        self.waited_ns
    }

    /// Jobs served.
    pub(crate) const fn jobs(&self) -> u64 {
        self.jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_wait_for_the_first_free_server() {
        let mut servers = Servers::new(2);
        assert_eq!([0, 0, 1, 30].map(|at| servers.serve(at, 10)), [10, 10, 20, 40]);
        assert_eq!((servers.busy_until(40), servers.waited_ns(), servers.jobs()), (40, 9, 4));
        assert_eq!(servers.busy_until(35), 35, "five of the last ten are still to come");
    }
}
