//! Whatever a plan says, reading it ends in a sound plan or in errors with real places.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use rustix::time::{ClockId, clock_gettime};
use vtax_plan::model::Plan;
use vtax_plan::{PlanErrors, parse};

const PLANS: [&str; 4] = [
    include_str!("../../../plans/quick.yaml"),
    include_str!("../../../plans/web.yaml"),
    include_str!("../../../plans/custom.yaml"),
    include_str!("../../../plans/nas-cards.yaml"),
];

/// Reads a plan and checks what must hold of any answer.
fn check(bytes: &[u8], overrides: &[String]) -> Result<(), TestCaseError> {
    match parse("plan.yaml", bytes, overrides) {
        Ok(plan) => sound(&plan),
        Err(PlanErrors::Invalid(diagnostics)) => {
            prop_assert!(diagnostics.iter().count() > 0);
            let file = String::from_utf8_lossy(bytes);
            for error in diagnostics.iter() {
                let in_file = error.file == "plan.yaml";
                let mut texts: Vec<&str> = if in_file { vec![&file] } else { Vec::new() };
                texts.extend(overrides.iter().map(String::as_str).filter(|_| !in_file));
                let fits = |text: &&&str| {
                    let line = text.split('\n').nth(error.line - 1);
                    line.is_some_and(|line| error.column <= line.chars().count() + 1)
                };
                prop_assert!(error.line > 0 && error.column > 0 && !error.message.is_empty());
                prop_assert!(texts.iter().any(|t| fits(&t)), "{error:?} is not a place in\n{texts:?}");
            }
            let text = diagnostics.to_text(true);
            prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\x1b'));
            Ok(())
        }
        Err(other) => Err(TestCaseError::fail(other.to_string())),
    }
}

/// What the rest of the program relies on.
fn sound(plan: &Plan) -> Result<(), TestCaseError> {
    let ids: HashSet<&str> = plan.cells.iter().map(|c| c.id.as_str()).collect();
    prop_assert!(!ids.is_empty() && ids.len() == plan.cells.len(), "ids are not unique");
    for cell in &plan.cells {
        let safe = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        prop_assert!(cell.id.chars().all(safe), "{} is not safe in a file name", cell.id);
        if let Some(baseline) = &cell.baseline {
            let baseline = plan.cells.iter().find(|c| c.id == *baseline);
            prop_assert!(baseline.is_some_and(|b| b.baseline.is_none()), "{} has no baseline", cell.id);
        }
    }
    let names: HashSet<&str> = plan.measures.iter().map(|m| m.name.as_str()).collect();
    prop_assert!(!names.is_empty() && names.len() == plan.measures.len(), "measure names are not unique");
    prop_assert!(plan.repeat.min > 0 && plan.repeat.max >= plan.repeat.min);
    let json = serde_json::to_string(plan).unwrap();
    prop_assert_eq!(&serde_json::from_str::<Plan>(&json).unwrap(), plan);
    Ok(())
}

/// Values that are right somewhere and wrong elsewhere, between bars.
const SCALARS: &str = "|~|0|1|2|64|-1|70000|1.5|5%|0%|150%|2s|50ms|0s|1h|1GiB|64MiB|1gbit|1000/s|native|vm|\
    bridge|http|nginx|poisson|true|/bytes/100|/x y|port|50% of capacity|50% of lowest capacity|\"quoted\"|*anchor|\
    &anchor x|!tag x";

/// Keys of all mappings, and one of none.
const KEYS: &str = "name|memory|vcpus|rate|mtu|port|workers|run|ready|env|files|target|connections|timeout|start|\
    max|min|precision|step|limits|p99|errors|load|duration|until|budget|environment|path|vm|http|command|capacity|\
    latency|x";

fn value() -> impl Strategy<Value = String> {
    let scalars = select(SCALARS.split('|').collect::<Vec<_>>());
    let leaf = scalars.prop_map(str::to_owned);
    leaf.prop_recursive(3, 12, 4, |inner| {
        let keys = select(KEYS.split('|').collect::<Vec<_>>());
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            vec((keys, inner), 0..4).prop_map(|entries| {
                let entries: Vec<String> = entries.iter().map(|(k, v)| format!("{k}: {v}")).collect();
                format!("{{{}}}", entries.join(", "))
            }),
        ]
    })
}

