//! Where a running server listens.
//! Room: onefold.

use onefold_control::Report;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};
use crate::operate::Context;
use crate::output::JSON_SCHEMA_VERSION;

/// There is nothing to choose.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Request {}

/// Where it listens.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct AddressesJson {
    schema_version: u32,
    /// Each of them.
    pub addresses: Vec<AddressJson>,
}

/// One address.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct AddressJson {
    /// As `--listen` has it: `unix:PATH` or `tcp:HOST:PORT`.
    pub address: String,
    /// Whether clients must use TLS there.
    pub tls: bool,
}

/// Say where.
pub fn operate(context: &Context<'_>, _: &Request) -> Result<Report> {
    let Some(live) = context.live else {
        return Err(Failure::nothing_done("only a running server listens anywhere"));
    };
    let addresses = live.addresses.clone();
    let text: Vec<String> = addresses.iter().map(|one| format!("{}\n", one.address)).collect();
    let result = AddressesJson { schema_version: JSON_SCHEMA_VERSION, addresses };
    Ok(Report::default().with_result(&result).with_text(&text.concat()))
}
