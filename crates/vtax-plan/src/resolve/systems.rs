//! Several systems under test: sets of systems beside the service's own, and which cells of several there can't be.

use std::collections::BTreeSet;

use vtax_units::{Bytes, Nanos};

use super::check::{check_name, counts_in, duration_in, name_or, rate_in};
use super::variants::{Named, Variants, unique};
use super::{families, sut};
use crate::cards;
use crate::decode::{Item, Many};
use crate::diagnose::Report;
use crate::model::{
    Beside, BesideLoad, Budget, Cell, Environment, MOST_SYSTEMS, Protocol, Service, ServiceKind, Split,
    StartOrder, Systems, TrialKind, Workload, equal_part,
};
use crate::raw::{BesideRaw, PlanRaw, SystemsRaw};
use crate::source::{Span, Spanned};

/// A guest that is up, and no longer has its initrd beside its files, needs no more than this.
const LEAST_LEFT: Bytes = Bytes::from_mib(128);
/// The longest time from one start to the next.
const LONGEST_GAP: Nanos = Nanos::from_secs(600);

/// What is left of the budget's memory for each of several systems.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    /// The budget's.
    memory: Bytes,
    /// Whether it is for all together.
    split: Split,
    /// Systems beside the service's own: the most that a set has.
    beside: u32,
}

impl Parts {
    /// Of this plan.
    pub(super) fn of(raw: &PlanRaw) -> Self {
        let sets = raw.systems.iter().flat_map(|sets| &sets.value.items);
        let beside = sets.filter_map(|set| Some(set.value.beside.as_ref()?.value.items.len())).max();
        Self {
            memory: raw.budget.value.sut_memory.value,
            split: raw.consolidation.value.budget.value.0,
            beside: u32::try_from(beside.unwrap_or(0)).unwrap_or(MOST_SYSTEMS),
        }
    }

    /// Memory of one system where so many of its environment stand at once. Where that is too little to start
    /// with, that is reported, with the numbers.
    pub(super) fn memory(&self, count: u32, least: Bytes, span: Span, report: &mut Report) -> Bytes {
        let all = count.saturating_add(self.beside).max(1);
        let part = match self.split {
            Split::Total => equal_part(self.memory, all),
            Split::Each => self.memory,
        };
        if all > 1 && part < least && self.split == Split::Each {
            report
                .error(
                    span,
                    format!(
                        "a system needs at least {least} of memory, and `budget.sut_memory` is {} for each",
                        self.memory
                    ),
                )
                .help(format!("raise it to {least}, or give virtual machines a `memory` of their own"));
        } else if all > 1 && part < least {
            let needed = Bytes(least.0.saturating_mul(u64::from(all)));
            report
                .error(
                    span,
                    format!(
                        "{all} systems of at least {least} need {needed} of memory, and `budget.sut_memory` is {}",
                        self.memory
                    ),
                )
                .help(format!(
                    "raise it to {needed}, say `consolidation: {{budget: each}}`, or give virtual machines a \
                     `memory` of their own, which overcommits the budget"
                ));
        }
        part
    }
}

/// Multiplies environments by how many of them stand at the same time.
pub(super) fn counted(
    variants: Variants<Environment>,
    counts: Option<&Spanned<Many<u32>>>,
    report: &mut Report,
) -> Variants<Environment> {
    if let Some(counts) = counts {
        counts_in(&counts.value, "a cell has a system under test", MOST_SYSTEMS, report);
    }
    variants.vary_if("count", counts, report, |environment, count| environment.count = count)
}

