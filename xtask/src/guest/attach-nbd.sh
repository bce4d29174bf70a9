# A volume by the kernel's NBD client.
serve_for_ext4
refused "the kernel has no NBD client" onefold attach pool main --by nbd
load nbd
try_attached
# Nothing has it any more.
rmmod nbd
