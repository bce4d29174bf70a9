//! `onefold volume allow` and `deny`: whose certificates see a volume over the network.
//! Room: onefold.

use onefold_control::Report;
use onefold_export::{ClientName, Sharing};
use onefold_pool::Budgets;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::{VolumeAllowArgs, VolumeDenyArgs};
use crate::failure::{Failure, Result};
use crate::operate::door::{self, Opening};
use crate::operate::{Context, table};
use crate::output::Printer;
use crate::sharing;

/// Who is let in.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowRequest {
    /// Name of the volume.
    pub name: String,
    /// What the certificate must say, such as CN=web1; without it everybody is let in again.
    pub client: Option<ClientName>,
    /// Let them change nothing.
    #[serde(default)]
    pub read_only: bool,
}

/// Who is let in no more.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DenyRequest {
    /// Name of the volume.
    pub name: String,
    /// What the certificate says, such as CN=web1; without it nobody is let in.
    pub client: Option<ClientName>,
}

/// Change who sees a volume, and let its clients feel it.
fn change(
    context: &Context<'_>,
    name: &str,
    change: impl FnOnce(&mut Sharing) -> Result<()>,
) -> Result<Report> {
    let failed = |error| context.failed(error);
    let sharing = sharing::change(context.pool, &failed, name, change)?;
    if let Some(live) = context.live {
        let volume = context.pool.volume(name).map_err(failed)?;
        live.exports.share_again(&volume);
    }
    let text = sharing.clients_text();
    Ok(Report::note(format!("volume '{name}' is served over the network to: {text}")))
}

/// Let a client in.
pub fn operate_allow(context: &Context<'_>, request: &AllowRequest) -> Result<Report> {
    change(context, &request.name, |sharing| {
        match &request.client {
            Some(client) => sharing.allow(client.clone(), request.read_only),
            None => sharing.clients = None,
        }
        Ok(())
    })
}

/// Let a client in no more.
pub fn operate_deny(context: &Context<'_>, request: &DenyRequest) -> Result<Report> {
    change(context, &request.name, |sharing| {
        match &request.client {
            None => sharing.clients = Some(Vec::new()),
            Some(client) if !sharing.deny(client) => {
                let (name, text) = (&request.name, sharing.clients_text());
                let message = format!("{client} was not let in: '{name}' is for {text}");
                return Err(Failure::nothing_done(message));
            }
            Some(_) => {}
        }
        Ok(())
    })
}

/// Let a client in, and say who is.
pub fn allow(args: &VolumeAllowArgs, printer: &Printer) -> Result<()> {
    let (name, client) = (args.name.clone(), args.client.client.clone());
    let request = AllowRequest { name, client, read_only: args.read_only };
    let opening = Opening::Write(Budgets::default());
    let report = door::call(&args.pool, opening, &table::VOLUME_ALLOW, &request, printer)?;
    printer.report(report, false)
}

/// Let a client in no more, and say who still is.
pub fn deny(args: &VolumeDenyArgs, printer: &Printer) -> Result<()> {
    let request = DenyRequest { name: args.name.clone(), client: args.client.client.clone() };
    let opening = Opening::Write(Budgets::default());
    let report = door::call(&args.pool, opening, &table::VOLUME_DENY, &request, printer)?;
    printer.report(report, false)
}

#[cfg(test)]
mod tests {
    use crate::commands::heard::Folder;

    #[test]
    fn who_is_let_in_is_said_and_stays_so() {
        let here = Folder::new();
        here.ok("pool create ./p");
        here.ok("volume create ./p v --size 1M");
        let told = |line: &str| here.ok(line).err;
        let one = told("volume allow ./p v --client CN=web1");
        assert!(one.starts_with("volume 'v' is served over the network to: "), "{one}");
        assert!(one.contains("CN=web1") && !one.contains("read"), "{one}");
        let two = told("volume allow ./p v --client CN=web2 --read-only");
        assert!(two.contains("CN=web1") && two.contains("CN=web2"), "{two}");
        let denied = told("volume deny ./p v --client CN=web1");
        assert!(!denied.contains("CN=web1") && denied.contains("CN=web2"), "{denied}");
        let again = here.refused("volume deny ./p v --client CN=web1", 2);
        assert!(again.contains("CN=web1 was not let in: 'v' is for "), "{again}");
    }
}
