//! Laws over random input: what is written comes back, and garbage is refused without panic.
//! Room: onefold-workload.

use onefold_workload::{CsvWriter, Format, Identity, Op, Request, TraceReader};
use proptest::collection::vec;
use proptest::prelude::*;

prop_compose! {
    pub fn request()(
        time_ns in any::<u64>(),
        op in prop::sample::select(&Op::ALL[..]),
        offset in 0..=u64::MAX / 2,
        length in 1..=1_u64 << 32,
        identity in any::<Option<[u8; 16]>>(),
        stream in any::<Option<u32>>(),
        pid in any::<Option<u32>>(),
        deduplicate in any::<Option<bool>>(),
    ) -> Request {
        let (offset, length) = if op.has_range() { (offset, length) } else { (0, 0) };
        let identity = identity.map(Identity::from_bytes);
        Request { time_ns, op, offset, length, identity, stream, pid, deduplicate }
    }
}

/// A good line of each format, to be damaged.
const LINES: [&str; 9] = [
    "time_ns,op,offset,length,identity,stream,pid\n5,write,0,4096,,1,2\n",
    "128166372003061629,hm,0,Read,383496192,32768,413\n",
    "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n",
    "fio version 2 iolog\n/dev/sda wait 150 0\n/dev/sda write 0 4096\n",
    "fio version 3 iolog\n878 Nvme1n1 write 16384 16384\n",
    "1000 0 64 16 0\n",
    "1,5633898,2a,512,42932745\n",
    "419,W,8792731648,16384,1577808144360767\n",
    "10 4892 syslogd 904265560 8 W 6 0 531e779d56e0b7eb5e3d1d2f1e4c9a3b\n",
];

proptest! {
    #[test]
    fn what_is_written_comes_back(requests in vec(request(), 0..40)) {
        let mut writer = CsvWriter::new(Vec::new()).unwrap();
        for request in &requests {
            writer.write(request).unwrap();
        }
        let text = writer.finish().unwrap();
        let mut reader = TraceReader::new(Format::Csv, text.as_slice());
        let back = reader.by_ref().collect::<Result<Vec<_>, _>>().unwrap();
        prop_assert_eq!(reader.report().requests, requests.len() as u64);
        prop_assert_eq!(back, requests);
    }

    #[test]
    fn garbage_is_refused_without_panic(bytes in vec(any::<u8>(), 0..300)) {
        for format in Format::ALL {
            TraceReader::new(format, bytes.as_slice()).for_each(drop);
        }
    }

    /// Every line ends up as a request, a skip or the error, and the reader stops at the error.
    #[test]
    fn damaged_lines_are_accounted_for(
        pick in 0..LINES.len(),
        repeat in 1_usize..4,
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut text = LINES[pick].repeat(repeat).into_bytes();
        for (at, byte) in changes {
            let at = at.index(text.len());
            text[at] = byte;
        }
        for format in Format::ALL {
            let mut reader = TraceReader::new(format, text.as_slice());
            let results: Vec<_> = reader.by_ref().collect();
            let errors = results.iter().filter(|result| result.is_err()).count() as u64;
            prop_assert!(errors <= 1 && results.iter().rev().skip(1).all(Result::is_ok));
            let report = reader.report();
            let lines = report.requests + report.skipped_total() + errors;
            prop_assert!(lines >= report.lines, "{}", report);
            prop_assert!(lines == report.lines || report.expanded > 0, "{}", report);
            for request in results.into_iter().flatten() {
                prop_assert!(request.offset.checked_add(request.length).is_some());
            }
        }
    }
}
