//! The matrix: every combination as a cell, and which cell it is compared with.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::variants::{MAX_CELLS, Named, Variant, Variants, slug, too_many};
use crate::cards;
use crate::diagnose::{Report, listed, nearest};
use crate::family::ftp;
use crate::family::storage::mounted::impossible;
use crate::model::{
    Cell, Environment, EnvironmentKind, NetPath, PathKind, Service, Systems, VirtualSwitch, Workload,
};
use crate::raw::BaselineRaw;
use crate::source::{Span, Spanned};

/// Bytes that the cells' copies of services and workloads may take.
const MAX_CELL_TEXT: usize = 64 << 20;
/// Bytes that the cells' copies of scenarios and injection files may take: they are stored with the plan.
const MAX_SCRIPT_TEXT: usize = 48 << 20;
/// Bytes of a system beside a service's own without its texts.
const BESIDE_BYTES: usize = 1 << 10;
/// Why plans with a protected virtual machine have some paths only without any.
const LIKE_PAIRS: &str = "a plan with protected virtual machines builds all its virtual machines like them, \
    and these can't be on this path";

pub(super) struct Parts<'a> {
    pub(super) environments: Vec<Named<Environment>>,
    pub(super) paths: Vec<Named<NetPath>>,
    pub(super) services: Vec<Named<Service>>,
    /// Sets of systems beside the service's own; one without a name where the plan has none.
    pub(super) systems: Vec<Named<Systems>>,
    pub(super) workloads: Variants<Workload>,
    pub(super) baseline: &'a Spanned<BaselineRaw>,
    /// False where environments or paths are missing because of errors already reported.
    pub(super) complete: bool,
}

/// Every combination with its baseline; environments vary fastest, so that compared cells are neighbours.
pub(super) fn cells(parts: &Parts<'_>, services_span: Span, report: &mut Report) -> Vec<Cell> {
    let baseline = baseline(parts, report);
    check_paths(parts, report);
    check_cards(parts, report);
    let count = size(&parts.environments)
        .saturating_mul(size(&parts.paths))
        .saturating_mul(size(&parts.services))
        .saturating_mul(size(&parts.systems))
        .saturating_mul(parts.workloads.0.len());
    if count > MAX_CELLS {
        too_many(services_span, report).help(format!("the lists multiply to {count} cells"));
        return Vec::new();
    }
    if is_too_large(parts, count, services_span, report) {
        return Vec::new();
    }
    let mut cells = Vec::with_capacity(count);
    let mut keys = Vec::with_capacity(count);
    let mut ids = Ids::default();
    let varied = Varied::of(parts);
    let mut left_out = Vec::new();
    for (s, service) in all(&parts.services) {
        for (p, path) in all(&parts.paths) {
            for (w, workload) in parts.workloads.0.iter().enumerate() {
                for (b, systems) in all(&parts.systems) {
                    for (e, environment) in all(&parts.environments) {
                        if !path.value.kind.suits(&environment.value.kind) {
                            continue;
                        }
                        let key = Key { environment: e, path: p, service: s, workload: w, systems: b };
                        let combined = (&environment.value, &path.value, &service.value);
                        if let Some(left) = LeftOut::of(key, combined, &workload.value) {
                            left_out.push(left);
                            continue;
                        }
                        keys.push(key);
                        let chosen = (environment, path, service, workload);
                        cells.push(cell(chosen, &systems.value, &varied, &mut ids));
                    }
                }
            }
        }
    }
    let baseline = baseline.inspect(|baseline| pair(&mut cells, &keys, baseline));
    check_left(&cells, &keys, &left_out, (parts, baseline.as_ref(), services_span), report);
    cells
}

/// Reports texts that are too large for so many cells, each of which keeps them.
fn is_too_large(parts: &Parts<'_>, count: usize, services_span: Span, report: &mut Report) -> bool {
    let texts = parts.services.iter().flat_map(|s| &s.variants.0).map(|v| service_text(&v.value)).max();
    let beside = parts.systems.iter().flat_map(|s| &s.variants.0).map(|v| beside_text(&v.value)).max();
    let texts = texts.unwrap_or(0).saturating_add(beside.unwrap_or(0));
    if texts.saturating_mul(count) > MAX_CELL_TEXT {
        report.error(services_span, "the services' texts are too large for so many cells");
        return true;
    }
    let scripts = parts.workloads.0.iter().map(|v| script_text(&v.value)).max().unwrap_or(0);
    if scripts.saturating_mul(count) > MAX_SCRIPT_TEXT {
        report
            .error(
                services_span,
                format!("the workload's files or requests are too large for {count} cells, each of which keeps them"),
            )
            .help(format!(
                "leave lines out, or cells: together they have at most {} MiB; where what a request's body says doesn't matter, \
                 `body_size: 1MiB` takes no room",
                MAX_SCRIPT_TEXT >> 20
            ));
        return true;
    }
    false
}

