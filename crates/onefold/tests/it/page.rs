//! The page in a real Chromium, driven by the distribution's chromedriver over `WebDriver`: what
//! it shows under load is what `pool status --json` says. `ONEFOLD_TEST_PICTURES=FOLDER` keeps
//! pictures of it, to be looked at.
//! Room: onefold.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{PATIENCE, Sandbox, Server, noise, tool};
use crate::metrics::{asked, has, member, seen};

/// A browser with one page.
struct Browser {
    driver: Child,
    at: SocketAddr,
    session: String,
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // It closes the browser; the driver alone would leave it.
            let path = format!("/session/{}", self.session);
            let _ = asked(self.at, "DELETE", &path, "Host: localhost\r\n", "");
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Browser {
    fn start(sandbox: &Sandbox) -> Self {
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={}", at.port()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut browser = Self { driver, at, session: String::new() };
        let until = Instant::now() + PATIENCE;
        while std::net::TcpStream::connect(at).is_err() {
            assert!(Instant::now() < until, "chromedriver does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        let profile = format!("--user-data-dir={}", sandbox.text("profile"));
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--window-size=1280,1000",
            &profile,
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": args },
            "goog:loggingPrefs": { "browser": "ALL" } } } });
        let made = browser.command("/session", &wanted);
        made["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        browser
    }

    fn command(&self, path: &str, body: &Value) -> Value {
        let fields = "Host: localhost\r\nContent-Type: application/json\r\n";
        let (status, answer) = asked(self.at, "POST", path, fields, &body.to_string());
        assert_eq!(status, 200, "{path}: {answer}");
        serde_json::from_str::<Value>(&answer).unwrap()["value"].take()
    }

    fn of_page(&self, command: &str, body: &Value) -> Value {
        self.command(&format!("/session/{}/{command}", self.session), body)
    }

    fn script(&self, script: &str) -> Value {
        self.of_page("execute/sync", &json!({ "script": script, "args": [] }))
    }

    fn devtools(&self, command: &str, params: &Value) -> Value {
        self.of_page("goog/cdp/execute", &json!({ "cmd": command, "params": params }))
    }

