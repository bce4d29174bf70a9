//! The same drive and requests in `MQSim` and here: mean responses, and requests per CPU second.
//! Room: onefold-flash.
//! Source: `MQSim` [mqsim-18], built by its own Makefile; nothing of it is part of this project.
//! `cargo run --release -p onefold-flash --example beside_mqsim -- PATH/TO/MQSim [REQUESTS]`
//!
//! 64 chips of one plane on 8 channels of 333 MB/s, SLC, no cache, mapping in memory. Writes are
//! sequential, because `MQSim`'s placement follows from the address and ours does not: in sequence
//! both take one chip after the other. Reads are random, and commands hold the channel for 100 ns:
//! in `MQSim` a command waits for the channel as well.

#![allow(
    clippy::disallowed_methods,
    reason = "an example or benchmark reads its arguments and the clock"
)]
#![expect(clippy::print_stdout, reason = "a tool for people")]

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use onefold_flash::run::{RunOptions, run};
use onefold_flash::spec::SpecBuilder;

/// What `MQSim` is told of the drive, by its own names; times in ns.
const DEVICE: [(&str, &str); 30] = [
    ("Seed", "1"),
    ("Enabled_Preconditioning", "false"),
    ("Memory_Type", "FLASH"),
    ("HostInterface_Type", "NVME"),
    ("IO_Queue_Depth", "65535"),
    ("Queue_Fetch_Size", "512"),
    ("Caching_Mechanism", "SIMPLE"),
    ("Data_Cache_Sharing_Mode", "SHARED"),
    ("Data_Cache_Capacity", "268435456"),
    ("Data_Cache_DRAM_Row_Size", "8192"),
    ("Data_Cache_DRAM_Data_Rate", "800"),
    ("Data_Cache_DRAM_Data_Busrt_Size", "4"),
    ("Data_Cache_DRAM_tRCD", "13"),
    ("Data_Cache_DRAM_tCL", "13"),
    ("Data_Cache_DRAM_tRP", "13"),
    ("Address_Mapping", "PAGE_LEVEL"),
    ("Ideal_Mapping_Table", "true"),
    ("CMT_Capacity", "2097152"),
    ("CMT_Sharing_Mode", "SHARED"),
    ("Plane_Allocation_Scheme", "CWDP"),
    ("Transaction_Scheduling_Policy", "OUT_OF_ORDER"),
    ("Overprovisioning_Ratio", "0.07"),
    ("GC_Exec_Threshold", "0.05"),
    ("GC_Block_Selection_Policy", "GREEDY"),
    ("Dynamic_Wearleveling_Enabled", "false"),
    ("Static_Wearleveling_Enabled", "false"),
    ("Flash_Channel_Count", "8"),
    ("Flash_Channel_Width", "1"),
    ("Channel_Transfer_Rate", "333"),
    ("Chip_No_Per_Channel", "8"),
];

const FLASH: [(&str, &str); 16] = [
    ("Flash_Technology", "SLC"),
    ("CMD_Suspension_Support", "NONE"),
    ("Page_Read_Latency_LSB", "23400"),
    ("Page_Read_Latency_CSB", "23400"),
    ("Page_Read_Latency_MSB", "23400"),
    ("Page_Program_Latency_LSB", "262600"),
    ("Page_Program_Latency_CSB", "262600"),
    ("Page_Program_Latency_MSB", "262600"),
    ("Block_Erase_Latency", "1800000"),
    ("Block_PE_Cycles_Limit", "100000"),
    ("Die_No_Per_Chip", "1"),
    ("Plane_No_Per_Die", "1"),
    ("Block_No_Per_Plane", "256"),
    ("Page_No_Per_Block", "256"),
    ("Page_Capacity", "8192"),
    ("Page_Metadat_Capacity", "320"),
];

/// The same drive here.
const OURS: [&str; 10] = [
    "geometry.packages=64",
    "geometry.dies_per_package=1",
    "geometry.planes_per_die=1",
    "geometry.oob_bytes=0",
    "media.code=none",
    "timing.parallel_unit=package",
    "timing.bus_mb_per_s=333",
    "over_provisioning=0.07",
    "workload.arrivals=closed",
    "seed=1",
];

fn tags(pairs: &[(&str, &str)]) -> String {
    pairs.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "<{name}>{value}</{name}>");
        text
    })
}

fn device_xml() -> String {
    let host = [("PCIe_Lane_Bandwidth", "16"), ("PCIe_Lane_Count", "16")];
    format!(
        "<?xml version=\"1.0\" encoding=\"us-ascii\"?>\n<Execution_Parameter_Set>\n\
         <Host_Parameter_Set>\n{}</Host_Parameter_Set>\n<Device_Parameter_Set>\n{}\
         <Flash_Comm_Protocol>NVDDR2</Flash_Comm_Protocol>\n<Flash_Parameter_Set>\n{}\
         </Flash_Parameter_Set>\n</Device_Parameter_Set>\n</Execution_Parameter_Set>\n",
        tags(&host),
        tags(&DEVICE),
        tags(&FLASH)
    )
}

