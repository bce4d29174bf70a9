//! Random numbers, of the system's.
//! Room: onefold.

use rustix::rand::{GetRandomFlags, getrandom};

use crate::failure::{Failure, Result};

/// So many random bytes.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|e| Failure::nothing_done(format!("cannot draw random numbers: {e}")))?;
    Ok(bytes)
}
