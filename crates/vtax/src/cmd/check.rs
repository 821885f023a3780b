//! `vtax check`: what a plan would do.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use vtax_plan::PlanErrors;
use vtax_plan::estimate::{Assumptions, Estimate, cautions, estimate, pieces, requirements};
use vtax_plan::model::{Cell, Plan, Service, TrialKind, Workload};
use vtax_run::calibration;
use vtax_store::Calibration;
use vtax_sys::clock::unix_ms;
use vtax_units::counted;
use vtax_units::metric::label_of;
use vtax_vm::Cache;

use crate::cmd::reproduce;
use crate::exit::{Classify, Exit, Outcome};
use crate::out;
use crate::time::age;

/// The text lists at most this many cells; `--json` lists all.
const CELLS_SHOWN: usize = 100;

/// A plan and changes to it.
#[derive(clap::Args)]
pub(crate) struct PlanArgs {
    /// The plan, a YAML file (docs/plan.md).
    plan: PathBuf,
    /// Change a value of the plan, such as `repeat.min=10` or `environments.vm.memory=1GiB`. May be repeated.
    #[arg(long = "set", value_name = "PATH=VALUE")]
    overrides: Vec<String>,
}

impl PlanArgs {
    /// The plan's file.
    pub(crate) fn file(&self) -> &Path {
        &self.plan
    }

    /// Its changes, as given.
    pub(crate) fn overrides(&self) -> &[String] {
        &self.overrides
    }

    /// Reads the plan with its changes.
    pub(crate) fn load(&self) -> Result<Plan, PlanErrors> {
        vtax_plan::load(&self.plan, &self.overrides)
    }
}

/// Validate a plan and print what it would measure, build and need. Builds and measures nothing, needs no privileges.
///
/// The folder of a study is checked as well: its claims, rules and plans (docs/studies.md).
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    plan: PlanArgs,
    /// Print JSON: the resolved plan with its estimates, or the errors.
    #[arg(long)]
    json: bool,
    /// Fail where something that the plan needs is missing on this host.
    #[arg(long)]
    strict: bool,
}

