//! The breakdown of CPU time: figures worked out by hand, a `/proc` in files, and the rule that
//! layers never overlap, whatever the snapshots say.

use std::path::Path;

use proptest::prelude::*;
use vtax_probe::delta::{Interval, counter, cpu_times};
use vtax_probe::layers::{CpuBreakdown, Hosting, Layer, break_down, break_down_shared, sum, time_of_tasks};
use vtax_probe::noise::{HostProbe, HostState, disturbance};
use vtax_probe::{CpuTimes, Probe, Scope, Snapshot, TaskTimes};
use vtax_units::{CpuSet, Nanos};

const MS: u64 = 1_000_000;

fn cpu(cpu: u32, user: u64, system: u64, irq: u64, softirq: u64) -> CpuTimes {
    let ms = |n| Nanos(n * MS);
    CpuTimes {
        cpu,
        user: ms(user),
        system: ms(system),
        irq: ms(irq),
        softirq: ms(softirq),
        ..CpuTimes::default()
    }
}

fn task(id: u32, name: &str, user: u64, system: u64) -> TaskTimes {
    TaskTimes {
        id,
        name: name.into(),
        user: Nanos(user * MS),
        system: Nanos(system * MS),
        ..TaskTimes::default()
    }
}

fn times(breakdown: &CpuBreakdown) -> Vec<(Layer, u64)> {
    breakdown.layers.iter().map(|l| (l.layer, l.time.0 / MS)).filter(|(_, t)| *t > 0).collect()
}

fn zero_cpus(snapshot: &Snapshot) -> Snapshot {
    let cpus = snapshot.cpus.iter().map(|c| CpuTimes { cpu: c.cpu, ..CpuTimes::default() }).collect();
    Snapshot { cpus, ..Snapshot::default() }
}

fn native(end: &Snapshot) -> CpuBreakdown {
    let start = zero_cpus(end);
    let node = Interval { start: &start, end };
    break_down(&Hosting::Processes { node, runtime: None }, &CpuSet::of([1]), 1000)
}

#[test]
fn natively_a_child_that_ended_and_the_agents_orphans_count() {
    let worker = TaskTimes { reaped_user: Nanos(30 * MS), ..task(7, "nginx", 100, 200) };
    let agent = TaskTimes { reaped_system: Nanos(40 * MS), ..task(1, "vtax", 5, 6) };
    let end = Snapshot {
        at: Nanos::from_secs(1),
        cpus: vec![cpu(0, 900, 0, 0, 0), cpu(1, 200, 300, 10, 50)],
        tasks: vec![worker],
        supervisors: vec![agent],
        ..Snapshot::default()
    };
    let breakdown = native(&end);
    use Layer::{HostInterrupts, ServiceSystem, ServiceUser, Supervisor};
    let expected = [(ServiceUser, 130), (ServiceSystem, 240), (Supervisor, 11), (HostInterrupts, 60)];
    assert_eq!(times(&breakdown), expected);
    assert_eq!((breakdown.requests, breakdown.duration), (1000, Nanos::from_secs(1)));
}

#[test]
fn interrupts_that_tasks_were_charged_for_count_once() {
    // 500 ms busy, of which tasks were charged all and interrupts show 60 of them again.
    let end = Snapshot {
        cpus: vec![cpu(1, 200, 240, 10, 50)],
        tasks: vec![task(7, "nginx", 200, 300)],
        ..Snapshot::default()
    };
    let breakdown = native(&end);
    use Layer::{HostInterrupts, ServiceSystem, ServiceUser};
    assert_eq!(times(&breakdown), [(ServiceUser, 200), (ServiceSystem, 240), (HostInterrupts, 60)]);
    assert_eq!(breakdown.total(), Nanos(500 * MS));
}

