# A volume by the kernel's ublk, which is taken where the kernel has no NBD client.
serve_for_ext4
refused "the kernel has no ublk" onefold attach pool main --by ublk
load ublk_drv
try_attached

# What answers for a device dies under a mounted file system.
device=$(onefold attach pool main mnt)
cp mnt/a mnt/d
sync
kill -9 "$(processes_of 'onefold carry')"
umount mnt 2>/dev/null || true
onefold detach pool main
until_holds test ! -e "$device"
device=$(onefold attach pool main mnt)
equal "$(sum mnt/d)" "$(sum mnt/a)"
onefold detach pool main

# Whoever attaches dies between making the device and showing it: none is left.
until_holds no_process_of "onefold carry"
onefold carry socket main | head -n 1 > number
echo "made $(cat number), and nobody listens"
until_holds test ! -e "/dev/ublkc$(cat number)"
equal "$(ls /dev | grep -c ublkb || true)" 0
