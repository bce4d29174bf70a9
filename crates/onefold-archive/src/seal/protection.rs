//! What opens an encrypted archive: a random master key, wrapped by a passphrase or a key file.
//! Room: onefold-archive.
//! Argon2id (RFC 9106) turns a passphrase into the wrapping key; a key file, which is random
//! already, is hashed. The wrap is XChaCha20-Poly1305 over the master key, and authenticates the
//! archive's settings. Each wrapping key comes from a salt of its own and wraps once.

use std::fmt;

use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::{AeadInOut as _, KeyInit as _, Tag, XChaCha20Poly1305, XNonce};
use onefold_block::bytes::{Reader, Writer};

use super::pages::PageKeys;
use crate::error::ArchiveError;

/// Bytes of the wrapped master key: the key and its tag.
const WRAPPED_BYTES: usize = 48;
/// Bytes of a protection on disk.
pub const PROTECTION_BYTES: usize = 1 + 12 + 16 + WRAPPED_BYTES;
/// Fewest and most bytes of a key file: no fewer than the key that it wraps.
pub const KEY_FILE_BYTES: std::ops::RangeInclusive<usize> = 32..=1 << 20;

const KEY_FILE_CONTEXT: &str = "onefold archive 2026-11 wrapping key from a key file";
const NAMES_CONTEXT: &str = "onefold archive 2026-11 chunk names";

/// What opens an archive.
pub enum Secret {
    /// What somebody knows.
    Passphrase(Vec<u8>),
    /// The content of a file that is random.
    KeyFile(Vec<u8>),
}

/// The kinds of secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretKind {
    /// [`Secret::Passphrase`]
    Passphrase,
    /// [`Secret::KeyFile`]
    KeyFile,
}

impl SecretKind {
    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passphrase => "passphrase",
            Self::KeyFile => "key file",
        }
    }
}

impl Secret {
    /// Which kind it is.
    pub const fn kind(&self) -> SecretKind {
        match self {
            Self::Passphrase(_) => SecretKind::Passphrase,
            Self::KeyFile(_) => SecretKind::KeyFile,
        }
    }

    /// Refuse what must not protect a new archive.
    ///
    /// # Errors
    /// [`ArchiveError::Setting`] for a key file that is too short or too long, and for an empty
    /// passphrase.
    pub fn check(&self) -> Result<(), ArchiveError> {
        match self {
            Self::KeyFile(content) if !KEY_FILE_BYTES.contains(&content.len()) => {
                let problem = format!("a key file has 32 bytes to 1 MiB, not {}", content.len());
                Err(ArchiveError::Setting(problem))
            }
            Self::Passphrase(text) if text.is_empty() => {
                Err(ArchiveError::Setting("the passphrase is empty".to_owned()))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Secret {
    // By hand, because it must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().name())
    }
}

/// What a guess at a passphrase costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argon2Cost {
    /// Memory, in KiB.
    pub memory_kib: u32,
    /// Passes over it.
    pub passes: u32,
    /// Lanes, which count even where one thread walks them all.
    pub lanes: u32,
}

impl Default for Argon2Cost {
    /// The second choice of RFC 9106 (sec. 4): 64 MiB, three passes, four lanes.
    fn default() -> Self {
        Self { memory_kib: 64 << 10, passes: 3, lanes: 4 }
    }
}

impl Argon2Cost {
    /// Most that is accepted from a disk: what asks for more than 4 GiB is damaged, or hostile.
    const MOST: Self = Self { memory_kib: 4 << 20, passes: 64, lanes: 64 };

    fn params(self) -> Option<Params> {
        let Self { memory_kib, passes, lanes } = self;
        let most = Self::MOST;
        let fits = memory_kib <= most.memory_kib && passes <= most.passes && lanes <= most.lanes;
        Params::new(memory_kib, passes, lanes, Some(32)).ok().filter(|_| fits)
    }
}

/// What a new protection is made of. Salt and master key are random.
#[derive(Debug)]
pub struct NewKey<'a> {
    /// What is going to open the archive.
    pub secret: &'a Secret,
    /// What a guess at a passphrase is to cost.
    pub cost: Argon2Cost,
    /// Random bytes that are used for nothing else.
    pub salt: [u8; 16],
    /// The key of everything in the archive.
    pub master: [u8; 32],
}

/// A wrapped master key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Protection {
    kind: SecretKind,
    cost: Argon2Cost,
    salt: [u8; 16],
    wrapped: [u8; WRAPPED_BYTES],
}

impl fmt::Debug for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Protection({}, {:?})", self.kind.name(), self.cost)
    }
}

/// The keys of an archive that was opened.
pub struct Keys {
    /// Of the pages of files.
    pub pages: PageKeys,
    /// Of the names of chunks.
    pub names: [u8; 32],
    /// What all come from: kept to be wrapped anew.
    pub master: [u8; 32],
}

