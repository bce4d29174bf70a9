//! Room: the data reduction engine behind a pool of thin volumes.
