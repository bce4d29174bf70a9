//! The DMA queue of an engine, one for each way: descriptors one after the other, then the link.
//! Room: onefold-array.
//! Invariants: transfers begin in the order in which they are asked for; no more than the queue
//! holds are on their way at a time; where it takes no time and holds enough, all is as if there
//! were only the link.

use std::collections::VecDeque;

use onefold_sim::{Load, Pipe, SimSpan, SimTime, Stations};

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
        let end = self.link.send(begins, bytes, 0).end + self.link.latency();
        self.arrived.push_back(end);
        end
    }

    /// Forgets what was so far.
    pub fn restart_account(&mut self, now: SimTime) {
        self.link.restart_account(now);
    }

    /// How the link spent the time up to now.
    pub fn load(&self, now: SimTime) -> Load {
        self.link.load(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SpecBuilder;

    /// When transfers of these bytes, asked for at these times, arrive.
    fn arrive(queue: u32, transfer_ns: u64, asked: &[(u64, u64)]) -> Vec<u64> {
        let mut link = SpecBuilder::preset("cidr").unwrap().build().unwrap().link;
        (link.queue_transfers, link.transfer_ns, link.latency_ns) = (queue, transfer_ns, 1000);
        (link.generation, link.lanes, link.efficiency) = (3, 1, 1.0 / 0.984_615);
        let mut dma = Dma::new(&link);
        let at = SimTime::from_ns;
        asked.iter().map(|&(now, bytes)| dma.transfer(at(now), bytes).ns()).collect()
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
