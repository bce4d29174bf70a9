//! Integration tests of onefold-code: laws, known answers, twins.

mod ldpc;
mod scramblers;
