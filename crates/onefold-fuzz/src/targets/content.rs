//! Any bytes as a compressed chunk; and any chunk compressed and back.
//! Room: onefold-fuzz.

use onefold_content::{Codec, Compression, Compressor, Decompressor};

pub fn decompress(data: &[u8]) {
    let mut decompressor = Decompressor::new();
    for codec in [Codec::Raw, Codec::Lz4, Codec::Zstd] {
        let _ = decompressor.decompress_into(codec, data, &mut [0; 4096]);
    }
    for compression in [Compression::Lz4, Compression::Zstd(1)] {
        let mut stored = Vec::new();
        let codec = Compressor::new(compression).compress_into(data, &mut stored, data.len());
        if codec != Codec::Raw {
            let mut back = vec![0; data.len()];
            decompressor.decompress_into(codec, &stored, &mut back).expect("it was just made");
            assert_eq!(back, data);
        }
    }
}
