//! Integration tests of onefold-code: laws, known answers, twins.

mod scramblers;
