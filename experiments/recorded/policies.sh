#!/usr/bin/env bash
# Every deduplication policy on every recording of a folder: policies.sh ONEFOLD DIR [fast]
#
# DIR is what record.sh has made; each NAME.rec in it is replayed on a drive of 168 MiB with each
# policy, twice: as it was recorded, and pressed, with 64 requests outstanding and without its TRIMs,
# so that the drive is full and never idle. With `fast` also where hash engines outrun reads.
# All tables of a policy fit into the memory of ses-device's, as in the paper 15 % of the drive's
# pages. Prints what gleaner loses, how often each policy is within 2 % of the best one, and a table
# for each measure. Needs python3.
set -euo pipefail
python3 - "$(realpath "$1")" "$(realpath "$2")" "${3:-}" <<'PY'
import glob, json, os, subprocess, sys, tempfile

onefold, folder = sys.argv[1:3]
# The paper's parity correction is of a page of 8 KiB; these have 4 KiB.
drive = ["geometry.planes_per_die=1", "geometry.blocks_per_plane=84", "ftl.over_provisioning=0.15",
         "controller.parity_correction_ns=7250", "controller.idle_after_ns=1000000",
         "workload.finish_offline=false"]
fast = ["timing.read_latency_ns=50000", "timing.program_latency_ns=100000",
        "controller.hash_ns=10000", "controller.hash_engines=2", "controller.light_hash_ns=2000",
        "controller.compare_ns=2000", "controller.parity_correction_ns=2000"]
loads = {"as recorded": [], "pressed": []}
if sys.argv[3] == "fast":
    loads |= {"as recorded, fast engines": fast, "pressed, fast engines": fast}
ses = ["dedup.scratch_share=0.05", "dedup.deferred_entries=64"]
# Each policy with the options that size its tables, and its other ones.
policies = {
    "none": ([], []),
    "caftl-online": (["store_share"], ["dedup.background=true", "dedup.budget_us=200"]),
    "caftl-offline": (["store_share"], []),
    "block-separation": (["store_share", "table_share"], []),
    "crc-compare": (["table_share"], []),
    "ses-host": (["table_share"], ses),
    "ses-device": (["table_share"], ses),
    "gleaner": (["table_share"], ses),
}
# What is no policy's.
common = {"map", "reverse_map", "virtual_table", "blocks", "map_directory", "journal_buffer",
          "page_buffers", "write_buffer"}
within = 2.0

def settings(changed):
    return [part for change in changed for part in ("--set", change)]

def run(policy, options, *more):
    command = [onefold, "ssd", "run", "--preset", "park-shin", "--json", *more]
    for assignment in drive + ["dedup.policy='%s'" % policy] + options:
        command += ["--set", assignment]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s: %s" % (" ".join(command), done.stderr))
    return json.loads(done.stdout)

# Tables depend on the drive: some are kept only where engines are fast.
def memory(policy, options, changed):
    report = run(policy, options, "--precondition", "none", "--requests", "1", *settings(changed))
    return sum(item["bytes"] for item in report["dram"]["items"] if item["name"] not in common)

def sized(policy, budget, changed):
    keys, others = policies[policy]
    table = lambda share: ["dedup.%s=%.9f" % (key, share) for key in keys] + others
    if not keys:
        return others
    low, high = 1e-6, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        if memory(policy, table(middle), changed) <= budget:
            low = middle
        else:
            high = middle
    return table(low)

def sizes(changed):
    budget = memory("ses-device", ["dedup.table_share=0.15"] + ses, changed)
    options = {policy: sized(policy, budget, changed) for policy in policies}
    for policy in policies:
        held = memory(policy, options[policy], changed)
        print("%s: %d B of %d" % (policy, held, budget), file=sys.stderr)
    return options

