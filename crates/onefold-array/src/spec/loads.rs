//! Loads by name: what clients ask for, to be laid over any server.
//! Room: onefold-array.
//! Source: [ajdari-talk] for what its slides measure; the rest is marked as outside or assumed.
//! What a load does not say, such as its duplicates where no slide gives them, stays the server's.

use super::keys::Origin::{self, Assumed, Derived, Outside, Published};

/// The key that names a load.
pub const LOAD_KEY: &str = "workload.preset";

/// A named set of values of the table `workload`.
#[derive(Clone, Copy, Debug)]
pub struct LoadPreset {
    /// The name that people choose it by.
    pub name: &'static str,
    /// What it is, in one line.
    pub doc: &'static str,
    /// Keys, values as TOML, origins.
    pub values: &'static [(&'static str, &'static str, Origin)],
}

const TRACES: &str = "FIU's I/O deduplication traces have a digest for each 4096 bytes";

/// Every load.
pub const LOADS: &[LoadPreset] = &[
    LoadPreset {
        name: "write-only",
        doc: "writes and nothing else",
        values: &[
            ("workload.trace", "\"\"", Assumed("a drawn load")),
            ("workload.load", "\"closed\"", Assumed("what saturates a server")),
            ("workload.read_share", "0.0", Published("Heavy Computations on CPUs: write-only")),
        ],
    },
    LoadPreset {
        name: "mixed",
        doc: "as many reads as writes",
        values: &[
            ("workload.trace", "\"\"", Assumed("a drawn load")),
            ("workload.load", "\"closed\"", Assumed("what saturates a server")),
            (
                "workload.read_share",
                "0.5",
                Derived("cores of the read/write profile; its slide states no share"),
            ),
        ],
    },
    LoadPreset {
        name: "fiu-like",
        doc: "small requests, few duplicates, most of them writes, like a web and mail server's",
        values: &[
            ("workload.trace", "\"\"", Assumed("a drawn load")),
            ("workload.load", "\"closed\"", Assumed("what saturates a server")),
            ("workload.request_bytes", "4096", Outside(TRACES)),
            ("workload.read_share", "0.25", Assumed("page caches above answer most reads")),
            (
                "workload.duplicate_share",
                "0.3",
                Outside("WebVM of FIU: 30 % are redundant, by [park-shin]"),
            ),
            ("workload.locality", "1.0", Assumed("what was written lately is written again")),
            ("workload.run_chunks", "4", Assumed("files are copied, a few blocks at a time")),
        ],
    },
];

/// A load by its name.
pub(super) fn find(name: &str) -> Option<&'static LoadPreset> {
    LOADS.iter().find(|load| load.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Given, PRESETS, SpecBuilder};

    #[test]
    fn every_load_fits_every_server_and_says_where_its_values_come_from() {
        for preset in PRESETS {
            for load in LOADS {
                let set = format!("{LOAD_KEY}={}", load.name);
                let builder = SpecBuilder::preset(preset.name).unwrap().set(&set).unwrap();
                let spec = builder.build();
                assert!(spec.is_ok(), "{} {}: {spec:?}", preset.name, load.name);
                for (path, _, origin) in load.values {
                    assert_eq!(builder.given(path), Some(&Given::Known(*origin)), "{path}");
                    assert!(path.starts_with("workload."), "{path}");
                }
            }
        }
    }

    #[test]
    fn a_load_lies_under_what_is_set_after_it_and_under_the_keys_of_its_file() {
        let start = || SpecBuilder::preset("cidr+").unwrap();
        let set = |builder: SpecBuilder, text: &str| builder.set(text).unwrap();
        let later = set(set(start(), "workload.preset=fiu-like"), "read_share=0.1");
        assert_eq!(later.value("workload.read_share"), Some(&toml::Value::Float(0.1)));
        let earlier = set(set(start(), "read_share=0.1"), "workload.preset=mixed");
        assert_eq!(earlier.value("workload.read_share"), Some(&toml::Value::Float(0.5)));
        let text = "[workload]\nduplicate_share = 0.9\npreset = 'fiu-like'\n";
        let file = start().file("a", text).unwrap().build().unwrap();
        assert_eq!((file.workload.duplicate_share, file.workload.read_share), (0.9, 0.25));
        assert_eq!(file.workload.request_bytes, 4096);
        for wrong in [
            start().set("workload.preset=fiu").unwrap_err(),
            start().file("a", "[workload]\npreset = 7").unwrap_err(),
        ] {
            let said = wrong.to_string();
            assert!(said.contains("expected write-only, mixed or fiu-like"), "{said}");
        }
    }
}
