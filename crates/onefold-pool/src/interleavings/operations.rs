//! The operations that are run beside each other, and what each does to a volume.
//! Room: onefold-pool.

use onefold_block::{BlockDevice, BlockError, ByteSize, ChunkSize, SimFolder};
use onefold_block::{Folder, SplitMix64, interleave::PointFolder};
use onefold_content::Compression;

use crate::{Budgets, OpenOptions, Pool, PoolIdentity, PoolSettings, Volume};

pub const CHUNK: usize = 64 << 10;
const BLOCKS: u64 = 12;
/// Where what is deleted, trimmed, completed and overwritten meets.
const BUSY: u64 = 3;

/// What a pool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A chunk that a container holds which nothing else refers to.
    WriteDuplicate,
    /// Two chunks: one fills the open container, and the other begins the next.
    WriteUnique,
    /// Part of a chunk.
    WritePiece,
    Trim,
    Read,
    Flush,
    /// A flush and, because a container is dead and nobody writes, a checkpoint.
    Maintain,
    Checkpoint,
    /// Of everything in both volumes, and a checkpoint: all sealed containers go.
    TrimAll,
    /// Of a second volume.
    DeleteVolume,
    /// Into the second volume.
    WriteToDeleted,
    /// More memory for the index, which is filled again in part; less; and more once again.
    ResizeIndex,
}

impl Operation {
    pub const ALL: [Self; 12] = [
        Self::WriteDuplicate,
        Self::WriteUnique,
        Self::WritePiece,
        Self::Trim,
        Self::Read,
        Self::Flush,
        Self::Maintain,
        Self::Checkpoint,
        Self::TrimAll,
        Self::DeleteVolume,
        Self::WriteToDeleted,
        Self::ResizeIndex,
    ];
}

/// A chunk of bytes that depend on `seed` alone.
pub fn chunk(seed: u64) -> Vec<u8> {
    SplitMix64::new(seed).bytes(CHUNK)
}

/// What the chunks of the volume hold: seeds (0 for zeroes), and pieces laid over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    seed: u64,
    pieces: [bool; 2],
}

impl Block {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = if self.seed == 0 { vec![0; CHUNK] } else { chunk(self.seed) };
        for (role, _) in self.pieces.iter().enumerate().filter(|(_, laid)| **laid) {
            bytes[piece_at(role)..piece_at(role) + PIECE].fill(PIECE_BYTE);
        }
        bytes
    }
}

/// Memory for which the index begins with a new table.
pub const LARGE_INDEX: u64 = 64 << 20;
const PIECE: usize = 512;
const PIECE_BYTE: u8 = 0xA5;

const fn piece_at(role: usize) -> usize {
    1000 + role * 4000
}

pub type State = Vec<Block>;

/// A pool with a dead container, an open one that one more chunk fills, and two volumes.
pub struct Stage {
    pub sim: SimFolder,
    pub pool: Pool,
    pub volume: Volume,
    pub second: Volume,
    pub state: State,
}

fn options() -> OpenOptions {
    let budgets = Budgets { index_bytes: 1 << 20, map_bytes: 1 << 20, cache_bytes: 0 };
    OpenOptions { read_only: false, budgets }
}

impl Stage {
    /// With directories in memory as their containers left them, or none of them.
    pub fn new(cold: bool) -> Self {
        let sim = SimFolder::new();
        let folder = PointFolder::new(std::sync::Arc::new(sim.clone()));
        let settings = PoolSettings {
            chunk_size: ChunkSize::new(ByteSize(CHUNK as u64)).unwrap(),
            compression: Compression::None,
            container_bytes: 256 << 10,
            ..PoolSettings::default()
        };
        Pool::create(&folder, &settings, PoolIdentity { uuid: [3; 16], key: [5; 32] }).unwrap();
        let pool = Pool::open(&folder, &options()).unwrap();
        let volume = pool.create_volume("main", ByteSize(BLOCKS * CHUNK as u64)).unwrap();
        let second = pool.create_volume("second", ByteSize(BLOCKS * CHUNK as u64)).unwrap();
        let mut state = vec![Block { seed: 0, pieces: [false; 2] }; BLOCKS as usize];
        // Three fill a container, and die.
        for number in 0..3 {
            write(&volume, number, &[1 + number]).unwrap();
        }
        if cold {
            // A duplicate of each: the next look at the container reads all of its directory.
            volume.flush().unwrap();
        }
        write(&volume, BUSY, &[4]).unwrap();
        state[BUSY as usize].seed = 4;
        write(&second, 0, &[30]).unwrap();
        volume.flush().unwrap();
        if cold {
            let dead = pool.inner.directories.held();
            for id in dead {
                pool.inner.directories.remove(id);
            }
            for lone in [2, 3] {
                write(&volume, 10, &[lone]).unwrap();
            }
            volume.trim(10 * CHUNK as u64, CHUNK as u64, false).unwrap();
            let held = pool.inner.directories.held();
            for id in held {
                pool.inner.directories.remove(id);
            }
        }
        volume.trim(0, 3 * CHUNK as u64, false).unwrap();
        Self { sim, pool, volume, second, state }
    }