fn workload_xml(reads: bool, depth: u32, requests: u64) -> String {
    let (depth, requests) = (depth.to_string(), requests.to_string());
    let flow = [
        ("Priority_Class", "HIGH"),
        ("Device_Level_Data_Caching_Mode", "TURNED_OFF"),
        ("Channel_IDs", "0,1,2,3,4,5,6,7"),
        ("Chip_IDs", "0,1,2,3,4,5,6,7"),
        ("Die_IDs", "0"),
        ("Plane_IDs", "0"),
        ("Initial_Occupancy_Percentage", if reads { "50" } else { "0" }),
        ("Working_Set_Percentage", "100"),
        ("Synthetic_Generator_Type", "QUEUE_DEPTH"),
        ("Read_Percentage", if reads { "100" } else { "0" }),
        ("Address_Distribution", if reads { "RANDOM_UNIFORM" } else { "STREAMING" }),
        ("Percentage_of_Hot_Region", "0"),
        ("Generated_Aligned_Addresses", "true"),
        ("Address_Alignment_Unit", "16"),
        ("Request_Size_Distribution", "FIXED"),
        ("Average_Request_Size", "16"),
        ("Variance_Request_Size", "0"),
        ("Seed", "798"),
        ("Average_No_of_Reqs_in_Queue", &depth),
        ("Intensity", "32768"),
        ("Stop_Time", "0"),
        ("Total_Requests_To_Generate", &requests),
    ];
    format!(
        "<?xml version=\"1.0\" encoding=\"us-ascii\"?>\n<MQSim_IO_Scenarios><IO_Scenario>\n\
         <IO_Flow_Parameter_Set_Synthetic>\n{}</IO_Flow_Parameter_Set_Synthetic>\n\
         </IO_Scenario></MQSim_IO_Scenarios>\n",
        tags(&flow)
    )
}

/// CPU seconds of this thread, and of all children that were waited for (proc(5)).
fn cpu_seconds() -> Result<(f64, f64), Box<dyn Error>> {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat")?;
    let own: f64 = schedstat.split_whitespace().next().ok_or("an empty schedstat")?.parse()?;
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').ok_or("a strange stat")?.1;
    let ticks = fields.split_whitespace().skip(13).take(2).map(str::parse::<f64>);
    let children: f64 = ticks.sum::<Result<f64, _>>()?;
    // Linux tells 100 ticks a second whatever its own clock does.
    Ok((own * 1e-9, children / 100.0))
}

/// Mean response in us, which `MQSim` prints without a fraction.
fn theirs(program: &Path, folder: &Path, workload: &str) -> Result<f64, Box<dyn Error>> {
    fs::write(folder.join("device.xml"), device_xml())?;
    fs::write(folder.join("workload.xml"), workload)?;
    let status = Command::new(program)
        .args(["-i", "device.xml", "-w", "workload.xml"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    let text = fs::read_to_string(folder.join("workload_scenario_1.xml"))?;
    let field = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once('<')?.0.to_owned())
    };
    let value = field("Device_Response_Time").ok_or(format!("MQSim ended with {status}"))?;
    Ok(value.parse()?)
}

fn ours(reads: bool, depth: u32, requests: u64) -> Result<f64, Box<dyn Error>> {
    let mut builder = SpecBuilder::preset("ses-slc")?;
    for text in OURS {
        builder = builder.set(text)?;
    }
    let case = if reads {
        ["precondition=steady", "read_share=1", "command_overhead_ns=100"]
    } else {
        ["precondition=none", "pattern=sequential", "command_overhead_ns=0"]
    };
    for text in case {
        builder = builder.set(text)?;
    }
    builder = builder.set(&format!("queue_depth={depth}"))?;
    let spec = builder.set(&format!("requests={requests}"))?.build()?;
    let report = run(&spec, RunOptions::default())?.report;
    let kind = if reads { "read" } else { "write" };
    let latency = report.latency_ns.get(kind).cloned().flatten().ok_or("no latency")?;
    Ok(latency.mean / 1000.0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let program = args.next().ok_or("name the MQSim program")?;
    let program = fs::canonicalize(program)?;
    let requests: u64 = args.next().map_or(Ok(400_000), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    println!(
        "| requests | depth | MQSim, us | ours, us | deviation | MQSim, /CPU-s | ours | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for reads in [false, true] {
        for depth in [1, 8, 64, 256] {
            let (_, before) = cpu_seconds()?;
            let workload = workload_xml(reads, depth, requests);
            let their_us = theirs(&program, folder.path(), &workload)?;
            let (start, after) = cpu_seconds()?;
            let our_us = ours(reads, depth, requests)?;
            let (end, _) = cpu_seconds()?;
            let rate = |seconds: f64| requests as f64 / seconds / 1e6;
            let (their_rate, our_rate) = (rate(after - before), rate(end - start));
            println!(
                "| {} | {depth} | {their_us:.0} | {our_us:.1} | {:+.1} % | {their_rate:.2} M | \
                 {our_rate:.2} M | {:.1} |",
                if reads { "random reads" } else { "sequential writes" },
                (our_us / their_us - 1.0) * 100.0,
                our_rate / their_rate,
            );
        }
    }
    Ok(())
}
