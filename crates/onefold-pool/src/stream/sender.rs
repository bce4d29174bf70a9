//! Frames of a snapshot, each made when it is asked for.
//! Room: onefold-pool.
//! In: a snapshot, a base, a byte of the volume. Out: the frame from there on.
//! Cost: pages that only one of the two snapshots has, and the blocks that these differ in, which
//! are handed on as they are stored.

use std::sync::Arc;

use onefold_block::Lba;
use onefold_content::Codec;

use super::frame::{Body, Frame, Header, Item, Kind, Names};
use crate::differences::reads_alike;
use crate::engine::{Inner, VolumeState};
use crate::error::PoolError;
use crate::pba::MapEntry;
use crate::pool::Pool;
use crate::snapshots::SNAPSHOT_MARK;

/// A frame is full once its body has so many bytes.
const BODY_BYTES: usize = 1 << 20;
/// Blocks looked at together, in bytes.
const BATCH_BYTES: usize = 256 << 10;
/// Blocks looked at for one frame, runs that are known at once aside.
const FRAME_BLOCKS_MAX: u64 = 1 << 20;

impl Inner {
    fn named_snapshot(&self, name: &str) -> Result<Arc<VolumeState>, PoolError> {
        if name.contains(SNAPSHOT_MARK) {
            return self.snapshot_by_name(name);
        }
        self.volume_by_name(name)?;
        Err(PoolError::NoSnapshotNamed(name.to_owned()))
    }
}

impl Pool {
    /// Append the beginning of the stream of a snapshot to `out`, whole or as what changed since
    /// `base`. Returns what it says.
    pub fn stream_header(
        &self,
        snapshot: &str,
        base: Option<&str>,
        out: &mut Vec<u8>,
    ) -> Result<Header, PoolError> {
        let inner = &self.inner;
        let state = inner.named_snapshot(snapshot)?;
        let base = base.map(|name| inner.named_snapshot(name)).transpose()?;
        let names = names_of(inner, &state, base.as_deref())?;
        let header = Header {
            names,
            chunk_size: inner.settings.chunk_size,
            size_bytes: state.size_bytes(),
            created_seconds: state.created_seconds,
            name: state.name(),
            base_name: base.map_or_else(String::new, |base| base.name()),
        };
        Frame::of_header(&header, out);
        Ok(header)
    }

