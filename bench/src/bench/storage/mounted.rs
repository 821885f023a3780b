//! Sequential throughput through servers whose files a guest has mounted: vtax beside dd and fio in the same guest, on the same mount.
//!
//! All write and read a file of the same length in the same records, one at a time, through the page cache; writes are synced at the
//! end, which counts, and reads find nothing in the client's cache. The better of the two peers is the one that counts. vtax doesn't
//! compare what it reads here, but writes contents of its own, where the peers write the same buffer again and again.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Deserialize, Serialize};
use vtax_agent::Client;
use vtax_agent::message::{Event, Provisioning, ServiceId};
use vtax_lab::{Isolation, Lab, LabOptions, Node, Testbed, TestbedSpec};
use vtax_load::storage::mounted::{MountSpec, Volume};
use vtax_load::storage::{StorageResult, StorageSpec, StorageStep, TargetSpec};
use vtax_load::{LoadSpec, Model, Step};
use vtax_plan::model::{
    Backend, Budget, CommandService, Environment, EnvironmentKind, GaneshaBackend, GaneshaOptions, NetPath,
    NfsVersion, PathKind, Ready, SambaOptions, Service, ServiceKind, StorageCache, StorageEngine,
    StorageOperation, StorageShape, StorageSync,
};
use vtax_sys::cgroup::RunGroups;
use vtax_sys::controller::ControllerOptions;
use vtax_sys::sync::lock;
use vtax_units::{Bytes, CpuSet, Nanos, Share};
use vtax_vm::{GuestTemplate, GuestTemplateOptions};

use crate::place;
use crate::program::median;
use crate::sheet::{Row, Sheet};

const ROUNDS: usize = 3;
const FILE: u64 = 64 << 20;
const RECORD: u64 = 1 << 20;
const MEMORY: Bytes = Bytes::from_mib(512);
const GOAL: f64 = 0.95;
const BOOT_WITHIN: Duration = Duration::from_secs(90);
/// A line of the peer's may come after the answer to the request that started it.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// Where the peers would listen if they did: it must be an address of their guest.
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const MOUNTS: &str = "/run/vtax/mounts";

/// Bytes per second of each round.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Found {
    ours: Vec<f64>,
    dd: Vec<f64>,
    fio: Vec<f64>,
}

/// What is mounted.
#[derive(Debug, Clone, Copy)]
enum Server {
    Ganesha,
    Samba,
}

const SERVERS: [Server; 2] = [Server::Ganesha, Server::Samba];

impl Server {
    const fn word(self) -> &'static str {
        match self {
            Self::Ganesha => "ganesha (NFS 4.1)",
            Self::Samba => "samba (SMB 3.1.1)",
        }
    }

    fn service(self) -> Service {
        let kind = match self {
            Self::Ganesha => ServiceKind::Ganesha(GaneshaOptions {
                port: 2049,
                backend: GaneshaBackend::Files,
                nfs_version: NfsVersion::V41,
                mount_port: 20048,
            }),
            Self::Samba => ServiceKind::Samba(SambaOptions { port: 445, backend: Backend::Files }),
        };
        service("server", kind)
    }

    fn volume(self, address: SocketAddr) -> Volume {
        match self {
            Self::Ganesha => Volume::Nfs { address, path: GaneshaOptions::EXPORT.to_owned() },
            Self::Samba => Volume::Smb { address, share: SambaOptions::SHARE.to_owned() },
        }
    }
}

fn service(name: &str, kind: ServiceKind) -> Service {
    let (ready_timeout, stop_timeout) = (Nanos::from_secs(120), Nanos::from_secs(2));
    Service { name: name.to_owned(), kind, ready_timeout, stop_timeout }
}

/// The rows of both servers.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    let init = place::vtax();
    ensure!(init.exists(), "{} is missing; run `make build`", init.display());
    let modules = SERVERS.iter().flat_map(|server| server.service().kind.mounting_modules());
    let modules = modules.map(|name| (*name).to_owned()).collect();
    let template = Arc::new(GuestTemplate::prepare(&GuestTemplateOptions {
        init,
        modules,
        ..GuestTemplateOptions::of_user()
    })?);
    for server in SERVERS {
        for (found, what) in in_controller(&template, server)?.into_iter().zip(["write", "read"]) {
            let peers: Vec<f64> = found.dd.iter().zip(&found.fio).map(|(dd, fio)| dd.max(*fio)).collect();
            let ratio = median(found.ours.iter().zip(&peers).map(|(ours, peer)| ours / peer).collect());
            sheet.add(Row {
                name: format!("{what} through {} mounted in a guest, beside dd and fio", server.word()),
                ours: median(found.ours) / 1e6,
                peer: Some(median(peers) / 1e6),
                unit: "MB/s".to_owned(),
                ratio: Some(ratio),
                goal: format!(">= {GOAL}x"),
                ok: ratio >= GOAL,
            })?;
        }
    }
    Ok(())
}

