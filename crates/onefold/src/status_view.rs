//! How a pool's status looks to people, and to programs.
//! Room: onefold.

use std::path::Path;

use onefold_block::{ByteSize, Generation};
use onefold_export::{Allowed, Limits, Sharing};
use onefold_pool::{PoolStatus, VolumeStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cache_view::{CacheJson, cache_table};
use crate::duplicates_view::duplicates_table;
use crate::open_pool::uuid_text;
use crate::pool_cache::CacheReport;
use crate::scrub_state::ScrubState;
use crate::table::{Align, Table, count, percent, plural};

/// A table of volumes, with a head.
pub fn volume_table(volumes: &[VolumeStatus]) -> Table {
    let is_shared = volumes.iter().any(|volume| !volume.note.is_empty());
    let mut aligned = vec![Align::Left, Align::Right, Align::Right, Align::Right];
    let mut heads = vec!["VOLUME", "SIZE", "DATA", "FULL"];
    if is_shared {
        aligned.extend([Align::Left; 2]);
        heads.extend(["CLIENTS", "LIMITS"]);
    }
    let mut table = Table::new(&aligned);
    table.row(heads.iter().map(ToString::to_string));
    for volume in volumes {
        let full = volume.mapped_bytes as f64 / volume.size_bytes.max(1) as f64;
        let mut row = vec![
            volume.name.clone(),
            ByteSize(volume.size_bytes).to_string(),
            ByteSize(volume.mapped_bytes).to_string(),
            percent(full.min(1.0)),
        ];
        if is_shared {
            let sharing = sharing_of(volume);
            row.extend([sharing.clients_text(), sharing.limits.text()]);
        }
        table.row(row);
    }
    table
}

/// How a volume is shared; what cannot be read is for nobody.
fn sharing_of(volume: &VolumeStatus) -> Sharing {
    Sharing::of_any_note(&volume.note)
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2}x")
}

fn data_table(status: &PoolStatus) -> Table {
    let size = |bytes| ByteSize(bytes).to_string();
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Left]);
    table.row(["DATA", "BYTES", "RATIO", ""]);
    let about = "what the volumes hold, without zeroes and holes";
    table.row(["logical", &size(status.logical_bytes), "", about]);
    let dedup = times(status.dedup_ratio());
    // What snapshots alone hold is in all that follows, and in no volume.
    let held = match status.snapshots {
        0 => String::new(),
        1 => ", with what 1 snapshot holds".to_owned(),
        more => format!(", with what {} snapshots hold", count(more)),
    };
    let unique = format!("after deduplication{held}");
    table.row(["unique", &size(status.unique_bytes), &dedup, &unique]);
    let compression = times(status.compression_ratio());
    table.row(["compressed", &size(status.compressed_bytes), &compression, "after compression"]);
    let dead = "overwritten or given up, and not yet won back";
    table.row(["dead", &size(status.dead_bytes), "", dead]);
    let uncompared = status.deduplication.undetermined() * status.settings.chunk_size.bytes64();
    if uncompared > 0 {
        let about = "not yet compared with all the rest, in the background";
        table.row(["uncompared", &size(uncompared), "", about]);
    }
    let saved = 1.0 - 1.0 / status.total_ratio();
    let all = if status.logical_bytes > 0 && saved >= 0.0 {
        format!("all files of the pool{held}: {} saved", percent(saved))
    } else {
        format!("all files of the pool{held}")
    };
    table.row(["stored", &size(status.stored_bytes), &times(status.total_ratio()), &all]);
    table
}