impl Args {
    /// How the command ends for a plan that lacks this.
    fn exit(&self, missing: &BTreeSet<String>) -> Exit {
        if self.strict && !missing.is_empty() { Exit::HostCannot } else { Exit::Done }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let file = args.plan.file();
    if reproduce::is_study(file) {
        let set = !args.plan.overrides().is_empty();
        let given = [("--json", args.json), ("--strict", args.strict), ("--set", set)];
        if let Some((option, _)) = given.into_iter().find(|(_, given)| *given) {
            let (place, way_out) = (file.display(), "check its plans one by one");
            let error = anyhow::anyhow!("{option} is for plans, and {place} is a study: {way_out}");
            return Err(error).bad_input();
        }
        return reproduce::check(file);
    }
    if args.json {
        let (value, exit) = match args.plan.load() {
            Ok(plan) => {
                let missing = missing(&plan);
                (to_json(&plan, calibrated(&plan).as_ref(), &missing), args.exit(&missing))
            }
            Err(errors) => (errors.to_json(), Exit::BadInput),
        };
        out::json(&value)?;
        return Ok(exit);
    }
    let plan = args.plan.load()?;
    let missing = missing(&plan);
    out::printable(&(to_text(&plan, calibrated(&plan).as_ref()) + &missing_text(&missing)))?;
    Ok(args.exit(&missing))
}

/// The text of `vtax check` for a plan with changes, or what is wrong with it.
pub(crate) fn text_of(plan: &Path, overrides: &[String]) -> Result<String, String> {
    let plan = vtax_plan::load(plan, overrides).map_err(|errors| errors.to_text(false))?;
    Ok(to_text(&plan, calibrated(&plan).as_ref()) + &missing_text(&missing(&plan)))
}

/// What is known of this host for plans like this one.
fn calibrated(plan: &Plan) -> Option<Calibration> {
    calibration::find(Cache::of_user().dir(), plan, &vtax_run::host())
}

fn to_json(plan: &Plan, calibration: Option<&Calibration>, missing: &BTreeSet<String>) -> serde_json::Value {
    let kvm = estimate(plan, &Assumptions::KVM);
    let tcg = estimate(plan, &Assumptions::TCG);
    serde_json::json!({
        "plan": plan,
        "estimate": { "kvm": kvm, "tcg": tcg },
        "builds": pieces(plan),
        "needs": requirements(plan),
        "cautions": cautions(plan, &tcg),
        "missing": missing,
        "calibration": calibration,
        "foresight": calibration.map(|made| calibration::foresight(plan, made)),
    })
}

/// What the plan needs and this host hasn't installed, and what of its services their nodes can't see, one sentence each.
fn missing(plan: &Plan) -> BTreeSet<String> {
    let of = |service: &Service| -> Vec<String> {
        let missing = vtax_service::missing_beside(service, Cache::of_user().dir());
        let missing = missing.map(|missing| missing.to_string());
        let hidden = vtax_service::hidden(service).into_iter().map(|hidden| hidden.why);
        missing.into_iter().chain(hidden).map(|why| format!("service {}: {why}", service.name)).collect()
    };
    let of_testbeds = requirements(plan).into_iter().filter_map(vtax_lab::missing);
    of_testbeds.chain(plan.cells.iter().flat_map(Cell::services).flat_map(of)).collect()
}

fn missing_text(missing: &BTreeSet<String>) -> String {
    let lines: String = missing.iter().map(|why| format!("  {why}\n")).collect();
    if lines.is_empty() { lines } else { format!("\nmissing on this host\n{lines}") }
}

fn to_text(plan: &Plan, calibration: Option<&Calibration>) -> String {
    let kvm = estimate(plan, &Assumptions::KVM);
    let tcg = estimate(plan, &Assumptions::TCG);
    let mut text = plan.name.clone();
    if !plan.description.is_empty() {
        text += &format!(": {}", plan.description);
    }
    text += &format!("\n\n{}\n", counted(plan.cells.len(), "cell"));
    let cells = plan.cells.iter().take(CELLS_SHOWN);
    text +=
        &table(cells.map(|c| {
            (c.id.clone(), c.baseline.as_ref().map_or("baseline".into(), |b| format!("against {b}")))
        }));
    if plan.cells.len() > CELLS_SHOWN {
        text += &format!("  and {} more (--json lists all)\n", plan.cells.len() - CELLS_SHOWN);
    }
    text += &format!(
        "\n{}, {} in each cell: {}\n",
        counted(plan.measures.len(), "measure"),
        times(plan),
        trials(&kvm)
    );
    text += &table(plan.measures.iter().map(|m| (m.name.clone(), m.kind.describe())));
    text += &workload_text(plan);
    text += &format!("\nmargin {}: a tax within it counts as equivalent; seed {}\n", plan.margin, plan.seed);
    text += &format!("\n{}\n", time(plan, &kvm, &tcg));
    text += "\nwould build, afresh for each trial\n";
    text += &table(pieces(plan).into_iter().map(|p| (p.what, p.how)));
    text += "\nneeds\n";
    for requirement in requirements(plan) {
        text += &format!("  {}\n", requirement.text());
    }
    let cautions = cautions(plan, &tcg);
    text += &match calibration {
        Some(made) => format!(
            "\ncalibrated on this host {}: no verdict on effects below what it can show\n{}",
            age(made.made_unix_ms, unix_ms()),
            precision_lines(plan, made)
        ),
        // A calibration is made by this host alone.
        None if plan.hosts_asked() > 0 => String::new(),
        None => {
            "\nnot calibrated on this host: `vtax calibrate PLAN` finds the smallest effect it can show\n"
                .into()
        }
    };
    if !cautions.is_empty() {
        text += "\nnote\n";
    }
    for caution in cautions {
        text += &format!("  {caution}\n");
    }
    text
}

/// What is asked of the service, a line for each workload that differs, or the tests that it is made of.
fn workload_text(plan: &Plan) -> String {
    let Some(first) = plan.cells.first().map(|cell| cell.workload.model()) else { return String::new() };
    let listed = |names: Vec<&str>, order: &str| match names.len() {
        0 => String::new(),
        count => {
            let (count, names) = (counted(count, "test"), names.join("\n  "));
            format!("\n{count} in each trial, in {order}\n  {names}\n")
        }
    };
    let tests = first.tests().iter().map(|test| test.name.as_str()).collect();
    let of_storage = first.storage_tests().iter().map(|test| test.name.as_str()).collect();
    let asked = plan.cells.iter().filter_map(|cell| {
        let model = cell.workload.model();
        let family = model.protocol().workloads().first().copied().unwrap_or_default();
        Some((family.to_owned(), model.asked()?))
    });
    let mut told = BTreeSet::new();
    let asked: Vec<_> = asked.filter(|row| told.insert(row.clone())).collect();
    let mut text = listed(tests, "an order drawn for it") + &listed(of_storage, "this order");
    if !asked.is_empty() {
        text += "\nworkload\n";
    }
    let more = asked.len().saturating_sub(CELLS_SHOWN);
    text += &table(asked.into_iter().take(CELLS_SHOWN));
    if more > 0 {
        text += &format!("  and {more} more (--json lists all)\n");
    }
    text
}

/// What the plan's rounds can tell, by the calibration.
fn precision_lines(plan: &Plan, made: &Calibration) -> String {
    let shown = |tax: Option<f64>, one: &str| match tax {
        Some(tax) => format!("can show {one} of {tax:.2}x or more"),
        None => "can't show any tax".to_owned(),
    };
    let (min, max) = (plan.repeat.min, plan.repeat.max);
    table(calibration::foresight(plan, made).into_iter().map(|f| {
        let least = format!("{} {}", counted(min, "round"), shown(f.with_min, "a tax"));
        let most = shown(f.with_max, "one");
        let most = if max > min { format!(", {} {most}", counted(max, "round")) } else { String::new() };
        let label = label_of(&f.metric);
        let what =
            if f.measure.ends_with(&f.metric) { f.measure } else { format!("{label} [{}]", f.measure) };
        (what, least + &most)
    }))
}

/// Two aligned columns.
fn table(rows: impl Iterator<Item = (String, String)>) -> String {
    let rows: Vec<_> = rows.collect();
    let width = rows.iter().map(|(left, _)| left.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(left, right)| format!("  {left:<width$}  {right}\n")).collect()
}

fn times(plan: &Plan) -> String {
    let repeat = &plan.repeat;
    let times = match (repeat.min, repeat.max) {
        (1, 1) => "once".to_owned(),
        (min, max) if min == max => format!("{min} times"),
        (min, max) => format!("{min} to {max} times"),
    };
    match repeat.trials {
        TrialKind::Single => times,
        TrialKind::Duet => format!("{times}, as duets where it is not a search"),
    }
}

fn trials(estimate: &Estimate) -> String {
    match (estimate.trials_min, estimate.trials_max) {
        (min, max) if min == max => counted(min, "trial"),
        (min, max) => format!("{min} to {max} trials"),
    }
}

/// How long a plan's run takes: `takes about 3 min`, and what ends it before.
pub(super) fn time_of(plan: &Plan) -> String {
    time(plan, &estimate(plan, &Assumptions::KVM), &estimate(plan, &Assumptions::TCG))
}

/// The time a run takes, as far as it can be known.
fn time(plan: &Plan, kvm: &Estimate, tcg: &Estimate) -> String {
    let span = |e: &Estimate| match (e.time_min.about(), e.time_max.about()) {
        (min, max) if min == max => min,
        (min, max) => format!("{min} to {max}"),
    };
    // A search for what a slower service carries has fewer steps, which may outweigh the longer builds. Two ranges would read like a slip then.
    let is_sooner = (tcg.time_min, tcg.time_max) < (kvm.time_min, kvm.time_max);
    let mut text = match (span(kvm), span(tcg)) {
        (kvm, _) if is_sooner => format!("takes about {kvm}"),
        (kvm, tcg) if kvm == tcg => format!("takes about {tcg}"),
        (kvm, tcg) => format!("takes about {kvm} with hardware virtualization, {tcg} under emulation"),
    };
    let ends_early =
        |cell: &Cell| matches!(&cell.workload, Workload::Ftp(ftp) if ftp.requests.bytes.is_some());
    if plan.cells.iter().any(ends_early) {
        text += "; less where a load has moved its `bytes` sooner";
    }
    if let Some(budget) = plan.repeat.budget {
        text += &format!("; no trial beyond `repeat.min` starts after {}", budget.about());
    }
    text
}

#[cfg(test)]
mod tests {
    use vtax_units::Nanos;