/// Measures in a controller, as runs do: writes, then reads.
fn in_controller(template: &Arc<GuestTemplate>, server: Server) -> Result<[Found; 2]> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).context("opening a pipe")?;
    let program = File::open(place::vtax()).context("opening vtax")?;
    let template = Arc::clone(template);
    let ended = vtax_testkit::in_controller(ControllerOptions::for_this_process(), move |groups| {
        let found = measure(groups, &program, template, server);
        let text = match &found {
            Ok(found) => serde_json::to_string(found).unwrap_or_default(),
            Err(error) => format!("{error:#}"),
        };
        // A reader that is gone wants nothing any more.
        let _ = File::from(write).write_all(text.as_bytes());
    });
    let mut text = String::new();
    File::from(read).read_to_string(&mut text).context("reading what was found")?;
    ended.context("measuring in a controller")?;
    serde_json::from_str(&text).with_context(|| format!("through {}: {text}", server.word()))
}

fn measure(
    groups: RunGroups,
    program: &File,
    template: Arc<GuestTemplate>,
    server: Server,
) -> Result<[Found; 2]> {
    let mut options = LabOptions::new(Isolation::Namespaces);
    options.groups = Some(groups);
    options.guest_template = Some(template);
    // Held open: a node has a `/tmp` of its own, and the program may lie there.
    options.agent_program = format!("/proc/self/fd/{}", program.as_raw_fd()).into();
    let mut lab = Lab::new(options)?;
    let environment = Environment::new("native", EnvironmentKind::Native);
    let budget = Budget { sut_cpus: None, sut_memory: MEMORY, client_cpus: None };
    let path = NetPath::new("bridge", PathKind::Bridge);
    let spec = TestbedSpec { guest_client: Some(MEMORY), ..TestbedSpec::of_one(environment, path, budget) };
    let mut testbed = lab.build(&spec)?;
    let found = on(&mut testbed, server);
    let errors = testbed.destroy();
    ensure!(errors.is_empty(), "taking the testbed down: {errors:?}");
    found
}

fn on(testbed: &mut Testbed, server: Server) -> Result<[Found; 2]> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sut = talk(&mut testbed.the_sut_mut().node, &Arc::default())?;
    let client = talk(&mut testbed.client, &lines)?;
    greet(&sut, &testbed.the_sut().node)?;
    greet(&client, &testbed.client)?;
    let address = testbed.the_sut().service_address;
    let ready = sut.start_service(ServiceId::ONLY, &server.service(), address, &Provisioning::default())?;
    let mount = MountSpec { volume: server.volume(ready.address), place: MOUNTS.to_owned() };
    client.open_load(&LoadSpec::Storage(StorageSpec {
        target: TargetSpec::Mounted(mount),
        cpus: CpuSet::default(),
        timeout: Nanos::from_secs(60),
        seed: 1,
        keep: true,
    }))?;
    let programs = Programs { client: &client, lines: &lines };
    let mut found = [Found::default(), Found::default()];
    for _ in 0..ROUNDS {
        for (found, operation) in found.iter_mut().zip([StorageOperation::Write, StorageOperation::Read]) {
            found.ours.push(programs.ours(operation)?);
            found.dd.push(programs.dd(operation)?);
            found.fio.push(programs.fio(operation)?);
        }
    }
    client.close_load()?;
    sut.stop_service(ServiceId::ONLY, Nanos::from_secs(2))?;
    Ok(found)
}

type Lines = Arc<Mutex<Vec<String>>>;

fn talk(node: &mut Node, lines: &Lines) -> Result<Client> {
    let read = node.take_channel().context("no stream to an agent")?;
    let write = read.try_clone().context("duplicating a stream")?;
    let lines = Arc::clone(lines);
    let note = move |event| {
        if let Event::ServiceOutput { line, .. } = event {
            lock(&lines).push(line);
        }
    };
    Ok(Client::start(node.name(), read, write, Box::new(note))?)
}

fn greet(client: &Client, node: &Node) -> Result<()> {
    client.hello(BOOT_WITHIN).with_context(|| node.output())?;
    // A namespace's are brought up by the laboratory.
    if let Some(interfaces) = node.interfaces() {
        client.configure_network(interfaces.to_vec())?;
    }
    Ok(())
}

/// The client's guest, in which vtax and its peers are run.
struct Programs<'a> {
    client: &'a Client,
    lines: &'a Lines,
}

