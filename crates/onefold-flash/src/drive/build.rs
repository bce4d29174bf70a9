//! From a drive's specification to its parts: channel, wear, pace.
//! Room: onefold-flash.   In: `DriveSpec`.   Out: what the array of bytes and the drive take.

use onefold_code::{CodeError, preset};

use super::pace::Latencies;
use crate::nand::bytes::{BCH_NAME, ChannelSpec, DETECT_NAME};
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

    /// How the cells of the emulated drive wear: the named model with the numbers given here.
    pub fn wear_model(&self) -> WearModel {
        let named = WearModel::preset(self.media.wear.name()).unwrap_or(WearModel::none());
        WearModel {
            rated_cycles: u32::try_from(self.media.rated_pe_cycles).unwrap_or(u32::MAX),
            fresh_rate: self.media.raw_bit_errors_ppb as f64 / 1e9,
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
        let transfer_ns = bus_ns + self.timing.command_overhead_ns;
        Latencies {
            read_ns: self.timing.read_latency_ns + transfer_ns,
            program_ns: self.timing.program_latency_ns + transfer_ns,
            erase_ns: self.timing.erase_latency_ns,
            hash_ns: self.controller.hash_ns,
            light_hash_ns: self.controller.light_hash_ns,
            parity_correction_ns: self.controller.parity_correction_ns,
            compare_ns: self.controller.compare_ns,
            lookup_ns: self.controller.lookup_ns,
        }
    }
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
            let wear = spec.wear_model();
            assert_eq!(u64::from(wear.rated_cycles), spec.media.rated_pe_cycles);
            assert!(wear.rate(wear.rated_cycles, 0, 0, 0) > 0.0, "{name} wears");
            assert_eq!(spec.latencies().erase_ns, spec.timing.erase_latency_ns);
        }
    }
}
