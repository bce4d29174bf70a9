//! `--group`, as written.
//! Room: onefold.

use nix::unistd::Group as SystemGroup;
use onefold_block::Group;

/// Who besides its owner may use what is made.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Access")]
pub struct AccessArgs {
    /// Group (a name or a number) that may use what is made here as its owner may
    ///
    /// Without it, new folders, files and Unix sockets are their owner's alone, whatever the
    /// umask. A folder that was made for a group stays so without saying it again.
    #[arg(long, value_name = "GROUP", env = "ONEFOLD_GROUP", hide_env = true)]
    #[arg(value_parser = parse_group)]
    pub group: Option<Group>,
}

fn parse_group(text: &str) -> Result<Group, String> {
    match SystemGroup::from_name(text) {
        Ok(Some(group)) => return Ok(Group(group.gid.as_raw())),
        Ok(None) => {}
        Err(error) => return Err(format!("the system cannot look it up: {error}")),
    }
    // A number need not have a name, as in a container.
    let number = text.parse().ok().filter(|&number| number != u32::MAX);
    number.map(Group).ok_or_else(|| "there is no such group".to_owned())
}