#[test]
fn systems_on_the_same_cpus_divide_its_interrupts() {
    // Tasks were charged 450 ms, interrupts show 60; the CPU was busy for 480 of these 510.
    let end = |used: u64| Snapshot {
        cpus: vec![cpu(1, 200, 220, 10, 50)],
        tasks: vec![task(7, "nginx", used, 2 * used)],
        ..Snapshot::default()
    };
    let ends = [end(100), end(50)];
    let starts = ends.each_ref().map(zero_cpus);
    let node = |i: usize| Interval { start: &starts[i], end: &ends[i] };
    let systems = [0, 1].map(|i| (Hosting::Processes { node: node(i), runtime: None }, 10 + i as u64));
    let found = break_down_shared(&systems, &CpuSet::of([1]), Nanos::ZERO);
    use Layer::{HostInterrupts, ServiceSystem, ServiceUser};
    assert_eq!(times(&found[0]), [(ServiceUser, 100), (ServiceSystem, 180), (HostInterrupts, 40)]);
    assert_eq!(times(&found[1]), [(ServiceUser, 50), (ServiceSystem, 90), (HostInterrupts, 20)]);
    let whole = sum(&[&found[0], &found[1]]);
    assert_eq!((whole.total(), whole.requests), (Nanos(480 * MS), 21));
    assert_eq!(whole.time(HostInterrupts), Nanos(60 * MS));
    assert!(break_down_shared(&[], &CpuSet::of([1]), Nanos::ZERO).is_empty());
    // The same where each is looked at by somebody else, as the halves of a pair of trials are.
    for (own, other) in [(0, 1), (1, 0)] {
        let others = time_of_tasks(&systems[other..=other]);
        assert_eq!(
            break_down_shared(&systems[own..=own], &CpuSet::of([1]), others),
            found[own..=own],
            "{others}"
        );
    }
}

fn guest(inner: &Snapshot, outer: &Snapshot, vcpus: &[u32]) -> CpuBreakdown {
    let (inner_start, outer_start) = (zero_cpus(inner), zero_cpus(outer));
    let hosting = Hosting::Guest {
        guest: Interval { start: &inner_start, end: inner },
        hypervisor: Interval { start: &outer_start, end: outer },
        vcpus,
    };
    break_down(&hosting, &CpuSet::of([1]), 10)
}

fn inner() -> Snapshot {
    Snapshot {
        cpus: vec![cpu(0, 120, 130, 5, 45)],
        tasks: vec![task(80, "nginx", 100, 110)],
        supervisors: vec![task(1, "vtax", 9, 1)],
        ..Snapshot::default()
    }
}

fn outer(vcpu: u64) -> Snapshot {
    Snapshot {
        cpus: vec![cpu(0, 7, 7, 7, 7), cpu(1, vcpu, 300, 0, 20)],
        tasks: vec![task(500, "qemu-system-x86", 20, 60), task(501, "CPU 0/TCG", vcpu, 40)],
        ..Snapshot::default()
    }
}

#[test]
fn in_a_guest_every_layer_has_its_share() {
    use Layer::{
        GuestOther, HostInterrupts, HypervisorIo, ServiceInterrupts, ServiceSystem, ServiceUser, Vcpu,
    };
    let expected = [
        (ServiceUser, 100),
        (ServiceSystem, 110),
        (ServiceInterrupts, 50),
        (GuestOther, 40),
        (Vcpu, 740),
        (HypervisorIo, 80),
        (HostInterrupts, 20),
    ];
    for vcpus in [&[][..], &[501]] {
        let breakdown = guest(&inner(), &outer(1000), vcpus);
        assert_eq!(times(&breakdown), expected);
        assert!(breakdown.notes.is_empty());
    }
}

#[test]
fn a_guest_that_accounted_more_than_it_got_is_scaled_down() {
    // 300 ms inside, 150 ms of vCPU time outside: half.
    let breakdown = guest(&inner(), &outer(110), &[]);
    use Layer::{GuestOther, HostInterrupts, HypervisorIo, ServiceInterrupts, ServiceSystem, ServiceUser};
    let expected = [
        (ServiceUser, 50),
        (ServiceSystem, 55),
        (ServiceInterrupts, 25),
        (GuestOther, 20),
        (HypervisorIo, 80),
        (HostInterrupts, 20),
    ];
    assert_eq!(times(&breakdown), expected);
    assert_eq!(breakdown.total(), Nanos(250 * MS));
    assert!(
        breakdown.notes[0].contains("0.30 s of CPU time, but its vCPU threads got 0.15 s"),
        "{:?}",
        breakdown.notes
    );
}

