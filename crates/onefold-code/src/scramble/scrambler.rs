//! A scrambler ready to run: tables built, every page a table look-up and a few exclusive-ors.
//! Room: onefold-code.   In: address, page.   Out: the page, scrambled in place; the seed used.
//! Invariants: descramble(scramble(d, a), a) = d; for linear generators the key stream of s + t
//! is the sum of those of s and t and the one of 0.

use super::address::{PageAddress, SeedMap, SeedSource};
use super::generator::GeneratorSpec;
use super::keystream::Tables;
use super::spec::ScramblerSpec;
use crate::cpu::Kernel;
use crate::crc64::crc64;
use crate::error::CodeError;

#[derive(Debug, Clone)]
enum Generator {
    Lfsr(Tables),
    Ring(Vec<u8>),
    AddRotate { increment: u32, rotate: u32 },
}

/// A compiled [`ScramblerSpec`].
#[derive(Debug, Clone)]
pub struct Scrambler {
    generator: Generator,
    source: SeedSource,
    map: SeedMap,
    restart_bytes: usize,
    seed_bits: u32,
    linear: bool,
    kernel: Kernel,
}

impl Scrambler {
    /// Builds the tables of `spec`.
    ///
    /// # Errors
    /// As [`ScramblerSpec::check`].
    pub fn new(spec: &ScramblerSpec) -> Result<Self, CodeError> {
        spec.check()?;
        let kernel = Kernel::best();
        let generator = match spec.generator {
            GeneratorSpec::Lfsr(register) => Generator::Lfsr(Tables::new(&register)),
            GeneratorSpec::AddRotate { increment, rotate } => {
                Generator::AddRotate { increment, rotate }
            }
            GeneratorSpec::Ring { register, ring_seed, ring_bytes } => {
                let mut ring = vec![0; ring_bytes as usize];
                Tables::new(&register).xor(kernel, ring_seed, 0, &mut ring);
                Generator::Ring(ring)
            }
        };
        Ok(Self {
            generator,
            source: spec.seed_source,
            map: spec.seed_map.clone(),
            restart_bytes: spec.restart_bytes as usize,
            seed_bits: spec.generator.seed_bits(),
            linear: spec.generator.is_linear(),
            kernel,
        })
    }

    /// The same scrambler on another instruction set.
    #[must_use]
    pub fn with_kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// What the seed is made from.
    pub fn seed_source(&self) -> SeedSource {
        self.source
    }

    /// Bits of a seed.
    pub fn seed_bits(&self) -> u32 {
        self.seed_bits
    }

    /// Whether the key stream is linear in the seed, up to a constant.
    pub fn is_linear(&self) -> bool {
        self.linear
    }

    /// Seed of a page: from its address, or for self-seeded scramblers from its data.
    ///
    /// # Errors
    /// [`CodeError::AddressNotCovered`].
    pub fn seed(&self, address: &PageAddress, data: &[u8]) -> Result<u64, CodeError> {
        if let Some(value) = self.source.value(address) {
            return self.map.seed(value);
        }
        let seed = self.map.seed(crc64(data))? & super::lfsr::mask(self.seed_bits);
        Ok(seed.max(1))
    }

    /// Scrambles `page` in place and returns the seed used, which a self-seeded drive must store.
    ///
    /// # Errors
    /// [`CodeError::AddressNotCovered`].
    pub fn scramble(&self, address: &PageAddress, page: &mut [u8]) -> Result<u64, CodeError> {
        let seed = self.seed(address, page)?;
        self.apply(seed, page);
        Ok(seed)
    }

    /// Undoes [`Scrambler::scramble`]. `stored_seed`, if given, wins over the address; a shared
    /// page, for one, is descrambled with the seed of its first writer.
    ///
    /// # Errors
    /// [`CodeError::SeedNotStored`] for self-seeded pages without a seed,
    /// [`CodeError::AddressNotCovered`].
    pub fn descramble(
        &self,
        address: &PageAddress,
        stored_seed: Option<u64>,
        page: &mut [u8],
    ) -> Result<(), CodeError> {
        let seed = match (stored_seed, self.source.value(address)) {
            (Some(seed), _) => seed,
            (None, Some(value)) => self.map.seed(value)?,
            (None, None) => return Err(CodeError::SeedNotStored),
        };
        self.apply(seed, page);
        Ok(())
    }

    /// Xors the key stream of `seed` into `page`.
    pub fn apply(&self, seed: u64, page: &mut [u8]) {
        match &self.generator {
            Generator::Lfsr(tables) => tables.xor(self.kernel, seed, self.restart_bytes, page),
            Generator::Ring(ring) => {
                let segment = if self.restart_bytes == 0 { usize::MAX } else { self.restart_bytes };
                page.chunks_mut(segment).for_each(|part| xor_ring(ring, seed, part));
            }
            &Generator::AddRotate { increment, rotate } => {
                let mut word = seed as u32;
                for chunk in page.chunks_mut(4) {
                    chunk.iter_mut().zip(word.to_le_bytes()).for_each(|(b, k)| *b ^= k);
                    word = word.wrapping_add(increment).rotate_left(rotate);
                }
            }
        }
    }
}

fn xor_ring(ring: &[u8], seed: u64, mut part: &mut [u8]) {
    let mut at = (seed % ring.len() as u64) as usize;
    while !part.is_empty() {
        let run = part.len().min(ring.len() - at);
        let (now, later) = part.split_at_mut(run);
        now.iter_mut().zip(&ring[at..]).for_each(|(b, k)| *b ^= k);
        (part, at) = (later, 0);
    }
}
