//! Speed of the hot loops, per CPU second of one thread, beside memcpy and a CRC-32.
//! Room: onefold-code.
//! Run: `cargo bench -p onefold-code [-- --quick]`; `--quick` is a smoke test of every row.
//! Figures are medians of interleaved rounds, so that a busy machine disturbs all rows alike.

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]

use std::hint::black_box;

use onefold_code::{
    Bch, CodeError, Kernel, LdpcDecoder, Lfsr, PageAddress, PageCode, ParityFingerprint, QcLdpc,
    Rng, Truncation, ldpc_by_name, preset,
};
use rustix::time::{ClockId, clock_gettime};

const PAGE: usize = 8192;

/// One row: what is measured, the work of one call, and the call.
struct Row {
    name: String,
    unit: Unit,
    call: Box<dyn FnMut()>,
    rounds: Vec<f64>,
}

#[derive(Clone, Copy)]
enum Unit {
    /// Bytes of data per call, shown as GB/s.
    Bytes(usize),
    /// Items per call, shown per second and as time per item.
    Items(usize),
}

fn main() -> Result<(), CodeError> {
    let quick = std::env::args().any(|a| a == "--quick");
    let (rounds, round_s) = if quick { (1, 0.0) } else { (9, 0.03) };
    let mut rows = references();
    scrambling(&mut rows)?;
    encoding(&mut rows)?;
    fingerprints(&mut rows)?;
    decoding(&mut rows)?;
    for row in &mut rows {
        (row.call)();
    }
    for _ in 0..rounds {
        for row in &mut rows {
            let seconds = time(&mut row.call, round_s);
            row.rounds.push(seconds);
        }
    }
    print(&mut rows);
    Ok(())
}

fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// CPU seconds of one call, from as many calls as fill `at_least` seconds.
fn time(call: &mut dyn FnMut(), at_least: f64) -> f64 {
    let (start, mut calls, mut batch) = (cpu_seconds(), 0u64, 1u64);
    loop {
        for _ in 0..batch {
            call();
        }
        calls += batch;
        let elapsed = cpu_seconds() - start;
        if elapsed >= at_least {
            return elapsed / calls as f64;
        }
        batch = (batch * 2).min(4096);
    }
}

fn row(rows: &mut Vec<Row>, name: impl Into<String>, unit: Unit, call: impl FnMut() + 'static) {
    rows.push(Row { name: name.into(), unit, call: Box::new(call), rounds: Vec::new() });
}

fn random(bytes: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; bytes];
    Rng::new(seed).fill(&mut data);
    data
}

fn references() -> Vec<Row> {
    let mut rows = Vec::new();
    let (source, mut target) = (random(PAGE, 1), vec![0u8; PAGE]);
    row(&mut rows, "memcpy", Unit::Bytes(PAGE), move || {
        black_box(&mut target).copy_from_slice(black_box(&source));
    });
    let source = random(PAGE, 1);
    row(&mut rows, "crc32fast", Unit::Bytes(PAGE), move || {
        black_box(crc32fast::hash(black_box(&source)));
    });
    rows
}

fn scrambling(rows: &mut Vec<Row>) -> Result<(), CodeError> {
    for name in ["lba-prbs31", "samsung-prbs15", "allwinner-1024", "macronix-8723"] {
        for kernel in Kernel::available() {
            let scrambler = preset(name)?.compile()?.with_kernel(kernel);
            let (mut page, mut number) = (random(PAGE, 2), 0u64);
            row(rows, format!("scramble {name} ({kernel})"), Unit::Bytes(PAGE), move || {
                number += 1;
                let address = PageAddress::of(number);
                scrambler.scramble(&address, black_box(&mut page)).expect("the rule covers all");
            });
        }
    }
    let poly = "x^31 + x^28 + 1".parse()?;
    let mut register = Lfsr::new(poly, onefold_code::Form::Fibonacci, 1)?;
    let mut page = random(PAGE, 2);
    row(rows, "scramble bit by bit", Unit::Bytes(PAGE), move || {
        for byte in black_box(&mut page) {
            for bit in 0..8 {
                *byte ^= register.step() << bit;
            }
        }
    });
    Ok(())
}

fn encoding(rows: &mut Vec<Row>) -> Result<(), CodeError> {
    for kernel in Kernel::available() {
        let code = ldpc_by_name("ses-33x256")?.with_kernel(kernel);
        let page = random(PAGE, 3);
        let name = format!("LDPC encode ses-33x256 dense ({kernel})");
        row(rows, name, Unit::Bytes(PAGE), move || {
            let mut parity = [0u8; 32];
            for data in black_box(&page).chunks_exact(1024) {
                code.encode_dense(data, &mut parity).expect("lengths fit");
                black_box(&parity);
            }
        });
    }
    for name in
        ["ses-33x256", "qc-1k-32/33", "qc-4k-32/33", "qc-1k-15/16", "qc-1k-8/9", "qc-4k-8/9"]
    {
        for kernel in Kernel::available() {
            let code = ldpc_by_name(name)?.with_kernel(kernel);
            let label = format!("LDPC encode {name} sparse ({kernel})");
            row(rows, label, Unit::Bytes(PAGE), encode_page(code));
        }
    }
    for kernel in Kernel::available() {
        let code = Bch::t18_1k().with_kernel(kernel);
        let page = random(PAGE, 3);
        row(rows, format!("BCH encode t=18 1 KiB ({kernel})"), Unit::Bytes(PAGE), move || {
            let mut parity = [0u8; 32];
            for data in black_box(&page).chunks_exact(1024) {
                code.encode(data, &mut parity).expect("lengths fit");
                black_box(&parity);
            }
        });
    }
    Ok(())
}

