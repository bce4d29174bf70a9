//! How a volume is shared: which certificates see it over the network, and how much may be asked of
//! it. Kept with the volume, in the pool.
//! Room: onefold-export.
//! Invariants: (1) what cannot be read lets nobody in over the network; (2) once a volume was given
//! to somebody it is not everybody's again for the last of them being removed.

use std::fmt;
use std::str::FromStr;

use onefold_block::ByteSize;
use onefold_nbd::Client;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What stands before the name of a client.
const COMMON_NAME: &str = "CN=";
/// Longest name of a client, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// How a volume is shared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sharing {
    /// Who sees it over the network; everybody whom the server lets in if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<Vec<Allowed>>,
    /// How much may be asked of it.
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    pub limits: Limits,
}

/// Somebody who may use a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// What the certificate must say, such as CN=web1.
    pub client: ClientName,
    /// Whether nothing may be changed.
    #[serde(default)]
    pub read_only: bool,
}

/// The name of a client: `CN=` and the common name of its certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ClientName(String);

impl FromStr for ClientName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.strip_prefix(COMMON_NAME).unwrap_or_default();
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(char::is_control) {
            return Err(format!(
                "'{}' is no client: write CN= and the common name of its certificate",
                text.escape_debug()
            ));
        }
        Ok(Self(name.to_owned()))
    }
}

impl TryFrom<String> for ClientName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ClientName> for String {
    fn from(name: ClientName) -> Self {
        name.to_string()
    }
}

impl fmt::Display for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{COMMON_NAME}{}", self.0)
    }
}

/// How much may be asked of a volume and its snapshots in a second: by all together, and by each
/// connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Reads, writes, trims and zeroings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Bytes that are read and written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// The same, of one connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_iops: Option<u64>,
    /// The same, of one connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_bytes_per_second: Option<u64>,
}

impl Limits {
    /// Whether nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// For people; nothing without limits.
    pub fn text(&self) -> String {
        let iops = |iops: Option<u64>, of| iops.map(|iops| format!("{iops} IOPS{of}"));
        let rate = |rate: Option<u64>, of| rate.map(|rate| format!("{}/s{of}", ByteSize(rate)));
        let each = " a connection";
        let all = [
            iops(self.iops, ""),
            rate(self.bytes_per_second, ""),
            iops(self.connection_iops, each),
            rate(self.connection_bytes_per_second, each),
        ];
        all.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// What somebody may do with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// It is as if it were not there.
    Nothing,
    /// Read.
    Read,
    /// Read and write.
    Write,
}

impl Sharing {
    /// What was kept with a volume.
    pub fn of_note(note: &[u8]) -> Result<Self, String> {
        if note.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(note).map_err(|error| error.to_string())
    }

