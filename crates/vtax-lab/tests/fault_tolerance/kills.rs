//! Killed hosts: what survives.

use std::time::{Duration, Instant};

use vtax_lab::ft::witness::Questioner;
use vtax_lab::ft::{FtPair, PairEventKind, PairMode, PairSpec, PairTask, Side};
use vtax_plan::model::NicModel;
use vtax_units::{Bytes, Nanos};
use vtax_vm::ft::Mode;

use crate::{
    LIMIT, SOON, World, armed, goes_on, kill_primary, missing_records, promoted, repaired, show, spec, wait,
};

pub(crate) fn kemari_survives_kills(world: &mut World) {
    let mut spec = spec(Mode::Kemari);
    spec.hosts = vec!["0".parse().unwrap(); 2];
    let pair = world.pair(spec.clone());
    held(world, &pair, &spec);
    let questioner = world.ask(&pair, "hello");
    let took = armed(&pair);
    goes_on(&pair, &questioner, 50);
    let supervision = pair.supervision_cpu();
    let first = kill_primary(&pair, &questioner, 1);
    assert!(pair.supervision_cpu() >= supervision, "what the dead host used was used");
    // The other host is dead, so it can't be protected again yet.
    assert_eq!(
        pair.pauses_us().len(),
        0,
        "the pauses of the copy that took over were no pauses of the guest"
    );
    repaired(&pair);
    goes_on(&pair, &questioner, 50);
    let second = kill_primary(&pair, &questioner, 2);
    let statistics = pair.statistics();
    let again: Vec<Nanos> = pair.events().iter().filter_map(|e| arming(&e.kind)).skip(1).collect();
    println!("  armed in {took}, again in {again:?}, first answers after {first:?} and {second:?}");
    println!("  {:?}", statistics[0]);
    assert_eq!(statistics.len(), 2);
    let (cpu, bytes) = (pair.host_cpu(), pair.link_bytes().unwrap());
    println!("  {cpu:?}, {bytes} bytes over the link, supervision {}", pair.supervision_cpu());
    assert!(cpu.values().all(|time| *time > Nanos::from_millis(100)) && bytes > 20 << 20, "{cpu:?} {bytes}");
    assert!(pair.all_pauses_us().len() > pair.pauses_us().len());
    assert!(statistics.iter().all(|s| s.count > 10 && s.pause_median > Nanos::ZERO), "{statistics:?}");
    questioner.finish().unwrap();
}

/// Whatever the guest's card: its state is in the checkpoints, and what it sends waits for them.
pub(crate) fn any_card_survives(world: &mut World) {
    for (nic, mode) in [
        (NicModel::E1000e, Mode::Kemari),
        (NicModel::E1000, Mode::Remus { interval: Nanos::from_millis(40) }),
        (NicModel::Rtl8139, Mode::Kemari),
    ] {
        let pair = world.pair(PairSpec { nic, ..spec(mode) });
        let questioner = world.ask(&pair, "hello");
        let took = armed(&pair);
        goes_on(&pair, &questioner, 50);
        let first = kill_primary(&pair, &questioner, 1);
        goes_on(&pair, &questioner, 50);
        let statistics = pair.statistics();
        let pause = statistics[0].pause_median;
        println!(
            "  {}, {}: armed in {took}, first answer after {first:?}, pauses of {pause}",
            nic.word(),
            mode.word()
        );
        questioner.finish().unwrap();
    }
}

fn arming(kind: &PairEventKind) -> Option<Nanos> {
    match kind {
        PairEventKind::Armed { took } => Some(*took),
        _ => None,
    }
}

/// Everything on a host is held to its CPUs and its memory, as other nodes are.
fn held(world: &World, pair: &FtPair, spec: &PairSpec) {
    for (host, held) in pair.enforced().unwrap() {
        println!("  {host}: {}", held.describe());
        let memory = world.groups.holds_memory().then(|| spec.memory_needed());
        assert_eq!((held.cpus_by_group, held.memory), (world.groups.holds_cpus(), memory), "{host}");
    }
    let used = pair.usage();
    let memory = used[0].1.memory.unwrap_or(Bytes(u64::MAX));
    assert!(memory > Bytes::from_mib(20), "QEMU is in its host's group: {used:?}");
}

pub(crate) fn remus_survives_a_kill(world: &mut World) {
    let interval = Nanos::from_millis(40);
    let pair = world.pair(spec(Mode::Remus { interval }));
    let questioner = world.ask(&pair, "dirty 1024");
    armed(&pair);
    held_back(&pair, &questioner);
    copy_is_stopped(&pair);
    let first = kill_primary(&pair, &questioner, 1);
    let statistics = pair.statistics();
    println!("  first answer after {first:?}, {:?}", statistics[0]);
    assert!(statistics[0].pages_mean_at_most > 256.0, "{statistics:?}");
    questioner.finish().unwrap();
}

