//! Frame error rate against raw bit error rate, for LDPC and BCH: a CSV and a plot.
//! Room: onefold-code.
//! Run: `cargo run --release -p onefold-code --example fer -- [--quick] [--resume]
//! [--cpu-seconds N] [CSV [SVG]]` from the root of the repository; defaults
//! experiments/codes/fer.csv and docs/fer.svg. A point ends at 100 failures, 1e6 codewords or 45
//! CPU seconds, whichever is first, and the CSV says which. Both files are written after every
//! point; `--resume` keeps the points that the CSV has.
//! Every codeword is random data; hard errors are independent bit flips; soft values are 8-level
//! reads of a Gaussian channel with the same raw bit error rate.

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

mod plot;

use std::fmt::Write as _;

use onefold_code::{Bch, CodeError, Decoded, LdpcDecoder, Rng, ldpc_by_name};
use rustix::time::{ClockId, clock_gettime};

const RBER: [f64; 10] = [1e-4, 2e-4, 3e-4, 5e-4, 7e-4, 1e-3, 1.25e-3, 1.5e-3, 2e-3, 3e-3];

/// One measured or computed point.
#[derive(Clone)]
pub struct Point {
    curve: String,
    decoder: String,
    rber: f64,
    codewords: u64,
    failures: u64,
    undetected: u64,
    fer: f64,
    iterations: f64,
    ended_by: String,
}

enum Decoder {
    Flip(LdpcDecoder),
    Hard(LdpcDecoder),
    Soft(LdpcDecoder),
    Bch(Bch),
}

struct Limits {
    failures: u64,
    codewords: u64,
    cpu_seconds: f64,
}

fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

struct Arguments {
    quick: bool,
    resume: bool,
    cpu_seconds: f64,
    csv: String,
    svg: String,
}

impl Arguments {
    fn read() -> Self {
        let mut this = Self {
            quick: false,
            resume: false,
            cpu_seconds: 45.0,
            csv: "experiments/codes/fer.csv".into(),
            svg: "docs/fer.svg".into(),
        };
        let mut paths = vec![&mut this.svg, &mut this.csv];
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => this.quick = true,
                "--resume" => this.resume = true,
                "--cpu-seconds" => {
                    let value = arguments.next().and_then(|a| a.parse().ok());
                    this.cpu_seconds = value.unwrap_or_else(|| fail("--cpu-seconds: a number"));
                }
                path if !path.starts_with('-') && !paths.is_empty() => {
                    path.clone_into(paths.pop().expect("not empty"));
                }
                _ => fail("accepted: [--quick] [--resume] [--cpu-seconds N] [CSV [SVG]]"),
            }
        }
        this
    }
}

fn fail(message: &str) -> ! {
    eprintln!("fer: {message}");
    std::process::exit(2);
}

fn main() -> Result<(), CodeError> {
    let arguments = Arguments::read();
    let limits = if arguments.quick {
        Limits { failures: 10, codewords: 200, cpu_seconds: 1.0 }
    } else {
        Limits { failures: 100, codewords: 1_000_000, cpu_seconds: arguments.cpu_seconds }
    };
    let ldpc = |name| ldpc_by_name(name).map(LdpcDecoder::new);
    let curves: Vec<(&str, &str, Decoder)> = vec![
        ("bch-t18-1k", "algebraic", Decoder::Bch(Bch::t18_1k())),
        ("ses-33x256", "min-sum hard", Decoder::Hard(ldpc("ses-33x256")?)),
        ("qc-1k-32/33", "bit flipping", Decoder::Flip(ldpc("qc-1k-32/33")?)),
        ("qc-1k-32/33", "min-sum hard", Decoder::Hard(ldpc("qc-1k-32/33")?)),
        ("qc-1k-32/33", "min-sum soft", Decoder::Soft(ldpc("qc-1k-32/33")?)),
        ("qc-4k-32/33", "min-sum hard", Decoder::Hard(ldpc("qc-4k-32/33")?)),
        ("qc-4k-32/33", "min-sum soft", Decoder::Soft(ldpc("qc-4k-32/33")?)),
    ];
    let old = if arguments.resume { load(&arguments.csv) } else { Vec::new() };
    let mut points = computed_bch();
    for (curve, name, mut decoder) in curves {
        for rber in RBER {
            let known = old.iter().find(|p| {
                p.curve == curve && p.decoder == name && (p.rber / rber - 1.0).abs() < 1e-6
            });
            let point = match known {
                Some(point) => point.clone(),
                None => measure(curve, name, &mut decoder, rber, &limits)?,
            };
            eprintln!("{}", csv_line(&point));
            points.push(point);
            save(&points, &arguments.csv, &arguments.svg);
        }
    }
    println!("hard-decision Shannon limit at rate 32/33: {:.3e}", shannon_limit(32.0 / 33.0));
    Ok(())
}