    use super::*;

    #[test]
    fn the_text_names_cells_measures_time_and_needs() {
        let plan = b"vtax: 1\nname: t\nbaseline: native\nenvironments: [native, vm]\nservices: http\n\
            workload: {http: {target: /page/1}}\nmeasure: [capacity, latency]\nrepeat: 5\n";
        let text = to_text(&vtax_plan::parse("t.yaml", plan, &[] as &[&str]).unwrap(), None);
        for part in [
            "2 cells\n  native.bridge.http  baseline\n  vm.bridge.http      against native.bridge.http\n",
            "2 measures, 5 times in each cell: 20 trials\n",
            "\nworkload\n  http  GET /page/1, 64 connections\n\nmargin 5%: a tax within it counts as equivalent; seed 1\n",
            "latency at 50% of the cell's own capacity; Poisson arrivals, 10s after 1s",
            "takes about ",
            "QEMU guest on the host's root, read-only; one vCPU per CPU, 512MiB",
            "namespaces: root, or user namespaces allowed",
            "not calibrated on this host",
        ] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
    }

    #[test]
    fn what_each_family_asks_is_told_once() {
        let told = |service: &str, workload: &str, measure: &str| {
            let plan = format!(
                "vtax: 1\nname: t\nbaseline: native\nenvironments: [native, container]\nservices: {service}\n\
                 workload: {workload}\nmeasure: {measure}\n"
            );
            let plan = vtax_plan::parse("t.yaml", plan.as_bytes(), &[] as &[&str]);
            workload_text(&plan.unwrap_or_else(|errors| panic!("{errors}")))
        };
        let http = "{http: {target: [/page/1, /page/2], tls: any}}";
        for (service, workload, measure, lines) in [
            (
                "http",
                http,
                "throughput",
                "  http  GET /page/1, 64 connections, TLS\n  http  GET /page/2, 64 connections, TLS\n",
            ),
            (
                "redis",
                "{redis: {pipeline: 4, access: zipf}}",
                "throughput",
                "  redis  10000 keys of 100B, 90% reads by Zipf's law, 64 connections with 4 under way\n",
            ),
            ("ftp", "{ftp: {}}", "throughput", "  ftp  RETR of 20 files of 100KiB, 16 clients\n"),
            (
                "ftp",
                "{ftp: {stor: 2}}",
                "throughput",
                "  ftp  RETR 1, STOR 2 of 20 files of 100KiB, 16 clients\n",
            ),
            (
                "tigervnc",
                "{desktop: {}}",
                "throughput",
                "  desktop  users who type, scroll, drag, watch a film, each 4/s\n",
            ),
        ] {
            assert_eq!(told(service, workload, measure), format!("\nworkload\n{lines}"));
        }
        let sip = told("sip", "{sip: {}}", "ims");
        assert!(sip.starts_with("\nworkload\n  sip  ") && sip.contains(" over UDP: "), "{sip}");
        assert_eq!(
            told("peer", "[tcp, udp]", "network"),
            "\n2 tests in each trial, in an order drawn for it\n  tcp\n  udp\n"
        );
    }

