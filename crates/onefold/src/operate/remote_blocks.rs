//! Stored blocks of a pool that a server has, by their fingerprints.
//! Room: onefold.
//! What the server hands out is hashed again here before anybody may use it.

use std::io;
use std::path::Path;

use onefold_block::ChunkSize;
use onefold_content::{Fingerprint, Fingerprinter};
use onefold_control::{Client, ClientError, Method, PREFIX};
use onefold_pool::stream::{Find, Naming};

use crate::failure::{Failure, Result};

/// Blocks that are asked for at once, in bytes.
const ASKED_BYTES: usize = 16 << 20;

/// The blocks behind a server.
pub struct RemoteBlocks {
    client: Client,
    fingerprinter: Fingerprinter,
    chunk_size: ChunkSize,
}

fn ask(client: &mut Client, method: Method, body: &[u8]) -> io::Result<Vec<u8>> {
    let answer = client.ask(method, &format!("{PREFIX}blocks"), body);
    match answer.map_err(|error| match error {
        ClientError::Io(error) => error,
        error @ ClientError::Nonsense(_) => io::Error::other(error),
    })? {
        answer if answer.status == 200 => Ok(answer.body),
        answer => Err(io::Error::other(format!("it answers {}", answer.status))),
    }
}

impl RemoteBlocks {
    /// How the pool of a server names blocks, and what finds them.
    pub fn open(at: &Path) -> Result<(Option<Naming>, Find)> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::bad(format!("cannot ask the server of '{}': {error}", at.display()))
        };
        let client = Client::connect(at).map_err(|error| failed(&error))?;
        let mut client = client.ok_or_else(|| failed(&"it is gone"))?;
        let hello = ask(&mut client, Method::Get, &[]).map_err(|error| failed(&error))?;
        let naming = Naming::read_hello(hello.as_slice()).map_err(|error| failed(&error))?;
        let Some(named) = naming.clone() else { return Ok((None, Box::new(|_, _| Ok(())))) };
        let fingerprinter = Fingerprinter::with_key(named.kind, named.key);
        let mut blocks = Self { client, fingerprinter, chunk_size: named.chunk_size };
        Ok((naming, Box::new(move |wanted, found| blocks.find(wanted, found))))
    }

    fn find(
        &mut self,
        wanted: &[Fingerprint],
        found: &mut dyn FnMut(usize, &[u8]),
    ) -> io::Result<()> {
        let chunk = self.chunk_size.bytes();
        let most = (ASKED_BYTES / chunk).max(1);
        for (batch, wanted) in wanted.chunks(most).enumerate() {
            let body: Vec<u8> = wanted.iter().flat_map(|name| *name.as_bytes()).collect();
            let answer = ask(&mut self.client, Method::Post, &body)?;
            for row in answer.chunks(4 + chunk) {
                let Some((number, block)) = row.split_first_chunk() else { continue };
                let number = u32::from_le_bytes(*number) as usize;
                let is_wanted = wanted.get(number) == Some(&self.fingerprinter.hash(block));
                if is_wanted && block.len() == chunk {
                    found(batch * most + number, block);
                }
            }
        }
        Ok(())
    }
}
