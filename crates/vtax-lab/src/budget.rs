//! Who gets which CPUs, and what is really enforced.

use vtax_plan::model::Budget;
use vtax_sys::sched;
use vtax_units::{Bytes, CpuSet, counted};

use crate::spec::{CpuHalf, SutCpus};

/// Memory QEMU itself may take beside the guest's: some 60 MiB, and under emulation up to 256 MiB of
/// translated code with its bookkeeping.
pub(crate) const QEMU_OVERHEAD: Bytes = Bytes::from_mib(512);

/// Which side runs where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// CPUs of the systems under test, whole virtual machines included.
    pub sut: CpuSet,
    /// CPUs of the load generator.
    pub client: CpuSet,
    /// True where another testbed's system under test runs on the same CPUs at the same time.
    pub shared: bool,
    /// Where the host was too small for what was asked.
    pub notes: Vec<String>,
}

/// Divides the CPUs in `allowed`. The two sets never overlap unless there is only one CPU.
///
/// The system under test takes from the end, as CPU 0 tends to serve interrupts; CPUs of one core
/// stay together as long as there are enough, `siblings` saying which those are.
#[must_use]
pub fn allocate(allowed: &CpuSet, budget: &Budget, siblings: impl Fn(usize) -> CpuSet) -> Allocation {
    let mut notes = Vec::new();
    let total = allowed.len();
    if total <= 1 {
        notes.push(
            "vtax may use one CPU: system under test and load generator share it, so neither's figures \
             are its own"
                .to_owned(),
        );
        return Allocation { sut: allowed.clone(), client: allowed.clone(), shared: false, notes };
    }
    let wanted = budget.sut_cpus.map_or(total / 2, |n| n as usize).max(1);
    let sut_count = wanted.min(total - 1);
    if sut_count < wanted {
        notes.push(format!(
            "the plan gives the system under test {wanted} CPUs; vtax may use {total}, so it gets \
             {sut_count} and the generator the rest"
        ));
    }
    let order = by_core(allowed, &siblings);
    let sut = CpuSet::of(order.iter().rev().take(sut_count).copied());
    let rest: Vec<usize> = order.iter().copied().filter(|c| !sut.contains(*c)).collect();
    let wanted = budget.client_cpus.map_or(rest.len(), |n| n as usize).max(1);
    if wanted > rest.len() {
        notes.push(format!(
            "the plan gives the generator {wanted} CPUs; {} are left beside the system under test",
            rest.len()
        ));
    }
    let client = CpuSet::of(rest.into_iter().take(wanted));
    if sut.iter().any(|cpu| siblings(cpu).overlaps(&client)) {
        notes.push(
            "system under test and generator run on sibling threads of one core and slow each other down"
                .to_owned(),
        );
    }
    Allocation { sut, client, shared: false, notes }
}

/// What a quota of CPU time does to a run; `None` where there is none.
pub(crate) fn quota_note() -> Option<String> {
    sched::cpu_quota().map(|quota| throttled(quota, sched::allowed_cpu_count()))
}

fn throttled(quota: u32, allowed: u32) -> String {
    format!(
        "a CPU quota gives vtax the time of {} while it may run on {allowed}: client and systems under test share it, and \
         the kernel stops all of them together whenever it is used up",
        counted(quota as usize, "CPU")
    )
}

impl Allocation {
    /// What one of two testbeds gets that stand at the same time: the lower or the upper half of each
    /// side's CPUs. A side with a single CPU shares it; of an odd number one stays idle.
    #[must_use]
    pub fn half(&self, which: CpuHalf) -> Self {
        let of = |set: &CpuSet| -> CpuSet {
            let all: Vec<usize> = set.iter().collect();
            let half = all.len() / 2;
            match (half, which) {
                (0, _) => set.clone(),
                (_, CpuHalf::Lower) => CpuSet::of(all[..half].iter().copied()),
                (_, CpuHalf::Upper) => CpuSet::of(all[all.len() - half..].iter().copied()),
            }
        };
        let mut notes = self.notes.clone();
        let sides = [("the system under test", &self.sut), ("the load generator", &self.client)];
        let shared: Vec<String> = sides
            .iter()
            .filter(|(_, set)| set.len() == 1)
            .map(|(side, _)| format!("the only CPU of {side}"))
            .collect();
        if !shared.is_empty() {
            notes.push(format!(
                "duet: both testbeds share {}, so each waits for the other; ratios tell, figures of one side don't",
                shared.join(" and ")
            ));
        }
        for (side, set) in sides.iter().filter(|(_, set)| set.len() > 1 && set.len() % 2 == 1) {
            notes.push(format!("duet: one of the {} CPUs of {side} stays idle", set.len()));
        }
        Self { sut: of(&self.sut), client: of(&self.client), shared: self.sut.len() == 1, notes }
    }
}

