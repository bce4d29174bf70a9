//! Where a server is seen, as written.
//! Room: onefold.

use std::path::PathBuf;

/// Metrics, and the page.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Seen from outside")]
pub struct MetricsArgs {
    /// Answer there over HTTP: the page at /, metrics for Prometheus at /metrics
    ///
    /// Nothing is changed from there. An address that other machines may reach needs TLS, whose
    /// clients show a certificate, or --metrics-token-file. Port 0 takes any free one.
    #[arg(long, value_name = "ADDR:PORT", env = "ONEFOLD_METRICS", hide_env = true)]
    pub metrics: Option<String>,
    /// Answer only who knows the one word in this file: as a bearer token, or as a password
    #[arg(long, value_name = "FILE", env = "ONEFOLD_METRICS_TOKEN_FILE", hide_env = true)]
    pub metrics_token_file: Option<PathBuf>,
}
