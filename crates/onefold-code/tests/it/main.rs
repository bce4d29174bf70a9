//! Integration tests of onefold-code: laws, known answers, twins.

mod bch;
mod fingerprints;
mod ldpc;
mod recovery;
mod scramblers;
