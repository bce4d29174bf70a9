//! Finds the files to look at: sorted, each inode once, symbolic links not followed.
//! Room: onefold-estimate.   In: paths.   Out: [`FileRef`]s in walk order and [`WalkFacts`].
//! Invariants: the order is by name, byte by byte and folder by folder, so that the same tree
//! gives the same numbers on every machine and in every shard.
//! Cost: memory for the names of at most `WINDOW` entries per level of folders: a larger folder
//! is listed several times.

use std::collections::{BinaryHeap, HashMap};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use onefold_image::{Choice, ImageError};
use serde::{Deserialize, Serialize};

use crate::error::EstimateError;
use crate::groups::{Groups, extension_of, pack};
use crate::image::{self, IMAGE_BYTES_MIN, Images, Inside};
use crate::options::Plan;
use crate::problems::{ProblemKind, Problems};
use crate::progress::Progress;
use crate::read;

/// Names of a folder that are held and sorted at once.
const WINDOW: usize = 1 << 16;

/// A file to look at.
#[derive(Debug)]
pub(crate) struct FileRef {
    /// Its place in walk order.
    pub number: u32,
    pub path: Box<Path>,
    /// Extension and top folder.
    pub group: u32,
    /// Length in bytes when it was found.
    pub size: u64,
    /// It takes fewer bytes than it has: look for holes.
    pub is_sparse: bool,
    /// A hash of its place among the inputs: which shard it belongs to.
    pub place: u64,
    /// Opened as an input named by the person: symbolic links are followed, devices are read.
    pub is_input: bool,
    /// What of it is counted.
    pub inside: Inside,
}

/// What the walk saw; the same in every shard of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WalkFacts {
    pub files: u64,
    pub bytes: u64,
    pub folders: u64,
    pub symlinks: u64,
    /// Further names of inodes that were counted already.
    pub hard_links: u64,
    /// Bytes that these names would count for.
    pub hard_link_bytes: u64,
    /// There were more inodes with several links than could be kept in mind.
    pub links_forgotten: bool,
    pub problems: Problems,
    /// A hash of all paths and sizes.
    pub digest: u64,
}

/// The groups that files belong to, shared with the workers that count their bytes.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Breakdown {
    pub extensions: Groups,
    pub folders: Groups,
}

/// An input that was checked.
#[derive(Debug)]
pub(crate) struct Input {
    path: PathBuf,
    metadata: Metadata,
    inside: Inside,
}

/// Check all inputs before anything is started. Inputs inside others are left out, with a note.
pub(crate) fn check_inputs(
    paths: &[PathBuf],
    images: Choice,
    notes: &mut Vec<String>,
) -> Result<Vec<Input>, EstimateError> {
    if paths.is_empty() {
        return Err(EstimateError::NoInput);
    }
    let mut inputs: Vec<(PathBuf, Input)> = Vec::new();
    for path in paths {
        let failed = |source| EstimateError::Input { path: path.clone(), source };
        let metadata = fs::metadata(path).map_err(failed)?;
        let kind = metadata.file_type();
        if !(kind.is_file() || kind.is_dir() || kind.is_block_device()) {
            let path = path.clone();
            return Err(EstimateError::InputKind { path, kind: kind_name(kind) });
        }
        let real = fs::canonicalize(path).map_err(failed)?;
        let inside = if metadata.is_dir() {
            Inside::Bytes
        } else {
            let file = File::open(path).map_err(failed)?;
            image::input(&file, images).map_err(|source| match source {
                ImageError::Io(source) => failed(source),
                source => EstimateError::Image { path: path.clone(), source },
            })?
        };
        inputs.push((real, Input { path: path.clone(), metadata, inside }));
    }
    let reals: Vec<PathBuf> = inputs.iter().map(|(real, _)| real.clone()).collect();
    let mut kept = Vec::new();
    for (i, (real, input)) in inputs.into_iter().enumerate() {
        let covers = |j: usize| {
            let other = &reals[j];
            (real.starts_with(other) && *other != real) || (j < i && *other == real)
        };
        match (0..reals.len()).find(|&j| covers(j)) {
            None => kept.push(input),
            Some(j) => notes.push(format!(
                "{} is inside {}, which is an input too: counted once",
                input.path.display(),
                paths[j].display()
            )),
        }
    }
    Ok(kept)
}

