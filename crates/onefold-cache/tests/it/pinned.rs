//! What every policy decides, and how long that takes, on one workload: pinned.
//! Room: onefold-cache.
//! A change of any decision of a policy is a change of its published figures: whoever means it puts
//! the table that the failure prints in the place of this one, and says why.

use std::fmt::Write as _;

use onefold_cache::workload::WorkloadSpec;
use onefold_cache::{POLICIES, Spec, simulate};

/// By policy: hits and writes at 2 %, then at 20 % of the data, and a hash of all decisions and
/// times.
const PINNED: &str = "\
fifo [56, 4042, 1078, 3020] d6628f41bac335f4
lru [56, 4042, 1121, 2977] 66bc13525b9f83d1
lfu [88, 4010, 1015, 3083] 3e7f4c777747d6d6
clock [56, 4042, 1119, 2979] 11969ec03640e7bb
2q [66, 4032, 1274, 2824] 42c88cf9896a7bbd
arc [93, 4005, 1163, 2935] 386d3750e6207fcf
lirs [80, 4018, 1255, 2843] e5f4a853db34a08c
s3-fifo [86, 4012, 1324, 2774] 7128af13a48a3e0d
sieve [56, 4042, 1163, 2935] 5be5d8455b35ae85
w-tinylfu [67, 4031, 1373, 2725] d4b2b8c75f75ad3e
larc [126, 14, 1290, 534] df67e3122b56bcdf
reject-first [118, 56, 1271, 712] a2afd716cda84908
dynamic-random [107, 75, 880, 51] 0997550dda8b4e83
lazy-lfu [149, 5, 1249, 57] b9740464f80a341a
flashield [84, 13, 426, 15] 8b3aa9ab61695c6a
plc [121, 430, 1275, 297] 2cb07cf073034fb6
toll [88, 2031, 1354, 697] 30211b06b9e59e00
belady [532, 754, 2393, 1082] 4e9d51eda78deff5
static [164, 2, 1416, 25] 8b28e3fcb144ede5
";

#[test]
fn decisions_and_times_of_all_policies_are_what_they_were() {
    let mut spec = Spec::new();
    let workload = WorkloadSpec { data_mib: 256, read_gib: 8.0, ..WorkloadSpec::default() };
    spec.workload = WorkloadSpec { drift_steps: 3, ..workload };
    spec.sizes = vec![0.02, 0.2];
    let trace = spec.workload.trace().unwrap();
    let mut found = String::new();
    for name in POLICIES.iter().map(|policy| policy.name) {
        spec.policies = vec![name.to_owned()];
        let result = simulate(&trace, &spec.plan().unwrap()).unwrap();
        let [small, large] = &result.runs[..] else { panic!("two sizes") };
        let counts = [small.hits, small.writes, large.hits, large.writes];
        writeln!(found, "{name} {counts:?} {}", result.result_hash).unwrap();
    }
    assert!(found == PINNED, "now:\n{found}");
}
