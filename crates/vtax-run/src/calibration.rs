//! A baseline against itself: what that needs, what it is good for, and where it is kept.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use vtax_plan::model::{Cell, EnvironmentKind, Plan};
use vtax_stats::{scatter_of, tellable};
use vtax_store::provenance::HostFacts;
use vtax_store::summary::{Comparison, Summary};
use vtax_store::{
    CALIBRATION_VERSION, CalibratedEffect, Calibration, StoreError, create_directory, write_file,
};
use vtax_sys::clock::unix_ms;
use vtax_units::hex;
use vtax_units::metric::NAMED_AFTER;
use vtax_vm::{Accelerator, Cache, GuestKernel, Qemu, accel};

pub use vtax_plan::{against_itself, is_against_itself};

use crate::precision::comparisons;

/// Directory of the cache that holds calibrations.
const DIRECTORY: &str = "calibration";
/// Largest calibration read.
const LIMIT: u64 = 16 << 20;

/// What has to be the same for a calibration to hold, one fact each.
///
/// Of the plan that is everything the baselines' figures depend on; candidates, margin, seed and the
/// number of trials may differ. `accelerator` is what virtual machines of the baselines' testbeds run on, where there are any.
#[must_use]
pub fn conditions(plan: &Plan, host: &HostFacts, accelerator: Option<&str>) -> Vec<String> {
    // Plans are made of what JSON can hold.
    fn json(value: &impl serde::Serialize) -> String {
        serde_json::to_string(value).unwrap_or_default()
    }
    let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let machine = Sha256::digest(machine.trim().as_bytes());
    let mut conditions = vec![
        format!("vtax {}", env!("CARGO_PKG_VERSION")),
        // Not the id itself: machine-id(5) asks to keep it to the machine.
        format!("machine {}", hex(&machine[..8])),
        format!("CPU {}, {} of them", host.cpu_model, host.cpus),
        format!("kernel {} {}", host.kernel, host.architecture),
        format!("under {}", host.virtualization.as_deref().unwrap_or("no hypervisor")),
        format!("governor {}", host.governor.as_deref().unwrap_or("not told")),
    ];
    for cell in plan.cells.iter().filter(|c| c.baseline.is_none()) {
        let Cell { id, environment, path, service, workload, systems, .. } = cell;
        let mut what = vec![json(&environment.kind), json(path), json(service), json(workload)];
        // What is said of one system alone stays as it was before there could be several.
        if cell.is_several() {
            what.extend([environment.count.to_string(), json(systems)]);
        }
        conditions.push(format!("baseline {id}: {}", what.join(" ")));
    }
    conditions.extend(plan.measures.iter().map(|m| format!("measure {}: {}", m.name, json(&m.kind))));
    conditions.push(format!("budget {}", json(&plan.budget)));
    conditions.push(format!("trials {}", json(&plan.repeat.trials)));
    // Where there are none, conditions stay as they were before there was this one.
    conditions.extend(accelerator.map(|word| format!("virtual machines on {word}")));
    conditions
}

/// Whether a baseline certainly is a virtual machine, or is measured from one. Routers may be in one, which only a run finds out.
fn has_guests(plan: &Plan) -> bool {
    let mut baselines = plan.cells.iter().filter(|cell| cell.baseline.is_none());
    baselines.any(|cell| {
        cell.has_client_vm() || cell.environments().any(|of| matches!(of.kind, EnvironmentKind::Vm(_)))
    })
}

/// What virtual machines of the baselines ran on, as their trials tell.
fn accelerator_of(plan: &Plan, summary: &Summary) -> Option<String> {
    let is_baseline = |id: &str| plan.cells.iter().any(|cell| cell.id == id && cell.baseline.is_none());
    summary.cells.iter().filter(|cell| is_baseline(&cell.cell)).find_map(|cell| cell.accelerator.clone())
}

