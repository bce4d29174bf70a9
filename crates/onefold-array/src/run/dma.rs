//! The DMA queue of an engine, one for each way: descriptors one after the other, then the link.
//! Room: onefold-array.
//! Invariants: transfers begin in the order in which they are asked for; no more than the queue
//! holds are on their way at a time; where it takes no time and holds enough, all is as if there
//! were only the link.

use std::collections::VecDeque;

use onefold_sim::{Load, Pipe, Served, SimSpan, SimTime, Stations};

use crate::spec::LinkSpec;

/// A queue and the link behind it.
#[derive(Clone, Debug)]
pub struct Dma {
    link: Pipe,
    descriptors: Stations,
    transfer: SimSpan,
    /// When the last transfers arrived, at most as many as the queue holds.
    arrived: VecDeque<SimTime>,
    entries: usize,
    /// When the link carries what was not over at the last transfer.
    carried: VecDeque<Served>,
    /// When the account began.
    since: SimTime,
    /// What the link took for service ahead then, and is idle.
    idle_ns: u128,
}

impl Dma {
    /// Idle.
    pub fn new(spec: &LinkSpec) -> Self {
        let latency = SimSpan::from_ns(spec.latency_ns);
        Self {
            link: Pipe::new(spec.bytes_per_s() as u64, latency, 1),
            descriptors: Stations::new(1),
            transfer: SimSpan::from_ns(spec.transfer_ns),
            arrived: VecDeque::new(),
            entries: spec.queue_transfers as usize,
            carried: VecDeque::new(),
            since: SimTime::ZERO,
            idle_ns: 0,
        }
    }

    /// Moves bytes; when they have arrived.
    pub fn transfer(&mut self, now: SimTime, bytes: u64) -> SimTime {
        let mut begins = now;
        if self.arrived.len() == self.entries
            && let Some(left) = self.arrived.pop_front()
        {
            begins = begins.max(left);
        }
        if self.transfer > SimSpan::ZERO {
            begins = self.descriptors.serve(begins, self.transfer).end;
        }
        while self.carried.front().is_some_and(|served| served.end <= now) {
            self.carried.pop_front();
        }
        let served = self.link.send(begins, bytes, 0);
        self.carried.push_back(served);
        let end = served.end + self.link.latency();
        self.arrived.push_back(end);
        end
    }

    /// Forgets what was so far.
    pub fn restart_account(&mut self, now: SimTime) {
        (self.since, self.idle_ns) = (now, self.idle_ahead_ns(now));
        self.link.restart_account(now);
    }

    /// How the link spent the time up to now.
    pub fn load(&self, now: SimTime) -> Load {
        let idle_ns = self.idle_ahead_ns(now);
        if idle_ns == self.idle_ns {
            return self.link.load(now);
        }
        // Transfers that wait for their descriptors leave gaps, and the link does not know when
        // they were asked for: all of its service, without what is still to come.
        let all = self.link.load(self.link.next_free(now));
        let busy_ns = all.busy_ns - self.idle_ns - self.ahead_ns(now);
        let elapsed = now.since(self.since).ns() as f64;
        let per = |value: f64| if elapsed > 0.0 { value / elapsed } else { 0.0 };
        let waiting_mean = per(all.wait_ns_mean * all.jobs as f64);
        Load { utilisation: per(busy_ns as f64), busy_ns, waiting_mean, ..all }
    }

    /// Service of the link after a time.
    fn ahead_ns(&self, now: SimTime) -> u128 {
        let after = |served: &Served| served.end.max(now).since(served.start.max(now)).ns();
        self.carried.iter().map(|served| u128::from(after(served))).sum()
    }

    /// Gaps between services after a time.
    fn idle_ahead_ns(&self, now: SimTime) -> u128 {
        u128::from(self.link.next_free(now).since(now).ns()) - self.ahead_ns(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SpecBuilder;

    /// Of a byte a nanosecond.
    fn dma(queue: u32, transfer_ns: u64) -> Dma {
        let mut link = SpecBuilder::preset("cidr").unwrap().build().unwrap().link;
        (link.queue_transfers, link.transfer_ns, link.latency_ns) = (queue, transfer_ns, 1000);
        (link.generation, link.lanes, link.efficiency) = (3, 1, 1.0 / 0.984_615);
        Dma::new(&link)
    }

    /// When transfers of these bytes, asked for at these times, arrive.
    fn arrive(queue: u32, transfer_ns: u64, asked: &[(u64, u64)]) -> Vec<u64> {
        let mut dma = dma(queue, transfer_ns);
        let at = SimTime::from_ns;
        asked.iter().map(|&(now, bytes)| dma.transfer(at(now), bytes).ns()).collect()
    }

    #[test]
    fn the_link_is_busy_while_it_carries_and_not_while_descriptors_are_awaited() {
        let mut dma = dma(256, 5000);
        let at = SimTime::from_ns;
        // At 5000, 10000 and 15000, for 100 ns each.
        let arrived: Vec<u64> = (0..3).map(|_| dma.transfer(at(0), 100).ns()).collect();
        assert_eq!(arrived, [6100, 11_100, 16_100]);
        let busy = |dma: &Dma, now| {
            let load = dma.load(at(now));
            (load.busy_ns, load.utilisation)
        };
        assert_eq!(busy(&dma, 4000), (0, 0.0));
        assert_eq!(busy(&dma, 7000), (100, 100.0 / 7000.0));
        assert_eq!(busy(&dma, 10_040), (140, 140.0 / 10_040.0));
        assert_eq!(busy(&dma, 20_000), (300, 300.0 / 20_000.0));
        dma.restart_account(at(10_040));
        assert_eq!(busy(&dma, 10_050), (10, 1.0));
        assert_eq!(busy(&dma, 12_040), (60, 60.0 / 2000.0));
        assert_eq!(busy(&dma, 20_040), (160, 160.0 / 10_000.0));
    }

    #[test]
    fn a_queue_that_takes_nothing_and_holds_enough_is_the_link_alone() {
        // A byte a nanosecond, and 1,000 ns.
        let asked = [(0, 500), (0, 500), (100, 300), (5000, 10)];
        assert_eq!(arrive(256, 0, &asked), [1500, 2000, 2300, 6010]);
    }

    #[test]
    fn descriptors_follow_each_other_and_a_full_queue_waits_for_the_first_to_arrive() {
        assert_eq!(arrive(256, 700, &[(0, 500), (0, 500), (0, 10)]), [2200, 2900, 3110]);
        assert_eq!(arrive(1, 0, &[(0, 500), (0, 500), (9000, 500)]), [1500, 3000, 10_500]);
        assert_eq!(arrive(2, 0, &[(0, 500), (0, 500), (0, 500)]), [1500, 2000, 3000]);
    }
}