/// The sets of systems that the plan names; one of none where it names no set.
pub(super) fn sets(raw: &PlanRaw, report: &mut Report) -> Vec<Named<Systems>> {
    let consolidation = &raw.consolidation.value;
    let start = consolidation.start.value.0;
    if let StartOrder::Gap(gap) = start {
        let gap = Spanned { value: gap, span: consolidation.start.span };
        duration_in(&gap, "start", Nanos(1), LONGEST_GAP, report);
    }
    let usual = Systems {
        name: String::new(),
        budget: consolidation.budget.value.0,
        load: consolidation.load.value.0,
        memory: consolidation.memory.value.0,
        start,
        beside: Vec::new(),
    };
    let Some(sets) = &raw.systems else {
        return vec![Named {
            name: String::new(),
            span: raw.consolidation.span,
            variants: Variants::of(usual),
        }];
    };
    let resolve = |item: &Item<SystemsRaw>, report: &mut Report| {
        let name = check_name(item.value.name.as_ref()?, report);
        let items = &item.value.beside.as_ref()?.value.items;
        // One more than there may be, so that too many are told.
        let items = items.iter().take(MOST_SYSTEMS as usize);
        let beside: Vec<Beside> = items.filter_map(|item| beside(item, raw, report)).collect();
        check_names(&beside, item.span, report);
        let set = Systems { name: name.clone(), beside, ..usual.clone() };
        Some(Named { name, span: item.span, variants: Variants::of(set) })
    };
    let all = sets.value.items.iter().filter_map(|item| resolve(item, report)).collect();
    unique("set of systems", all, report)
}

/// Reports too many systems of a set, and two of one name.
fn check_names(beside: &[Beside], span: Span, report: &mut Report) {
    if beside.len() >= MOST_SYSTEMS as usize {
        report.error(
            span,
            format!("so many systems beside the service's are too many: fewer than {MOST_SYSTEMS} may be"),
        );
    }
    let mut names = BTreeSet::new();
    for twice in beside.iter().filter(|system| !names.insert(system.name.as_str())) {
        report
            .error(span, format!("two systems of this set are called `{}`", twice.name))
            .help("give one a `name` of its own");
    }
}

/// One system beside the service's own; `None` where some part is missing, which has been reported.
fn beside(item: &Item<BesideRaw>, plan: &PlanRaw, report: &mut Report) -> Option<Beside> {
    let raw = &item.value;
    let service = raw.service.as_ref().map(alone);
    let workload = raw.workload.as_ref().map(alone);
    let services = service.map(|service| families::services(&service.value, report));
    let workloads = workload.as_ref().and_then(|workload| families::workloads(workload, report));
    if let (Some(workload), Some(services)) = (&workload, &services) {
        families::check_served(workload, services, report);
    }
    if let Some(BesideLoad::Rate(rate)) = raw.load.as_ref().map(|load| load.value.0) {
        rate_in(&Spanned { value: rate, span: item.span }, report);
    }
    let environment = raw.environment.as_ref().map(|environment| {
        let many = alone(environment);
        sut::environments(&many.value, &plan.budget, Parts::of(plan), report)
    });
    let service = only(services?.first().map(|named| &named.variants), "service", item.span, report)?;
    let workload = only(workloads.as_ref(), "workload", item.span, report)?;
    if !workload.model().is_of_requests() {
        report
            .error(
                item.span,
                "the workload of a system beside others is `http`, `redis`, `ftp`, `desktop`, or `sip` with a `scenario_file`",
            )
            .help("other loads can't be held while something else is measured");
    }
    let closed = raw.load.as_ref().is_some_and(|load| load.value.0 == BesideLoad::Closed);
    if closed && matches!(workload, Workload::Script(_)) {
        report
            .error(item.span, "calls begin when they are due, so there is no closed loop of them")
            .help("give their `load` as a rate, such as `20/s`");
    }
    let environment = match environment {
        None => None,
        Some(found) => {
            Some(only(found.first().map(|named| &named.variants), "environment", item.span, report)?)
        }
    };
    if environment.as_ref().is_some_and(|environment| environment.count > 1) {
        report
            .error(item.span, "a system beside others is one: its environment has no `count`")
            .help("name each of several in the list `beside`");
    }
    let kind = service.kind.clone().for_workload(&workload);
    let service = Service { kind, ..service };
    Some(Beside {
        name: name_or(raw.name.as_ref(), &service.name, report),
        role: raw.role.value.0,
        environment,
        service,
        workload,
        load: raw.load.as_ref()?.value.0,
    })
}

/// A list of one.
fn alone<T: Clone>(one: &Spanned<T>) -> Spanned<Many<T>> {
    let item = Item { value: one.value.clone(), span: one.span, text: String::new() };
    Spanned { value: Many { items: vec![item], complete: true }, span: one.span }
}

