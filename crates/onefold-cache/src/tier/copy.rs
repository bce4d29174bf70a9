//! A copy of a container on the fast tier: the container's bytes, a checksum of each block, and a
//! footer that says whose copy it is.
//! Room: onefold-cache.
//! Invariant: bytes of a copy are handed out only if the checksum of their block is right.
//! Cost: 4 bytes of memory per 4 KiB block of a copy that was read.

use onefold_block::{ContainerId, ContainerStore};

/// Bytes under one checksum.
const BLOCK_BYTES: u64 = 4096;
/// Bytes of a checksum.
const SUM_BYTES: u64 = 4;
/// Bytes of the footer.
const FOOTER_BYTES: usize = 44;
/// Bytes at a container's end by which a copy is known to be of this container and not of another
/// that once had its number: a container's directory and footer are there.
const TAIL_BYTES: u64 = 4096;

const MAGIC: &[u8; 8] = b"1FCOPY\x01\n";

/// Bytes that the copy of a container of `len` bytes takes.
pub const fn copy_bytes(len: u64) -> u64 {
    len + len.div_ceil(BLOCK_BYTES) * SUM_BYTES + FOOTER_BYTES as u64
}

/// What follows the container's bytes in its copy.
pub fn encode_tail(id: ContainerId, owner: &[u8; 16], data: &[u8]) -> Vec<u8> {
    let mut tail = Vec::new();
    for block in data.chunks(BLOCK_BYTES as usize) {
        tail.extend(crc32fast::hash(block).to_le_bytes());
    }
    let table = crc32fast::hash(&tail);
    let start = tail.len();
    tail.extend(MAGIC);
    tail.extend(owner);
    tail.extend(id.get().to_le_bytes());
    tail.extend((data.len() as u64).to_le_bytes());
    tail.extend(table.to_le_bytes());
    tail.extend(crc32fast::hash(&tail[start..]).to_le_bytes());
    tail
}

/// The checksums of a copy that was found to be whose it should be.
#[derive(Debug)]
pub struct Checksums {
    len: u64,
    blocks: Vec<u32>,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_le_bytes(bytes))
}

/// Open the copy of a container, or say what is wrong with it.
pub fn open(
    fast: &dyn ContainerStore,
    slow: &dyn ContainerStore,
    id: ContainerId,
    owner: &[u8; 16],
) -> Result<Checksums, String> {
    let text = |error: onefold_block::StoreError| error.to_string();
    let file_bytes = fast.len(id).map_err(text)?;
    let footer_at = file_bytes.checked_sub(FOOTER_BYTES as u64).ok_or("it is too short")?;
    let mut footer = [0; FOOTER_BYTES];
    fast.read(id, footer_at, &mut footer).map_err(text)?;
    let (body, sum) = footer.split_at(FOOTER_BYTES - 4);
    if word(sum, 0) != Some(crc32fast::hash(body)) {
        return Err("its footer is damaged".to_owned());
    }
    let whose = body[..8] == MAGIC[..] && body[8..24] == owner[..];
    if !whose || word(body, 24) != Some(id.get()) {
        return Err("it is the copy of something else".to_owned());
    }
    let (low, high) = (word(body, 28).unwrap_or(0), word(body, 32).unwrap_or(0));
    let len = u64::from(low) | u64::from(high) << 32;
    let slow_len = slow.len(id).map_err(text)?;
    if slow_len != len || copy_bytes(len) != file_bytes {
        return Err(format!("it is of {len} bytes, the container has {slow_len}"));
    }
    let mut table = vec![0; (footer_at - len) as usize];
    fast.read(id, len, &mut table).map_err(text)?;
    if word(body, 36) != Some(crc32fast::hash(&table)) {
        return Err("its table of checksums is damaged".to_owned());
    }
    let blocks = (0..table.len() / 4).filter_map(|block| word(&table, block * 4)).collect();
    let sums = Checksums { len, blocks };
    let tail = TAIL_BYTES.min(len);
    let (mut ours, mut theirs) = (vec![0; tail as usize], vec![0; tail as usize]);
    sums.read(fast, id, len - tail, &mut ours)?;
    slow.read(id, len - tail, &mut theirs).map_err(text)?;
    if ours == theirs { Ok(sums) } else { Err("it is of another container's content".to_owned()) }
}

impl Checksums {
    /// The checksums of a copy that was just written of `data`.
    pub fn of(data: &[u8]) -> Self {
        let blocks = data.chunks(BLOCK_BYTES as usize).map(crc32fast::hash).collect();
        Self { len: data.len() as u64, blocks }
    }

