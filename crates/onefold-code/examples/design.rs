//! Prints what every named LDPC code is worth: size, rate, girth, lowest codeword weight found.
//! Room: onefold-code.
//! Run: `cargo run --release -p onefold-code --example design [-- NODE_BUDGET]`

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

use onefold_code::{LDPC_NAMES, ldpc_by_name};

fn main() -> Result<(), onefold_code::CodeError> {
    let budget = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(20_000_000);
    println!(
        "| code | data B | parity B | rate | column weight | girth | minimum distance | lowest \
         weight found |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for name in LDPC_NAMES {
        let code = ldpc_by_name(name)?;
        let report = code.distance_report(10, budget);
        println!(
            "| `{name}` | {} | {} | {:.4} | {} | {} | >= {} | {} |",
            code.data_bytes(),
            code.parity_bytes(),
            code.rate(),
            code.shape().weight,
            report.girth,
            report.proven_at_least,
            report.lowest_found.map_or("none within the budget".into(), |w| w.to_string()),
        );
    }
    Ok(())
}
