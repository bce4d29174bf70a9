//! A file system on a volume: nbdfuse, a loop device, ext4, and a server that dies under it.
//! Room: onefold.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::harness::{Cleanup, PATIENCE, Sandbox, Server, copy_tree, machine, run, tool};

/// A volume as a file, by FUSE.
pub struct Fuse {
    child: Child,
    point: String,
}

impl Fuse {
    pub fn mount(sandbox: &Sandbox, server: &Server, export: &str) -> Self {
        let point = sandbox.text("fuse");
        fs::create_dir_all(&point).unwrap();
        let child = Command::new("nbdfuse")
            .args([&point, &server.uri(export)])
            .stderr(Stdio::null())
            .spawn()
            .expect("nbdfuse is needed");
        let fuse = Self { child, point };
        let until = Instant::now() + PATIENCE;
        while !Path::new(&fuse.file()).exists() {
            assert!(Instant::now() < until, "nbdfuse does not mount");
            std::thread::yield_now();
        }
        fuse
    }

    pub fn file(&self) -> String {
        format!("{}/nbd", self.point)
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        while run(Command::new("fusermount3").args(["-u", &self.point])).code != Some(0)
            && self.child.try_wait().is_ok_and(|ended| ended.is_none())
            && Instant::now() < until
        {
            std::thread::yield_now();
        }
        // Whatever still holds it: a test that cannot clean up must not hang.
        let _ = run(Command::new("umount").args(["-l", &self.point]));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A loop device on a file.
pub fn loop_device(file: &str) -> (String, Cleanup) {
    let device = tool("losetup", &["--find", "--show", file]).text().trim().to_owned();
    let cleanup = Cleanup(["losetup", "-d", &device].map(str::to_owned).to_vec());
    (device, cleanup)
}

pub fn mounted(device: &str, point: &str) -> Cleanup {
    fs::create_dir_all(point).unwrap();
    tool("mount", &[device, point]);
    Cleanup(["umount", "-l", point].map(str::to_owned).to_vec())
}

#[test]
fn a_file_system_is_made_filled_killed_checked_and_filled_again() {
    let _machine = machine();
    let sandbox = Sandbox::new();
    let point = sandbox.text("mnt");
    let tree = sandbox.path("tree");
    copy_tree(Path::new("/usr/share"), &tree, &mut (16 << 20));
    let tree_text = tree.to_str().unwrap();

    let server = sandbox.serve("pool", &["--size", "128M"]);
    {
        let fuse = Fuse::mount(&sandbox, &server, "main");
        tool("mkfs.ext4", &["-q", "-F", "-b", "4096", &fuse.file()]);
        let (device, _loop) = loop_device(&fuse.file());
        let _mount = mounted(&device, &point);
        tool("cp", &["-r", tree_text, &format!("{point}/kept")]);
        tool("sync", &["-f", &point]);
        // Nobody waits for these.
        tool("cp", &["-r", tree_text, &format!("{point}/lost")]);
        server.kill();
    }
    sandbox.check("pool");

    let server = sandbox.serve("pool", &[]);
    {
        let fuse = Fuse::mount(&sandbox, &server, "main");
        let repaired = run(Command::new("e2fsck").args(["-fy", &fuse.file()]));
        // 1 is what a replayed journal and its leftovers look like.
        assert!(matches!(repaired.code, Some(0 | 1)), "{}", repaired.text());
        let (device, _loop) = loop_device(&fuse.file());
        {
            let _mount = mounted(&device, &point);
            tool("diff", &["-r", tree_text, &format!("{point}/kept")]);
            tool("rm", &["-rf", &format!("{point}/lost")]);
            tool("cp", &["-r", tree_text, &format!("{point}/again")]);
            tool("fstrim", &[&point]);
            tool("umount", &[&point]);
        }
        tool("e2fsck", &["-fn", &device]);
        let _mount = mounted(&device, &point);
        tool("diff", &["-r", tree_text, &format!("{point}/again")]);
        tool("umount", &[&point]);
    }
    server.stop();
    sandbox.check("pool");
    let status = sandbox.status("pool");
    let dedup = status["dedup_ratio"].as_f64().unwrap();
    assert!(dedup > 1.4, "two copies of one tree: {dedup}");
}
