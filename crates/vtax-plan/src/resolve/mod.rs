//! Raw plan to resolved plan: what the keys mean together, and what can't be.

mod ft;
mod matrix;
mod measures;
mod net;
mod path;
mod sip;
mod sut;
mod workload;

use vtax_units::{Bytes, Nanos, Share};

use crate::decode::Many;
use crate::diagnose::Report;
use crate::model::{Budget, PLAN_VERSION, Plan, Repeat, Service, TrialKind};
use crate::raw::{BudgetRaw, PlanRaw, RepeatRaw};
use crate::source::{Span, Spanned};

/// A measurement longer than this is taken for a slip.
const LONGEST: Nanos = Nanos::from_secs(24 * 3600);
/// More trials than this of one cell and measure are taken for a slip.
const MOST_TRIALS: u32 = 10_000;

/// Draws the conclusions; `None` where some part is missing, which has been reported.
pub(crate) fn resolve(raw: &PlanRaw, report: &mut Report) -> Option<Plan> {
    if let Some(version) = raw.vtax.as_ref().filter(|v| v.value != PLAN_VERSION) {
        report
            .error(
                version.span,
                format!("this vtax reads plans of version {PLAN_VERSION}, not {}", version.value),
            )
            .help(if version.value > PLAN_VERSION { "a newer vtax is needed" } else { "write `vtax: 1`" });
    }
    let name = raw.name.as_ref().map(|name| check_name(name, report));
    let margin = share_in(&raw.margin, "margin", 0.0, 1.0, report);
    let budget = budget(&raw.budget.value, report);
    let repeat = repeat(&raw.repeat.value, report);
    let mut environments =
        raw.environments.as_ref().map(|e| sut::environments(&e.value, &raw.budget, report));
    ft::level(environments.as_deref_mut().unwrap_or_default());
    let paths = path::paths(&raw.paths.value, report);
    let services = services(raw, report);
    let workloads = raw.workload.as_ref().and_then(|w| workload::workloads(w, report));
    if let (Some(workload), Some(services)) = (&raw.workload, &services) {
        workload::check_served(workload, services, report);
    }
    let workload = workloads.as_ref().and_then(|w| w.0.first()).map(|variant| variant.value.model());
    let measures = raw.measure.as_ref().map(|m| measures::measures(&m.value, raw, workload, report));
    let parts = matrix::Parts {
        environments: environments?,
        paths,
        services: services?,
        workloads: workloads?,
        baseline: raw.baseline.as_ref()?,
        complete: raw.environments.as_ref()?.value.complete && raw.paths.value.complete,
    };
    let cells =
        matrix::cells(&parts, raw.services.as_ref().map_or(raw.baseline.as_ref()?.span, |s| s.span), report);
    let measures = measures?;
    ft::check(raw, &cells, &measures, report);
    let plan = Plan {
        version: PLAN_VERSION,
        name: name?,
        description: raw.description.as_ref().map_or(String::new(), |d| d.value.trim().to_owned()),
        seed: raw.seed.value,
        cells,
        measures,
        repeat,
        budget,
        margin,
    };
    let alone = plan.cells.iter().find(|c| !c.path.kind.may_stand_twice());
    if let (TrialKind::Duet, Some(cell)) = (plan.repeat.trials, alone) {
        let (name, word) = (&cell.path.name, cell.path.kind.word());
        report
            .error(raw.repeat.value.trials.span, format!("path `{name}` can't be part of a duet"))
            .help(format!("there is one of what a `{word}` path is made of: leave `trials` or the path out"));
    }
    if plan.repeat.trials == TrialKind::Duet && !plan.measures.iter().any(|m| plan.is_duet(m)) {
        report.error(raw.repeat.value.trials.span, "no measure of this plan can be made as a duet").help(
            "a capacity search's steps depend on what it finds, so two can't go along together: measure \
                 `latency` or `throughput`, or leave `trials` out",
        );
    }
    if plan.repeat.trials == TrialKind::Duet && plan.cells.iter().any(|c| c.environment.kind.is_pair()) {
        report
            .error(raw.repeat.value.trials.span, "protected virtual machines are measured one at a time")
            .help("two pairs at once would need four hosts: leave `trials` out");
    }
    Some(plan)
}

/// The services named; vtax's own far end where a network test needs no more said.
fn services(raw: &PlanRaw, report: &mut Report) -> Option<Vec<sut::Named<Service>>> {
    if let Some(services) = &raw.services {
        return Some(sut::services(&services.value, report));
    }
    let workload = raw.workload.as_ref()?;
    let variants = Variants::of(net::default_peer());
    if workload.value.items.iter().all(|w| net::is_network(&w.value)) {
        return Some(vec![sut::Named { name: "peer".to_owned(), span: workload.span, variants }]);
    }
    report.error(workload.span.at_start(), "the plan needs the key `services`");
    None
}

fn repeat(raw: &RepeatRaw, report: &mut Report) -> Repeat {
    let min = count_in(&raw.min, "at least one trial is needed", MOST_TRIALS, report);
    let max = match &raw.max {
        Some(max) => count_in(max, "at least one trial is needed", MOST_TRIALS, report),
        None => min.max(10),
    };
    if let Some(max) = raw.max.as_ref().filter(|max| max.value < min) {
        report.error(max.span, format!("`max` ({}) is below `min` ({min})", max.value));
    }
    let until = share_in(&raw.until, "until", 0.0, 1.0, report);
    if let Some(budget) = &raw.budget {
        duration_in(budget, "budget", Nanos(1), Nanos(LONGEST.0 * 31), report);
    }
    Repeat {
        min,
        max,
        until,
        budget: raw.budget.as_ref().map(|b| b.value),
        order: raw.order.value.0,
        trials: raw.trials.value.0,
    }
}