/// The only variant; several, or none that wasn't reported, are a mistake.
fn only<T: Clone>(variants: Option<&Variants<T>>, what: &str, span: Span, report: &mut Report) -> Option<T> {
    match variants?.0.as_slice() {
        [variant] => Some(variant.value.clone()),
        [] => None,
        several => {
            let count = several.len();
            report
                .error(span, format!("the {what} of a system beside others is {count} of different options"))
                .help("give its options single values; what varies makes sets of their own");
            None
        }
    }
}

/// Reports cells of several systems that there can't be, each reason once.
pub(super) fn check_cells(cells: &[Cell], raw: &PlanRaw, budget: &Budget, report: &mut Report) {
    let environments = raw.environments.as_ref().map_or_else(Span::default, |e| e.span);
    let mut told = BTreeSet::new();
    for (cell, left) in cells.iter().filter_map(|cell| Some((cell, least_left(cell, budget)?))) {
        let why = format!(
            "balloons would leave a virtual machine {left} of memory, which is too little for a guest: {}",
            cell.promised(budget).words()
        );
        if told.insert(why.clone()) {
            report.error(environments, why).help(format!(
                "promise less, have fewer of them, or raise `budget.sut_memory`, so that {LEAST_LEFT} are left"
            ));
        }
    }
    for cell in cells.iter().filter(|cell| cell.is_several()) {
        let own = cell.environment.count > 1;
        let span = raw.systems.as_ref().filter(|_| !own).map_or(environments, |systems| systems.span);
        for (why, help) in misfits(cell, raw.repeat.value.trials.value.0) {
            if told.insert(why.clone()) {
                report.error(span, why).help(help);
            }
        }
    }
}

/// The least that a balloon leaves a virtual machine of a cell, where that is too little for a guest.
fn least_left(cell: &Cell, budget: &Budget) -> Option<Bytes> {
    let left = cell.environments().filter_map(|environment| cell.left_by_balloon(environment, budget)).min();
    left.filter(|left| *left < LEAST_LEFT)
}

/// Why a cell of several systems can't be, each with the way out.
fn misfits(cell: &Cell, trials: TrialKind) -> Vec<(String, &'static str)> {
    let mut misfits = Vec::new();
    if !cell.path.kind.joins_several() {
        let word = cell.path.kind.word();
        misfits.push((
            format!("a `{word}` path joins one system under test, not {}", cell.system_count()),
            "use `bridge`, `gigabit`, `ovs`, `sdn`, `nat` or `vxlan`, for virtual machines also `bridged` or `vm-vm`, for others \
             `macvlan` or `ipvlan`",
        ));
    }
    for (beside, environment) in
        cell.systems.beside.iter().zip(cell.environments().skip(cell.environment.count as usize))
    {
        let name = &beside.name;
        if let Some(why) = cards::impossible(&environment.kind, &cell.path) {
            misfits.push((
                format!("`{name}` can't stand beside others on `{}`: {why}", cell.path.name),
                "give it another `environment`",
            ));
        }
    }
    let protocol = cell.workload.model().protocol();
    let word = protocol.workloads()[0];
    if protocol == Protocol::Storage && cell.environment.count == 1 {
        if matches!(cell.service.kind, ServiceKind::Disk(_)) {
            misfits.push((
                format!("without a server, the load of `{word}` is on the system itself, and nothing stands beside it"),
                "use a server, such as `ganesha` or `tgt`, or leave `systems` out",
            ));
        }
    } else if protocol == Protocol::Desktop || !cell.workload.model().is_of_requests() {
        misfits.push((
            format!("the workload `{word}` is measured on one system at a time"),
            "several systems are measured with `http`, `redis`, `ftp`, or `sip` with a `scenario_file`; `storage` may have others \
             beside it",
        ));
    }
    if trials == TrialKind::Duet {
        misfits.push((
            "the sides of a duet have one system each".to_owned(),
            "leave `trials`, or `count` and `systems`, out",
        ));
    }
    misfits
}
