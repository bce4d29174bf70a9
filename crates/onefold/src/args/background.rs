//! What a pool does in the background, as written.
//! Room: onefold.

use onefold_pool::SpaceTarget;

/// When a server does what can wait.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Background {
    /// Only when the disk is full, and only to win space back
    Off,
    /// While no client reads or writes; space only as far as --space-target asks for it
    Idle,
    /// All the time
    Always,
}

impl Background {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Idle => "idle",
            Self::Always => "always",
        }
    }
}

/// Work in the background.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Work in the background")]
pub struct BackgroundArgs {
    /// When space of overwritten data is won back, and found what is stored more than once
    #[arg(long, value_name = "WHEN", env = "ONEFOLD_BACKGROUND", hide_env = true)]
    #[arg(default_value = "idle")]
    pub background: Background,
    /// How many bytes may be stored for each byte that is alive
    ///
    /// Writers are slowed down to keep to it. With --background off it means nothing.
    #[arg(long, value_name = "RATIO", env = "ONEFOLD_SPACE_TARGET", hide_env = true)]
    #[arg(default_value = "1.5", value_parser = space_target)]
    pub space_target: SpaceTarget,
}

/// A ratio of stored bytes to live ones.
pub fn space_target(text: &str) -> Result<SpaceTarget, String> {
    let ratio: f64 = text.parse().map_err(|_| "it is no number, such as 1.5".to_owned())?;
    SpaceTarget::new(ratio).map_err(|error| error.to_string())
}
