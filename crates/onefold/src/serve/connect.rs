//! The lines by which people connect their clients.
//! Room: onefold.

use onefold_block::ByteSize;
use onefold_nbd::ListenAddr;

use crate::args::MachineSocket;
use crate::shell::quoted;
use crate::table::{Align, Table};

/// The volumes on offer.
pub fn volume_lines(volumes: &[(String, u64)], at: &ListenAddr, tls: bool) -> Vec<String> {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    for (name, size) in volumes {
        table.row([name.clone(), ByteSize(*size).to_string(), at.uri(name, tls)]);
    }
    table.lines(2)
}

/// What to type to reach a volume with each of the usual clients.
pub fn client_lines(at: &ListenAddr, export: &str, tls: bool) -> Vec<String> {
    let mut table = Table::new(&[Align::Left, Align::Left]);
    let uri = at.uri(export, tls);
    let uri = quoted(&if tls { format!("{uri}?tls-certificates=CERTS") } else { uri });
    let raw = if tls { tls_image_options(at, export) } else { format!("-f raw {uri}") };
    let target = raw.replace("-f raw", "-O raw").replace("--image-opts", "--target-image-opts");
    for (about, command) in [
        ("look at it", format!("nbdinfo {uri}")),
        ("copy an image in", format!("nbdcopy disk.img {uri}")),
        ("copy it out", format!("nbdcopy {uri} disk.img")),
        ("or with qemu", format!("qemu-img convert -n -f raw disk.img {target}")),
        ("use it as a file", format!("nbdfuse MOUNTPOINT {uri}")),
        ("use it as a disk", nbd_client(at, export, tls)),
    ] {
        // The kernel's client knows no such socket.
        if about == "use it as a disk" && matches!(at, ListenAddr::Vsock { .. }) {
            continue;
        }
        table.row([about.to_owned(), command]);
    }
    let mut lines = table.lines(2);
    if tls {
        lines.push(
            "  CERTS is a folder with ca-cert.pem, client-cert.pem and client-key.pem".to_owned(),
        );
    }
    lines
}

/// What to add to a virtual machine's command for a disk of its own.
pub fn machine_lines(socket: &MachineSocket) -> Vec<String> {
    let path = quoted(&socket.path.display().to_string());
    vec![
        "  qemu-system-x86_64 -m 1G -object memory-backend-memfd,id=mem,size=1G,share=on \\".into(),
        format!("    -machine q35,memory-backend=mem -chardev socket,id=onefold,path={path} \\"),
        "    -device vhost-user-blk-pci,chardev=onefold ...".to_owned(),
    ]
}

fn tls_image_options(at: &ListenAddr, export: &str) -> String {
    let place = match at {
        ListenAddr::Unix(path) => format!("path={}", path.display()),
        ListenAddr::Tcp { host, port } => format!("host={host},port={port}"),
        ListenAddr::Vsock { machine, port } => {
            let machine = machine.unwrap_or(2);
            format!("server.type=vsock,server.cid={machine},server.port={port}")
        }
    };
    let image = format!("driver=nbd,{place},export={export},tls-creds=tls");
    format!(
        "--object tls-creds-x509,id=tls,dir=CERTS,endpoint=client --image-opts {}",
        quoted(&image)
    )
}

fn nbd_client(at: &ListenAddr, export: &str, tls: bool) -> String {
    let export = quoted(export);
    let certificates = if tls {
        " -cacertfile CERTS/ca-cert.pem -certfile CERTS/client-cert.pem -keyfile \
         CERTS/client-key.pem"
    } else {
        ""
    };
    match at {
        ListenAddr::Unix(path) => {
            let path = quoted(&path.display().to_string());
            format!("nbd-client -unix {path} -N {export} /dev/nbd0{certificates}")
        }
        ListenAddr::Tcp { host, port } => {
            format!("nbd-client {host} {port} -N {export} /dev/nbd0{certificates}")
        }
        ListenAddr::Vsock { .. } => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_is_told_what_to_type_for_where_it_is() {
        let tcp = ListenAddr::Tcp { host: "h".to_owned(), port: 10809 };
        let lines = |at: &ListenAddr, tls| client_lines(at, "main", tls).join("\n");
        let plain = "  look at it        nbdinfo nbd://h:10809/main
  copy an image in  nbdcopy disk.img nbd://h:10809/main
  copy it out       nbdcopy nbd://h:10809/main disk.img
  or with qemu      qemu-img convert -n -f raw disk.img -O raw nbd://h:10809/main
  use it as a file  nbdfuse MOUNTPOINT nbd://h:10809/main
  use it as a disk  nbd-client h 10809 -N main /dev/nbd0";
        assert_eq!(lines(&tcp, false), plain);
        let tls = lines(&tcp, true);
        for words in [
            "nbdinfo 'nbds://h:10809/main?tls-certificates=CERTS'",
            "--object tls-creds-x509,id=tls,dir=CERTS,endpoint=client --target-image-opts \
             driver=nbd,host=h,port=10809,export=main,tls-creds=tls",
            "nbd-client h 10809 -N main /dev/nbd0 -cacertfile CERTS/ca-cert.pem -certfile \
             CERTS/client-cert.pem -keyfile CERTS/client-key.pem",
            "  CERTS is a folder with ca-cert.pem, client-cert.pem and client-key.pem",
        ] {
            assert!(tls.contains(words), "'{words}' is in\n{tls}");
        }
        let unix = lines(&ListenAddr::Unix("/a b".into()), false);
        assert!(unix.contains("nbd-client -unix '/a b' -N main /dev/nbd0"), "{unix}");
        // The kernel's client does not know these.
        for (machine, cid) in [(None, 2), (Some(7), 7)] {
            let machines = lines(&ListenAddr::Vsock { machine, port: 9 }, true);
            assert!(!machines.contains("use it as a disk"), "{machines}");
            let place = format!("server.type=vsock,server.cid={cid},server.port=9,export=main");
            assert!(machines.contains(&place), "{machines}");
        }
        let volumes = [("a".to_owned(), 1 << 20), ("long".to_owned(), 1 << 30)];
        let expected = ["  a     1 MiB  nbd://h:10809/a", "  long  1 GiB  nbd://h:10809/long"];
        assert_eq!(volume_lines(&volumes, &tcp, false), expected);
    }
}