fn kind_name(kind: fs::FileType) -> &'static str {
    if kind.is_char_device() {
        "character device"
    } else if kind.is_block_device() {
        "block device"
    } else if kind.is_fifo() {
        "pipe"
    } else if kind.is_socket() {
        "socket"
    } else {
        "special file"
    }
}

/// Walk all inputs and hand each file to `sink`, in order.
pub(crate) fn walk(
    inputs: &[Input],
    plan: &Plan,
    progress: &Progress,
    breakdown: &Mutex<Breakdown>,
    sink: impl FnMut(FileRef),
) -> (WalkFacts, Images) {
    let mut walk = Walk {
        plan,
        progress,
        breakdown,
        sink,
        facts: WalkFacts::default(),
        links: HashMap::new(),
        images: Images::default(),
        window: WINDOW,
    };
    for (number, input) in inputs.iter().enumerate() {
        walk.input(number, input);
    }
    (walk.facts, walk.images)
}

struct Walk<'a, F> {
    plan: &'a Plan,
    progress: &'a Progress,
    breakdown: &'a Mutex<Breakdown>,
    sink: F,
    facts: WalkFacts,
    /// Inodes with several links: how many of their names are still to come.
    links: HashMap<(u64, u64), u64>,
    images: Images,
    /// Names of a folder that are held and sorted at once.
    window: usize,
}

/// A folder being listed.
struct Frame {
    path: PathBuf,
    /// Names still to visit, the next one last.
    names: Vec<OsString>,
    /// There may be more names, after this one.
    resume_after: Option<OsString>,
}

