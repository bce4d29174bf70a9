//! Which plane the next host page goes to.
//! Room: onefold-flash.
//! Round robin goes channel by channel first, then die by die, then plane by plane, so that
//! neighbours in time run side by side.

use onefold_sim::{RandomStream, RandomStreams};

use crate::controller::unit::Unit;
use crate::geometry::Geometry;
use crate::spec::{Allocation, DriveSpec};

/// Where host pages go.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    rule: Allocation,
    /// Planes in the order of round robin.
    stripe: Vec<u32>,
    next: usize,
    planes_per_unit: u32,
    /// Planes of each unit taken so far.
    turns: Vec<u32>,
    random: RandomStream,
}

impl Placement {
    pub(crate) fn new(spec: &DriveSpec) -> Self {
        let geometry = &spec.geometry;
        let units = spec.parallel_units();
        Self {
            rule: spec.ftl.allocation,
            stripe: stripe(geometry),
            next: 0,
            planes_per_unit: geometry.planes() / units,
            turns: vec![0; units as usize],
            random: RandomStreams::new(spec.seed).stream("controller.placement"),
        }
    }

    /// The plane for the next host page.
    pub(crate) fn choose(&mut self, units: &[Unit], now: u64) -> u32 {
        match self.rule {
            Allocation::RoundRobin => self.next_in_turn(),
            Allocation::IdleFirst => {
                let unit = self.least_loaded(units, now);
                let turn = &mut self.turns[unit as usize];
                let plane = unit * self.planes_per_unit + *turn;
                *turn = (*turn + 1) % self.planes_per_unit;
                plane
            }
        }
    }

    /// The plane for the next host page where planes take turns, which depends on nothing else.
    #[inline]
    pub(crate) fn next_in_turn(&mut self) -> u32 {
        let plane = self.stripe[self.next];
        self.next += 1;
        if self.next == self.stripe.len() {
            self.next = 0;
        }
        plane
    }

    /// Time until the unit of the next host page is free, as far as can be told.
    pub(crate) fn wait_ns(&self, units: &[Unit], now: u64) -> u64 {
        match self.rule {
            Allocation::RoundRobin => {
                let unit = self.stripe[self.next] / self.planes_per_unit;
                load_ns(&units[unit as usize], now)
            }
            Allocation::IdleFirst => {
                units.iter().map(|unit| load_ns(unit, now)).min().expect("a drive has units")
            }
        }
    }

    /// The unit that is free first; of several, one at random.
    fn least_loaded(&mut self, units: &[Unit], now: u64) -> u32 {
        let load = |unit: &Unit| load_ns(unit, now);
        let least = units.iter().map(load).min().expect("a drive has units");
        let tied = units.iter().filter(|unit| load(unit) == least).count();
        let chosen = if tied == 1 { 0 } else { self.random.below(tied as u64) as usize };
        let mut least_ones = (0..units.len()).filter(|&at| load(&units[at]) == least);
        least_ones.nth(chosen).expect("counted just now") as u32
    }
}

/// Time that a unit is taken for.
fn load_ns(unit: &Unit, now: u64) -> u64 {
    let parked = unit.parked.map_or(0, |parked| parked.remaining_ns);
    unit.ends.saturating_sub(now) + unit.queued_ns + parked
}

/// All planes, packages innermost: package `p` is on channel `p` modulo channels.
fn stripe(geometry: &Geometry) -> Vec<u32> {
    let mut planes = Vec::with_capacity(geometry.planes() as usize);
    for plane in 0..geometry.planes_per_die {
        for die in 0..geometry.dies_per_package {
            for package in 0..geometry.packages {
                let die = package * geometry.dies_per_package + die;
                planes.push(die * geometry.planes_per_die + plane);
            }
        }
    }
    planes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::unit::{Entry, Parked};
    use crate::op::{Cause, OpKind};

    #[test]
    fn the_stripe_visits_every_plane_once_and_changes_channel_each_time() {
        let geometry = Geometry {
            channels: 4,
            packages: 8,
            dies_per_package: 2,
            planes_per_die: 3,
            blocks_per_plane: 8,
            pages_per_block: 4,
            page_bytes: 4096,
            oob_bytes: 0,
        };
        let stripe = stripe(&geometry);
        let channels: Vec<u32> =
            stripe.iter().map(|&plane| geometry.channel_of_plane(plane)).collect();
        assert!(channels.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 4));
        let mut sorted = stripe;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..geometry.planes()));
    }

    #[test]
    fn a_unit_is_taken_by_what_runs_what_waits_and_what_was_put_aside() {
        let entry = Entry::background(OpKind::Erase, Cause::Gc, 0);
        let parked = Parked { entry, remaining_ns: 7, bus_ns: 0 };
        let mut unit = Unit::new(0);
        assert_eq!(load_ns(&unit, 0), 0);
        (unit.ends, unit.queued_ns) = (100, 50);
        assert_eq!((load_ns(&unit, 30), load_ns(&unit, 200)), (120, 50));
        unit.parked = Some(parked);
        assert_eq!(load_ns(&unit, 30), 127);
    }
}
