//! Many random kills of protected guests: do memory and connections survive every one of them?
//!
//! A client asks a counter in the guest's memory over one TCP connection, and the host that runs the guest, or the one
//! that has its copy, is killed at random moments. A failure is a connection that broke or a number that is not the next; with a
//! disk, also a record on it that the client was told of and that isn't there afterwards.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::{Deserialize, Serialize};
use vtax_lab::ft::witness::Questioner;
use vtax_lab::ft::{FtPair, PairEventKind, PairMode, PairSpec, PairTask, Side};
use vtax_lab::pair_qemu::choose_qemu_as;
use vtax_lab::{Isolation, Lab, LabOptions, LinkProperties, NodeSpec, configure_from_outside};
use vtax_sys::controller::{ControllerOptions, start_controller};
use vtax_units::{Bytes, Nanos};
use vtax_vm::ft::Mode;
use vtax_vm::{Cache, GuestRoot, GuestTemplate, GuestTemplateOptions};

use crate::place::vtax;

/// Kills of one guest before a new one is booted.
const PER_GUEST: usize = 10;
/// How long anything that is waited for may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Remus's interval.
const INTERVAL: Nanos = Nanos::from_millis(40);

/// What is killed, and how often for each hundred kills.
#[derive(Debug, Clone, Copy)]
struct Kind {
    name: &'static str,
    mode: Mode,
    /// Whose host is killed.
    victim: Side,
    /// Each answer is also a record on the guest's disk.
    records: bool,
    of_hundred: usize,
    /// Only where it is asked for.
    on_demand: bool,
}

const KEMARI: Kind = Kind {
    name: "kemari",
    mode: Mode::Kemari,
    victim: Side::Primary,
    records: false,
    of_hundred: 100,
    on_demand: false,
};

const KINDS: [Kind; 5] = [
    KEMARI,
    Kind { name: "remus", mode: Mode::Remus { interval: INTERVAL }, ..KEMARI },
    Kind { name: "disk", records: true, of_hundred: 20, ..KEMARI },
    Kind { name: "secondary", victim: Side::Secondary, ..KEMARI },
    Kind { name: "colo", mode: Mode::Colo, on_demand: true, ..KEMARI },
];

/// Size of the disk; it has room for a record of each answer of one guest.
const DISK: Bytes = Bytes::from_mib(32);
/// How long the layers of a disk may take to become one after a failover.
const MERGED_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of a record on the disk.
const RECORD: u64 = 512;

/// What was found, in milliseconds.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Found {
    survived: usize,
    failures: Vec<String>,
    pauses: Vec<f64>,
    first_answers: Vec<f64>,
    detected: Vec<f64>,
    fenced: Vec<f64>,
    promoted: Vec<f64>,
    armed: Vec<f64>,
    /// CPU seconds of supervision and the seconds they were used in.
    supervision: (f64, f64),
}

/// Kills `count` times in each mode, or in those that are named.
pub(crate) fn run(count: &str, names: &[&str]) -> Result<()> {
    let count: usize = count.parse().with_context(|| format!("`{count}` is not a number of kills"))?;
    if let Some(unknown) = names.iter().find(|name| !KINDS.iter().any(|kind| kind.name == **name)) {
        bail!("`{unknown}` is none of {}", KINDS.map(|kind| kind.name).join(", "));
    }
    ensure!(vtax().exists(), "{} is missing; run `make build`", vtax().display());
    // The proof runs this very program as its guest's first process, which this is not.
    let cache = Cache::of_user();
    let qemu = choose_qemu_as(&cache, false, &vtax())?;
    println!("{}", qemu.line());
    let options = GuestTemplateOptions {
        init: vtax(),
        root: GuestRoot::Nothing,
        qemu: Some(qemu.qemu),
        ..GuestTemplateOptions::of_user()
    };
    let template = Arc::new(GuestTemplate::prepare(&options)?);
    let wanted = |kind: &Kind| if names.is_empty() { !kind.on_demand } else { names.contains(&kind.name) };
    let kinds: Vec<Kind> = KINDS.into_iter().filter(wanted).collect();
    let kills = |kind: &Kind| (count * kind.of_hundred).div_ceil(100);
    let mut progress = Progress { started: Instant::now(), done: 0, total: kinds.iter().map(kills).sum() };
    let mut all_survived = true;
    for kind in kinds {
        let (count, mut total, mut done) = (kills(&kind), Found::default(), 0);
        while done < count {
            let part = PER_GUEST.min(count - done);
            let found = apart(&template, kind, part, done as u64)?;
            done += part;
            add(&mut total, found);
            let left = progress.after(part);
            println!("{} {done}/{count}: {} survived; {left}", kind.name, total.survived);
        }
        tell(kind, count, &mut total);
        all_survived &= total.failures.is_empty();
    }
    ensure!(all_survived, "not every kill was survived");
    Ok(())
}

