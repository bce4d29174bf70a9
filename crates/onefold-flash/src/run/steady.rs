//! The steady state of endless writes of the workload's kind, before the first request.
//! Room: onefold-flash.   In: an empty drive.   Out: a full one, every logical page written with
//! contents of the workload, and collection under way in every plane.
//!
//! Uniform writes of single pages to a drive without deduplication need no writing: the FTL builds
//! their state. For everything else there are three parts.
//!
//! 1. *The log.* In the steady state, of every A pages programmed one is from the host and A - 1
//!    are copies of pages that survived a whole turn of the log. So as many pages are written as
//!    the drive keeps in use, each with probability 1 - 1/A a page that was not written yet (it
//!    stands for a survivor), else one drawn as the workload draws. What is left unwritten then
//!    follows m' = -(1 - a) - a m / U with a = 1/A, which reaches 0 just when the drive is full:
//!    that is the fixed point of [desnoyers-12] itself, so the blocks hold live pages in the shares
//!    of the steady state, exactly for FIFO and nearly for greedy collection.
//! 2. *The contents.* Where contents repeat and are deduplicated, the log is first made as if the
//!    drive held only as many pages as there are different contents in as many draws as it has
//!    logical pages, all of them different; then every logical page is written with content of the
//!    workload. Without the log first, a drive that programs 4 % of what is written would take 20
//!    overwrites to fill.
//! 3. *Settling.* Windows of writes follow until the share of pages programmed and the
//!    amplification no longer change, up to [`WINDOWS_MAX`].
//!
//! Nothing is timed here: units are idle when policies look, and a drive whose host leaves it idle
//! at times deduplicates between windows all that it can. So a run may drift from this state to its
//! own; `settled.rs` says so.
//! Cost: about two writes per physical page, and of the windows.

use onefold_sim::{RandomStream, RandomStreams};
use onefold_workload::{Generator, Op};

use crate::dedup::Policy;
use crate::ftl::Ftl;
use crate::nand::Nand;
use crate::op::{Cause, OpKind, Untimed};
use crate::run::RunError;
use crate::run::common::Common;
use crate::run::contents::Contents;
use crate::run::request::{HostRequest, SimPage};
use crate::run::settled::drifts;
use crate::spec::{ArrivalKind, DriveSpec, PatternKind, ThinkKind};
use crate::theory;

/// Contents of preconditioned pages are numbered from here, beyond those of any run.
const NUMBERS: u64 = 1 << 62;

/// Most windows of settling.
const WINDOWS_MAX: usize = 64;
/// Windows that are compared, the later half with the earlier one, and of how many the drive is
/// overwritten once.
const COMPARED: usize = 8;
/// Least pages of a window.
const WINDOW_PAGES: u64 = 1 << 13;

/// Writes each page that the workload addresses once, in order, none like another, and lets
/// deduplication look at all of them.
pub(super) fn prefill<N, P>(spec: &DriveSpec, ftl: &mut Ftl<N, P>) -> Result<(), RunError>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    let wrong = |error| RunError::Idle { error };
    for lpn in 0..spec.footprint_pages() as u32 * spec.codewords() {
        let page = N::Page::fresh(NUMBERS + u64::from(lpn));
        ftl.write(lpn, &page, &mut Untimed).map_err(wrong)?;
    }
    while ftl.deduplicate_step(&mut Untimed).map_err(wrong)? {}
    Ok(())
}

/// Fills the drive.
pub(super) fn fill<N, P>(
    spec: &DriveSpec,
    ftl: &mut Ftl<N, P>,
    contents: &mut Contents,
) -> Result<(), RunError>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    let logical = spec.logical_pages();
    let table = &spec.workload;
    let whole = table.pattern == PatternKind::Uniform
        && spec.footprint_pages() == logical.into()
        && table.request_pages == 1;
    let mut writer = Writer::new(spec, ftl, contents)?;
    if whole && spec.dedup.policy == "none" && !spec.packs() {
        return writer.in_an_instant();
    }
    let different = match spec.dedup.policy.as_str() {
        "none" => logical,
        _ => writer.different_contents(),
    };
    if different < logical {
        writer.log(different, From::Nowhere)?;
        writer.write_all()?;
    } else {
        writer.log(logical, From::Workload)?;
    }
    writer.settle()
}

