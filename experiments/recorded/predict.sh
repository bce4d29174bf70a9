#!/usr/bin/env bash
# What prediction saves and loses on recordings: predict.sh ONEFOLD DIR
#
# DIR is what record.sh has made. Every recording is replayed on crc-compare without and with
# `predict`, as it is and without its TRIMs (mkfs discards the whole volume, so that collection has
# nothing to do; without them the drive is full). Needs python3.
set -euo pipefail
python3 - "$(realpath "$1")" "$(realpath "$2")" <<'PY'
import json, os, subprocess, sys, tempfile

onefold, recordings = sys.argv[1:3]
drive = ["geometry.planes_per_die=1", "geometry.blocks_per_plane=84", "ftl.over_provisioning=0.15",
         "precondition='prefill'", "controller.idle_after_ns=1000000",
         "workload.finish_offline=true", "dedup.policy='crc-compare'"]

def run(trace, *more):
    command = [onefold, "ssd", "run", "--preset", "park-shin", "--trace", trace, "--json"]
    for assignment in drive + list(more):
        command += ["--set", assignment]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    report = report.get("report", report)
    dedup, latency = report["dedup"], report["latency_ns"]["write"]
    return {"reads": report["flash_operations"]["read"]["dedup"], "merged": dedup["offline_pages"],
            "left": dedup["missed_pages"], "written": report["requests"]["pages_written"],
            "held": dedup["policy_counts"]["held_pages"],
            "right": dedup["policy_counts"]["held_pages_overwritten"],
            "mean": latency["mean"], "p99": latency["p99"], "waf": report["waf"]["total"]}

print("| recording | TRIMs | pages written | reads of idle work | merged | held, right | "
      "duplicates left, of written | mean write latency | its p99 | write amplification |")
print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
for name in ["packages", "build", "system", "database", "mail", "office"]:
    whole = os.path.join(recordings, name + ".rec")
    with tempfile.TemporaryDirectory() as work:
        rows, less = os.path.join(work, "all.csv"), os.path.join(work, "less.csv")
        subprocess.run([onefold, "trace", "convert", whole, rows], check=True, capture_output=True)
        with open(rows) as of, open(less, "w") as to:
            to.writelines(line for line in of if ",trim," not in line)
        for trims, trace in [("yes", whole), ("no", less)]:
            plain, held = run(trace), run(trace, "dedup.predict='overwrites'")
            change = lambda key: "%+.1f %%" % (100 * (held[key] / plain[key] - 1))
            print("| %s | %s | %d | %d, %s | %d of %d | %d, %d | %.2f %% | %s | %s | %.2f to %.2f |"
                  % (name, trims, plain["written"], plain["reads"], change("reads"),
                     held["merged"], plain["merged"], held["held"], held["right"],
                     100 * (held["left"] - plain["left"]) / plain["written"], change("mean"),
                     change("p99"), plain["waf"], held["waf"]))
PY