fn encode_page(code: QcLdpc) -> impl FnMut() {
    let page = random(PAGE, 3);
    let mut parity = vec![0u8; code.parity_bytes()];
    move || {
        for data in black_box(&page).chunks_exact(code.data_bytes()) {
            code.encode_sparse(data, &mut parity).expect("lengths fit");
            black_box(&parity);
        }
    }
}

fn fingerprints(rows: &mut Vec<Row>) -> Result<(), CodeError> {
    let codes = [
        ("LDPC", PageCode::Ldpc(ldpc_by_name("qc-1k-32/33")?)),
        ("BCH", PageCode::Bch(Bch::t18_1k())),
        ("CRC-32", PageCode::Crc32 { data_bytes: 4096 }),
    ];
    for (label, code) in codes {
        for (truncation, how) in Truncation::ALL {
            if label != "LDPC" && how != "crc64" {
                continue;
            }
            let scrambler = preset("lba-prbs31")?.compile()?;
            let fp = ParityFingerprint::new(code.clone(), scrambler, PAGE, truncation)?;
            let parity = random(fp.parity_bytes(), 4);
            let mut seed = 1;
            let name = format!("fingerprint of an encoded page, {label} {how}");
            row(rows, name, Unit::Items(1), move || {
                seed = seed * 5 % 0x7fff_ffff;
                black_box(fp.of_stored(seed, black_box(&parity)).expect("lengths fit"));
            });
        }
    }
    Ok(())
}

/// Codewords with the given raw bit error rate, decoded one after another.
fn decoding(rows: &mut Vec<Row>) -> Result<(), CodeError> {
    const WORDS: usize = 256;
    for name in ["ses-33x256", "qc-1k-32/33", "qc-4k-32/33"] {
        for (rber, kernels) in
            [(0.0, vec![Kernel::best()]), (1e-4, vec![Kernel::best()]), (3e-4, Kernel::available())]
        {
            for kernel in kernels {
                let code = ldpc_by_name(name)?.with_kernel(kernel);
                let mut rng = Rng::new(7);
                let words: Vec<(Vec<u8>, Vec<u8>)> = (0..WORDS)
                    .map(|_| {
                        let mut data = random(code.data_bytes(), rng.next_u64());
                        let mut parity = vec![0; code.parity_bytes()];
                        code.encode(&data, &mut parity).expect("lengths fit");
                        rng.flip_bits(&mut data, rber);
                        rng.flip_bits(&mut parity, rber);
                        (data, parity)
                    })
                    .collect();
                let mut decoder = LdpcDecoder::new(code);
                let (mut data, mut parity) = words[0].clone();
                let mut next = 0;
                let label = format!("min-sum hard {name} at {rber:.0e} ({kernel})");
                row(rows, label, Unit::Items(1), move || {
                    let word = &words[next % WORDS];
                    next += 1;
                    data.copy_from_slice(&word.0);
                    parity.copy_from_slice(&word.1);
                    black_box(decoder.decode(&mut data, &mut parity).expect("lengths fit"));
                });
            }
        }
    }
    let code = Bch::t18_1k();
    for errors in [0usize, 1, 3, 9, 18] {
        let code = code.clone();
        let (mut data, mut parity) = (vec![0u8; 1024], vec![0u8; 32]);
        let mut rng = Rng::new(9);
        row(rows, format!("BCH decode t=18, {errors} errors"), Unit::Items(1), move || {
            for _ in 0..errors {
                let at = rng.below(8192) as usize;
                data[at / 8] ^= 1 << (at % 8);
            }
            black_box(code.decode(&mut data, &mut parity).expect("lengths fit"));
        });
    }
    Ok(())
}

fn print(rows: &mut [Row]) {
    let median = |row: &mut Row| {
        row.rounds.sort_by(f64::total_cmp);
        row.rounds[row.rounds.len() / 2]
    };
    let seconds: Vec<f64> = rows.iter_mut().map(median).collect();
    let rate = |i: usize| PAGE as f64 / seconds[i] / 1e9;
    let (copy, crc) = (rate(0), rate(1));
    println!("kernels of this machine: {}", Kernel::best());
    println!("| what, 8 KiB pages, one core | per CPU second | of memcpy | of crc32fast |");
    println!("|---|---|---|---|");
    for (row, &s) in rows.iter().zip(&seconds) {
        match row.unit {
            Unit::Bytes(bytes) => {
                let gb = bytes as f64 / s / 1e9;
                println!("| {} | {gb:.2} GB/s | {:.3} | {:.3} |", row.name, gb / copy, gb / crc);
            }
            Unit::Items(items) => {
                let each = s / items as f64;
                println!("| {} | {:.0}/s ({:.3} us) | | |", row.name, 1.0 / each, each * 1e6);
            }
        }
    }
}
