//! FIDR: what a write of 4 KiB costs drives whose chunks are larger.
//! Room: onefold-lab.
//! Source: [ajdari-talk], "Why Small Chunking?". The talk runs FIU traces; here writes
//! are isolated.

use super::{Server, run_all};
use crate::error::Result;
use crate::series::{Data, Line};
use crate::settings::Settings;

/// Writes of 4 KiB, one at a time, to chunks of several sizes.
pub fn run(settings: &Settings<'_>, data: &mut Data) -> Result<()> {
    let sizes = settings.numbers("chunk_kib")?;
    let server = |kib: u64| {
        let server = Server::of("software").with("chunk_bytes", kib << 10);
        let server = server.with("workload.request_bytes", 4096).with("workload.outstanding", 1);
        let server =
            server.with("workload.duplicate_share", 0).with("workload.compressed_share", 1);
        server.with("workload.compressed_spread", 0)
    };
    let servers: Vec<Server> = sizes.iter().map(|&kib| server(kib)).collect();
    let reports = run_all(settings, &servers)?;
    let drives = Line::new("bytes at drives for each that a client writes", "x");
    let drives = drives.over("chunk size", "KiB").of("software");
    let all = Line::new("the same with the client's own", "x").over("chunk size", "KiB");
    let all = all.of("software");
    for (&kib, report) in sizes.iter().zip(&reports) {
        let moved = report.drive_bytes_per_client_byte;
        data.put(&drives, kib, moved);
        if kib == 32 {
            data.beside(("32KB vs 4KB chunk on FIU", "rmw_io_overhead"), &all, kib, moved + 1.0)?;
        } else {
            data.put(&all, kib, moved + 1.0);
        }
    }
    Ok(())
}
