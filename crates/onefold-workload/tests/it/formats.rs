//! Hand-made lines of each format, with the traps that real traces set.
//! Room: onefold-workload.

use onefold_workload::{
    BlkAction, Format, Identity, ImportReport, Op, Request, SkipReason, TraceReader,
};

fn read(format: Format, text: &str) -> (Vec<Request>, ImportReport, Vec<String>) {
    let mut reader = TraceReader::new(format, text.as_bytes());
    let requests = reader.by_ref().collect::<Result<_, _>>().expect("a good trace");
    (requests, reader.report(), reader.stream_names().to_vec())
}

/// Time, operation, offset, length.
fn shape(requests: &[Request]) -> Vec<(u64, Op, u64, u64)> {
    requests.iter().map(|r| (r.time_ns, r.op, r.offset, r.length)).collect()
}

/// That line `line` is refused in words that contain `words`.
fn refused(format: Format, text: &str, line: u64, words: &str) {
    let error = TraceReader::new(format, text.as_bytes()).find_map(Result::err);
    let error = error.unwrap_or_else(|| panic!("{text:?} was accepted")).to_string();
    assert!(error.starts_with(&format!("line {line} ")), "{error}");
    assert!(error.contains(words), "{error}");
}

#[test]
fn msr_times_are_file_times_and_may_run_backwards() {
    let (requests, report, names) = read(
        Format::Msr,
        "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n\
         128166372003061629,hm,0,Read,383496192,32768,413\r\n\
         128166372016382155,hm,1,Write,2822144,4096,1500\r\n\
         128166372003061628,hm,0,Write,0,512,1\n\
         128166372016382154,hm,0,Read,7,0,1\n",
    );
    assert_eq!(
        shape(&requests),
        [
            (0, Op::Read, 383_496_192, 32_768),
            (1_332_052_600, Op::Write, 2_822_144, 4_096),
            (0, Op::Write, 0, 512),
        ]
    );
    assert_eq!(names, ["hm.0", "hm.1"]);
    assert_eq!(requests.iter().map(|r| r.stream).collect::<Vec<_>>(), [Some(0), Some(1), Some(0)]);
    assert_eq!((report.lines, report.requests), (5, 3));
    assert_eq!((report.out_of_order, report.before_first), (1, 1));
    assert_eq!(report.skipped(SkipReason::Header), 1);
    assert_eq!(report.skipped(SkipReason::ZeroLength), 1);

    let good = "1,hm,0,Read,0,512,1\n";
    refused(Format::Msr, &format!("{good}1,hm,0,Read,0,-5,1"), 2, "size `-5`");
    refused(Format::Msr, &format!("{good}{good}1,hm,0,Erase,0,512,1"), 3, "Read or Write");
    refused(Format::Msr, "1,hm,0,Read,0,512", 1, "response time");
    refused(Format::Msr, "1,hm,0,Read,0,512,1,9", 1, "unexpected `9`");
    refused(Format::Msr, "1,hm,0,Read,18446744073709551615,512,1", 1, "offset");
    refused(Format::Msr, "1,hm,0,Read,0,9999999999,1", 1, "at most 4 GiB");
    refused(Format::Msr, &format!("{good}18446744073709551615,hm,0,Read,0,512,1"), 2, "time");
}

const BLKPARSE: &str = "  \
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    3        3     0.000002000   697  P   N [kjournald]
  8,0    3        4     0.000003000   697  A   W 223490 + 8 <- (8,2) 1024
  8,0    1        5     0.000100000     0  m   N cfq697S / alloced
  8,0    3        6     0.000200000   697  D   W 223490 + 16 [kjournald]
  8,0    0        7     0.500000000    12  Q FWS [jbd2/sda1-8]
  8,0    0        8     0.500000100    12  Q FWFS 1000 + 8 [jbd2/sda1-8]
  8,16   0        9     1.000000001    13  Q  DS 2048 + 2097152 [fstrim]
  8,0    0       10     1.000000002    13  Q  RA 64 + 256 [cat]
  8,0    0       11     1.000000003    13  U   N [cat] 1
  8,0    0       12     1.000000004    13  UT  N [cat] 1
  8,0    0       13     1.000000005    13  Q   N [tool]
  8,0    1       14     2.000000000     0  C   W 223490 + 16 [0]
CPU0 (8,0):
 Reads Queued:           1,      128KiB\t Writes Queued:           3,       12KiB

Total (8,0):
 Events (8,0): 14 entries
";

