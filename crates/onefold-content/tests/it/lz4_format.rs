//! A slow, strict reader of the LZ4 block format: the twin that our encoder is held against.
//! Room: onefold-content.

/// What is left of a block.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> u8 {
        let (&byte, rest) = self.0.split_first().expect("the block goes on");
        self.0 = rest;
        byte
    }

    /// A length that starts in a nibble and goes on in bytes.
    fn length(&mut self, nibble: u8) -> usize {
        let mut total = usize::from(nibble);
        let mut more = nibble == 15;
        while more {
            let byte = self.byte();
            total += usize::from(byte);
            more = byte == 255;
        }
        total
    }
}

/// Decodes a block and checks the rules that bind encoders, which decoders need not notice: the
/// last 5 bytes are literals, and no match starts within the last 12.
///
/// # Panics
/// If the block breaks a rule of the format.
pub fn decode_strictly(block: &[u8]) -> Vec<u8> {
    let mut reader = Reader(block);
    let mut out: Vec<u8> = Vec::new();
    let mut last_match = None;
    loop {
        let token = reader.byte();
        let literals = reader.length(token >> 4);
        out.extend((0..literals).map(|_| reader.byte()));
        if reader.0.is_empty() {
            assert_eq!(token & 15, 0, "the last token announces no match");
            break;
        }
        let distance = usize::from(u16::from_le_bytes([reader.byte(), reader.byte()]));
        assert!(distance > 0 && distance <= out.len(), "distance {distance} at {}", out.len());
        let matched = reader.length(token & 15) + 4;
        last_match = Some((out.len(), out.len() + matched));
        for _ in 0..matched {
            out.push(out[out.len() - distance]);
        }
    }
    if let Some((start, end)) = last_match {
        assert!(start + 12 <= out.len(), "a match at {start} of {}", out.len());
        assert!(end + 5 <= out.len(), "a match up to {end} of {}", out.len());
    }
    out
}
