//! Changing the specification of a drive that is there.
//! Room: onefold-flash.   In: `KEY=VALUE`s.   Out: a new `spec.toml`.
//! Invariants: what the pages of the drive depend on never changes; a power cut leaves the old
//! specification or the new one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use onefold_block::{FileFolder, Folder, FolderLock, Hold, small_file};

use super::error::DriveError;
use super::files::SPEC_FILE;
use super::stored_spec::{check_settings, read_spec};
use crate::spec::{DriveSpec, ParseError, SpecBuilder};

/// Keys that the pages of a drive depend on, by what they begin with.
const FIXED: [(&str, &str); 9] = [
    ("geometry.", "pages are stored by it"),
    ("dedup.", "the fingerprints beside its pages are of that policy"),
    ("media.code", "its pages are encoded with it"),
    ("media.scrambler", "its pages are scrambled with it"),
    ("media.factory_bad_blocks_ppm", "its bad blocks were drawn when it was made"),
    ("ftl.compression", "its pages are packed by it"),
    ("ftl.subpages", "its pages are packed by it"),
    ("ftl.over_provisioning", "its size follows from it"),
    ("seed", "its cells were drawn from it"),
];

/// What the host wants of a drive is its own affair: every page says how it was written.
const OF_THE_HOST: &str = "dedup.lba_ranges";

/// Lays `assignments` over the specification of the drive in a directory and stores it, if that
/// changes anything. If `said` is given, the drive must then be what it says. The answer is the
/// lines that are new.
///
/// # Errors
/// [`DriveError::Locked`]; [`DriveError::Fixed`] for a key that cannot change any more;
/// [`DriveError::Different`] for a drive that is not what `said` says; [`DriveError::Words`] for
/// words that are no specification; [`DriveError::Ftl`] for settings that cannot work.
pub fn revise_at(
    path: &Path,
    assignments: &[String],
    said: Option<&DriveSpec>,
) -> Result<Vec<String>, DriveError> {
    let folder = FileFolder::open(path)?;
    let lock = FolderLock::take(path, Hold::Alone, Hold::Alone)?;
    let changed = revise(&folder, assignments, said)?;
    lock.keep();
    Ok(changed)
}

/// As [`revise_at`], in a folder that nobody else has open.
///
/// # Errors
/// Those of [`revise_at`].
pub fn revise(
    folder: &dyn Folder,
    assignments: &[String],
    said: Option<&DriveSpec>,
) -> Result<Vec<String>, DriveError> {
    let has = read_spec(folder)?;
    let wanted = laid_over(&has, assignments).map_err(DriveError::Words)?;
    check_fixed(&has, &wanted)?;
    if let Some(said) = said {
        // What is fixed says more than the first key that happens to be different.
        check_fixed(&has, said)?;
        if let Some(change) = differences(&wanted, said).into_iter().next() {
            let (has, wants) =
                (change.line(change.has.as_ref()), change.line(change.wants.as_ref()));
            return Err(DriveError::Different { has, wants });
        }
    }
    let changes = differences(&has, &wanted);
    if !changes.is_empty() {
        // Refused now, and not when the drive is opened.
        check_settings(&wanted)?;
        let text = wanted.to_commented_toml();
        small_file::replace(folder, SPEC_FILE, text.as_bytes())?;
    }
    Ok(changes.iter().map(|change| change.line(change.wants.as_ref())).collect())
}

fn laid_over(has: &DriveSpec, assignments: &[String]) -> Result<DriveSpec, ParseError> {
    let begun = SpecBuilder::from(has);
    assignments.iter().try_fold(begun, |builder, one| builder.set(one))?.build()
}

/// One key with two values; without one where the key is not there.
struct Change {
    key: String,
    has: Option<String>,
    wants: Option<String>,
}

impl Change {
    fn line(&self, value: Option<&String>) -> String {
        match value {
            Some(value) => format!("{} = {value}", self.key),
            None => format!("no {}", self.key),
        }
    }
}

/// The keys of which two specifications say different things.
fn differences(has: &DriveSpec, wants: &DriveSpec) -> Vec<Change> {
    let (has, wants) = (values(has), values(wants));
    let keys: BTreeSet<&String> = has.keys().chain(wants.keys()).collect();
    let differ = keys.into_iter().filter(|&key| has.get(key) != wants.get(key));
    differ
        .map(|key| Change {
            key: key.clone(),
            has: has.get(key).cloned(),
            wants: wants.get(key).cloned(),
        })
        .collect()
}

fn check_fixed(has: &DriveSpec, wants: &DriveSpec) -> Result<(), DriveError> {
    for change in differences(has, wants).into_iter().filter(|one| one.key != OF_THE_HOST) {
        if let Some((_, why)) = FIXED.iter().find(|(fixed, _)| change.key.starts_with(fixed)) {
            let (has, wants) =
                (change.line(change.has.as_ref()), change.line(change.wants.as_ref()));
            return Err(DriveError::Fixed { has, wants, why });
        }
    }
    Ok(())
}

/// Every key with its whole path and its value.
fn values(spec: &DriveSpec) -> BTreeMap<String, String> {
    let table = toml::Table::try_from(spec).expect("a specification is a table of plain values");
    let mut out = BTreeMap::new();
    for (name, value) in table {
        match value {
            toml::Value::Table(inner) => {
                let inner = inner.iter();
                out.extend(inner.map(|(key, v)| (format!("{name}.{key}"), v.to_string())));
            }
            value => {
                out.insert(name, value.to_string());
            }
        }
    }
    out
}