fn memory_table(status: &PoolStatus, own_bytes: Option<u64>) -> Table {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Left]);
    table.row(["MEMORY", "IN USE", "LIMIT", ""]);
    let index = match status.index_let_go {
        0 if status.index_entries == 0 && status.chunks > 0 => {
            "filled once the pool is written to".to_owned()
        }
        0 if status.index_containers_left > 0 => format!(
            "{}; {} still to be read",
            plural(status.index_entries, "fingerprint", "fingerprints"),
            plural(status.index_containers_left, "container", "containers")
        ),
        0 => plural(status.index_entries, "fingerprint", "fingerprints"),
        gone => format!(
            "{}; {} let go for lack of room",
            plural(status.index_entries, "fingerprint", "fingerprints"),
            count(gone)
        ),
    };
    let directories = status.directory_memory_bytes;
    let index_alone = status.index_memory_bytes - directories;
    let limit = |bytes| ByteSize(bytes).to_string();
    let (index_limit, map_limit) = (status.index_memory_max_bytes, status.map_memory_max_bytes);
    let cache_limit = limit(status.cache_memory_max_bytes);
    let mut rows = vec![
        ("index", index_alone, limit(index_limit), index.as_str()),
        (
            "directories",
            directories,
            String::new(),
            "within the limit of index: verify what it finds",
        ),
        ("maps", status.map_memory_bytes, limit(map_limit), ""),
        ("read cache", status.cache_memory_bytes, cache_limit, ""),
        ("buffers", status.buffer_memory_bytes, String::new(), "containers being filled"),
        (
            "tables",
            status.table_memory_bytes,
            String::new(),
            "of containers, and changes not yet in the journal",
        ),
    ];
    if let Some(other) = other_memory(status, own_bytes) {
        rows.push(("other", other, String::new(), "the rest of what this process has in memory"));
    }
    for (name, used, limit, about) in rows {
        table.row([name, &ByteSize(used).to_string(), &limit, about]);
    }
    table
}

/// Bytes of this process's memory, as [`own_memory_bytes`] has it, that no part of the pool has
/// said to be its own; none where the system does not tell.
fn other_memory(status: &PoolStatus, own_bytes: Option<u64>) -> Option<u64> {
    Some(own_bytes?.saturating_sub(status.memory_bytes()))
}

