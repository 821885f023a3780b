//! Plans of the repository, errors with their places, overrides, the matrix.

use std::path::{Path, PathBuf};

use vtax_plan::estimate::{Assumptions, estimate};
use vtax_plan::model::{
    BesideLoad, EnvironmentKind, Load, MeasureKind, PathKind, Plan, Ready, ServiceKind, TrialKind,
    TrialOrder, Workload,
};
use vtax_plan::{PlanErrors, load, parse};
use vtax_units::{BitRate, Bytes, Nanos, Rate, Share};

const NONE: &[&str] = &[];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A small valid plan with `change` (old, new) applied.
fn plan_with(changes: &[(&str, &str)]) -> String {
    let mut text = "\
vtax: 1
name: t
baseline: native
environments: [native, vm]
services: http
workload:
  http: {target: /bytes/100}
measure:
  - capacity
  - latency: {load: 50% of capacity}
"
    .to_owned();
    for (old, new) in changes {
        assert!(text.contains(old), "`{old}` is not in the plan");
        text = text.replace(old, new);
    }
    text
}

fn ok(text: &str) -> Plan {
    parse("plan.yaml", text.as_bytes(), NONE).unwrap_or_else(|e| panic!("{}", e.to_text(false)))
}

/// The errors of a plan as `line:column message [help]`.
fn errors_with(text: &[u8], overrides: &[&str]) -> Vec<String> {
    match parse("plan.yaml", text, overrides) {
        Ok(plan) => panic!("no error in\n{}\n{plan:?}", String::from_utf8_lossy(text)),
        Err(PlanErrors::Invalid(diagnostics)) => diagnostics
            .iter()
            .map(|d| {
                let file = if d.file == "plan.yaml" { String::new() } else { format!("{}:", d.file) };
                let help = d.help.map_or(String::new(), |h| format!(" [{h}]"));
                format!("{file}{}:{} {}{help}", d.line, d.column, d.message)
            })
            .collect(),
        Err(other) => panic!("{other}"),
    }
}

fn errors(text: &str) -> Vec<String> {
    errors_with(text.as_bytes(), &[])
}

/// The only error of a plan.
fn error(text: &str) -> String {
    let mut all = errors(text);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

fn ids(plan: &Plan) -> Vec<&str> {
    plan.cells.iter().map(|c| c.id.as_str()).collect()
}

/// The plans of the repository; files that they name are beside them.
fn shipped() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository().join("plans")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect()
}

#[test]
fn every_plan_of_the_repository_loads() {
    let mut names = Vec::new();
    for path in shipped() {
        let plan = load(&path, NONE).unwrap_or_else(|e| panic!("{}", e.to_text(false)));
        assert_eq!(Some(plan.name.as_str()), path.file_stem().and_then(|s| s.to_str()));
        names.push(plan.name);
    }
    assert!(names.len() >= 3, "{names:?}");
}

/// Nobody begins with a plan that takes a day.
#[test]
fn every_plan_of_the_repository_takes_an_hour_at_most() {
    for path in shipped() {
        let plan = load(&path, NONE).unwrap_or_else(|e| panic!("{}", e.to_text(false)));
        for assumptions in [Assumptions::KVM, Assumptions::TCG] {
            let time = estimate(&plan, &assumptions).time_max;
            assert!(time <= Nanos::from_secs(3600), "{} takes {} s", plan.name, time.as_secs_f64());
        }
    }
}

#[test]
fn plans_as_long_as_the_studies_load() {
    let mut names = Vec::new();
    for study in std::fs::read_dir(repository().join("studies")).unwrap() {
        let Ok(plans) = std::fs::read_dir(study.unwrap().path().join("whole")) else { continue };
        for entry in plans {
            let path = entry.unwrap().path();
            let plan = load(&path, NONE).unwrap_or_else(|e| panic!("{}", e.to_text(false)));
            assert_eq!(Some(plan.name.as_str()), path.file_stem().and_then(|s| s.to_str()));
            let shipped = repository().join("plans").join(path.file_name().unwrap());
            assert!(shipped.is_file(), "{} is a shorter form of {}", shipped.display(), path.display());
            names.push(plan.name);
        }
    }
    names.sort();
    assert_eq!(names, ["ft", "ftp-bulk", "links", "tcp-stacks"]);
}