#[test]
fn blkparse_counts_each_request_once() {
    let (requests, report, names) = read(Format::Blkparse(BlkAction::Queue), BLKPARSE);
    assert_eq!(
        shape(&requests),
        [
            (0, Op::Write, 223_490 * 512, 4096),
            (500_000_000, Op::Flush, 0, 0),
            (500_000_100, Op::Flush, 0, 0),
            (500_000_100, Op::Write, 512_000, 4096),
            (1_000_000_001, Op::Trim, 1 << 20, 1 << 30),
            (1_000_000_002, Op::Read, 32_768, 131_072),
        ]
    );
    assert_eq!((requests[0].pid, requests[0].stream), (Some(697), Some(0)));
    assert_eq!(names, ["8,0", "8,16"]);
    assert_eq!(report.skipped(SkipReason::OtherAction), 8);
    assert_eq!(report.skipped(SkipReason::OtherOperation), 1);
    assert_eq!(report.skipped(SkipReason::Summary), 4);
    assert_eq!((report.skipped(SkipReason::Blank), report.expanded), (1, 1));

    let (issued, ..) = read(Format::Blkparse(BlkAction::Issue), BLKPARSE);
    assert_eq!(shape(&issued), [(200_000, Op::Write, 223_490 * 512, 8192)]);
    let (completed, ..) = read(Format::Blkparse(BlkAction::Complete), BLKPARSE);
    assert_eq!(shape(&completed), [(2_000_000_000, Op::Write, 223_490 * 512, 8192)]);

    let format = Format::Blkparse(BlkAction::Queue);
    refused(format, "8,0 3 1 0.0 697 Q W 12 - 8 [x]", 1, "plus sign");
    refused(format, "8,0 3 1 0.0 697 Z W 12 + 8 [x]", 1, "action `Z`");
    refused(format, "8,0 3 1 0.0 697 Q K 12 + 8 [x]", 1, "RWBS `K`");
    refused(format, "sda 3 1 0.0 697 Q W 12 + 8 [x]", 1, "major,minor");
    refused(format, "8,0 3 1 0,5 697 Q W 12 + 8 [x]", 1, "nine decimals");
}

#[test]
fn fio_logs_of_both_versions_keep_their_times() {
    let (requests, report, names) = read(
        Format::FioIolog,
        "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda write 0 4096\n\
         /dev/sda wait 150 0\n/dev/sda read 8192 4096\n/dev/sda wait 50 0\n\
         /dev/sda trim 0 1048576\n/dev/sda sync\n/dev/sda close\n",
    );
    assert_eq!(
        shape(&requests),
        [
            (0, Op::Write, 0, 4096),
            (150_000, Op::Read, 8192, 4096),
            (200_000, Op::Trim, 0, 1 << 20),
            (200_000, Op::Flush, 0, 0),
        ]
    );
    assert_eq!((names, report.skipped(SkipReason::FileAction)), (vec!["/dev/sda".to_owned()], 5));

    let (requests, ..) = read(
        Format::FioIolog,
        "fio version 3 iolog\n2 Nvme1n1 add\n872 Nvme1n1 open\n878 Nvme1n1 write 16384 16384\n\
         891 Nvme1n1 datasync 0 0\n10001677 Nvme1n1 close\n",
    );
    assert_eq!(
        shape(&requests),
        [(878_000, Op::Write, 16_384, 16_384), (891_000, Op::Flush, 0, 0)]
    );

    refused(Format::FioIolog, "fio version 1 iolog\n", 1, "fio version 3 iolog");
    refused(Format::FioIolog, "fio version 3 iolog\n5 f wait 1 0", 2, "action `wait`");
    refused(Format::FioIolog, "fio version 2 iolog\nf read 0", 2, "length");
    refused(Format::FioIolog, "fio version 2 iolog\nf wait 18446744073709551615 0", 2, "584");
}

#[test]
fn disksim_writes_are_zero_and_reads_are_one() {
    let (requests, ..) = read(Format::DiskSim, "1000 0 64 16 0\n1500 2 8 8 1\n");
    assert_eq!(shape(&requests), [(0, Op::Write, 32_768, 8192), (500, Op::Read, 4096, 4096)]);
    assert_eq!(requests[1].stream, Some(2));
    refused(Format::DiskSim, "0.123 0 64 16 0", 1, "milliseconds");
    refused(Format::DiskSim, "1 0 64 16 2", 1, "0 for a write or 1 for a read");
    refused(Format::DiskSim, "1 0 36028797018963968 16 1", 1, "start sector");
}

#[test]
fn scsi_codes_become_operations() {
    let (requests, report, _) = read(
        Format::CacheSim,
        "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633899,28,65536,8\n\
         2,5633900,88,4096,16\n1,5633901,35,0,0\n1,5633902,42,24,0\n1,5633903,0,0,0\n",
    );
    assert_eq!(
        shape(&requests),
        [
            (0, Op::Write, 42_932_745 * 512, 512),
            (1_000, Op::Read, 4096, 65_536),
            (2_000, Op::Read, 8192, 4096),
            (3_000, Op::Flush, 0, 0),
        ]
    );
    assert_eq!(report.skipped(SkipReason::OtherOperation), 2);
    refused(Format::CacheSim, "1,5,2a,512,1\n3,5,2a,512,1", 2, "version `3`");
    refused(Format::CacheSim, "1,5,write,512,1", 1, "SCSI operation code");
}

#[test]
fn alibaba_devices_are_streams() {
    let (requests, ..) = read(
        Format::Alibaba,
        "device_id,opcode,offset,length,timestamp\n\
         419,W,8792731648,16384,1577808144360767\n725,R,59110326272,360448,1577808144360813\n",
    );
    assert_eq!(
        shape(&requests),
        [(0, Op::Write, 8_792_731_648, 16_384), (46_000, Op::Read, 59_110_326_272, 360_448)]
    );
    assert_eq!(requests[1].stream, Some(725));
    refused(Format::Alibaba, "1,X,0,512,1", 1, "opcode `X`");
    refused(Format::Alibaba, "4294967296,R,0,512,1", 1, "below 2^32");
}

