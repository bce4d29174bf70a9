//! The figures of a run.
//! Room: onefold-flash.   In: a finished simulation.   Out: [`Report`], ready to be serialised.
//! docs/ssd.md names every field; rates are over exact virtual time.

use std::collections::BTreeMap;

use onefold_workload::Op;
use serde::Serialize;

use crate::controller::{ControllerUsage, RetryCounts, Share};
use crate::dedup::{Kind, Policy, policy_info};
use crate::ftl::Counters;
use crate::nand::Nand;
use crate::op::{Cause, OpKind};
use crate::run::RunError;
use crate::run::request::SimPage;
use crate::run::settled::SettledReport;
use crate::run::simulation::Simulation;
use crate::run::steady::spare_pages;
use crate::run::tally::{OpTally, Tally};
use crate::spec::{DriveSpec, WriteBuffer};

/// Figures of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct Report {
    pub drive: String,
    pub seed: u64,
    pub result_hash: String,
    pub requests: RequestsReport,
    pub elapsed_ns: u64,
    pub iops: Option<f64>,
    pub read_bytes_per_s: Option<f64>,
    pub write_bytes_per_s: Option<f64>,
    pub latency_ns: BTreeMap<&'static str, Option<LatencyReport>>,
    pub latency_breakdown_ns: BTreeMap<&'static str, BTreeMap<&'static str, f64>>,
    pub waf: WafReport,
    pub effective_alpha: f64,
    pub logical_pages: u32,
    pub physical_pages: u32,
    pub flash_operations: BTreeMap<&'static str, OpsReport>,
    pub dedup: DedupReport,
    pub compression: Option<CompressionReport>,
    pub utilisation: UtilisationReport,
    pub read_retries: Option<RetriesReport>,
    pub energy_nj: u128,
    pub erases: ErasesReport,
    pub settled: SettledReport,
    pub lifetime: LifetimeReport,
    pub dram: DramReport,
    pub events: u64,
}

/// Requests by kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct RequestsReport {
    pub generated: u64,
    pub completed: u64,
    pub reads: u64,
    pub writes: u64,
    pub trims: u64,
    pub flushes: u64,
    pub idle_hints: u64,
    pub pages_read: u64,
    pub pages_written: u64,
    pub partial_pages: u64,
    pub clipped_trims: u64,
    pub buffer_hits: u64,
}

/// Latencies of one kind of request.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct LatencyReport {
    pub mean: f64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// Pages programmed per page that the host wrote; `null` if it wrote none.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct WafReport {
    pub total: Option<f64>,
    pub host: Option<f64>,
    pub gc: Option<f64>,
    pub wear: Option<f64>,
    pub map: Option<f64>,
}

/// Flash operations of one kind by cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct OpsReport {
    pub host: u64,
    pub gc: u64,
    pub wear: u64,
    pub map: u64,
    pub dedup: u64,
}

impl OpsReport {
    /// Without reads that found their page in the controller's memory: the flash saw none of them.
    fn less(self, hits: &[u64; 5]) -> Self {
        let of = |cause: Cause| hits[cause as usize];
        Self {
            host: self.host - of(Cause::Host),
            gc: self.gc - of(Cause::Gc),
            wear: self.wear - of(Cause::Wear),
            map: self.map - of(Cause::Map),
            dedup: self.dedup - of(Cause::Dedup),
        }
    }
}

/// What deduplication found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct DedupReport {
    pub policy: String,
    pub inline_pages: u64,
    pub offline_pages: u64,
    pub missed_pages: Option<u64>,
    pub compared_equal: u64,
    pub compared_different: u64,
    pub policy_counts: BTreeMap<&'static str, u64>,
}

/// What compression and packing made of the pages of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct CompressionReport {
    pub compressed_pages: u64,
    pub replaced_pages: u64,
    pub packed_pages: u64,
    pub filled_share: Option<f64>,
    pub buffer_reads: u64,
    pub stored_share: Option<f64>,
    pub alpha_of_stored: Option<f64>,
}