#[test]
fn the_quick_plan_has_three_cells_and_three_measures() {
    let plan = load(&repository().join("plans/quick.yaml"), NONE).unwrap();
    assert_eq!(ids(&plan), ["native.bridge.http", "container.bridge.http", "vm.bridge.http"]);
    assert_eq!(plan.cells[0].baseline, None);
    assert_eq!(plan.cells[2].baseline.as_deref(), Some("native.bridge.http"));
    let names: Vec<_> = plan.measures.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["capacity", "latency", "latency@lowest"]);
    let EnvironmentKind::Vm(vm) = &plan.cells[2].environment.kind else { panic!("not a vm") };
    assert_eq!((vm.vcpus, vm.memory), (None, Bytes::from_mib(512)), "the VM gets the SUT's budget");
}

#[test]
fn the_web_plan_pairs_cells_with_equal_parameters() {
    let plan = load(&repository().join("plans/web.yaml"), NONE).unwrap();
    assert_eq!(plan.cells.len(), 18);
    let cell = plan.cells.iter().find(|c| c.id == "vm.bridge.nginx.target-10k").unwrap();
    assert_eq!(cell.baseline.as_deref(), Some("native.bridge.nginx.target-10k"));
    assert_eq!(cell.parameters["target"], "/10k");
}

#[test]
fn the_custom_plan_says_what_it_means() {
    let plan = load(&repository().join("plans/custom.yaml"), NONE).unwrap();
    assert_eq!(
        ids(&plan),
        ["native.bridge.python", "vm.bridge.python.memory-256MiB", "vm.bridge.python.memory-1GiB"]
    );
    assert!(plan.cells[1..].iter().all(|c| c.baseline.as_deref() == Some("native.bridge.python")));
    let ServiceKind::Command(command) = &plan.cells[0].service.kind else { panic!("not a command") };
    assert_eq!(command.ready, Ready::Port);
    assert_eq!(command.env["PYTHONUNBUFFERED"], "1");
    assert!(command.files["index.html"].ends_with("by vtax.\n"));
    assert_eq!(plan.measures[1].name, "latency@30%");
    assert_eq!((plan.repeat.min, plan.repeat.max), (5, 5));
}

#[test]
fn a_resolved_plan_survives_json() {
    for name in ["quick", "web", "custom"] {
        let plan = load(&repository().join(format!("plans/{name}.yaml")), NONE).unwrap();
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }
}

#[test]
fn all_errors_come_at_once_with_their_places() {
    let text = plan_with(&[
        ("vtax: 1", "vtax: 7"),
        ("native, vm]", "native, vn]"),
        ("target: /bytes/100", "target: bytes, conections: 3, timeout: 5"),
        ("- capacity\n", "- capacity: {start: 10/h, precision: 0}\n"),
    ]);
    assert_eq!(
        errors(&text),
        [
            "1:7 this vtax reads plans of version 1, not 7 [a newer vtax is needed]",
            "4:24 unknown environment: `vn` [did you mean `vm`? allowed kinds: `native`, `container`, `vm` and `uml`]",
            "7:18 `bytes` is not a target in origin form [it starts with a slash: `/bytes`]",
            "7:25 unknown key in `http`: `conections` [did you mean `connections`? allowed keys: `target`, \
             `requests`, `targets_file`, `zipf`, `cookies`, `compression`, `tls`, `cipher`, `group`, `resume`, `sni`, `alpn`, \
             `version`, `streams`, `connections`, `requests_per_connection` and `timeout`]",
            "7:49 `5` is not a duration such as 40ms, 2s or 1m30s: the unit is missing",
            "9:23 `10/h` is not a rate such as 1000/s or 20k/s: `/h` is not a unit of rate \
             (/s, k/s, M/s, /m, /min, k, M)",
            "9:40 `precision` must be above 0% and below 100%",
        ]
    );
}

#[test]
fn the_text_shows_snippet_and_caret() {
    let text = plan_with(&[("baseline: native", "baselin: native")]);
    let Err(errors) = parse("plans/t.yaml", text.as_bytes(), NONE) else { panic!("no error") };
    let expected = "\
error: unknown key in the plan: `baselin`
 --> plans/t.yaml:3:1
  |
3 | baselin: native
  | ^^^^^^^
  = did you mean `baseline`? allowed keys: `vtax`, `name`, `description`, `baseline`, `environments`, \
`paths`, `services`, `workload`, `measure`, `faults`, `repeat`, `margin`, `primary`, `budget`, `consolidation`, `systems`, `seed` and `study`

";
    assert_eq!(errors.to_text(false), expected);
    assert!(errors.to_text(true).contains("\x1b[1;31merror\x1b[0m"));
    assert_eq!(errors.to_json()["errors"][0]["line"], 3);
}