/// What virtual machines run on here; `None` where there can't be any. Where this isn't known since the host booted, a kernel is booted to
/// find out.
fn accelerator_here() -> Option<Accelerator> {
    let cache = Cache::of_user();
    let (qemu, kernel) = (Qemu::find_any(&cache).ok()?, GuestKernel::find(&cache).ok()?);
    accel::prove(&qemu, &kernel, &cache, false).ok().map(|proof| proof.accelerator)
}

/// The word that stands for `conditions`.
fn key(conditions: &[String]) -> String {
    let mut hash = Sha256::new();
    for condition in conditions {
        // With its length, so that no two lists read the same.
        hash.update((condition.len() as u64).to_le_bytes());
        hash.update(condition.as_bytes());
    }
    hex(&hash.finalize()[..16])
}

/// What the summary of a run of [`against_itself`] says about `plan`'s testbed.
#[must_use]
pub fn calibration(plan: &Plan, host: &HostFacts, summary: &Summary, run: &Path) -> Calibration {
    let conditions = conditions(plan, host, accelerator_of(plan, summary).as_deref());
    Calibration {
        version: CALIBRATION_VERSION,
        key: key(&conditions),
        conditions,
        made_unix_ms: unix_ms(),
        vtax_version: env!("CARGO_PKG_VERSION").to_owned(),
        plan: plan.name.clone(),
        run: run.display().to_string(),
        effects: summary.comparisons.iter().map(|c| effect(c, summary)).collect(),
    }
}

fn effect(comparison: &Comparison, summary: &Summary) -> CalibratedEffect {
    let trials = |cell: &str| {
        let found = summary.cells.iter().find(|c| c.cell == cell && c.measure == comparison.measure);
        found.and_then(|c| c.metrics.get(&comparison.metric)).map_or(0, |m| m.n)
    };
    // Equals that were this far apart once may be so again.
    let apart = comparison.tax.map(|tax| tax.ln().abs().exp());
    CalibratedEffect {
        cell: comparison.baseline.clone(),
        measure: comparison.measure.clone(),
        metric: comparison.metric.clone(),
        trials: trials(&comparison.cell).min(trials(&comparison.baseline)),
        tax: comparison.tax,
        interval: comparison.interval,
        detectable: comparison.detectable.zip(apart).map(|(scatter, apart)| scatter.max(apart)),
        told_apart: comparison.interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0),
    }
}

fn path(cache: &Path, key: &str) -> PathBuf {
    cache.join(DIRECTORY).join(format!("{key}.json"))
}

/// Keeps a calibration in the cache; one under the same conditions is replaced.
///
/// # Errors
/// [`StoreError`] where the cache can't be written.
pub fn keep(cache: &Path, calibration: &Calibration) -> Result<PathBuf, StoreError> {
    let path = path(cache, &calibration.key);
    create_directory(&cache.join(DIRECTORY))?;
    let mut text = serde_json::to_vec_pretty(calibration)
        .map_err(|e| StoreError::Unwritable { path: path.clone(), reason: e.to_string() })?;
    text.push(b'\n');
    write_file(&path, &text)?;
    Ok(path)
}

/// The calibrations that were made for a plan on this host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// Without virtual machines.
    plain: Option<Calibration>,
    /// By what virtual machines ran on.
    on: Vec<(Accelerator, Calibration)>,
}

impl Found {
    /// The one that holds where virtual machines run on this, `kvm` or `tcg`; `None` where there are none.
    #[must_use]
    pub fn on(&self, accelerator: Option<&str>) -> Option<&Calibration> {
        let on = || self.on.iter().find(|(on, _)| Some(on.word()) == accelerator);
        self.plain.as_ref().or_else(|| on().map(|(_, found)| found))
    }
}

/// The calibrations that were made under a plan's conditions on this host, whatever virtual machines run on now.
///
/// One that can't be read, or that a newer vtax wrote, is as good as none: everything in the cache may
/// be made again.
#[must_use]
pub fn find_all(cache: &Path, plan: &Plan, host: &HostFacts) -> Found {
    let made = |on: Option<&str>| made_under(cache, conditions(plan, host, on));
    let on = [Accelerator::Kvm, Accelerator::Tcg].into_iter();
    Found {
        // One of virtual machines that doesn't say what these ran on is an older vtax's.
        plain: if has_guests(plan) { None } else { made(None) },
        on: on.filter_map(|on| Some((on, made(Some(on.word()))?))).collect(),
    }
}

