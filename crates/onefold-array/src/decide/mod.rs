//! What a data reduction server decides: pure, without time.
//! Room: onefold-array.
//! Every type here can be driven by a test that has no clock. The modules in the order in which a
//! chunk meets them:
//! - [`budget`] lets requests into a buffer, or holds them back;
//! - [`batch`] puts chunks together;
//! - [`predictor`] guesses which chunks are unique;
//! - [`index`] finds a fingerprint, with [`table_cache`] in a table of buckets as FIDR has it, or
//!   with [`hooks`] for some fingerprints and directories for their neighbours;
//! - [`contents`] knows what is stored, and what each address holds;
//! - [`delayed`] keeps unique chunks that nobody has compressed yet;
//! - [`mix`] solves which units an engine should have.

pub mod batch;
pub mod budget;
pub mod contents;
pub mod delayed;
pub mod hooks;
pub mod index;
pub mod mix;
pub mod predictor;
pub mod table_cache;
