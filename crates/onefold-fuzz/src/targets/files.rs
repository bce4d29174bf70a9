//! A store as the bytes of its files, of which an input changes some.
//! Room: onefold-fuzz.
//! An input is a list of changes: two bytes say which file, four say where, one says what stands
//! there then. A place past the end cuts the file there, or makes it longer by some.

use std::sync::Arc;

use onefold_block::{Folder, SimFolder};

/// The files of a store with their paths.
pub type Image = Vec<(String, Vec<u8>)>;

/// Most changes that an input makes.
const CHANGES_MAX: usize = 256;

/// What a store's folder holds, with what its folders `inner` hold.
pub fn image(folder: &SimFolder, inner: &[&str]) -> Image {
    let mut files = Image::new();
    let mut take = |prefix: &str, folder: &dyn Folder| {
        for name in folder.list().expect("nothing fails here") {
            let Ok(media) = folder.open(&name) else { continue };
            let mut bytes = vec![0; media.len().expect("nothing fails here") as usize];
            media.read(0, &mut bytes).expect("nothing fails here");
            files.push((format!("{prefix}{name}"), bytes));
        }
    };
    take("", folder);
    for name in inner {
        let inside = folder.subfolder(name).expect("nothing fails here");
        take(&format!("{name}/"), &*inside);
    }
    files
}

/// A folder that holds these files with the changes of an input.
pub fn changed(image: &Image, inner: &[&str], input: &[u8]) -> SimFolder {
    let mut files = image.clone();
    for change in input.chunks_exact(7).take(CHANGES_MAX) {
        let which = usize::from(u16::from_be_bytes([change[0], change[1]])) % files.len();
        let (_, bytes) = &mut files[which];
        let at = u32::from_be_bytes([change[2], change[3], change[4], change[5]]) as usize;
        let at = at % (bytes.len() + bytes.len() / 16 + 2);
        match bytes.get_mut(at) {
            Some(byte) => *byte = change[6],
            None if change[6] % 2 == 0 => {
                bytes.truncate(bytes.len() * usize::from(change[6]) / 256);
            }
            None => bytes.resize(at, change[6]),
        }
    }
    let folder = SimFolder::new();
    let mut inside: Vec<(&str, Arc<dyn Folder>)> = Vec::new();
    for name in inner {
        inside.push((name, folder.subfolder(name).expect("nothing fails here")));
    }
    for (path, bytes) in &files {
        let media = match path.split_once('/') {
            Some((prefix, name)) => {
                let (_, folder) =
                    inside.iter().find(|(inner, _)| *inner == prefix).expect("it was listed");
                folder.create(name)
            }
            None => folder.create(path),
        };
        media.and_then(|media| media.write(0, bytes)).expect("nothing fails here");
    }
    folder
}