#[test]
fn what_is_asked_first_is_named_by_measure_metric_and_environment() {
    let base = plan_with(&[]);
    let primary = |text: &str| parse("t.yaml", format!("{base}primary: {text}\n").as_bytes(), NONE);
    let plan = primary("{measures: capacity, environments: [vm]}").unwrap();
    let named = plan.primary.unwrap();
    assert!(named.names("vm", "capacity", "capacity") && !named.names("container", "capacity", "capacity"));
    assert!(!named.names("vm", "latency", "latency_p50"));
    let said = |text: &str| primary(text).err().map(|e| e.to_text(false)).unwrap_or_default();
    assert!(
        said("{measures: capacitie}").contains("did you mean `capacity`?"),
        "{}",
        said("{measures: capacitie}")
    );
    // The baseline isn't compared with itself.
    assert!(said("{environments: native}").contains("there is no compared environment `native`"));
    assert!(said("{metrics: 'Latency p50'}").contains("can't be a metric"));
    // As summary.json has them.
    let metrics = ["latency_p99.9", "cpu_per_request.service-user", "ftp_retr.data-tls"];
    assert_eq!(said(&format!("{{metrics: [{}]}}", metrics.join(", "))), "");
    assert!(said("{}").contains("names nothing"), "{}", said("{}"));
}

#[test]
fn bad_yaml_is_one_clear_error() {
    assert!(error("vtax: 1\nname: [a, b\n").contains("this is not YAML"));
    assert!(error("").starts_with("1:1 the plan is empty"));
    assert!(error("# nothing\n").starts_with("1:1 the plan is empty"));
    assert!(error("just text").contains("the plan must be a mapping, not `just text`"));
    assert!(errors_with(b"vtax: 1\nname: \xff\n", &[])[0].starts_with("2:7 the file is not UTF-8"));
    assert!(error(&format!("{}---\nvtax: 1\n", plan_with(&[]))).contains("a second one starts here"));
    let tabs = error("vtax: 1\nworkload:\n\thttp: {target: /x}\n");
    assert!(tabs.contains("this is not YAML") && tabs.ends_with("[indent with spaces, not tabs]"), "{tabs}");
    // Here the one before is where the error is.
    let tabs = error("vtax: 1\n\tname: x\n");
    assert!(tabs.contains("found a tab") && tabs.ends_with("[indent with spaces, not tabs]"), "{tabs}");
    assert!(!error("vtax: 1\nname: [a, b\n").contains("tabs"));
}

#[test]
fn a_file_that_is_no_plan_is_told_as_that_alone() {
    for text in ["services: {web: {image: nginx}}\nversion: 3\n", "a: 1\n", "{}\n"] {
        assert_eq!(error(text), "1:1 this is no plan: a plan starts with `vtax: 1` [`vtax init` writes one]");
    }
    let misspelt = errors("vtx: 1\nname: t\n");
    assert!(misspelt.iter().any(|e| e.contains("did you mean `vtax`?")), "{misspelt:?}");
}

#[test]
fn what_cannot_be_read_is_not_shown() {
    let binary = parse("p.yaml", b"vtax: 1\nname: \x01\x02\xff\xfe\n", NONE).unwrap_err();
    assert_eq!(
        binary.to_text(false),
        "error: the file is not UTF-8 from here on\n --> p.yaml:2:9\n  = save it as UTF-8 text\n\n"
    );
}

/// As programs other than vtax call them.
#[test]
fn environments_are_known_by_their_other_names_too() {
    for (word, kind) in [
        ("docker", "container"),
        ("Podman", "container"),
        ("oci", "container"),
        ("kvm", "vm"),
        ("qemu: {memory: 1GiB}", "vm"),
        ("bare_metal", "native"),
        ("host", "native"),
    ] {
        let message = error(&plan_with(&[("[native, vm]", &format!("[native, {word}]"))]));
        assert!(message.contains(&format!("did you mean `{kind}`?")), "{word}: {message}");
    }
}

#[test]
fn keys_given_twice_name_the_first_place() {
    let text = plan_with(&[("name: t", "name: t\nname: u")]);
    assert_eq!(error(&text), "3:1 key `name` is given twice [first at plan.yaml:2]");
    let text = plan_with(&[("[native, vm]", "[native, vm, vm]")]);
    let message = error(&text);
    assert!(
        message.starts_with("4:28 environment `vm` is in the plan twice [first at plan.yaml:4; give"),
        "{message}"
    );
}

