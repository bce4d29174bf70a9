//! Which files are machine code, and how much of one is compressed together.
//! Room: onefold-archive.
//! Machine code has few words that come again soon, so that it gains most from large groups. It is
//! told by how a file begins: programs and libraries of Linux, Windows and macOS, and what linkers
//! put together.
//! Source: the System V ABI (ELF), Microsoft's PE format, Apple's `mach-o/loader.h` and `fat.h`.

use crate::format::group::{CODE_GROUP_BYTES, GROUP_BYTES};

/// Bytes at the beginning of a file that say whether it is.
pub const BEGIN_BYTES: usize = 1024;

/// A file whose chunks come one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSoFar {
    bytes: u64,
    is_code: bool,
}

impl FileSoFar {
    /// Bytes of the group that takes the next chunk of the file at most. Small files stay in small
    /// groups, and so does the beginning of each: who wants them wants little.
    pub fn group_bytes(&mut self, chunk: &[u8], times: u64) -> usize {
        if self.bytes == 0 {
            self.is_code = begins_machine_code(chunk);
        }
        let is_far = self.bytes >= GROUP_BYTES as u64;
        self.bytes = self.bytes.saturating_add((chunk.len() as u64).saturating_mul(times));
        if self.is_code && is_far { CODE_GROUP_BYTES } else { GROUP_BYTES }
    }
}

/// Whether a file that begins so is machine code.
pub fn begins_machine_code(begin: &[u8]) -> bool {
    let Some(magic) = begin.first_chunk::<4>() else { return false };
    match magic {
        // ELF, and Mach-O of 32 and 64 bits, both in either order of bytes.
        b"\x7FELF" | [0xFE, 0xED, 0xFA, 0xCE | 0xCF] | [0xCE | 0xCF, 0xFA, 0xED, 0xFE] => true,
        // Several of these in one: so few that it is no class of Java, which begins as well so.
        [0xCA, 0xFE, 0xBA, 0xBE] => matches!(begin.get(4..8), Some([0, 0, 0, 1..=30])),
        // A program of DOS, with the place of one for Windows.
        [b'M', b'Z', ..] => windows_program(begin).is_some(),
        _ => begin.starts_with(b"!<arch>\n"),
    }
}

/// The signature in a PE file, if there is one.
fn windows_program(begin: &[u8]) -> Option<()> {
    let at = begin.get(0x3C..)?.first_chunk::<4>().map(|at| u32::from_le_bytes(*at))?;
    begin.get(at as usize..)?.starts_with(b"PE\0\0").then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(at: u8, signature: &[u8]) -> Vec<u8> {
        let mut begin = vec![0; 0x40];
        begin[..2].copy_from_slice(b"MZ");
        begin[0x3C] = at;
        begin.resize(0x48, 0);
        begin.extend_from_slice(signature);
        begin
    }

    #[test]
    fn machine_code_is_told_by_its_first_bytes() {
        let (pe, dos) = (windows(0x48, b"PE\0\0"), windows(0x48, b"NE\0\0"));
        for (begin, is_code) in [
            (&b"\x7FELF\x02\x01"[..], true),
            (b"\x7FELG\x02\x01", false),
            (b"\xFE\xED\xFA\xCE", true),
            (b"\xFE\xED\xFA\xCF", true),
            (b"\xCE\xFA\xED\xFE", true),
            (b"\xCF\xFA\xED\xFE", true),
            (b"\xCA\xFE\xBA\xBE\0\0\0\x02", true),
            (b"\xCA\xFE\xBA\xBE\0\0\0\x34", false),
            (b"\xCA\xFE\xBA\xBE\0\0", false),
            (b"!<arch>\nlib", true),
            (b"!<arch> lib", false),
            (&pe, true),
            (&dos, false),
            (&windows(0x4C, b"PE\0\0"), false),
            (&windows(0xFF, b"PE\0\0"), false),
            (b"MZ is how a text begins", false),
            (b"\x7FEL", false),
            (b"", false),
        ] {
            assert_eq!(begins_machine_code(begin), is_code, "{}", begin.escape_ascii());
        }
    }

    #[test]
    fn what_is_far_in_machine_code_is_put_in_large_groups() {
        let chunk = |begin: &[u8], len: usize| {
            let mut chunk = begin.to_vec();
            chunk.resize(len, 0);
            chunk
        };
        let (code, text) = (chunk(b"\x7FELF", 262_143), chunk(b"text", 262_143));
        let (large, small) = (CODE_GROUP_BYTES, GROUP_BYTES);
        let told = |first: &[u8], times| {
            let mut file = FileSoFar::default();
            [(first, times), (&[0], 1), (&code, 1)].map(|(chunk, n)| file.group_bytes(chunk, n))
        };
        assert_eq!(told(&code, 1), [small, small, large]);
        assert_eq!(told(&code, 2), [small, large, large]);
        assert_eq!(told(&text, 2), [small, small, small], "its first bytes count");
        assert_eq!(told(&code, u64::MAX), [small, large, large]);
    }
}
