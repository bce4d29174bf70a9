//! A handle of a file: its bytes are changed in memory, and read from wherever they are.
//! Room: onefold-objects.

use std::sync::Arc;

use onefold_block::{Media, MediaError};

use crate::node::{AHEAD_BYTES, Content, MEMORY_BYTES_MAX, Node};

/// A handle of a file.
pub struct ObjectMedia(pub Arc<Node>);

impl ObjectMedia {
    /// Change bytes from `from` on, which are in memory for that. `act` gets them with the place in
    /// the file where they begin.
    fn change(
        &self,
        from: u64,
        end: u64,
        action: &'static str,
        act: impl FnOnce(&mut Vec<u8>, u64),
    ) -> Result<(), MediaError> {
        let sent = {
            let mut state = self.0.state();
            if let Content::InStore(_) = state.content {
                self.0.bring_here(&mut state)?;
            }
            let begin = match &state.content {
                Content::Sending(upload, _) => upload.bytes(),
                _ => 0,
            };
            if from < begin {
                return Err(self.0.is_sent(&state, action));
            }
            let most = self.0.most_bytes(&state);
            if end > most || end - begin > MEMORY_BYTES_MAX {
                let most = most.min(begin.saturating_add(MEMORY_BYTES_MAX));
                return Err(self.0.too_large(&state, action, most));
            }
            if let Content::Here(bytes) | Content::Sending(_, bytes) = &mut state.content {
                act(bytes, begin);
            }
            state.is_changed = true;
            self.0.send(&mut state)
        };
        self.0.shared.settle(&self.0);
        sent
    }

    fn put_now(&self) -> Result<(), MediaError> {
        let put = self.0.put(&mut self.0.state());
        self.0.shared.settle(&self.0);
        put
    }
}

impl Media for ObjectMedia {
    fn len(&self) -> Result<u64, MediaError> {
        Ok(self.0.state().len())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let wanted = buf.len() as u64;
        let stored = {
            let state = self.0.state();
            if offset.checked_add(wanted).is_none_or(|end| end > state.len()) {
                return Err(self.0.truncated(&state, offset, wanted));
            }
            match &state.content {
                Content::Here(bytes) => {
                    buf.copy_from_slice(&bytes[offset as usize..][..buf.len()]);
                    return Ok(());
                }
                Content::Sending(upload, rest) => {
                    let Some(from) = offset.checked_sub(upload.bytes()) else {
                        return Err(self.0.is_sent(&state, "read"));
                    };
                    buf.copy_from_slice(&rest[from as usize..][..buf.len()]);
                    return Ok(());
                }
                Content::InStore(stored) => stored.clone(),
            }
        };
        if buf.is_empty() || self.0.shared.blocks.copy(self.0.id, offset, buf) {
            return Ok(());
        }
        let fetched = self.0.read_stored(stored, offset, wanted);
        let state = self.0.state();
        let (start, bytes) =
            fetched.map_err(|e| self.0.shared.error(e, "read", &state.last_name))?;
        let from = (offset - start) as usize;
        let Some(found) = bytes.get(from..from + buf.len()) else {
            return Err(self.0.truncated(&state, offset, wanted));
        };
        buf.copy_from_slice(found);
        let is_tail = start + bytes.len() as u64 == state.len();
        drop(state);
        if (bytes.len() as u64) <= AHEAD_BYTES {
            self.0.shared.blocks.keep(self.0.id, is_tail, (start, bytes));
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), MediaError> {
        if data.is_empty() {
            return Ok(());
        }
        let end = offset.saturating_add(data.len() as u64);
        self.change(offset, end, "write", |bytes, begin| {
            let (start, end) = ((offset - begin) as usize, (end - begin) as usize);
            bytes.resize(bytes.len().max(end), 0);
            bytes[start..end].copy_from_slice(data);
        })
    }

    fn set_len(&self, len: u64) -> Result<(), MediaError> {
        let is_complete = {
            let state = self.0.state();
            state.len() == len && state.is_unnamed && state.is_changed
        };
        // Whoever says how long a new file is has written all of it: it waits in memory no longer.
        if is_complete {
            return self.put_now();
        }
        self.change(len, len, "set the length of", |bytes, begin| {
            bytes.resize((len - begin) as usize, 0);
        })
    }

    fn sync(&self) -> Result<(), MediaError> {
        let state = self.0.state();
        // A file without a durable name is put with its name.
        if !state.is_changed || state.is_unnamed {
            return Ok(());
        }
        drop(state);
        self.put_now()
    }

    fn tag(&self) -> Option<String> {
        match &self.0.state().content {
            Content::InStore(stored) if !stored.tag.is_empty() => Some(stored.tag.clone()),
            _ => None,
        }
    }
}
