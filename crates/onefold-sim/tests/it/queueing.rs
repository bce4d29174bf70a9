//! The station against the closed forms of M/M/1 and M/D/1, and against itself.
//! Room: onefold-sim.

use onefold_sim::{Limits, SimError, SimSpan};

use crate::station::{Service, Station};

const SERVICE: SimSpan = SimSpan::from_us(100);
/// Enough for one per cent at these loads.
const CUSTOMERS: u32 = 400_000;

fn close(got: f64, want: f64, tolerance: f64, what: &str) {
    assert!((got / want - 1.0).abs() < tolerance, "{what}: {got} instead of {want}");
}

/// Runs a station at this load in per cent; gives utilisation, mean wait in services, mean queue.
fn measured(load: u64, service: Service) -> (f64, f64, f64) {
    let between = SimSpan::from_ns(SERVICE.ns() * 100 / load);
    let mut station = Station::new(load, CUSTOMERS, between, service);
    let (_, _, usage) = station.run(Limits::default()).expect("no station stalls by itself");
    assert_eq!(station.served, CUSTOMERS);
    let wait = usage.wait_ns_mean() / SERVICE.ns() as f64;
    (usage.utilisation(), wait, usage.waiting_mean())
}

#[test]
fn exponential_service_waits_as_m_m_1_says() {
    for load in [30, 50, 70] {
        let rho = load as f64 / 100.0;
        let (utilisation, wait, queue) = measured(load, Service::Exponential(SERVICE));
        close(utilisation, rho, 0.01, "utilisation");
        close(wait, rho / (1.0 - rho), 0.03, "wait");
        close(queue, rho * rho / (1.0 - rho), 0.04, "queue");
    }
}

#[test]
fn constant_service_waits_half_as_long() {
    for load in [30, 50, 70] {
        let rho = load as f64 / 100.0;
        let (utilisation, wait, queue) = measured(load, Service::Constant(SERVICE));
        close(utilisation, rho, 0.01, "utilisation");
        close(wait, rho / (2.0 * (1.0 - rho)), 0.03, "wait");
        close(queue, rho * rho / (2.0 * (1.0 - rho)), 0.04, "queue");
    }
}

#[test]
fn the_same_seed_gives_the_same_world() {
    let world = |seed| {
        let mut station =
            Station::new(seed, 5_000, SimSpan::from_us(120), Service::Exponential(SERVICE));
        let (end, log, usage) = station.run(Limits::default()).unwrap();
        (end, log.hash(), log.events(), usage, station.next_random())
    };
    for seed in 0..8 {
        assert_eq!(world(seed), world(seed), "seed {seed}");
        assert_ne!(world(seed).1, world(seed + 1).1, "seed {seed}");
    }
}

#[test]
fn a_stall_names_the_blocked_resource() {
    let mut station = Station::new(1, 100, SimSpan::from_us(120), Service::Constant(SERVICE));
    station.lost = Some(40);
    let error = station.run(Limits::default()).unwrap_err();
    let SimError::Stalled { work_left, ref blocked, .. } = error else { panic!("{error}") };
    assert_eq!((work_left, blocked[0].waiting), (60, 59));
    let text = error.to_string();
    assert!(text.contains("60 pieces") && text.contains("`counter` (1 of 1 busy, 59 waiting)"));
}

#[test]
fn an_endless_run_is_stopped() {
    let mut station = Station::new(1, 100, SimSpan::from_us(120), Service::Constant(SERVICE));
    let error = station.run(Limits { events_max: 50 }).unwrap_err();
    assert!(matches!(error, SimError::Endless { events: 50, .. }), "{error}");
}
