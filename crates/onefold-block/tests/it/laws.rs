//! Laws of ranges, sizes and trace lines, over values that nobody thought of.
//! Room: onefold-block.

use onefold_block::device::check_range;
use onefold_block::wrappers::{TraceRecord, Verb};
use onefold_block::{BlockError, ByteSize, ZeroOptions};
use proptest::prelude::*;

/// Numbers near the edges as often as anywhere.
fn edgy() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..10_u64,
        (0..10_u64).prop_map(|n| u64::MAX - n),
        (0..64_u32).prop_map(|bits| 1 << bits)
    ]
}

fn record() -> impl Strategy<Value = TraceRecord> {
    let options = any::<[bool; 3]>().prop_map(|[fua, no_hole, fast_only]| ZeroOptions {
        fua,
        no_hole,
        fast_only,
    });
    let content = prop::collection::vec(any::<u128>(), 0..4);
    let verb = prop::sample::select(Verb::ALL.to_vec());
    (edgy(), verb, edgy(), edgy(), options, any::<bool>(), content).prop_map(
        |(time_ns, verb, offset, len, options, succeeded, content)| TraceRecord {
            time_ns,
            verb,
            offset,
            len,
            options,
            succeeded,
            content,
        },
    )
}

proptest! {
    #[test]
    fn a_range_is_inside_exactly_when_wide_arithmetic_says_so(
        offset in edgy(), len in edgy(), size in edgy(),
    ) {
        let inside = u128::from(offset) + u128::from(len) <= u128::from(size);
        match check_range(offset, len, size) {
            Ok(()) => prop_assert!(inside),
            Err(BlockError::OutOfRange { offset: o, len: l, size: s }) => {
                prop_assert!(!inside);
                prop_assert_eq!((o, l, s), (offset, len, size));
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn sizes_read_back_as_printed(bytes in edgy().prop_map(|n| n / 2)) {
        // Halved, because what rounds up to 16 EiB is no size.
        let read: ByteSize = ByteSize(bytes).to_string().parse().expect("what is printed");
        let error = read.bytes().abs_diff(bytes);
        prop_assert!(error <= bytes / 150, "{} reads as {}", bytes, read.bytes());
        if bytes.trailing_zeros() >= 10 * (bytes.max(1).ilog2() / 10) {
            prop_assert_eq!(error, 0, "whole multiples are exact");
        }
    }

    #[test]
    fn trace_lines_read_back_as_written(record in record()) {
        let line = record.to_string();
        prop_assert_eq!(line.parse(), Ok(record), "{}", line);
    }

    #[test]
    fn no_text_makes_the_trace_parser_panic(line in "[0-9a-z ,-]{0,60}") {
        let _ = line.parse::<TraceRecord>();
    }
}
