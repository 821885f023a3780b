//! Other ways to go on: moved, booted again, from a snapshot, side by side.

use std::time::{Duration, Instant};

use vtax_lab::ft::{FtPair, PairEventKind, PairMode, PairSpec, PairTask, Side};
use vtax_units::{BitRate, Bytes, Nanos};
use vtax_vm::ft::Mode;

use crate::{
    Questioner, SOON, World, armed, goes_on, kill_primary, missing_records, repaired, show, spec,
    try_kill_primary, wait,
};

/// Moves the guest while it runs. Its records are on the disk it has at the end.
pub(crate) fn planned_failover(world: &mut World) {
    let mut spec = spec(Mode::Kemari);
    spec.disk = Some(Bytes::from_mib(16));
    let pair = world.pair(spec);
    let questioner = world.ask(&pair, "record");
    armed(&pair);
    goes_on(&pair, &questioner, 20);
    let before = pair.host_of(Side::Primary);
    let moved = pair.hand_over().unwrap_or_else(|e| panic!("{e}\n{}", show(&pair)));
    assert_ne!(pair.host_of(Side::Primary), before);
    goes_on(&pair, &questioner, 50);
    assert!(pair.wait_armed(SOON), "{}", show(&pair));
    goes_on(&pair, &questioner, 20);
    kill_primary(&pair, &questioner, 1);
    println!("  the guest ran nowhere for {}", moved.stopped);
    let answers = questioner.finish().unwrap();
    assert_eq!(missing_records(&pair, answers.iter().map(|a| a.number)), Vec::<u64>::new());
}

pub(crate) fn restarted(world: &mut World) {
    let pair = world.pair(PairSpec::new("sut", PairMode::Restart, PairTask::Witness));
    let questioner = world.ask(&pair, "hello");
    assert_eq!(pair.arm().unwrap(), Nanos::ZERO);
    goes_on(&pair, &questioner, 50);
    let last = questioner.answers().last().unwrap().number;
    drop(questioner);
    pair.kill_host(Side::Primary).unwrap();
    wait(&pair, "restart", 1, |k| matches!(k, PairEventKind::Restarted));
    let again = world.ask(&pair, "hello");
    assert!(again.answers()[0].number < last, "memory is new");
    crate::fences::port_is_cut(&pair, &again);
}

/// The connection is lost, but not what was in memory and on the disk when the snapshot was taken.
pub(crate) fn snapshot_goes_on(world: &mut World) {
    let interval = Nanos::from_millis(300);
    let mut spec = PairSpec::new("sut", PairMode::Snapshot { interval }, PairTask::Witness);
    spec.disk = Some(Bytes::from_mib(16));
    let pair = world.pair(spec);
    let questioner = world.ask(&pair, "record");
    goes_on(&pair, &questioner, 50);
    let took = armed(&pair);
    let at_first = questioner.answers().len() as u64;
    // Several snapshots.
    let found =
        pair.wait_for(SOON, |_, _| pair.statistics().last().is_some_and(|s| s.count >= 4).then_some(()));
    assert!(found.is_some(), "{}", show(&pair));
    let statistics = pair.statistics();
    pair.kill_host(Side::Primary).unwrap();
    let killed = Instant::now();
    let last = questioner.answers().last().unwrap().number;
    drop(questioner);
    let restored = pair.wait_for(SOON, |events, _| {
        events.iter().find_map(|e| match e.kind {
            PairEventKind::Restored { took, age } => Some((took, age)),
            _ => None,
        })
    });
    let (restore, age) = restored.unwrap_or_else(|| panic!("nothing was restored\n{}", show(&pair)));
    let again = world.ask(&pair, "record");
    println!(
        "  armed in {took}, restored in {restore} to {age} before, answers after {:?}",
        killed.elapsed()
    );
    println!("  {:?}", statistics[0]);
    let first = again.answers()[0].number;
    // One request may have been in the guest when the snapshot was taken, and is new only to it.
    assert!(first > at_first && first <= last + 2, "{at_first} {first} {last}");
    goes_on(&pair, &again, 20);
    repaired(&pair);
    goes_on(&pair, &again, 20);
    // Where nothing was lost, the old connection may go on as well: the numbers need not be in order.
    let numbers = (1..first).chain(again.answers().into_iter().map(|a| a.number));
    assert_eq!(missing_records(&pair, numbers), Vec::<u64>::new());
}

