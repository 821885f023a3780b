//! Many random kills of protected guests: do memory and connections survive every one of them?
//!
//! A client asks a counter in the guest's memory over one TCP connection, and the host that runs the guest
//! is killed at random moments. A failure is a connection that broke or a number that is not the next.

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
use vtax_lab::ft::{FtPair, PairEventKind, PairMode, PairSpec, PairTask, Side, choose_qemu_as};
use vtax_lab::{Isolation, Lab, LabOptions, NodeSpec, Shape, configure_from_outside};
use vtax_sys::controller::{ControllerOptions, start_controller};
use vtax_units::Nanos;
use vtax_vm::ft::Mode;
use vtax_vm::{Cache, Guest, GuestOptions, GuestRoot};

use crate::tasks::vtax;

/// Kills of one guest before a new one is booted.
const PER_GUEST: usize = 10;
/// How long anything that is waited for may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Remus's interval.
const INTERVAL: Nanos = Nanos::from_millis(40);

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

/// Kills `count` times in each mode.
pub(crate) fn run(count: &str) -> Result<()> {
    let count: usize = count.parse().with_context(|| format!("`{count}` is not a number of kills"))?;
    ensure!(vtax().exists(), "{} is missing; run `make build`", vtax().display());
    // The proof runs this very program as its guest's first process, which xtask is not.
    let cache = Cache::of_user();
    let qemu = choose_qemu_as(&cache, false, &vtax())?;
    println!("{}", qemu.line());
    let options = GuestOptions {
        init: vtax(),
        root: GuestRoot::Nothing,
        qemu: Some(qemu.qemu),
        ..GuestOptions::of_user()
    };
    let guest = Arc::new(Guest::prepare(&options)?);
    let mut all_survived = true;
    for mode in [Mode::Kemari, Mode::Remus { interval: INTERVAL }] {
        let mut total = Found::default();
        let mut done = 0;
        while done < count {
            let part = PER_GUEST.min(count - done);
            let found = apart(&guest, mode, part, done as u64)?;
            done += part;
            add(&mut total, found);
            println!("{} {done}/{count}: {} survived", mode.word(), total.survived);
        }
        tell(mode, count, &mut total);
        all_survived &= total.failures.is_empty();
    }
    ensure!(all_survived, "not every kill was survived");
    Ok(())
}

/// Kills one guest several times, in a controller of its own.
fn apart(guest: &Arc<Guest>, mode: Mode, count: usize, seed: u64) -> Result<Found> {
    let (mut read, write) = std::io::pipe()?;
    let guest = Arc::clone(guest);
    let controller = start_controller(ControllerOptions::for_this_process(), move |inside| {
        // Whoever is interrupted takes everything along.
        let _ = inside.end_with_front();
        let found = kills(guest, mode, count, seed)
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

fn kills(guest: Arc<Guest>, mode: Mode, count: usize, seed: u64) -> Result<Found> {
    // A busy host must not decide about times (sched(7), autogroup); refused to ordinary users.
    let _ = std::fs::write("/proc/self/autogroup", "-10");
    let mut options = LabOptions::new(Isolation::Namespaces);
    options.guest = Some(guest);
    // Held open: a node has a `/tmp` of its own, and the program may lie there.
    let program = std::fs::File::open(vtax())?;
    options.agent_program = format!("/proc/self/fd/{}", program.as_raw_fd()).into();
    let mut lab = Lab::new(options)?;
    let mut fabric = lab.fabric()?;
    let mut switch = fabric.add_switch(1500)?;
    let mut client = lab.add_native_node(&NodeSpec::new("client"))?;
    fabric.plug(&mut client, &mut switch, Shape::default())?;
    configure_from_outside(&[&client])?;
    fabric.start(&switch)?;
    let spec = PairSpec::new("soak", PairMode::Checkpoints(mode), PairTask::Witness);
    let pair = lab.add_pair(&mut fabric, &switch, spec)?;
    let netns = client.netns().ok_or_else(|| anyhow!("the client has no namespace"))?;
    let questioner = Questioner::start(netns, pair.address(), "soak")?;
    pair.arm()?;
    let mut random = StdRng::seed_from_u64(seed);
    let mut found = Found::default();
    for nth in 1..=count {
        if let Err(e) = kill_once(&pair, &questioner, &mut random, nth, &mut found) {
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
    pair.kill_host(Side::Primary)?;
    let promoted = pair.wait_for(PATIENCE, |events, _| {
        let count = events.iter().filter(|e| matches!(e.kind, PairEventKind::Promoted { .. })).count();
        (count >= nth).then_some(())
    });
    promoted.ok_or_else(|| anyhow!("nobody took over"))?;
    questioner.wait_answers(20, PATIENCE)?;
    match questioner.first_after(killed) {
        Some(first) => found.first_answers.push(ms(first.came - killed)),
        None => bail!("no answer came"),
    }
    for host in pair.hosts_off() {
        pair.restore(&host)?;
    }
    ensure!(pair.wait_armed(PATIENCE), "it was not protected again");
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

fn tell(mode: Mode, count: usize, found: &mut Found) {
    println!("\n{}: {} of {count} kills survived", mode.word(), found.survived);
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