impl Keys {
    /// Those that come from a master key.
    pub fn new(master: [u8; 32]) -> Self {
        let names = blake3::derive_key(NAMES_CONTEXT, &master);
        Self { pages: PageKeys::new(&master), names, master }
    }
}

impl Protection {
    /// Wrap a master key. `settings` are the bytes that only fit this archive.
    pub fn new(new: &NewKey<'_>, settings: &[u8]) -> Result<Self, ArchiveError> {
        let NewKey { secret, cost, salt, master } = new;
        secret.check()?;
        let mut wrapped = [0; WRAPPED_BYTES];
        let mut made = Self { kind: secret.kind(), cost: *cost, salt: *salt, wrapped };
        let (key, tag) = wrapped.split_at_mut(master.len());
        key.copy_from_slice(master);
        let sealed = made.wrapping_key(secret)?.encrypt_inout_detached(
            &XNonce::default(),
            &made.authenticated(settings),
            key.into(),
        );
        tag.copy_from_slice(&sealed.expect("a key is no too long message"));
        made.wrapped = wrapped;
        Ok(made)
    }

    /// What opens it.
    pub const fn kind(&self) -> SecretKind {
        self.kind
    }

    /// What a guess costs.
    pub const fn cost(&self) -> Argon2Cost {
        self.cost
    }

    /// The keys, if the secret is the right one and the settings are those that it was made for.
    pub fn unlock(&self, secret: &Secret, settings: &[u8]) -> Result<Keys, ArchiveError> {
        if secret.kind() != self.kind {
            return Err(ArchiveError::KeyNeeded { kind: self.kind });
        }
        let (mut master, mut tag) = ([0; 32], Tag::default());
        let (key, rest) = self.wrapped.split_at(master.len());
        master.copy_from_slice(key);
        tag.copy_from_slice(rest);
        self.wrapping_key(secret)?
            .decrypt_inout_detached(
                &XNonce::default(),
                &self.authenticated(settings),
                (&mut master[..]).into(),
                &tag,
            )
            .map_err(|_| ArchiveError::WrongKey { kind: self.kind })?;
        Ok(Keys::new(master))
    }

    fn authenticated(&self, settings: &[u8]) -> Vec<u8> {
        let mut out = Writer(settings.to_vec());
        self.encode_open(&mut out);
        out.0
    }

    fn wrapping_key(&self, secret: &Secret) -> Result<XChaCha20Poly1305, ArchiveError> {
        let key = match secret {
            Secret::Passphrase(text) => {
                let refused = || ArchiveError::Setting(format!("Argon2 cannot run: {self:?}"));
                let params = self.cost.params().ok_or_else(refused)?;
                let mut key = [0; 32];
                Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
                    .hash_password_into(text, &self.salt, &mut key)
                    .map_err(|_| refused())?;
                key
            }
            Secret::KeyFile(content) => {
                let mut hasher = blake3::Hasher::new_derive_key(KEY_FILE_CONTEXT);
                hasher.update(&self.salt);
                hasher.update(content);
                hasher.finalize().into()
            }
        };
        Ok(XChaCha20Poly1305::new(&key.into()))
    }

    /// What is not wrapped.
    fn encode_open(&self, out: &mut Writer) {
        out.u8(match self.kind {
            SecretKind::Passphrase => 1,
            SecretKind::KeyFile => 2,
        });
        let Argon2Cost { memory_kib, passes, lanes } = self.cost;
        for field in [memory_kib, passes, lanes] {
            out.u32(field);
        }
        out.bytes(&self.salt);
    }

    /// Its [`PROTECTION_BYTES`].
    pub fn encode(&self, out: &mut Writer) {
        self.encode_open(out);
        out.bytes(&self.wrapped);
    }

