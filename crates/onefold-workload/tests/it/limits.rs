//! Where a number, a name or a line just fits, and where it is one too many.
//! Room: onefold-workload.

use onefold_workload::import::{LINE_BYTES_MAX, STREAMS_MAX};
use onefold_workload::{BlkAction, Format, Op, Request, SkipReason, TraceReader};

const QUEUE: Format = Format::Blkparse(BlkAction::Queue);

/// The requests of a text, or what is wrong with it.
fn read(format: Format, text: &[u8]) -> Result<Vec<Request>, String> {
    let reader = TraceReader::new(format, text);
    reader.map(|request| request.map_err(|error| error.to_string())).collect()
}

fn one(format: Format, line: &str) -> Option<(u64, Op, u64, u64)> {
    let found = read(format, line.as_bytes()).ok()?;
    let request = found.first()?;
    Some((request.time_ns, request.op, request.offset, request.length))
}

#[test]
fn numbers_have_at_most_twenty_digits() {
    let with = |offset: &str| one(Format::DiskSim, &format!("0 0 {offset} 1 1"));
    assert_eq!(with("00000000000000000002"), Some((0, Op::Read, 1024, 512)));
    assert_eq!(with("000000000000000000002"), None, "21 digits");
    // The last sector ends at 2^64 less one sector.
    let last = (1u64 << 55) - 2;
    assert_eq!(with(&last.to_string()), Some((0, Op::Read, last * 512, 512)));
    assert_eq!(with(&(last + 1).to_string()), None);
    assert!(one(Format::DiskSim, "0 4294967295 0 1 1").is_some());
    assert!(one(Format::DiskSim, "0 4294967296 0 1 1").is_none());
    assert_eq!(read(Format::DiskSim, b"# x\n0 0 0 1 1\n").map(|all| all.len()), Ok(1));
}

#[test]
fn times_are_within_584_years_of_the_first() {
    let after = |format, line: fn(u64) -> String, first: u64, unit: u64| {
        let read = |span: u64| {
            let text = format!("{}\n{}\n", line(first), line(first + span));
            read(format, text.as_bytes()).map(|all| all[1].time_ns)
        };
        let most = u64::MAX / unit;
        assert_eq!(read(most), Ok(most * unit), "{format}");
        let error = read(most + 1).unwrap_err();
        assert!(error.contains("a time within 584 years of the first"), "{error}");
        assert_eq!(read(3), Ok(3 * unit));
    };
    after(Format::CacheSim, |time| format!("1,{time},2a,512,1"), 77, 1000);
    after(Format::Alibaba, |time| format!("1,W,0,512,{time}"), 77, 1000);
    after(Format::Msr, |time| format!("{time},h,0,Read,0,512,1"), 77, 100);
    let fio = |us: u64| {
        let text = format!("fio version 3 iolog\n{us} f read 0 512\n");
        read(Format::FioIolog, text.as_bytes()).map(|all| all[0].time_ns)
    };
    let most = u64::MAX / 1000;
    assert_eq!(fio(most), Ok(most * 1000));
    assert!(fio(most + 1).unwrap_err().contains("microseconds below 584 years"));
    let waits = |us: u64| {
        let text = format!("fio version 2 iolog\nf wait 1 0\nf wait {us}\nf sync\n");
        read(Format::FioIolog, text.as_bytes()).map(|all| all[0].time_ns)
    };
    assert_eq!(waits(most - 1), Ok(most * 1000));
    assert!(waits(most).is_err());
    for line in ["f wait 1 0 0", "f add 1", "f sync 0 0 0", "f read 0 512 0"] {
        let text = format!("fio version 2 iolog\n{line}\n");
        let error = read(Format::FioIolog, text.as_bytes()).unwrap_err();
        assert!(error.contains("after the last field"), "{line}: {error}");
    }
    let queue = |time: &str| {
        let line = format!("8,0 3 1 {time} 697 Q R 8 + 8 [x]");
        one(QUEUE, &line).map(|found| found.0)
    };
    assert_eq!(queue("1.000000001"), Some(1_000_000_001));
    assert_eq!(queue("18446744073.709551615"), Some(u64::MAX));
    assert_eq!((queue("18446744073.709551616"), queue("1.")), (None, Some(1_000_000_000)));
}