/// What each of several systems under test gets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Division {
    /// CPUs of each.
    pub(crate) sets: Vec<CpuSet>,
    /// Where there was too little for what was asked.
    pub(crate) notes: Vec<String>,
}

/// Divides the CPUs of the systems under test among them. Where there are too few for what they want, all
/// share all of them, and a note says so.
pub(crate) fn divide(all: &CpuSet, wanted: &[SutCpus], siblings: impl Fn(usize) -> CpuSet) -> Division {
    let own = |cpus: &SutCpus| match cpus {
        SutCpus::Own(count) => *count as usize,
        SutCpus::Equal | SutCpus::All => 0,
    };
    let reserved: usize = wanted.iter().map(own).sum();
    let equal = wanted.iter().filter(|cpus| **cpus == SutCpus::Equal).count();
    let left = all.len().saturating_sub(reserved);
    let each = left.checked_div(equal).unwrap_or_default();
    if reserved > all.len() || (equal > 0 && each == 0) {
        let (few, needed) = (all.len(), reserved + equal);
        let note = format!(
            "{} systems under test share {}: {needed} would give each its own, so each waits for the \
             others and a figure of one isn't its own",
            wanted.len(),
            counted(few, "CPU")
        );
        return Division { sets: vec![all.clone(); wanted.len()], notes: vec![note] };
    }
    let mut free = by_core(all, &siblings).into_iter();
    let set = |cpus: &SutCpus| match cpus {
        SutCpus::Own(count) => CpuSet::of(free.by_ref().take(*count as usize)),
        SutCpus::Equal => CpuSet::of(free.by_ref().take(each)),
        SutCpus::All => all.clone(),
    };
    let sets: Vec<CpuSet> = wanted.iter().map(set).collect();
    let mut notes = Vec::new();
    let idle = if equal > 0 { left % equal } else { 0 };
    if idle > 0 {
        notes.push(format!("{idle} of the systems' {} CPUs stay idle, so that all have as many", all.len()));
    }
    if wanted.len() > 1 && wanted.contains(&SutCpus::All) {
        notes.push("systems under test share CPUs, as asked for".to_owned());
    }
    Division { sets, notes }
}

/// The CPUs ordered so that those of a core are neighbours.
fn by_core(allowed: &CpuSet, siblings: &impl Fn(usize) -> CpuSet) -> Vec<usize> {
    let mut order: Vec<usize> = allowed.iter().collect();
    order.sort_by_key(|cpu| (siblings(*cpu).iter().next().unwrap_or(*cpu), *cpu));
    order
}

/// What a node is held to, read back from the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Enforced {
    /// CPUs it runs on.
    pub cpus: CpuSet,
    /// True where a control group holds it there; otherwise it is affinity, which a program could change.
    pub cpus_by_group: bool,
    /// Memory a control group limits it to; `None`: not limited.
    pub memory: Option<Bytes>,
}

