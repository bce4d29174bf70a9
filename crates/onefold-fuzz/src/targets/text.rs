//! Any text as a trace, a specification or a word of the command line.
//! Room: onefold-fuzz.

use onefold_block::{ByteSize, ChunkSize};
use onefold_code::{PRESET_NAMES, ScramblerSpec};
use onefold_workload::{BlkAction, Format, RecordingReader, TraceReader, TraceSummary};

/// Requests that are read of a trace: one line may stand for many.
const REQUESTS_MAX: usize = 10_000;

/// What is accepted can be used and written again.
pub fn scrambler(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(spec) = ScramblerSpec::from_toml(text) else { return };
    let again = ScramblerSpec::from_toml(&spec.to_toml()).expect("it was just accepted");
    assert_eq!(again, spec);
}

pub fn scramblers() -> Vec<Vec<u8>> {
    let text = |name: &&str| onefold_code::preset(name).expect("a preset").to_toml();
    PRESET_NAMES.iter().map(|name| text(name).into_bytes()).collect()
}

/// In every format: the first byte picks one, and what it is recognised as is another.
pub fn trace(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    let detected = Format::detect(rest).ok();
    let picked = Format::ALL.get(usize::from(first) % (Format::ALL.len() + 1)).copied();
    for format in [picked, detected].into_iter().flatten() {
        let mut summary = TraceSummary::default();
        let mut reader = TraceReader::new(format, rest);
        for request in reader.by_ref().take(REQUESTS_MAX) {
            let Ok(request) = request else { break };
            summary.add(&request);
        }
        let _ = (summary.footprint_bytes(), summary.duplicate_share(), reader.report());
    }
    for request in RecordingReader::new(rest).take(REQUESTS_MAX) {
        if request.is_err() {
            break;
        }
    }
}

/// A line or two of each format.
pub fn traces() -> Vec<Vec<u8>> {
    let lines = [
        "time_ns,op,offset,bytes\n1000,read,4096,4096\n2000,write,8192,512\n",
        "128166372003061629,hm,0,Read,383496192,32768,413\n128166372016382155,hm,0,Write,1,512,9\n",
        "  8,0    1        1     0.000000000  697  Q   W 223490 + 8 [kjournald]\n",
        "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda write 4096 4096\n",
        "1000 0 8 16 1\n2000 0 24 8 0\n",
        "1,5633898611441,42,4096,155771800\n1,5633898611442,40,8192,10\n",
        "419,W,8792731648,16384,1577808144360767\n725,R,59110326272,360448,1577808144360813\n",
        "0 4892 syslogd 904265560 8 W 6 0 2b5fcca1cd9c5c5d4c5ae8bf5c1c0b7a\n",
    ];
    let number = |format: Format| Format::ALL.iter().position(|&other| other == format);
    let formats = [
        Format::Csv,
        Format::Msr,
        Format::Blkparse(BlkAction::Queue),
        Format::FioIolog,
        Format::DiskSim,
        Format::CacheSim,
        Format::Alibaba,
        Format::Fiu,
    ];
    let inputs = formats.into_iter().zip(lines);
    inputs.map(|(f, line)| [&[number(f).unwrap_or(0) as u8], line.as_bytes()].concat()).collect()
}

pub fn drive_spec(data: &[u8]) {
    use onefold_flash::spec::SpecBuilder;
    let Ok(text) = std::str::from_utf8(data) else { return };
    let preset = || SpecBuilder::preset("ses-mlc1").expect("a preset");
    let assignments = text.lines().take(20).try_fold(preset(), SpecBuilder::set);
    for builder in [preset().file("spec.toml", text), assignments].into_iter().flatten() {
        let Ok(spec) = builder.build() else { continue };
        let printed = spec.to_commented_toml();
        let again = preset().file("again", &printed).and_then(SpecBuilder::build);
        // As text: an option of a policy may be no number, which equals nothing.
        let again = again.expect("what is printed is read again").to_commented_toml();
        assert_eq!(again, printed);
    }
}

pub fn drive_specs() -> Vec<Vec<u8>> {
    use onefold_flash::spec::{DriveSpec, PRESET_NAMES};
    let spec = |name: &&str| DriveSpec::preset(name).expect("a preset").to_commented_toml();
    let mut all: Vec<Vec<u8>> = PRESET_NAMES.iter().map(|n| spec(n).into_bytes()).collect();
    all.push(b"ftl.over_provisioning=0.6\ngeometry.page_bytes=4096\n".to_vec());
    all
}

pub fn cache_spec(data: &[u8]) {
    use onefold_cache::Spec;
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut spec = Spec::new();
    for line in text.lines().take(20) {
        let _ = spec.set(line);
    }
    let _ = spec.plan();
    if let Ok(spec) = Spec::from_toml(text) {
        let _ = spec.plan();
    }
}

pub fn cache_specs() -> Vec<Vec<u8>> {
    vec![onefold_cache::Spec::commented().into_bytes()]
}

pub fn array_spec(data: &[u8]) {
    use onefold_array::SpecBuilder;
    let Ok(text) = std::str::from_utf8(data) else { return };
    let preset = || SpecBuilder::preset(onefold_array::spec::PRESETS[0].name).expect("a preset");
    let assignments = text.lines().take(20).try_fold(preset(), SpecBuilder::set);
    for builder in [preset().file("spec.toml", text), assignments].into_iter().flatten() {
        let _ = builder.build();
    }
}

pub fn array_specs() -> Vec<Vec<u8>> {
    let text = |name| onefold_array::SpecBuilder::preset(name).expect("a preset").print();
    onefold_array::spec::PRESETS.iter().map(|preset| text(preset.name).into_bytes()).collect()
}

/// Sizes, formats and policies as people write them.
pub fn words(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(size) = text.parse::<ByteSize>() {
        let again = size.to_string();
        assert!(!again.is_empty());
    }
    let _ = text.parse::<ChunkSize>();
    let _ = text.parse::<Format>();
    let _ = text.parse::<onefold_cache::tier::TierSize>();
    let _ = text.parse::<onefold_archive::Chunking>();
    let capacity = onefold_cache::Capacity { bytes: 1 << 20, objects: 64 };
    let _ = onefold_cache::make_online(text, capacity, 1);
}