#[test]
fn a_line_ends_with_its_last_field() {
    for (format, line, more) in [
        (Format::Csv, "time_ns,op,offset,length,identity,stream,pid\n5,read,0,512,,,", ",9"),
        (Format::Msr, "1,hm,0,Read,0,512,1", ",9"),
        (Format::DiskSim, "0 0 8 8 1", " 9"),
        (Format::CacheSim, "1,5,2a,512,1", ",9"),
        (Format::Alibaba, "419,W,0,512,1", ",9"),
        (Format::FioIolog, "fio version 3 iolog\n5 f read 0 512", " 9"),
    ] {
        assert_eq!(read(format, line.as_bytes()).map(|all| all.len()), Ok(1), "{format}");
        let error = read(format, format!("{line}{more}").as_bytes()).unwrap_err();
        assert!(error.contains("unexpected `9` after the last field"), "{error}");
    }
}

#[test]
fn a_line_has_at_most_one_mib_without_its_end() {
    let line = |blanks: usize, end: &str| format!("0 0 8 8 1{}{end}", " ".repeat(blanks));
    let fits = LINE_BYTES_MAX - "0 0 8 8 1".len();
    for end in ["", "\n", "\r\n"] {
        assert!(one(Format::DiskSim, &line(fits, end)).is_some(), "{end:?}");
        let error = read(Format::DiskSim, line(fits + 1, end).as_bytes()).unwrap_err();
        assert!(error.contains("it is longer than 1048576 bytes"), "{error}");
    }
    // A mark at the beginning of the text is no part of it; elsewhere it is none.
    assert_eq!(read(Format::DiskSim, b"\xef\xbb\xbf0 0 8 8 1\n").map(|all| all.len()), Ok(1));
    let error = read(Format::DiskSim, b"0 0 8 8 1\n\xef\xbb\xbf0 0 8 8 1\n").unwrap_err();
    assert!(error.starts_with("line 2 "), "{error}");
}

#[test]
fn a_trace_names_at_most_65536_devices() {
    let lines = |count: usize| {
        let names = (0..count).map(|name| format!("{name} sync\n{name} sync\n"));
        format!("fio version 2 iolog\n{}0 sync\n", names.collect::<String>())
    };
    let all = read(Format::FioIolog, lines(STREAMS_MAX).as_bytes()).unwrap();
    assert_eq!(all.len(), 2 * STREAMS_MAX + 1);
    assert_eq!((all[3].stream, all[2 * STREAMS_MAX - 1].stream), (Some(1), Some(65_535)));
    assert_eq!(all[2 * STREAMS_MAX].stream, Some(0));
    let error = read(Format::FioIolog, lines(STREAMS_MAX + 1).as_bytes()).unwrap_err();
    assert!(error.contains("one more device or file than the 65536"), "{error}");
}

#[test]
fn names_and_what_is_shown_of_a_line_are_bounded() {
    let host = |len: usize| {
        let line = format!("1,{},12,Read,0,512,1", "h".repeat(len));
        let mut reader = TraceReader::new(Format::Msr, line.as_bytes());
        reader.by_ref().next().unwrap().map(|_| reader.stream_names()[0].clone())
    };
    // With a dot and the disk 64.
    assert_eq!(host(61).unwrap(), format!("{}.12", "h".repeat(61)));
    let error = host(62).unwrap_err().to_string();
    assert!(error.ends_with("expected at most 60 characters with the disk"), "{error}");
    assert!(error.contains(&format!("`{}...`", "h".repeat(60))), "{error}");
    let shown = |len: usize| read(Format::DiskSim, &vec![b'x'; len]).unwrap_err();
    assert!(shown(60).contains(&format!("`{}`", "x".repeat(60))));
    assert!(shown(61).contains(&format!("`{}...`", "x".repeat(60))));
    assert!(read(Format::DiskSim, b"\x1bx").unwrap_err().contains("`?x`"));
}