fn budget(raw: &BudgetRaw, report: &mut Report) -> Budget {
    let cpus = |value: &Option<Spanned<u32>>, report: &mut Report| {
        value.as_ref().map(|cpus| count_in(cpus, "at least one CPU is needed", 8192, report))
    };
    memory_in(&raw.sut_memory.value, raw.sut_memory.span, Bytes::from_mib(16), report);
    Budget {
        sut_cpus: cpus(&raw.sut_cpus, report),
        sut_memory: raw.sut_memory.value,
        client_cpus: cpus(&raw.client_cpus, report),
    }
}

/// Refuses names that would not do in an id, a label or a file name.
fn check_name(name: &Spanned<String>, report: &mut Report) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.value.is_empty() || name.value.len() > 60 || !name.value.chars().all(fits) {
        let shown = crate::diagnose::shorten(&name.value);
        report
            .error(name.span, format!("`{shown}` can't be a name"))
            .help("a name is 1 to 60 letters, digits, `-` and `_`");
    }
    name.value.clone()
}

/// Refuses 0 and what is above `most`.
fn count_in(count: &Spanned<u32>, none: &str, most: u32, report: &mut Report) -> u32 {
    check_count(count.value, count.span, none, most, report);
    count.value
}

fn check_count(value: u32, span: Span, none: &str, most: u32, report: &mut Report) {
    if value == 0 {
        report.error(span, format!("0 is too few: {none}"));
    } else if value > most {
        report.error(span, format!("{value} is too many: at most {most}"));
    }
}

/// Checks every value of a list of counts.
fn counts_in(counts: &Many<u32>, none: &str, most: u32, report: &mut Report) {
    for item in &counts.items {
        check_count(item.value, item.span, none, most, report);
    }
}

/// Refuses shares outside of (`above`, `below`).
fn share_in(share: &Spanned<Share>, key: &str, above: f64, below: f64, report: &mut Report) -> Share {
    if !(share.value.0 > above && share.value.0 < below) {
        let (above, below) = (Share(above), Share(below));
        report.error(share.span, format!("`{key}` must be above {above} and below {below}"));
    }
    share.value
}

/// Refuses durations outside of [`least`, `most`].
fn duration_in(
    duration: &Spanned<Nanos>,
    key: &str,
    least: Nanos,
    most: Nanos,
    report: &mut Report,
) -> Nanos {
    if duration.value < least || duration.value > most {
        let least = if least.0 <= 1 { "more than 0s".to_owned() } else { format!("at least {least}") };
        report.error(duration.span, format!("`{key}` must be {least} and at most {most}"));
    }
    duration.value
}

fn memory_in(memory: &Bytes, span: Span, least: Bytes, report: &mut Report) {
    let most = Bytes::from_mib(16 << 20);
    if *memory < least {
        report.error(span, format!("{memory} of memory is too little: at least {least}"));
    } else if *memory > most {
        report.error(span, format!("{memory} of memory is more than any host has: at most {most}"));
    }
}

/// A choice among several with the parameters that make it this one.
#[derive(Debug, Clone)]
struct Variant<T> {
    value: T,
    /// Name and value as written of every parameter that varies.
    parameters: Vec<(&'static str, String)>,
}

/// The variants of one choice, with every list of values multiplied out.
#[derive(Debug)]
struct Variants<T>(Vec<Variant<T>>);

impl<T: Clone> Variants<T> {
    fn of(value: T) -> Self {
        Self(vec![Variant { value, parameters: Vec::new() }])
    }

    /// Multiplies by the values of one key, reporting values that are given twice.
    fn vary<V: Clone + PartialEq>(
        self,
        key: &'static str,
        values: &Many<V>,
        report: &mut Report,
        set: impl Fn(&mut T, V),
    ) -> Self {
        let items = &values.items;
        if self.0.len().saturating_mul(items.len()) > matrix::MAX_CELLS {
            let span = items.first().map_or_else(Span::default, |i| i.span);
            matrix::too_many(span, report);
            return self;
        }
        let twice =
            items.iter().enumerate().filter(|(i, item)| items[..*i].iter().any(|e| e.value == item.value));
        for (_, item) in twice {
            report
                .error(item.span, format!("`{}` is in the list twice", crate::diagnose::shorten(&item.text)));
        }
        let mut varied = Vec::with_capacity(self.0.len() * items.len());
        for variant in self.0 {
            for item in items {
                let mut variant = variant.clone();
                set(&mut variant.value, item.value.clone());
                if items.len() > 1 {
                    variant.parameters.push((key, item.text.clone()));
                }
                varied.push(variant);
            }
        }
        Self(varied)
    }

    /// The same variants of what holds these.
    fn map<U>(self, wrap: impl Fn(T) -> U) -> Variants<U> {
        let wrap = |v: Variant<T>| Variant { value: wrap(v.value), parameters: v.parameters };
        Variants(self.0.into_iter().map(wrap).collect())
    }

    /// As [`vary`](Self::vary) where the key was given.
    fn vary_if<V: Clone + PartialEq>(
        self,
        key: &'static str,
        values: Option<&Spanned<Many<V>>>,
        report: &mut Report,
        set: impl Fn(&mut T, V),
    ) -> Self {
        match values {
            Some(values) => self.vary(key, &values.value, report, set),
            None => self,
        }
    }
}
