//! The boxes of `onefold top`: times of requests, what is held, memory.
//! Room: onefold.

use onefold_control::jobs::State;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Paragraph, Row, Table};

use super::reading::{Reading, Readings};
use super::view::bold;

/// Bytes in three digits.
pub fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    let digits = usize::from(unit > 0 && value < 100.0);
    format!("{value:.digits$} {}", units[unit])
}

/// A cell that leans to the right, as numbers do.
pub fn right<'a>(text: impl Into<Text<'a>>) -> Text<'a> {
    text.into().right_aligned()
}

fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(short) if short < 1e-3 => format!("{:.0} us", short * 1e6),
        Some(middling) if middling < 1.0 => format!("{:.1} ms", middling * 1e3),
        Some(long) => format!("{long:.1} s"),
    }
}

/// How long requests took lately.
pub fn times(frame: &mut Frame<'_>, area: Rect, readings: &Readings) {
    let row = |verb: &'static str| {
        let of = |share| time(readings.quantile_s(verb, share));
        Row::new([Text::from(verb), right(of(0.5)), right(of(0.99)), right(of(0.999))])
    };
    let rows = ["read", "write", "zero", "trim", "flush"].map(row);
    let head = Row::new(["", "50 %", "99 %", "99.9 %"].map(right)).style(bold());
    let widths =
        [Constraint::Length(5), Constraint::Fill(1), Constraint::Fill(1), Constraint::Fill(1)];
    let block = Block::bordered().title(" times, last 10 s ");
    frame.render_widget(Table::new(rows, widths).header(head).block(block), area);
}

/// A line of a word, a number of bytes and what comes behind it.
fn line(word: &str, bytes: f64, more: &str) -> Line<'static> {
    Line::from(format!("{word:<11}{:>10}  {more}", size(bytes)))
}

/// What the pool holds, or what the drive did, and what is under way.
pub fn holdings(frame: &mut Frame<'_>, area: Rect, readings: &Readings) {
    let Some(now) = readings.last() else { return };
    let mut lines = Vec::new();
    for (word, bytes, ratio) in [
        ("logical", "onefold_pool_logical_bytes", ""),
        ("unique", "onefold_pool_unique_bytes", "onefold_pool_dedup_ratio"),
        ("compressed", "onefold_pool_compressed_bytes", "onefold_pool_compression_ratio"),
        ("stored", "onefold_pool_stored_bytes", "onefold_pool_reduction_ratio"),
        ("written", "onefold_drive_host_written_bytes_total", ""),
    ] {
        let Some(bytes) = now.number(bytes) else { continue };
        let ratio = now.number(ratio).map_or_else(String::new, |ratio| format!("{ratio:.2}x"));
        lines.push(line(word, bytes, &ratio));
    }
    for (word, moved) in [
        ("moving", "onefold_pool_moved_bytes_total"),
        ("punching", "onefold_pool_punched_bytes_total"),
    ] {
        let rate = readings.growth(moved);
        if rate > 0.0 {
            lines.push(line(word, rate, "a second"));
        }
    }
    for job in now.jobs.iter().filter(|job| matches!(job.state, State::Running)) {
        let share = job.progress.as_ref().and_then(|progress| {
            let total = progress.total.filter(|&total| total > 0)?;
            Some(format!(" {} %", progress.done.saturating_mul(100) / total))
        });
        lines.push(Line::from(format!("{}{}", job.operation, share.unwrap_or_default())));
    }
    if now.number("onefold_pool_failed") == Some(1.0) {
        lines.push(Line::from("REFUSES WRITES until reopened").style(bold()));
    }
    let block = Block::bordered().title(" holds, and does ");
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// Memory by part, and the cache on a fast device.
pub fn memory(frame: &mut Frame<'_>, area: Rect, now: &Reading) {
    let mut lines = Vec::new();
    for (word, bytes, most) in [
        ("process", "onefold_process_memory_bytes", ""),
        ("index", "onefold_pool_index_memory_bytes", "onefold_pool_index_memory_max_bytes"),
        ("map", "onefold_pool_map_memory_bytes", "onefold_pool_map_memory_max_bytes"),
        ("read cache", "onefold_pool_cache_memory_bytes", "onefold_pool_cache_memory_max_bytes"),
        ("buffers", "onefold_pool_buffer_memory_bytes", ""),
        ("cache tier", "onefold_cache_cached_bytes", "onefold_cache_capacity_bytes"),
    ] {
        let Some(bytes) = now.number(bytes) else { continue };
        let most = now.number(most).map_or_else(String::new, |most| format!("of {}", size(most)));
        lines.push(line(word, bytes, &most));
    }
    let of = |name| now.number(name);
    if let (Some(reads), Some(hits)) =
        (of("onefold_cache_reads_total"), of("onefold_cache_hits_total"))
    {
        let share = 100.0 * hits / reads.max(1.0);
        let worn = of("onefold_cache_written_last_day_bytes").unwrap_or(0.0);
        let hits = format!("{:<11}{:>10}", "  hits", format!("{share:.0} %"));
        lines.push(Line::from(hits));
        lines.push(line("  wear", worn, "written a day"));
    }
    let block = Block::bordered().title(" memory and cache ");
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_short() {
        let sizes = [0.0, 1023.0, 1024.0, 1536.0, 102_400.0, 250.0 * 1_048_576.0].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "100 KiB", "250 MiB"]);
        assert_eq!(
            [50, 60, 70].map(|power: i32| size(2.0_f64.powi(power))),
            ["1.0 PiB", "1024 PiB", "1048576 PiB"]
        );
        let times = [None, Some(3e-6), Some(1e-3), Some(0.0042), Some(1.0), Some(12.0)].map(time);
        assert_eq!(times, ["-", "3 us", "1.0 ms", "4.2 ms", "1.0 s", "12.0 s"]);
    }
}
