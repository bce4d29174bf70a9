//! Integration tests of the ground floor, as one binary.
//! Room: onefold-block.

mod files;