/// How far all of it is.
struct Progress {
    started: Instant,
    done: usize,
    total: usize,
}

impl Progress {
    /// What is left after so many more kills, in words.
    fn after(&mut self, kills: usize) -> String {
        self.done += kills;
        let each = self.started.elapsed().as_secs_f64() / self.done.max(1) as f64;
        let left = each * (self.total - self.done) as f64;
        format!("{:.1} s a kill, about {:.0} min left", each, (left / 60.0).ceil())
    }
}

/// Kills one guest several times, in a controller of its own.
fn apart(template: &Arc<GuestTemplate>, kind: Kind, count: usize, seed: u64) -> Result<Found> {
    let (mut read, write) = std::io::pipe()?;
    let template = Arc::clone(template);
    let controller = start_controller(ControllerOptions::for_this_process(), move |inside| {
        // If the front process is interrupted, everything in here ends with it.
        let _ = inside.end_with_front();
        let found = kills(template, kind, count, seed)
            .unwrap_or_else(|e| Found { failures: vec![format!("{e:#}")], ..Found::default() });
        let text = serde_json::to_vec(&found).unwrap_or_default();
        let mut write = write;
        u8::from(write.write_all(&text).is_err())
    })?;
    let mut text = Vec::new();
    read.read_to_end(&mut text)?;
    controller.wait()?;
    serde_json::from_slice(&text).context("the controller of the kills ended without a result")
}

fn kills(template: Arc<GuestTemplate>, kind: Kind, count: usize, seed: u64) -> Result<Found> {
    // A busy host must not decide about times (sched(7), autogroup); refused to ordinary users.
    let _ = std::fs::write("/proc/self/autogroup", "-10");
    let mut options = LabOptions::new(Isolation::Namespaces);
    options.guest_template = Some(template);
    // Held open: a node has a `/tmp` of its own, and the program may lie there.
    let program = std::fs::File::open(vtax())?;
    options.agent_program = format!("/proc/self/fd/{}", program.as_raw_fd()).into();
    let mut lab = Lab::new(options)?;
    let mut fabric = lab.fabric()?;
    let mut switch = fabric.add_switch(1500)?;
    let mut client = lab.add_native_node(&NodeSpec::new("client"))?;
    fabric.plug(&mut client, &mut switch, LinkProperties::default())?;
    configure_from_outside(&[&client])?;
    fabric.start(&switch)?;
    let mut spec = PairSpec::new("soak", PairMode::Checkpoints(kind.mode), PairTask::Witness);
    spec.disk = kind.records.then_some(DISK);
    let pair = lab.add_pair(&mut fabric, &mut switch, spec)?;
    let netns = client.netns().ok_or_else(|| anyhow!("the client has no namespace"))?;
    let words = if kind.records { "record" } else { "soak" };
    let questioner = Questioner::start(netns, pair.address(), words)?;
    pair.arm()?;
    let mut random = StdRng::seed_from_u64(seed);
    let mut found = Found::default();
    for nth in 1..=count {
        if let Err(e) = kill_once(&pair, kind, &questioner, &mut random, nth, &mut found) {
            found.failures.push(format!("kill {nth}: {e:#}; events: {:?}", pair.events()));
            break;
        }
        found.survived += 1;
    }
    for event in pair.events() {
        match event.kind {
            PairEventKind::Detected { silence } => found.detected.push(ms(silence.into())),
            PairEventKind::Fenced { took } => found.fenced.push(ms(took.into())),
            PairEventKind::Promoted { took } => found.promoted.push(ms(took.into())),
            PairEventKind::Armed { took } => found.armed.push(ms(took.into())),
            _ => {}
        }
    }
    if let Err(e) = questioner.finish() {
        // It counts as one failure wherever it happened.
        found.survived = found.survived.saturating_sub(1);
        found.failures.push(vtax_sys::chain(&e));
    }
    Ok(found)
}

