//! Laws of the queue and of resources over random histories.
//! Room: onefold-sim.

use std::collections::BTreeMap;

use onefold_sim::{Discipline, EventQueue, Grant, Resource, SimSpan, SimTime};
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    /// The queue against a sorted map, with events taken out in between: many at one time, some
    /// far away.
    #[test]
    fn the_queue_is_a_sorted_map(
        steps in vec((0_u64..20, prop_oneof![Just(0), 0_u32..50], 0_u32..5), 0..300),
    ) {
        let mut queue = EventQueue::new();
        let mut model = BTreeMap::new();
        for (number, (delay, shift, kind)) in steps.into_iter().enumerate() {
            let delay = delay << shift;
            let next = model.first_key_value().map(|(&(at, _), _)| at);
            prop_assert_eq!(queue.next_time(), next);
            if kind < 2 {
                let expected = model.pop_first().map(|((at, _), event)| (at, event));
                prop_assert_eq!(queue.pop(), expected);
            } else {
                model.insert((queue.now() + SimSpan::from_ns(delay), number), number);
                queue.after(SimSpan::from_ns(delay), number);
            }
            prop_assert_eq!(queue.len(), model.len());
        }
    }

    /// Servers, waiting jobs and accounts against a plain list.
    #[test]
    fn a_resource_serves_as_a_plain_list_would(
        servers in 1_u32..4,
        steps in vec((0_u64..5, 0_u8..3, any::<bool>()), 0..200),
    ) {
        let mut resource = Resource::new("r", servers, Discipline::Priority { levels: 3 });
        let (mut now, mut busy) = (SimTime::ZERO, 0);
        let mut waiting: Vec<(u8, usize)> = Vec::new();
        let (mut busy_ns, mut waiting_ns) = (0, 0);
        for (job, (span, priority, release)) in steps.into_iter().enumerate() {
            now += SimSpan::from_ns(span);
            busy_ns += u128::from(span) * u128::from(busy);
            waiting_ns += u128::from(span) * waiting.len() as u128;
            if !release {
                let grant = resource.request_with(now, (priority, job), priority);
                if busy < servers {
                    busy += 1;
                    prop_assert_eq!(grant, Grant::Now((priority, job)));
                } else {
                    waiting.push((priority, job));
                    prop_assert_eq!(grant, Grant::Later);
                }
            } else if busy > 0 {
                let next = waiting.iter().copied().min();
                waiting.retain(|job| Some(*job) != next);
                busy -= u32::from(next.is_none());
                prop_assert_eq!(resource.release(now), next);
            }
            prop_assert_eq!((resource.busy(), resource.waiting()), (busy, waiting.len()));
        }
        let usage = resource.usage(now);
        prop_assert_eq!((usage.busy_ns, usage.waiting_ns), (busy_ns, waiting_ns));
    }
}