/// SCSI Block Commands, by their tables.
#[test]
fn of_256_scsi_codes_fifteen_move_data_or_flush() {
    let mut found = Vec::new();
    for code in 0..=255u32 {
        let forms = [format!("{code:x}"), format!("{code:02X}"), format!("0x{code:02x}")];
        let ops = forms.map(|form| one(Format::CacheSim, &format!("1,5,{form},512,8")));
        assert!(ops[0] == ops[1] && ops[1] == ops[2], "{code:x}");
        found.extend(ops[0].map(|(.., op, offset, length)| {
            assert_eq!((offset, length), if op == Op::Flush { (0, 0) } else { (4096, 512) });
            (code, op.name())
        }));
    }
    let wanted = [
        (0x08, "read"),
        (0x0a, "write"),
        (0x28, "read"),
        (0x2a, "write"),
        (0x2e, "write"),
        (0x35, "flush"),
        (0x41, "write"),
        (0x88, "read"),
        (0x8a, "write"),
        (0x8e, "write"),
        (0x91, "flush"),
        (0x93, "write"),
        (0xa8, "read"),
        (0xaa, "write"),
        (0xae, "write"),
    ];
    assert_eq!(found, wanted);
    for wrong in ["", "123", "0x", "g", "2g", "g2"] {
        assert_eq!(one(Format::CacheSim, &format!("1,5,{wrong},512,8")), None, "{wrong}");
    }
    for header in ["# a remark", "#", "version,time,op,size,lbn"] {
        let text = format!("{header}\n2,5,2a,512,8\n");
        let mut reader = TraceReader::new(Format::CacheSim, text.as_bytes());
        assert_eq!(reader.by_ref().map(Result::unwrap).count(), 1);
        assert_eq!(reader.report().skipped(SkipReason::Header), 1);
    }
}

#[test]
fn letters_of_blkparse_say_what_is_done() {
    let with = |kind: &str, range: &str| {
        let line = format!("8,0 3 1 0.5 697 Q {kind} {range}\n");
        read(QUEUE, line.as_bytes())
            .map(|all| all.iter().map(|r| (r.op.name(), r.offset, r.length)).collect::<Vec<_>>())
    };
    let there = "8 + 16 [x]";
    for (kind, ops) in [
        ("R", vec!["read"]),
        ("RA", vec!["read"]),
        ("W", vec!["write"]),
        ("WFS", vec!["write"]),
        ("D", vec!["trim"]),
        ("DS", vec!["trim"]),
        ("FWFS", vec!["flush", "write"]),
        ("FR", vec!["flush", "read"]),
        ("F", vec!["flush"]),
        ("N", vec![]),
    ] {
        let found = with(kind, there).unwrap();
        let names: Vec<&str> = found.iter().map(|request| request.0).collect();
        assert_eq!(names, ops, "{kind}");
        let ranges = found.iter().filter(|request| request.0 != "flush");
        assert!(ranges.clone().all(|&(_, at, len)| (at, len) == (4096, 8192)), "{found:?}");
    }
    // A flush in front of nothing is one flush.
    for nothing in ["", "[x]", "8 [0]", "8"] {
        assert_eq!(with("FW", nothing), Ok(vec![("flush", 0, 0)]), "{nothing}");
    }
    assert_eq!(with("W", "8 + 0 [x]"), Ok(vec![]));
    assert!(with("W", "8 +").unwrap_err().contains("it ends before the sectors"));
    assert!(with("Wq", there).unwrap_err().contains("RWBS `q`"));
    let action = |letter: &str| {
        let line = format!("8,0 3 1 0.5 697 {letter} R 8 + 8 [x]");
        let mut reader = TraceReader::new(QUEUE, line.as_bytes());
        reader.by_ref().for_each(drop);
        (reader.report().skipped(SkipReason::OtherAction), reader.report().requests)
    };
    for letter in
        ["A", "B", "C", "D", "F", "G", "I", "M", "P", "R", "S", "T", "U", "UT", "W", "X", "m"]
    {
        assert_eq!(action(letter), (1, 0), "{letter}");
    }
    for letter in ["Q", "E", "QQ", "MM"] {
        assert_eq!(action(letter), (0, u64::from(letter == "Q")), "{letter}");
    }
    for device in ["8", "8,", ",0", "8,0,1", "8:0", "a,0"] {
        let line = format!("{device} 3 1 0.5 697 Q R 8 + 8 [x]");
        assert!(read(QUEUE, line.as_bytes()).unwrap_err().contains("major,minor"), "{device}");
    }
}