/// The points of an earlier run.
fn load(path: &str) -> Vec<Point> {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|e| fail(&format!("cannot read {path}: {e}")));
    let point = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        Some(Point {
            curve: (*fields.first()?).to_owned(),
            decoder: (*fields.get(1)?).to_owned(),
            rber: fields.get(2)?.parse().ok()?,
            codewords: fields.get(3)?.parse().ok()?,
            failures: fields.get(4)?.parse().ok()?,
            undetected: fields.get(5)?.parse().ok()?,
            fer: fields.get(6)?.parse().ok()?,
            iterations: fields.get(7)?.parse().ok()?,
            ended_by: (*fields.get(8)?).to_owned(),
        })
    };
    text.lines().skip(1).filter_map(point).collect()
}

/// Writes the data and the plot, or ends the program.
fn save(points: &[Point], csv_path: &str, svg_path: &str) {
    let mut csv = String::from(
        "code,decoder,rber,codewords,failures,undetected,fer,mean_iterations,ended_by\n",
    );
    for point in points {
        let _ = writeln!(csv, "{}", csv_line(point));
    }
    let write = |path: &str, text: &str| {
        std::fs::write(path, text).unwrap_or_else(|e| fail(&format!("cannot write {path}: {e}")));
    };
    write(csv_path, &csv);
    write(svg_path, &plot::svg(points));
}

fn csv_line(p: &Point) -> String {
    format!(
        "{},{},{:.2e},{},{},{},{:.4e},{:.2},{}",
        p.curve,
        p.decoder,
        p.rber,
        p.codewords,
        p.failures,
        p.undetected,
        p.fer,
        p.iterations,
        p.ended_by
    )
}

/// Probability of more than 18 errors in 8444 bits.
fn computed_bch() -> Vec<Point> {
    const BITS: f64 = 8444.0;
    let point = |rber: f64| {
        let mut term = (BITS * (1.0 - rber).ln()).exp();
        let mut tail = 0.0;
        for k in 1..400 {
            term *= (BITS - f64::from(k) + 1.0) / f64::from(k) * rber / (1.0 - rber);
            tail += if k > 18 { term } else { 0.0 };
        }
        Point {
            curve: "bch-t18-1k".into(),
            decoder: "computed".into(),
            rber,
            codewords: 0,
            failures: 0,
            undetected: 0,
            fer: tail,
            iterations: 0.0,
            ended_by: "computed".into(),
        }
    };
    RBER.into_iter().map(point).collect()
}

/// Raw bit error rate at which the binary symmetric channel's capacity equals `rate`.
pub fn shannon_limit(rate: f64) -> f64 {
    let entropy = |p: f64| -p * p.log2() - (1.0 - p) * (1.0 - p).log2();
    let (mut low, mut high) = (1e-9, 0.5);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if entropy(middle) < 1.0 - rate { low = middle } else { high = middle }
    }
    low
}

fn measure(
    curve: &str,
    name: &str,
    decoder: &mut Decoder,
    rber: f64,
    limits: &Limits,
) -> Result<Point, CodeError> {
    let (data_bytes, parity_bytes) = match decoder {
        Decoder::Flip(d) | Decoder::Hard(d) | Decoder::Soft(d) => {
            (d.code().data_bytes(), d.code().parity_bytes())
        }
        Decoder::Bch(code) => (code.data_bytes(), code.parity_bytes()),
    };
    let mut rng = Rng::new(rber.to_bits());
    let mut sent = (vec![0u8; data_bytes], vec![0u8; parity_bytes]);
    let mut soft = vec![0i8; (data_bytes + parity_bytes) * 8];
    let reads = SoftReads::new(rber);
    let (mut codewords, mut failures, mut undetected, mut iterations) = (0, 0, 0, 0);
    let start = cpu_seconds();
    let ended_by = loop {
        rng.fill(&mut sent.0);
        match decoder {
            Decoder::Flip(d) | Decoder::Hard(d) | Decoder::Soft(d) => {
                d.code().encode(&sent.0, &mut sent.1)?;
            }
            Decoder::Bch(code) => code.encode(&sent.0, &mut sent.1)?,
        }
        let (mut data, mut parity) = sent.clone();
        let said = receive(decoder, &reads, &mut rng, &mut soft, &mut data, &mut parity)?;
        codewords += 1;
        if let Decoder::Flip(d) | Decoder::Hard(d) | Decoder::Soft(d) = &*decoder {
            iterations += d.iterations() as u64;
        }
        if data != sent.0 {
            failures += 1;
            undetected += u64::from(said != Decoded::Failed);
        }
        if failures >= limits.failures {
            break "failures";
        }
        if codewords >= limits.codewords {
            break "codewords";
        }
        if codewords % 64 == 0 && cpu_seconds() - start > limits.cpu_seconds {
            break "time";
        }
    };
    Ok(Point {
        curve: curve.to_owned(),
        decoder: name.to_owned(),
        rber,
        codewords,
        failures,
        undetected,
        fer: failures as f64 / codewords as f64,
        iterations: iterations as f64 / codewords as f64,
        ended_by: ended_by.to_owned(),
    })
}

