//! What reads take: a disk that seeks, an SSD that reads slower while it writes; virtual time.
//! Room: onefold-cache.
//! One reader asks for one file after the other. A miss reads the whole container from the disk; a
//! container that is admitted goes to the SSD in the background, through a buffer. While the
//! buffer drains, SSD reads have a share of its bandwidth, and so have the writes; a full buffer
//! makes the reader wait. Source: [plc-cache] sec. V.A names the devices, no model.
//! Differs: times and bandwidths are those of data sheets of such devices, not measured ones.

use onefold_sim::{SimSpan, SimTime};
use serde::Serialize;

use crate::options::settings;
use crate::policy::Outcome;

settings! {
    /// The slow device.
    pub struct HddModel {
        /// microseconds of a seek, on average
        seek_us: u64 = 12_000, 0 => 10_000_000;
        /// rotations per minute; half a turn passes before the data come
        rpm: u64 = 5_400, 1 => 1_000_000;
        /// MB (10^6 bytes) per second of reading
        read_mb_s: u64 = 110, 1 => 1_000_000;
    }
}

settings! {
    /// The fast device.
    pub struct SsdModel {
        /// microseconds before the first byte of a read
        latency_us: u64 = 80, 0 => 10_000_000;
        /// MB (10^6 bytes) per second of reading
        read_mb_s: u64 = 550, 1 => 1_000_000;
        /// MB (10^6 bytes) per second of writing
        write_mb_s: u64 = 235, 1 => 1_000_000;
        /// percent of the read bandwidth that is left while writing; writing keeps the rest
        read_share: u64 = 30, 1 => 99;
        /// KiB of containers that may wait to be written
        buffer_kib: u64 = 65_536, 0 => 1_073_741_824;
        /// GiB that may be written before the device is worn out
        tbw_gib: f64 = 36_500.0, 0.001 => 1_000_000_000.0;
        /// microseconds to look up a file's recipe and index
        metadata_us: u64 = 200, 0 => 10_000_000;
    }
}

/// Both devices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Devices {
    /// The slow one.
    pub hdd: HddModel,
    /// The fast one.
    pub ssd: SsdModel,
}

/// Times of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Files read.
    pub files: u64,
    /// Mean time of a file, in ms.
    pub file_ms: f64,
    /// Mean time of a file if there were no SSD, in ms.
    pub hdd_only_ms: f64,
    /// Virtual time of the whole run.
    pub total_ns: u64,
    /// MiB per second written to the SSD over the run.
    pub write_mib_s: f64,
    /// Days until the SSD is worn out at that rate, day and night.
    pub lifetime_days: f64,
}

/// Days until `tbw_gib` are written at `mib_s`; infinite for no writes. Binary units, as in Table 1
/// of [plc-cache].
pub fn lifetime_days(tbw_gib: f64, mib_s: f64) -> f64 {
    tbw_gib * 1024.0 / mib_s / 86_400.0
}

const MB: u64 = 1_000_000;

/// A product divided by a number: in one word where it fits, which takes a fraction of the time.
fn of_product(a: u64, b: u64, by: u64) -> u64 {
    let wide = || u64::try_from(u128::from(a) * u128::from(b) / u128::from(by));
    a.checked_mul(b).map_or_else(|| wide().unwrap_or(u64::MAX), |product| product / by)
}

/// The course of a run.
pub(super) struct Clock {
    devices: Devices,
    now: SimTime,
    /// Bytes that wait to be written.
    backlog: u64,
    files: u64,
    hdd_only: SimSpan,
}

impl Clock {
    pub fn new(devices: Devices) -> Self {
        let (now, hdd_only) = (SimTime::ZERO, SimSpan::ZERO);
        Self { devices, now, backlog: 0, files: 0, hdd_only }
    }

    /// Time passes in which nothing is read from the SSD.
    fn wait(&mut self, span: SimSpan) {
        self.now += span;
        let written = of_product(span.ns(), self.devices.ssd.write_mb_s, 1000);
        self.backlog = self.backlog.saturating_sub(written);
    }

    fn hdd_read(&self, bytes: u32) -> SimSpan {
        let hdd = self.devices.hdd;
        let half_turn = SimSpan::from_ns(30_000_000_000 / hdd.rpm);
        let transfer = SimSpan::of_transfer(bytes.into(), hdd.read_mb_s * MB);
        SimSpan::from_us(hdd.seek_us) + half_turn + transfer
    }

    fn ssd_read(&mut self, bytes: u32) {
        let ssd = self.devices.ssd;
        self.wait(SimSpan::from_us(ssd.latency_us));
        let slow = (ssd.read_mb_s * MB * ssd.read_share / 100).max(1);
        let drain = (ssd.write_mb_s * MB * (100 - ssd.read_share) / 100).max(1);
        let all_slow = SimSpan::of_transfer(bytes.into(), slow);
        let drained = SimSpan::of_transfer(self.backlog, drain);
        if drained >= all_slow {
            let written = of_product(all_slow.ns(), drain, 1_000_000_000);
            self.backlog -= written.min(self.backlog);
            self.now += all_slow;
        } else {
            // The buffer runs dry on the way, and the rest goes at full speed.
            let read = of_product(drained.ns(), slow, 1_000_000_000);
            let rest = u64::from(bytes).saturating_sub(read);
            self.backlog = 0;
            self.now += drained + SimSpan::of_transfer(rest, ssd.read_mb_s * MB);
        }
    }

