//! What takes inputs. One entry a target; nothing else has to know of it.
//! Room: onefold-fuzz.

mod content;
mod files;
mod nbd;
mod snapshots;
mod state;
mod stores;
mod text;
mod tls;

use crate::meter::Cost;

/// Something that reads bytes from outside.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name, which is also that of its folder of kept inputs.
    pub name: &'static str,
    /// Takes an input, and panics if something is wrong.
    pub take: fn(&[u8]),
    /// Inputs to begin with, besides those that are kept.
    pub more: fn() -> Vec<Vec<u8>>,
    /// Inputs made in a run of all tests: a few seconds' worth.
    pub inputs_in_ci: u64,
    /// What an empty input may cost.
    base: Cost,
    /// What each byte of an input may cost besides.
    each: Cost,
}

impl Target {
    /// What an input of so many bytes may cost.
    pub const fn allowed(&self, bytes: usize) -> Cost {
        Cost {
            peak: self.base.peak + bytes * self.each.peak,
            all: self.base.all + bytes * self.each.all,
        }
    }
}

/// Whether this was built with checksums that are right whatever an input has made of a file
/// (`cargo xtask fuzz --blind`). Then other data is no surprise; what ends in a panic, or takes
/// too much, is one all the more.
fn checksums_are_blind() -> bool {
    crc32fast::hash(b"one") == crc32fast::hash(b"other")
}

const fn none() -> Vec<Vec<u8>> {
    Vec::new()
}

const MIB: usize = 1 << 20;

/// For what decodes an input in memory.
const SMALL: (Cost, Cost) = (Cost { peak: MIB, all: 8 * MIB }, Cost { peak: 256, all: 4096 });
/// For what opens a store of a few hundred KiB of which an input changes some bytes.
const STORE: (Cost, Cost) =
    (Cost { peak: 64 * MIB, all: 512 * MIB }, Cost { peak: 1024, all: 65_536 });

const fn target(
    name: &'static str,
    take: fn(&[u8]),
    inputs_in_ci: u64,
    (base, each): (Cost, Cost),
) -> Target {
    Target { name, take, more: none, inputs_in_ci, base, each }
}

/// Every target.
pub const TARGETS: &[Target] = &[
    target("nbd_handshake", nbd::handshake, 100_000, SMALL),
    target("nbd_request", nbd::request, 200_000, SMALL),
    target("content_decompress", content::decompress, 50_000, SMALL),
    target("pool_formats", stores::pool_formats, 200_000, SMALL),
    target("pool_open", stores::pool, 1_000, STORE),
    Target {
        more: snapshots::streams,
        ..target("snapshot_stream", snapshots::stream, 20_000, STORE)
    },
    Target { more: snapshots::offers, ..target("snapshot_asked", snapshots::asked, 10_000, STORE) },
    target("archive_open", stores::archive, 1_000, STORE),
    target("drive_open", stores::drive, 500, STORE),
    Target { more: text::scramblers, ..target("scrambler_file", text::scrambler, 30_000, SMALL) },
    Target { more: text::traces, ..target("trace", text::trace, 100_000, SMALL) },
    Target { more: text::drive_specs, ..target("drive_spec", text::drive_spec, 10_000, SMALL) },
    Target { more: text::cache_specs, ..target("cache_spec", text::cache_spec, 20_000, SMALL) },
    Target { more: text::array_specs, ..target("array_spec", text::array_spec, 10_000, SMALL) },
    target("words", text::words, 200_000, SMALL),
    Target {
        more: state::policy_states,
        ..target("cache_state", state::policy_state, 20_000, STORE)
    },
    Target { more: state::tiers, ..target("cache_folder", state::tier, 10_000, STORE) },
    Target { more: state::partials, ..target("partial", state::partial, 10_000, STORE) },
    target("generation", state::generation, 50_000, SMALL),
    Target { more: tls::hellos, ..target("tls", tls::talk, 1_000, STORE) },
    Target { more: tls::pems, ..target("tls_files", tls::pem, 300, STORE) },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_each_and_have_something_to_begin_with() {
        let names: std::collections::BTreeSet<&str> = TARGETS.iter().map(|t| t.name).collect();
        assert_eq!(names.len(), TARGETS.len());
        for target in TARGETS {
            let kept = crate::corpus::kept(target.name).len() + (target.more)().len();
            assert!(kept > 0, "{}", target.name);
        }
    }
}
