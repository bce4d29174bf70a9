//! A shared page keeps the seed of its first writer through every collection.
//! Room: onefold-flash.   Source: what [ses-dedup] is silent about.

use onefold_block::SplitMix64;
use onefold_flash::nand::bytes::PageBytes;
use onefold_flash::nand::{ByteNand, Nand as _, PageKey, WearModel};
use onefold_flash::spec::DriveSpec;
use onefold_flash::{Ftl, FtlSettings, Geometry};

use crate::validation::kinds::untimed;

const PAGE: usize = 1024;

fn spec(scrambler: &str) -> DriveSpec {
    let mut spec = DriveSpec::preset("ses-slc").expect("a preset");
    spec.geometry = Geometry {
        channels: 1,
        packages: 1,
        dies_per_package: 1,
        planes_per_die: 1,
        blocks_per_plane: 24,
        pages_per_block: 16,
        page_bytes: PAGE as u32,
        oob_bytes: 96,
    };
    scrambler.clone_into(&mut spec.media.scrambler);
    "caftl-online".clone_into(&mut spec.dedup.policy);
    spec
}

#[test]
fn whoever_reads_a_shared_page_gets_what_its_first_writer_wrote() {
    for (scrambler, moves_as_stored) in [("lba-prbs31", true), ("samsung-prbs15", false)] {
        let spec = spec(scrambler);
        let channel = spec.channel().expect("a preset");
        let wear = WearModel { fresh_rate: 1e-6, retries: 4, ..WearModel::none() };
        let nand = ByteNand::in_memory(spec.geometry, &channel, wear).expect("fits");
        let settings =
            FtlSettings { logical_pages: 200, gc_reserve_blocks: 4, ..FtlSettings::default() };
        let policy = spec.bytes_policy().expect("known");
        let mut ftl = Ftl::format(nand, policy, settings).expect("fits");
        let content = PageBytes::from(SplitMix64::new(77).bytes(PAGE));
        for lpn in [3, 9, 150] {
            ftl.write(lpn, &content, &mut untimed()).expect("written");
        }
        assert_eq!(ftl.counters().inline_pages, 2, "{scrambler}");
        // The first writer goes away; its seed stays.
        ftl.trim(3, &mut untimed()).expect("trimmed");
        let mut places = vec![ftl.locate(9).expect("stored")];
        let mut random = SplitMix64::new(5);
        for step in 0..4000 {
            let lpn = 10 + random.below(100) as u32;
            let page = PageBytes::from(SplitMix64::new(1000 + step).bytes(PAGE));
            ftl.write(lpn, &page, &mut untimed()).expect("written");
            let place = ftl.locate(9).expect("stored");
            if places.last() != Some(&place) {
                places.push(place);
                let oob = ftl.nand().read_oob(place).expect("read");
                assert!(matches!(oob.key, PageKey::Shared(_)), "{oob:?}");
                assert_eq!(oob.seed, 3, "{scrambler}: the first writer's address");
            }
            for reader in [9, 150] {
                let read = ftl.read(reader, &mut untimed()).expect("read");
                assert!(read.as_ref() == Some(&content), "{scrambler}: {reader} after {places:?}");
            }
        }
        assert!(places.len() > 3, "{scrambler}: it moved {} times", places.len() - 1);
        let health = *ftl.nand().health();
        assert_eq!(health.copies_encoded == 0, moves_as_stored, "{scrambler}: {health:?}");
        assert_eq!(health.copies_as_stored > 0, moves_as_stored, "{scrambler}: {health:?}");
    }
}
