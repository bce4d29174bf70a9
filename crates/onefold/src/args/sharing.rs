//! `onefold volume allow`, `deny` and `limit`, as written.
//! Room: onefold.

use std::path::PathBuf;

use onefold_block::ByteSize;

use onefold_export::ClientName;

/// `onefold volume allow`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeAllowArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Name of the volume
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Who.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Let them read, and change nothing
    #[arg(long, conflicts_with = "everybody")]
    pub read_only: bool,
}

/// `onefold volume deny`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeDenyArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Name of the volume
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Who.
    #[command(flatten)]
    pub client: ClientArgs,
}

/// One client, or all.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct ClientArgs {
    /// The client: CN= and the common name of its certificate
    #[arg(long, value_name = "CN=NAME")]
    pub client: Option<ClientName>,
    /// All whom the server lets in
    #[arg(long)]
    pub everybody: bool,
}

/// `onefold volume limit`
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeLimitArgs {
    /// Folder of the pool
    #[arg(value_name = "POOL")]
    pub pool: PathBuf,
    /// Name of the volume
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Requests in a second, of all clients together; or none
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub iops: Option<u64>,
    /// Bytes in a second, such as 50M, of all clients together; or none
    #[arg(long, value_name = "SIZE", value_parser = rate, allow_negative_numbers = true)]
    pub rate: Option<u64>,
    /// Requests in a second, of each connection; or none
    #[arg(long, value_name = "N", value_parser = count, allow_negative_numbers = true)]
    pub connection_iops: Option<u64>,
    /// Bytes in a second, of each connection; or none
    #[arg(long, value_name = "SIZE", value_parser = rate, allow_negative_numbers = true)]
    pub connection_rate: Option<u64>,
}

/// What stands for no limit.
const NONE: &str = "none";

/// A number of requests; 0 for `none`.
fn count(text: &str) -> Result<u64, String> {
    if text == NONE {
        return Ok(0);
    }
    let count = text.parse().ok().filter(|&count: &u64| count > 0);
    count.ok_or_else(|| format!("'{text}' is no limit: write a number from 1 on, or none"))
}

/// A number of bytes; 0 for `none`.
fn rate(text: &str) -> Result<u64, String> {
    if text == NONE {
        return Ok(0);
    }
    let rate: ByteSize = text.parse().map_err(|error| format!("{error}; or write none"))?;
    if rate.bytes() < 4096 {
        return Err(format!("'{text}' is too little: a limit is at least 4K in a second, or none"));
    }
    Ok(rate.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_none_is_no_limit() {
        assert_eq!((count("none"), rate("none")), (Ok(0), Ok(0)));
        assert_eq!((count("1"), rate("4K")), (Ok(1), Ok(4096)));
        for text in ["0", "-1", "1.5", "", "1K"] {
            assert!(count(text).is_err(), "{text}");
        }
        for text in ["0", "4095", "-4K", ""] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
