//! A file that is sent in parts, while it is written or at once.
//! Room: onefold-objects.
//! Invariant: nothing of it has its name before all of it is there. Parts know no conditions, so
//! the name is looked at once more right before that, and the lock keeps others away.

use crate::lease::Lease;
use crate::objects::{ObjectError, Objects, Stored};

/// Bytes of a part. All have the same size but the last, as some stores want it.
pub const PART_BYTES: usize = 16 << 20;
/// Parts of an object at most, in S3.
pub const PARTS_MAX: usize = 10_000;

/// An upload that is under way.
pub struct Upload {
    id: String,
    parts: Vec<Part>,
}

/// A part: what names it, and what tells its bytes.
#[derive(Clone)]
struct Part {
    tag: String,
    bytes: u64,
    sum: u32,
}

impl Part {
    fn of(bytes: &[u8]) -> Self {
        Self { tag: String::new(), bytes: bytes.len() as u64, sum: crc32fast::hash(bytes) }
    }
}

impl Upload {
    /// Bytes that were sent for good.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }
}

/// Who sends files in parts, as long as the lock is held.
pub struct Sender<'a> {
    pub objects: &'a dyn Objects,
    pub guard: Option<&'a Lease>,
    /// Bytes of each part.
    pub part_bytes: usize,
}

impl Sender<'_> {
    fn must_hold(&self) -> Result<(), ObjectError> {
        self.guard.map_or(Ok(()), Lease::must_hold)
    }

    /// Begin to send a file.
    pub fn begin(&self, name: &str) -> Result<Upload, ObjectError> {
        self.must_hold()?;
        let id = self.objects.begin(name)?;
        Ok(Upload { id, parts: Vec::new() })
    }

    /// Send what comes next of a file: a whole part, and not the last one.
    pub fn send(&self, name: &str, upload: &mut Upload, bytes: &[u8]) -> Result<(), ObjectError> {
        self.must_hold()?;
        let tag = self.objects.part(name, &upload.id, upload.parts.len(), bytes)?;
        upload.parts.push(Part { tag, ..Part::of(bytes) });
        Ok(())
    }

    /// Send the rest of a file, and put it under its name in the place of what was there `before`.
    /// It can be tried again, with more bytes or fewer: what is sent here is sent anew then.
    pub fn finish(
        &self,
        name: &str,
        upload: &Upload,
        rest: &[u8],
        before: Option<&Stored>,
    ) -> Result<Stored, ObjectError> {
        let mut parts = upload.parts.clone();
        parts.extend(rest.chunks(self.part_bytes).map(Part::of));
        let bytes = parts.iter().map(|part| part.bytes).sum();
        let error = match self.finish_now(name, upload, rest, before) {
            Ok(tag) => return Ok(Stored { bytes, tag }),
            Err(error) => error,
        };
        // It may be done already, by this request or by one before it whose answer was lost: then
        // what is there is what was to be put.
        let now = self.look(name).ok().flatten().filter(|now| Some(now) != before);
        let is_ours = |now: &Stored| now.bytes == bytes && self.is_made_of(name, now, &parts);
        now.filter(is_ours).ok_or(error)
    }

    fn finish_now(
        &self,
        name: &str,
        upload: &Upload,
        rest: &[u8],
        before: Option<&Stored>,
    ) -> Result<String, ObjectError> {
        let mut tags: Vec<String> = upload.parts.iter().map(|part| part.tag.clone()).collect();
        for part in rest.chunks(self.part_bytes) {
            self.must_hold()?;
            tags.push(self.objects.part(name, &upload.id, tags.len(), part)?);
        }
        // Of a store that does not name states, only lengths can be told apart.
        if self.look(name)?.as_ref() != before {
            return Err(ObjectError::Conflict);
        }
        self.must_hold()?;
        self.objects.complete(name, &upload.id, &tags)
    }

    /// The object of a name, as it is now.
    fn look(&self, name: &str) -> Result<Option<Stored>, ObjectError> {
        match self.objects.tail(name, 1) {
            Ok(found) => Ok(Some(found.stored)),
            Err(ObjectError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether an object has the bytes of these parts. All of it is read for that.
    fn is_made_of(&self, name: &str, stored: &Stored, parts: &[Part]) -> bool {
        let mut at = 0;
        parts.iter().all(|part| {
            let range = at..at + part.bytes;
            at = range.end;
            let found = self.objects.get(name, range, &stored.tag);
            found.is_ok_and(|bytes| {
                bytes.len() as u64 == part.bytes && crc32fast::hash(&bytes) == part.sum
            })
        })
    }

    /// Give up what was sent. What stays for an error is the store's to clear away.
    pub fn give_up(&self, name: &str, upload: &Upload) {
        let _ = self.objects.abort(name, &upload.id);
    }

    /// Put bytes that are all here, in parts.
    pub fn put(
        &self,
        name: &str,
        bytes: &[u8],
        before: Option<&Stored>,
    ) -> Result<Stored, ObjectError> {
        let upload = self.begin(name)?;
        let put = self.finish(name, &upload, bytes, before);
        if put.is_err() {
            self.give_up(name, &upload);
        }
        put
    }
}
