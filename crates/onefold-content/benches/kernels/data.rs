//! The data sets: random bytes, half-compressible blocks as fio writes them, and real files.
//! Room: onefold-content.

use std::ffi::{c_char, c_int};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes to measure on.
pub struct DataSet {
    pub name: &'static str,
    pub data: Vec<u8>,
}

/// A small generator, so that every run sees the same bytes.
struct XorShift(u64);

impl XorShift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

impl DataSet {
    /// Incompressible bytes.
    pub fn random(bytes: usize) -> Self {
        let mut data = vec![0; bytes];
        XorShift(0x1234_5678_9ABC_DEF1).fill(&mut data);
        Self { name: "random", data }
    }

    /// What fio writes with `buffer_compress_percentage=50`: each 512 bytes are 256 random ones
    /// and 256 zeros.
    pub fn half_compressible(bytes: usize) -> Self {
        let mut data = vec![0; bytes];
        let mut random = XorShift(0x0FED_CBA9_8765_4321);
        for segment in data.chunks_mut(512) {
            random.fill(&mut segment[..256]);
        }
        Self { name: "half random, half zero", data }
    }

    /// Real files under `roots` (by default the system's libraries and shared files and the Rust
    /// toolchain), in pieces of 64 KiB spread over all of them.
    pub fn files(roots: &[PathBuf], bytes: usize) -> Self {
        const PIECE: usize = 64 << 10;
        let mut roots = roots.to_vec();
        if roots.is_empty() {
            roots.extend(["/usr/lib", "/usr/share"].map(PathBuf::from));
            let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
            roots.extend(sysroot.ok().and_then(|out| {
                String::from_utf8(out.stdout).ok().map(|path| PathBuf::from(path.trim()))
            }));
        }
        let mut files = Vec::new();
        for root in &roots {
            walk(root, &mut files);
        }
        let total: u64 = files.iter().map(|(_, len)| len / PIECE as u64).sum();
        assert!(total > 0, "no files of 64 KiB or more under {roots:?}; name others with --files");
        let every = (total / (bytes / PIECE) as u64).max(1);
        let mut data = Vec::new();
        let mut count = 0;
        for (path, _) in files {
            let Ok(content) = std::fs::read(path) else { continue };
            for piece in content.chunks_exact(PIECE) {
                if count % every == 0 && data.len() < bytes {
                    data.extend_from_slice(piece);
                }
                count += 1;
            }
        }
        Self { name: "files", data }
    }

    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    /// The blocks of one size, in a scattered but fixed order.
    pub fn blocks(&self, len: usize) -> Vec<&[u8]> {
        let mut blocks: Vec<_> = self.data.chunks_exact(len).collect();
        let mut random = XorShift(42);
        for i in (1..blocks.len()).rev() {
            blocks.swap(i, (random.next() % (i as u64 + 1)) as usize);
        }
        blocks
    }
}

/// All regular files under `path` with their lengths, links not followed, in name order.
fn walk(path: &Path, files: &mut Vec<(PathBuf, u64)>) {
    let Ok(entries) = std::fs::read_dir(path) else { return };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => walk(&entry.path(), files),
            Ok(meta) if meta.is_file() => files.push((entry.path(), meta.len())),
            _ => {}
        }
    }
}

/// The C library's ordinary call: the reference for speed and size.
pub fn lz4_reference(data: &[u8], out: &mut [u8]) -> usize {
    // SAFETY: both lengths are those of the slices.
    let written = unsafe {
        lz4_sys::LZ4_compress_default(
            data.as_ptr().cast::<c_char>(),
            out.as_mut_ptr().cast::<c_char>(),
            data.len() as c_int,
            out.len() as c_int,
        )
    };
    usize::try_from(written).expect("the output has the bound's size")
}
