//! Small drives for tests, and what becomes of requests that are given to them.

use onefold_block::{Folder as _, SimFolder};
use onefold_flash::dedup::{AnyPolicy, Bytes};
use onefold_flash::nand::bytes::{ChannelSpec, Description, FileStore};
use onefold_flash::nand::{ByteNand, WearModel};
use onefold_flash::run::{Completion, Report, RunOptions, run};
use onefold_flash::spec::{ParseError, SpecBuilder};
use onefold_flash::{DriveSpec, Geometry};
use onefold_workload::Request;

/// The drive that a text describes, and what is set after it, if it is one.
pub fn try_drive(text: &str, assignments: &[&str]) -> Result<DriveSpec, ParseError> {
    let start = SpecBuilder::preset("ses-slc").and_then(|builder| builder.file("drive", text))?;
    assignments.iter().try_fold(start, |builder, text| builder.set(text))?.build()
}

/// The drive that a text describes, and what is set after it.
pub fn drive(text: &str, assignments: &[&str]) -> DriveSpec {
    try_drive(text, assignments).unwrap_or_else(|error| panic!("{error}"))
}

/// No deduplication, of the type that any policy for bytes has.
pub fn none_of_bytes() -> AnyPolicy<Bytes> {
    drive("", &["dedup.policy=none"]).bytes_policy().expect("it takes no options")
}

/// An array of bytes in a file in memory: of the type that emulated drives have.
pub fn bytes_in_a_file(
    geometry: Geometry,
    channel: &ChannelSpec,
    wear: WearModel,
) -> ByteNand<FileStore> {
    let media = SimFolder::new().create("nand").expect("made");
    let store = FileStore::create(media, &Description::new(geometry, channel, ""));
    ByteNand::create(store.expect("made"), geometry, channel, wear).expect("fits")
}

/// What is set for a policy to look at whole pages of so many bytes.
pub fn of_pages(policy: &str, page_bytes: u32) -> Vec<String> {
    let grain = (policy == "codeword").then(|| format!("dedup.codeword_bytes={page_bytes}"));
    [format!("dedup.policy=\"{policy}\"")].into_iter().chain(grain).collect()
}

/// Give a drive these requests; the report, and the requests as they were completed.
pub fn replay(spec: &DriveSpec, requests: Vec<Request>) -> (Report, Vec<Completion>) {
    let mut log = Vec::new();
    let mut keep = |completion: &Completion| {
        log.push(*completion);
        Ok(())
    };
    let trace = Some(Box::new(requests.into_iter().map(Ok)) as _);
    let options = RunOptions { trace, observer: Some(&mut keep), ..RunOptions::default() };
    let report = run(spec, options).unwrap_or_else(|error| panic!("{error}")).report;
    (report, log)
}
