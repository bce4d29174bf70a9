//! Options of policies: what is taken, what is refused and by which words.
//! Room: onefold-flash.

use std::fmt::Write as _;

use onefold_code::{SeedSource, Truncation};
use onefold_content::FingerprintKind;

use crate::dedup::buckets::Buckets;
use crate::dedup::compact_table::CompactTable;
use crate::dedup::hot_table::HotTable;
use crate::dedup::options::{Kind, OptionInfo, Options};
use crate::dedup::split_table::SplitTable;
use crate::dedup::store::Store;
use crate::dedup::{
    AnyPolicy, Engine, Fingerprinting, Identities, Look, POLICIES, Policy as _, Prepared, Site,
    Wanted, check_engine, check_policy, host_wants,
};
use crate::nand::Identity;
use crate::op::Work;
use crate::testing::plane::plane;

const KNOWN: &[OptionInfo] = &[
    OptionInfo::new("share", Kind::Share(0.25), ""),
    OptionInfo::new("multiple", Kind::Multiple(1.5), ""),
    OptionInfo::new("count", Kind::Count { default: 7, min: 3, max: 9 }, ""),
    OptionInfo::new("switch", Kind::Switch(true), ""),
    OptionInfo::new("word", Kind::Word(&["one", "two"]), ""),
    OptionInfo::new("ranges", Kind::Ranges, ""),
];

fn options(text: &str) -> Result<Options, String> {
    Options::check("some", KNOWN, &text.parse().unwrap()).map_err(|error| error.to_string())
}

#[test]
fn options_have_their_defaults_or_what_is_said() {
    let unsaid = options("").unwrap();
    let of = |all: &Options| {
        let numbers = (all.share("share"), all.share("multiple"), all.count("count"));
        format!(
            "{numbers:?} {} {} {:?}",
            all.switch("switch"),
            all.word("word"),
            all.ranges("ranges")
        )
    };
    assert_eq!(of(&unsaid), "(0.25, 1.5, 7) true one []");
    assert_eq!(unsaid.policy(), "some");
    let said = "share = 1\nmultiple = 4\ncount = 3\nswitch = false\nword = 'two'\n\
                ranges = [[0, 0], [5, 9]]";
    assert_eq!(of(&options(said).unwrap()), "(1.0, 4.0, 3) false two [(0, 0), (5, 9)]");
    let texts = KNOWN.iter().map(OptionInfo::default_text).collect::<Vec<_>>();
    assert_eq!(texts, ["0.25", "1.5", "7", "true", "\"one\"", "[]"]);
}

#[test]
fn what_no_option_takes_is_refused_by_name() {
    for taken in ["share = 0.001", "multiple = 0.001", "count = 9", "ranges = []"] {
        options(taken).unwrap_or_else(|error| panic!("{error}"));
    }
    let refused = [
        "share = 0",
        "share = 1.001",
        "share = true",
        "multiple = 0.0",
        "multiple = 4.5",
        "count = 2",
        "count = 10",
        "count = -4",
        "count = 4.0",
        "switch = 1",
        "word = 'three'",
        "word = 1",
        "ranges = [[3, 2]]",
        "ranges = [[1, 2, 3]]",
        "ranges = [[1, 4294967296]]",
        "ranges = [[-1, 2]]",
        "ranges = [[1, 2], 3]",
        "shares = 1",
        "nothing_like_it = 1",
    ];
    let told = refused.map(|text| format!("{text}: {}", options(text).unwrap_err()));
    super::cases::holds("refused.txt", &told.join("\n"));
    let none = Options::check("some", &[], &"share = 1".parse().unwrap());
    assert!(none.unwrap_err().to_string().contains("none"));
}

#[test]
fn pages_are_wanted_by_request_first_and_then_by_range() {
    let wanted = |text: &str| {
        let table = format!("lba_ranges = {text}").parse().unwrap();
        host_wants("ses-host", &table).unwrap().unwrap()
    };
    let has = |of: &Wanted, request| [4, 5, 9, 10, 20].map(|lpn| of.has(lpn, request));
    let some = wanted("[[5, 9], [20, 20]]");
    assert_eq!(has(&some, None), [false, true, true, false, true]);
    assert_eq!((has(&some, Some(true)), has(&some, Some(false))), ([true; 5], [false; 5]));
    let all = wanted("[]");
    assert_eq!((has(&all, None), has(&all, Some(false))), ([true; 5], [false; 5]));
}

