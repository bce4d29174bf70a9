//! The report's rows per chunk size as CSV.
//! Room: onefold-estimate.   Column names equal the JSON keys.

use crate::options::Method;
use crate::report::{Report, SizeReport};

const HEAD: &str = "schema_version,method,chunk_bytes,chunks,bytes,zero_chunks,zero_bytes,\
    unique_chunks,unique_bytes,duplicate_bytes,dedup_ratio,dedup_ratio_low,dedup_ratio_high,\
    index_memory_bytes,sampled_one_in,compression,stored_bytes,compress_ratio,total_ratio,\
    metadata_bytes";

impl Report {
    /// One row per chunk size; the compression columns are filled in the primary row only, where
    /// there is one row per compression. Ends with a line feed.
    pub fn to_csv(&self) -> String {
        let mut lines = vec![HEAD.to_owned()];
        for size in &self.chunk_sizes {
            let start = self.size_columns(size);
            if size.method == (Method::Fixed { chunk_bytes: self.primary_chunk_bytes }) {
                for row in &self.compression {
                    let (compress, total) = (number(row.compress_ratio), number(row.total_ratio));
                    lines.push(format!(
                        "{start},{},{},{compress},{total},{}",
                        row.compression, row.stored_bytes, row.metadata_bytes
                    ));
                }
            } else {
                lines.push(format!("{start},,,,,"));
            }
        }
        lines.join("\n") + "\n"
    }

    fn size_columns(&self, size: &SizeReport) -> String {
        let name = match size.method {
            Method::Fixed { .. } => "fixed",
            Method::Cdc { .. } => "cdc",
        };
        let interval = size.dedup_ratio_interval;
        [
            self.schema_version.to_string(),
            name.to_owned(),
            size.method.mean_bytes().to_string(),
            size.chunks.to_string(),
            self.input.bytes.to_string(),
            size.zero_chunks.to_string(),
            size.zero_bytes.to_string(),
            size.unique_chunks.to_string(),
            size.unique_bytes.to_string(),
            size.duplicate_bytes.to_string(),
            number(size.dedup_ratio),
            number(interval.map(|i| i.low)),
            number(interval.map(|i| i.high)),
            size.index_memory_bytes.to_string(),
            size.sampled_one_in.to_string(),
        ]
        .join(",")
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
