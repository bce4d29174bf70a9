//! The onefold command: wiring, settings and output.

fn main() {}