    /// What is kept with a volume.
    pub fn to_note(&self) -> Vec<u8> {
        if *self == Self::default() {
            return Vec::new();
        }
        // Plain structs of numbers and texts always are JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The same, and what cannot be read is nobody's.
    pub fn of_any_note(note: &[u8]) -> Self {
        Self::of_note(note).unwrap_or_else(|_| Self::nobody())
    }

    /// A volume that is for nobody on the network.
    pub fn nobody() -> Self {
        Self { clients: Some(Vec::new()), limits: Limits::default() }
    }

    /// What a client may do.
    pub fn right_of(&self, client: &Client) -> Right {
        let Some(allowed) = &self.clients else { return Right::Write };
        let name = match client {
            Client::Local => return Right::Write,
            Client::Unknown => return Right::Nothing,
            Client::Certified { name } => name,
        };
        match allowed.iter().find(|allowed| allowed.client.0 == *name) {
            None => Right::Nothing,
            Some(Allowed { read_only: true, .. }) => Right::Read,
            Some(_) => Right::Write,
        }
    }

    /// Who sees it, for people.
    pub fn clients_text(&self) -> String {
        let Some(allowed) = &self.clients else { return "everybody".to_owned() };
        let one = |allowed: &Allowed| {
            let mode = if allowed.read_only { " (read-only)" } else { "" };
            format!("{}{mode}", allowed.client)
        };
        match allowed.as_slice() {
            [] => "nobody".to_owned(),
            all => all.iter().map(one).collect::<Vec<_>>().join(", "),
        }
    }

    /// Let a client use the volume, or use it otherwise than before.
    pub fn allow(&mut self, client: ClientName, read_only: bool) {
        let all = self.clients.get_or_insert_default();
        all.retain(|allowed| allowed.client != client);
        all.push(Allowed { client, read_only });
    }

    /// Let it not; whether it could.
    pub fn deny(&mut self, client: &ClientName) -> bool {
        let Some(all) = &mut self.clients else { return false };
        let before = all.len();
        all.retain(|allowed| allowed.client != *client);
        all.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certified(name: &str) -> Client {
        Client::Certified { name: name.to_owned() }
    }

    #[test]
    fn only_who_is_named_is_let_in_and_nobody_once_the_last_is_gone() {
        let mut sharing = Sharing::default();
        let all = [Client::Local, Client::Unknown, certified("web1"), certified("")];
        let rights = |sharing: &Sharing| all.clone().map(|client| sharing.right_of(&client));
        assert_eq!(rights(&sharing), [Right::Write; 4]);
        let web1: ClientName = "CN=web1".parse().unwrap();
        sharing.allow("CN=web2".parse().unwrap(), false);
        sharing.allow(web1.clone(), true);
        assert_eq!(rights(&sharing), [Right::Write, Right::Nothing, Right::Read, Right::Nothing]);
        assert_eq!(sharing.clients_text(), "CN=web2, CN=web1 (read-only)");
        sharing.allow(web1.clone(), false);
        assert_eq!(sharing.right_of(&certified("web1")), Right::Write);
        assert!(sharing.deny(&web1) && !sharing.deny(&web1));
        assert!(sharing.deny(&"CN=web2".parse().unwrap()));
        let nobody = [Right::Write, Right::Nothing, Right::Nothing, Right::Nothing];
        assert_eq!(rights(&sharing), nobody);
        assert_eq!(rights(&Sharing::of_note(&sharing.to_note()).unwrap()), nobody);
    }

    #[test]
    fn notes_come_back_and_what_is_not_known_is_not_guessed() {
        let mut sharing = Sharing::default();
        assert!(sharing.to_note().is_empty());
        assert_eq!(Sharing::nobody().to_note(), br#"{"clients":[]}"#, "only what is set is kept");
        sharing.limits.iops = Some(5);
        sharing.allow("CN=a b,c".parse().unwrap(), true);
        let note = sharing.to_note();
        assert_eq!(Sharing::of_note(&note).unwrap(), sharing);
        for len in 1..note.len() {
            assert!(Sharing::of_note(&note[..len]).is_err(), "cut to {len}");
        }
        for newer in [r#"{"times":[]}"#, r#"{"clients":[{"client":"SAN=x"}]}"#, "7", "{}}"] {
            assert!(Sharing::of_note(newer.as_bytes()).is_err(), "{newer}");
        }
        for wrong in ["", "web1", "CN=", "cn=web1", "CN=a\nb", &format!("CN={}", "x".repeat(257))] {
            assert!(wrong.parse::<ClientName>().is_err(), "{wrong}");
        }
        let longest = format!("CN={}", "x".repeat(256));
        assert_eq!(longest.parse::<ClientName>().unwrap().to_string(), longest);
    }

    #[test]
    fn limits_are_told_as_they_are_set() {
        let limits = Limits {
            iops: Some(1000),
            bytes_per_second: Some(50 << 20),
            connection_iops: None,
            connection_bytes_per_second: Some(1 << 20),
        };
        assert_eq!(limits.text(), "1000 IOPS, 50 MiB/s, 1 MiB/s a connection");
        assert!(Limits::default().text().is_empty() && !limits.is_none());
    }
}
