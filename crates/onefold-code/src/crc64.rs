//! CRC-64 with the ECMA-182 polynomial, no preset and no final complement, so it is linear.
//! Room: onefold-code.
//! Source: [ecma-182] generator 0x42F0E1EBA9EA3693, most significant bit first.
//! Invariants: crc(a xor b) = crc(a) xor crc(b) for equal lengths.
//! Cost: 8 table look-ups per 8 bytes, tables of 16 KiB.

const POLY: u64 = 0x42f0_e1eb_a9ea_3693;

/// TABLES[k][b]: the byte b followed by k zero bytes.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut t = [[0u64; 256]; 8];
    let mut b = 0;
    while b < 256 {
        let mut r = (b as u64) << 56;
        let mut i = 0;
        while i < 8 {
            r = (r << 1) ^ if r >> 63 == 1 { POLY } else { 0 };
            i += 1;
        }
        t[0][b] = r;
        b += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut b = 0;
        while b < 256 {
            let r = t[k - 1][b];
            t[k][b] = (r << 8) ^ t[0][(r >> 56) as usize];
            b += 1;
        }
        k += 1;
    }
    t
}

/// CRC-64 of `bytes`, from 0.
pub fn crc64(bytes: &[u8]) -> u64 {
    let mut chunks = bytes.chunks_exact(8);
    let mut crc = 0u64;
    for chunk in &mut chunks {
        let x = crc ^ u64::from_be_bytes(chunk.try_into().expect("chunks of 8"));
        crc = x
            .to_be_bytes()
            .iter()
            .enumerate()
            .fold(0, |sum, (i, &b)| sum ^ TABLES[7 - i][b as usize]);
    }
    for &b in chunks.remainder() {
        crc = (crc << 8) ^ TABLES[0][((crc >> 56) as u8 ^ b) as usize];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0, |crc, &b| {
            (0..8).fold(crc ^ u64::from(b) << 56, |r, _| {
                (r << 1) ^ if r >> 63 == 1 { POLY } else { 0 }
            })
        })
    }

    #[test]
    fn known_answer_and_slow_twin() {
        assert_eq!(crc64(b"123456789"), 0x6c40_df5f_0b49_7347);
        let bytes: Vec<u8> = (0..100u8).map(|i| i.wrapping_mul(73) ^ 0x5a).collect();
        for n in 0..100 {
            assert_eq!(crc64(&bytes[..n]), slow(&bytes[..n]));
        }
    }
}
