//! `vtax lab` with a containerlab file: it stands, works, is broken and mended by hand, and leaves nothing.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use vtax_sys::require::{Need, installed, need};
use vtax_testkit::programs::Killed;

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

fn output_text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A lab that stands, killed when dropped.
struct Up {
    child: Child,
    name: String,
}

impl Up {
    fn of(file: &Path, name: &str) -> Self {
        let (up, said) = Self::with(file, name, &[]);
        assert!(said.contains("two stands after") && said.contains("h1, h2"), "{said}");
        up
    }

    /// With more arguments; what it said when it stood.
    fn with(file: &Path, name: &str, more: &[&str]) -> (Self, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_vtax"))
            .args(["lab", "up", "--name", name])
            .args(more)
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("vtax starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let up = Self { child, name: name.to_owned() };
        let (tell, told) = channel();
        // All is read, also what nobody looks at any more, so that who writes it is not kept waiting.
        std::thread::spawn(move || {
            for line in lines {
                let _ = tell.send(line);
            }
        });
        let until = Instant::now() + 2 * SURELY;
        let mut said = String::new();
        while !said.contains("ends it") {
            match told.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => said += &(line + "\n"),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it doesn't stand: {said}"),
            }
        }
        (up, said)
    }

    fn exec(&self, node: &str, command: &str) -> (bool, String) {
        self.exec_words(node, &command.split(' ').collect::<Vec<_>>())
    }

    fn exec_words(&self, node: &str, words: &[&str]) -> (bool, String) {
        let head = ["lab", "exec", "--lab", self.name.as_str(), node, "--"];
        let output = vtax(&head.iter().chain(words).copied().collect::<Vec<_>>());
        (output.status.success(), output_text(&output))
    }

    fn fault(&self, what: &str, link: &str) -> Output {
        vtax(&["lab", "fault", "--lab", self.name.as_str(), what, link])
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

/// Processes that name this router in their command line, with what they run.
fn processes_of(router: &str) -> Vec<(i32, String)> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let found = processes.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let mut words = line.split(|b| *b == 0);
        let program = String::from_utf8_lossy(words.next()?).into_owned();
        words.any(|word| word == router.as_bytes()).then_some((pid, program))
    });
    found.collect()
}

fn daemons_of(router: &str) -> usize {
    processes_of(router).len()
}

