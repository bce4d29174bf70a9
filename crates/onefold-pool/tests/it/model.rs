//! A volume's contents as a plain vector, with every state that a crash may leave.

use onefold_block::{BlockDevice, ByteSize, SplitMix64, ZeroOptions};
use onefold_pool::{Pool, PoolError, SpaceTarget, Thoroughness};

use crate::support::content;

pub const CHUNK: usize = 4096;

/// The states of one chunk since it was last durable, oldest first.
type History = Vec<Vec<u8>>;

/// What a volume must hold.
#[derive(Clone)]
pub struct Model {
    pub blocks: Vec<History>,
}

impl Model {
    pub fn new(blocks: usize) -> Self {
        Self { blocks: vec![vec![vec![0; CHUNK]]; blocks] }
    }

    pub fn size(&self) -> u64 {
        (self.blocks.len() * CHUNK) as u64
    }

    /// Change a byte range.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let (mut at, mut rest) = (offset as usize, data);
        while !rest.is_empty() {
            let within = at % CHUNK;
            let len = rest.len().min(CHUNK - within);
            let history = &mut self.blocks[at / CHUNK];
            let mut state = history.last().unwrap().clone();
            state[within..within + len].copy_from_slice(&rest[..len]);
            history.push(state);
            rest = &rest[len..];
            at += len;
        }
    }

    /// Everything so far is durable.
    pub fn settle(&mut self) {
        for history in &mut self.blocks {
            history.drain(..history.len() - 1);
        }
    }

    /// All bytes of the device.
    fn read_all(&self, device: &dyn BlockDevice) -> Vec<u8> {
        let mut found = vec![0; self.blocks.len() * CHUNK];
        device.read_at(0, &mut found).unwrap();
        found
    }

    /// The device holds the newest state.
    pub fn assert_current(&self, device: &dyn BlockDevice, context: &str) {
        let found = self.read_all(device);
        for (number, (history, found)) in self.blocks.iter().zip(found.chunks(CHUNK)).enumerate() {
            assert!(found == history.last().unwrap(), "{context}: block {number} differs");
        }
    }

    /// The device holds one of the states of each block, which is its newest one from now on. None
    /// of them is more durable for that.
    pub fn hold(&mut self, device: &dyn BlockDevice, context: &str) {
        let found = self.read_all(device);
        self.clone().adopt(device, context);
        self.write(0, &found);
    }

    /// The device holds one of the states of each block; from now on only that one counts.
    pub fn adopt(&mut self, device: &dyn BlockDevice, context: &str) {
        let found = self.read_all(device);
        let blocks = self.blocks.iter_mut().zip(found.chunks(CHUNK));
        for (number, (history, found)) in blocks.enumerate() {
            assert!(
                history.iter().any(|state| state == found),
                "{context}: block {number} holds none of its {} states",
                history.len()
            );
            *history = vec![found.to_vec()];
        }
    }
}

/// One random operation on pool and model. An error is the device's: the caller knows whether it
/// had to come.
pub fn step(
    pool: &Pool,
    device: &dyn BlockDevice,
    model: &mut Model,
    random: &mut SplitMix64,
) -> Result<(), String> {
    // Few contents, so that there are duplicates.
    step_of(40, pool, device, model, random)
}

/// The same with so many contents that whole chunks are written with.
pub fn step_of(
    contents: u64,
    pool: &Pool,
    device: &dyn BlockDevice,
    model: &mut Model,
    random: &mut SplitMix64,
) -> Result<(), String> {
    let size = model.size();
    let mut range = |longest: u64, align: u64| {
        let offset = random.below(size / align) * align;
        let len = ((1 + random.below(longest)) * align).min(size - offset);
        (offset, len, random.next_u64())
    };
    match range(16, 1).2 % 17 {
        0..=6 => {
            let (offset, len, seed) = range(24, CHUNK as u64);
            let data: Vec<u8> = (0..len as usize / CHUNK)
                .map(|n| match (seed + n as u64) % contents {
                    0 => vec![0; CHUNK],
                    kind => content(kind, CHUNK),
                })
                .collect::<Vec<_>>()
                .concat();
            model.write(offset, &data);
            let fua = seed.is_multiple_of(8);
            device.write_at(offset, &data, fua).map_err(|e| e.to_string())?;
            if fua {
                model.settle();
            }
        }
        7..=8 => {
            let (offset, len, seed) = range(9000, 1);
            let data = content(seed % 50, len as usize);
            model.write(offset, &data);
            device.write_at(offset, &data, false).map_err(|e| e.to_string())?;
        }
        9 => {
            let (offset, len, _) = range(20, CHUNK as u64);
            model.write(offset, &vec![0; len as usize]);
            device.trim(offset, len, false).map_err(|e| e.to_string())?;
        }
        10 => {
            let (offset, len, seed) = range(20_000, 1);
            model.write(offset, &vec![0; len as usize]);
            let options = ZeroOptions { no_hole: seed.is_multiple_of(2), ..ZeroOptions::default() };
            device.write_zeroes(offset, len, options).map_err(|e| e.to_string())?;
        }
        11..=12 => {
            device.flush().map_err(|e| e.to_string())?;
            model.settle();
        }
        13 => {
            let (offset, len, _) = range(60_000, 1);
            let mut found = vec![0; len as usize];
            device.read_at(offset, &mut found).map_err(|e| e.to_string())?;
            let (mut at, mut left) = (offset as usize, &found[..]);
            while !left.is_empty() {
                let expected = &model.blocks[at / CHUNK].last().unwrap()[at % CHUNK..];
                let (here, next) = left.split_at(left.len().min(expected.len()));
                assert!(*here == expected[..here.len()], "{} bytes from {at} differ", here.len());
                (at, left) = (at + here.len(), next);
            }
        }
        14 => {
            pool.maintain().map_err(|e| e.to_string())?;
            model.settle();
        }
        15 => {
            // Part of a group, or all that there is to do.
            let budget = range(300_000, 1).2 % 300_000;
            let target = SpaceTarget::new(1.05).unwrap();
            pool.background(budget, target).map_err(|e| e.to_string())?;
            pool.deduplicate(budget, Thoroughness::Whole).map_err(|e| e.to_string())?;
        }
        _ => {
            pool.checkpoint().map_err(|e| e.to_string())?;
            model.settle();
        }
    }
    Ok(())
}

/// Open the volume `main`, or make it.
pub fn main_volume(pool: &Pool, blocks: usize) -> Result<onefold_pool::Volume, PoolError> {
    match pool.volume("main") {
        Err(PoolError::NoVolume { .. }) => {
            pool.create_volume("main", ByteSize((blocks * CHUNK) as u64))
        }
        other => other,
    }
}

#[test]
fn a_volume_is_a_plain_array_of_bytes() {
    use crate::support::{assert_sound, new_pool, options, small};
    for seed in 0..30 {
        let (folder, pool) = new_pool(&small());
        let mut model = Model::new(600);
        let mut random = SplitMix64::new(seed);
        let mut pool = pool;
        for round in 0..3 {
            let volume = main_volume(&pool, 600).unwrap();
            for number in 0..120 {
                step(&pool, &volume, &mut model, &mut random)
                    .unwrap_or_else(|e| panic!("seed {seed} round {round} step {number}: {e}"));
            }
            let context = format!("seed {seed} round {round}");
            model.assert_current(&volume, &context);
            drop(volume);
            pool.close().unwrap();
            assert_sound(&folder, &context);
            pool = Pool::open(&folder, &options()).unwrap();
            model.assert_current(&pool.volume("main").unwrap(), &format!("{context} reopened"));
        }
    }
}
