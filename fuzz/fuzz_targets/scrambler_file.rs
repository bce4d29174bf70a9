//! Any text as a scrambler file; what is accepted can be used and written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onefold_code::ScramblerSpec;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(spec) = ScramblerSpec::from_toml(text) else { return };
    let again = ScramblerSpec::from_toml(&spec.to_toml()).expect("it was just accepted");
    assert_eq!(again, spec);
});