    /// Open the pool as `sim` has it, with its first volume.
    pub fn reopened(sim: &SimFolder) -> (Pool, Volume) {
        Self::reopened_in(sim)
    }

    /// The same, in a folder over it.
    pub fn reopened_in(folder: &dyn Folder) -> (Pool, Volume) {
        let pool = Pool::open(folder, &options()).unwrap();
        let volume = pool.volume("main").unwrap();
        (pool, volume)
    }

    /// Do `operation` as the first or the second of two. A read answers with what it found.
    pub fn perform(
        &self,
        operation: Operation,
        role: usize,
    ) -> Result<Option<Vec<u8>>, BlockError> {
        let at = |block: u64| block * CHUNK as u64;
        match operation {
            Operation::WriteDuplicate => write(&self.volume, 6, &[1])?,
            Operation::WriteUnique => write(&self.volume, BUSY, &unique(role))?,
            Operation::WritePiece => {
                let offset = at(BUSY) + piece_at(role) as u64;
                self.volume.write_at(offset, &[PIECE_BYTE; PIECE], false)?;
            }
            Operation::Trim => self.volume.trim(at(BUSY), at(2), false)?,
            Operation::Read => {
                let mut found = vec![0; CHUNK];
                self.volume.read_at(at(BUSY), &mut found)?;
                return Ok(Some(found));
            }
            Operation::Flush => self.volume.flush()?,
            Operation::Maintain => {
                self.pool.maintain()?;
                self.pool.maintain()?;
            }
            Operation::Checkpoint => self.pool.checkpoint()?,
            Operation::TrimAll => {
                self.volume.trim(0, at(BLOCKS), false)?;
                match self.second.trim(0, at(BLOCKS), false) {
                    Err(BlockError::ShuttingDown) => {}
                    done => done?,
                }
                self.pool.checkpoint()?;
            }
            Operation::DeleteVolume => match self.pool.delete_volume("second") {
                // The other one did it.
                Err(crate::PoolError::NoVolume { .. }) => {}
                done => done?,
            },
            Operation::WriteToDeleted => match write(&self.second, 1, &[31]) {
                Err(BlockError::ShuttingDown) => {}
                done => done?,
            },
            Operation::ResizeIndex => {
                for bytes in [LARGE_INDEX, 1 << 20, LARGE_INDEX] {
                    self.pool.set_index_memory(bytes)?;
                    self.pool.fill_index(1);
                }
                while !self.pool.fill_index(1) {}
            }
        }
        Ok(None)
    }

    /// The index knows whatever the first volume holds: to write it again stores nothing.
    pub fn assert_knows_all(&self, context: &str) {
        let status = || self.pool.status().unwrap_or_else(|error| panic!("{context}: {error}"));
        let before = status();
        assert_eq!(before.index_containers_left, 0, "{context}");
        assert_eq!(before.index_memory_max_bytes, LARGE_INDEX, "{context}");
        let held = Self::read_all(&self.volume);
        self.volume.write_at(0, &held.concat(), true).unwrap_or_else(|e| panic!("{context}: {e}"));
        let stored = status().stored_chunks - before.stored_chunks;
        assert_eq!(stored, 0, "{context}: the index does not know all");
    }

    /// What all blocks of the first volume hold.
    pub fn read_all(volume: &Volume) -> Vec<Vec<u8>> {
        let mut found = vec![0; BLOCKS as usize * CHUNK];
        volume.read_at(0, &mut found).unwrap();
        found.chunks(CHUNK).map(<[u8]>::to_vec).collect()
    }
}

fn unique(role: usize) -> [u64; 2] {
    [100 + role as u64, 200 + role as u64]
}

fn write(volume: &Volume, block: u64, seeds: &[u64]) -> Result<(), BlockError> {
    let data: Vec<u8> = seeds.iter().map(|&seed| chunk(seed)).collect::<Vec<_>>().concat();
    volume.write_at(block * CHUNK as u64, &data, false)
}

/// What the operation makes of a state.
pub fn after(state: &State, operation: Operation, role: usize) -> State {
    let mut state = state.clone();
    let busy = BUSY as usize;
    let mut set = |block: usize, seed| state[block] = Block { seed, pieces: [false; 2] };
    match operation {
        Operation::WriteDuplicate => set(6, 1),
        Operation::WriteUnique => {
            let [a, b] = unique(role);
            set(busy, a);
            set(busy + 1, b);
        }
        Operation::WritePiece => state[busy].pieces[role] = true,
        Operation::Trim => {
            set(busy, 0);
            set(busy + 1, 0);
        }
        Operation::TrimAll => {
            for block in 0..BLOCKS as usize {
                set(block, 0);
            }
        }
        _ => {}
    }
    state
}