fn kill_once(
    pair: &FtPair,
    kind: Kind,
    questioner: &Questioner,
    random: &mut StdRng,
    nth: usize,
    found: &mut Found,
) -> Result<()> {
    let before = (pair.supervision_cpu(), Instant::now());
    std::thread::sleep(Duration::from_millis(random.random_range(300..1500)));
    let after = pair.supervision_cpu();
    found.supervision.0 += Nanos(after.0.saturating_sub(before.0.0)).as_secs_f64();
    found.supervision.1 += before.1.elapsed().as_secs_f64();
    found.pauses.extend(pair.pauses_us().into_iter().map(|us| f64::from(us) / 1000.0));
    let killed = Instant::now();
    pair.kill_host(kind.victim)?;
    let went_on = pair.wait_for(PATIENCE, |events, _| {
        let went_on = |event: &PairEventKind| match kind.victim {
            Side::Primary => matches!(event, PairEventKind::Promoted { .. }),
            Side::Secondary => matches!(event, PairEventKind::Unprotected { .. }),
        };
        (events.iter().filter(|e| went_on(&e.kind)).count() >= nth).then_some(())
    });
    went_on.ok_or_else(|| anyhow!("nobody went on"))?;
    questioner.wait_answers(20, PATIENCE)?;
    match questioner.first_after(killed) {
        Some(first) => found.first_answers.push(ms(first.came - killed)),
        None => bail!("no answer came"),
    }
    if pair.primary().is_some_and(|primary| primary.disk().is_some()) {
        check_records(pair, questioner)?;
    }
    for host in pair.hosts_off() {
        pair.restore(&host)?;
    }
    ensure!(pair.wait_armed(PATIENCE), "it was not protected again");
    Ok(())
}

/// Whether the disk of the one that runs the guest now has every record that the client was told of.
fn check_records(pair: &FtPair, questioner: &Questioner) -> Result<()> {
    let told = questioner.answers();
    let primary = pair.primary().ok_or_else(|| anyhow!("nobody runs the guest"))?;
    let missing = || -> Result<Vec<u64>> {
        let disk = primary.disk().ok_or_else(|| anyhow!("the guest has no disk"))?;
        let mut missing = Vec::new();
        for number in told.iter().map(|answer| answer.number) {
            let mut record = [0; RECORD as usize];
            disk.read_at(number * RECORD, &mut record)?;
            if !record.starts_with(format!("record {number}\n").as_bytes()) {
                missing.push(number);
            }
        }
        Ok(missing)
    };
    // What was written since the last checkpoint is merged into the image while the guest runs.
    let until = Instant::now() + MERGED_WITHIN;
    while !missing()?.is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let missing = missing()?;
    ensure!(missing.is_empty(), "{} of {} records are missing: {missing:?}", missing.len(), told.len());
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn add(total: &mut Found, part: Found) {
    total.survived += part.survived;
    total.failures.extend(part.failures);
    total.pauses.extend(part.pauses);
    total.first_answers.extend(part.first_answers);
    total.detected.extend(part.detected);
    total.fenced.extend(part.fenced);
    total.promoted.extend(part.promoted);
    total.armed.extend(part.armed);
    total.supervision.0 += part.supervision.0;
    total.supervision.1 += part.supervision.1;
}

fn tell(kind: Kind, count: usize, found: &mut Found) {
    println!("\n{}: {} of {count} kills survived", kind.name, found.survived);
    for failure in &found.failures {
        println!("  failed: {failure}");
    }
    let rows = [
        ("checkpoint pause", &mut found.pauses, "<= 6 ms"),
        ("first answer after the kill", &mut found.first_answers, "<= 300 ms"),
        ("silence until detection", &mut found.detected, ""),
        ("fence", &mut found.fenced, ""),
        ("take-over", &mut found.promoted, ""),
        ("protected (again)", &mut found.armed, "<= 1000 ms"),
    ];
    for (what, values, goal) in rows {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            values.get(((values.len().max(1) - 1) as f64 * share) as usize).copied().unwrap_or(0.0)
        };
        let (median, p95, max) = (at(0.5), at(0.95), at(1.0));
        println!(
            "  {what:<28} median {median:7.1} ms  p95 {p95:7.1}  max {max:7.1}  n {:6}  {goal}",
            values.len()
        );
    }
    let share = found.supervision.0 / found.supervision.1.max(1e-9) * 100.0;
    println!("  supervision                  {share:.2} % of a core  <= 1 %\n");
}