    /// Append the frame from byte `from` of the volume on, a multiple of the chunk size, or the
    /// last one. Returns where the one after it begins; `None` after the last.
    pub fn stream_frame(
        &self,
        snapshot: &str,
        base: Option<&str>,
        from: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<u64>, PoolError> {
        let inner = &self.inner;
        let state = inner.named_snapshot(snapshot)?;
        let base = base.map(|name| inner.named_snapshot(name)).transpose()?;
        let names = names_of(inner, &state, base.as_deref())?;
        let (chunk, size) = (inner.chunk_bytes() as u64, state.size_bytes());
        if from > size || from < size && !from.is_multiple_of(chunk) {
            let why = format!(
                "a stream of '{snapshot}' can go on at multiples of {chunk} bytes up to {size}, \
                 not at {from}"
            );
            return Err(PoolError::Setting(why));
        }
        if from == size {
            let end = Frame { kind: Kind::End, names, from, upto: from, body: Vec::new() };
            end.encode(out);
            return Ok(None);
        }
        let (body, blocks) = inner.frame_body(&state, base.as_deref(), from / chunk)?;
        // Of what is being deleted meanwhile, nothing is what it was.
        if state.is_deleting() || base.is_some_and(|base| base.is_deleting()) {
            return Err(PoolError::VolumeDeleted);
        }
        let upto = (from + blocks * chunk).min(size);
        Frame { kind: Kind::Data, names, from, upto, body }.encode(out);
        Ok(Some(upto))
    }
}

fn names_of(
    inner: &Inner,
    snapshot: &VolumeState,
    base: Option<&VolumeState>,
) -> Result<Names, PoolError> {
    if base.is_some_and(|base| base.number == snapshot.number) {
        let why = format!("'{}' cannot be its own base", snapshot.name());
        return Err(PoolError::Setting(why));
    }
    let names = Names {
        base: base.map_or(0, |base| inner.identity_of(base)),
        snapshot: inner.identity_of(snapshot),
    };
    if let Some(base) = base.filter(|_| names.base == names.snapshot) {
        let why = format!(
            "'{}' and '{}' are copies of one snapshot: there is nothing between them to tell of",
            base.name(),
            snapshot.name()
        );
        return Err(PoolError::Setting(why));
    }
    Ok(names)
}

impl Inner {
    /// What a frame from block `first` on says, and of how many blocks.
    fn frame_body(
        &self,
        snapshot: &VolumeState,
        base: Option<&VolumeState>,
        first: u64,
    ) -> Result<(Vec<u8>, u64), PoolError> {
        let chunk = self.chunk_bytes();
        let end = snapshot.blocks(chunk);
        let base = base.map(|base| (base.number, base.blocks(chunk)));
        let batch_max = (BATCH_BYTES / chunk) as u64;
        let (mut body, mut at, mut looked_at) = (Body::default(), first, 0);
        let (mut entries, mut before) = (Vec::new(), Vec::new());
        let (mut bytes, mut blocks) = (Vec::new(), Vec::<(Codec, usize)>::new());
        while at < end && body.len() < BODY_BYTES && looked_at < FRAME_BLOCKS_MAX {
            let lba = Lba::new(at);
            let base = base.filter(|(_, blocks)| at < *blocks);
            let most = base.map_or(end, |(_, blocks)| blocks.min(end)) - at;
            if let Some((number, _)) = base {
                let run = self.map.alike_run([snapshot.number, number], lba, most)?;
                if run > 0 {
                    body.push(Item::Same(run));
                    at += run;
                    continue;
                }
            } else if let (run @ 1.., entry) = self.map.uniform_run(snapshot.number, lba, most)? {
                body.push(match entry {
                    MapEntry::Zero => Item::Zero(run),
                    MapEntry::Hole => Item::Hole(run),
                    MapEntry::Lost | MapEntry::Stored(_) => {
                        return Err(PoolError::Lost { volume: snapshot.name(), lba });
                    }
                });
                at += run;
                continue;
            }
            let count = batch_max.min(most);
            entries.clear();
            self.map.entries(snapshot.number, lba, count, &mut entries)?;
            if let Some((number, _)) = base {
                before.clear();
                self.map.entries(number, lba, count, &mut before)?;
            }
            let same = |number: usize, entry: MapEntry| {
                base.is_some() && reads_alike(before[number], entry)
            };
            // What is not sent is not read.
            let mut sent = entries.clone();
            for (number, entry) in sent.iter_mut().enumerate() {
                if same(number, *entry) {
                    *entry = MapEntry::Hole;
                }
            }
            bytes.clear();
            blocks.clear();
            self.read_encoded(snapshot, lba, &sent, &mut |_, codec, stored| {
                bytes.extend_from_slice(stored);
                blocks.push((codec, stored.len()));
            })?;
            push_blocks(&mut body, &entries, &same, (&blocks, &bytes));
            (at, looked_at) = (at + count, looked_at + count);
        }
        Ok((body.finish(), at - first))
    }
}

/// Say what each of these blocks is; those that are stored and not the same are at hand, in order.
fn push_blocks(
    body: &mut Body,
    entries: &[MapEntry],
    same: &dyn Fn(usize, MapEntry) -> bool,
    (blocks, bytes): (&[(Codec, usize)], &[u8]),
) {
    let (mut stored, mut rest) = (blocks.iter(), bytes);
    for (number, entry) in entries.iter().enumerate() {
        body.push(match entry {
            entry if same(number, *entry) => Item::Same(1),
            MapEntry::Hole => Item::Hole(1),
            MapEntry::Zero => Item::Zero(1),
            MapEntry::Lost => unreachable!("what is lost was refused"),
            MapEntry::Stored(_) => {
                let (codec, len) = stored.next().expect("one for each stored block");
                let (block, after) = rest.split_at(*len);
                rest = after;
                Item::Block(*codec, block)
            }
        });
    }
}