/// The calibration that was made under a plan's conditions on this host, if there is one. Where that depends on what virtual machines run
/// on, this may take seconds and start threads: not where a controller is started later, which [`find_all`] is for.
#[must_use]
pub fn find(cache: &Path, plan: &Plan, host: &HostFacts) -> Option<Calibration> {
    find_where(cache, plan, host, accelerator_here)
}

/// As [`find`], where virtual machines run on what `accelerator` says; it is asked only where that matters.
fn find_where(
    cache: &Path,
    plan: &Plan,
    host: &HostFacts,
    accelerator: impl FnOnce() -> Option<Accelerator>,
) -> Option<Calibration> {
    let found = find_all(cache, plan, host);
    let matters = found.plain.is_none() && !found.on.is_empty();
    let here = if matters { accelerator() } else { None };
    found.on(here.map(Accelerator::word)).cloned()
}

/// The calibration that was made under these conditions.
fn made_under(cache: &Path, conditions: Vec<String>) -> Option<Calibration> {
    let path = path(cache, &key(&conditions));
    let small = fs::metadata(&path).is_ok_and(|m| m.is_file() && m.len() <= LIMIT);
    let text = if small { fs::read_to_string(&path).ok()? } else { return None };
    let found: Calibration = serde_json::from_str(&text).ok()?;
    (found.version <= CALIBRATION_VERSION && found.conditions == conditions).then_some(found)
}

/// What the trials of a plan can tell on this host.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Foresight {
    /// Measure name.
    pub measure: String,
    /// Metric name.
    pub metric: String,
    /// The smallest tax that `repeat.min` rounds tell in four runs of five; `None` where they tell none.
    pub with_min: Option<f64>,
    /// The smallest tax that `repeat.max` rounds tell in four runs of five; `None` where they tell none.
    pub with_max: Option<f64>,
}

/// What the rounds of `plan` can tell where candidates scatter as their baseline did in the calibration: of each metric that
/// a measure is named after the worst of its cells, in the calibration's order.
#[must_use]
pub fn foresight(plan: &Plan, calibration: &Calibration) -> Vec<Foresight> {
    let family = comparisons(plan);
    let mut all: Vec<Foresight> = Vec::new();
    let named = |effect: &&CalibratedEffect| NAMED_AFTER.iter().any(|metric| metric.name == effect.metric);
    for effect in calibration.effects.iter().filter(named) {
        let Some(sd) = scatter(effect) else { continue };
        let with = |rounds: u32| tellable(sd, rounds as usize, family);
        let (with_min, with_max) = (with(plan.repeat.min), with(plan.repeat.max));
        let worse = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a.max(b));
        match all.iter_mut().find(|f| (&f.measure, &f.metric) == (&effect.measure, &effect.metric)) {
            Some(known) => {
                (known.with_min, known.with_max) =
                    (worse(known.with_min, with_min), worse(known.with_max, with_max));
            }
            None => all.push(Foresight {
                measure: effect.measure.clone(),
                metric: effect.metric.clone(),
                with_min,
                with_max,
            }),
        }
    }
    all
}