def replay(trace, policy, options, *more):
    report = run(policy, options, "--trace", trace, "--precondition", "prefill", *more)
    dedup, latency = report["dedup"], report["latency_ns"]["write"]
    written = report["requests"]["pages_written"]
    return {"mean": latency["mean"] / 1000, "p99": latency["p99"] / 1000,
            "inline": 100 * dedup["inline_pages"] / written,
            "found": 100 * (dedup["inline_pages"] + dedup["offline_pages"]) / written,
            "waf": report["waf"]["total"]}

def distances(rows):
    """In percent: how much later than the first, and how much less found than the most."""
    for measure in ("mean", "p99"):
        least = min(row[measure] for row in rows.values())
        for row in rows.values():
            row["from " + measure] = 100 * (row[measure] / least - 1)
    most = max(row["found"] for row in rows.values())
    for row in rows.values():
        row["from found"] = 100 * (1 - row["found"] / most) if most else 0.0

names = sorted(os.path.basename(path)[:-4] for path in glob.glob(os.path.join(folder, "*.rec")))
if not names:
    sys.exit("no recordings in '%s'" % folder)
judged, options = {}, {}
for load, changed in loads.items():
    drive_of_load = tuple(changed)
    if drive_of_load not in options:
        options[drive_of_load] = sizes(changed)
    for name in names:
        whole = os.path.join(folder, name + ".rec")
        with tempfile.TemporaryDirectory() as work:
            trace, more = whole, settings(changed)
            if load.startswith("pressed"):
                rows, trace = os.path.join(work, "all.csv"), os.path.join(work, "less.csv")
                subprocess.run([onefold, "trace", "convert", whole, rows], check=True,
                               capture_output=True)
                with open(rows) as of, open(trace, "w") as to:
                    to.writelines(line for line in of if ",trim," not in line)
                more += ["--set", "workload.trace_timing='closed'"]
            found = {policy: replay(trace, policy, options[drive_of_load][policy], *more)
                     for policy in policies}
        distances(found)
        judged[load, name] = found

def table(title, columns, rows):
    print("\n| %s | %s |\n|---|%s" % (title, " | ".join(columns), "---:|" * len(columns)))
    for head, cells in rows:
        print("| %s | %s |" % (head, " | ".join(cells)))

# Losses first: where gleaner is not within 2 % of the best.
lost = [("%s, %s" % key, ["%.1f" % rows["gleaner"]["from " + m] for m in ("mean", "p99", "found")])
        for key, rows in judged.items()
        if any(rows["gleaner"]["from " + m] > within for m in ("mean", "p99", "found"))]
table("`gleaner`, where it is not within 2 % of the best", ["mean, % more", "p99, % more",
      "found, % less"], lost)
near = lambda rows, policy, m: rows[policy]["from " + m] <= within
table("runs within 2 %% of the best, of %d" % len(judged), ["mean", "p99", "found", "all three"],
      [("`%s`" % policy,
        ["%d" % sum(near(rows, policy, m) for rows in judged.values())
         for m in ("mean", "p99", "found")]
        + ["%d" % sum(all(near(rows, policy, m) for m in ("mean", "p99", "found"))
                      for rows in judged.values())])
       for policy in policies])
# What is within 2 % of the best is bold, where that says anything.
measures = [("mean write latency, us", "mean", "%.0f"), ("p99 write latency, us", "p99", "%.0f"),
            ("found in all, % of written", "found", "%.2f"),
            ("found inline, % of written", "inline", "%.2f"),
            ("write amplification", "waf", "%.2f")]
for title, measure, form in measures:
    rows = []
    for (load, name), found in judged.items():
        cells = [form % found[policy][measure] for policy in policies]
        if measure in ("mean", "p99", "found"):
            best = [near(found, policy, measure) for policy in policies]
            if not all(best):
                cells = ["**%s**" % c if b else c for c, b in zip(cells, best)]
        rows.append(("%s, %s" % (load, name), cells))
    table(title, list(policies), rows)
PY
