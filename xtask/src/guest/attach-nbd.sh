# A volume by the kernel's NBD client.
load crc32c_generic
load ext4
serve pool --size 256M --listen unix:socket
refused "the kernel has no NBD client" onefold attach pool main --by nbd
load nbd
try_attached
# Nothing has it any more.
rmmod nbd