    /// Wait until a script's value is what is wanted.
    fn wait(&self, what: &str, script: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let value = self.script(script);
            if wanted(&value) {
                return value;
            }
            assert!(Instant::now() < until, "{what}: {value}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Leave the page, of which the browser has nothing to complain. A page that is left open asks
    /// for its server when that is gone.
    fn leave(&self) {
        self.of_page("url", &json!({ "url": "about:blank" }));
        let log = self.of_page("se/log", &json!({ "type": "browser" }));
        assert_eq!(log, json!([]), "the browser complains");
    }

    /// Keep a picture, if pictures are wanted.
    fn picture(&self, name: &str, width: u32, dark: bool) {
        let scheme = if dark { "dark" } else { "light" };
        let feature = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": feature }));
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
        self.script("show()");
        let overflow = self.script("return document.documentElement.scrollWidth - innerWidth");
        assert!(overflow.as_i64().unwrap() <= 0, "{name}: it is wider than {width} by {overflow}");
        let Some(folder) = std::env::var_os("ONEFOLD_TEST_PICTURES") else { return };
        let params = json!({ "captureBeyondViewport": true });
        let shot = self.devtools("Page.captureScreenshot", &params);
        let path = std::path::Path::new(&folder).join(format!("{name}-{scheme}-{width}.b64"));
        fs::write(path, shot["data"].as_str().unwrap()).unwrap();
    }
}

#[test]
fn what_the_page_shows_under_load_is_what_status_says() {
    if !has("chromedriver", "chromium-driver") || !has("chromium", "chromium") {
        return;
    }
    let sandbox = Sandbox::new();
    let server = seen(&sandbox);
    let browser = Browser::start(&sandbox);
    browser.of_page("url", &json!({ "url": format!("http://{}/", server.seen_at()) }));
    let mut load = Command::new("fio")
        .args([
            "--name=load",
            "--ioengine=nbd",
            "--rw=randrw",
            "--bs=16k",
            "--iodepth=4",
            "--thread",
        ])
        .args(["--size=64M", "--time_based", "--runtime=60", "--dedupe_percentage=50"])
        .args(["--buffer_compress_percentage=50", "--refill_buffers", "--output=/dev/null"])
        .arg(format!("--uri={}", server.uri("main")))
        .current_dir(sandbox.path(""))
        .spawn()
        .unwrap();
    let text = |id: &str| format!("return document.getElementById('{id}').textContent");
    browser.wait("it is live", &text("state"), |state| state == "live");
    for id in ["read-rate", "write-rate"] {
        let moving = |rate: &Value| rate.as_str().is_some_and(|rate| rate != "0 B/s");
        browser.wait(id, &text(id), moving);
    }
    let drawn = "return document.querySelectorAll('#chart path').length";
    browser.wait("both lines are drawn", drawn, |paths| paths == 3);
    let times = browser.wait("times of writes", &text("times"), |times| {
        times.as_str().is_some_and(|times| times.contains("ms") || times.contains("\u{b5}s"))
    });
    assert!(times.as_str().unwrap().contains("write"), "{times}");
    for (width, dark) in [(1280, false), (1280, true), (360, false), (360, true)] {
        browser.picture("pool", width, dark);
    }
    load.kill().unwrap();
    load.wait().unwrap();
    // Once nobody asks for anything, each number on the page is that of the command.
    let values = "return Object.fromEntries([...document.querySelectorAll('[data-metric]')]\
                  .filter(e => e.dataset.value).map(e => [e.dataset.metric, +e.dataset.value]))";
    for (name, path) in [
        ("onefold_pool_logical_bytes", "logical_bytes"),
        ("onefold_pool_unique_bytes", "unique_bytes"),
        ("onefold_pool_compressed_bytes", "compressed_bytes"),
        ("onefold_pool_stored_bytes", "stored_bytes"),
        ("onefold_pool_dead_bytes", "space.dead_bytes"),
        ("onefold_pool_dedup_ratio", "dedup_ratio"),
        ("onefold_pool_compression_ratio", "compression_ratio"),
        ("onefold_pool_reduction_ratio", "total_ratio"),
    ] {
        browser.wait(name, values, |shown| {
            let status = sandbox.status("pool");
            let (shown, said) = (shown[name].as_f64(), member(&status, path).as_f64());
            matches!((shown, said), (Some(shown), Some(said)) if (shown - said).abs() < 1e-9)
        });
    }
    // By keyboard: the first stop skips to the figures, the second is the button.
    let press = |key: &str| {
        let keys = json!({ "actions": [{ "type": "key", "id": "k", "actions": [
            { "type": "keyDown", "value": key }, { "type": "keyUp", "value": key } ] }] });
        browser.of_page("actions", &keys);
    };
    for _ in 0..2 {
        press("\u{e004}");
    }
    assert_eq!(browser.script("return document.activeElement.id"), "pause");
    press("\u{e007}");
    browser.wait("it pauses", &text("state"), |state| state == "paused");
    // Whoever cannot see has a name for every picture and table.
    let nameless = "return [...document.querySelectorAll('[role=img]')].filter(e => \
                    e.getClientRects().length && !e.getAttribute('aria-label')).length";
    assert_eq!(browser.script(nameless), 0);
    // Nothing was asked of any other machine, and no rule was broken.
    let hosts = "return [...new Set(performance.getEntriesByType('resource')\
                 .map(e => new URL(e.name).host))].filter(h => h && h !== location.host).length";
    assert_eq!(browser.script(hosts), 0);
    browser.leave();
    server.stop();
    the_blocks_of_a_drive_are_drawn(&sandbox, &browser);
}

fn the_blocks_of_a_drive_are_drawn(sandbox: &Sandbox, browser: &Browser) {
    let listen = format!("unix:{}", sandbox.text("drive-socket"));
    let args = ["ssd", "serve", "--dir", "drive", "--preset", "park-shin", "--listen", &listen];
    let command = sandbox.command(&[&args[..], &["--metrics", "127.0.0.1:0"]].concat());
    let server = Server::start(command, sandbox.path("drive-socket"));
    browser.of_page("url", &json!({ "url": format!("http://{}/", server.seen_at()) }));
    fs::write(sandbox.path("noise"), noise(9, 4 << 20)).unwrap();
    tool("nbdcopy", &[&sandbox.text("noise"), &server.uri("")]);
    let written = "return +document.querySelector(\
                   '[data-metric=onefold_drive_pages_written_total]').dataset.value || 0";
    browser.wait("the drive was written to", written, |pages| pages.as_u64() > Some(0));
    // More colours than that of an erased block, and in words what is drawn.
    let colours = "const c = document.getElementById('blocks'); \
                   const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; \
                   const s = new Set(); \
                   for (let i = 0; i < d.length; i += 4) if (d[i + 3]) \
                   s.add(d[i] + ',' + d[i + 1] + ',' + d[i + 2]); return s.size";
    browser.wait("blocks are drawn", colours, |colours| colours.as_u64() >= Some(2));
    let note = "return document.getElementById('blocks-note').textContent";
    browser
        .wait("and told", note, |note| note.as_str().is_some_and(|n| n.contains("being filled")));
    browser.picture("drive", 1280, false);
    browser.picture("drive", 360, true);
    browser.leave();
    server.stop();
}
