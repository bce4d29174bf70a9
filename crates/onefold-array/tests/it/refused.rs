//! Servers that cannot be: each reason, and beside it the nearest server that can.
//! Room: onefold-array.

use onefold_array::SpecBuilder;

/// Why a preset with these settings, apart by blanks, is no server.
fn refused(preset: &str, settings: &str) -> Option<String> {
    let builder = SpecBuilder::preset(preset).unwrap();
    let builder = settings.split_whitespace().try_fold(builder, SpecBuilder::set);
    builder
        .unwrap_or_else(|error| panic!("{settings}: {error}"))
        .build()
        .err()
        .map(|e| e.to_string())
}

#[test]
fn a_server_that_cannot_be_is_refused_by_what_it_lacks_and_no_other() {
    let small = "chunk_bytes=4096 workload.request_bytes=8192 batch.chunks=1";
    for (preset, settings, no, yes, why) in [
        ("cidr", "", "engine.hash_units=0", "", "engine.hash_units is 0"),
        ("cidr", "", "engine.compress_units=0", "", "engine.compress_units is 0"),
        (
            "cidr",
            "engine.decompress_units=0 chunk_bytes=4096 workload.request_bytes=4096",
            "workload.read_share=0.1",
            "workload.read_share=0",
            "engine.decompress_units is 0",
        ),
        (
            "cidr",
            "engine.decompress_units=0 chunk_bytes=4096 workload.read_share=0",
            "workload.request_bytes=2048",
            "workload.request_bytes=4096",
            "engine.decompress_units is 0",
        ),
        ("cidr", "", "engine.count=0", "engine.count=1", "engine.count is 0"),
        ("fidr", "", "nic.hash_units=0", "", "nic.hash_units is 0"),
        ("fidr", "", "place.hash=engine", "", "place.data is direct"),
        (
            "software",
            "chunk_bytes=4096 workload.request_bytes=4096 batch.chunks=64",
            "buffer.client_bytes=262143",
            "buffer.client_bytes=262144",
            "buffer.client_bytes holds",
        ),
        (
            "software",
            small,
            "buffer.client_bytes=12287",
            "buffer.client_bytes=12288",
            "buffer.client_bytes holds",
        ),
        (
            "software",
            small,
            "buffer.delayed_bytes=4095",
            "buffer.delayed_bytes=4096",
            "buffer.delayed_bytes holds",
        ),
        ("software", small, "workload.addresses=2", "workload.addresses=3", "addresses holds no"),
        (
            "software",
            "chunk_bytes=4096",
            "workload.request_bytes=6144",
            "workload.request_bytes=8192",
            "expected a multiple of chunk_bytes",
        ),
        ("software", "", "workload.load=timestamps", "", "there is no workload.trace"),
        (
            "software",
            "chunk_bytes=4096 workload.request_bytes=4096 workload.requests=1000 \
             workload.warm_requests=500",
            "workload.addresses=4294964296",
            "workload.addresses=4294964295",
            "are 2^32 or more",
        ),
    ] {
        let [no, yes] = [no, yes].map(|last| refused(preset, &format!("{settings} {last}")));
        assert!(no.as_ref().is_some_and(|said| said.contains(why)), "{why}: {no:?}");
        assert_eq!(yes, None, "{why}");
    }
}

#[test]
fn a_policy_that_there_is_not_is_refused_by_name() {
    let set = |policy: &str| {
        let builder = SpecBuilder::preset("cidr").unwrap().set(&format!("table.policy={policy}"));
        builder.and_then(|builder| builder.build()).map(drop)
    };
    set("lru").unwrap();
    let error = set("no-such").unwrap_err().to_string();
    assert!(error.contains("no-such"), "{error}");
}
