//! `onefold top`, as written.
//! Room: onefold.

use std::path::PathBuf;

const NOTES: &str = "\
Keys: q, Esc or Ctrl-C leaves; p holds what is shown still, and again goes on; s sorts the exports
by how busy they are or by name; Up, Down, PageUp and PageDown move the list. NO_COLOR switches
colours off.

Examples:
  onefold top ./demo
  onefold top 127.0.0.1:9469
  onefold top https://disk.example:9469/ --tls-ca ca.pem --tls-cert me.pem --tls-key me-key.pem";

/// `onefold top`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct TopArgs {
    /// Folder of a pool that is served, or a server's --metrics address
    ///
    /// An address is HOST:PORT or http://HOST:PORT/, or https://HOST:PORT/ with --tls-ca.
    #[arg(value_name = "POOL|ADDRESS", default_value = ".")]
    pub server: String,
    /// File with the word that the server's --metrics-token-file holds
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificate authority (PEM) that must have signed the server's certificate
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Certificate chain (PEM) to show to the server
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_cert"])]
    pub tls_key: Option<PathBuf>,
}
