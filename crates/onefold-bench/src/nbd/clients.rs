//! The clients: fio for speed, nbdcopy for CPU seconds, because it does nothing but move bytes.
//! Room: onefold-bench.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::servers::Server;
use crate::clock;

/// Bytes of a request, on the command lines.
pub const REQUEST_BYTES: &str = "131072";

/// What a client run came to.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Bytes per second.
    pub speed: f64,
    /// CPU seconds of client and server.
    pub cpu: f64,
    /// CPU seconds of the server alone.
    pub server_cpu: f64,
    /// Bytes moved.
    pub bytes: f64,
    /// Seconds that a request took in the mean, and that 99 % did not exceed; 0 likewise.
    pub mean: f64,
    pub p99: f64,
    /// Seconds that the slowest in 10,000 requests took; 0 where the client does not tell.
    pub slowest: f64,
}

impl Run {
    /// CPU seconds per GiB, both sides.
    pub fn cpu_per_gib(&self) -> f64 {
        self.cpu / self.bytes * (1u64 << 30) as f64
    }

    /// CPU seconds per GiB, server alone.
    pub fn server_cpu_per_gib(&self) -> f64 {
        self.server_cpu / self.bytes * (1u64 << 30) as f64
    }
}

/// Run a client to its end; returns its output, and CPU seconds of both sides and of the server.
fn run(server: &Server, command: &mut Command) -> Result<(Vec<u8>, f64, f64)> {
    let (before, client) = (server.cpu()?, clock::children_cpu());
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {problem}");
    let server = server.cpu()? - before;
    Ok((output.stdout, server + clock::children_cpu() - client, server))
}

/// Run a fio job on the server's export.
pub fn fio(server: &Server, job: &[&str]) -> Result<Run> {
    let mut command = Command::new("fio");
    let uri = format!("--uri={}", server.uri);
    command.args(["--name=job", "--ioengine=nbd", "--output-format=json", &uri]).args(job);
    let (output, cpu, server_cpu) = run(server, &mut command)?;
    // Notes may come before the JSON.
    let start = output.iter().position(|&byte| byte == b'{').context("fio printed no JSON")?;
    let report: Value = serde_json::from_slice(&output[start..]).context("fio's JSON is broken")?;
    let (mut bytes, mut speed, mut slowest) = (0.0, 0.0, 0.0f64);
    let (mut mean, mut p99) = (0.0f64, 0.0f64);
    for direction in ["read", "write"] {
        let part = &report["jobs"][0][direction];
        bytes += part["io_bytes"].as_f64().unwrap_or(0.0);
        speed += part["bw_bytes"].as_f64().unwrap_or(0.0);
        let seconds = |of: &Value| of.as_f64().unwrap_or(0.0) * 1e-9;
        let times = &part["clat_ns"];
        mean = mean.max(seconds(&times["mean"]));
        p99 = p99.max(seconds(&times["percentile"]["99.000000"]));
        slowest = slowest.max(seconds(&times["percentile"]["99.990000"]));
    }
    ensure!(bytes > 0.0, "fio moved nothing: {report}");
    Ok(Run { speed, cpu, server_cpu, bytes, mean, p99, slowest })
}

/// Copy an image to the export and flush, or the export to nowhere.
pub fn nbdcopy(server: &Server, image: Option<&Path>, bytes: u64) -> Result<Run> {
    let mut command = Command::new("nbdcopy");
    command.args(["--request-size", REQUEST_BYTES, "--no-extents", "--sparse=0"]);
    match image {
        Some(image) => command.arg("--flush").arg(image).arg(&server.uri),
        None => command.arg(&server.uri).arg("null:"),
    };
    let start = Instant::now();
    let (_, cpu, server_cpu) = run(server, &mut command)?;
    let bytes = bytes as f64;
    let speed = bytes / start.elapsed().as_secs_f64();
    Ok(Run { speed, cpu, server_cpu, bytes, mean: 0.0, p99: 0.0, slowest: 0.0 })
}
