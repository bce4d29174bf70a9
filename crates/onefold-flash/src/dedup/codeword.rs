//! `codeword`: deduplication by codeword, with an entry of the map for each.
//! Room: onefold-flash.   Source: [ses-dedup] sec. IV, last paragraph, leaves it to future work.
//! The decisions are those of `caftl-online`, of codewords instead of pages: this file says what a
//! codeword is, and where its tables and the drive's differ for it.
//! A page of the host is as many logical codewords, each hashed, looked up and shared by itself.
//! Those that are new are packed into flash pages, so that one page of the host may lie in several
//! flash pages, and be read from all of them.
//! Costs: entries of map, reverse map and fingerprint store for each codeword; a look-up and a hash
//! for each; a reading of every flash page that holds one of those that are asked for.

use toml::Table;

use crate::dedup::caftl_online;
use crate::dedup::info::PolicyInfo;
use crate::dedup::options::{Kind, OptionInfo};
use crate::dedup::store::HASH;

/// Makes the policy: the same as by page, of other contents.
pub(crate) use crate::dedup::caftl_online::make;

/// The name of the policy.
pub(crate) const NAME: &str = "codeword";

const BYTES_KEY: &str = "codeword_bytes";
/// Data bytes of a codeword of the codes that this project has.
const BYTES: u64 = 1024;

pub(crate) const OPTIONS: &[OptionInfo] = &[
    OptionInfo::new(
        BYTES_KEY,
        Kind::Count { default: BYTES, min: 64, max: 1 << 20 },
        "Data bytes of a codeword: a page has 1 to 64 of them",
    ),
    HASH,
    OptionInfo::new(
        "store_share",
        Kind::Share(1.0),
        "Entries of the fingerprint store, as a share of the drive's codewords",
    ),
    caftl_online::SAMPLE,
    caftl_online::PREHASH,
    OptionInfo::new(
        "table_share",
        Kind::Share(1.0),
        "Entries of the CRC table, as a share of the drive's codewords",
    ),
    caftl_online::BACKGROUND,
    crate::dedup::ses::BUDGET_US,
];

/// What there is to know of it.
pub(crate) const INFO: PolicyInfo = PolicyInfo {
    name: NAME,
    summary: "inline, by a strong hash of each codeword, with a map of codewords",
    source: "this project; left to future work by SES-Dedup (MSST 2019) sec. IV",
    options: OPTIONS,
    apart: false,
    awaits: None,
    wants: None,
    refuses: None,
};

/// Data bytes of what a policy deduplicates, if that is not a page.
pub(crate) fn codeword_bytes(policy: &str, options: &Table) -> Option<u64> {
    let bytes = || options.get(BYTES_KEY).and_then(toml::Value::as_integer);
    (policy == NAME).then(|| bytes().and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(BYTES))
}