/// The commonest slips of indentation.
#[test]
fn what_stands_beside_a_kind_is_told_where_it_belongs() {
    let environments = "environments: [native, vm]";
    let latency = "  - latency: {load: 50% of capacity}";
    let longer = format!("{latency}\n    duration: 2s");
    for (old, new, help) in [
        (environments, "environments:\n  - native\n  - vm:\n    memory: 1GiB", "indent the options of `vm`"),
        (environments, "environments:\n  native:\n  vm: {memory: 1GiB}", "write a list: `- native`, `- vm`"),
        ("  http: {target: /bytes/100}", "  http:\n  target: /bytes/100", "indent the options of `http`"),
        (latency, "  - latency:\n    load: 50% of capacity", "indent the options of `latency` below it"),
        (latency, longer.as_str(), "indent the options of `latency` below it"),
        (latency, "  - latncy:\n    load: 50% of capacity", "kinds: `capacity`"),
    ] {
        let message = error(&plan_with(&[(old, new)]));
        assert!(message.contains("not as a mapping of several keys"), "{new}: {message}");
        assert!(message.contains(help), "{new}: {message}");
    }
}

#[test]
fn a_blank_before_the_percent_sign_is_none() {
    let plan = ok(&plan_with(&[("50% of capacity", "50 % of lowest capacity")]));
    let MeasureKind::Latency(latency) = &plan.measures[1].kind else { panic!("not latency") };
    assert_eq!(latency.load, Load::LowestCapacity(Share(0.5)));
    let message = error(&plan_with(&[("50% of capacity", "50 %")]));
    assert!(message.contains("write `50% of capacity`"), "{message}");
}

#[test]
fn a_baselines_systems_are_missed_where_a_plan_has_none() {
    let message = error(&plan_with(&[("baseline: native", "baseline: {environment: native, systems: x}")]));
    assert!(message.contains("plan has no sets of systems"), "{message}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for (old, new, expected) in [
        ("baseline: native", "baseline: nativ", "did you mean `native`?"),
        ("baseline: native", "baseline: {environment: native, path: direct}", "is no path of this plan"),
        ("[native, vm]", "[]", "an empty list leaves nothing to measure"),
        ("[native, vm]", "[native, {vm: {memory: 1MiB}}]", "too little: at least 192MiB"),
        ("[native, vm]", "[native, {vm: {vcpus: 0}}]", "a guest needs a virtual CPU"),
        ("services: http", "services: {http: {port: 0}}", "0 is no port"),
        ("services: http", "services: {http: {port: 70000}}", "not a whole number from 0 to 65535"),
        ("services: http", "services: {command: {port: 1}}", "`command` needs the key `run`"),
        ("services: http", "services: {command: {run: python3 -m x, port: 1}}", "no shell is involved"),
        ("services: http", "services: {command: {run: [a, {port}], port: 1}}", "quote it, `\"{port}\"`"),
        ("services: http", "services: flask", "your own is a `command: {run: [flask], port: 8000}`"),
        ("services: http", "servces: http", "did you mean `services`?"),
        ("measure:", "measures:", "did you mean `measure`?"),
        ("services: http", "services: {command: {run: [a], port: 1, files: {../x: y}}}", "not a path within"),
        (
            "services: http",
            "services: {command: {run: [a], port: 1, env: {A=B: y}}}",
            "no name of an environment",
        ),
        ("services: http", "services: {command: {run: [a], port: 1, ready: lod}}", "unknown ready condition"),
        ("/bytes/100", "http://example.org/x", "write only the path: `/x`"),
        ("/bytes/100", "\"/a b\"", "can't contain ' '"),
        ("/bytes/100", "[/bytes/1, /bytes/2, /bytes/1]", "`/bytes/1` is in the list twice"),
        ("/bytes/100", "/bytes/10k", "`http` does not serve `/bytes/10k`"),
        (
            "services: http\nworkload:\n  http: {target: /bytes/100}",
            "services: nginx\nworkload:\n  http: {target: /page/9}",
            "`nginx` does not serve `/page/9`",
        ),
        ("  - capacity\n", "", "no capacity is measured before this"),
        ("50% of capacity", "50%", "write `50% of capacity`"),
        ("50% of capacity", "50% of capcity", "did you mean `capacity`?"),
        ("50% of capacity", "0% of capacity", "a load is above 0%"),
        ("50% of capacity", "0/s", "a rate is above 0/s"),
        ("50% of capacity", "50 of capacity", "did you mean `50%`?"),
        ("50% of capacity", "0.5", "did you mean `50% of capacity`, or `0.5/s`?"),
        ("- capacity\n", "- capacity: {precision: 5}\n", "did you mean `5%`?"),
        ("- capacity\n", "- capacity: {limits: {errors: 1}}\n", "did you mean `1%` or `100%`?"),
        ("50% of capacity}", "50% of capacity, duration: 0s}", "`duration` must be at least 50ms"),
        ("50% of capacity}", "50% of capacity, arrivals: poison}", "did you mean `poisson`?"),
        ("- capacity\n", "- capacity: {start: 2k/s, max: 1k/s}\n", "above its `max`"),
        ("- capacity\n", "- capacity: {limits: {p99: 3s}}\n", "never exceeded, as requests fail after 2s"),
        ("- capacity\n", "- capacity: {limits: {errors: 100%}}\n", "`errors` must be at least 0%"),
        ("vtax: 1", "vtax: 1\nrepeat: 0", "at least one trial is needed"),
        ("vtax: 1", "vtax: 1\nrepeat: {min: 5, max: 3}", "`max` (3) is below `min` (5)"),
        ("vtax: 1", "vtax: 1\nrepeat: {budget: 5s}", "is over before one trial of `latency` ends"),
        ("vtax: 1", "vtax: 1\nmargin: 0%", "`margin` must be above 0%"),
        ("vtax: 1", "vtax: 1\nmargin: 5", "did you mean `5%`?"),
        ("vtax: 1", "vtax: 1\nrepeat: {until: 3}", "did you mean `3%`?"),
        ("vtax: 1", "vtax: 1\npaths: {bridge: {loss: 2}}", "did you mean `2%` or `200%`?"),
        ("vtax: 1", "vtax: 1\nbudget: {sut_cpus: 0}", "at least one CPU is needed"),
        ("vtax: 1", "vtax: 1\npaths: {mininet: {rate: 1gbit}}", "unknown key in `mininet`: `rate`"),
        ("vtax: 1", "vtax: 1\npaths: {bridge: {mtu: 9}}", "it is 576 to 65535"),
        ("name: t", "name: a/b", "`a/b` can't be a name"),
        ("name: t", "name:", "a text is needed here, not nothing"),
    ] {
        let message = error(&plan_with(&[(old, new)]));
        assert!(message.contains(expected), "{new}: {message}");
    }
}