    /// A container is read, and perhaps written.
    pub fn read(&mut self, bytes: u32, outcome: Outcome) {
        self.hdd_only += self.hdd_read(bytes);
        if outcome.is_hit() {
            self.ssd_read(bytes);
        } else {
            self.wait(self.hdd_read(bytes));
        }
        if outcome.slot().is_some() {
            self.backlog += u64::from(bytes);
            let over = self.backlog.saturating_sub(self.devices.ssd.buffer_kib * 1024);
            self.wait(SimSpan::of_transfer(over, self.devices.ssd.write_mb_s * MB));
        }
    }

    /// A file is complete.
    pub fn end_file(&mut self) {
        self.files += 1;
        let metadata = SimSpan::from_us(self.devices.ssd.metadata_us);
        self.hdd_only += metadata;
        self.wait(metadata);
    }

    pub fn result(&self, read_bytes: u64, written_bytes: u64) -> Latency {
        let files = self.files.max(1) as f64;
        let seconds = self.now.ns() as f64 / 1e9;
        let write_mib_s = if read_bytes == 0 {
            0.0
        } else {
            written_bytes as f64 / (1_u64 << 20) as f64 / seconds
        };
        Latency {
            files: self.files,
            file_ms: self.now.ns() as f64 / files / 1e6,
            hdd_only_ms: self.hdd_only.ns() as f64 / files / 1e6,
            total_ns: self.now.ns(),
            write_mib_s,
            lifetime_days: lifetime_days(self.devices.ssd.tbw_gib, write_mib_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round() -> Devices {
        let hdd = HddModel { seek_us: 10_000, rpm: 6_000, read_mb_s: 100 };
        let ssd = SsdModel {
            latency_us: 100,
            read_mb_s: 500,
            write_mb_s: 200,
            read_share: 50,
            buffer_kib: 1 << 20,
            metadata_us: 0,
            ..SsdModel::default()
        };
        Devices { hdd, ssd }
    }

    #[test]
    fn products_beyond_a_word_are_divided_all_the_same() {
        for (a, b, by, expected) in [
            (1_000_000_000, 18_446_744_073, 1000, 18_446_744_073_000_000),
            (1_000_000_000_000, 1_000_000_000_000, 1000, u64::MAX),
            (10_000_000_000, 10_000_000_000, 1_000_000_000, 100_000_000_000),
            (7, 3, 4, 5),
        ] {
            assert_eq!(of_product(a, b, by), expected, "{a} * {b} / {by}");
        }
    }

    #[test]
    fn a_miss_seeks_turns_and_transfers() {
        let mut clock = Clock::new(round());
        clock.read(1_000_000, Outcome::PASSED);
        // 10 ms + half of 10 ms + 10 ms.
        assert_eq!(clock.now.ns(), 25_000_000);
    }

    #[test]
    fn writes_slow_reads_down_until_they_are_done() {
        let mut clock = Clock::new(round());
        clock.read(1_000_000, Outcome::HIT);
        assert_eq!(clock.now.ns(), 100_000 + 2_000_000);
        let mut clock = Clock::new(round());
        clock.read(10_000_000, Outcome::written(0));
        let before = clock.now.ns();
        // 20 kB drain during the latency; at half speed 1 MB takes 4 ms, 400 kB drain meanwhile.
        clock.read(1_000_000, Outcome::HIT);
        assert_eq!(clock.now.ns() - before, 100_000 + 4_000_000);
        assert_eq!(clock.backlog, 10_000_000 - 20_000 - 400_000);
        // The disk's time drains 200 B per us.
        clock.read(1_000_000, Outcome::PASSED);
        assert_eq!(clock.backlog, 10_000_000 - 420_000 - 5_000_000);
    }

    #[test]
    fn a_full_buffer_makes_the_reader_wait() {
        let mut devices = round();
        devices.ssd.buffer_kib = 0;
        let mut clock = Clock::new(devices);
        clock.read(1_000_000, Outcome::written(0));
        assert_eq!((clock.now.ns(), clock.backlog), (25_000_000 + 5_000_000, 0));
    }

    #[test]
    fn a_run_is_told_by_file_and_as_if_there_were_no_ssd() {
        let mut devices = round();
        devices.ssd.metadata_us = 300;
        let mut clock = Clock::new(devices);
        for outcome in [Outcome::PASSED, Outcome::HIT] {
            clock.read(1_000_000, outcome);
            clock.end_file();
        }
        let result = clock.result(2_000_000, 0);
        // A miss takes 25 ms, a hit 2.1, and each file its metadata.
        assert_eq!((result.files, result.total_ns), (2, 27_700_000));
        assert_eq!((result.file_ms, result.hdd_only_ms), (13.85, 25.3));
        assert_eq!((result.write_mib_s, result.lifetime_days), (0.0, f64::INFINITY));
        assert!(clock.result(0, 5 << 20).write_mib_s < 1e-300, "nothing was read");
        let rate = clock.result(1, 5 << 20).write_mib_s;
        assert!((rate - 5.0 / 0.0277).abs() < 1e-9, "{rate}");
    }

    /// [plc-cache] Table 1.
    #[test]
    fn lifetimes_are_those_of_table_1() {
        for (mib_s, days) in [(56.7, 7.6), (50.7, 8.5), (53.1, 8.1)] {
            assert!((lifetime_days(36_500.0, mib_s) - days).abs() < 0.07, "{mib_s}");
        }
    }
}
