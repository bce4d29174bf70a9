//! Runs a target on its kept inputs and on many made from them, and keeps what breaks it.
//! Room: onefold-fuzz.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use onefold_block::SplitMix64;

use crate::corpus;
use crate::meter::{Cost, Meter};
use crate::mutate;
use crate::targets::Target;

/// How a target failed.
#[derive(Debug)]
pub struct Broken {
    /// The input.
    pub input: Vec<u8>,
    /// What went wrong.
    pub why: String,
}

/// Give a target one input. What it panics with, or takes too much of, is the error.
pub fn one(target: &Target, input: &[u8]) -> Result<Cost, String> {
    let meter = Meter::start();
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.take)(input)));
    let cost = meter.read();
    if let Err(panic) = outcome {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        return Err(format!("it panics: {}", text.unwrap_or_default()));
    }
    let allowed = target.allowed(input.len());
    if cost.peak > allowed.peak || cost.all > allowed.all {
        return Err(format!(
            "{} bytes of input take {} bytes of memory at once and {} in all, more than {} and {}",
            input.len(),
            cost.peak,
            cost.all,
            allowed.peak,
            allowed.all
        ));
    }
    Ok(cost)
}

/// Give a target all its kept inputs.
///
/// # Errors
/// The first that breaks it, with its name.
pub fn kept(target: &Target) -> Result<usize, Broken> {
    let kept = corpus::kept(target.name);
    for (name, input) in &kept {
        one(target, input)
            .map_err(|why| Broken { input: input.clone(), why: format!("{name}: {why}") })?;
    }
    Ok(kept.len())
}

/// Give a target so many inputs made from those that are kept, the same ones for a seed.
///
/// # Errors
/// The first that breaks it.
pub fn made(target: &Target, inputs: u64, seed: u64) -> Result<(), Broken> {
    let mut kept: Vec<Vec<u8>> =
        corpus::kept(target.name).into_iter().map(|(_, bytes)| bytes).collect();
    kept.extend((target.more)());
    kept.push(Vec::new());
    let mut random = SplitMix64::new(seed);
    for _ in 0..inputs {
        let input = mutate::input(&kept, &mut random);
        if let Err(why) = one(target, &input) {
            return Err(Broken { input, why });
        }
    }
    Ok(())
}

/// Keep an input that broke a target for people to look at. The answer is where.
///
/// # Errors
/// [`std::io::Error`].
pub fn save(target: &Target, broken: &Broken) -> std::io::Result<PathBuf> {
    let folder = corpus::folder(target.name);
    std::fs::create_dir_all(&folder)?;
    let sum = broken.input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let path = folder.join(format!("broke-{sum:016x}"));
    std::fs::write(&path, &broken.input)?;
    Ok(path)
}