/// The example without a port read as if that were given elsewhere.
#[test]
fn a_command_in_one_line_is_told_how_words_are_listed() {
    let line = "services: {command: {run: 'python3 -m http.server {port}', port: 1}}";
    let message = error(&plan_with(&[("services: http", line)]));
    assert!(
        message.contains("a list of words, such as `[python3, -m, http.server, \"{port}\"]`"),
        "{message}"
    );
}

#[test]
fn numbers_are_told_what_they_may_have_meant() {
    for (old, new, expected) in [
        ("50% of capacity", "50", "did you mean `50/s`, or `50% of capacity`?"),
        ("50% of capacity", "500", "did you mean `500/s`?"),
        ("vtax: 1", "vtax: 1\nrepeat: five", "such as `repeat: 5`, or `repeat: {min: 5, max: 20}`"),
    ] {
        let message = error(&plan_with(&[(old, new)]));
        assert!(message.contains(expected), "{new}: {message}");
    }
}

/// A search went above such a `max`, or panicked.
#[test]
fn a_search_below_all_rates_that_are_tried_is_refused() {
    let capacity = "- capacity: {start: 0.1/s, max: 0.4/s}\n";
    let message = error(&plan_with(&[("- capacity\n", capacity)]));
    assert!(message.contains("no rate up to 0.4/s: none below 0.5/s is tried"), "{message}");
    assert!(message.contains("set `max` to 0.5/s or more"), "{message}");
}

