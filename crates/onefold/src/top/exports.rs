//! The list of exports of `onefold top`.
//! Room: onefold.

use std::collections::BTreeSet;

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Text;
use ratatui::widgets::{Block, Row, Table};

use super::boxes::{right, size};
use super::keys::Looking;
use super::reading::Readings;
use super::view::bold;

/// What is asked of an export in a second.
struct Busy<'a> {
    name: &'a str,
    /// Bytes and requests, read and written.
    read: (f64, f64),
    written: (f64, f64),
}

impl Busy<'_> {
    fn bytes(&self) -> f64 {
        self.read.0 + self.written.0
    }
}

/// All exports, in the order that is wished.
fn all<'a>(readings: &'a Readings, looking: &Looking) -> Vec<Busy<'a>> {
    let Some(now) = readings.last() else { return Vec::new() };
    let rows = now.rows("onefold_export_requests_total").iter();
    let names: BTreeSet<&str> = rows.filter_map(|row| row["export"].as_str()).collect();
    let of = |name, verb| {
        let rate = |metric| readings.rate(metric, verb, Some(name));
        (rate("onefold_export_bytes_total"), rate("onefold_export_requests_total"))
    };
    let busy = |name| Busy { name, read: of(name, "read"), written: of(name, "write") };
    let mut all: Vec<Busy<'_>> = names.into_iter().map(busy).collect();
    if !looking.by_name {
        // The busiest first; those that are equally so by their names.
        all.sort_by(|a, b| b.bytes().total_cmp(&a.bytes()));
    }
    all
}

/// Draw the list, from the first export on that is looked at.
pub fn draw(frame: &mut Frame<'_>, area: Rect, readings: &Readings, looking: &mut Looking) {
    let all = all(readings, looking);
    // Borders and the head are no rows.
    let room = usize::from(area.height.saturating_sub(3));
    looking.first = looking.first.min(all.len().saturating_sub(room.max(1)));
    let row = |busy: &Busy<'_>| {
        let rate = |(bytes, _): (f64, f64)| format!("{}/s", size(bytes));
        let count = |(_, requests): (f64, f64)| format!("{requests:.0}/s");
        Row::new([
            Text::from(busy.name.to_owned()),
            right(rate(busy.read)),
            right(count(busy.read)),
            right(rate(busy.written)),
            right(count(busy.written)),
        ])
    };
    let heads = ["read", "requests", "written", "requests"].map(right);
    let head = Row::new([vec![Text::from("export")], heads.to_vec()].concat()).style(bold());
    let widths = [
        Constraint::Fill(2),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Fill(1),
    ];
    let title = format!(" {} ", title(all.len(), looking));
    let rows = all[looking.first..].iter().take(room).map(row);
    let table = Table::new(rows, widths).header(head);
    frame.render_widget(table.block(Block::bordered().title(title)), area);
}

/// How many there are, in which order, and from which on they are shown.
fn title(exports: usize, looking: &Looking) -> String {
    let order = if looking.by_name { "by name" } else { "busiest first" };
    let from =
        if looking.first > 0 { format!(", from {}", looking.first + 1) } else { String::new() };
    let plural = if exports == 1 { "" } else { "s" };
    format!("{exports} export{plural}, {order}{from}")
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    use super::super::reading::Reading;
    use super::*;

    #[test]
    fn the_busiest_come_first_or_all_by_name() {
        let at = |second: u64| {
            let row = |export: &str, verb: &str, rate: u64| {
                let value = rate * second;
                json!({ "export": export, "verb": verb, "value": value })
            };
            let read = ["a", "c"].map(|export| row(export, "read", 5));
            let [a, c] = read;
            let rows = json!([a, row("b", "read", 50), c, row("d", "write", 20)]);
            let metric = |name: &str| json!({ "name": name, "value": rows.clone() });
            let names = ["onefold_export_bytes_total", "onefold_export_requests_total"];
            let metrics = names.map(metric);
            let told = json!({ "time_bounds_seconds": [], "metrics": metrics });
            Reading::of(second as f64, told).unwrap()
        };
        let mut readings = Readings::default();
        readings.push(at(0));
        readings.push(at(1));
        let names = |by_name| {
            let looking = Looking { by_name, ..Looking::default() };
            all(&readings, &looking).iter().map(|busy| busy.name).collect::<String>()
        };
        assert_eq!((names(false).as_str(), names(true).as_str()), ("bdac", "abcd"));
        // A list of three rows shows the busiest three, or the last three from where it was moved.
        let mut terminal = Terminal::new(TestBackend::new(60, 6)).unwrap();
        let mut shown = |first| {
            let mut looking = Looking { first, ..Looking::default() };
            let drawn = terminal.draw(|frame| draw(frame, frame.area(), &readings, &mut looking));
            let buffer = drawn.unwrap().buffer.clone();
            let first_letters = (2..5).map(|line| buffer[(1, line)].symbol().to_owned());
            (first_letters.collect::<String>(), looking.first)
        };
        assert_eq!(shown(0), ("bda".to_owned(), 0));
        assert_eq!([shown(1), shown(9)], [("dac".to_owned(), 1), ("dac".to_owned(), 1)]);
        // Where there is no room for any, the last one would be the first.
        let mut low = Terminal::new(TestBackend::new(60, 3)).unwrap();
        let mut looking = Looking { first: 9, ..Looking::default() };
        low.draw(|frame| draw(frame, frame.area(), &readings, &mut looking)).unwrap();
        assert_eq!(looking.first, 3);
        let title = |exports, first, by_name| {
            title(exports, &Looking { by_name, first, ..Looking::default() })
        };
        assert_eq!(title(1, 0, false), "1 export, busiest first");
        assert_eq!(title(2, 1, true), "2 exports, by name, from 2");
    }
}
