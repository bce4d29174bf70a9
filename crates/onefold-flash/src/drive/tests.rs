//! What drives tell of themselves, held word for word, and what their parts hold.
//! Room: onefold-flash.

mod devices;
mod folders;
mod pictures;
mod reports;
mod stories;
mod story;

use std::path::Path;

use onefold_block::kept_text::assert_text;

/// Compares with the file of that name; `ONEFOLD_UPDATE=1` writes it instead.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "tests take from the environment what to write")]
fn holds(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/drive/tests");
    let update = std::env::var_os("ONEFOLD_UPDATE").is_some();
    assert_text(&folder.join(name), text, update);
}