#[test]
fn trials_are_ordered_and_paired_as_the_plan_says() {
    let plan = ok(&plan_with(&[]));
    assert_eq!((plan.repeat.order, plan.repeat.trials), (TrialOrder::Blocks, TrialKind::Single));
    let both = ["repeat={order: abba, trials: duet}", "measure=[throughput, capacity]"];
    let plan = parse("p", plan_with(&[]).as_bytes(), &both).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((plan.repeat.order, plan.repeat.trials), (TrialOrder::Abba, TrialKind::Duet));
    let duets: Vec<bool> = plan.measures.iter().map(|m| plan.is_duet(m)).collect();
    assert_eq!(duets, [true, false], "a search is made alone");
    let wrong = errors_with(plan_with(&[]).as_bytes(), &["repeat={trials: duett}", "measure=capacity"]);
    assert!(wrong[0].contains("did you mean `duet`?"), "{wrong:?}");
    let wrong = errors_with(plan_with(&[]).as_bytes(), &["repeat={trials: duet}", "measure=capacity"]);
    assert!(wrong[0].contains("no measure of this plan can be made as a duet"), "{wrong:?}");
}

#[test]
fn a_baseline_is_one_cell() {
    let text = plan_with(&[
        ("[native, vm]", "[native, {vm: {memory: [1GiB, 2GiB]}}]"),
        ("baseline: native", "baseline: vm"),
    ]);
    assert!(error(&text).contains("is 2 cells of different options"));
}

#[test]
fn too_many_cells_are_refused_before_they_are_made() {
    let list: Vec<String> = (0..200).map(|i| format!("/bytes/{i}")).collect();
    let counts: Vec<String> = (1..=100).map(|i| i.to_string()).collect();
    let http = format!("[{}], connections: [{}]", list.join(", "), counts.join(", "));
    assert!(error(&plan_with(&[("/bytes/100", &http)])).contains("more than 10000 cells"));
}

#[test]
fn a_list_makes_cells_and_labels() {
    let plan = ok(&plan_with(&[
        ("/bytes/100", "[/bytes/100, /bytes/10000], connections: [8, 64]"),
        ("[native, vm]", "[native, {vm: {vcpus: [1, 2]}}]"),
    ]));
    assert_eq!(plan.cells.len(), 2 * 2 * 3);
    let cell = &plan.cells[1];
    assert_eq!(cell.id, "vm.bridge.http.vcpus-1.target-bytes-100.connections-8");
    assert_eq!(cell.baseline.as_deref(), Some("native.bridge.http.target-bytes-100.connections-8"));
    assert_eq!(cell.parameters.len(), 3);
}

/// A path has a `rate`, and users of desktops have one: neither hides the other.
#[test]
fn options_of_the_same_name_have_names_of_their_own() {
    let text = "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: tigervnc\n\
                paths:\n  - gigabit: {rate: [100mbit, 1gbit]}\n  - gigabit: {name: one, rate: 1gbit}\n\
                workload: {desktop: {rate: [2/s, 4/s]}}\nmeasure: [{latency: {load: 8/s}}]\n";
    let plan = ok(text);
    let told: Vec<String> = plan
        .cells
        .iter()
        .map(|cell| cell.parameters.iter().map(|(key, value)| format!("{key}={value} ")).collect())
        .collect();
    let expected = [
        "path.rate=100mbit rate=2/s ",
        "path.rate=100mbit rate=4/s ",
        "path.rate=1gbit rate=2/s ",
        "path.rate=1gbit rate=4/s ",
        "rate=2/s ",
        "rate=4/s ",
    ];
    assert_eq!(told, expected);
    assert_eq!(plan.cells[0].id, "native.gigabit.tigervnc.rate-100mbit.rate-2-s");
    // Alone it has its plain name.
    let alone = ok(&text.replace("[2/s, 4/s]", "2/s"));
    assert_eq!(alone.cells[0].parameters["rate"], "100mbit");
}

#[test]
fn ids_stay_apart_where_values_look_alike() {
    let command = ("services: http", "services: {command: {name: http, run: [a], port: 1}}");
    let plan = ok(&plan_with(&[command, ("/bytes/100", "[/a/b, /a-b, /]")]));
    let native: Vec<_> = ids(&plan).into_iter().filter(|id| id.starts_with("native")).collect();
    assert_eq!(
        native,
        [
            "native.bridge.http.target-a-b",
            "native.bridge.http.target-a-b-2",
            "native.bridge.http.target-root"
        ]
    );
}

#[test]
fn a_baseline_path_compares_across_paths() {
    let plan = ok(&plan_with(&[(
        "baseline: native",
        "baseline: {environment: native, path: direct}\npaths: [direct, gigabit]",
    )]));
    let baselines: Vec<_> = plan.cells.iter().map(|c| (c.id.as_str(), c.baseline.as_deref())).collect();
    assert_eq!(
        baselines,
        [
            ("native.direct.http", None),
            ("vm.direct.http", Some("native.direct.http")),
            ("native.gigabit.http", Some("native.direct.http")),
            ("vm.gigabit.http", Some("native.direct.http")),
        ]
    );
    assert_eq!(plan.cells[2].path.kind, PathKind::Bridge);
    assert_eq!(plan.cells[2].path.rate, Some(BitRate(1_000_000_000)));
}