impl CompressionReport {
    /// Of a stretch of time, and of what the drive holds at its end.
    fn of<N, P>(simulation: &Simulation<'_, N, P>, made: &Counters) -> Self
    where
        N: Nand<Page: SimPage>,
        P: Policy<N::Page>,
    {
        let ftl = &simulation.ftl;
        let subpages = u64::from(ftl.settings().subpages);
        let stored = ftl.stored();
        let logical = u64::from(ftl.settings().logical_pages);
        // Where codewords are mapped, each is at home in a sub-page.
        let subpages_of_one = subpages / u64::from(ftl.settings().logical_per_page());
        Self {
            compressed_pages: made.fragments,
            replaced_pages: made.fragments_dropped,
            packed_pages: made.packed_pages,
            filled_share: per(made.packed_subpages, made.packed_pages * subpages),
            buffer_reads: made.waiting_reads,
            stored_share: per(stored.data_subpages, stored.contents * subpages_of_one),
            alpha_of_stored: per(logical * subpages_of_one, stored.data_subpages)
                .map(|room| ftl.effective_alpha() * room),
        }
    }
}

/// Readings of pages that took more than one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct RetriesReport {
    pub pages_read: u64,
    pub retried_pages: u64,
    pub retries: u64,
    pub uncorrectable_pages: u64,
}

impl From<RetryCounts> for RetriesReport {
    fn from(counts: RetryCounts) -> Self {
        let RetryCounts { pages_read, retried_pages, retries, uncorrectable_pages } = counts;
        Self { pages_read, retried_pages, retries, uncorrectable_pages }
    }
}

/// Busy shares.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct UtilisationReport {
    pub unit: &'static str,
    pub units: u32,
    pub units_mean: f64,
    pub units_min: f64,
    pub units_max: f64,
    pub units_reading: f64,
    pub units_programming: f64,
    pub units_erasing: f64,
    pub unit_queue_max: u64,
    pub suspends: u64,
    pub servers: BTreeMap<&'static str, ServerReport>,
}

/// Busy share and waiting time of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct ServerReport {
    pub count: u32,
    pub mean: f64,
    pub jobs: u64,
    pub wait_ns_mean: f64,
}

/// Erase counts of the blocks, over the whole life of the drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct ErasesReport {
    pub min: u32,
    pub mean: f64,
    pub max: u32,
    pub histogram: Vec<ErasesBucket>,
}

/// Blocks that were erased so often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct ErasesBucket {
    pub erases: u32,
    pub blocks: u64,
}

/// How long the drive lasts at this write amplification, if it has settled.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct LifetimeReport {
    pub rated_pe_cycles: u64,
    pub terabytes_written: Option<f64>,
    pub terabytes_written_low: Option<f64>,
    pub terabytes_written_high: Option<f64>,
    pub drive_writes_per_day_5_years: Option<f64>,
}

/// The controller's memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct DramReport {
    pub budget_bytes: u64,
    pub used_bytes: u64,
    pub items: Vec<DramItem>,
}

/// One table or buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "docs/ssd.md documents every field, and a test holds it complete")]
pub struct DramItem {
    pub name: String,
    pub bytes: u64,
}

/// Five years in days.
const FIVE_YEARS_DAYS: f64 = 5.0 * 365.0;

