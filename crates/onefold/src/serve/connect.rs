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