/// The host to which a snapshot is being sent dies. Its cables are out, so that QEMU isn't told; nobody waits for it all the same.
pub(crate) fn snapshot_is_given_up(world: &mut World) {
    let interval = Nanos::from_millis(100);
    let mut spec = PairSpec::new("sut", PairMode::Snapshot { interval }, PairTask::Witness);
    // A snapshot takes seconds, so one is on its way nearly always.
    spec.link.rate = Some(BitRate(400_000_000));
    let pair = world.pair(spec);
    let questioner = world.ask(&pair, "hello");
    println!("  armed in {}", armed(&pair));
    goes_on(&pair, &questioner, 50);
    pair.kill_host(Side::Secondary).unwrap();
    wait(&pair, "going on alone", 1, |k| matches!(k, PairEventKind::Unprotected { .. }));
    let at = |is: fn(&PairEventKind) -> bool| pair.events().iter().find(|e| is(&e.kind)).map(|e| e.at);
    let noticed = at(|k| matches!(k, PairEventKind::Detected { .. })).unwrap();
    let alone = at(|k| matches!(k, PairEventKind::Unprotected { .. })).unwrap();
    println!("  alone {} after it was noticed", alone.saturating_sub(noticed));
    // The pair waits 20 s for whoever is busy with it; QEMU would send for a minute.
    assert!(alone.saturating_sub(noticed) < Nanos::from_secs(15), "{}", show(&pair));
    goes_on(&pair, &questioner, 20);
    repaired(&pair);
}

/// Waits for a second guest that lasts. On a busy machine its kernel was seen to crash soon after protection began
/// (docs/fault-tolerance.md); the first guest then goes on alone, and nothing could take over from it.
fn copy_lasts(pair: &FtPair, questioner: &Questioner) -> vtax_lab::Result<()> {
    for _ in 0..5 {
        if !pair.is_armed() {
            repaired(pair);
        }
        let until = Instant::now() + Duration::from_secs(1);
        while pair.is_armed() && Instant::now() < until {
            questioner.wait_answers(10, SOON)?;
        }
        if pair.is_armed() {
            return Ok(());
        }
    }
    panic!("no second guest lasted\n{}", show(pair));
}

/// Both guests run and are compared; one of them dies, twice. A second guest whose kernel the emulation broke takes
/// over and never answers (docs/fault-tolerance.md): then another pair is tried, and no more than four are.
pub(crate) fn colo_survives(world: &mut World) {
    for _ in 0..4 {
        let pair = world.pair(spec(Mode::Colo));
        match colo_survives_twice(world, &pair) {
            Ok(()) => return,
            Err(e) => println!("  the second guest went no further: {e}\n{}", show(&pair)),
        }
    }
    panic!("of four pairs none survived two kills");
}

fn colo_survives_twice(world: &World, pair: &FtPair) -> vtax_lab::Result<()> {
    let questioner = world.ask(pair, "hello");
    let took = armed(pair);
    goes_on(pair, &questioner, 50);
    for nth in 1..=2 {
        copy_lasts(pair, &questioner)?;
        let first = try_kill_primary(pair, &questioner, nth)?;
        assert_eq!(pair.pauses_us().len(), 0, "what the copy counted before is none of the guest's");
        println!("  armed in {took}, first answer after {first:?}");
        repaired(pair);
        questioner.wait_answers(50, SOON)?;
    }
    println!("  {:?}", pair.statistics()[0]);
    questioner.finish().unwrap();
    Ok(())
}