impl<F: FnMut(FileRef)> Walk<'_, F> {
    fn input(&mut self, number: usize, input: &Input) {
        let seed = hash_bytes(number as u64, b"input");
        if !input.metadata.is_dir() {
            let size = match self.input_size(input) {
                Ok(size) => size,
                Err(error) => {
                    self.problem(&input.path, ProblemKind::UnreadableFile, &error);
                    return;
                }
            };
            let folder = input.path.to_string_lossy().into_owned();
            self.images.inside += u64::from(input.inside != Inside::Bytes);
            self.file(&input.path, &input.metadata, (input.inside, size), seed, &folder, true);
            return;
        }
        let device = input.metadata.dev();
        let mut top = String::new();
        let mut stack = vec![self.open_folder(input.path.clone(), None)];
        while let Some(frame) = stack.last_mut() {
            if self.progress.is_cancelled() {
                return;
            }
            let Some(name) = frame.names.pop() else {
                let frame = stack.pop().expect("there is a last one");
                if frame.resume_after.is_some() {
                    stack.push(self.open_folder(frame.path, frame.resume_after.as_ref()));
                }
                continue;
            };
            let path = frame.path.join(&name);
            let is_top = stack.len() == 1;
            let metadata = match fs::symlink_metadata(&path) {
                Ok(metadata) => metadata,
                // Removed since it was listed: as if it had never been there.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    self.problem(&path, ProblemKind::UnreadableFile, &error);
                    continue;
                }
            };
            let kind = metadata.file_type();
            if kind.is_dir() {
                if self.plan.options.one_file_system && metadata.dev() != device {
                    continue;
                }
                if is_top {
                    top = path.to_string_lossy().into_owned();
                }
                stack.push(self.open_folder(path, None));
            } else if kind.is_file() {
                let place = path.strip_prefix(&input.path).unwrap_or(&path);
                let place = hash_bytes(seed, place.as_os_str().as_bytes());
                let here = is_top.then(|| input.path.to_string_lossy());
                let folder = here.as_deref().unwrap_or(&top).to_owned();
                let what = self.look_inside(&path, metadata.len());
                self.file(&path, &metadata, what, place, &folder, false);
            } else if kind.is_symlink() {
                self.facts.symlinks += 1;
            } else {
                self.problem(&path, ProblemKind::Special, &kind_name(kind));
            }
        }
    }

    fn open_folder(&mut self, path: PathBuf, after: Option<&OsString>) -> Frame {
        if after.is_none() {
            self.facts.folders += 1;
        }
        match list(&path, after, self.window) {
            Ok((names, resume_after)) => Frame { path, names, resume_after },
            Err(error) => {
                self.problem(&path, ProblemKind::UnreadableFolder, &error);
                Frame { path, names: Vec::new(), resume_after: None }
            }
        }
    }

    fn problem(&mut self, path: &Path, kind: ProblemKind, reason: &dyn ToString) {
        let (number, path) = (self.facts.files, path.to_string_lossy().into_owned());
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        self.facts.problems.add(number, path, kind, reason.to_string());
    }

    fn file(
        &mut self,
        path: &Path,
        metadata: &Metadata,
        (inside, size): (Inside, u64),
        place: u64,
        folder: &str,
        is_input: bool,
    ) {
        if metadata.is_file() && metadata.nlink() > 1 && self.is_known_link(metadata) {
            self.facts.hard_links += 1;
            self.facts.hard_link_bytes += size;
            return;
        }
        let number = u32::try_from(self.facts.files).unwrap_or(u32::MAX);
        let group = {
            let mut breakdown = self.breakdown.lock().unwrap_or_else(PoisonError::into_inner);
            let extension = breakdown.extensions.number(&extension_of(path));
            pack(extension, breakdown.folders.number(folder))
        };
        self.facts.files += 1;
        self.facts.bytes += size;
        self.facts.digest = hash_bytes(self.facts.digest ^ size, &place.to_le_bytes());
        let is_sparse = metadata.is_file() && metadata.blocks().saturating_mul(512) < size;
        let path = path.into();
        (self.sink)(FileRef { number, path, group, size, is_sparse, place, is_input, inside });
    }

    /// Bytes that count of a file or device that was named.
    fn input_size(&self, input: &Input) -> io::Result<u64> {
        let mut file = File::open(&input.path)?;
        let bytes = file.seek(SeekFrom::End(0))?;
        image::len(&file, input.inside, bytes, self.progress)
    }

    /// What counts of a file in a tree, and how many bytes that is.
    fn look_inside(&mut self, path: &Path, bytes: u64) -> (Inside, u64) {
        if bytes < IMAGE_BYTES_MIN || self.plan.options.images == Choice::Raw {
            return (Inside::Bytes, bytes);
        }
        let looked = read::open_path(path, false).and_then(|file| {
            let inside = image::in_tree(&file, self.plan.options.images)?;
            let len = image::len(&file, inside.unwrap_or_default(), bytes, self.progress)?;
            Ok((inside, len))
        });
        match looked {
            // Whoever reads a file that cannot be looked into says what is wrong.
            Ok((Some(Inside::Bytes), _)) | Err(_) => (Inside::Bytes, bytes),
            Ok((Some(inside), len)) => {
                self.images.inside += 1;
                (inside, len)
            }
            Ok((None, _)) => {
                self.images.as_bytes += 1;
                (Inside::Bytes, bytes)
            }
        }
    }

    /// Whether another name of this inode was seen before. An inode is forgotten with its last
    /// name; past the limit on remembered ones, names count as files of their own.
    fn is_known_link(&mut self, metadata: &Metadata) -> bool {
        let key = (metadata.dev(), metadata.ino());
        if let Some(left) = self.links.get_mut(&key) {
            *left -= 1;
            if *left == 0 {
                self.links.remove(&key);
            }
            return true;
        }
        if self.links.len() < self.plan.link_records {
            self.links.insert(key, metadata.nlink() - 1);
        } else {
            self.facts.links_forgotten = true;
        }
        false
    }
}

/// The first `limit` names of a folder after the given one, last one first, and where to go on
/// if there are more.
fn list(
    path: &Path,
    after: Option<&OsString>,
    limit: usize,
) -> io::Result<(Vec<OsString>, Option<OsString>)> {
    let mut least: BinaryHeap<OsString> = BinaryHeap::new();
    let mut is_cut = false;
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if after.is_some_and(|after| name <= *after) {
            continue;
        }
        if least.len() == limit {
            is_cut = true;
            if least.peek().is_some_and(|last| name >= *last) {
                continue;
            }
            least.pop();
        }
        least.push(name);
    }
    let resume_after = if is_cut { least.peek().cloned() } else { None };
    let mut names = least.into_sorted_vec();
    names.reverse();
    Ok((names, resume_after))
}

/// FNV-1a over bytes, then the finalizer of `SplitMix64` so that all bits depend on all bytes.
pub(crate) fn hash_bytes(seed: u64, bytes: &[u8]) -> u64 {
    let mut hash = seed ^ 0xCBF2_9CE4_8422_2325;
    for &byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests;