    /// Fill `buf` from `offset` of the copy, or say why that cannot be.
    pub fn read(
        &self,
        fast: &dyn ContainerStore,
        id: ContainerId,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<(), String> {
        let end = offset.checked_add(buf.len() as u64).filter(|&end| end <= self.len);
        let end = end.ok_or("the container ends before that")?;
        let first = offset / BLOCK_BYTES;
        let start = first * BLOCK_BYTES;
        let stop = (end.div_ceil(BLOCK_BYTES) * BLOCK_BYTES).min(self.len);
        let whole = start == offset && stop == end;
        let mut bytes = Vec::new();
        let blocks: &[u8] = if whole {
            fast.read(id, offset, buf).map_err(|error| error.to_string())?;
            buf
        } else {
            bytes.resize((stop - start) as usize, 0);
            fast.read(id, start, &mut bytes).map_err(|error| error.to_string())?;
            &bytes
        };
        for (block, data) in (first..).zip(blocks.chunks(BLOCK_BYTES as usize)) {
            if self.blocks.get(block as usize) != Some(&crc32fast::hash(data)) {
                return Err(format!("byte {} and what follows is damaged", block * BLOCK_BYTES));
            }
        }
        if !whole {
            let from = (offset - start) as usize;
            buf.copy_from_slice(&bytes[from..from + buf.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onefold_block::{FolderContainerStore, SimFolder, SplitMix64};

    use super::*;

    const OWNER: [u8; 16] = [7; 16];
    const ID: ContainerId = ContainerId::new(3);

    fn store_with(id: ContainerId, bytes: &[u8]) -> FolderContainerStore {
        let store = FolderContainerStore::new(Arc::new(SimFolder::new()));
        store.create(id, bytes.len() as u64).unwrap();
        store.append(id, 0, bytes).unwrap();
        store
    }

    fn container() -> Vec<u8> {
        SplitMix64::new(4).bytes(2 * BLOCK_BYTES as usize + 100)
    }

    fn copy_of(data: &[u8]) -> Vec<u8> {
        [data, &encode_tail(ID, &OWNER, data)].concat()
    }

    /// What opening this copy of that container gives.
    fn opened(copy: &[u8], container: &[u8]) -> Result<Checksums, String> {
        open(&store_with(ID, copy), &store_with(ID, container), ID, &OWNER)
    }

    #[test]
    fn a_whole_copy_is_read_and_any_flipped_bit_or_cut_is_noticed() {
        let data = container();
        let copy = copy_of(&data);
        assert_eq!(copy.len() as u64, copy_bytes(data.len() as u64));
        let sums = opened(&copy, &data).unwrap();
        let fast = store_with(ID, &copy);
        let len = data.len();
        for (from, upto) in [(0, len), (0, 1), (4095, 4097), (8191, len), (len, len)] {
            let mut buf = vec![0; upto - from];
            sums.read(&fast, ID, from as u64, &mut buf).unwrap();
            assert!(buf == data[from..upto], "{from}..{upto}");
        }
        assert!(sums.read(&fast, ID, len as u64, &mut [0]).is_err(), "past the end");
        for bit in len * 8..copy.len() * 8 {
            let mut damaged = copy.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(opened(&damaged, &data).is_err(), "bit {bit}");
        }
        for bit in (0..len * 8).step_by(997) {
            let mut damaged = copy.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let at = bit as u64 / 8;
            assert!(sums.read(&store_with(ID, &damaged), ID, at, &mut [0]).is_err(), "bit {bit}");
        }
        for cut in 0..copy.len() - len {
            assert!(opened(&copy[..copy.len() - 1 - cut], &data).is_err(), "cut by {cut}");
        }
    }

    #[test]
    fn the_copy_of_something_else_is_told() {
        let data = container();
        let copy = copy_of(&data);
        let fast = |id| store_with(id, &copy);
        let slow = |bytes: &[u8]| store_with(ID, bytes);
        assert!(open(&fast(ID), &slow(&data), ID, &[8; 16]).is_err(), "another owner");
        let other = ContainerId::new(4);
        assert!(open(&fast(other), &store_with(other, &data), other, &OWNER).is_err(), "number");
        let longer = [&data[..], &[0; 4096]].concat();
        assert!(open(&fast(ID), &slow(&longer), ID, &OWNER).is_err(), "the container grew");
        assert!(open(&fast(ID), &slow(&data[..8192]), ID, &OWNER).is_err(), "it became shorter");
        let mut changed = data.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(open(&fast(ID), &slow(&changed), ID, &OWNER).is_err(), "its end is another");
    }
}