/// A nanosecond was "the rest of the guest".
#[test]
fn what_rounding_leaves_over_makes_no_layer() {
    let inner = Snapshot {
        cpus: vec![cpu(0, 100, 100, 0, 0)],
        tasks: vec![task(80, "nginx", 100, 100)],
        ..Snapshot::default()
    };
    let mut outer = outer(110);
    outer.tasks[1].user.0 += 1;
    let breakdown = guest(&inner, &outer, &[]);
    let of = |layer| breakdown.time(layer).0;
    assert_eq!((of(Layer::GuestOther), of(Layer::Vcpu)), (0, 0));
    assert_eq!(of(Layer::ServiceUser) + of(Layer::ServiceSystem), 150 * MS + 1);
}

#[test]
fn unknown_vcpu_threads_are_noted() {
    let mut outer = outer(1000);
    outer.tasks[1].name = "qemu-system-x86".into();
    let breakdown = guest(&inner(), &outer, &[]);
    assert_eq!(breakdown.time(Layer::HypervisorIo), Nanos::ZERO);
    assert_eq!(breakdown.total(), Nanos(1140 * MS));
    assert!(breakdown.notes[0].contains("no vCPU thread"), "{:?}", breakdown.notes);
}

#[test]
fn a_host_is_read_from_its_files() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture");
    let at = |moment: &str, scope| Probe::with_proc(scope, &recorded.join(moment).join("proc"));
    let take = |moment| {
        let mut probe = at(moment, Scope::Node { except: vec![1] }).expect("the file is there");
        probe.snapshot().expect("it is whole")
    };
    let (start, end) = (take("start"), take("end"));
    let names: Vec<&str> = end.tasks.iter().map(|t| t.name.as_str()).collect();
    // Kernel threads are left out, and the agent stands apart.
    assert_eq!(names, ["nginx", "nginx"]);
    assert_eq!(end.supervisors.len(), 1);
    assert_eq!(end.interfaces.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(), ["lo", "eth0"]);
    let breakdown = break_down(
        &Hosting::Processes { node: Interval { start: &start, end: &end }, runtime: None },
        &CpuSet::of([1]),
        1,
    );
    use Layer::{HostInterrupts, ServiceSystem, ServiceUser, Supervisor};
    let expected = [(ServiceUser, 500), (ServiceSystem, 1400), (Supervisor, 20), (HostInterrupts, 700)];
    assert_eq!(times(&breakdown), expected);

    let host = |moment: &str| {
        let dir = recorded.join(moment);
        let mut probe = HostProbe::with_roots(CpuSet::of([1]), &dir.join("proc"), &dir.join("sys"))
            .expect("the file is there");
        probe.read().expect("it is whole")
    };
    let (before, mut after) = (host("start"), host("end"));
    // Five seconds lie between the files, not between their being read.
    after.snapshot.at = Nanos(before.snapshot.at.0 + 5_000 * MS);
    let found = disturbance(&before, &after, &CpuSet::of([1]), breakdown.total());
    // Of five seconds the CPU was busy for 3.62 and waited for 0.5.
    assert!((found.steal - 0.5 / 4.12).abs() < 1e-9 && found.stolen == Nanos(500 * MS), "{found:?}");
    assert!((found.foreign - 0.2).abs() < 0.02, "{found:?}");
    assert_eq!((found.swapped_pages, found.throttles), (12, 2));
    assert!((found.frequency_drop - 0.25).abs() < 0.001);
    let elapsed = (after.snapshot.at.0 - before.snapshot.at.0) as f64;
    assert!((found.memory_wait * elapsed - 5e7).abs() < 1e3);
    assert!((found.disk_wait * elapsed - 2e7).abs() < 1e3);
    assert_eq!(found.reasons.len(), 5 + usize::from(found.memory_wait > 0.01), "{:?}", found.reasons);
    let falling = found.clone().with_frequencies(&[2_000, 2_000, 2_000]);
    assert!(falling.frequency_drop == 0.0 && falling.reasons.len() + 1 == found.reasons.len());
    let following = found.clone().without_frequency();
    assert!(following.frequency_drop == 0.0 && following.reasons == falling.reasons, "{following:?}");
    let quiet = disturbance(&before, &before, &CpuSet::of([1]), Nanos::ZERO);
    assert!(quiet.reasons.is_empty(), "{:?}", quiet.reasons);
}