/// Where addresses and contents come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// As the workload draws them.
    Workload,
    /// Any page, with content that nothing else has.
    Nowhere,
}

/// Whoever writes to a drive that is preconditioned.
struct Writer<'a, N: Nand, P> {
    ftl: &'a mut Ftl<N, P>,
    contents: &'a mut Contents,
    draws: Generator,
    random: RandomStream,
    logical: u32,
    request_pages: u32,
    page_bytes: u32,
    /// Of a page, where the map names them.
    codewords: u32,
    common: Common,
    /// Pages, or codewords, written so far: their numbers.
    fresh: u64,
    /// Whether the drive has idle moments.
    idle: bool,
    /// Which pages were written. Kept here: the FTL may have only a part of its map in DRAM.
    written: Vec<bool>,
}

impl<'a, N, P> Writer<'a, N, P>
where
    N: Nand<Page: SimPage>,
    P: Policy<N::Page>,
{
    fn new(
        spec: &DriveSpec,
        ftl: &'a mut Ftl<N, P>,
        contents: &'a mut Contents,
    ) -> Result<Self, RunError> {
        let mut workload = spec.workload_spec();
        workload.requests = u64::MAX;
        workload.seed = spec.seed ^ 0x005e_eded;
        let wrong =
            |error: onefold_workload::generate::SpecError| RunError::Workload(error.to_string());
        let (table, logical) = (&spec.workload, spec.logical_pages());
        let never_idle = table.arrivals == ArrivalKind::Closed
            && (table.think_time == ThinkKind::None || table.think_time_ns == 0);
        Ok(Self {
            ftl,
            contents,
            draws: Generator::new(workload).map_err(wrong)?,
            random: RandomStreams::new(spec.seed).stream("run.steady"),
            logical,
            request_pages: table.request_pages,
            page_bytes: spec.geometry.page_bytes,
            codewords: spec.codewords(),
            common: Common::of(spec),
            fresh: NUMBERS,
            idle: spec.has_idle_moments() && !never_idle,
            written: vec![false; logical as usize],
        })
    }

    fn in_an_instant(&mut self) -> Result<(), RunError> {
        let (contents, page_bytes) = (&mut *self.contents, self.page_bytes);
        let page = |lpn: u32| {
            let request = whole(lpn, 1, page_bytes, contents);
            N::Page::of_key(request.piece(0, page_bytes, NUMBERS + u64::from(lpn)).whole())
        };
        self.ftl.precondition_steady(page).map_err(|error| RunError::Idle { error })
    }

    /// Different contents among as many draws as there are logical pages.
    fn different_contents(&mut self) -> u32 {
        if !self.contents.repeats() {
            return self.logical;
        }
        let requests = self.logical.div_ceil(self.request_pages);
        let next = |_| self.contents.next(None).map(|identity| *identity.as_bytes());
        let mut drawn: Vec<_> = (0..requests).filter_map(next).collect();
        drawn.sort_unstable();
        drawn.dedup();
        (drawn.len() as u32).saturating_mul(self.request_pages).min(self.logical)
    }

    /// The log of a drive that holds the first `pages` logical pages: survivors, and between them
    /// what the host writes. One turn.
    fn log(&mut self, pages: u32, from: From) -> Result<(), RunError> {
        let mapped = f64::from(self.logical) / f64::from(pages);
        let alpha = (self.ftl.effective_alpha() * mapped).max(1.0 + 1e-9);
        let in_use = (alpha * f64::from(pages)) as u64;
        let survivors = 1.0 - 1.0 / theory::fifo(alpha);
        // Pages not written yet, in random order; those that a draw hit meanwhile are passed over.
        let mut left: Vec<u32> = (0..pages).collect();
        self.random.shuffle(&mut left);
        let share = (survivors * (1_u64 << 32) as f64) as u64;
        let mut done = 0;
        while done < in_use {
            if self.random.next_u64() >> 32 < share {
                while left.last().is_some_and(|&lpn| self.written[lpn as usize]) {
                    left.pop();
                }
                if let Some(lpn) = left.pop() {
                    self.write(lpn, 1, from)?;
                    done += 1;
                    continue;
                }
            }
            done += match from {
                From::Workload => u64::from(self.draw()?),
                From::Nowhere => {
                    let lpn = self.random.below(pages.into()) as u32;
                    self.write(lpn, 1, from)?;
                    1
                }
            };
        }
        for lpn in left {
            if !self.written[lpn as usize] {
                self.write(lpn, 1, from)?;
            }
        }
        Ok(())
    }

    /// A request as the workload draws it; its pages.
    fn draw(&mut self) -> Result<u32, RunError> {
        let request = self.draws.next().expect("draws do not end");
        let lpn = (request.offset / u64::from(self.page_bytes)) as u32;
        self.write(lpn, self.request_pages, From::Workload)?;
        Ok(self.request_pages)
    }

    /// Writes every logical page with content of the workload, in random order.
    fn write_all(&mut self) -> Result<(), RunError> {
        let requests = self.logical.div_ceil(self.request_pages);
        let mut order: Vec<u32> = (0..requests).map(|at| at * self.request_pages).collect();
        self.random.shuffle(&mut order);
        for part in order.chunks(order.len().div_ceil(COMPARED)) {
            for &lpn in part {
                let pages = self.request_pages.min(self.logical - lpn);
                self.write(lpn, pages, From::Workload)?;
            }
            self.rest()?;
        }
        Ok(())
    }

    /// Windows of writes until they no longer differ.
    fn settle(&mut self) -> Result<(), RunError> {
        let window = u64::from(self.logical / COMPARED as u32).max(WINDOW_PAGES);
        let (mut shares, mut amplifications) = (Vec::new(), Vec::new());
        let flat = |values: &[f64]| {
            let first = values.len().checked_sub(COMPARED);
            first.is_some_and(|first| !drifts(&values[first..]))
        };
        while shares.len() < WINDOWS_MAX {
            let before = *self.ftl.counters();
            let mut written = 0;
            while written < window {
                written += u64::from(self.draw()?);
            }
            let made = self.ftl.counters().since(&before);
            shares.push(made.ops.of(OpKind::Program, Cause::Host) as f64 / written as f64);
            amplifications.push(made.waf(None));
            self.rest()?;
            if spare_pages(self.ftl) == 0 && flat(&shares) && flat(&amplifications) {
                break;
            }
        }
        Ok(())
    }

    /// An idle moment, if the drive has any.
    fn rest(&mut self) -> Result<(), RunError> {
        let wrong = |error| RunError::Idle { error };
        while self.idle && self.ftl.deduplicate_step(&mut Untimed).map_err(wrong)? {}
        Ok(())
    }

    /// Writes pages of one request, or all codewords of each, one after the other, where the map
    /// names these.
    fn write(&mut self, lpn: u32, pages: u32, from: From) -> Result<(), RunError> {
        let mut none = Contents::Given;
        let contents = if from == From::Workload { &mut *self.contents } else { &mut none };
        let (first, count) = (lpn * self.codewords, pages * self.codewords);
        let bytes = self.page_bytes / self.codewords;
        let request = whole(first, count, bytes, contents);
        self.written[lpn as usize..(lpn + pages) as usize].fill(true);
        for index in 0..count {
            self.fresh += 1;
            let mut key = request.piece(index, bytes, self.fresh).whole();
            if from == From::Workload {
                key = self.common.content(key);
            }
            let written = self.ftl.write(first + index, &N::Page::of_key(key), &mut Untimed);
            written.map_err(|error| RunError::Idle { error })?;
        }
        Ok(())
    }
}

