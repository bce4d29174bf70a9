//! A cheap test for blocks that no compressor will shrink.
//! Room: onefold-content.

/// Whether `data` looks random, so that compressing it would be wasted work.
pub fn looks_incompressible(data: &[u8]) -> bool {
    const SAMPLES: usize = 1024;
    if data.len() < 2048 {
        return false;
    }
    let mut counts = [0_u32; 256];
    let step = data.len() / SAMPLES;
    for sample in data.chunks(step).take(SAMPLES) {
        counts[usize::from(sample[0])] += 1;
    }
    let sum: u32 = counts.iter().map(|&c| c * c).sum();
    // Uniform bytes: expectation n*(n-1)/256 + n.
    sum < (SAMPLES * SAMPLES / 256 + SAMPLES) as u32 * 6 / 5
}