/// Distinct digests of so many hex digits.
fn digests(count: usize, width: usize) -> String {
    (1..=count).map(|n| format!("{n:0width$x}")).collect::<Vec<_>>().concat()
}

#[test]
fn fiu_digests_come_in_all_widths() {
    for (unit, width) in [(4096, 32), (512, 32), (4096, 8), (512, 8)] {
        // A merged request of two pages, and the second page again on its own.
        let per_page = 4096 / unit;
        let both = digests(2 * per_page, width);
        let second = &both[both.len() / 2..];
        let text = format!(
            "10 4892 syslog daemon 904265560 16 W 6 0 {both}\n\
             25 4892 syslogd 904265560 8 R 6 0 {second}\n"
        );
        let (requests, report, names) = read(Format::Fiu, &text);
        let base = 904_265_560 * 512;
        assert_eq!(
            shape(&requests),
            [
                (0, Op::Write, base, 4096),
                (0, Op::Write, base + 4096, 4096),
                (15, Op::Read, base, 4096),
            ],
            "{width} digits for {unit} bytes"
        );
        assert_eq!(requests[1].identity, requests[2].identity);
        assert_ne!(requests[0].identity, requests[1].identity);
        assert_eq!((requests[0].pid, report.expanded), (Some(4892), 1));
        assert_eq!(names, ["6,0"]);
    }
    let mut md5 = [0; 16];
    md5[15] = 0xaf;
    let (requests, ..) = read(Format::Fiu, &format!("1 2 p 8 8 W 6 0 {:032X}", 0xaf));
    assert_eq!(requests[0].identity, Some(Identity::from_bytes(md5)));
}

#[test]
fn fiu_short_requests_follow_the_rest_of_the_trace() {
    // 2 KiB with 32 digits: one MD5, or four short digests if the trace has those.
    let short = format!("2 1 p 0 4 W 6 0 {}", digests(4, 8));
    let (alone, ..) = read(Format::Fiu, &short);
    let (after, ..) = read(Format::Fiu, &format!("1 1 p 0 8 W 6 0 {}\n{short}", digests(8, 8)));
    assert_eq!((alone[0].length, after[1].length), (2048, 2048));
    assert_ne!(alone[0].identity, after[1].identity);

    refused(Format::Fiu, &format!("1 2 p 8 8 W 6 0 {}", digests(3, 32)), 1, "96 hex digits");
    refused(Format::Fiu, &format!("1 2 p 8 8 W 6 0 {}", "x".repeat(32)), 1, "digest `xx");
    refused(Format::Fiu, &format!("1 2 p 8 8 Q 6 0 {}", digests(1, 32)), 1, "R or W");
    refused(Format::Fiu, "1 2 p 8 8 W 6", 1, "");
}

#[test]
fn our_csv_wants_its_header() {
    let header = "time_ns,op,offset,length,identity,stream,pid\n";
    refused(Format::Csv, "5,read,0,512,,,\n", 1, "expected the header `time_ns,op");
    refused(Format::Csv, &format!("{header}5,read,0,512,,\n"), 2, "before the pid");
    refused(
        Format::Csv,
        &format!("{header}5,erase,0,512,,,\n"),
        2,
        "read, write, trim, flush or idle",
    );
    refused(Format::Csv, &format!("{header}5,read,0,512,12,,\n"), 2, "32 hex digits or nothing");
    let whole = format!("{},deduplicate\n", header.trim_end());
    refused(Format::Csv, &format!("{whole}5,read,0,512,,,\n"), 2, "before the deduplicate");
    refused(Format::Csv, &format!("{whole}5,write,0,512,,,,1\n"), 2, "yes, no or nothing");
    refused(Format::Csv, &format!("{header}5,write,0,512,,,,yes\n"), 2, "");
    let lines = ["yes", "no", ""].map(|word| format!("5,write,0,512,,,,{word}\n")).concat();
    let (requests, ..) = read(Format::Csv, &format!("{whole}{lines}"));
    let words: Vec<_> = requests.iter().map(|request| request.deduplicate).collect();
    assert_eq!(words, [Some(true), Some(false), None]);
    let (requests, report, _) = read(Format::Csv, &format!("{header}5,read,512,512,,3,\n\n"));
    assert_eq!((requests[0].time_ns, requests[0].stream, requests[0].pid), (5, Some(3), None));
    assert_eq!(
        report.to_string(),
        "1 requests from 3 lines; skipped 1 (blank); skipped 1 \
        (comments and headers)"
    );
}

#[test]
fn formats_are_chosen_by_name() {
    for format in Format::ALL {
        assert_eq!(format.name().parse(), Ok(format));
    }
    let error = "spc".parse::<Format>().unwrap_err().to_string();
    assert!(Format::ALL.iter().all(|format| error.contains(format.name())), "{error}");
}
