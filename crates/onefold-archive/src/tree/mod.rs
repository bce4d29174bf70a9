//! File trees of the system: read in order to be added, and written back.
//! Room: onefold-archive.

mod dress;
pub mod exclude;
mod first_names;
mod folders;
mod holes;
mod made;
mod open_file;
mod other_name;
pub mod restore;
pub mod scan;
mod status;
mod target;
mod walk;
mod xattrs;