/// The standard deviation between rounds of the logarithm of a ratio, from its interval.
fn scatter(effect: &CalibratedEffect) -> Option<f64> {
    scatter_of(effect.interval?, effect.trials as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "
vtax: 1
name: t
baseline: native
environments: [native, container, native: {name: native-again}]
services: http
workload: {http: {target: [/bytes/1, /bytes/2]}}
measure: [throughput]
";

    fn plan(overrides: &[&str]) -> Plan {
        vtax_plan::parse("t", PLAN.as_bytes(), overrides).unwrap_or_else(|e| panic!("{e}"))
    }

    fn host() -> HostFacts {
        HostFacts { cpu_model: "c".into(), cpus: 2, kernel: "k".into(), ..HostFacts::default() }
    }

    #[test]
    fn each_baseline_meets_itself_and_nothing_else() {
        let twins = against_itself(&plan(&[]));
        let ids: Vec<(&str, Option<&str>)> =
            twins.cells.iter().map(|c| (c.id.as_str(), c.baseline.as_deref())).collect();
        let [one, two] = ["native.bridge.http.target-bytes-1", "native.bridge.http.target-bytes-2"];
        assert_eq!(
            ids,
            [
                (one, None),
                ("native-again.bridge.http.target-bytes-1", Some(one)),
                (two, None),
                ("native-again.bridge.http.target-bytes-2", Some(two)),
            ]
        );
        assert!(is_against_itself(&twins));
        // What a run has stored of it is one, too; the plan itself isn't, nor one that only names its environment otherwise.
        let stored: Plan = serde_json::from_str(&serde_json::to_string(&twins).unwrap()).unwrap();
        assert!(is_against_itself(&stored));
        for other in ["environments=[native, container]", "environments=[native, native: {name: other}]"] {
            assert!(!is_against_itself(&plan(&[other])), "{other}");
        }
        assert_eq!((twins.measures, twins.repeat), (plan(&[]).measures, plan(&[]).repeat));
    }

    #[test]
    fn conditions_are_what_figures_depend_on() {
        let of = |plan: &Plan| conditions(plan, &host(), None);
        let same = |a: &Plan, b: &Plan| key(&of(a)) == key(&of(b));
        let usual = plan(&[]);
        for harmless in ["seed=7", "margin=2%", "repeat=9", "environments=[native, vm]", "name=other"] {
            assert!(same(&usual, &plan(&[harmless])), "{harmless}");
        }
        for other in [
            "measure.throughput.duration=3s",
            "workload.http.connections=8",
            "services={http: {workers: 2}}",
            "paths=direct",
            "budget.sut_memory=256MiB",
            "repeat.trials=duet",
        ] {
            assert!(!same(&usual, &plan(&[other])), "{other}");
        }
        let newer = HostFacts { kernel: "k2".into(), ..host() };
        assert_ne!(of(&usual), conditions(&usual, &newer, None));
    }

    #[test]
    fn what_was_kept_is_found_under_the_same_conditions_only() {
        let cache = tempfile::tempdir().unwrap();
        let usual = plan(&[]);
        assert_eq!(find(cache.path(), &usual, &host()), None);
        let mut made = calibration(&usual, &host(), &summary(), Path::new("r"));
        let path = keep(cache.path(), &made).unwrap();
        assert_eq!(find(cache.path(), &usual, &host()).as_ref(), Some(&made));
        assert_eq!(find(cache.path(), &plan(&["paths=direct"]), &host()), None);
        made.version += 1;
        keep(cache.path(), &made).unwrap();
        assert_eq!(find(cache.path(), &usual, &host()), None, "a newer version is none of ours");
        fs::write(&path, "{").unwrap();
        assert_eq!(find(cache.path(), &usual, &host()), None, "a damaged one is none");
    }

    #[test]
    fn what_was_found_on_kvm_says_nothing_of_emulated_guests() {
        let cache = tempfile::tempdir().unwrap();
        let of_guests = plan(&["baseline=vm", "environments=[vm]"]);
        let made_on = |plan: &Plan, accelerator: &str| {
            let cell = serde_json::json!({
                "cell": plan.cells[0].id, "environment": "vm", "accelerator": accelerator, "parameters": {},
                "measure": "throughput", "metrics": {},
            });
            let cells = vec![serde_json::from_value(cell).unwrap()];
            calibration(plan, &host(), &Summary { cells, ..summary() }, Path::new("r"))
        };
        let found = |plan: &Plan, here| find_where(cache.path(), plan, &host(), || here);
        // Nobody has to know what guests run on where nothing was made.
        let unasked = || -> Option<Accelerator> { panic!("a kernel would be booted") };
        assert_eq!(find_where(cache.path(), &of_guests, &host(), unasked), None);
        // One without a word of it, as an older vtax kept it.
        keep(cache.path(), &calibration(&of_guests, &host(), &summary(), Path::new("r"))).unwrap();
        assert_eq!(find_where(cache.path(), &of_guests, &host(), unasked), None);
        let on_kvm = made_on(&of_guests, "kvm");
        keep(cache.path(), &on_kvm).unwrap();
        assert_eq!(found(&of_guests, Some(Accelerator::Kvm)).as_ref(), Some(&on_kvm));
        assert_eq!((found(&of_guests, Some(Accelerator::Tcg)), found(&of_guests, None)), (None, None));
        // Without guests it is none of the conditions; routers on the path may be in one all the same.
        let native = plan(&[]);
        let plain = calibration(&native, &host(), &summary(), Path::new("r"));
        assert_eq!(plain.conditions, conditions(&native, &host(), None));
        let on_tcg = made_on(&native, "tcg");
        keep(cache.path(), &on_tcg).unwrap();
        assert_eq!(found(&native, Some(Accelerator::Tcg)).as_ref(), Some(&on_tcg));
        keep(cache.path(), &plain).unwrap();
        assert_eq!(find_where(cache.path(), &native, &host(), unasked).as_ref(), Some(&plain));
    }

    #[test]
    fn the_smallest_effect_is_no_smaller_than_what_equals_were_apart() {
        let mut comparison = comparison();
        let summary = summary();
        let found = effect(&comparison, &summary);
        assert_eq!((found.detectable, found.told_apart, found.trials), (Some(1.04), false, 0));
        comparison.tax = Some(0.9);
        comparison.interval = Some((0.85, 0.95));
        let found = effect(&comparison, &summary);
        assert!(found.told_apart && (found.detectable.unwrap() - 1.0 / 0.9).abs() < 1e-12);
        comparison.detectable = None;
        assert_eq!(effect(&comparison, &summary).detectable, None);
    }

    #[test]
    fn what_rounds_will_tell_follows_from_the_scatter_of_equals() {
        let usual = plan(&["repeat={min: 3, max: 10}"]);
        let effect = |metric: &str, half: f64| CalibratedEffect {
            cell: "a".into(),
            measure: "throughput".into(),
            metric: metric.into(),
            trials: 5,
            tax: Some(1.0),
            interval: Some(((-half).exp(), half.exp())),
            detectable: Some(1.1),
            told_apart: false,
        };
        let effects =
            vec![effect("throughput", 0.1), effect("throughput", 0.2), effect("cpu_per_request", 9.0)];
        let made = Calibration {
            version: CALIBRATION_VERSION,
            key: String::new(),
            conditions: Vec::new(),
            made_unix_ms: 1,
            vtax_version: "0".into(),
            plan: "t".into(),
            run: "r".into(),
            effects,
        };
        let found = foresight(&usual, &made);
        assert_eq!(found.len(), 1);
        // 0.2 = t(0.975, 4) sd / sqrt(5); four comparisons: two candidates, two targets.
        let sd = 0.2 / 2.776_445 * 5f64.sqrt();
        let expected = tellable(sd, 3, 4).unwrap();
        assert!((found[0].with_min.unwrap() / expected - 1.0).abs() < 1e-5, "{found:?}");
        assert!(found[0].with_max < found[0].with_min);

        let all = NAMED_AFTER.map(|metric| effect(metric.name, 0.1)).to_vec();
        let found = foresight(&usual, &Calibration { effects: all, ..made });
        assert_eq!(found.len(), NAMED_AFTER.len(), "of each family: {found:?}");
    }

    fn comparison() -> Comparison {
        let text = r#"{"cell":"b","baseline":"a","measure":"m","metric":"x","tax":1.01,"interval":[0.98,1.03],
            "detectable":1.04,"verdict":"equivalent","reason":""}"#;
        serde_json::from_str(text).unwrap()
    }

    fn summary() -> Summary {
        let text = r#"{"version":1,"plan":"t","complete":true,"headline":"","cells":[],"comparisons":[],
            "trials":[],"notes":[]}"#;
        serde_json::from_str(text).unwrap()
    }
}
