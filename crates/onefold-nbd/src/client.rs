//! Who asks for an export, as far as the server knows.
//! Room: onefold-nbd.

use std::fmt;

/// A client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Client {
    /// On a Unix socket: the system let it in for its user or group.
    Local,
    /// On TCP without TLS: anybody.
    Unknown,
    /// It has shown a certificate that one of the server's authorities signed.
    Certified {
        /// The common name (CN) of the certificate's subject; empty if it has none, or several.
        name: String,
    },
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Unknown => f.write_str("unknown"),
            Self::Certified { name } => write!(f, "CN={name}"),
        }
    }
}