impl Programs<'_> {
    /// Bytes per second of vtax's own load.
    fn ours(&self, operation: StorageOperation) -> Result<f64> {
        self.drop_files()?;
        let step = StorageStep {
            shape: StorageShape {
                file: Bytes(FILE),
                record: Bytes(RECORD),
                processes: 1,
                depth: 1,
                engine: StorageEngine::Psync,
                direct: false,
                sync: StorageSync::End,
                verify: false,
                dedupe: Share(0.0),
                compressible: Share(0.0),
                files: 1,
            },
            operation,
            model: Model::Closed,
            warmup: Nanos::ZERO,
            duration: Nanos::from_secs(60),
            once: true,
            cache: StorageCache::AsIs,
            seed: 1,
            samples: false,
            interval: Nanos::from_secs(1),
            read_back: None,
        };
        let within = step.longest();
        let result: StorageResult =
            self.client.run_step(Step::Storage(Box::new(step)), within, &mut |_| {})?;
        if let Some(trouble) = result.trouble() {
            bail!("vtax's own: {trouble}");
        }
        Ok(result.parent())
    }

    /// Bytes per second, as dd tells them: `N bytes (..) copied, S s, ..`.
    fn dd(&self, operation: StorageOperation) -> Result<f64> {
        let file = format!("{MOUNTS}/0/dd");
        let count = (FILE / RECORD).to_string();
        let ends = match operation.only_reads() {
            true => [format!("if={file}"), "of=/dev/null".to_owned(), "iflag=fullblock".to_owned()],
            false => ["if=/dev/zero".to_owned(), format!("of={file}"), "conv=fsync".to_owned()],
        };
        let mut words = vec!["dd".to_owned(), format!("bs={RECORD}"), format!("count={count}")];
        words.extend(ends);
        let line = self.told(words, " copied, ")?;
        let bytes = line.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
        let time =
            line.split(" copied, ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        let (bytes, time): (f64, f64) = bytes.zip(time).with_context(|| format!("dd said: {line}"))?;
        ensure!(bytes as u64 == FILE, "dd moved {bytes} bytes");
        Ok(bytes / time)
    }

    /// Bytes per second, from fio's terse line (version 3): total KiB and milliseconds.
    fn fio(&self, operation: StorageOperation) -> Result<f64> {
        let reads = operation.only_reads();
        let mut words =
            vec!["fio".to_owned(), "--name=peer".to_owned(), format!("--filename={MOUNTS}/0/fio")];
        words.push(format!("--rw={}", if reads { "read" } else { "write" }));
        words.extend([format!("--bs={RECORD}"), format!("--size={FILE}")]);
        let more = ["--ioengine=psync", "--end_fsync=1", "--fallocate=none", "--thread", "--minimal"];
        words.extend(more.map(str::to_owned));
        let line = self.told(words, "3;fio-")?;
        let fields: Vec<&str> = line.split(';').collect();
        let (total, time) = if reads { (5, 8) } else { (46, 49) };
        let field = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        let (kib, time) = field(total).zip(field(time)).with_context(|| format!("fio said: {line}"))?;
        ensure!(field(4) == Some(0.0) && kib * 1024.0 == FILE as f64, "fio said: {line}");
        Ok(kib * 1024.0 / (time / 1e3))
    }

    /// Nothing of the mount is in the client's cache then. Its connection stays: a new one is slow at first.
    fn drop_files(&self) -> Result<()> {
        let (held, of) = self.client.drop_files(format!("{MOUNTS}/0").into())?;
        ensure!(held == 0, "the client still holds {held} of {of} bytes of the files");
        Ok(())
    }

    /// Runs a program in the guest with nothing of the mount in its cache; the line with `mark` that it prints.
    fn told(&self, words: Vec<String>, mark: &str) -> Result<String> {
        self.drop_files()?;
        lock(self.lines).clear();
        // A service that has ended isn't ready, so something stays.
        let stays = ["/bin/sh", "-c", "\"$@\"; exec sleep 1000", "sh"].map(str::to_owned);
        let program = words[0].clone();
        let kind = ServiceKind::Command(CommandService {
            command: stays.into_iter().chain(words).collect(),
            port: 9,
            ready: Ready::Log(mark.to_owned()),
            env: Default::default(),
            files: Default::default(),
        });
        let started = self.client.start_service(
            ServiceId::ONLY,
            &service(&program, kind),
            NOWHERE,
            &Provisioning::default(),
        );
        started.with_context(|| format!("{program} in the guest: {:?}", lock(self.lines)))?;
        let until = Instant::now() + TOLD_WITHIN;
        let line = loop {
            let found = lock(self.lines).iter().find(|line| line.contains(mark)).cloned();
            if found.is_some() || Instant::now() >= until {
                break found;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        self.client.stop_service(ServiceId::ONLY, Nanos::from_secs(2))?;
        line.with_context(|| format!("{program} said nothing of what it moved"))
    }
}
