//! The target that the variable FUZZ_TARGET names.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use onefold_fuzz::targets::{TARGETS, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("no target is called {name}"))
});

fuzz_target!(|data: &[u8]| (TARGET.take)(data));
