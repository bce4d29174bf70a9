//! A bar with rate and time left, drawn only where somebody watches.
//! Room: onefold.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::Printer;

const KNOWN: &str = "{msg} {bar:30} {binary_bytes} of {binary_total_bytes}  \
    {binary_bytes_per_sec}  {eta} left";
const UNKNOWN: &str = "{msg} {spinner} {binary_bytes}  {binary_bytes_per_sec}";

const POINTS: &str = "{msg} {bar:30} {pos} of {len}  {eta} left";
const COUNT: &str = "{msg} {spinner} {human_pos} requests  {per_sec}";

/// Where bars are drawn: on a terminal that somebody watches, or nowhere.
fn target(printer: &Printer) -> ProgressDrawTarget {
    if printer.draws_progress() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    }
}

/// A bar over a number of pieces of work.
pub fn points(printer: &Printer) -> ProgressBar {
    let style = ProgressStyle::with_template(POINTS).expect("a fixed template is well-formed");
    ProgressBar::with_draw_target(Some(0), target(printer)).with_style(style.progress_chars("=> "))
}

/// A spinner over a number of requests that is not known. It goes away when it is finished or
/// dropped.
pub fn requests(printer: &Printer, what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(COUNT).expect("a fixed template is well-formed");
    let bar = ProgressBar::with_draw_target(None, target(printer));
    bar.with_style(style).with_message(what.to_owned())
}

/// A bar over a number of bytes, or a spinner where that is not known. It goes away when it is
/// finished or dropped.
pub fn bytes(printer: &Printer, what: &str, total: Option<u64>) -> ProgressBar {
    let template = if total.is_some() { KNOWN } else { UNKNOWN };
    let style = ProgressStyle::with_template(template).expect("a fixed template is well-formed");
    let bar = ProgressBar::with_draw_target(total, target(printer))
        .with_style(style.progress_chars("=> "))
        .with_message(what.to_owned());
    if printer.draws_progress() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}

const COUNTED: &str = "{msg} {bar:30} {human_pos} of {human_len} WHAT  {per_sec}  {eta} left";

/// A bar over a number of things, or a spinner where that is not known. It goes away when it is
/// finished or dropped.
pub fn counted(printer: &Printer, doing: &str, what: &str, total: Option<u64>) -> ProgressBar {
    let target = if printer.draws_progress() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let template = if total.is_some() { COUNTED.replace("WHAT", what) } else { COUNT.to_owned() };
    let style = ProgressStyle::with_template(&template).expect("a fixed template is well-formed");
    let bar = ProgressBar::with_draw_target(total, target)
        .with_style(style.progress_chars("=> "))
        .with_message(doing.to_owned());
    if printer.draws_progress() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}
