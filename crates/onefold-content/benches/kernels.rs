//! Kernel speeds; see below.
fn main() {}
