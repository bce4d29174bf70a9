//! Craft: chunkers, fingerprints in batches, compressors and the compressibility test.