/// Lists what is in the controller's memory, and refuses what does not fit.
pub(crate) fn dram(
    spec: &DriveSpec,
    tables: &[(&'static str, u64)],
) -> Result<DramReport, RunError> {
    let page = u64::from(spec.geometry.page_bytes);
    let mut items = tables.to_vec();
    if spec.controller.write_buffer == WriteBuffer::Back {
        items.push(("write_buffer", u64::from(spec.controller.write_buffer_pages) * page));
    }
    // A page in and a page out per unit while the flash works on them.
    items.push(("page_buffers", u64::from(spec.parallel_units()) * 2 * page));
    let items: Vec<DramItem> = items
        .into_iter()
        .filter(|&(_, bytes)| bytes > 0)
        .map(|(name, bytes)| DramItem { name: name.into(), bytes })
        .collect();
    let used_bytes = items.iter().map(|item| item.bytes).sum();
    let budget_bytes = spec.controller.dram_bytes;
    if used_bytes > budget_bytes {
        let one = |item: &DramItem| format!("{} ({} bytes)", item.name, item.bytes);
        let list = items.iter().map(one).collect::<Vec<_>>().join(", ");
        let smaller = sizes(&spec.dedup.policy);
        return Err(RunError::Dram { budget: budget_bytes, needed: used_bytes, list, smaller });
    }
    Ok(DramReport { budget_bytes, used_bytes, items })
}

/// Which options make the tables of a policy smaller.
fn sizes(policy: &str) -> String {
    let options = policy_info(policy).map(|info| info.options).unwrap_or_default();
    let keys: Vec<String> = options
        .iter()
        .filter(|option| matches!(option.kind, Kind::Share(_) | Kind::Multiple(_)))
        .map(|option| format!("dedup.{}", option.key))
        .collect();
    if keys.is_empty() { String::new() } else { format!("; less with {}", keys.join(", ")) }
}

fn per(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn latency(tally: &OpTally) -> Option<LatencyReport> {
    let histogram = &tally.latency_ns;
    Some(LatencyReport {
        mean: histogram.mean()?,
        p50: histogram.quantile(500_000)?,
        p90: histogram.quantile(900_000)?,
        p99: histogram.quantile(990_000)?,
        p999: histogram.quantile(999_000)?,
        max: histogram.max()?,
    })
}

/// Counts of a stretch of time.
struct Stretch<'a> {
    before: &'a Counters,
    after: &'a Counters,
    /// Of a page, where the host's writes are counted in them.
    codewords: u64,
}

impl Stretch<'_> {
    fn ops(&self, kind: OpKind, cause: Cause) -> u64 {
        self.after.ops.of(kind, cause) - self.before.ops.of(kind, cause)
    }

    fn written(&self) -> u64 {
        self.after.host_pages_written - self.before.host_pages_written
    }

    fn by_cause(&self, kind: OpKind) -> OpsReport {
        OpsReport {
            host: self.ops(kind, Cause::Host),
            gc: self.ops(kind, Cause::Gc),
            wear: self.ops(kind, Cause::Wear),
            map: self.ops(kind, Cause::Map),
            dedup: self.ops(kind, Cause::Dedup),
        }
    }

    /// By kind; reads without those that found their page in the controller's memory.
    fn operations(&self, buffer_hits: &[u64; 5]) -> BTreeMap<&'static str, OpsReport> {
        [
            ("read", self.by_cause(OpKind::Read).less(buffer_hits)),
            ("program", self.by_cause(OpKind::Program)),
            ("erase", self.by_cause(OpKind::Erase)),
        ]
        .into()
    }

    fn waf(&self) -> WafReport {
        let written = self.written();
        let programmed = |cause| self.ops(OpKind::Program, cause) * self.codewords;
        let of = |cause| per(programmed(cause), written);
        let all = Cause::ALL.iter().map(|&cause| programmed(cause)).sum();
        WafReport {
            total: per(all, written),
            host: of(Cause::Host),
            gc: of(Cause::Gc),
            wear: of(Cause::Wear),
            map: of(Cause::Map),
        }
    }
}

impl Report {
    pub(crate) fn of<N, P>(
        spec: &DriveSpec,
        simulation: &mut Simulation<'_, N, P>,
        before: &Counters,
        dram: DramReport,
        missed_pages: Option<u64>,
    ) -> Self
    where
        N: Nand<Page: SimPage>,
        P: Policy<N::Page>,
    {
        let whole = simulation.accounts();
        let at_end = simulation.at_end.clone().unwrap_or_else(|| whole.clone());
        let last = whole.counters;
        let codewords = u64::from(spec.codewords());
        let host_time = Stretch { before, after: &at_end.counters, codewords };
        for kind in [OpKind::Read, OpKind::Program, OpKind::Erase] {
            for cause in Cause::ALL {
                simulation.tally.mix(last.ops.of(kind, cause));
            }
        }
        let tally = &simulation.tally;
        let elapsed_ns = tally.end_ns;
        let per_s = |count: u64| per(count, elapsed_ns).map(|rate| rate * 1e9);
        let page = u64::from(spec.geometry.page_bytes);
        let mut requests = requests(tally, simulation.generated(), &at_end.usage.buffer_hits);
        requests.clipped_trims = simulation.clipped_trims();
        let waf = host_time.waf();
        let settled = settled(simulation, &requests, before, &at_end.counters);
        let kinds = [("read", Op::Read), ("write", Op::Write), ("trim", Op::Trim)];
        let kinds = kinds.into_iter().chain([("flush", Op::Flush)]);
        Self {
            drive: spec.name.clone(),
            seed: spec.seed,
            result_hash: format!("{:016x}", tally.hash()),
            elapsed_ns,
            iops: per_s(requests.completed),
            read_bytes_per_s: per_s(requests.pages_read * page),
            write_bytes_per_s: per_s(requests.pages_written * page),
            latency_ns: kinds.clone().map(|(name, op)| (name, latency(tally.of(op)))).collect(),
            latency_breakdown_ns: kinds
                .filter(|&(_, op)| tally.of(op).latency_ns.count() > 0)
                .map(|(name, op)| (name, breakdown(tally.of(op))))
                .collect(),
            lifetime: lifetime(spec, &waf, &settled),
            settled,
            waf,
            effective_alpha: simulation.ftl.effective_alpha(),
            logical_pages: spec.logical_pages(),
            physical_pages: spec.geometry.pages(),
            flash_operations: host_time.operations(&at_end.usage.buffer_hits),
            dedup: DedupReport {
                policy: spec.dedup.policy.clone(),
                missed_pages,
                policy_counts: simulation.ftl.policy().report().into_iter().collect(),
                ..found(&last.since(before))
            },
            compression: spec
                .packs()
                .then(|| CompressionReport::of(simulation, &at_end.counters.since(before))),
            utilisation: utilisation(spec, &at_end.usage),
            read_retries: whole.usage.retries.map(RetriesReport::from),
            energy_nj: whole.usage.energy_nj,
            erases: erases(spec, simulation.ftl.blocks()),
            dram,
            events: whole.usage.events,
            requests,
        }
    }
}

