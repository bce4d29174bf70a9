//! The project's own machines: checks, generated files, benchmarks.

fn main() {}
