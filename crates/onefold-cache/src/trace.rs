//! A trace in memory: requests with dense keys, and what offline policies need to know of it.
//! Room: onefold-cache.

use crate::policy::Access;

/// Everything that will be asked for.
#[derive(Clone, Debug, Default)]
pub struct Future {
    /// For each request, the number of the next request for the same object; [`NEVER`] if none.
    pub next: Vec<u32>,
    /// For each object, how often it is asked for.
    pub counts: Vec<u32>,
    /// For each object, its size in bytes.
    pub sizes: Vec<u32>,
}

/// No request.
pub const NEVER: u32 = u32::MAX;

impl Future {
    /// Reads requests whose keys count from 0, up to 2^32 - 2 of them.
    pub fn of(requests: &[Access]) -> Self {
        assert!(requests.len() < NEVER as usize, "requests are counted in 32 bits");
        let objects = requests.iter().map(|access| access.key + 1).max().unwrap_or(0) as usize;
        let mut future = Self {
            next: vec![NEVER; requests.len()],
            counts: vec![0; objects],
            sizes: vec![0; objects],
        };
        let mut last = vec![NEVER; objects];
        for (at, access) in requests.iter().enumerate().rev() {
            let key = access.key as usize;
            future.next[at] = std::mem::replace(&mut last[key], at as u32);
            future.counts[key] += 1;
            future.sizes[key] = access.size;
        }
        future
    }
}
