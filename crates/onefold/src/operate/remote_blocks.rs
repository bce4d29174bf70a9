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
            for (number, block) in sound(&answer, chunk, wanted, &self.fingerprinter) {
                found(batch * most + number, block);
            }
        }
        Ok(())
    }
}

/// Of what a server answered, the blocks that are those asked for, each with its number.
fn sound<'a>(
    answer: &'a [u8],
    chunk: usize,
    wanted: &[Fingerprint],
    fingerprinter: &Fingerprinter,
) -> impl Iterator<Item = (usize, &'a [u8])> {
    answer.chunks(4 + chunk).filter_map(move |row| {
        let (number, block) = row.split_first_chunk()?;
        let number = u32::from_le_bytes(*number) as usize;
        let is_wanted = wanted.get(number) == Some(&fingerprinter.hash(block));
        (is_wanted && block.len() == chunk).then_some((number, block))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onefold_block::{BlockDevice as _, ByteSize};
    use onefold_content::FingerprintKind;
    use onefold_control::http::{Request, Response};
    use onefold_control::socket::Bound;
    use onefold_control::{Handler, Limits, Peer, Server};
    use onefold_pool::Pool;

    use super::super::data;
    use super::*;
    use crate::test_pool;

    /// A server of the blocks of a pool, or of nothing.
    struct Blocks(Option<Pool>);

    impl Handler for Blocks {
        fn handle(&self, request: &Request, _: Peer) -> Response {
            assert_eq!(request.path, "/api/v1/blocks");
            match &self.0 {
                Some(pool) => data::blocks(pool, request),
                None => Response::error(500, "not now"),
            }
        }
    }

    #[test]
    fn blocks_are_found_behind_a_server_by_their_number_among_all_that_are_wanted() {
        let pool = test_pool::pool();
        let volume = pool.create_volume("main", ByteSize(1 << 20)).unwrap();
        let block = onefold_block::SplitMix64::new(1).bytes(4096);
        volume.write_at(0, &block, true).unwrap();
        let at = tempfile::tempdir().unwrap();
        let serve = |blocks| {
            let bound = Bound::new(at.path()).unwrap();
            Server::on_socket(bound, Arc::new(Blocks(blocks)), Limits::default()).unwrap()
        };
        let server = serve(Some(pool.clone()));
        let (naming, mut find) = RemoteBlocks::open(at.path()).unwrap();
        let named = naming.unwrap();
        let fingerprinter = Fingerprinter::with_key(named.kind, named.key);
        // More than are asked for at once; one of each of them is there.
        let most = ASKED_BYTES / 4096;
        let mut wanted = vec![fingerprinter.hash(b"unknown"); most + 2];
        for number in [3, most + 1] {
            wanted[number] = fingerprinter.hash(&block);
        }
        let mut found = Vec::new();
        find(&wanted, &mut |number, stored| found.push((number, stored == block))).unwrap();
        assert_eq!(found, [(3, true), (most + 1, true)]);
        drop(server);
        let _server = serve(None);
        let refused = RemoteBlocks::open(at.path()).err().unwrap();
        assert!(refused.message.ends_with("it answers 500"), "{}", refused.message);
    }

    #[test]
    fn what_a_server_hands_out_is_used_only_if_it_is_what_was_asked_for() {
        let fingerprinter = Fingerprinter::with_key(FingerprintKind::default(), [3; 32]);
        let (one, two, short) = ([1; 4096], [2; 4096], [3; 100]);
        let wanted = [&one[..], &two, &short].map(|block| fingerprinter.hash(block));
        let row = |number: u32, block: &[u8]| [&number.to_le_bytes()[..], block].concat();
        let answer = [
            row(1, &two),
            // Another block than the one of that number, and a number that nobody asked for.
            row(0, &two),
            row(3, &one),
            row(0, &one),
            // An answer that was cut off.
            row(2, &short),
        ]
        .concat();
        let found: Vec<_> = sound(&answer, 4096, &wanted, &fingerprinter).collect();
        assert!(found == [(1, &two[..]), (0, &one[..])]);
        assert_eq!(sound(&answer[..3], 4096, &wanted, &fingerprinter).count(), 0);
    }
}
