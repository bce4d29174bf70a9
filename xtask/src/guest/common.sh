# What the scripts have in common.

# Load a module and all that it needs.
load() {
    while read -r module; do
        insmod "/modules/$module.ko" 2>/dev/null || grep -q "^$module " /proc/modules
    done < "/modules/$1.order"
}

fail() {
    echo "FAILED: $*"
    exit 1
}

# Must fail, and say this.
refused() {
    words=$1
    shift
    if said=$("$@" 2>&1); then fail "not refused: $*"; fi
    echo "$said" | grep -q "$words" || fail "$*: $said"
}

# Wait up to a minute until something holds.
until_holds() {
    n=0
    until "$@"; do
        n=$((n + 1))
        [ $n -lt 600 ] || fail "never: $*"
        sleep 0.1
    done
}

# Serve a pool and wait until it is asked for: serve POOL ARGUMENT...
serve() {
    onefold serve "$@" > serve.log 2>&1 &
    server=$!
    until_holds is_served
}

is_served() {
    grep -q 'nbd' serve.log || { kill -0 $server 2>/dev/null || fail "$(cat serve.log)"; false; }
}

# Numbers of the processes whose command line has these words.
processes_of() {
    for process in /proc/[0-9]*; do
        # It may end meanwhile.
        if { tr '\0' ' ' < "$process/cmdline"; } 2>/dev/null | grep -q "$1"; then
            basename "$process"
        fi
    done
}

no_process_of() {
    [ -z "$(processes_of "$1")" ]
}

equal() {
    [ "$1" = "$2" ] || fail "$1 is not $2"
}

sum() {
    md5sum "$@" | cut -d' ' -f1
}

# A pool, and what a file system on its volume takes.
serve_for_ext4() {
    load crc32c_generic
    load ext4
    serve pool --size 256M --listen unix:socket
}

# A volume as a device of the kernel: tested, with a file system, without its server, read-only.
try_attached() {
    device=$(onefold attach pool main)
    echo "attached as $device"
    equal "$(blockdev --getsize64 "$device")" 268435456
    fio --eta=never --name=check --filename="$device" --rw=randwrite --bs=4k --size=8M --iodepth=16 \
        --ioengine=libaio --direct=1 --verify=crc32c --do_verify=1 --output=fio.log || fail "$(cat fio.log)"
    mkfs.ext4 -q "$device"
    onefold detach pool main
    [ "$(blockdev --getsize64 "$device" 2>/dev/null || echo 0)" = 0 ] || fail "it is attached still"

    # Mounted by hand: it is not pulled away.
    mkdir mnt
    device=$(onefold attach pool main)
    mount "$device" mnt
    refused "in use" onefold detach pool main
    umount mnt
    onefold detach pool main

    device=$(onefold attach pool main mnt)
    dd if=/dev/urandom of=mnt/a bs=1M count=24 2>/dev/null
    cp mnt/a mnt/b
    sync
    written=$(sum mnt/a)
    rm mnt/b
    fstrim -v mnt
    # In use: nothing is undone, and it says so.
    ( cd mnt && exec sleep 600 ) &
    inside=$!
    sleep 1
    refused "detach it again" onefold detach pool main
    kill $inside
    wait $inside 2>/dev/null || true
    onefold detach pool main

    # A server that dies: what was synced is there when it is attached anew.
    onefold attach pool main mnt > /dev/null
    equal "$(sum mnt/a)" "$written"
    cp mnt/a mnt/c
    sync
    kill -9 $server
    wait $server 2>/dev/null || true
    umount mnt 2>/dev/null || true
    onefold detach pool main
    serve pool --listen unix:socket
    device=$(onefold attach pool main mnt)
    equal "$(sum mnt/c)" "$written"
    onefold detach pool main
    e2fsck -fn "$(onefold attach pool main)" > e2fsck.log 2>&1 || fail "$(cat e2fsck.log)"
    onefold detach pool main

    # A snapshot cannot be written.
    onefold volume snapshot pool main@one
    device=$(onefold attach pool main@one mnt --read-only)
    equal "$(sum mnt/a)" "$written"
    equal "$(blockdev --getro "$device")" 1
    onefold detach pool main@one
    ls /run/onefold-attached
    equal "$(ls /run/onefold-attached)" ""
}
