//! The whole screen of `onefold top`: what is where, at any size of the terminal.
//! Room: onefold.   In: what a server said lately.   Out: a screen.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Block, Paragraph, Sparkline};

use super::boxes;
use super::exports;
use super::keys::Looking;
use super::reading::Readings;

/// Colours of reads and writes, which two thirds of terminals show well on light and dark.
const READ: Color = Color::Cyan;
const WRITE: Color = Color::Magenta;
/// Lines of the boxes in the middle, with their borders.
const MIDDLE: u16 = 10;
/// Columns from which on three boxes stand beside each other.
const WIDE: u16 = 96;
/// What the last line says.
const FOOT: &str = "q leave   p hold   s sort   arrows move the list";

/// What is drawn.
pub struct Scene<'a> {
    /// What the server was called.
    pub title: &'a str,
    /// Whether it answers.
    pub state: &'a str,
    /// What it said.
    pub readings: &'a Readings,
    /// Whether there are colours.
    pub colours: bool,
}

/// Emphasis that needs no colour.
pub fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Draw all of it. `looking` is put right where it looks past the end of the list.
pub fn draw(frame: &mut Frame<'_>, scene: &Scene<'_>, looking: &mut Looking) {
    let Some(now) = scene.readings.last() else {
        let words = format!("{}   {}", scene.title, scene.state);
        frame.render_widget(Paragraph::new(words), frame.area());
        return;
    };
    let area = frame.area();
    let lines = if area.height >= 26 { 6 } else { 3 };
    let [head, lines, middle, list, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(lines),
        Constraint::Length(MIDDLE),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(area);
    let clients = now.number("onefold_connections").unwrap_or(0.0) as u64;
    let plural = if clients == 1 { "" } else { "s" };
    let words = format!("{}   {}   {clients} client{plural}", scene.title, scene.state);
    frame.render_widget(Paragraph::new(words).style(bold()), head);
    let [left, right] = Layout::horizontal([Constraint::Fill(1); 2]).areas(lines);
    throughput(frame, left, scene, ("read", READ));
    throughput(frame, right, scene, ("write", WRITE));
    if area.width >= WIDE {
        let [left, between, right] = Layout::horizontal([Constraint::Fill(1); 3]).areas(middle);
        boxes::times(frame, left, scene.readings);
        boxes::holdings(frame, between, scene.readings);
        boxes::memory(frame, right, now);
    } else {
        let [left, right] = Layout::horizontal([Constraint::Fill(1); 2]).areas(middle);
        boxes::times(frame, left, scene.readings);
        boxes::holdings(frame, right, scene.readings);
    }
    exports::draw(frame, list, scene.readings, looking);
    frame.render_widget(Paragraph::new(FOOT).style(Style::new().dim()), foot);
}

fn throughput(frame: &mut Frame<'_>, area: Rect, scene: &Scene<'_>, (verb, colour): (&str, Color)) {
    let readings = scene.readings;
    let rate = readings.rate("onefold_export_bytes_total", verb, None);
    let requests = readings.rate("onefold_export_requests_total", verb, None);
    let title = format!(" {verb} {}/s, {requests:.0}/s ", boxes::size(rate));
    let block = Block::bordered().title(title);
    let rates = readings.rates("onefold_export_bytes_total", verb);
    // The newest are on the right.
    let width = usize::from(area.width.saturating_sub(2));
    let mut shown = vec![0; width.saturating_sub(rates.len())];
    shown.extend(&rates[rates.len().saturating_sub(width)..]);
    let style = if scene.colours { Style::new().fg(colour) } else { Style::new() };
    frame.render_widget(Sparkline::default().block(block).data(shown).style(style), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Cell;

    use super::super::reading::Reading;
    use super::super::reading::tests::told;
    use super::*;

    fn screen(
        (width, height): (u16, u16),
        readings: &Readings,
        looking: &mut Looking,
    ) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let scene = Scene { title: "pool demo", state: "live", readings, colours: false };
        let drawn = terminal.draw(|frame| draw(frame, &scene, looking));
        let buffer = drawn.unwrap().buffer.clone();
        let cells: Vec<&str> = buffer.content().iter().map(Cell::symbol).collect();
        cells.chunks(width.into()).map(|line| line.concat().trim_end().to_owned()).collect()
    }

    #[test]
    fn what_is_drawn_is_what_was_said() {
        let (mut readings, mut looking) = (Readings::default(), Looking::default());
        assert_eq!(screen((40, 3), &readings, &mut looking)[0], "pool demo   live");
        readings.push(Reading::of(0.0, told(7, 0, 0)).unwrap());
        readings.push(Reading::of(1.0, told(7, 50, 0)).unwrap());
        let lines = screen((110, 30), &readings, &mut looking);
        let all = lines.join("\n");
        for words in [
            "pool demo   live   1 client",
            "read 0 B/s, 0/s",
            "write 50.0 MiB/s, 50/s",
            "write      2 us",
            "logical       4.0 GiB",
            "unique        2.0 GiB  2.00x",
            "stored        1.0 GiB  4.00x",
            "pool scrub 25 %",
            "moving       50.0 MiB  a second",
            "index         3.0 MiB",
            "cache tier    8.0 MiB",
            "  hits           75 %",
            "main",
            "50.0 MiB/s",
            "q leave",
        ] {
            assert!(all.contains(words), "'{words}' is in\n{all}");
        }
        assert!(!all.contains("REFUSES"), "it takes writes:\n{all}");
        assert!(!all.contains("punching"), "nothing is given back where it lies:\n{all}");
        assert!(lines[5].ends_with("\u{2588}\u{2502}"), "a full bar at the right:\n{all}");
        for colours in [false, true] {
            let mut terminal = Terminal::new(TestBackend::new(110, 30)).unwrap();
            let scene = Scene { title: "p", state: "live", readings: &readings, colours };
            let drawn = terminal.draw(|frame| draw(frame, &scene, &mut looking)).unwrap();
            assert_eq!(drawn.buffer.content().iter().any(|cell| cell.fg == WRITE), colours);
        }
        // From 26 lines on there is room to see how it went.
        for (height, middle) in [(25, 4), (26, 7)] {
            let lines = screen((110, height), &readings, &mut looking);
            assert!(lines[middle].contains("times, last 10 s"), "{}", lines.join("\n"));
        }
        // From 96 columns on there is room for memory.
        let has_memory = |width| {
            let mut looking = Looking::default();
            screen((width, 24), &readings, &mut looking).concat().contains("memory and cache")
        };
        assert_eq!([95, 96].map(has_memory), [false, true]);
        // However small or large the screen is, and however far the list was moved.
        looking.first = 1000;
        for size in [(1, 1), (20, 5), (300, 2), (80, 24), (96, 26), (2, 200)] {
            screen(size, &readings, &mut looking);
        }
        assert_eq!(looking.first, 0, "there is one export");
        assert!(screen((80, 24), &readings, &mut looking).join("\n").contains("main"));
    }
}