/// A hypervisor that takes a tenth of what is wanted does so whether a system wants a twentieth of its CPU or nearly all.
#[test]
fn what_a_hypervisor_takes_is_a_share_of_what_is_wanted() {
    let state = |at: u64, user: u64, steal: u64| HostState {
        snapshot: Snapshot {
            at: Nanos(at * MS),
            cpus: vec![CpuTimes {
                cpu: 1,
                user: Nanos(user * MS),
                steal: Nanos(steal * MS),
                idle: Nanos((at - user - steal) * MS),
                ..CpuTimes::default()
            }],
            ..Snapshot::default()
        },
        ..HostState::default()
    };
    for (user, steal) in [(900, 100), (9_000, 1_000), (450, 50)] {
        let found = disturbance(&state(0, 0, 0), &state(20_000, user, steal), &CpuSet::of([1]), Nanos::ZERO);
        assert!((found.steal - 0.1).abs() < 1e-12 && found.stolen == Nanos(steal * MS), "{found:?}");
        assert!((found.foreign - user as f64 / 20_000.0).abs() < 1e-12, "{found:?}");
        let told = "a hypervisor took 10.0 % of the time in which the SUT's CPUs were wanted";
        assert!(found.reasons.iter().any(|reason| reason == told), "{found:?}");
        // What is done one after the other takes longer by what was stolen, of all the 20 s.
        let closed = found.of_closed_loop();
        assert!((closed.steal - steal as f64 / 20_000.0).abs() < 1e-12, "{closed:?}");
        let told = "a hypervisor took the SUT's CPUs away for 5.0 % of the time";
        assert_eq!(closed.reasons.iter().any(|reason| reason == told), steal == 1_000, "{closed:?}");
        assert_eq!(closed.clone().of_closed_loop(), closed);
    }
    let idle = disturbance(&state(0, 0, 0), &state(1_000, 0, 0), &CpuSet::of([1]), Nanos::ZERO);
    assert_eq!((idle.steal, idle.stolen, idle.reasons.len()), (0.0, Nanos::ZERO, 0));
}

#[test]
fn work_in_step_with_ticks_is_not_taken_for_others() {
    let state = |at: u64, user: u64, idle: u64| HostState {
        snapshot: Snapshot {
            at: Nanos(at * MS),
            cpus: vec![CpuTimes {
                cpu: 1,
                user: Nanos(user * MS),
                idle: Nanos(idle * MS),
                ..CpuTimes::default()
            }],
            ..Snapshot::default()
        },
        ..HostState::default()
    };
    // A second in which the CPU was idle for 950 ms, while every fifth tick found it busy.
    let (before, after) = (state(0, 0, 0), state(1_000, 200, 950));
    let found = disturbance(&before, &after, &CpuSet::of([1]), Nanos(45 * MS));
    assert!((found.foreign - 0.005).abs() < 1e-9, "{found:?}");
    // Where ticks find less, they count: nothing is made of what is only not idle.
    let found = disturbance(&before, &state(1_000, 30, 950), &CpuSet::of([1]), Nanos(10 * MS));
    assert!((found.foreign - 20.0 / 980.0).abs() < 1e-9, "{found:?}");
}

#[test]
fn counters_wrap_or_begin_anew() {
    assert_eq!(counter(5, 9), 4);
    assert_eq!(counter((1 << 32) - 10, 20), 30);
    assert_eq!(counter(5_000_000, 300), 300);
    assert_eq!(counter(u64::MAX, 3), 3);
}

