//! `onefold top`, as written.
//! Room: onefold.

const NOTES: &str = "\
Keys: q, Esc or Ctrl-C leaves; p holds what is shown still, and again goes on; s sorts the exports
by how busy they are or by name; Up, Down, PageUp and PageDown move the list. NO_COLOR switches
colours off.

Examples:
  onefold top ./demo
  onefold top 127.0.0.1:9469";

/// `onefold top`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct TopArgs {
    /// Folder of a pool that is served, or a server's --metrics address without token and TLS
    #[arg(value_name = "POOL|ADDRESS", default_value = ".")]
    pub server: String,
}