/// Which policies go with an engine, and what their hosts scramble.
#[test]
fn every_policy_says_what_it_goes_with() {
    let mut told = String::new();
    for info in POLICIES {
        for (engine, place) in [Engine::None, Engine::BeforeScrambler, Engine::AfterScrambler]
            .into_iter()
            .zip(Engine::NAMES)
        {
            for set in [false, true] {
                let mut options = toml::Table::new();
                if set {
                    options.insert("compression".to_owned(), (*place).into());
                }
                let goes = check_engine(info.name, &options, engine);
                let wants = host_wants(info.name, &options);
                let checked = check_policy(info.name, &options);
                writeln!(told, "{} {place} {set}: {goes:?} {wants:?} {checked:?}", info.name)
                    .unwrap();
            }
        }
        for seed_source in [None, Some(SeedSource::Lba), Some(SeedSource::SelfSeeded)] {
            let site = Site::new(plane(16, 8), seed_source);
            let made =
                AnyPolicy::new::<Identity>(info.name, &toml::Table::new(), &site, Identities);
            let refused = made.err().map(|error| error.to_string());
            writeln!(told, "{} {seed_source:?}: {refused:?}", info.name).unwrap();
        }
    }
    writeln!(told, "{}", check_policy("caftl-onlin", &toml::Table::new()).unwrap_err()).unwrap();
    super::cases::holds("engines.txt", &told);
}

#[test]
fn sites_count_their_places() {
    let site = Site::new(plane(16, 8), None);
    assert_eq!((site.places, site.places_per_block(), site.codewords), (128, 8, 1));
    let packed = site.packed(4, 3);
    // Each of two streams fills three pages of four parts.
    assert_eq!((packed.places, packed.places_per_block()), (128 * 4 + 24, 32));
    assert_eq!(site.packed(1, 3).places, 128);
    let codewords = site.of_codewords(8, 1);
    assert_eq!((codewords.codewords, codewords.places), (8, 128 * 8 + 16));
}

/// Notes how it is configured.
#[derive(Clone, Copy, Debug, Default)]
struct Configured {
    chosen: Option<(Truncation, FingerprintKind)>,
    engine: Engine,
}

impl Fingerprinting<Identity> for Configured {
    fn light(&mut self, _page: &Identity) -> u32 {
        0
    }

    fn strong(&mut self, _page: &Identity) -> u128 {
        0
    }

    fn parity(&mut self, _lpn: u32, _page: &Identity) -> u64 {
        1
    }

    fn plain_parity(&mut self, _page: &Identity) -> u64 {
        1
    }

    fn codewords(&mut self, _page: &Identity, _each: &mut dyn FnMut(u128)) {}

    fn configure(&mut self, truncation: Truncation, strong: FingerprintKind) {
        self.chosen = Some((truncation, strong));
    }

    fn compress(&mut self, engine: Engine) {
        self.engine = engine;
    }
}

#[test]
fn fingerprints_are_made_as_the_options_say() {
    let of = |name: &str, options: &str| {
        let site = Site::new(plane(16, 8), None);
        let (table, prints) = (options.parse().unwrap(), Configured::default());
        let made = AnyPolicy::new::<Identity>(name, &table, &site, prints).unwrap();
        let text = format!("{made:?}");
        let from = text.find("Configured {").unwrap();
        text[from..].split('}').next().unwrap().to_owned()
    };
    let says = |name, options, words: [&str; 3]| {
        let text = of(name, options);
        assert!(words.iter().all(|word| text.contains(word)), "{name}, {options}: {text}");
    };
    says("caftl-online", "", ["Crc64", "Sha256", "engine: None"]);
    says("caftl-online", "hash = 'sha1'", ["Crc64", "Sha1", "engine: None"]);
    says("ses-device", "", ["Crc64", "Sha256", "engine: None"]);
    let options = "truncation = 'byte8'\ncompression = 'before-scrambler'";
    says("ses-device", options, ["Byte8", "Sha256", "engine: BeforeScrambler"]);
    says("gleaner", "compression = 'after-scrambler'", ["Crc64", "Sha256", "AfterScrambler"]);
}

