#!/usr/bin/env bash
# Records real work on a served volume: record.sh ONEFOLD OUT [DOSE [SEED]]
#
# Six kinds of work on an ext4 file system, each on a fresh volume, each as OUT/NAME.rec. DOSE is
# the number of rounds, 1 unless told. SEED, 0 unless told, chooses other packages and files, other
# optimisation, and other random numbers: the same kinds of work with other data. Needs root,
# nbdfuse, loop devices, mkfs.ext4, gcc, sqlite3 and python3; the data are the sources that this
# project depends on, from cargo's registry.
# For tuning: packages, build, system. Never used for tuning: database, mail, office.
set -euo pipefail
onefold=$(realpath "$1") out=$(realpath -m "$2") dose=${3:-1} seed=${4:-0}
crates=("${CARGO_HOME:-$HOME/.cargo}"/registry/cache/*/*.crate)
[ "${#crates[@]}" -ge 20 ] || { echo "needs crates in cargo's registry: cargo fetch"; exit 2; }
if [ "${5:-}" = inside ]; then
  work=$RECORD_WORK
else
  mkdir -p "$out"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi

# Packages unpacked one after the other, then most of them again as an upgrade.
packages() {
  local round crate
  for round in $(seq $((dose + 1))); do
    for crate in $(printf '%s\n' "${crates[@]}" | awk -v n=$(((1 + seed) % 4)) 'NR % 4 == n' |
      head -$((12 * dose))); do
      tar -xzf "$crate" -C "$1"
      sync -f "$1"
    done
  done
}

# The C library of Zstandard, compiled file by file, cleaned and compiled again.
build() {
  local source round file
  source=$(printf '%s\n' "${crates[@]}" | grep zstd-sys | head -1)
  tar -xzf "$source" -C "$1"
  for round in $(seq $((dose + 1))); do
    for file in "$1"/zstd-sys*/zstd/lib/{common,compress}/*.c; do
      gcc -O$((seed % 4)) -g -c "$file" -o "${file%.c}.o" 2>/dev/null || true
    done
    sync -f "$1"
    [ "$round" -gt "$dose" ] || find "$1" -name '*.o' -delete
  done
}

# A system's files, of which an upgrade rewrites a third under temporary names.
system() {
  local round
  cp -r /etc "$1/etc" 2>/dev/null || true
  mkdir -p "$1/bin"
  find /usr/bin -maxdepth 1 -type f -size -200k | sort |
    sed -n "$((40 * dose * seed + 1)),$((40 * dose * (seed + 1)))p" | xargs -I{} cp {} "$1/bin/"
  sync -f "$1"
  for round in $(seq "$dose"); do
    find "$1" -type f | sort | awk -v r=$((round + seed)) 'NR % 3 == r % 3' | while read -r file; do
      cp -p "$file" "$file.dpkg-new" && printf '\n' >> "$file.dpkg-new"
      mv "$file.dpkg-new" "$file"
    done
    sync -f "$1"
  done
}

# Rows put in, changed, deleted, and the file packed.
database() {
  python3 - "$1/data.db" "$dose" "$seed" <<'PY'
import random, sqlite3, sys
random.seed(1 + 10 * int(sys.argv[3]))
db = sqlite3.connect(sys.argv[1])
db.execute("create table t (k integer primary key, name text, body blob)")
for round in range(20 * int(sys.argv[2])):
    with db:
        for _ in range(200):
            name = "customer %d" % random.randrange(5000)
            db.execute("insert into t (name, body) values (?, ?)", (name, name * 20))
    with db:
        for _ in range(50):
            key = random.randrange(1, 200 * (round + 1))
            db.execute("update t set body = ? where k = ?", (random.randbytes(400), key))
        db.execute("delete from t where k % 17 = ?", (round,))
db.execute("vacuum")
db.close()
PY
  sync -f "$1"
}

# Messages delivered to many boxes, with attachments that several get; read, moved and deleted.
mail() {
  python3 - "$1" "$dose" "$work/crates" "$seed" <<'PY'
import os, random, sys
root, dose, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[4])
random.seed(2 + 10 * seed)
crates = open(sys.argv[3]).read().split("\n")[30 * seed:-1]
attachments = [open(path, "rb").read()[:120_000] for path in crates[:12]]
boxes = ["%s/box%d" % (root, n) for n in range(8)]
for box in boxes:
    for part in ("tmp", "new", "cur"):
        os.makedirs("%s/%s" % (box, part))
for number in range(120 * dose):
    body = b"From: a\nSubject: %d\n\n" % number + b"the same greeting\n" * random.randrange(5, 80)
    if random.random() < 0.3:
        body += random.choice(attachments)
    for box in random.sample(boxes, random.choice((1, 1, 1, 3))):
        with open("%s/tmp/%d" % (box, number), "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.rename("%s/tmp/%d" % (box, number), "%s/new/%d" % (box, number))
        if random.random() < 0.6:
            os.rename("%s/new/%d" % (box, number), "%s/cur/%d" % (box, number))
            if random.random() < 0.3:
                os.unlink("%s/cur/%d" % (box, number))
PY
  sync -f "$1"
}

# Documents as archives of parts, saved again with one part changed, and copied as versions.
office() {
  python3 - "$1" "$dose" "$work/crates" "$seed" <<'PY'
import os, random, shutil, sys, zipfile
root, dose, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[4])
random.seed(3 + 10 * seed)
crates = open(sys.argv[3]).read().split("\n")[30 * seed:-1]
parts = [open(path, "rb").read()[:60_000] for path in crates[12:30]]

def save(path, chosen, text):
    with zipfile.ZipFile(path + "~", "w", zipfile.ZIP_DEFLATED) as archive:
        for number, part in enumerate(chosen):
            stored = zipfile.ZipInfo("media/%d" % number)
            archive.writestr(stored, part)
        archive.writestr(zipfile.ZipInfo("text.xml"), text)
    os.replace(path + "~", path)

for number in range(12 * dose):
    path = "%s/document %d" % (root, number)
    chosen, text = random.sample(parts, 4), "paragraph\n" * 500
    for version in range(4):
        text += "changed %d\n" % version
        save(path, chosen, text)
        os.sync()
    shutil.copy(path, path + " (copy)")
PY
  sync -f "$1"
}

# What runs while the volume is served: a file system on it, the work, and a clean end.
inside() {
  local name=$1 point=$work/mnt fuse=$work/fuse device
  mkdir -p "$point" "$fuse"
  nbdfuse "$fuse" "$uri" & local server=$!
  for _ in $(seq 600); do [ -e "$fuse/nbd" ] && break; sleep 0.1; done
  mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 "$fuse/nbd"
  device=$(losetup --find --show "$fuse/nbd")
  mount -o discard "$device" "$point"
  local failed=0
  "$name" "$point" || failed=1
  umount "$point"
  losetup -d "$device"
  fusermount3 -u "$fuse"
  wait "$server" || true
  return "$failed"
}

if [ "${5:-}" = inside ]; then
  inside "$6"
  exit
fi
printf '%s\n' "${crates[@]}" | sort > "$work/crates"
for name in packages build system database mail office; do
  [ ! -e "$out/$name.rec" ] || { echo "'$out/$name.rec' exists already"; exit 2; }
  RECORD_WORK=$work "$onefold" serve "$work/pool" --size 128M --record "$out/$name.rec" \
    --run "bash '$(realpath "$0")' '$onefold' '$out' $dose $seed inside $name"
  rm -rf "$work/pool"
  "$onefold" trace info "$out/$name.rec"
done