    /// The same read back; `None` if it has no meaning.
    pub fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        let kind = match reader.u8()? {
            1 => SecretKind::Passphrase,
            2 => SecretKind::KeyFile,
            _ => return None,
        };
        let cost =
            Argon2Cost { memory_kib: reader.u32()?, passes: reader.u32()?, lanes: reader.u32()? };
        cost.params()?;
        Some(Self { kind, cost, salt: reader.array()?, wrapped: reader.array()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Argon2Cost = Argon2Cost { memory_kib: 64, passes: 1, lanes: 2 };

    fn secrets() -> [Secret; 2] {
        [Secret::Passphrase(b"correct horse".to_vec()), Secret::KeyFile(vec![3; 32])]
    }

    #[test]
    fn only_the_secret_and_the_settings_that_it_was_made_with_open_it() {
        for secret in secrets() {
            let new = NewKey { secret: &secret, cost: COST, salt: [5; 16], master: [7; 32] };
            let made = Protection::new(&new, b"settings").unwrap();
            assert_eq!(made.unlock(&secret, b"settings").unwrap().master, [7; 32]);
            let wrong = [
                Secret::Passphrase(b"correct horsf".to_vec()),
                Secret::KeyFile([&[3; 31][..], &[4]].concat()),
            ];
            for other in wrong {
                let error = made.unlock(&other, b"settings").err().unwrap();
                let kinds = other.kind() == secret.kind();
                assert_eq!(matches!(error, ArchiveError::WrongKey { .. }), kinds, "{error}");
            }
            assert!(made.unlock(&secret, b"other").is_err());
            let mut out = Writer::default();
            made.encode(&mut out);
            assert_eq!(out.0.len(), PROTECTION_BYTES);
            assert!(Protection::decode(&mut Reader::new(&out.0)) == Some(made));
            // Costs are authenticated too, and none that no machine could pay is tried.
            for bit in 0..out.0.len() * 8 {
                let mut damaged = out.0.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                // What costs much is not worth the time of a test.
                let cheap = |found: &Protection| found.cost.memory_kib < 4096;
                let found = Protection::decode(&mut Reader::new(&damaged)).filter(cheap);
                if let Some(found) = found {
                    assert!(found.unlock(&secret, b"settings").is_err(), "bit {bit}");
                }
            }
        }
    }

    #[test]
    fn what_protects_nothing_is_refused() {
        for secret in [Secret::Passphrase(Vec::new()), Secret::KeyFile(vec![1; 31])] {
            let new = NewKey { secret: &secret, cost: COST, salt: [5; 16], master: [7; 32] };
            assert!(matches!(Protection::new(&new, b""), Err(ArchiveError::Setting(_))));
        }
        let greedy = Argon2Cost { memory_kib: u32::MAX, ..COST };
        assert!(greedy.params().is_none() && Argon2Cost::default().params().is_some());
    }

    #[test]
    fn key_files_and_costs_have_their_limits() {
        for (len, fits) in [(31, false), (32, true), (1 << 20, true), ((1 << 20) + 1, false)] {
            let secret = Secret::KeyFile(vec![1; len]);
            let new = NewKey { secret: &secret, cost: COST, salt: [5; 16], master: [7; 32] };
            match Protection::new(&new, b"") {
                Ok(made) => assert!(fits && made.kind() == SecretKind::KeyFile),
                Err(error) => {
                    let expected = format!("a key file has 32 bytes to 1 MiB, not {len}");
                    assert_eq!((error.to_string(), fits), (expected, false));
                }
            }
        }
        let cost = |memory_kib, passes, lanes| Argon2Cost { memory_kib, passes, lanes };
        for (cost, fits) in [
            (cost(4 << 20, 64, 64), true),
            (cost((4 << 20) + 1, 64, 64), false),
            (cost(4 << 20, 65, 64), false),
            (cost(4 << 20, 64, 65), false),
            (cost(8, 1, 1), true),
            (cost(7, 1, 1), false),
            (cost(8, 0, 1), false),
        ] {
            assert_eq!(cost.params().is_some(), fits, "{cost:?}");
            let secret = Secret::KeyFile(vec![1; 32]);
            let new = NewKey { secret: &secret, cost, salt: [5; 16], master: [7; 32] };
            let mut out = Writer::default();
            let made = Protection::new(&new, b"settings").unwrap();
            made.encode(&mut out);
            // Whatever costs so much is not even tried.
            let back = Protection::decode(&mut Reader::new(&out.0));
            assert_eq!(back, fits.then_some(made));
        }
        let Argon2Cost { memory_kib, passes, lanes } = Argon2Cost::default();
        assert_eq!((memory_kib, passes, lanes), (65_536, 3, 4));
    }

    #[test]
    fn what_is_secret_is_not_shown() {
        let secret = Secret::Passphrase(b"correct horse".to_vec());
        assert_eq!(format!("{secret:?}"), "passphrase");
        let new = NewKey { secret: &secret, cost: COST, salt: [5; 16], master: [7; 32] };
        let made = Protection::new(&new, b"").unwrap();
        let cost = "Argon2Cost { memory_kib: 64, passes: 1, lanes: 2 }";
        assert_eq!(format!("{made:?}"), format!("Protection(passphrase, {cost})"));
        assert_eq!(made.cost(), COST);
        let other = Secret::KeyFile(vec![1; 32]);
        let error = made.unlock(&other, b"").err().unwrap().to_string();
        assert_eq!(error, "the archive is encrypted: a passphrase opens it");
        let other = Secret::Passphrase(b"wrong".to_vec());
        let error = made.unlock(&other, b"").err().unwrap().to_string();
        assert_eq!(error, "the passphrase is not the one that opens this archive");
        let empty = Secret::Passphrase(Vec::new());
        let new = NewKey { secret: &empty, ..new };
        assert_eq!(Protection::new(&new, b"").unwrap_err().to_string(), "the passphrase is empty");
    }
}
