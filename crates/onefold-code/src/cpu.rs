//! Which instruction set the fast routines use, found out at run time.
//! Room: onefold-code.
//! Invariants: a `Kernel` exists only for instructions that this machine has, which is what the
//! unsafe calls of the kernels rely on; every kernel gives the same bytes.

use core::fmt;

/// A family of instruction-set variants of the hot loops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel(Level);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Portable,
    Avx2,
    Avx512,
}

impl Kernel {
    /// Plain integer code, the same on every processor.
    pub const PORTABLE: Self = Self(Level::Portable);

    /// The fastest family that this machine can run.
    pub fn best() -> Self {
        Self(detect())
    }

    /// Every family that this machine can run, slowest first.
    pub fn available() -> Vec<Self> {
        [Level::Portable, Level::Avx2, Level::Avx512]
            .into_iter()
            .filter(|&level| level <= detect())
            .map(Self)
            .collect()
    }

    pub(crate) fn level(self) -> Level {
        self.0
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Level::Portable => "portable",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        })
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Level {
    let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("pclmulqdq");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("vpclmulqdq");
    match (avx2, avx512) {
        (true, true) => Level::Avx512,
        (true, false) => Level::Avx2,
        _ => Level::Portable,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Level {
    Level::Portable
}