/// Whether the run has settled.
fn settled<N, P>(
    simulation: &Simulation<'_, N, P>,
    requests: &RequestsReport,
    before: &Counters,
    end: &Counters,
) -> SettledReport
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    let per_page = per(requests.completed, requests.pages_written).unwrap_or(0.0);
    let report = simulation.windows.judge(end, spare_pages(&simulation.ftl), per_page);
    let codewords = u64::from(simulation.ftl.settings().logical_per_page());
    SettledReport { preconditioning_pages: before.host_pages_written / codewords, ..report }
}

/// What deduplication found in a stretch of time.
fn found(counters: &Counters) -> DedupReport {
    DedupReport {
        inline_pages: counters.inline_pages,
        offline_pages: counters.offline_pages,
        compared_equal: counters.compared_equal,
        compared_different: counters.compared_different,
        ..DedupReport::default()
    }
}

fn requests(tally: &Tally, generated: u64, hits: &[u64; 5]) -> RequestsReport {
    let count = |op| tally.of(op).latency_ns.count();
    RequestsReport {
        generated,
        completed: tally.completed(),
        reads: count(Op::Read),
        writes: count(Op::Write),
        trims: count(Op::Trim),
        flushes: count(Op::Flush),
        idle_hints: count(Op::Idle),
        pages_read: tally.of(Op::Read).pages,
        pages_written: tally.of(Op::Write).pages,
        partial_pages: tally.partial_pages,
        clipped_trims: 0,
        buffer_hits: hits.iter().sum::<u64>() + tally.waiting_pages_read,
    }
}

fn breakdown(tally: &OpTally) -> BTreeMap<&'static str, f64> {
    Share::ALL.iter().map(|share| share.name()).zip(tally.breakdown_mean()).collect()
}

fn utilisation(spec: &DriveSpec, usage: &ControllerUsage) -> UtilisationReport {
    let units = &usage.units;
    UtilisationReport {
        unit: spec.timing.parallel_unit.name(),
        units: units.count,
        units_mean: units.mean,
        units_min: units.min,
        units_max: units.max,
        units_reading: units.by_kind[0],
        units_programming: units.by_kind[1],
        units_erasing: units.by_kind[2],
        unit_queue_max: units.waiting_max,
        suspends: usage.suspends,
        servers: (usage.servers.iter())
            .map(|server| {
                let report = ServerReport {
                    count: server.count,
                    mean: server.mean,
                    jobs: server.jobs,
                    wait_ns_mean: server.wait_ns_mean,
                };
                (server.name, report)
            })
            .collect(),
    }
}

fn erases(spec: &DriveSpec, blocks: &crate::ftl::blocks::Blocks) -> ErasesReport {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    let mut sum = 0;
    for block in 0..spec.geometry.blocks() {
        *counts.entry(blocks.erases(block)).or_default() += 1;
        sum += u64::from(blocks.erases(block));
    }
    ErasesReport {
        min: counts.keys().next().copied().unwrap_or(0),
        mean: sum as f64 / f64::from(spec.geometry.blocks()),
        max: counts.keys().next_back().copied().unwrap_or(0),
        histogram: counts
            .into_iter()
            .map(|(erases, blocks)| ErasesBucket { erases, blocks })
            .collect(),
    }
}

