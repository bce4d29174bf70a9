//! Every target takes its kept inputs and some thousands made from them.
//! Room: onefold-fuzz.   More of them: `cargo xtask fuzz --inputs 10000000`.
//! One test after another, for what an input costs is counted for the whole process.

use onefold_fuzz::targets::TARGETS;
use onefold_fuzz::{meter, run};

#[global_allocator]
static ALLOCATOR: meter::Counted = meter::Counted;

#[test]
fn every_target_takes_anything_and_an_excess_is_noticed() {
    for target in TARGETS {
        let tried = run::kept(target).and_then(|_| run::made(target, target.inputs_in_ci, 1));
        if let Err(broken) = tried {
            panic!("{}: {}: {:?}", target.name, broken.why, broken.input);
        }
        eprintln!("{}: done", target.name);
    }
    // The meter and the catcher work: else nothing above says anything.
    let mut greedy = TARGETS[0].clone();
    greedy.take = |input| drop(std::hint::black_box(vec![0_u8; 1 << (30 + input.len())]));
    assert!(run::one(&greedy, b"").unwrap_err().contains("bytes of memory at once"));
    greedy.take = |input| {
        for _ in 0..100_000 {
            drop(std::hint::black_box(vec![1_u8; (64 << 10) + input.len()]));
        }
    };
    assert!(run::one(&greedy, b"").unwrap_err().contains("in all"));
    greedy.take = |_| panic!("by itself");
    assert_eq!(run::one(&greedy, b"").unwrap_err(), "it panics: by itself");
}