#[test]
fn defaults_are_filled_in() {
    let plan = ok(&plan_with(&[]));
    assert_eq!((plan.repeat.min, plan.repeat.max, plan.repeat.budget), (3, 10, None));
    assert_eq!((plan.margin, plan.seed), (Share(0.05), 1));
    assert_eq!(plan.budget.sut_memory, Bytes::from_mib(512));
    let Workload::Http(http) = &plan.cells[0].workload else { panic!("not HTTP") };
    assert_eq!((http.connections, http.timeout), (64, Nanos::from_secs(2)));
    let MeasureKind::Latency(latency) = &plan.measures[1].kind else { panic!("not latency") };
    assert_eq!(latency.load, Load::OwnCapacity(Share(0.5)));
}

#[test]
fn aliases_work_and_cannot_explode() {
    let text = plan_with(&[("name: t", "name: &n t")]);
    let plan = ok(&text.replace("services: http", "services: {http: {name: *n}}"));
    assert_eq!(plan.cells[0].service.name, "t");

    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        let item = format!("*a{}", i - 1);
        bomb.push_str(&format!("a{i}: &a{i} [{}]\n", vec![item; 10].join(", ")));
    }
    assert!(error(&bomb).contains("more than 100000 values, aliases expanded"));
    assert!(errors("a: &a [*a]\n").iter().any(|e| e.contains("refers to the value that contains it")));
    assert!(errors("a: *b\n").iter().any(|e| e.contains("`*b` has no anchor `&b` before it")));
}

#[test]
fn depth_and_size_are_bounded() {
    for deep in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(50_000), "? ".repeat(100_000)] {
        assert!(error(&deep).contains("this is not YAML"), "{}", &deep[..8]);
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plan.yaml");
    std::fs::write(&file, vec![b'#'; (1 << 20) + 1]).unwrap();
    let result = load(&file, NONE);
    assert!(matches!(result, Err(PlanErrors::TooLarge { .. })));
    assert!(
        load(Path::new("/nonexistent/plan.yaml"), NONE).unwrap_err().to_text(false).contains("No such file")
    );
}

#[test]
fn hundreds_of_errors_are_counted_not_kept() {
    let keys: String = (0..500).map(|i| format!("k{i}: x\n")).collect();
    let plan = format!("vtax: 1\n{keys}");
    let Err(PlanErrors::Invalid(found)) = parse("p", plan.as_bytes(), NONE) else { panic!("no errors") };
    assert_eq!(found.iter().count(), 50);
    assert!(found.count() >= 500);
    assert!(found.to_text(false).ends_with("of them not shown\n"));
}

#[test]
fn snippets_cannot_touch_the_terminal() {
    let text = "vtax: 1\n\"na\\u001b[31mme\": 1\n";
    let Err(errors) = parse("p\x1b]0;x", text.as_bytes(), NONE) else { panic!("no errors") };
    assert!(!errors.to_text(false).contains('\x1b'));
}

#[test]
fn overrides_change_the_tree() {
    let text = plan_with(&[]);
    let set = |overrides: &[&str]| {
        parse("plan.yaml", text.as_bytes(), overrides).unwrap_or_else(|e| panic!("{}", e.to_text(false)))
    };
    let plan = set(&["repeat.min=10", "margin=2%", "seed=7", "environments.1.vm.memory=1GiB"]);
    assert_eq!((plan.repeat.min, plan.margin, plan.seed), (10, Share(0.02), 7));
    let EnvironmentKind::Vm(vm) = &plan.cells[1].environment.kind else { panic!("not a vm") };
    assert_eq!(vm.memory, Bytes::from_mib(1024));

    let plan = set(&["environments.vm.vcpus=2", "environments.vm.name=big", "environments.big.memory=2GiB"]);
    let EnvironmentKind::Vm(vm) = &plan.cells[1].environment.kind else { panic!("not a vm") };
    assert_eq!((vm.vcpus, vm.memory), (Some(2), Bytes::from_mib(2048)));

    let plan = set(&["workload.http.target=[/bytes/100, /bytes/10000]", "services.http.port=81"]);
    assert_eq!(plan.cells.len(), 4);
    let plan = set(&["measure.capacity.step=300ms", "measure.1.latency.duration=3s"]);
    let MeasureKind::Capacity(capacity) = &plan.measures[0].kind else { panic!("not capacity") };
    assert_eq!(capacity.step, Nanos::from_millis(300));
}

