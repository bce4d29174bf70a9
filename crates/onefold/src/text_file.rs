//! Text files that people write: read as a whole, so of bounded size.
//! Room: onefold.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use onefold_block::ByteSize;

use crate::failure::{Failure, Result};

/// Most bytes of a settings file or a specification: a hundred times what any has.
pub const SETTINGS_BYTES_MAX: u64 = 1 << 20;

/// The text of a file; `what` is what it is to be, as in "settings file".
pub fn read(path: &Path, what: &str, bytes_max: u64) -> Result<String> {
    let unusable = |error| Failure::unusable(&format!("read {what}"), path, error);
    let file = File::open(path).map_err(unusable)?;
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(unusable)?;
    let at = path.display();
    if bytes.len() as u64 > bytes_max {
        let most = ByteSize(bytes_max);
        return Err(Failure::nothing_done(format!("{what} '{at}' is longer than {most}")));
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::nothing_done(format!("{what} '{at}' is not text (UTF-8)")))
}

/// The same of a file that stands where a preset may have been meant: if there is none of that name
/// and a preset has it, how that is chosen is said.
#[cfg(feature = "models")]
pub fn read_or_hint(path: &Path, what: &str, presets: &[&str]) -> Result<String> {
    let meant = presets.iter().find(|preset| path == Path::new(preset));
    read(path, what, SETTINGS_BYTES_MAX).map_err(|failure| match meant {
        Some(preset) if !path.exists() => {
            failure.hint(format!("there is a preset of that name: --preset {preset}"))
        }
        _ => failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "models")]
    fn who_names_a_preset_as_a_file_is_told_how_it_is_chosen() {
        let hints =
            |path: &Path| read_or_hint(path, "specification", &["no-such-file"]).unwrap_err().hints;
        let hint = "there is a preset of that name: --preset no-such-file";
        assert_eq!(hints(Path::new("no-such-file")), [hint]);
        assert!(hints(Path::new("no-such-other")).is_empty());
        // A folder of that name is there, and was meant.
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().to_str().unwrap();
        assert!(
            read_or_hint(folder.path(), "specification", &[name]).unwrap_err().hints.is_empty()
        );
    }

    #[test]
    fn a_file_may_be_as_long_as_is_said_and_no_longer() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, told) in [("12345", Ok("12345")), ("123456", Err("is longer than 5 B"))] {
            std::fs::write(file.path(), text).unwrap();
            match (read(file.path(), "note", 5), told) {
                (Ok(read), Ok(whole)) => assert_eq!(read, whole),
                (Err(failure), Err(why)) => {
                    assert!(failure.message.ends_with(why), "{}", failure.message);
                }
                (read, _) => panic!("{text}: {read:?}"),
            }
        }
    }
}
