//! Laws of the compressors.
//! Room: onefold-content.
use onefold_content::{Codec, Compression, Compressor, Decompressor};

fn mix(kind: usize, len: usize) -> Vec<u8> {
    let mut s = 0x1234_5678_9abc_def1_u64 + kind as u64;
    (0..len)
        .map(|i| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            match kind {
                0 => 0,
                1 => (s >> 40) as u8,
                2 => {
                    if i % 512 < 256 {
                        (s >> 40) as u8
                    } else {
                        0
                    }
                }
                3 => ((s >> 40) % 4) as u8,
                4 => (i % 7) as u8,
                _ => ((i * i) >> 6) as u8,
            }
        })
        .collect()
}

#[test]
fn what_is_compressed_comes_back() {
    let mut c = Compressor::new(Compression::Lz4);
    let mut d = Decompressor::new();
    for kind in 0..6 {
        for len in (0..300).chain([512, 1000, 4096, 8192, 65535, 65536, 65537, 131_072, 200_000]) {
            let data = mix(kind, len);
            let mut out = vec![9];
            let codec = c.compress_into(&data, &mut out, len + len / 255 + 16);
            if len == 0 {
                assert_eq!(codec, Codec::Raw);
                continue;
            }
            assert_eq!(codec, Codec::Lz4);
            let mut back = vec![1; len];
            d.decompress_into(codec, &out[1..], &mut back).expect("own encoding");
            assert!(back == data);
        }
    }
}
