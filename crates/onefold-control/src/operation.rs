//! An operation that a server does when it is asked, as everybody but who does it has to know it.
//! Room: onefold-control.

use schemars::{Schema, SchemaGenerator};

use crate::jobs::Turn;

/// The only version, and where it is.
pub const PREFIX: &str = "/api/v1/";

/// What it is called, takes and gives.
#[derive(Clone, Copy)]
pub struct OperationInfo {
    /// Its name, as the command has it: `volume create`.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Whether it changes anything.
    pub changes: bool,
    /// Who has to wait for whom.
    pub turn: Turn,
    /// What it takes.
    pub request: fn(&mut SchemaGenerator) -> Schema,
    /// What it gives to programs.
    pub result: fn(&mut SchemaGenerator) -> Schema,
}

impl OperationInfo {
    /// Its address.
    pub fn path(&self) -> String {
        format!("{PREFIX}{}", self.name.replace(' ', "/"))
    }
}
