//! `--rescue`, as written.
//! Room: onefold.

use clap::ValueEnum;
use onefold_pool::RescuePoint;

/// For pools that are refused because they are damaged.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct RescueArgs {
    /// Read a pool that is refused because it is damaged; nothing in it is changed
    ///
    /// It falls back to the newest checkpoint and the parts of the journal that can be read, and
    /// says what may be missing or old. `consistent`, the default, shows all blocks as they were
    /// at one moment, the latest that is known to be whole. `newest` shows of each block the
    /// newest known state, so that blocks may be of different moments.
    #[arg(long, value_name = "POINT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "consistent", hide_possible_values = true)]
    pub rescue: Option<PointArg>,
}

/// Which state to show.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum PointArg {
    /// One moment.
    Consistent,
    /// The newest of each block.
    Newest,
}

impl From<PointArg> for RescuePoint {
    fn from(point: PointArg) -> Self {
        match point {
            PointArg::Consistent => Self::Consistent,
            PointArg::Newest => Self::Newest,
        }
    }
}
