//! Who gets which CPUs, and what is really enforced.

use vtax_plan::model::Budget;
use vtax_units::{Bytes, CpuSet};

/// Which side runs where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// CPUs of the system under test, whole virtual machine included.
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
            "this host has one CPU: system under test and load generator share it, so neither's figures \
             are its own"
                .to_owned(),
        );
        return Allocation { sut: allowed.clone(), client: allowed.clone(), shared: false, notes };
    }
    let wanted = budget.sut_cpus.map_or(total / 2, |n| n as usize).max(1);
    let sut_count = wanted.min(total - 1);
    if sut_count < wanted {
        notes.push(format!(
            "the plan gives the system under test {wanted} CPUs; this host has {total}, so it gets \
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

impl Allocation {
    /// What one of two testbeds gets that stand at the same time: the lower or the upper half of each
    /// side's CPUs. A side with a single CPU shares it; of an odd number one stays idle.
    #[must_use]
    pub fn half(&self, upper: bool) -> Self {
        let of = |set: &CpuSet| -> CpuSet {
            let all: Vec<usize> = set.iter().collect();
            let half = all.len() / 2;
            match (half, upper) {
                (0, _) => set.clone(),
                (_, false) => CpuSet::of(all[..half].iter().copied()),
                (_, true) => CpuSet::of(all[all.len() - half..].iter().copied()),
            }
        };
        let mut notes = self.notes.clone();
        for (side, set) in [("system under test", &self.sut), ("load generator", &self.client)] {
            if set.len() == 1 {
                notes.push(format!(
                    "duet: both testbeds share the {side}'s only CPU, so each waits for the other; ratios tell, \
                     figures of one side don't"
                ));
            } else if set.len() % 2 == 1 {
                notes.push(format!("duet: one of the {side}'s {} CPUs stays idle", set.len()));
            }
        }
        Self { sut: of(&self.sut), client: of(&self.client), shared: self.sut.len() == 1, notes }
    }
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
    }

    #[test]
    fn too_much_is_cut_and_said_so() {
        let a = allocate(&set("0-3"), &budget(Some(8), Some(2)), alone);
        assert_eq!((&a.sut, &a.client, a.notes.len()), (&set("1-3"), &set("0"), 2));
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
        let (lower, upper) = (a.half(false), a.half(true));
        assert_eq!((lower.sut, upper.sut), (set("4"), set("6")));
        assert!(!lower.shared && a.half(false).notes.len() == 1);
        assert_eq!((lower.client, upper.client), (set("0-1"), set("2-3")));
        assert_eq!(upper.notes, ["duet: one of the system under test's 3 CPUs stays idle"]);
        let a = allocate(&set("0-1"), &budget(None, None), alone);
        assert_eq!((a.half(false).sut, a.half(true).sut), (set("1"), set("1")));
        assert!(a.half(true).shared && a.half(true).notes.len() == 2);
    }

    proptest::proptest! {
        #[test]
        fn sides_never_overlap(cpus in 2_usize..64, sut in 0_u32..70, client in 0_u32..70) {
            let allowed = CpuSet::of(0..cpus);
            let a = allocate(&allowed, &budget(Some(sut), Some(client)), alone);
            proptest::prop_assert!(!a.sut.overlaps(&a.client) && !a.sut.is_empty() && !a.client.is_empty());
        }
    }
}
