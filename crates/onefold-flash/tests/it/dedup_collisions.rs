//! Pages made to have the same fingerprint, as an enemy would make them, with real bytes.
//! Room: onefold-flash.
//! Source: the SHA-1 pair is the one published in [sha1-17], appendix; the others are solved for
//! here, because CRC and parity are affine.

use onefold_code::{ParityFingerprint, Truncation};
use onefold_flash::dedup::{AnyPolicy, Bytes, Fingerprinting, POLICIES};
use onefold_flash::nand::bytes::PageBytes;
use onefold_flash::nand::{ByteNand, WearModel};
use onefold_flash::spec::DriveSpec;
use onefold_flash::{Ftl, FtlSettings, Geometry};

use crate::validation::kinds::untimed;

const PAGE: usize = 2048;

/// What both files of the SHA-1 pair begin with.
const PREFIX: &str = "\
    255044462d312e330a25e2e3cfd30a0a0a312030206f626a0a3c3c2f57696474682032203020522f48656967\
    68742033203020522f547970652034203020522f537562747970652035203020522f46696c74657220362030\
    20522f436f6c6f7253706163652037203020522f4c656e6774682038203020522f42697473506572436f6d70\
    6f6e656e7420383e3e0a73747265616d0affd8fffe00245348412d3120697320646561642121212121852fec\
    092339759c39b1a1c63c4c97e1fffe01";

/// How they go on: two blocks each.
const BLOCKS: [&str; 2] = [
    "7346dc9166b67e118f029ab621b2560ff9ca67cca8c7f85ba84c79030c2b3de218f86db3a90901d5df45c14f26fe\
    dfb3dc38e96ac22fe7bd728f0e45bce046d23c570feb141398bb552ef5a0a82be331fea48037b8b5d71f0e332edf93\
    ac3500eb4ddc0decc1a864790c782c76215660dd309791d06bd0af3f98cda4bc4629b1",
    "7f46dc93a6b67e013b029aaa1db2560b45ca67d688c7f84b8c4c791fe02b3df614f86db1690901c56b45c1530afe\
    dfb76038e972722fe7ad728f0e4904e046c230570fe9d41398abe12ef5bc942be33542a4802d98b5d70f2a332ec37f\
    ac3514e74ddc0f2cc1a874cd0c78305a21566461309789606bd0bf3f98cda8044629a1",
];

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).expect("hex") as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn sha1_pair() -> [PageBytes; 2] {
    BLOCKS.map(|blocks| {
        let mut page = unhex(&format!("{PREFIX}{blocks}"));
        page.resize(PAGE, 0x5a);
        PageBytes::from(page)
    })
}

/// Two pages with one fingerprint of 64 bits or fewer that is affine in the page's bits.
fn affine_pair(fingerprint: &mut dyn FnMut(&PageBytes) -> u64) -> [PageBytes; 2] {
    let zeros = vec![0; PAGE];
    let constant = fingerprint(&PageBytes::from(zeros.clone()));
    // Reduced differences, each with the bits of the page that make it.
    let mut basis: Vec<(u64, u128)> = Vec::new();
    for bit in 0..65 {
        let mut page = zeros.clone();
        page[bit * 31] = 1;
        let mut word = fingerprint(&PageBytes::from(page)) ^ constant;
        let mut bits = 1u128 << bit;
        for &(other, made_of) in &basis {
            if word ^ other < word {
                (word, bits) = (word ^ other, bits ^ made_of);
            }
        }
        if word == 0 {
            let mut twin = zeros.clone();
            (0..65).filter(|&at| bits >> at & 1 == 1).for_each(|at| twin[at * 31] = 1);
            return [PageBytes::from(zeros), PageBytes::from(twin)];
        }
        basis.push((word, bits));
        basis.sort_unstable_by(|a, b| b.cmp(a));
    }
    unreachable!("65 words of 64 bits depend on one another")
}

fn spec(policy: &str, options: &str) -> DriveSpec {
    let mut spec = DriveSpec::preset("ses-slc").expect("a preset");
    spec.geometry = Geometry {
        channels: 1,
        packages: 1,
        dies_per_package: 1,
        planes_per_die: 2,
        blocks_per_plane: 16,
        pages_per_block: 16,
        page_bytes: PAGE as u32,
        oob_bytes: 128,
    };
    policy.clone_into(&mut spec.dedup.policy);
    spec.dedup.options = options.parse().expect("TOML");
    if policy == "codeword" {
        // Real bytes are mapped by page.
        let page = toml::Value::Integer(PAGE as i64);
        spec.dedup.options.insert("codeword_bytes".to_owned(), page);
    }
    spec
}

