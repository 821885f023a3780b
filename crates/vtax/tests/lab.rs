//! `vtax lab` with a containerlab file: it stands, works, is broken and mended by hand, and leaves nothing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use vtax_sys::require::{Need, need};

/// In this time OSPF with fast timers finds its neighbour, and what was killed is gone, on any machine.
const SURELY: Duration = Duration::from_secs(40);

/// Two routers with a host each. `NAME` makes their names this test's own.
const FILE: &str = "
name: two
topology:
  kinds:
    linux: {image: frrouting/frr:8.4}
  nodes:
    r1NAME: {kind: linux, binds: ['r1/daemons:/etc/frr/daemons', 'r1/frr.conf:/etc/frr/frr.conf']}
    r2NAME: {kind: linux, binds: ['r2/daemons:/etc/frr/daemons', 'r2/frr.conf:/etc/frr/frr.conf']}
    h1: {kind: linux, image: alpine, exec: [ip addr add 10.1.0.2/24 dev eth1, ip link set eth1 up, ip route add default via 10.1.0.1]}
    h2: {kind: linux, image: alpine, exec: [ip addr add 10.2.0.2/24 dev eth1, ip link set eth1 up, ip route add default via 10.2.0.1]}
  links:
    - endpoints: ['r1NAME:eth1', 'r2NAME:eth1']
    - endpoints: ['h1:eth1', 'r1NAME:eth2']
    - endpoints: ['h2:eth1', 'r2NAME:eth2']
";

/// Configuration of router 1 or 2.
fn configuration(number: u8) -> String {
    format!(
        "hostname r{number}\ninterface eth1\n ip address 10.0.0.{number}/30\n ip ospf area 0\n \
         ip ospf network point-to-point\n ip ospf dead-interval minimal hello-multiplier 4\nexit\ninterface eth2\n \
         ip address 10.{number}.0.1/24\n ip ospf area 0\n ip ospf passive\nexit\nrouter ospf\n \
         ospf router-id 9.9.9.{number}\nexit\n"
    )
}

/// A directory with the file, its routers named by `name`; the file.
fn written(directory: &Path, name: &str) -> PathBuf {
    for number in [1, 2] {
        let own = directory.join(format!("r{number}"));
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("daemons"), "zebra=yes\nospfd=yes\nbgpd=no\n").unwrap();
        fs::write(own.join("frr.conf"), configuration(number)).unwrap();
    }
    let file = directory.join("two.clab.yml");
    fs::write(&file, FILE.replace("NAME", name)).unwrap();
    file
}

