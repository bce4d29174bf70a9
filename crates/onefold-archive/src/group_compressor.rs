//! Compresses groups: how much work each is worth.
//! Room: onefold-archive.
//! Chosen on wheels of numpy, and looked at on other trees, as docs/archive.md tells.

use onefold_content::{Codec, Compression, Compressor};

/// Levels of zstd above its own at which an archive compresses machine code that moves: that is
/// little, and stays.
const MOVED_CODE_MORE: i32 = 3;

/// Compresses groups of machine code and all others.
pub struct GroupCompressor {
    code: Compressor,
    other: Compressor,
}

impl GroupCompressor {
    /// For what is added to an archive with this setting.
    pub fn adding(compression: Compression) -> Self {
        Self { code: Compressor::new(of_code(compression)), other: Compressor::new(compression) }
    }

    /// For what moves to another container.
    pub fn moving(compression: Compression) -> Self {
        let code = Compressor::new(of_moved_code(compression));
        Self { code, other: Compressor::new(compression) }
    }

    /// Append the compressed form of a group to `out` if that saves a byte; otherwise it is to be
    /// stored as it is.
    pub fn compress_into(&mut self, data: &[u8], is_code: bool, out: &mut Vec<u8>) -> Codec {
        let compressor = if is_code { &mut self.code } else { &mut self.other };
        compressor.compress_into(data, out, data.len() - 1)
    }
}

/// At level 4 zstd looks for the same as at level 3, but in tables that are large enough for a
/// group of machine code: 2 % less for an eighth more time. Level 5 is another way to look, which
/// takes twice the time.
const fn of_code(compression: Compression) -> Compression {
    match compression {
        Compression::Zstd(3) => Compression::Zstd(4),
        other => other,
    }
}

/// Below level 1 speed is what is wanted.
fn of_moved_code(compression: Compression) -> Compression {
    match compression {
        Compression::Zstd(level @ 1..) => {
            Compression::Zstd((level + MOVED_CODE_MORE).min(*Compression::ZSTD_LEVELS.end()))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_the_usual_level_and_code_that_moves_get_more_work() {
        use Compression::{Lz4, None, Zstd};
        for (setting, code, moved) in [
            (None, None, None),
            (Lz4, Lz4, Lz4),
            (Zstd(-7), Zstd(-7), Zstd(-7)),
            (Zstd(0), Zstd(0), Zstd(0)),
            (Zstd(1), Zstd(1), Zstd(4)),
            (Zstd(2), Zstd(2), Zstd(5)),
            (Zstd(3), Zstd(4), Zstd(6)),
            (Zstd(4), Zstd(4), Zstd(7)),
            (Zstd(17), Zstd(17), Zstd(19)),
            (Zstd(19), Zstd(19), Zstd(19)),
        ] {
            let adding = GroupCompressor::adding(setting);
            let moving = GroupCompressor::moving(setting);
            let all = [&adding.code, &adding.other, &moving.code, &moving.other];
            let expected = [code, setting, moved, setting];
            assert_eq!(all.map(Compressor::compression), expected, "{setting}");
        }
    }

    #[test]
    fn each_kind_of_group_has_its_own_compressor() {
        let data = vec![7; 1000];
        let mut compressor = GroupCompressor {
            code: Compressor::new(Compression::Lz4),
            other: Compressor::new(Compression::Zstd(3)),
        };
        let mut codec = |is_code| compressor.compress_into(&data, is_code, &mut Vec::new());
        assert_eq!([codec(true), codec(false)], [Codec::Lz4, Codec::Zstd]);
    }
}