#[test]
fn a_format_shows_in_the_first_two_hundred_whole_lines() {
    let good = "0 0 8 8 1\n";
    let detect = |text: String| Format::detect(text.as_bytes());
    assert_eq!(detect(good.repeat(200) + "x\n"), Ok(Format::DiskSim));
    assert!(detect(good.repeat(199) + "x\n").is_err());
    // The last line may be cut off, unless it is the only one.
    assert_eq!(detect(good.to_owned() + "0 0 8"), Ok(Format::DiskSim));
    assert!(detect("0 0 8".to_owned()).is_err());
    assert_eq!(detect(good.trim_end().to_owned()), Ok(Format::DiskSim));
    // The nearest is the one that read most lines.
    let error = detect("1,5,2a,512,1\n1,5,2a,512,1\n1,5,x,512,1\n".to_owned()).unwrap_err();
    assert!(error.to_string().contains("the nearest is cachesim, but line 3"), "{error}");
    let error = detect("nonsense\n".to_owned()).unwrap_err().to_string();
    assert!(error.contains("the nearest is csv, but line 1"), "of equals the first: {error}");
    let remark = detect("# nothing\n".to_owned()).unwrap_err().to_string();
    assert!(remark.starts_with("its first lines fit no known format"), "{remark}");
}

#[test]
fn fiu_requests_are_cut_into_pages_and_short_ones_stay_short() {
    let digit = |count: usize| "0123456789abcdef".repeat(count.div_ceil(16))[..count].to_owned();
    let read = |sectors: u64, digits: usize| {
        let line = format!("5 1 a name of many words 8 {sectors} w 6 1 {}", digit(digits));
        read(Format::Fiu, line.as_bytes()).map(|all| {
            all.iter().map(|request| (request.offset, request.length)).collect::<Vec<_>>()
        })
    };
    // A page and one sector more: two digests of pages, or nine of sectors.
    let cut = Ok(vec![(4096, 4096), (8192, 512)]);
    for digits in [2 * 32, 9 * 32, 2 * 8, 9 * 8] {
        assert_eq!(read(9, digits), cut, "{digits} digits");
    }
    assert!(read(9, 3 * 32).unwrap_err().contains("96 hex digits of digests for 4608 bytes"));
    assert_eq!(read(0, 32), Ok(vec![]));
    for (line, told) in [
        ("5 1 p 8 8 W 6 1", "it ends before the"),
        ("5 1 8 8 W 6 1 00", "it ends before the digest"),
        ("5 1 p 8 8 W 6 1 0g", "hex digits of digests"),
        ("5 1 p 36028797018963967 8 W 6 1 00000000", "an end below 2^64 bytes"),
        ("5 1 p 36028797018963968 8 W 6 1 00000000", "lba"),
    ] {
        let error = super::limits::read(Format::Fiu, line.as_bytes()).unwrap_err();
        assert!(error.contains(told), "{error}");
    }
    let text = format!("# a remark\n1 1 p 8 8 r 6 1 {}\n", digit(32));
    assert_eq!(super::limits::read(Format::Fiu, text.as_bytes()).map(|all| all.len()), Ok(1));
}