/// What a combination is made of, but for the systems beside its service's.
type Chosen<'a> =
    (&'a Variant<Environment>, &'a Variant<NetPath>, &'a Variant<Service>, &'a Variant<Workload>);

/// A combination as a cell that isn't compared with any yet.
fn cell(
    (environment, path, service, workload): Chosen<'_>,
    systems: &Systems,
    varied: &Varied,
    ids: &mut Ids,
) -> Cell {
    let own: [Parameters<'_>; PARTS.len()] =
        [&environment.parameters, &path.parameters, &service.parameters, &workload.parameters];
    let parameters: Vec<_> = own.into_iter().flatten().cloned().collect();
    let names = [&environment.value.name, &path.value.name, &service.value.name, &systems.name];
    Cell {
        id: ids.make(&names, &parameters),
        environment: environment.value.clone(),
        path: path.value.clone(),
        service: Service {
            kind: service.value.kind.clone().for_workload(&workload.value),
            ..service.value.clone()
        },
        workload: workload.value.clone(),
        systems: systems.clone(),
        parameters: varied.named(own),
        baseline: None,
    }
}

/// Name and value as written of what varies of a part.
type Parameters<'a> = &'a [(&'static str, String)];

/// The parts of a cell whose options may vary.
const PARTS: [&str; 4] = ["environment", "path", "service", "workload"];

/// The keys that vary in the plan, by the part that has them.
struct Varied([BTreeSet<&'static str>; PARTS.len()]);

impl Varied {
    fn of(parts: &Parts<'_>) -> Self {
        Self([
            keys(all(&parts.environments).map(|(_, variant)| variant)),
            keys(all(&parts.paths).map(|(_, variant)| variant)),
            keys(all(&parts.services).map(|(_, variant)| variant)),
            keys(parts.workloads.0.iter()),
        ])
    }

    /// The parameters of a cell's parts under names of their own: of two parts that vary a key of the same name the later
    /// one has the plain name in all cells of the plan, and the other's begins with its part, such as `path.rate`.
    fn named(&self, own: [Parameters<'_>; PARTS.len()]) -> BTreeMap<String, String> {
        let mut named = BTreeMap::new();
        for (part, parameters) in own.into_iter().enumerate() {
            for (key, value) in parameters {
                let is_taken = self.0.iter().skip(part + 1).any(|later| later.contains(key));
                let name = if is_taken { format!("{}.{key}", PARTS[part]) } else { (*key).to_owned() };
                named.insert(name, value.clone());
            }
        }
        named
    }
}

/// The keys that vary among these.
fn keys<'v, T: 'v>(variants: impl Iterator<Item = &'v Variant<T>>) -> BTreeSet<&'static str> {
    variants.flat_map(|variant| &variant.parameters).map(|(key, _)| *key).collect()
}

/// Reports that nothing is left, or something that is compared with nothing.
fn check_left(
    cells: &[Cell],
    keys: &[Key],
    left_out: &[LeftOut<'_>],
    (parts, baseline, services_span): (&Parts<'_>, Option<&Baseline>, Span),
    report: &mut Report,
) {
    if let (true, Some(left)) = (cells.is_empty(), left_out.first()) {
        report.error(services_span, format!("no cell is left: {}", left.words()));
        return;
    }
    let Some(baseline) = baseline else { return };
    let Some((cell, key)) = lonely(cells, keys, baseline) else { return };
    let missing = baseline.of(key);
    match left_out.iter().find(|left| Some(left.key) == missing) {
        Some(left) => {
            let text = format!("`{}` has nothing to be compared with", cell.id);
            report.error(parts.baseline.span, text).help(format!("{}; {}", left.words(), left.way_out()));
        }
        None => check_compared(cell, baseline, parts, report),
    }
}

/// A cell that would be compared with nothing.
fn lonely<'c>(cells: &'c [Cell], keys: &'c [Key], baseline: &Baseline) -> Option<(&'c Cell, &'c Key)> {
    let is_baseline = |key: &Key| baseline.of(key) == Some(*key);
    cells.iter().zip(keys).find(|(cell, key)| cell.baseline.is_none() && !is_baseline(key))
}

/// A combination that makes no cell.
struct LeftOut<'a> {
    key: Key,
    environment: &'a str,
    path: &'a str,
    service: &'a str,
    why: String,
    /// Whether the environment can't be on the path, whatever serves.
    off_path: bool,
}

impl<'a> LeftOut<'a> {
    /// Of a combination that can't be; `None` where it can.
    fn of(
        key: Key,
        (environment, path, service): (&'a Environment, &'a NetPath, &'a Service),
        workload: &Workload,
    ) -> Option<Self> {
        let served = impossible(&environment.kind, &path.kind, &service.kind, workload)
            .or_else(|| ftp::resolve::impossible(&service.kind, workload));
        let (why, off_path) = match served {
            Some(why) => (why.to_owned(), false),
            None => (cards::impossible(&environment.kind, path)?, true),
        };
        Some(Self {
            key,
            environment: &environment.name,
            path: &path.name,
            service: &service.name,
            why,
            off_path,
        })
    }

    /// What can't be, and why.
    fn words(&self) -> String {
        let Self { environment, path, service, why, .. } = self;
        if self.off_path {
            format!("`{environment}` can't be on `{path}`, as {why}")
        } else {
            format!("`{service}` in `{environment}` on `{path}` can't be measured: {why}")
        }
    }

    /// What to do where others are to be compared with it.
    fn way_out(&self) -> String {
        if self.off_path {
            format!(
                "make `{}` able to be on `{}` (`mtu`, `addresses`, `cards`), or name another environment",
                self.environment, self.path
            )
        } else {
            "name a service that all are compared with, `baseline: {environment: ..., service: ...}`, or \
             another environment or path"
                .to_owned()
        }
    }
}

/// Refuses paths that no environment of the plan can be at the end of.
fn check_paths(parts: &Parts<'_>, report: &mut Report) {
    let environments = || all(&parts.environments).map(|(_, e)| &e.value.kind);
    for named in &parts.paths {
        if !parts.complete || environments().next().is_none() {
            continue;
        }
        // What its `switch` is may decide.
        let mut kinds = named.variants.0.iter().map(|v| &v.value.kind);
        let Some(kind) = kinds.find(|kind| !environments().any(|e| kind.suits(e))) else { continue };
        // One that is protected makes pairs of all.
        let protected = environments().any(EnvironmentKind::is_pair);
        let what = match kind {
            // With the other switch they can be.
            PathKind::Bridged(VirtualSwitch::Ovs) if protected => {
                "`bridged` path with `switch: ovs`".to_owned()
            }
            kind => format!("`{}` path", kind.word()),
        };
        // With another `switch` it may.
        let others_suit = named.variants.0.iter().any(|v| environments().any(|e| v.value.kind.suits(e)));
        let (why, way_out) = match kind {
            PathKind::Mininet(_) => ("its hosts are network namespaces", "add `native` to the environments"),
            PathKind::Shared(_) | PathKind::Rootless(_) | PathKind::Wireguard => (
                "a virtual machine or user-mode Linux has a card of its own",
                "add `native` or `container` to the environments",
            ),
            PathKind::Nic(_) => {
                ("the service runs on the remote host itself", "add `native` to the environments")
            }
            PathKind::Bridged(VirtualSwitch::Ovs) if protected && others_suit => {
                (LIKE_PAIRS, "leave `ovs` out of `switch`, measure it in a plan without `fault_tolerance`")
            }
            PathKind::Bridged(_) | PathKind::VmVm(_) if protected => {
                (LIKE_PAIRS, "measure this path in a plan without `fault_tolerance`")
            }
            _ if protected => (
                LIKE_PAIRS,
                "add `native` or `container`, measure this path in a plan without `fault_tolerance`",
            ),
            _ => ("the service must be in a virtual machine", "add `vm` to the environments"),
        };
        report
            .error(named.span, format!("no environment of this plan can be on a {what}: {why}"))
            .help(format!("{way_out}, or leave this path out"));
    }
}

/// Refuses virtual machines whose card or address can be on none of the plan's paths.
fn check_cards(parts: &Parts<'_>, report: &mut Report) {
    for named in &parts.environments {
        for environment in &named.variants.0 {
            let kind = &environment.value.kind;
            let suiting = || all(&parts.paths).filter(|(_, path)| path.value.kind.suits(kind));
            let why = suiting().map(|(_, path)| cards::impossible(kind, &path.value));
            if let Some(why) = why.collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().next()) {
                report
                    .error(named.span, format!("`{}` can be on no path of this plan: {why}", named.name))
                    .help("change the path (`mtu`, `addresses`, `cards`), or the card (`nic`, `nic_queues` and what else tunes it)");
                break;
            }
        }
    }
}

/// Refuses a cell that would be compared with nothing because its path or its `count` doesn't suit the baseline.
fn check_compared(cell: &Cell, baseline: &Baseline, parts: &Parts<'_>, report: &mut Report) {
    let count = cell.environment.count;
    let never = baseline.environments.len() > 1
        && baseline.environments.iter().all(|number| baseline.counts.get(*number) != Some(&count));
    if let Some(name) = parts.baseline.value.environment.as_ref().filter(|_| never) {
        let text =
            format!("`{}` has {count} systems, which the baseline `{}` never has", cell.id, name.value);
        report.error(parts.baseline.span, text).help(
            "give both the same `count`, or name the number that all are compared with: \
             `baseline: {environment: ..., count: 1}`",
        );
        return;
    }
    let text = match baseline.path {
        None => format!(
            "the baseline environment can't be on the path `{}`, so `{}` has nothing to be compared with",
            cell.path.name, cell.id
        ),
        Some(_) => "the baseline environment can't be on the baseline path".to_owned(),
    };
    let suits = all(&parts.paths).find(|(_, p)| {
        all(&parts.environments)
            .nth(baseline.environments[0])
            .is_some_and(|(_, e)| p.value.kind.suits(&e.value.kind))
    });
    let example = suits.map_or("direct", |(_, path)| path.value.name.as_str());
    report.error(parts.baseline.span, text).help(format!(
        "name a path that all are compared with: `baseline: {{environment: ..., path: {example}}}`"
    ));
}

/// Which combination a cell is, by variant number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    environment: usize,
    path: usize,
    service: usize,
    workload: usize,
    systems: usize,
}

/// What cells are compared with, by variant number.
struct Baseline {
    /// The environment; where it stands in several numbers, one for each.
    environments: Vec<usize>,
    /// How many systems each environment of the plan has, by variant number.
    counts: Vec<u32>,
    path: Option<usize>,
    service: Option<usize>,
    systems: Option<usize>,
}

impl Baseline {
    /// What a combination is compared with; itself where it is a baseline, `None` where the baseline never stands in
    /// its number.
    fn of(&self, key: &Key) -> Option<Key> {
        let environment = match self.environments.as_slice() {
            [only] => *only,
            several => {
                let as_many = |e: &&usize| self.counts.get(**e) == self.counts.get(key.environment);
                *several.iter().find(as_many)?
            }
        };
        Some(Key {
            environment,
            path: self.path.unwrap_or(key.path),
            service: self.service.unwrap_or(key.service),
            workload: key.workload,
            systems: self.systems.unwrap_or(key.systems),
        })
    }
}

fn all<T>(named: &[Named<T>]) -> impl Iterator<Item = (usize, &Variant<T>)> {
    named.iter().flat_map(|n| &n.variants.0).enumerate()
}

fn size<T>(named: &[Named<T>]) -> usize {
    named.iter().map(|n| n.variants.0.len()).sum()
}

/// Finds the variant the baseline names.
fn baseline(parts: &Parts<'_>, report: &mut Report) -> Option<Baseline> {
    let raw = &parts.baseline.value;
    let environment = raw.environment.as_ref()?;
    let environments = baseline_environments(raw, environment, parts, report)?;
    let path = match &raw.path {
        Some(path) => Some(select(("path", "paths"), path, &parts.paths, parts.complete, report)?),
        None => None,
    };
    let service = match &raw.service {
        Some(service) => {
            Some(select(("service", "services"), service, &parts.services, parts.complete, report)?)
        }
        None => None,
    };
    let systems = match &raw.systems {
        Some(systems) => {
            Some(select(("set of systems", "sets of systems"), systems, &parts.systems, true, report)?)
        }
        None => None,
    };
    let counts = all(&parts.environments).map(|(_, environment)| environment.value.count).collect();
    Some(Baseline { environments, counts, path, service, systems })
}

/// The variants of the environment that the baseline names: one, or one for each number in which it stands.
fn baseline_environments(
    raw: &BaselineRaw,
    name: &Spanned<String>,
    parts: &Parts<'_>,
    report: &mut Report,
) -> Option<Vec<usize>> {
    let own: Vec<(usize, &Variant<Environment>)> =
        all(&parts.environments).filter(|(_, variant)| variant.value.name == name.value).collect();
    let only_counted =
        own.iter().all(|(_, variant)| variant.parameters.iter().all(|(key, _)| *key == "count"));
    if own.is_empty() || !only_counted {
        let words = ("environment", "environments");
        return Some(vec![select(words, name, &parts.environments, parts.complete, report)?]);
    }
    let Some(count) = &raw.count else { return Some(own.into_iter().map(|(number, _)| number).collect()) };
    let found = own.iter().find(|(_, variant)| variant.value.count == count.value);
    if found.is_none() {
        let counts: Vec<String> = own.iter().map(|(_, variant)| variant.value.count.to_string()).collect();
        report
            .error(count.span, format!("the baseline `{}` never has {} systems", name.value, count.value))
            .help(format!("its `count` is {}", counts.join(", ")));
    }
    found.map(|(number, _)| vec![*number])
}

/// The number of the only variant with this name; of what, and of what several are called.
fn select<T>(
    (what, several): (&str, &str),
    name: &Spanned<String>,
    named: &[Named<T>],
    complete: bool,
    report: &mut Report,
) -> Option<usize> {
    let mut before = 0;
    for candidate in named {
        let variants = candidate.variants.0.len();
        if candidate.name == name.value {
            if variants > 1 {
                report
                    .error(
                        name.span,
                        format!("the baseline `{}` is {variants} cells of different options", name.value),
                    )
                    .help(format!(
                        "a baseline is one {what}: give it single values, and what varies another name"
                    ));
                return None;
            }
            return Some(before);
        }
        before += variants;
    }
    if complete {
        // Where a plan has no sets of systems, there is one without a name.
        let names = || named.iter().map(|n| n.name.as_str()).filter(|name| !name.is_empty());
        let guess = nearest(&name.value, names()).map_or(String::new(), |g| format!("did you mean `{g}`? "));
        let help = match names().next() {
            Some(_) => format!("{guess}{several}: {}", listed(names())),
            None => format!("the plan has no {several}"),
        };
        let shown = crate::diagnose::shorten(&name.value);
        report.error(name.span, format!("the baseline `{shown}` is no {what} of this plan")).help(help);
    }
    None
}

/// Tells every cell which one it is compared with: the baseline's with everything else equal.
fn pair(cells: &mut [Cell], keys: &[Key], baseline: &Baseline) {
    let by_key: HashMap<Key, usize> = keys.iter().enumerate().map(|(i, key)| (*key, i)).collect();
    for (i, key) in keys.iter().enumerate() {
        let found = baseline.of(key).and_then(|key| by_key.get(&key).copied()).filter(|found| *found != i);
        cells[i].baseline = found.map(|found| cells[found].id.clone());
    }
}

/// Cell ids, and how often each was wanted.
#[derive(Default)]
struct Ids(HashMap<String, usize>);

impl Ids {
    /// `environment.path.service`, the set of systems where it has a name, and `.name-value` for each parameter; a
    /// number where values look alike.
    fn make(&mut self, names: &[&String], parameters: &[(&str, String)]) -> String {
        let names: Vec<&str> =
            names.iter().map(|name| name.as_str()).filter(|name| !name.is_empty()).collect();
        let mut id = names.join(".");
        for (name, value) in parameters {
            id.push_str(&format!(".{name}-{}", slug(value)));
        }
        loop {
            let wanted = self.0.entry(id.clone()).or_default();
            *wanted += 1;
            if *wanted == 1 {
                return id;
            }
            id = format!("{id}-{wanted}");
        }
    }
}

/// Bytes that the systems beside a service's own take in a cell, roughly.
fn beside_text(systems: &Systems) -> usize {
    systems.beside.iter().map(|system| BESIDE_BYTES + service_text(&system.service)).sum()
}

/// Bytes of text in a service, roughly.
fn service_text(service: &Service) -> usize {
    let map = |m: &BTreeMap<String, String>| m.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
    match &service.kind {
        crate::model::ServiceKind::Command(c) => {
            c.command.iter().map(String::len).sum::<usize>() + map(&c.env) + map(&c.files)
        }
        crate::model::ServiceKind::Uas(uas) => uas.scenario.as_ref().map_or(0, |file| file.text.len()),
        _ => 0,
    }
}

fn script_text(workload: &Workload) -> usize {
    match workload {
        Workload::Script(script) => script.text_bytes(),
        Workload::Http(http) => http.script.as_ref().map_or(0, |script| script.text_bytes()),
        _ => 0,
    }
}