fn can() -> bool {
    need(&[Need::Ns]) && installed(&["/usr/lib/frr/zebra", "ip"])
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
    // A busy machine may have lost the neighbour again meanwhile.
    let until = Instant::now() + SURELY;
    loop {
        let (well, neighbours) = up.exec_words(&one, &["vtysh", "-c", "show ip ospf neighbor"]);
        if well && neighbours.contains("Full") {
            break;
        }
        assert!(well && Instant::now() < until, "{neighbours}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let (well, why) = up.exec("nobody", "true");
    assert!(!well && why.contains("there is no node `nobody`") && why.contains(&two), "{why}");
    let capture = directory.path().join("one.pcap");
    let words =
        ["lab", "capture", "--lab", name.as_str(), one.as_str(), "eth1", "--duration", "2s", "--output"];
    let words: Vec<&str> = words.into_iter().chain(capture.to_str()).collect();
    let output = vtax(&words);
    assert!(output.status.success(), "{}", output_text(&output));
    assert!(fs::metadata(&capture).unwrap().len() > 100, "hellos four times a second");
    let link = format!("{one}:eth1-{two}:eth1");
    assert!(up.fault("cut", &link).status.success());
    assert!(up.comes_to(&one, false));
    assert!(up.fault("restore-link", &link).status.success());
    assert!(up.comes_to(&one, true));
    let output = vtax(&["lab", "down", "--lab", name.as_str()]);
    assert!(output.status.success(), "{}", output_text(&output));
    assert_eq!(daemons_of(&one), 0, "it is down when that is said");
    let mut up = up;
    assert!(up.child.wait().unwrap().success());
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
    let told = output_text(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains(&format!("router r2{name}: FRR refuses its configuration: line 11: ")), "{told}");
    assert_eq!(daemons_of(&format!("r1{name}")), 0);
}

/// Three routers, of which neither outer one takes the other's routes, as both have the same number (RFC 4271, section 9.1.2), so that
/// they never agree. `NAME` makes their names this test's own.
const STRANGERS: &str = "
vtax: 1
name: strangers
baseline: {environment: native, path: direct}
environments: native
paths:
  - direct
  - routed:
      place: host
      topology:
        custom:
          routers:
            - {name: wNAME, speaks: bgp, system: 65001}
            - {name: mNAME, speaks: bgp, system: 65002}
            - {name: eNAME, speaks: bgp, system: 65001}
          links: [{between: [wNAME, mNAME]}, {between: [mNAME, eNAME]}]
          client: wNAME
          sut: eNAME
services: http
workload: {http: {target: /bytes/10}}
measure: capacity
";

/// The plan, with names of this process's own; the file and the first router.
fn strangers(directory: &Path) -> (PathBuf, String) {
    let number = std::process::id().to_string();
    let file = directory.join("plan.yaml");
    fs::write(&file, STRANGERS.replace("NAME", &number)).unwrap();
    (file, format!("w{number}"))
}

#[test]
fn a_router_that_dies_while_it_is_brought_up_is_named() {
    if !can() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (file, router) = strangers(directory.path());
    let mut child = Command::new(env!("CARGO_BIN_EXE_vtax"))
        .args(["lab", "up", "--name", router.as_str()])
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map(Killed::new)
        .expect("vtax starts");
    let until = Instant::now() + SURELY;
    let bgp = loop {
        let found = processes_of(&router).into_iter().find(|(_, program)| program.ends_with("bgpd"));
        assert!(Instant::now() < until && child.try_wait().unwrap().is_none(), "no BGP at {router}");
        match found {
            Some((pid, _)) => break pid,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    // It dies while it starts, or while its lab waits for routes that never come.
    let killed = Command::new("kill").args(["-KILL", &bgp.to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.output().unwrap();
    let told = output_text(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains(&format!("router {router}: bgpd ended")), "{told}");
    assert_eq!(daemons_of(&router), 0);
}

/// A node whose command takes as long as one may.
const SLOW: &str = "
name: slow
topology:
  nodes:
    h1: {kind: linux, image: alpine, exec: [sleep 600]}
    h2: {kind: linux, image: alpine}
  links:
    - endpoints: ['h1:eth1', 'h2:eth1']
";

#[test]
fn what_is_being_built_is_told_and_ends_when_it_is_interrupted() {
    if !can() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (plan, name) = strangers(directory.path());
    let slow = directory.path().join("slow.clab.yml");
    fs::write(&slow, SLOW).unwrap();
    for file in [plan, slow] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_vtax"))
            .args(["lab", "up", "--name", name.as_str()])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map(Killed::new)
            .expect("vtax starts");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let building = lines.find(|line| line == "lab: building the topology, until its routers agree");
        assert!(building.is_some(), "{}", file.display());
        let asked = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(asked.success());
        let rest: Vec<String> = lines.collect();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{}: {rest:?}", file.display());
        assert_eq!(rest, ["stopping: taking the lab down; once more to end at once"]);
        assert_eq!(daemons_of(&name), 0);
    }
}

#[test]
fn without_frr_the_way_to_it_is_told() {
    if !can() || !need(&[Need::Root]) {
        return;
    }
    let name = format!("m{}", std::process::id());
    let directory = tempfile::tempdir().unwrap();
    let (plan, _) = strangers(directory.path());
    for file in [written(directory.path(), &name), plan] {
        let script = "mount -t tmpfs none /usr/lib/frr && exec \"$@\"";
        let output = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "/bin/sh", "-c", script, "sh"])
            .args([env!("CARGO_BIN_EXE_vtax"), "lab", "up", "--name", name.as_str()])
            .arg(&file)
            .output()
            .expect("unshare starts");
        let told = output_text(&output);
        assert_eq!(output.status.code(), Some(3), "{told}");
        assert!(told.contains("FRR is not installed") && told.contains("vtax setup --labs"), "{told}");
    }
}

/// A plan without routers.
const PLAIN: &str = "
vtax: 1
name: plain
baseline: {environment: native, path: direct}
environments: native
paths: [direct, bridge]
services: http
workload: {http: {target: /bytes/10}}
measure: capacity
";

#[test]
fn any_cell_stands_with_its_service_and_its_path_is_cut_by_hand() {
    if !need(&[Need::Ns]) || !installed(&["ip"]) {
        return;
    }
    let name = format!("c{}", std::process::id());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plan.yaml");
    fs::write(&file, PLAIN).unwrap();
    let (up, said) = Up::with(&file, &name, &["--service", "--cell", "native.bridge.http"]);
    assert!(said.contains("client, sut"), "{said}");
    let service = said.lines().find_map(|line| line.split_once("its service listens at "));
    let (_, service) = service.unwrap_or_else(|| panic!("no service: {said}"));
    let (address, port) = service.rsplit_once(':').unwrap();
    let script = format!(
        "exec 3<>/dev/tcp/{address}/{port} && printf 'GET /bytes/10 HTTP/1.0\r\n\r\n' >&3 && head -n 1 <&3"
    );
    let ask_for = |seconds| up.exec_words("client", &["timeout", seconds, "bash", "-c", &script]);
    // As long as a busy machine may need.
    let ask = || ask_for("20");
    let (well, answer) = ask();
    assert!(well && answer.contains(" 200 "), "{answer}");
    let (well, where_to) = up.exec("client", &format!("ip -o route get {address}"));
    let interface = where_to.split_once(" dev ").and_then(|(_, rest)| rest.split(' ').next());
    let interface = interface.unwrap_or_else(|| panic!("{well} {where_to}")).to_owned();
    let capture = directory.path().join("client.pcap");
    let asking = std::thread::scope(|scope| {
        let capturing = scope.spawn(|| {
            let words = ["lab", "capture", "--lab", name.as_str(), "client", interface.as_str()];
            let rest = ["--duration", "3s", "--output", capture.to_str().unwrap()];
            vtax(&words.into_iter().chain(rest).collect::<Vec<_>>())
        });
        // The capture may take its time to begin.
        while !capturing.is_finished() {
            assert!(ask().0);
            std::thread::sleep(Duration::from_millis(100));
        }
        capturing.join().unwrap()
    });
    assert!(asking.status.success(), "{}", output_text(&asking));
    assert!(fs::metadata(&capture).unwrap().len() > 200, "an exchange has several packets");
    let told = full_capture(&up, &interface, address, &directory.path().join("full.pcap"));
    assert!(told.contains("ended after ") && told.contains(" s, at 4 MiB"), "{told}");
    assert!(up.fault("cut", "path").status.success());
    assert!(!ask_for("3").0, "its cable is pulled");
    assert!(up.fault("restore-link", "path").status.success());
    let until = Instant::now() + SURELY;
    // Whoever asked meanwhile has to find its neighbour again.
    while !ask_for("3").0 {
        assert!(Instant::now() < until, "its cable is plugged in again");
    }
    let refused = output_text(&up.fault("cut", "p1-pe2"));
    assert!(refused.contains("this testbed has no routers"), "{refused}");
    let (well, why) = up.exec("pe1", "true");
    assert!(!well && why.contains("there is no node `pe1`; there are client, sut"), "{why}");
}

/// What a capture says that is over because it is full, while the client sends until it is.
fn full_capture(up: &Up, interface: &str, address: &str, file: &Path) -> String {
    let send = format!("exec 3>/dev/udp/{address}/9; for i in $(seq 10000); do echo >&3; done 2>/dev/null");
    std::thread::scope(|scope| {
        let capturing = scope.spawn(|| {
            let words = ["lab", "capture", "--lab", up.name.as_str(), "client", interface];
            let rest = ["--duration", "60s", "--output", file.to_str().unwrap()];
            vtax(&words.into_iter().chain(rest).collect::<Vec<_>>())
        });
        while !capturing.is_finished() {
            up.exec_words("client", &["bash", "-c", &send]);
        }
        let captured = capturing.join().unwrap();
        assert!(captured.status.success(), "{}", output_text(&captured));
        output_text(&captured)
    })
}

/// A plan with several systems, one of which has its files on a disk.
const SEVERAL: &str = "
vtax: 1
name: several
baseline: native
environments: [{native: {count: 2}}]
services: http
workload: {http: {target: /bytes/10}}
measure: capacity
systems:
  name: busy
  beside: {name: files, service: {ftp: {backend: disk}}, workload: {ftp: {}}, load: idle}
";

#[test]
fn a_cell_stands_as_its_trials_have_it() {
    if !need(&[Need::Root]) || !installed(&["pasta"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plan.yaml");
    fs::write(&file, SEVERAL).unwrap();
    let name = format!("s{}", std::process::id());
    let (up, said) = Up::with(&file, &name, &["--service"]);
    assert!(said.contains(": client, sut, sut-2, sut-3\n"), "{said}");
    let listen = ["sut", "sut-2", "sut-3"].map(|node| format!("  {node}'s service listens at "));
    assert!(listen.iter().all(|words| said.contains(words)), "{said}");
    let (well, why) = up.exec("sut-3", "true");
    assert!(well, "{why}");
    // A path that has to know which port is published.
    fs::write(&file, PLAIN.replace("[direct, bridge]", "[direct, pasta]")).unwrap();
    let (_up, said) = Up::with(&file, &format!("p{name}"), &["--service", "--cell", "native.pasta.http"]);
    assert!(said.contains("  its service listens at "), "{said}");
}

#[test]
fn a_file_is_drawn_or_its_faults_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let file = written(directory.path(), "x");
    let words = ["lab", "graph", file.to_str().unwrap()];
    let output = vtax(&words);
    assert!(output_text(&output).contains("\"r1x\" -- \"r2x\""), "{}", output_text(&output));
    let output = vtax(&["lab", "graph", "--svg", file.to_str().unwrap()]);
    assert!(output_text(&output).starts_with("<svg") && output_text(&output).contains(">h2</text>"));
    fs::write(&file, FILE.replace("links:", "mgmt: {}\n  links:")).unwrap();
    let output = vtax(&words);
    assert_eq!(output.status.code(), Some(2));
    assert!(output_text(&output).contains("two.clab.yml:11:3"), "{}", output_text(&output));
}
