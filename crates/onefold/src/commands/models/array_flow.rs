//! Where bytes went in a run of `onefold array run`, as a picture.
//! Room: onefold.
//! Left to right: what clients wrote, split until each byte is a duplicate, compressed away or
//! stored; heights are bytes. Below: what crossed the host's memory for each client byte.

use std::fmt::Write as _;

use onefold_array::Report;
use onefold_array::run::{FlowLink, flow};

use crate::table::percent;

const WIDTH: f64 = 800.0;
const TOP: f64 = 60.0;
/// Height of everything that was written.
const HEIGHT: f64 = 260.0;
const BOX: f64 = 14.0;
/// Where the three columns are.
const COLUMNS: [f64; 3] = [40.0, 300.0, 540.0];
/// Space between boxes of a column.
const GAP: f64 = 26.0;
const ROW: f64 = 22.0;

const STYLE: &str = "\
<style>
text { font: 13px Helvetica, Arial, 'DejaVu Sans', sans-serif; fill: #222 }
.title { font-size: 16px; font-weight: bold }
.paper { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd }
  .paper { fill: #16181d }
}
</style>
";

/// A box of the picture.
struct Place {
    name: &'static str,
    column: usize,
    colour: &'static str,
}

const PLACES: [Place; 5] = [
    Place { name: "written", column: 0, colour: "#0072b2" },
    Place { name: "duplicates", column: 2, colour: "#009e73" },
    Place { name: "unique", column: 1, colour: "#7a5195" },
    Place { name: "compressed away", column: 2, colour: "#56b4e9" },
    Place { name: "stored", column: 2, colour: "#e6760a" },
];

/// The picture as SVG.
pub fn svg(report: &Report) -> String {
    let links = flow(report.bytes_of_all);
    let memory = &report.memory_by_cause;
    let below = TOP + HEIGHT + 2.0 * GAP + 40.0;
    let height = below + ROW * (memory.len() as f64 + 1.0) + 20.0;
    let mut out = String::new();
    let name = escape(&report.name);
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"Bytes of {name}\">"
    );
    out.push_str(STYLE);
    let _ = writeln!(out, "<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>");
    let _ = writeln!(
        out,
        "<text class=\"title\" x=\"40\" y=\"32\">{name}: where {} GB that were written went</text>",
        gigabytes(report.bytes_of_all.client_in)
    );
    if report.bytes_of_all.client_in > 0 {
        sankey(&mut out, &links);
    } else {
        let _ = writeln!(out, "<text x=\"40\" y=\"{TOP}\">Nothing was written.</text>");
    }
    bars(&mut out, report, below);
    out.push_str("</svg>\n");
    out
}

/// Bytes that pass through a place.
fn amount(links: &[FlowLink], name: &str) -> u64 {
    let of = |end: fn(&FlowLink) -> &'static str| {
        links.iter().filter(|link| end(link) == name).map(|link| link.bytes).sum::<u64>()
    };
    of(|link| link.to).max(of(|link| link.from))
}

/// The name of a place; the first one has that of what all bytes come from.
fn named(place: &Place, written: &'static str) -> &'static str {
    if place.column == 0 { written } else { place.name }
}

fn sankey(out: &mut String, links: &[FlowLink]) {
    let written = links[0].from;
    let total = amount(links, written).max(1) as f64;
    let tall = |bytes: u64| HEIGHT * bytes as f64 / total;
    let mut free = [TOP; COLUMNS.len()];
    // The unique part begins below the duplicates, so that no two bands cross.
    free[1] = TOP + tall(amount(links, "duplicates")) + GAP;
    let mut tops = Vec::new();
    for place in &PLACES {
        tops.push(free[place.column]);
        free[place.column] += tall(amount(links, named(place, written))) + GAP;
    }
    let at =
        |name: &str| PLACES.iter().position(|place| named(place, written) == name).unwrap_or(0);
    let mut leaves = tops.clone();
    for link in links.iter().filter(|link| link.bytes > 0) {
        let (from, to) = (at(link.from), at(link.to));
        let (x0, x1) = (COLUMNS[PLACES[from].column] + BOX, COLUMNS[PLACES[to].column]);
        let (y0, y1, h) = (leaves[from], tops[to], tall(link.bytes));
        leaves[from] += h;
        let middle = f64::midpoint(x0, x1);
        let _ = writeln!(
            out,
            "<path fill=\"{}\" fill-opacity=\"0.35\" d=\"M{x0} {y0:.1} C{middle} {y0:.1} {middle} \
             {y1:.1} {x1} {y1:.1} V{:.1} C{middle} {:.1} {middle} {:.1} {x0} {:.1} Z\"/>",
            PLACES[to].colour,
            y1 + h,
            y1 + h,
            y0 + h,
            y0 + h
        );
    }
    for (place, top) in PLACES.iter().zip(&tops) {
        let name = named(place, written);
        let (bytes, x) = (amount(links, name), COLUMNS[place.column]);
        let h = tall(bytes).max(1.0);
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{top:.1}\" width=\"{BOX}\" height=\"{h:.1}\" fill=\"{}\"/>",
            place.colour
        );
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{:.1}\">{}: {} GB, {}</text>",
            x + BOX + 8.0,
            top + (h / 2.0).max(6.0) + 4.0,
            name,
            gigabytes(bytes),
            percent(bytes as f64 / total)
        );
    }
}

fn bars(out: &mut String, report: &Report, top: f64) {
    let _ = writeln!(
        out,
        "<text class=\"title\" x=\"40\" y=\"{:.1}\">The host's memory: {:.2} bytes for each client \
         byte</text>",
        top - 12.0,
        report.memory_bytes_per_client_byte
    );
    let most = report.memory_by_cause.first().map_or(1.0, |row| row.amount);
    for (at, row) in report.memory_by_cause.iter().enumerate() {
        let y = top + ROW * at as f64;
        let long = 420.0 * row.amount / most;
        let _ = writeln!(
            out,
            "<text x=\"40\" y=\"{:.1}\">{}</text>\n\
             <rect x=\"140\" y=\"{y:.1}\" \
             width=\"{long:.1}\" height=\"{}\" fill=\"#8c8c8c\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\">{:.2}, {}</text>",
            y + 13.0,
            row.name,
            ROW - 6.0,
            148.0 + long,
            y + 13.0,
            row.amount,
            percent(row.share)
        );
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.3}", bytes as f64 / 1e9)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
