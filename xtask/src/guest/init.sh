#!/bin/sh
# The guest's first process: every script is run in a folder of its own, and the machine ends.
/bin/busybox --install -s /bin 2>/dev/null
export PATH=/bin HOME=/tmp TERM=dumb LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mount -t tmpfs -o size=2G tmpfs /tries
ip link set lo up
echo "GUEST $(uname -r)"
for script in /scripts/*.sh; do
    name=$(basename "$script" .sh)
    mkdir "/tries/$name"
    cd "/tries/$name" || exit 1
    if timeout 400 sh -eu -c '. /scripts/common; . "$0"' "$script" 2>&1; then
        echo "GUEST passed $name"
    else
        echo "GUEST failed $name"
        dmesg | tail -20
    fi
    killall -9 onefold nbdfuse 2>/dev/null
    cd /
done
poweroff -f