/// QEMU lets a copy run from each checkpoint to the next. It must not: it is stopped again, and found so between two checkpoints.
fn copy_is_stopped(pair: &FtPair) {
    let copy = pair.secondary().unwrap();
    let until = Instant::now() + SOON;
    let stopped = || {
        let status = copy.execute("query-status", serde_json::Value::Null).unwrap();
        status["status"] == "paused"
    };
    while !stopped() {
        assert!(Instant::now() < until, "the copy runs\n{}", show(pair));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Every answer waits for a checkpoint: there can't be more of them than checkpoints, however busy the machine is.
fn held_back(pair: &FtPair, questioner: &Questioner) {
    let count = || (questioner.answers().len(), pair.statistics()[0].count);
    let (answers, checkpoints) = count();
    goes_on(pair, questioner, 30);
    let (answers, checkpoints) = (count().0 - answers, count().1 - checkpoints);
    // Checkpoints are counted from QEMU's events, and the last few may still be on their way to us, or with the thread that reads them.
    assert!(answers as u64 <= checkpoints + 10, "output is not held back: {answers} {checkpoints}");
}

/// A host that is mended before its silence means anything.
pub(crate) fn restored_at_once(world: &mut World) {
    let pair = world.pair(spec(Mode::Kemari));
    let questioner = world.ask(&pair, "hello");
    armed(&pair);
    goes_on(&pair, &questioner, 20);
    let host = pair.host_of(Side::Primary).unwrap();
    pair.hang_host(Side::Primary).unwrap();
    assert_eq!(pair.hosts_down(), [host.as_str()]);
    pair.restore(&host).unwrap();
    assert!(pair.hosts_down().is_empty(), "{}", show(&pair));
    goes_on(&pair, &questioner, 20);
    // On a busy machine it may have been fenced all the same.
    assert!(pair.wait_armed(SOON), "{}", show(&pair));
    let takeovers = || pair.events().iter().filter(|e| promoted(&e.kind)).count();
    let (before, host) = (takeovers(), pair.host_of(Side::Primary).unwrap());
    pair.kill_host(Side::Primary).unwrap();
    pair.restore(&host).unwrap();
    wait(&pair, "take-over", before + 1, promoted);
    goes_on(&pair, &questioner, 20);
    assert!(pair.wait_armed(SOON), "not protected on the host that came back\n{}", show(&pair));
    questioner.finish().unwrap();
}

pub(crate) fn disk_survives(world: &mut World) {
    let mut spec = spec(Mode::Kemari);
    spec.disk = Some(Bytes::from_mib(16));
    let pair = world.pair(spec);
    let questioner = world.ask(&pair, "record");
    goes_on(&pair, &questioner, 20);
    armed(&pair);
    goes_on(&pair, &questioner, 50);
    let first = kill_primary(&pair, &questioner, 1);
    goes_on(&pair, &questioner, 20);
    let answers = questioner.finish().unwrap();
    let missing = missing_records(&pair, answers.iter().map(|a| a.number));
    println!("  {} records, {} missing, first answer after {first:?}", answers.len(), missing.len());
    assert!(missing.is_empty(), "{missing:?}");
}

/// Probes that were started before the kill are still there after it, and no question stays unanswered.
pub(crate) fn agent_survives(world: &mut World) {
    let mut pair = world.pair(PairSpec::new("sut", PairMode::Checkpoints(Mode::Kemari), PairTask::Agent));
    let stream = pair.take_channel().unwrap();
    let read = stream.try_clone().unwrap();
    let client = vtax_agent::Client::start("sut", read, stream, Box::new(|_| {})).unwrap();
    client.hello(LIMIT / 2).unwrap_or_else(|e| panic!("{e}\n{}", show(&pair)));
    client.configure_network(pair.interfaces().to_vec()).unwrap();
    armed(&pair);
    client.start_probes(Nanos::from_millis(20)).unwrap();
    let asked = std::thread::scope(|scope| {
        // Asked all the time, so that some questions are on their way when the host dies.
        let asking = scope.spawn(|| (0..40).filter(|_| client.snapshot().is_ok()).count());
        std::thread::sleep(Duration::from_millis(200));
        pair.kill_host(Side::Primary).unwrap();
        wait(&pair, "take-over", 1, promoted);
        asking.join().unwrap()
    });
    assert_eq!(asked, 40, "{}", show(&pair));
    let snapshots = client.stop_probes().unwrap();
    assert!(snapshots.len() > 10, "{}", snapshots.len());
    client.shutdown().unwrap();
}