    #[test]
    fn a_calibrated_plan_is_told_what_its_rounds_can_tell() {
        let plan = b"vtax: 1\nname: t\nbaseline: native\nenvironments: [native, vm]\nservices: http\n\
            workload: {http: {target: /page/1}}\nmeasure: [capacity, latency]\nrepeat: {min: 2, max: 5}\n";
        let plan = vtax_plan::parse("t.yaml", plan, &[] as &[&str]).unwrap();
        let effect = |measure: &str, metric: &str| vtax_store::CalibratedEffect {
            cell: "native.bridge.http".into(),
            measure: measure.into(),
            metric: metric.into(),
            trials: 5,
            tax: Some(1.0),
            interval: Some((0.95, 1.05)),
            detectable: Some(1.1),
            told_apart: false,
        };
        let made = Calibration {
            version: vtax_store::CALIBRATION_VERSION,
            key: String::new(),
            conditions: Vec::new(),
            made_unix_ms: 1,
            vtax_version: "0".into(),
            plan: "t".into(),
            run: "r".into(),
            effects: vec![effect("capacity", "capacity"), effect("latency", "latency_p50")],
        };
        let text = precision_lines(&plan, &made);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with(
                "  capacity                   2 rounds can't show any tax, 5 rounds can show one of 1."
            ),
            "{text}"
        );
        assert!(
            lines[1].starts_with(
                "  latency, median [latency]  2 rounds can't show any tax, 5 rounds can show one of 1."
            ),
            "{text}"
        );
    }

    #[test]
    fn the_time_is_told_once_where_emulation_makes_no_difference() {
        let plan = b"vtax: 1\nname: t\nbaseline: native\nenvironments: [native, vm]\nservices: http\n\
            workload: {http: {target: /page/1}}\nmeasure: [capacity, latency]\nrepeat: 5\n";
        let plan = vtax_plan::parse("t.yaml", plan, &[] as &[&str]).unwrap();
        let minutes = |min: u64, max: u64| Estimate {
            time_min: Nanos::from_secs(60 * min),
            time_max: Nanos::from_secs(60 * max),
            ..vtax_plan::estimate::estimate(&plan, &Assumptions::KVM)
        };
        assert_eq!(time(&plan, &minutes(3, 3), &minutes(3, 3)), "takes about 3 min");
        assert_eq!(
            time(&plan, &minutes(2, 3), &minutes(4, 5)),
            "takes about 2 min to 3 min with hardware virtualization, 4 min to 5 min under emulation"
        );
        assert_eq!(time(&plan, &minutes(15, 19), &minutes(14, 18)), "takes about 15 min to 19 min");
        let plan = b"vtax: 1\nname: t\nbaseline: native\nenvironments: [native, vm]\nservices: ftp\n\
            workload: {ftp: {bytes: 1GB}}\nmeasure: throughput\nrepeat: 5\n";
        let plan = vtax_plan::parse("t.yaml", plan, &[] as &[&str]).unwrap();
        let told = time(&plan, &minutes(3, 3), &minutes(3, 3));
        assert_eq!(told, "takes about 3 min; less where a load has moved its `bytes` sooner");
    }
}
