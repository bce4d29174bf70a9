//! From a drive's specification to its parts: channel, wear, pace.
//! Room: onefold-flash.   In: `DriveSpec`.   Out: what the array of bytes and the drive take.

use onefold_code::{
    CodeError, ParityFingerprint, ScramblerSpec, SeedMap, SeedSource, Truncation, preset,
};

use super::error::DriveError;
use super::pace::Latencies;
use crate::controller::transfer_ns;
use crate::dedup::{AnyPolicy, Bytes, check_engine};
use crate::nand::PageBytes;
use crate::nand::bytes::{BCH_NAME, ChannelSpec, DETECT_NAME, page_code};
use crate::nand::wear::WearModel;
use crate::spec::{DriveSpec, MediaCode};

impl DriveSpec {
    /// Scrambler and code of the emulated drive.
    ///
    /// # Errors
    /// [`CodeError::UnknownPreset`] for a scrambler that nobody knows.
    pub fn channel(&self) -> Result<ChannelSpec, CodeError> {
        let code = match self.media.code {
            MediaCode::None => DETECT_NAME,
            MediaCode::QcLdpc => "ses-33x256",
            MediaCode::Bch => BCH_NAME,
        };
        let scrambler = match self.media.scrambler.as_str() {
            "none" => None,
            name => Some(preset(name)?),
        };
        Ok(ChannelSpec { code: code.to_owned(), scrambler })
    }

    /// The deduplication policy of the emulated drive, which takes fingerprints of real bytes.
    ///
    /// # Errors
    /// [`DriveError::Policy`], [`DriveError::Code`].
    pub fn bytes_policy(&self) -> Result<AnyPolicy<Bytes>, DriveError> {
        if self.codewords() > 1 {
            return Err(DriveError::Codewords);
        }
        let channel = self.channel()?;
        let seed_source = channel.scrambler.as_ref().map(|scrambler| scrambler.seed_source);
        let scrambler = channel.scrambler.map_or_else(no_scrambler, Ok)?.compile()?;
        let page_bytes = self.geometry.page_bytes as usize;
        let code = page_code(&channel.code)?;
        let parity = ParityFingerprint::new(code, scrambler, page_bytes, Truncation::Crc64)?;
        let site = self.site(seed_source);
        let (name, options) = (&self.dedup.policy, &self.dedup.options);
        check_engine(name, options, self.engine())?;
        let made = AnyPolicy::new::<PageBytes>(name, options, &site, Bytes::new(parity));
        Ok(made?)
    }

    /// How the cells of the emulated drive wear: the named model with the numbers given here.
    pub fn wear_model(&self) -> WearModel {
        let named = WearModel::preset(self.media.wear.name()).unwrap_or(WearModel::none());
        WearModel {
            rated_cycles: u32::try_from(self.media.rated_pe_cycles).unwrap_or(u32::MAX),
            fresh_rate: self.media.raw_bit_errors_ppb as f64 / 1e9,
            plain_factor: self.media.plain_raw_bit_errors_percent as f64 / 100.0,
            similar_factor: self.media.similar_raw_bit_errors_percent as f64 / 100.0,
            factory_bad: self.media.factory_bad_blocks_ppm as f64 / 1e6,
            seed: self.seed,
            ..named
        }
    }

    /// How long an emulated drive that paces itself takes.
    pub fn latencies(&self) -> Latencies {
        let bus_ns = match self.timing.bus_mb_per_s {
            0 => 0,
            rate => u64::from(self.geometry.page_bytes + self.geometry.oob_bytes) * 1000 / rate,
        };
        let page_bytes = u64::from(self.geometry.page_bytes);
        let over_the_bus_ns = bus_ns + self.timing.command_overhead_ns;
        Latencies {
            read_ns: self.timing.read_latency_ns + over_the_bus_ns,
            program_ns: self.timing.program_latency_ns + over_the_bus_ns,
            erase_ns: self.timing.erase_latency_ns,
            hash_ns: self.controller.hash_ns,
            light_hash_ns: self.controller.light_hash_ns,
            parity_correction_ns: self.controller.parity_correction_ns,
            compare_ns: self.controller.compare_ns,
            lookup_ns: self.controller.lookup_ns,
            compress_ns: transfer_ns(page_bytes, self.controller.compress_mb_per_s),
            decompress_ns: transfer_ns(page_bytes, self.controller.decompress_mb_per_s),
        }
    }
}

/// A scrambler whose key stream is zeroes: a linear register that is loaded with 0.
fn no_scrambler() -> Result<ScramblerSpec, CodeError> {
    let seed_map = SeedMap::linear(0, Vec::new());
    Ok(ScramblerSpec { seed_map, seed_source: SeedSource::Lba, ..preset("lba-prbs31")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nand::bytes::{Channel, RECORD_BYTES};
    use crate::spec::PRESET_NAMES;

    #[test]
    fn every_preset_can_be_emulated() {
        for name in PRESET_NAMES {
            let spec = DriveSpec::preset(name).expect("a preset");
            let channel = spec.channel().expect("known names");
            let geometry = spec.geometry;
            let built = Channel::new(&channel, geometry.page_bytes as usize, geometry.pages());
            let needed = built.expect("fits the pages").parity_bytes() + RECORD_BYTES;
            assert!(geometry.oob_bytes as usize >= needed, "{name} needs {needed} bytes");
            assert!(spec.bytes_policy().is_ok());
            let wear = spec.wear_model();
            assert_eq!(u64::from(wear.rated_cycles), spec.media.rated_pe_cycles);
            assert!(wear.rate(wear.rated_cycles, 0, 0, 0) > 0.0, "{name} wears");
            assert_eq!(spec.latencies().erase_ns, spec.timing.erase_latency_ns);
        }
    }

    #[test]
    fn fingerprints_without_a_scrambler_are_those_of_the_plain_page() {
        let zeroes = no_scrambler().expect("a preset").compile().expect("compiles");
        let mut page = vec![0x5a; 4096];
        zeroes.scramble(&onefold_code::PageAddress::of(77), &mut page).expect("any page");
        assert!(page.iter().all(|&byte| byte == 0x5a));
        let mut spec = DriveSpec::preset("ses-slc").expect("a preset");
        spec.media.scrambler = "none".to_owned();
        for policy in crate::dedup::POLICIES {
            spec.dedup.policy = policy.name.to_owned();
            if policy.name == "codeword" {
                assert!(matches!(spec.bytes_policy(), Err(DriveError::Codewords)));
                let page = toml::Value::Integer(spec.geometry.page_bytes.into());
                spec.dedup.options.insert("codeword_bytes".to_owned(), page);
            }
            assert!(spec.bytes_policy().is_ok(), "{}", policy.name);
        }
        spec.dedup.policy = "ses-hosts".to_owned();
        assert!(matches!(spec.bytes_policy(), Err(DriveError::Policy(_))));
    }
}