/// Fingerprints of bytes as the drive makes them.
fn fingerprints(truncation: Truncation) -> Bytes {
    let channel = spec("none", "").channel().expect("a preset");
    let code = onefold_flash::nand::bytes::page_code(&channel.code).expect("a code");
    let scrambler = channel.scrambler.expect("a scrambler").compile().expect("compiles");
    Bytes::new(ParityFingerprint::new(code, scrambler, PAGE, truncation).expect("two codewords"))
}

/// Writes both pages over and over, in both orders; what reads back is what was written.
/// Returns how many comparisons found pages different.
fn ordeal(policy: &str, options: &str, pair: &[PageBytes; 2]) -> u64 {
    let spec = spec(policy, options);
    let channel = spec.channel().expect("a preset");
    let nand = ByteNand::in_memory(spec.geometry, &channel, WearModel::none()).expect("fits");
    let policy: AnyPolicy<Bytes> = spec.bytes_policy().expect("known");
    let settings = FtlSettings { logical_pages: 200, ..FtlSettings::default() };
    let mut ftl = Ftl::format(nand, policy, settings).expect("fits");
    for round in 0..4_u32 {
        let which = |lpn: u32| pair[((lpn / 2 + lpn + round) % 2) as usize].clone();
        for lpn in 0..24 {
            ftl.write(lpn, &which(lpn), &mut untimed()).expect("written");
            if round % 2 == 1 && lpn % 5 == 0 {
                while ftl.deduplicate_step(&mut untimed()).expect("done") {}
            }
        }
        while ftl.deduplicate_step(&mut untimed()).expect("done") {}
        ftl.check_invariants();
        for lpn in 0..24 {
            let read = ftl.read(lpn, &mut untimed()).expect("readable");
            assert!(read.as_ref() == Some(&which(lpn)), "{}: {lpn}", spec.dedup.policy);
        }
    }
    ftl.counters().compared_different
}

#[test]
fn pages_that_were_made_to_collide_are_kept_apart() {
    let mut pairs: Vec<(&str, &str, [PageBytes; 2])> = vec![("sha1", "hash", sha1_pair())];
    let mut light = fingerprints(Truncation::Crc64);
    pairs.push(("crc32", "", affine_pair(&mut |page| u64::from(light.light(page)))));
    for (truncation, name) in Truncation::ALL {
        let mut parity = fingerprints(truncation);
        pairs.push((name, "truncation", affine_pair(&mut |page| parity.plain_parity(page))));
    }
    for info in POLICIES {
        let mut met = 0;
        for (name, key, pair) in &pairs {
            assert_ne!(pair[0], pair[1]);
            let set = info.options.iter().any(|option| option.key == *key);
            let options = if set { format!("{key} = '{name}'") } else { String::new() };
            met += ordeal(info.name, &options, pair);
        }
        let blind = ["none"].contains(&info.name);
        assert_eq!(met > 0, !blind, "{}: a collision was met", info.name);
    }
}

#[test]
fn the_pairs_do_collide() {
    let [a, b] = sha1_pair();
    let mut sha1 = fingerprints(Truncation::Crc64);
    let strong = onefold_content::FingerprintKind::Sha1;
    Fingerprinting::<PageBytes>::configure(&mut sha1, Truncation::Crc64, strong);
    assert_eq!(sha1.strong(&a), sha1.strong(&b));
    let [a, b] = affine_pair(&mut |page| u64::from(sha1.light(page)));
    assert_eq!(sha1.light(&a), sha1.light(&b));
    for (truncation, name) in Truncation::ALL {
        let mut parity = fingerprints(truncation);
        let [a, b] = affine_pair(&mut |page| parity.plain_parity(page));
        assert_eq!(parity.plain_parity(&a), parity.plain_parity(&b), "{name}");
        assert_eq!(parity.parity(7, &a), parity.parity(8, &b), "{name}, through the scrambler");
    }
}