impl Enforced {
    /// In a line: `CPUs 1 (cpuset control group), memory 256MiB (control group)`.
    #[must_use]
    pub fn describe(&self) -> String {
        if *self == Self::default() {
            return "CPUs and memory not limited".to_owned();
        }
        let by = if self.cpus_by_group { "cpuset control group" } else { "affinity" };
        let memory = match self.memory {
            Some(bytes) => format!("memory {bytes} (control group)"),
            None => "memory not limited".to_owned(),
        };
        format!("CPUs {} ({by}), {memory}", self.cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(sut: Option<u32>, client: Option<u32>) -> Budget {
        Budget { sut_cpus: sut, sut_memory: Bytes::from_mib(256), client_cpus: client }
    }

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    #[test]
    fn a_quota_of_cpu_time_is_told_where_there_is_one() {
        assert!(throttled(1, 4).contains("the time of 1 CPU while it may run on 4"));
        assert!(throttled(2, 4).contains("2 CPUs"));
        assert_eq!(quota_note().is_some(), sched::cpu_quota().is_some());
    }

    fn alone(cpu: usize) -> CpuSet {
        CpuSet::of([cpu])
    }

    #[test]
    fn half_goes_to_each_side() {
        let a = allocate(&set("0-3"), &budget(None, None), alone);
        assert_eq!((a.sut, a.client, a.notes.len()), (set("2-3"), set("0-1"), 0));
        let a = allocate(&set("4,7"), &budget(None, None), alone);
        assert_eq!((a.sut, a.client), (set("7"), set("4")));
    }

    #[test]
    fn one_cpu_is_shared_and_said_so() {
        let a = allocate(&set("3"), &budget(Some(2), Some(2)), alone);
        assert_eq!((&a.sut, &a.client, a.notes.len()), (&set("3"), &set("3"), 1));
        // The host may have more, of which an affinity leaves it one.
        assert!(a.notes[0].starts_with("vtax may use one CPU"), "{:?}", a.notes);
    }

    #[test]
    fn too_much_is_cut_and_said_so() {
        let a = allocate(&set("0-3"), &budget(Some(8), Some(2)), alone);
        assert_eq!((&a.sut, &a.client, a.notes.len()), (&set("1-3"), &set("0"), 2));
        assert!(a.notes[0].contains("vtax may use 4, so it gets 3"), "{:?}", a.notes);
    }

    #[test]
    fn cores_stay_whole() {
        // Threads of core n are n and n+2.
        let pairs = |cpu: usize| CpuSet::of([cpu % 2, cpu % 2 + 2]);
        let a = allocate(&set("0-3"), &budget(Some(2), None), pairs);
        assert_eq!((a.sut, a.client, a.notes.len()), (set("1,3"), set("0,2"), 0));
        let a = allocate(&set("0-3"), &budget(Some(1), None), pairs);
        assert_eq!(a.notes.len(), 1);
    }

    #[test]
    fn pairs_have_halves_or_share() {
        let a = allocate(&set("0-6"), &budget(Some(3), None), alone);
        let (lower, upper) = (a.half(CpuHalf::Lower), a.half(CpuHalf::Upper));
        assert_eq!((lower.sut, upper.sut), (set("4"), set("6")));
        assert!(!lower.shared && lower.notes.len() == 1);
        assert_eq!((lower.client, upper.client), (set("0-1"), set("2-3")));
        assert_eq!(upper.notes, ["duet: one of the 3 CPUs of the system under test stays idle"]);
        let a = allocate(&set("0-1"), &budget(None, None), alone);
        let (lower, upper) = (a.half(CpuHalf::Lower), a.half(CpuHalf::Upper));
        assert_eq!((lower.sut, upper.sut), (set("1"), set("1")));
        assert!(upper.shared && upper.notes.len() == 1);
    }

    #[test]
    fn systems_have_cpus_of_their_own_where_there_are_enough() {
        let of = |cpus: &str, wanted: &[SutCpus]| divide(&set(cpus), wanted, alone);
        let equal = of("2-5", &[SutCpus::Equal; 2]);
        assert_eq!((equal.sets, equal.notes.len()), (vec![set("2-3"), set("4-5")], 0));
        let one = of("1-3", &[SutCpus::Equal]);
        assert_eq!((one.sets, one.notes.len()), (vec![set("1-3")], 0));
        let mixed = of("0-4", &[SutCpus::Own(1), SutCpus::Equal, SutCpus::All]);
        assert_eq!((mixed.sets, mixed.notes.len()), (vec![set("0"), set("1-4"), set("0-4")], 1));
        let odd = of("0-4", &[SutCpus::Equal; 2]);
        assert_eq!(odd.sets, [set("0-1"), set("2-3")]);
        assert!(odd.notes[0].starts_with("1 of the systems' 5 CPUs"), "{:?}", odd.notes);
    }

    #[test]
    fn systems_share_where_there_are_too_few_and_it_is_said() {
        for wanted in [[SutCpus::Equal; 2], [SutCpus::Own(1); 2]] {
            let found = divide(&set("3"), &wanted, alone);
            assert_eq!(found.sets, [set("3"), set("3")]);
            assert!(found.notes[0].contains("2 systems under test share 1 CPU:"), "{:?}", found.notes);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_system_is_left_without_a_cpu(cpus in 1_usize..32, systems in 1_usize..9, own in 0_u32..4) {
            let wanted: Vec<SutCpus> = (0..systems)
                .map(|i| if i % 3 == 1 && own > 0 { SutCpus::Own(own) } else { SutCpus::Equal })
                .collect();
            let all = CpuSet::of(0..cpus);
            let found = divide(&all, &wanted, alone);
            proptest::prop_assert_eq!(found.sets.len(), systems);
            let mut used = 0;
            for set in &found.sets {
                proptest::prop_assert!(!set.is_empty() && set.iter().all(|cpu| all.contains(cpu)));
                used += set.len();
            }
            proptest::prop_assert!(used <= cpus || !found.notes.is_empty());
        }

        #[test]
        fn sides_never_overlap(cpus in 2_usize..64, sut in 0_u32..70, client in 0_u32..70) {
            let allowed = CpuSet::of(0..cpus);
            let a = allocate(&allowed, &budget(Some(sut), Some(client)), alone);
            proptest::prop_assert!(!a.sut.overlaps(&a.client) && !a.sut.is_empty() && !a.client.is_empty());
        }
    }
}