#[test]
fn tables_of_any_share_have_room_for_a_few() {
    // 16 entries in 22 places, each of a digest, four bytes and one.
    let store = |hash| Store::new((10, 40), 0.1, hash).dram().map(|(_, bytes)| bytes);
    assert_eq!((store("sha256"), store("sha1")), ([22 * 37, 22 * 4], [22 * 25, 22 * 4]));
    assert_eq!(Store::new((10, 9), 0.1, "sha1").dram()[1].1, 9 * 4, "as many as there are");
    assert_eq!(Buckets::new(10, 10, 0.1).dram().map(|(_, bytes)| bytes), [16 * 9, 16 * 4]);
    for entries in [0, 8, 15] {
        let (compact, hot) = (CompactTable::new(entries), HotTable::new(entries, true));
        assert_eq!((compact.capacity(), compact.dram()), (8, 8 * 6 + 1));
        assert_eq!(hot.dram().map(|(_, bytes)| bytes), [8 * 8, 8 * 4, 8 / 2 + 1]);
    }
    // Cells of 18 bytes and 3 bits, about 16 a set, and 11 bits of each; one set in eight with 359
    // bits of what went. Wider where 16 bits do not say which page it is.
    let split = |places, entries, digests| {
        SplitTable::new(places, entries, digests, 0.5, true).dram() as usize
    };
    let bits = |cells: usize, sets: usize, wider: usize| {
        let sampled = sets.div_ceil(8) * (359 + 8 * wider);
        (cells * (147 + wider) + sets * 11 + sampled).div_ceil(8)
    };
    assert_eq!([(0, 0), (1, 1), (48, 0)].map(|(e, d)| split(9, e, d)), [bits(16, 1, 0); 3]);
    assert_eq!(
        [20, 21, 23, 24].map(|cells| split(9, 3 * cells, 0)),
        [bits(20, 1, 0), bits(21, 1, 0), bits(21, 1, 0), bits(24, 2, 0)]
    );
    assert_eq!((split(9, 48, 17), split(9, 48 * 9, 1)), (bits(33, 2, 0), bits(145, 9, 0)));
    let wider = [1 << 16, (1 << 16) + 1, 1 << 18].map(|places| split(places, 48, 0));
    assert_eq!(wider, [bits(16, 1, 0), bits(16, 1, 1), bits(16, 1, 2)]);
}

/// Whatever is asked for takes so long.
struct Takes(u64);

impl Look for Takes {
    fn is_live(&self, _ppn: u32) -> bool {
        true
    }

    fn is_idle(&self, _ppn: u32) -> bool {
        true
    }

    fn locate(&self, _lpn: u32) -> Option<u32> {
        None
    }

    fn read_ns(&self, _ppn: u32) -> u64 {
        self.0
    }

    fn program_ns(&self) -> u64 {
        self.0
    }

    fn work_ns(&self, _work: Work) -> u64 {
        self.0
    }

    fn work(&mut self, _work: Work) {}
}

#[test]
fn a_fingerprint_that_is_ready_within_its_budget_is_waited_for() {
    for (name, work) in [("caftl-online", Work::Hash), ("ses-device", Work::ParityCorrection)] {
        let asks = |budget_us: u64, ns: u64| {
            let options = format!("budget_us = {budget_us}").parse().unwrap();
            let site = Site::new(plane(16, 8), None);
            let made = AnyPolicy::new::<Identity>(name, &options, &site, Identities);
            let (mut policy, mut prepared) = (made.unwrap(), Prepared::asked(None));
            let asked = policy.prepare(1, &Identity(5), &mut prepared, &mut Takes(ns));
            assert_eq!(prepared.left, asked.is_none());
            assert!(asked.is_none_or(|asked| asked == work), "{asked:?}");
            asked.is_some()
        };
        assert_eq!([20_000, 20_001].map(|ns| asks(20, ns)), [true, false], "{name}");
        assert_eq!([1000, 1001].map(|ns| asks(1, ns)), [true, false], "{name}");
        assert!(asks(0, u64::MAX), "{name}: no limit");
    }
}
