//! Something that is away for a while.
//! Room: onefold-flash.

use std::ops::{Deref, DerefMut};

/// Something that may be lent to another thread, and is not used meanwhile.
#[derive(Debug)]
pub(crate) struct Lent<T>(Option<T>);

impl<T> Lent<T> {
    /// It is here.
    pub(crate) const fn new(own: T) -> Self {
        Self(Some(own))
    }

    /// Whether it is here.
    pub(crate) const fn is_here(&self) -> bool {
        self.0.is_some()
    }

    /// It goes away.
    pub(super) const fn take(&mut self) -> T {
        self.0.take().expect("it is lent once at a time")
    }
}

impl<T> Deref for Lent<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("what is lent is not used")
    }
}

impl<T> DerefMut for Lent<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("what is lent is not used")
    }
}
