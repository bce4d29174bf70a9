# A volume by the kernel's NBD client.
load crc32c_generic
load ext4
serve pool --size 256M --listen unix:socket
refused "the kernel has no NBD client" onefold attach pool main --by nbd
load nbd
device=$(onefold attach pool main)
echo "attached as $device"
equal "$(blockdev --getsize64 "$device")" 268435456
fio --eta=never --name=check --filename="$device" --rw=randwrite --bs=4k --size=8M --iodepth=16 \
    --ioengine=libaio --direct=1 --verify=crc32c --do_verify=1 --output=fio.log || fail "$(cat fio.log)"
mkfs.ext4 -q "$device"
onefold detach pool main
[ "$(blockdev --getsize64 "$device" 2>/dev/null || echo 0)" = 0 ] || fail "it is attached still"

mkdir mnt
device=$(onefold attach pool main mnt)
dd if=/dev/urandom of=mnt/a bs=1M count=24 2>/dev/null
cp mnt/a mnt/b
sync
written=$(sum mnt/a)
rm mnt/b
fstrim -v mnt
# In use: nothing is undone, and it says so.
( cd mnt; sleep 600 ) &
inside=$!
sleep 1
refused "detach it again" onefold detach pool main
kill $inside
wait $inside 2>/dev/null || true
pkill sleep || true
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
