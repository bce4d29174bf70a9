//! Encryption of everything in an archive but its settings: what opens it, and the files' pages.
//! Room: onefold-archive.
//! - [`protection`]: the archive's key, wrapped by a passphrase or a key file;
//! - [`pages`]: one page of a file, encrypted and authenticated;
//! - [`folder`]: a folder whose files are made of such pages. All other modules see plain bytes.

pub mod folder;
pub mod pages;
pub mod protection;

pub use folder::SealedFolder;
pub use protection::{Argon2Cost, NewKey, Protection, Secret, SecretKind};