/// Keys with values that make a plan together.
const GOOD: [(&str, &str); 11] = [
    ("vtax", "1"),
    ("name", "generated"),
    ("baseline", "native"),
    ("environments", "[native, container, {vm: {memory: [512MiB, 1GiB], vcpus: 1}}]"),
    ("paths", "[direct, {bridge: {rate: [1gbit, 100mbit]}}]"),
    ("services", "[http, {nginx: {workers: [1, 2]}}]"),
    ("workload", "{http: {target: [/bytes/100, /bytes/10000], connections: [1, 64]}}"),
    ("measure", "[capacity, {latency: {load: [20% of capacity, 80% of capacity]}}, throughput]"),
    ("repeat", "{min: 2, max: 9, budget: 10m}"),
    ("budget", "{sut_cpus: 1, sut_memory: 512MiB}"),
    ("margin", "5%"),
];

/// A plan whose keys are good, bad or missing, each independently.
fn plan() -> impl Strategy<Value = String> {
    let entry = |(key, good): (&'static str, &'static str)| {
        prop_oneof![
            12 => Just(format!("{key}: {good}\n")),
            2 => value().prop_map(move |v| format!("{key}: {v}\n")),
            1 => Just(String::new()),
        ]
    };
    GOOD.map(entry).to_vec().prop_map(|lines| lines.concat())
}

#[test]
fn the_good_values_make_a_plan() {
    let text: String = GOOD.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
    let plan = parse("p", text.as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(plan.cells.len(), 4 * 3 * 3 * 4);
    sound(&plan).unwrap();
}

fn overrides() -> impl Strategy<Value = Vec<String>> {
    let path = select(vec![
        "repeat.min",
        "environments",
        "environments.vm.memory",
        "environments.vm.nic",
        "environments.2.vm.name",
        "workload.http.target",
        "measure.0",
        "measure.latency",
        "services.http",
        "x.y.z",
        "name",
        "budget",
    ]);
    let known = (path, value()).prop_map(|(path, value)| format!("{path}={value}"));
    vec(prop_oneof![4 => known, 1 => any::<String>()], 0..4)
}

/// A plan of the repository with some bytes replaced.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let cut = (any::<prop::sample::Index>(), 0usize..12, vec(any::<u8>(), 0..6));
    (select(PLANS.to_vec()), vec(cut, 1..5)).prop_map(|(plan, cuts)| {
        let mut bytes = plan.as_bytes().to_vec();
        for (at, length, new) in cuts {
            let start = at.index(bytes.len());
            let end = (start + length).min(bytes.len());
            bytes.splice(start..end, new);
            if bytes.is_empty() {
                bytes.push(b' ');
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn generated_plans(text in plan(), overrides in overrides()) {
        check(text.as_bytes(), &overrides)?;
    }

    #[test]
    fn damaged_plans(bytes in damaged()) {
        check(&bytes, &[])?;
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..300)) {
        check(&bytes, &[])?;
    }

    #[test]
    fn any_yaml_like_text(text in "([-a-c:{}\\[\\],&*!|>'\"#? \t\n]|: |- ){0,120}") {
        check(text.as_bytes(), &[])?;
    }
}

/// Seconds that this thread has computed: what else runs on the machine is none of it.
fn computed() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The largest plans a bounded reader lets through must not take long either.
#[test]
fn large_plans_are_read_in_bounded_time() {
    let before = computed();
    let keys: String = (0..100_000).map(|i| format!("k{i}: 1\n")).collect();
    let items = vec!["vm"; 200_000].join(", ");
    let numbers: Vec<String> = (1..9_000).map(|i| i.to_string()).collect();
    let symbols: Vec<String> = (0..9_000).map(|i| format!("/{}%{}", "-".repeat(60), i)).collect();
    let small =
        "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: http\nmeasure: capacity\n";
    for text in [
        format!("vtax: 1\n{keys}"),
        format!("vtax: 1\nenvironments: [{items}]\n"),
        format!("{small}workload: {{http: {{target: /, connections: [{}]}}}}\n", numbers.join(",")),
        format!("{small}workload: {{http: {{target: [{}]}}}}\n", symbols.join(",")),
        format!("{small}workload: {{http: {{target: [{}]}}}}\n", vec!["/"; 9_000].join(",")),
    ] {
        let text = &text[..text.len().min(1 << 20)];
        let _ = parse("p", text.as_bytes(), &[] as &[&str]);
    }
    let took = computed() - before;
    assert!(took > 0.0 && took < 30.0, "{took} s");
}