/// Items that are no `kind: {options}` are found by their `name`.
#[test]
fn overrides_find_items_by_name() {
    let file = repository().join("plans/neighbour-disk.yaml");
    let load_of = |systems: usize, set: &str| {
        let plan = load(&file, &[set]).unwrap_or_else(|e| panic!("{}", e.to_text(false)));
        let systems = ["quiet", "disk"][systems];
        let cell = plan.cells.iter().find(|cell| cell.systems.name == systems).unwrap();
        cell.systems.beside[0].load
    };
    assert_eq!(load_of(1, "systems.disk.beside.load=20/s"), BesideLoad::Rate(Rate(20.0)));
    assert_eq!(load_of(0, "systems.disk.beside.load=20/s"), BesideLoad::Idle);
    assert_eq!(load_of(1, "systems.1.beside.load=20/s"), BesideLoad::Rate(Rate(20.0)));
    let refused = |set: &str| load(&file, &[set]).expect_err("refused").to_text(false);
    let unknown = refused("systems.dist.beside.load=20/s");
    assert!(unknown.contains("no item of this list is `dist`"), "{unknown}");
    assert!(unknown.contains("did you mean `disk`?") && unknown.contains("`quiet` and `disk`"), "{unknown}");
    // Steps have neither a kind nor a name.
    let steps = "workload={http: {requests: [{target: /bytes/1, weight: 1}, {target: /bytes/2, weight: 2}]}}";
    let text = plan_with(&[]);
    let nameless = errors_with(text.as_bytes(), &[steps, "workload.http.requests.target.weight=3"]);
    assert!(nameless[0].contains("its items have no names: pick one by its place"), "{nameless:?}");
}

#[test]
fn errors_in_overrides_name_the_override() {
    let text = plan_with(&[]);
    for (set, expected) in [
        ("repeat.mni=10", "--set:1:8 unknown key in `repeat`: `mni` [did you mean `min`?"),
        ("repat.min=10", "--set:1:1 unknown key in the plan: `repat` [did you mean `repeat`?"),
        ("repeat.min=many", "--set:1:12 `many` is not a whole number"),
        ("repeat", "--set:1:1 an override is written `path=value`"),
        ("a..b=1", "--set:1:1 `a..b` is not a path"),
        ("environments.7=vm", "--set:1:14 there is no item 7: they are numbered 0 to 1"),
        ("environments.vn.memory=1GiB", "--set:1:14 no item of this list is `vn` [did you mean `vm`?"),
        ("name.x=1", "--set:1:6 there is no `x` here, for the plan says only `t`"),
        ("workload.http.target=[a", "--set:1:22 this is not YAML"),
    ] {
        let found = errors_with(text.as_bytes(), &[set]);
        assert!(found[0].starts_with(expected), "{set}: {found:#?}");
    }
}

#[test]
fn services_are_compared_with_the_one_that_the_baseline_names() {
    let services = "services=[http, command: {name: v2, run: [serve], port: 1}]";
    let compared = |baseline: &str| -> Vec<(String, Option<String>)> {
        let set = [&format!("baseline={baseline}")[..], services];
        let plan = parse("p", plan_with(&[]).as_bytes(), &set).unwrap_or_else(|e| panic!("{e}"));
        plan.cells.into_iter().map(|c| (c.id, c.baseline)).collect()
    };
    let id = |text: &str| text.to_owned();
    let apart = compared("native");
    assert!(apart.contains(&(id("native.bridge.v2"), None)), "{apart:?}");
    let together = compared("{environment: native, service: http}");
    assert_eq!(together.iter().filter(|(_, baseline)| baseline.is_none()).count(), 1, "{together:?}");
    assert!(together.iter().all(|(_, b)| b.as_deref().is_none_or(|b| b == "native.bridge.http")));
    let wrong =
        errors_with(plan_with(&[]).as_bytes(), &["baseline={environment: native, service: v1}", services]);
    assert!(wrong[0].contains("the baseline `v1` is no service of this plan"), "{wrong:?}");
    assert!(wrong[0].contains("services: `http` and `v2`"), "{wrong:?}");
}