#[test]
fn cpus_that_came_or_went_are_left_out() {
    let start = Snapshot { cpus: vec![cpu(0, 1, 0, 0, 0), cpu(1, 1, 0, 0, 0)], ..Snapshot::default() };
    let end = Snapshot { cpus: vec![cpu(1, 3, 0, 0, 0), cpu(2, 9, 0, 0, 0)], ..Snapshot::default() };
    let found: Vec<_> = cpu_times(Interval { start: &start, end: &end }).collect();
    assert_eq!(found, [cpu(1, 2, 0, 0, 0)]);
}

/// Times up to the largest there is: snapshots come from guests, which may say anything.
fn any_time() -> impl Strategy<Value = Nanos> {
    prop_oneof![0..10_000 * MS, 0..10_000 * MS, any::<u64>()].prop_map(Nanos)
}

prop_compose! {
    fn any_task()(
        id in 0u32..6, name in prop_oneof![Just("CPU 0/KVM"), Just("worker")],
        t in proptest::array::uniform5(any_time()),
    ) -> TaskTimes {
        let [user, system, guest, reaped_user, reaped_system] = t;
        TaskTimes { id, name: name.into(), user, system, guest, reaped_user, reaped_system, resident_bytes: 0, shared_bytes: 0 }
    }
}

prop_compose! {
    fn any_cpu()(cpu in 0u32..4, t in proptest::array::uniform7(any_time())) -> CpuTimes {
        let [user, system, irq, softirq, steal, guest, idle] = t;
        CpuTimes { cpu, user, system, irq, softirq, steal, guest, idle }
    }
}

prop_compose! {
    fn any_snapshot()(
        at in any_time(), cpus in proptest::collection::vec(any_cpu(), 0..4),
        tasks in proptest::collection::vec(any_task(), 0..5),
        supervisors in proptest::collection::vec(any_task(), 0..2),
    ) -> Snapshot {
        Snapshot { at, cpus, tasks, supervisors, ..Snapshot::default() }
    }
}

proptest! {
    #[test]
    fn layers_never_exceed_what_the_host_saw(
        inner in proptest::array::uniform2(any_snapshot()), outer in proptest::array::uniform2(any_snapshot()),
    ) {
        let inner = Interval { start: &inner[0], end: &inner[1] };
        let outer = Interval { start: &outer[0], end: &outer[1] };
        let cpus = CpuSet::of([0, 1]);
        let sum = |values: &[u64]| values.iter().fold(0u64, |a, b| a.saturating_add(*b));
        let of = |i: Interval<'_>| {
            let seen: Vec<CpuTimes> = cpu_times(i).filter(|c| cpus.contains(c.cpu as usize)).collect();
            sum(&seen.iter().flat_map(|c| [c.irq.0, c.softirq.0]).collect::<Vec<_>>())
        };

        let hosting = Hosting::Guest { guest: inner, hypervisor: outer, vcpus: &[] };
        let breakdown = break_down(&hosting, &cpus, 1);
        let qemu = vtax_probe::delta::own_time(&outer.start.tasks, &outer.end.tasks).total().0;
        prop_assert!(breakdown.total().0 <= sum(&[qemu, of(outer)]), "{:?}", breakdown);
        prop_assert!(breakdown.total().0 >= qemu.max(of(outer)), "{:?}", breakdown);

        let shared = break_down_shared(&[(hosting, 1), (hosting, 1)], &cpus, Nanos::ZERO);
        let both = vtax_probe::layers::sum(&[&shared[0], &shared[1]]).total().0;
        prop_assert!(both <= sum(&[qemu, qemu, of(outer)]), "{:?}", shared);

        let breakdown = break_down(&Hosting::Processes { node: inner, runtime: None }, &cpus, 1);
        let service = vtax_probe::delta::service_time(inner).total().0;
        let agent = vtax_probe::delta::own_time(&inner.start.supervisors, &inner.end.supervisors).total().0;
        prop_assert!(breakdown.total().0 <= sum(&[service, agent, of(inner)]));
        prop_assert!(breakdown.total().0 >= sum(&[service, agent]).max(of(inner)));
        let _ = disturbance(&Default::default(), &Default::default(), &cpus, breakdown.total());
    }
}