/// Every block may be erased as often as it is rated for; what the host may write is that over
/// the write amplification of endless writes, which only a run that has settled knows.
fn lifetime(spec: &DriveSpec, waf: &WafReport, settled: &SettledReport) -> LifetimeReport {
    let rated = spec.media.rated_pe_cycles;
    let at = |waf: Option<f64>| {
        let waf = waf.filter(|&waf| settled.settled && waf > 0.0)?;
        Some(spec.geometry.capacity_bytes() as f64 * rated as f64 / waf)
    };
    let drive = f64::from(spec.logical_pages()) * f64::from(spec.geometry.page_bytes);
    let interval = settled.write_amplification;
    let terabytes = |waf| at(waf).map(|bytes| bytes / 1e12);
    LifetimeReport {
        rated_pe_cycles: rated,
        terabytes_written: terabytes(waf.total),
        terabytes_written_low: terabytes(interval.map(|waf| waf.high)),
        terabytes_written_high: terabytes(interval.map(|waf| waf.low)),
        drive_writes_per_day_5_years: at(waf.total).map(|bytes| bytes / drive / FIVE_YEARS_DAYS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::completion::{Completion, Verdict};
    use crate::run::request::HostRequest;
    use crate::run::settled::IntervalReport;

    #[test]
    fn a_quantile_is_the_largest_of_so_many_of_a_thousand() {
        let mut tally = Tally::default();
        for (count, latency) in [(500, 1), (400, 8), (90, 64), (9, 100), (1, 4096)] {
            for _ in 0..count {
                let request = HostRequest {
                    number: 0,
                    arrival_ns: 0,
                    op: Op::Read,
                    lpn: 0,
                    pages: 1,
                    first_byte: 0,
                    end_byte: 4096,
                    identity: None,
                    deduplicate: None,
                };
                let (breakdown, verdict) = (Default::default(), Verdict::default());
                tally.answered(&Completion { request, answered_ns: latency, breakdown, verdict });
            }
        }
        let report = latency(tally.of(Op::Read)).expect("there were some");
        let LatencyReport { p50, p90, p99, p999, max, .. } = report;
        assert_eq!([p50, p90, p99, p999, max], [1, 8, 64, 100, 4096]);
    }

    #[test]
    fn reads_from_memory_are_none_of_the_flash() {
        let all = OpsReport { host: 10, gc: 20, wear: 30, map: 40, dedup: 50 };
        let mut hits = [0; 5];
        for (cause, count) in Cause::ALL.into_iter().zip(1..) {
            hits[cause as usize] = count;
        }
        let left = OpsReport { host: 9, gc: 18, wear: 27, map: 36, dedup: 45 };
        assert_eq!(all.less(&hits), left, "in the order of {:?}", Cause::ALL);
    }

    #[test]
    fn a_drive_that_programs_nothing_has_no_known_end() {
        let spec = DriveSpec::preset("ses-slc").expect("a preset");
        let settled = SettledReport { settled: true, ..SettledReport::default() };
        let of = |waf| {
            lifetime(&spec, &WafReport { total: Some(waf), ..WafReport::default() }, &settled)
        };
        assert_eq!(of(0.0).terabytes_written, None);
        let bytes = spec.geometry.capacity_bytes() as f64 * spec.media.rated_pe_cycles as f64;
        assert_eq!(of(2.0).terabytes_written, Some(bytes / 2.0 / 1e12));
        let drive = f64::from(spec.logical_pages()) * f64::from(spec.geometry.page_bytes);
        let per_day = of(2.0).drive_writes_per_day_5_years.expect("an end");
        assert!((per_day - bytes / 2.0 / drive / 1825.0).abs() < 1e-9, "{per_day}");
        let write_amplification = Some(IntervalReport { mean: 2.0, low: 1.0, high: 4.0 });
        let known = SettledReport { write_amplification, ..settled };
        let waf = WafReport { total: Some(2.0), ..WafReport::default() };
        let LifetimeReport { terabytes_written_low, terabytes_written_high, .. } =
            lifetime(&spec, &waf, &known);
        let within = [terabytes_written_low, terabytes_written_high];
        assert_eq!(within, [Some(bytes / 4.0 / 1e12), Some(bytes / 1e12)]);
        let not_settled = lifetime(&spec, &waf, &SettledReport { settled: false, ..known });
        assert_eq!(not_settled, LifetimeReport { rated_pe_cycles: 100_000, ..Default::default() });
    }
}
