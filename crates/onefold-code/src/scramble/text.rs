//! How numbers and polynomials are written in scrambler files.
//! Room: onefold-code.
//! Invariants: seeds are hexadecimal strings, because TOML integers end at 2^63.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

use crate::gf2::Poly;

fn parse_hex<E: Error>(text: &str) -> Result<u64, E> {
    text.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or_else(
        || E::custom(format!("{text:?} is not a number; accepted: like \"0x2b75\", below 2^64")),
    )
}

pub(crate) mod hex {
    use super::{Deserialize, Deserializer, Serializer, parse_hex};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
    pub fn serialize<S: Serializer>(value: &u64, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&format_args!("{value:#x}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
        parse_hex(&String::deserialize(d)?)
    }
}

pub(crate) mod hex_list {
    use super::{Deserialize, Deserializer, Serializer, parse_hex};

    pub fn serialize<S: Serializer>(values: &[u64], s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(values.iter().map(|value| format!("{value:#x}")))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u64>, D::Error> {
        Vec::<String>::deserialize(d)?.iter().map(|text| parse_hex(text)).collect()
    }
}

pub(crate) mod poly {
    use super::{Deserialize, Deserializer, Error, Poly, Serializer};

    pub fn serialize<S: Serializer>(value: &Poly, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(value)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Poly, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}
