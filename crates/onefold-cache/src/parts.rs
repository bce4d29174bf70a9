//! What a policy consists of, for whoever saves and restores it.
//! Room: onefold-cache.

use crate::counts::Table;
use crate::ghost::Ghost;
use crate::objects::{Id, List, Objects};

/// What a policy consists of.
#[derive(Default)]
pub struct Parts<'a> {
    /// Lists of the cached objects.
    pub lists: Vec<&'a mut List>,
    /// Hands on a cached object, or [`crate::objects::NONE`].
    pub hands: Vec<&'a mut Id>,
    /// Queues of keys let go.
    pub ghosts: Vec<&'a mut Ghost>,
    /// Numbers by key.
    pub counts: Vec<&'a mut dyn Table>,
    /// Single numbers.
    pub numbers: Vec<&'a mut u64>,
    /// Tables of bytes, of a length that follows from the settings.
    pub bytes: Vec<&'a mut [u8]>,
    /// Sets of objects of the policy's own, each in one list.
    pub histories: Vec<(&'a mut Objects, &'a mut List)>,
}
