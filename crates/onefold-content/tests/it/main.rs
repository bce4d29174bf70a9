//! Integration tests of onefold-content, one binary.
//! Room: onefold-content.

mod chunk;
