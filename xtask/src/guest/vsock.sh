# NBD between machines, here within one.
load vsock_loopback
serve pool --size 64M --listen vsock:1:10809
nbdinfo --size nbd+vsock://1:10809/main
equal "$(nbdinfo --size nbd+vsock://1:10809/main)" 67108864
dd if=/dev/urandom of=data bs=1M count=64 2>/dev/null
nbdcopy data nbd+vsock://1:10809/main
nbdcopy nbd+vsock://1:10809/main back
equal "$(sum back)" "$(sum data)"
