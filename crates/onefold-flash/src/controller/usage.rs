//! How the controller's parts spent their time, and what the flash consumed.
//! Room: onefold-flash.

use crate::controller::{Controller, EngineKind, RetryCounts, Servers};
use crate::op::OpKind;
use crate::spec::EnergySpec;

/// Busy time of the units.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnitUsage {
    /// Units.
    pub count: u32,
    /// Busy share of all of them, 0 to 1.
    pub mean: f64,
    /// Busy share of the least busy one.
    pub min: f64,
    /// Busy share of the busiest one.
    pub max: f64,
    /// Share of the time spent in reads, programs and erases.
    pub by_kind: [f64; 3],
    /// Longest queue of one unit.
    pub waiting_max: u64,
}

/// Busy time and waiting time of equal servers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerUsage {
    /// Name.
    pub name: &'static str,
    /// Servers.
    pub count: u32,
    /// Busy share, 0 to 1.
    pub mean: f64,
    /// Jobs served.
    pub jobs: u64,
    /// Waiting time of a job on average, in ns.
    pub wait_ns_mean: f64,
}

impl ServerUsage {
    /// The account of some servers together, of the time from 0 to `now`.
    pub(crate) fn of(servers: &[&Servers], name: &'static str, now: u64) -> Self {
        let count: usize = servers.iter().map(|one| one.count()).sum();
        let busy: u64 = servers.iter().map(|one| one.busy_until(now)).sum();
        let waited: u64 = servers.iter().map(|one| one.waited_ns()).sum();
        let jobs = servers.iter().map(|one| one.jobs()).sum::<u64>();
        Self {
            name,
            count: count as u32,
            mean: busy as f64 / (count as f64 * (now as f64).max(1.0)),
            jobs,
            wait_ns_mean: waited as f64 / (jobs.max(1)) as f64,
        }
    }
}

/// What the controller counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ControllerUsage {
    /// Planes, dies or packages.
    pub units: UnitUsage,
    /// Channels and engines.
    pub servers: Vec<ServerUsage>,
    /// Reads served from pages whose program was still queued, by [`crate::Cause`].
    pub buffer_hits: [u64; 5],
    /// Operations interrupted by reads.
    pub suspends: u64,
    /// Read retries, where they are modelled.
    pub retries: Option<RetryCounts>,
    /// Energy of all flash operations in nJ.
    pub energy_nj: u128,
    /// Events scheduled.
    pub events: u64,
}

impl Controller {
    /// The account of the time from 0 to the present. Of what is under way, and of jobs that are
    /// waiting for an engine or a channel, only the part before the present counts as busy.
    pub fn usage(&self, energy: &EnergySpec) -> ControllerUsage {
        let now = self.now;
        let elapsed = (now as f64).max(1.0);
        let shares = |servers: &[&Servers], name| ServerUsage::of(servers, name, now);
        let mut servers = vec![shares(&self.channels.iter().collect::<Vec<_>>(), "channels")];
        let engines = EngineKind::ALL.into_iter();
        let there = engines.filter(|&kind| kind != EngineKind::Compression || self.compresses);
        servers.extend(there.map(|kind| shares(&[&self.engines[kind as usize]], kind.name())));
        ControllerUsage {
            units: self.unit_usage(elapsed),
            servers,
            buffer_hits: self.buffer_hits,
            suspends: self.suspends,
            retries: self.retries.as_ref().map(|retries| retries.counts),
            energy_nj: self.energy_nj(energy),
            events: self.events.scheduled(),
        }
    }

    fn unit_usage(&self, elapsed: f64) -> UnitUsage {
        let count = self.units.len() as f64;
        let busy: Vec<[u64; 3]> = self.units.iter().map(|unit| unit.busy_until(self.now)).collect();
        let share = |busy: &[u64; 3]| busy.iter().sum::<u64>() as f64 / elapsed;
        let shares: Vec<f64> = busy.iter().map(share).collect();
        let kind =
            |at: usize| busy.iter().map(|busy| busy[at] as f64).sum::<f64>() / (count * elapsed);
        UnitUsage {
            count: self.units.len() as u32,
            mean: shares.iter().sum::<f64>() / count,
            min: shares.iter().copied().fold(f64::INFINITY, f64::min),
            max: shares.iter().copied().fold(0.0, f64::max),
            by_kind: [kind(0), kind(1), kind(2)],
            waiting_max: self.units.iter().map(|unit| unit.waiting_max).max().unwrap_or(0) as u64,
        }
    }

    /// Energy of the flash operations so far.
    pub fn energy_nj(&self, energy: &EnergySpec) -> u128 {
        let EnergySpec { read_nj, program_nj, erase_nj, transfer_nj } = *energy;
        let of = |count: u64, nj: u64| u128::from(count) * u128::from(nj);
        of(self.ops[OpKind::Read as usize], read_nj)
            + of(self.ops[OpKind::Program as usize], program_nj)
            + of(self.ops[OpKind::Erase as usize], erase_nj)
            + of(self.transfers, transfer_nj)
    }
}