/// Bytes of this process's memory, without its program and files; none where the system does not
/// tell.
pub fn own_memory_bytes() -> Option<u64> {
    memory_in(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// The same by what the system tells of a process.
fn memory_in(told: &str) -> Option<u64> {
    let line = told.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

fn containers_line(status: &PoolStatus) -> String {
    let mut parts = vec![plural(status.containers, "container", "containers")];
    if status.container_fill > 0.0 {
        parts.push(format!("sealed ones {} full", percent(status.container_fill)));
    }
    if status.live_bytes > 0 {
        parts.push(format!("{:.2} bytes stored for each that is alive", status.stored_over_live()));
    }
    if status.dead_containers > 0 {
        parts.push(format!("{} without use and soon gone", count(status.dead_containers)));
    }
    if status.unfinished_containers > 0 {
        let containers = plural(status.unfinished_containers, "container", "containers");
        let bytes = ByteSize(status.unfinished_bytes);
        parts.push(format!(
            "{containers} ({bytes}) of a write that was cut off, removed when the pool is next \
             opened for writing"
        ));
    }
    format!("{}; journal {}", parts.join(", "), ByteSize(status.journal_bytes))
}

/// What is said of a generation, after something else.
pub fn generation_text(generation: Option<Generation>) -> String {
    generation.map_or_else(String::new, |generation| {
        let lost =
            if generation.is_unaccepted() { ", its loss of writes not accepted" } else { "" };
        format!(", generation {}{lost}", generation.number)
    })
}

/// The status for people. `heading` dresses up headings.
pub fn status_text(
    pool: &Path,
    status: &PoolStatus,
    cache: Option<&CacheReport>,
    heading: impl Fn(&str) -> String,
) -> String {
    text_of(pool, status, cache, own_memory_bytes(), heading)
}

/// The same in a process with so much memory.
fn text_of(
    pool: &Path,
    status: &PoolStatus,
    cache: Option<&CacheReport>,
    own_bytes: Option<u64>,
    heading: impl Fn(&str) -> String,
) -> String {
    let settings = &status.settings;
    let mut lines = vec![
        format!("{} {}", heading("POOL"), pool.display()),
        format!(
            "  {} chunks, {} fingerprints, {} compression, containers of {}",
            settings.chunk_size,
            settings.fingerprint,
            settings.compression,
            ByteSize(u64::from(settings.container_bytes))
        ),
        format!("  {}{}", uuid_text(&status.uuid), generation_text(status.generation)),
    ];
    let mut section = |table: &Table| {
        let mut rows = table.lines(0).into_iter();
        lines.push(String::new());
        lines.extend(rows.next().map(|head| heading(&head)));
        lines.extend(rows);
    };
    section(&volume_table(&status.volumes));
    section(&data_table(status));
    if let Some(duplicates) = duplicates_table(status) {
        section(&duplicates);
    }
    section(&memory_table(status, own_bytes));
    if let Some(cache) = cache {
        section(&cache_table(cache));
    }
    lines.push(String::new());
    lines.push(containers_line(status));
    if let Some(failure) = &status.failure {
        lines.push(format!("REFUSES WRITES until reopened: {failure}"));
    }
    lines.join("\n") + "\n"
}

/// A volume for programs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct VolumeJson {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Bytes of blocks with stored data.
    pub mapped_bytes: u64,
    /// Who sees it over the network; everybody whom the server lets in if it is null.
    pub clients: Option<Vec<Allowed>>,
    /// How much may be asked of it in a second.
    pub limits: Limits,
}

impl From<&VolumeStatus> for VolumeJson {
    fn from(volume: &VolumeStatus) -> Self {
        let Sharing { clients, limits } = sharing_of(volume);
        Self {
            clients,
            limits,
            name: volume.name.clone(),
            size_bytes: volume.size_bytes,
            mapped_bytes: volume.mapped_bytes,
        }
    }
}

/// A generation for programs.
#[derive(Serialize, JsonSchema)]
pub struct GenerationJson {
    number: u64,
    accepted: u64,
}

impl From<Generation> for GenerationJson {
    fn from(generation: Generation) -> Self {
        Self { number: generation.number, accepted: generation.accepted }
    }
}

/// Version of what programs see. In version 1 `chunks`, `unique_bytes` and `compressed_bytes` were
/// of all that containers hold, dead or alive.
const STATUS_SCHEMA_VERSION: u32 = 2;

/// The status for programs; docs/json.md tells each field.
#[derive(Serialize, JsonSchema)]
pub struct StatusJson {
    schema_version: u32,
    pool: String,
    uuid: String,
    generation: Option<GenerationJson>,
    settings: SettingsJson,
    volumes: Vec<VolumeJson>,
    snapshots: u64,
    logical_bytes: u64,
    unique_bytes: u64,
    compressed_bytes: u64,
    stored_bytes: u64,
    space: SpaceJson,
    dedup_ratio: f64,
    compression_ratio: f64,
    total_ratio: f64,
    live_chunks: u64,
    stored_chunks: u64,
    containers: ContainersJson,
    index: IndexJson,
    deduplication: DeduplicationJson,
    memory: MemoryJson,
    journal_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<CacheJson>,
    /// The scrub under way or the last one, if there was any.
    #[serde(skip_serializing_if = "Option::is_none")]
    scrub: Option<ScrubState>,
    failure: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct SettingsJson {
    chunk_bytes: u64,
    container_bytes: u64,
    fingerprint: String,
    compression: String,
}

#[derive(Serialize, JsonSchema)]
struct SpaceJson {
    container_bytes: u64,
    live_bytes: u64,
    dead_bytes: u64,
    removable_bytes: u64,
    moved_bytes: u64,
    stored_over_live: f64,
}

#[derive(Serialize, JsonSchema)]
struct ContainersJson {
    total: u64,
    dead: u64,
    unfinished: u64,
    unfinished_bytes: u64,
    fill: f64,
}

#[derive(Serialize, JsonSchema)]
struct IndexJson {
    entries: u64,
    let_go: u64,
    containers_left: u64,
}

#[derive(Serialize, JsonSchema)]
struct DeduplicationJson {
    found_at_once: u64,
    found_later: u64,
    uncompared_new: u64,
    uncompared_apart: u64,
    runs: u64,
    run_bytes: u64,
    asked_on_disk: u64,
    asked_in_vain: u64,
    taken_for_unique: u64,
    merged: Option<u64>,
    to_merge: Option<u64>,
}

impl From<&PoolStatus> for DeduplicationJson {
    fn from(status: &PoolStatus) -> Self {
        let later = &status.deduplication;
        Self {
            found_at_once: status.activity.duplicate,
            found_later: later.found,
            uncompared_new: later.new,
            uncompared_apart: later.apart,
            runs: later.runs,
            run_bytes: later.run_bytes,
            asked_on_disk: later.predictions.asked,
            asked_in_vain: later.predictions.asked - later.predictions.right,
            taken_for_unique: later.predictions.passed,
            merged: later.merging.map(|(merged, _)| merged),
            to_merge: later.merging.map(|(_, all)| all),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "units belong into the names of fields")]
struct MemoryJson {
    index_bytes: u64,
    index_max_bytes: u64,
    map_bytes: u64,
    map_max_bytes: u64,
    cache_bytes: u64,
    cache_max_bytes: u64,
    directory_bytes: u64,
    buffer_bytes: u64,
    table_bytes: u64,
    other_bytes: Option<u64>,
}

impl StatusJson {
    /// Of a pool that a person named so.
    pub fn new(
        pool: &Path,
        status: &PoolStatus,
        cache: Option<&CacheReport>,
        scrub: Option<ScrubState>,
    ) -> Self {
        let settings = &status.settings;
        Self {
            schema_version: STATUS_SCHEMA_VERSION,
            pool: pool.display().to_string(),
            uuid: uuid_text(&status.uuid),
            generation: status.generation.map(GenerationJson::from),
            settings: SettingsJson {
                chunk_bytes: settings.chunk_size.bytes64(),
                container_bytes: u64::from(settings.container_bytes),
                fingerprint: settings.fingerprint.to_string(),
                compression: settings.compression.to_string(),
            },
            volumes: status.volumes.iter().map(VolumeJson::from).collect(),
            snapshots: status.snapshots,
            logical_bytes: status.logical_bytes,
            unique_bytes: status.unique_bytes,
            compressed_bytes: status.compressed_bytes,
            stored_bytes: status.stored_bytes,
            space: SpaceJson {
                container_bytes: status.container_bytes,
                live_bytes: status.live_bytes,
                dead_bytes: status.dead_bytes,
                removable_bytes: status.removable_bytes,
                moved_bytes: status.activity.moved_bytes,
                stored_over_live: status.stored_over_live(),
            },
            dedup_ratio: status.dedup_ratio(),
            compression_ratio: status.compression_ratio(),
            total_ratio: status.total_ratio(),
            live_chunks: status.chunks,
            stored_chunks: status.stored_chunks,
            containers: ContainersJson {
                total: status.containers,
                dead: status.dead_containers,
                unfinished: status.unfinished_containers,
                unfinished_bytes: status.unfinished_bytes,
                fill: status.container_fill,
            },
            index: IndexJson {
                entries: status.index_entries,
                let_go: status.index_let_go,
                containers_left: status.index_containers_left,
            },
            deduplication: DeduplicationJson::from(status),
            memory: MemoryJson {
                index_bytes: status.index_memory_bytes,
                index_max_bytes: status.index_memory_max_bytes,
                map_bytes: status.map_memory_bytes,
                map_max_bytes: status.map_memory_max_bytes,
                cache_bytes: status.cache_memory_bytes,
                cache_max_bytes: status.cache_memory_max_bytes,
                directory_bytes: status.directory_memory_bytes,
                buffer_bytes: status.buffer_memory_bytes,
                table_bytes: status.table_memory_bytes,
                other_bytes: other_memory(status, own_memory_bytes()),
            },
            journal_bytes: status.journal_bytes,
            cache: cache.map(CacheJson::from),
            scrub,
            failure: status.failure.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use onefold_block::kept_text::assert_text;

    use super::*;
    use crate::test_pool;

    /// Of a pool in which nothing is.
    fn empty() -> PoolStatus {
        let status = test_pool::pool().status().unwrap();
        PoolStatus {
            generation: None,
            stored_bytes: 1 << 20,
            index_memory_bytes: 3 << 20,
            directory_memory_bytes: 1 << 20,
            map_memory_bytes: 0,
            buffer_memory_bytes: 0,
            table_memory_bytes: 0,
            journal_bytes: 4096,
            ..status
        }
    }

    /// What people see of it in a process of 20 MiB.
    fn text(status: &PoolStatus) -> String {
        let text = text_of(Path::new("p"), status, None, Some(20 << 20), str::to_owned);
        text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
    }

    #[test]
    fn memory_is_what_the_system_tells_of_this_process() {
        assert_eq!(memory_in("Name:\tx\nRssAnon:\t    12 kB\nRssFile:\t 3 kB\n"), Some(12 << 10));
        assert_eq!(memory_in("Name:\tx\n"), None);
        assert!(own_memory_bytes().unwrap() > 0);
        let status = PoolStatus { index_memory_bytes: 5, ..empty() };
        let own = status.memory_bytes() + 7;
        assert_eq!(
            [Some(own), Some(0), None].map(|own| other_memory(&status, own)),
            [Some(7), Some(0), None]
        );
    }

    #[test]
    fn people_see_what_is_there() {
        let mut status = empty();
        let mut told = text(&status);
        let volume = |name: &str, mapped_bytes| VolumeStatus {
            name: name.to_owned(),
            size_bytes: 1 << 30,
            mapped_bytes,
            note: [].into(),
        };
        status.volumes = vec![volume("a", 512 << 20), volume("b", 0)];
        (status.snapshots, status.logical_bytes, status.unique_bytes) = (1, 512 << 20, 256 << 20);
        (status.compressed_bytes, status.stored_bytes) = (128 << 20, 160 << 20);
        (status.container_bytes, status.live_bytes) = (150 << 20, 100 << 20);
        (status.chunks, status.containers, status.dead_containers) = (65536, 38, 1);
        (status.container_fill, status.unfinished_containers) = (0.5, 1);
        (status.unfinished_bytes, status.index_entries) = (4096, 65536);
        (status.activity.duplicate, status.index_let_go) = (1, 12);
        let later = &mut status.deduplication;
        (later.found, later.new, later.apart, later.merging) = (2, 3, 4, Some((1, 4)));
        (later.predictions.asked, later.predictions.right, later.predictions.passed) = (8, 6, 1);
        told += &text(&status);
        // Little is stored of little, and nothing of it was looked for.
        status.deduplication = onefold_pool::DeduplicationStatus::default();
        (status.activity.duplicate, status.snapshots, status.index_let_go) = (0, 2, 0);
        (status.index_containers_left, status.unfinished_containers) = (1, 0);
        (status.logical_bytes, status.failure) = (4096, Some("no disk".to_owned()));
        told += &text(&status);
        (status.index_entries, status.logical_bytes) = (0, 1);
        status.deduplication.predictions.passed = 1;
        told += &text(&status);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/status_view.txt");
        assert_text(&path, &told, std::env::var_os("ONEFOLD_UPDATE").is_some());
    }
}