/// Sends a codeword through the channel and decodes it in place.
fn receive(
    decoder: &mut Decoder,
    reads: &SoftReads,
    rng: &mut Rng,
    soft: &mut [i8],
    data: &mut [u8],
    parity: &mut [u8],
) -> Result<Decoded, CodeError> {
    if let Decoder::Soft(d) = decoder {
        reads.receive(rng, data, parity, soft);
        return d.decode_soft(soft, data, parity);
    }
    rng.flip_bits(data, reads.rber);
    rng.flip_bits(parity, reads.rber);
    match decoder {
        Decoder::Flip(d) => d.decode_flip(data, parity),
        Decoder::Hard(d) | Decoder::Soft(d) => d.decode(data, parity),
        Decoder::Bch(code) => {
            // The unused bits of the last byte are not stored.
            let used = code.parity_bits() % 8;
            if used != 0 {
                parity[code.parity_bytes() - 1] &= (1 << used) - 1;
            }
            code.decode(data, parity)
        }
    }
}

/// A Gaussian channel read at seven thresholds: 0 and plus or minus 0.15, 0.30, 0.45 of the mean.
struct SoftReads {
    rber: f64,
    /// Probability of each of the eight cells, strongest correct first, strongest wrong last.
    cells: [f64; 8],
    /// Value of each cell for a 0 bit.
    values: [i8; 8],
}

impl SoftReads {
    fn new(rber: f64) -> Self {
        let tail = |x: f64| 0.5 * erfc(x / std::f64::consts::SQRT_2);
        // Standard deviation at which a sign is wrong with probability rber, the mean being 1.
        let (mut low, mut high) = (0.05, 3.0);
        for _ in 0..100 {
            let s = f64::midpoint(low, high);
            if tail(1.0 / s) < rber { low = s } else { high = s }
        }
        let bounds = [0.45, 0.3, 0.15, 0.0, -0.15, -0.3, -0.45];
        // Probability of a read above each bound.
        let above: Vec<f64> = bounds.iter().map(|b| tail((b - 1.0) / low)).collect();
        let cells: [f64; 8] = std::array::from_fn(|i| {
            let upper = if i == 0 { 0.0 } else { above[i - 1] };
            if i == 7 { 1.0 - above[6] } else { above[i] - upper }
        });
        let values = std::array::from_fn(|i| {
            (2.0 * (cells[i] / cells[7 - i].max(1e-300)).ln()).round().clamp(-31.0, 31.0) as i8
        });
        Self { rber, cells, values }
    }

    /// Flips the bits that read wrong and writes the soft values.
    fn receive(&self, rng: &mut Rng, data: &mut [u8], parity: &mut [u8], soft: &mut [i8]) {
        let bits = data.iter().chain(parity.iter()).flat_map(|&b| (0..8).map(move |i| b >> i & 1));
        for (value, bit) in soft.iter_mut().zip(bits) {
            *value = if bit == 1 { -self.values[0] } else { self.values[0] };
        }
        // Only the cells other than the strongest correct one are drawn.
        let other = 1.0 - self.cells[0];
        let mut at = rng.gap(other);
        while at < soft.len() {
            let mut u = rng.unit() * other;
            let cell = (1..7)
                .find(|&i| {
                    u -= self.cells[i];
                    u < 0.0
                })
                .unwrap_or(7);
            let n = data.len();
            let byte = if at / 8 < n { &mut data[at / 8] } else { &mut parity[at / 8 - n] };
            let sign = if *byte >> (at % 8) & 1 == 1 { -1 } else { 1 };
            soft[at] = sign * self.values[cell];
            if cell >= 4 {
                *byte ^= 1 << (at % 8);
            }
            at += 1 + rng.gap(other);
        }
    }
}

/// Complementary error function, relative error below 1.2e-7 (Chebyshev fit of Numerical Recipes).
fn erfc(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.5 * x.abs());
    let series = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let exponent = series.iter().rev().fold(0.0, |sum, c| sum * t + c) - x * x;
    let value = t * exponent.exp();
    if x >= 0.0 { value } else { 2.0 - value }
}
