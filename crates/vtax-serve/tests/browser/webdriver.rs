//! A browser without a window, driven through chromedriver (W3C WebDriver): each command is a request with JSON in it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use vtax_sys::require::possible;

use crate::support::PATIENCE;

/// Whether a browser and its driver are here, and a validator of HTML; where not, says so. With `browser` in
/// `VTAX_REQUIRE` that fails.
pub(crate) fn is_there() -> bool {
    let missing: Vec<&str> = ["chromium", "chromedriver", "tidy"]
        .into_iter()
        .filter(|program| !Path::new("/usr/bin").join(program).exists())
        .collect();
    if missing.is_empty() {
        return true;
    }
    let required =
        std::env::var("VTAX_REQUIRE").is_ok_and(|all| all.split(',').any(|word| word == "browser"));
    assert!(!required, "VTAX_REQUIRE has `browser`, and these are missing: {missing:?}");
    possible(Some(format!("{missing:?} missing; `vtax setup --tests` installs them")))
}

/// A browser. It ends when this is dropped.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    profile: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let path = format!("/session/{}", self.session);
            // A driver that is gone has ended its browser.
            let _ = exchange(self.port, "DELETE", &path, "");
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Browser {
    pub(crate) fn start() -> Self {
        let port = vtax_sys::free_port();
        let profile = tempfile::tempdir().expect("a directory");
        let driver = Command::new("chromedriver")
            .args([format!("--port={port}"), "--log-level=OFF".to_owned()])
            // What a browser that is killed leaves behind goes with its profile.
            .env("TMPDIR", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver starts");
        let mut browser = Self { driver, port, session: String::new(), profile };
        let deadline = Instant::now() + PATIENCE;
        while !exchange(port, "GET", "/status", "").is_ok_and(|v| v["value"]["ready"] == true) {
            assert!(Instant::now() < deadline, "chromedriver isn't ready");
            std::thread::sleep(Duration::from_millis(50));
        }
        let profile = format!("--user-data-dir={}", browser.profile.path().display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            // Whatever a page would ask of another host fails, and is in the log.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            profile.as_str(),
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "timeouts": {"script": PATIENCE.as_millis()},
            "goog:chromeOptions": {"binary": "/usr/bin/chromium", "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        // A browser that a busy machine doesn't let start in time is started again.
        let deadline = Instant::now() + 2 * PATIENCE;
        loop {
            let answer = exchange(port, "POST", "/session", &wanted.to_string()).expect("a session");
            if let Some(session) = answer["value"]["sessionId"].as_str() {
                session.clone_into(&mut browser.session);
                return browser;
            }
            assert!(Instant::now() < deadline, "{answer}");
        }
    }

    /// A command of this session; what it gives back.
    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        let path = format!("/session/{}{path}", self.session);
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let answer = exchange(self.port, method, &path, &body).expect("chromedriver answers");
        assert!(answer["value"]["error"].is_null(), "{method} {path}: {answer}");
        answer["value"].clone()
    }

    pub(crate) fn go(&self, url: &str) {
        self.command("POST", "/url", &json!({"url": url}));
    }

    /// The value of an expression in the page.
    pub(crate) fn value(&self, expression: &str) -> Value {
        let script = format!("return ({expression});");
        self.command("POST", "/execute/sync", &json!({"script": script, "args": []}))
    }

    /// What a promise of the page comes to.
    pub(crate) fn promise(&self, expression: &str) -> Value {
        let script = format!("const done = arguments[0]; ({expression}).then(done, (e) => done(String(e)));");
        self.command("POST", "/execute/async", &json!({"script": script, "args": []}))
    }

    pub(crate) fn text(&self, expression: &str) -> String {
        self.value(expression).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression in the page is true.
    pub(crate) fn until(&self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.value(expression) != true {
            let page = || self.text("document.body.innerText");
            assert!(Instant::now() < deadline, "{expression} never came true in\n{}", page());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Clicks the element of that selector.
    pub(crate) fn click(&self, selector: &str) {
        self.value(&format!("(document.querySelector({}).click(), 1)", json!(selector)));
    }

    /// Presses keys one after the other.
    pub(crate) fn press(&self, keys: &[&str]) {
        let mut actions = Vec::new();
        for key in keys {
            actions.push(json!({"type": "keyDown", "value": key}));
            actions.push(json!({"type": "keyUp", "value": key}));
        }
        let body = json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]});
        self.command("POST", "/actions", &body);
    }

    /// A command of the browser itself (Chrome DevTools Protocol).
    pub(crate) fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.command("POST", "/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// The page as wide as that, on a phone or a desktop.
    pub(crate) fn width(&self, width: u32) {
        let height = if width < 600 { 800 } else { 900 };
        let parameters =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", &parameters);
    }

    /// Keeps what the page looks like, where `VTAX_SHOTS` names a directory for it.
    pub(crate) fn shot(&self, name: &str) {
        if std::env::var_os("VTAX_SHOTS").is_none() {
            return;
        }
        let parameters = json!({"format": "png", "captureBeyondViewport": true});
        let picture = self.devtools("Page.captureScreenshot", &parameters);
        self.keep(&format!("{name}.png"), &picture);
    }

    /// Keeps what the browser made, where `VTAX_SHOTS` names a directory for it.
    pub(crate) fn keep(&self, name: &str, made: &Value) {
        let Some(directory) = std::env::var_os("VTAX_SHOTS") else { return };
        let bytes = BASE64_STANDARD.decode(made["data"].as_str().unwrap_or_default()).expect("base64");
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(Path::new(&directory).join(name), bytes).expect("kept");
    }

    /// What a log has since it was last asked for.
    fn log(&self, kind: &str) -> Vec<Value> {
        let lines = self.command("POST", "/se/log", &json!({"type": kind}));
        lines.as_array().cloned().unwrap_or_default()
    }

    /// Errors and warnings of the console.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let lines = self.log("browser").into_iter();
        let bad = lines.filter(|line| line["level"] == "SEVERE" || line["level"] == "WARNING");
        let texts = bad.map(|line| line["message"].as_str().unwrap_or_default().to_owned());
        // Browsers look for one by themselves.
        texts.filter(|text| !text.contains("favicon")).collect()
    }

    /// Addresses that were asked for.
    pub(crate) fn requests(&self) -> Vec<String> {
        let of = |line: &Value| -> Option<String> {
            let event: Value = serde_json::from_str(line["message"].as_str()?).ok()?;
            let message = &event["message"];
            let sent = message["method"] == "Network.requestWillBeSent";
            sent.then(|| message["params"]["request"]["url"].as_str().map(str::to_owned)).flatten()
        };
        self.log("performance").iter().filter_map(of).collect()
    }
}

/// One request to chromedriver.
fn exchange(port: u16, method: &str, path: &str, body: &str) -> std::io::Result<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(2 * PATIENCE))?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\
         Content-Type: application/json; charset=utf-8\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    // Whether it closes the connection or keeps it, the length is told.
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0_usize);
    while reader.read_line(&mut line)? > 2 {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
        line.clear();
    }
    let mut json = vec![0; length];
    reader.read_exact(&mut json)?;
    serde_json::from_slice(&json).map_err(std::io::Error::other)
}
