//! A baseline against itself: what that needs, what it is good for, and where it is kept.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use vtax_plan::model::{Cell, Plan};
use vtax_stats::{scatter_of, tellable};
use vtax_store::provenance::HostFacts;
use vtax_store::summary::{Comparison, Summary};
use vtax_store::{
    CALIBRATION_VERSION, CalibratedEffect, Calibration, StoreError, create_directory, write_file,
};
use vtax_sys::clock::unix_ms;
use vtax_units::hex;
use vtax_units::metric::NAMED_AFTER;

use crate::precision::comparisons;

/// Directory of the cache that holds calibrations.
const DIRECTORY: &str = "calibration";
/// Largest calibration read.
const LIMIT: u64 = 16 << 20;
/// How a baseline's double is named.
const AGAIN: &str = "again";

/// The plan that measures each baseline of `plan` against itself, under the same rules.
#[must_use]
pub fn against_itself(plan: &Plan) -> Plan {
    let baselines = || plan.cells.iter().filter(|c| c.baseline.is_none());
    let mut taken: BTreeSet<String> = baselines().map(|c| c.id.clone()).collect();
    let mut cells = Vec::new();
    for cell in baselines() {
        let mut twin = cell.clone();
        twin.environment.name = format!("{}-{AGAIN}", cell.environment.name);
        let rest = cell.id.strip_prefix(cell.environment.name.as_str()).unwrap_or(&cell.id);
        twin.id = format!("{}{rest}", twin.environment.name);
        while !taken.insert(twin.id.clone()) {
            twin.id.push_str("-again");
        }
        twin.baseline = Some(cell.id.clone());
        cells.extend([cell.clone(), twin]);
    }
    Plan {
        name: format!("{}-calibration", plan.name),
        description: "What does this testbed tell apart? Baselines against themselves.".to_owned(),
        cells,
        // What the plan asks first names environments that aren't there.
        primary: None,
        ..plan.clone()
    }
}

/// Whether a plan compares baselines with themselves and nothing else.
#[must_use]
pub fn is_against_itself(plan: &Plan) -> bool {
    against_itself(plan).cells == plan.cells
}

/// What has to be the same for a calibration to hold, one fact each.
///
/// Of the plan that is everything the baselines' figures depend on; candidates, margin, seed and the
/// number of trials may differ.
#[must_use]
pub fn conditions(plan: &Plan, host: &HostFacts) -> Vec<String> {
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
    conditions
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
    let conditions = conditions(plan, host);
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

/// The calibration that was made under these conditions on this host, if there is one.
///
/// One that can't be read, or that a newer vtax wrote, is as good as none: everything in the cache may
/// be made again.
#[must_use]
pub fn find(cache: &Path, plan: &Plan, host: &HostFacts) -> Option<Calibration> {
    let conditions = conditions(plan, host);
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
        let same = |a: &Plan, b: &Plan| key(&conditions(a, &host())) == key(&conditions(b, &host()));
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
        assert_ne!(conditions(&usual, &host()), conditions(&usual, &newer));
    }

    #[test]
    fn what_was_kept_is_found_under_the_same_conditions_only() {
        let cache = tempfile::tempdir().unwrap();
        let usual = plan(&[]);
        assert_eq!(find(cache.path(), &usual, &host()), None);
        let conditions = conditions(&usual, &host());
        let mut made = Calibration {
            version: CALIBRATION_VERSION,
            key: key(&conditions),
            conditions,
            made_unix_ms: 1,
            vtax_version: "0".into(),
            plan: "t".into(),
            run: "r".into(),
            effects: Vec::new(),
        };
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