/// A write of whole pages.
fn whole(lpn: u32, pages: u32, page_bytes: u32, contents: &mut Contents) -> HostRequest {
    HostRequest {
        number: 0,
        arrival_ns: 0,
        op: Op::Write,
        lpn,
        pages,
        first_byte: 0,
        end_byte: page_bytes,
        identity: contents.next(None),
        deduplicate: None,
    }
}

/// Free pages beyond those that collection keeps, in all planes.
pub(super) fn spare_pages<N, P>(ftl: &Ftl<N, P>) -> u64
where
    N: Nand,
    P: Policy<N::Page>,
{
    let settings = ftl.settings();
    // Collection begins at the reserve, and frees a block before the next one is begun.
    let kept = settings.gc_idle_blocks.max(settings.gc_reserve_blocks + 1) + 1;
    let beyond = |plane| u64::from(ftl.blocks().free_of(plane).saturating_sub(kept));
    let blocks: u64 = (0..ftl.geometry().planes()).map(beyond).sum();
    blocks * u64::from(ftl.geometry().pages_per_block)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::dedup::{AnyPolicy, Identities, NoDedup};
    use crate::nand::{Identity, IdentityNand, Interruptible as _};
    use crate::run::ready::{nand, site};
    use crate::run::source::Source;
    use crate::run::tests::told::{drive, holds};
    use crate::spec::SpecBuilder;

    type Filled = Ftl<IdentityNand, AnyPolicy<Identities>>;
    type Fill = fn(&DriveSpec, &mut Filled, &mut Contents) -> Result<(), RunError>;

    /// The log alone, as the workload writes.
    fn log(spec: &DriveSpec, ftl: &mut Filled, contents: &mut Contents) -> Result<(), RunError> {
        Writer::new(spec, ftl, contents)?.log(spec.logical_pages(), From::Workload)
    }

    /// The log of a drive of a few pages that are all different, then all pages.
    fn all(spec: &DriveSpec, ftl: &mut Filled, contents: &mut Contents) -> Result<(), RunError> {
        let mut writer = Writer::new(spec, ftl, contents)?;
        let different = writer.different_contents();
        writer.log(different, From::Nowhere)?;
        writer.write_all()
    }

    /// What a drive with such lines holds, and where, once it is filled.
    fn shown(lines: &[&str], fill: Fill) -> String {
        let lines = [lines, &["precondition=\"steady\""]].concat();
        let spec = drive(&lines);
        let (name, options) = (&spec.dedup.policy, &spec.dedup.options);
        let policy = AnyPolicy::new::<Identity>(name, options, &site(&spec), Identities);
        let array = nand(&spec).expect("an array");
        let mut ftl = Ftl::format(array, policy.expect("a policy"), spec.run_settings());
        let ftl = ftl.as_mut().expect("fits");
        let mut contents = Source::new(&spec, None).expect("a source").contents;
        let free = spare_pages(ftl);
        fill(&spec, ftl, &mut contents).expect("fills");
        let mut sum = crc32fast::Hasher::new();
        for lpn in 0..spec.logical_pages() * spec.codewords() {
            let page = ftl.read(lpn, &mut Untimed).expect("reads").expect("every page is written");
            sum.update(&page.key().to_le_bytes());
        }
        let blocks = 0..spec.geometry.blocks();
        let live: Vec<u32> = blocks.map(|block| ftl.blocks().live(block)).collect();
        let (spare, counters) = (spare_pages(ftl), ftl.counters());
        let mut text = format!("# {}\n\n", lines.join(", "));
        writeln!(text, "contents {:08x}, spare {free} {spare}", sum.finalize()).unwrap();
        writeln!(text, "{counters:?}\nlive {live:?}\n").unwrap();
        text
    }

    #[test]
    fn endless_writes_leave_every_page_here() {
        let equal = ["workload.content=\"uniform\"", "workload.content_values=90"];
        let idle = [
            "dedup.policy=\"caftl-offline\"",
            "controller.idle_after_ns=9000",
            "workload.arrivals=\"poisson\"",
        ];
        let codeword = [
            "dedup.policy=\"codeword\"",
            "dedup.codeword_bytes=1024",
            "controller.write_buffer=\"back\"",
            "workload.common_codewords_percent=40",
        ];
        let with = |lines: &[&'static str], more: &[&'static str]| [lines, more].concat();
        let cases: [(Vec<&str>, Fill); 12] = [
            (vec![], fill),
            (vec!["workload.request_pages=3"], fill),
            (equal.to_vec(), fill),
            (vec![], log),
            (vec!["workload.request_pages=3", "workload.pattern=\"zipf\""], log),
            (with(&idle, &equal), all),
            (with(&equal, &["workload.request_pages=3", idle[0]]), all),
            (codeword.to_vec(), log),
            (with(&codeword, &equal), log),
            (with(&codeword, &equal), all),
            (with(&equal, &["dedup.policy=\"crc-compare\""]), all),
            (with(&idle, &equal), fill),
        ];
        let text: String = cases.iter().map(|(lines, fill)| shown(lines, *fill)).collect();
        holds("filled.txt", &text);
    }

    #[test]
    fn only_a_drive_with_pauses_is_idle_between_writes() {
        let rests = |lines: &[&str]| {
            let lines = [lines, &["dedup.policy=\"caftl-offline\""]].concat();
            let spec = drive(&lines);
            let policy = AnyPolicy::new::<Identity>(
                "caftl-offline",
                &spec.dedup.options,
                &site(&spec),
                Identities,
            );
            let nand = nand(&spec).expect("an array");
            let ftl = Ftl::format(nand, policy.expect("a policy"), spec.run_settings());
            let mut ftl = ftl.expect("fits");
            let page = Identity::fresh(1);
            for lpn in [0, 1] {
                ftl.write(lpn, &page, &mut Untimed).expect("writes");
            }
            let mut given = Contents::Given;
            Writer::new(&spec, &mut ftl, &mut given).expect("a writer").rest().expect("rests");
            ftl.counters().offline_pages > 0
        };
        let clock = "controller.idle_after_ns=9000";
        let closed = "workload.arrivals=\"closed\"";
        let thinks = "workload.think_time=\"constant\"";
        assert!(rests(&[clock, "workload.arrivals=\"poisson\""]));
        assert!(rests(&[clock, closed, thinks, "workload.think_time_ns=1"]));
        assert!(!rests(&[clock, closed, thinks, "workload.think_time_ns=0"]));
        assert!(!rests(&[clock, closed, "workload.think_time=\"none\""]));
        let never = ["controller.idle_after_ns=0", "controller.idle_hint=false"];
        assert!(!rests(&[never[0], never[1], "workload.arrivals=\"poisson\""]));
    }

    #[test]
    fn what_an_array_fails_of_while_it_is_filled_is_told() {
        let spec = drive(&["precondition=\"steady\"", "workload.request_pages=2"]);
        let broken = || {
            let nand = IdentityNand::new(spec.geometry);
            let mut ftl = Ftl::format(nand, NoDedup, spec.run_settings()).expect("fits");
            (20..spec.geometry.blocks()).for_each(|block| ftl.nand().mark_bad(block));
            ftl
        };
        let filled = fill(&spec, &mut broken(), &mut Contents::Given);
        assert!(matches!(filled, Err(RunError::Idle { .. })), "{filled:?}");
        let filled = prefill(&spec, &mut broken());
        assert!(matches!(filled, Err(RunError::Idle { .. })), "{filled:?}");
    }

    #[test]
    fn every_page_of_a_long_request_is_overwritten() {
        let text = "
            precondition = 'steady'
            geometry.blocks_per_plane = 32
            geometry.pages_per_block = 16
            ftl.over_provisioning = 0.5
            ftl.gc_reserve_blocks = 2
            workload.request_pages = 4";
        let spec = SpecBuilder::preset("ses-slc").and_then(|builder| builder.file("drive", text));
        let spec = spec.and_then(SpecBuilder::build).expect("a drive");
        let nand = IdentityNand::new(spec.geometry);
        let mut ftl = Ftl::format(nand, NoDedup, spec.run_settings()).expect("fits");
        let mut source = Source::new(&spec, None).expect("a source");
        fill(&spec, &mut ftl, &mut source.contents).expect("fills");
        // Pages are numbered as they are written, those of one request one after the other.
        let mut key = |lpn| ftl.read(lpn, &mut Untimed).expect("reads").expect("written").key();
        let pages: Vec<u128> = (0..spec.footprint_pages() as u32 / 4 * 4).map(&mut key).collect();
        let together = pages.chunks(4).filter(|four| four.windows(2).all(|p| p[1] == p[0] + 1));
        assert!(together.count() * 10 > pages.len() / 4 * 9);
    }
}
