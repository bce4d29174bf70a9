//! What a data reduction server decides: pure, without time.
//! Room: onefold-array.
//! Every type here can be driven by a test that has no clock. The modules in the order in which a
//! chunk meets them:
//! - [`budget`] lets requests into a buffer, or holds them back;
//! - [`batch`] puts chunks together;
//! - [`predictor`] guesses which chunks are unique;
//! - [`table_cache`] finds the bucket of a fingerprint in memory, or not;
//! - [`contents`] knows what is stored, and what each address holds;
//! - [`delayed`] keeps unique chunks that nobody has compressed yet;
//! - [`mix`] solves which units an engine should have.

pub mod batch;
pub mod budget;
pub mod contents;
pub mod delayed;
pub mod mix;
pub mod predictor;
pub mod table_cache;
