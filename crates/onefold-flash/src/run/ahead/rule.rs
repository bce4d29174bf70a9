//! Where the FTL decides the same whatever time it is.
//! Room: onefold-flash.
//! That is so where nobody asks for the time, and where requests come to the FTL in the order in
//! which they are drawn. Each condition below is for something that could overtake, be overtaken,
//! or be asked.

use crate::controller::work_ns;
use crate::dedup::policy_info;
use crate::spec::{Allocation, ArrivalKind, DriveSpec, ThinkKind, TraceTiming, WriteBuffer};

/// Where requests come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// From the generator: all of one length, and whole pages.
    Generated,
    /// From a trace: of any kind and length. A page that is written in part waits for what it
    /// held, so that from the first one on, decisions take their time.
    Trace,
}

/// Whether all decisions may be made ahead of time, or those before the first page that is written
/// in part.
pub(crate) fn decides_ahead(spec: &DriveSpec, from: Workload) -> bool {
    let table = &spec.workload;
    // Pages wait to be packed until others come, or until a flush has waited for writes.
    let in_turn = !spec.packs() && spec.ftl.allocation == Allocation::RoundRobin;
    // Nothing is done in idle moments, because there are none before the last request.
    let closed = match from {
        Workload::Generated => table.arrivals == ArrivalKind::Closed,
        Workload::Trace => table.trace_timing == TraceTiming::Closed,
    };
    let busy =
        closed && (table.arrivals != ArrivalKind::Closed || table.think_time == ThinkKind::None);
    let never_idle = busy || spec.controller.idle_after_ns == 0 && !spec.controller.idle_hint;
    // A request without pages to take in overtakes a write on the link; and a read, or a shorter
    // write, one that waits for the buffer. The host's scrambler leaves out pages.
    let alike = from == Workload::Generated && !(table.read_share > 0.0 && table.read_share < 1.0);
    let one_way =
        spec.host.link_mb_per_s == 0 && spec.controller.write_buffer == WriteBuffer::Through;
    let in_order = (alike || one_way) && spec.host.scrambler_mb_per_s == 0;
    in_turn && never_idle && in_order && decides_at_once(spec)
}

/// Whether a page that comes to the FTL is decided on before time goes on.
fn decides_at_once(spec: &DriveSpec) -> bool {
    let awaits = policy_info(&spec.dedup.policy).ok().and_then(|info| info.awaits);
    let takes_time = |&work: &_| work_ns(spec, work) > 0;
    spec.controller.lookup_ns == 0 && awaits.is_some_and(|works| !works.iter().any(takes_time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::SpecBuilder;

    fn decides(from: Workload, preset: &str, set: &[&str]) -> bool {
        let builder = SpecBuilder::preset(preset).expect("a preset");
        let spec = set.iter().try_fold(builder, |builder, one| builder.set(one));
        decides_ahead(&spec.and_then(SpecBuilder::build).expect("a drive"), from)
    }

    #[test]
    fn the_clock_decides_where_something_takes_time_or_may_overtake() {
        use Workload::{Generated, Trace};
        for policy in ["none", "caftl-offline", "block-separation", "crc-compare"] {
            let policy = format!("policy={policy}");
            assert!(decides(Generated, "ses-slc", &[&policy]), "{policy}");
            let closed = [policy.as_str(), "trace_timing=closed"];
            assert!(decides(Trace, "ses-slc", &closed), "{policy}");
        }
        for policy in ["caftl-online", "ses-host", "ses-device", "gleaner", "codeword"] {
            let policy = format!("policy={policy}");
            assert!(!decides(Generated, "ses-slc", &[&policy]), "{policy}");
        }
        for (set, yes) in [
            ("read_share=0.5", true),
            ("lookup_ns=1", false),
            ("allocation=idle-first", false),
            ("think_time=constant", false),
            ("arrivals=poisson", false),
            ("link_mb_per_s=100", true),
            ("write_buffer=back", true),
            ("scrambler_mb_per_s=100", false),
        ] {
            assert_eq!(decides(Generated, "ses-slc", &[set]), yes, "{set}");
        }
        for set in ["link_mb_per_s=100", "write_buffer=back"] {
            assert!(!decides(Generated, "ses-slc", &[set, "read_share=0.5"]), "{set}");
            assert!(!decides(Trace, "ses-slc", &[set, "trace_timing=closed"]), "{set}");
        }
        let reads = ["link_mb_per_s=100", "read_share=1"];
        assert!(decides(Generated, "ses-slc", &reads), "reads do not overtake reads");
        assert!(!decides(Trace, "ses-slc", &[]), "a trace by its timestamps has idle moments");
        let waits = ["policy=crc-compare", "light_hash_ns=1"];
        assert!(!decides(Generated, "ses-slc", &waits), "a fingerprint takes time");
        let never = ["arrivals=poisson", "idle_after_ns=0", "idle_hint=false"];
        assert!(decides(Generated, "ses-slc", &never), "nothing is done in idle moments");
        for some in [["idle_after_ns=1", "idle_hint=false"], ["idle_after_ns=0", "idle_hint=true"]]
        {
            let set = [never[0], some[0], some[1]];
            assert!(!decides(Generated, "ses-slc", &set), "{some:?}: they begin all the same");
        }
    }
}