fn vtax(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vtax")).args(arguments).output().expect("vtax starts")
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A lab that stands, killed when dropped.
struct Up {
    child: Child,
    name: String,
}

impl Up {
    fn of(file: &Path, name: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_vtax"))
            .args(["lab", "up", "--name", name])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("vtax starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let first = lines.next().and_then(Result::ok).unwrap_or_default();
        assert!(first.contains("two stands after") && first.contains("h1, h2"), "{first}");
        // The rest is read so that who writes it is not kept waiting.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, name: name.to_owned() }
    }

    fn exec(&self, node: &str, command: &str) -> (bool, String) {
        let head = ["lab", "exec", "--lab", self.name.as_str(), node, "--"];
        let words: Vec<&str> = head.into_iter().chain(command.split(' ')).collect();
        let output = vtax(&words);
        (output.status.success(), told(&output))
    }

    /// Whether this router comes to know, or to have forgotten, the other's network.
    fn comes_to(&self, router: &str, knows: bool) -> bool {
        let until = Instant::now() + SURELY;
        while Instant::now() < until {
            let (well, routes) = self.exec(router, "ip route");
            assert!(well, "{routes}");
            if routes.contains("10.2.0.0/24") == knows {
                return true;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        false
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes that name this router in their command line.
fn daemons_of(router: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|b| *b == 0).any(|word| word == router.as_bytes())).count()
}

#[allow(clippy::print_stderr, reason = "a skipped test must say why on the test's own output")]
fn can() -> bool {
    let has_frr = Path::new("/usr/lib/frr/zebra").is_file();
    if !has_frr {
        eprintln!("skipped: FRR is not installed (`vtax setup --labs`)");
    }
    need(&[Need::Ns]) && has_frr
}

#[test]
fn a_lab_stands_is_broken_and_mended_and_goes() {
    if !can() {
        return;
    }
    let name = format!("t{}", std::process::id());
    let directory = tempfile::tempdir().unwrap();
    let file = written(directory.path(), &name);
    let up = Up::of(&file, &name);
    let (one, two) = (format!("r1{name}"), format!("r2{name}"));
    assert!(up.comes_to(&one, true));
    let (well, _) = up.exec("h1", "ip route get 10.2.0.2");
    assert!(well);
    let (well, why) = up.exec("nobody", "true");
    assert!(!well && why.contains("there is no node `nobody`") && why.contains(&two), "{why}");
    let capture = directory.path().join("one.pcap");
    let words =
        ["lab", "capture", "--lab", name.as_str(), one.as_str(), "eth1", "--duration", "2s", "--output"];
    let words: Vec<&str> = words.into_iter().chain(capture.to_str()).collect();
    let output = vtax(&words);
    assert!(output.status.success(), "{}", told(&output));
    assert!(fs::metadata(&capture).unwrap().len() > 100, "hellos four times a second");
    let link = format!("{one}:eth1-{two}:eth1");
    let fault = |what: &str| vtax(&["lab", "fault", "--lab", name.as_str(), what, link.as_str()]);
    assert!(fault("cut").status.success());
    assert!(up.comes_to(&one, false));
    assert!(fault("restore-link").status.success());
    assert!(up.comes_to(&one, true));
    let output = vtax(&["lab", "down", "--lab", name.as_str()]);
    assert!(output.status.success(), "{}", told(&output));
    let mut up = up;
    assert!(up.child.wait().unwrap().success());
    assert_eq!(daemons_of(&one), 0);
    let (well, why) = up.exec("h1", "true");
    assert!(!well && why.contains("no lab `"), "{why}");
}

#[test]
fn a_killed_lab_leaves_nothing() {
    if !can() {
        return;
    }
    let name = format!("k{}", std::process::id());
    let directory = tempfile::tempdir().unwrap();
    let mut up = Up::of(&written(directory.path(), &name), &name);
    let router = format!("r1{name}");
    assert_eq!(daemons_of(&router), 2);
    up.child.kill().unwrap();
    up.child.wait().unwrap();
    let until = Instant::now() + SURELY;
    while daemons_of(&router) > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(daemons_of(&router), 0);
}

#[test]
fn what_frr_refuses_is_told_with_router_and_line() {
    if !can() {
        return;
    }
    let name = format!("b{}", std::process::id());
    let directory = tempfile::tempdir().unwrap();
    let file = written(directory.path(), &name);
    let own = directory.path().join("r2/frr.conf");
    fs::write(&own, configuration(2).replace("ip ospf passive", "ip osfp passive")).unwrap();
    let output = vtax(&["lab", "up", "--name", name.as_str(), file.to_str().unwrap()]);
    let told = told(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains(&format!("router r2{name}: FRR refuses its configuration: line 11: ")), "{told}");
    assert_eq!(daemons_of(&format!("r1{name}")), 0);
}

#[test]
fn a_file_is_drawn_or_its_faults_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let file = written(directory.path(), "x");
    let words = ["lab", "graph", file.to_str().unwrap()];
    let output = vtax(&words);
    assert!(told(&output).contains("\"r1x\" -- \"r2x\""), "{}", told(&output));
    let output = vtax(&["lab", "graph", "--svg", file.to_str().unwrap()]);
    assert!(told(&output).starts_with("<svg") && told(&output).contains(">h2</text>"));
    fs::write(&file, FILE.replace("links:", "mgmt: {}\n  links:")).unwrap();
    let output = vtax(&words);
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("two.clab.yml:11:3"), "{}", told(&output));
}
