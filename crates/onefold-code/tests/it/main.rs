//! Integration tests of onefold-code: laws, known answers, twins.

mod bch;
mod ldpc;
mod scramblers;
