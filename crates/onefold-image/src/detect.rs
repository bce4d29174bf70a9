//! Which format a file is in, by its first bytes.
//! Room: onefold-image.
//! What has no mark of a format is raw: the bytes of the disk themselves.

use std::fmt;

/// Bytes from the start of a file that are enough to tell.
pub const DETECT_BYTES: usize = 512;

/// The format of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// The bytes of the disk.
    Raw,
    /// QEMU, versions 2 and 3.
    Qcow2,
    /// QEMU, version 1.
    Qcow1,
    /// `VMware`.
    Vmdk,
    /// Hyper-V.
    Vhdx,
    /// Virtual PC and Azure, with a header in front.
    Vhd,
    /// `VirtualBox`.
    Vdi,
    /// gzip around something.
    Gzip,
    /// Zstandard around something.
    Zstd,
    /// xz around something.
    Xz,
    /// bzip2 around something.
    Bzip2,
}

impl Format {
    /// What a file that begins so is.
    pub fn detect(head: &[u8]) -> Self {
        let at = |offset: usize, magic: &[u8]| {
            head.get(offset..).is_some_and(|rest| rest.starts_with(magic))
        };
        // Each mark with the offset at which it stands; the longer ones first where it matters.
        let marks: [(usize, &[u8], Self); 15] = [
            (0, b"QFI\xfb\0\0\0\x02", Self::Qcow2),
            (0, b"QFI\xfb\0\0\0\x03", Self::Qcow2),
            (0, b"QFI\xfb\0\0\0\x01", Self::Qcow1),
            (0, b"QFI\xfb", Self::Qcow2),
            (0, b"KDMV", Self::Vmdk),
            (0, b"COWD", Self::Vmdk),
            (0, b"# Disk DescriptorFile", Self::Vmdk),
            (0, b"vhdxfile", Self::Vhdx),
            (0, b"conectix", Self::Vhd),
            (0x40, b"\x7f\x10\xda\xbe", Self::Vdi),
            (0, b"\x1f\x8b\x08", Self::Gzip),
            (0, b"\x28\xb5\x2f\xfd", Self::Zstd),
            (0, b"\xfd7zXZ\0", Self::Xz),
            // The magic of a first block, or of an empty stream, after `BZh` and a level.
            (4, b"1AY&SY", Self::Bzip2),
            (4, b"\x17\x72\x45\x38\x50\x90", Self::Bzip2),
        ];
        let mut found = marks.into_iter().filter(|&(offset, magic, _)| at(offset, magic));
        match found.next() {
            Some((_, _, Self::Bzip2)) if !at(0, b"BZh") => Self::Raw,
            Some((_, _, format)) => format,
            None => Self::Raw,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
            Self::Qcow1 => "qcow",
            Self::Vmdk => "vmdk",
            Self::Vhdx => "vhdx",
            Self::Vhd => "vpc",
            Self::Vdi => "vdi",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
        }
    }

    /// Whether it is a compressed stream of bytes rather than the image of a disk.
    pub const fn is_compressed_stream(self) -> bool {
        matches!(self, Self::Gzip | Self::Zstd | Self::Xz | Self::Bzip2)
    }

    /// What it is, in a sentence.
    pub const fn article(self) -> &'static str {
        match self {
            Self::Raw => "raw bytes",
            Self::Qcow2 => "a qcow2 image",
            Self::Qcow1 => "a qcow image of version 1",
            Self::Vmdk => "a VMDK image",
            Self::Vhdx => "a VHDX image",
            Self::Vhd => "a VHD image",
            Self::Vdi => "a VDI image",
            Self::Gzip => "compressed with gzip",
            Self::Zstd => "compressed with zstd",
            Self::Xz => "compressed with xz",
            Self::Bzip2 => "compressed with bzip2",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mark_is_found_at_its_place_and_not_beside_it() {
        for (mark, format) in [
            (&b"QFI\xfb\0\0\0\x02"[..], Format::Qcow2),
            (b"QFI\xfb\0\0\0\x03", Format::Qcow2),
            (b"QFI\xfb\0\0\0\x01", Format::Qcow1),
            (b"QFI\xfb\0\0\0\x09", Format::Qcow2),
            (b"KDMV", Format::Vmdk),
            (b"COWD", Format::Vmdk),
            (b"# Disk DescriptorFile", Format::Vmdk),
            (b"vhdxfile", Format::Vhdx),
            (b"conectix", Format::Vhd),
            (b"\x1f\x8b\x08", Format::Gzip),
            (b"\x28\xb5\x2f\xfd", Format::Zstd),
            (b"\xfd7zXZ\0", Format::Xz),
        ] {
            assert_eq!(Format::detect(mark), format);
            assert_eq!(Format::detect(&[mark, b"and more"].concat()), format);
            assert_eq!(Format::detect(&[b"x", mark].concat()), Format::Raw, "{format}");
        }
    }

    #[test]
    fn marks_count_where_they_stand_and_whole() {
        let mut vdi = b"<<< Oracle VM VirtualBox Disk Image >>>\n".to_vec();
        vdi.resize(0x40, 0);
        vdi.extend(b"\x7f\x10\xda\xbe");
        assert_eq!(Format::detect(&vdi), Format::Vdi);
        assert_eq!(Format::detect(b"BZh91AY&SY\0\0"), Format::Bzip2);
        assert_eq!(Format::detect(b"BZh9\x17\x72\x45\x38\x50\x90"), Format::Bzip2, "of nothing");
        assert_eq!(Format::detect(b"BZh\x17\x72\x45\x38\x50\x90\0"), Format::Raw);
        assert_eq!(Format::detect(b"BZh and a story"), Format::Raw);
        assert_eq!(Format::detect(b"ABC91AY&SY"), Format::Raw);
        assert_eq!(Format::detect(b"QFI\xfb\0\0\0\x01"), Format::Qcow1);
        for raw in [&b""[..], b"Q", b"QFI", b"\x1f\x8b", b"\x1f\x8b\x07", &[0; 512]] {
            assert_eq!(Format::detect(raw), Format::Raw, "{raw:?}");
        }
    }
}
