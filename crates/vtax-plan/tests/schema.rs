//! The JSON Schema: as checked in, and true to the plans of the repository.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::validate::validate;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Set `VTAX_BLESS=1` to write the file after a change that was meant.
#[test]
fn the_schema_is_as_checked_in() {
    let path = repository().join("schema/plan.schema.json");
    let now = format!("{}\n", serde_json::to_string_pretty(&vtax_plan::schema()).unwrap());
    if std::env::var_os("VTAX_BLESS").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap();
    // Compared as values: the order of keys depends on other crates' features.
    let checked_in: Value = serde_json::from_str(&checked_in).unwrap();
    assert!(
        checked_in == vtax_plan::schema(),
        "schema/plan.schema.json is out of date: run this test with VTAX_BLESS=1"
    );
}

#[test]
fn every_plan_of_the_repository_validates() {
    let schema = vtax_plan::schema();
    for entry in std::fs::read_dir(repository().join("plans")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "yaml") {
            continue;
        }
        let plan: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        if let Err(error) = validate(&schema, &schema, &plan) {
            panic!("{}: {error}", path.display());
        }
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let schema = vtax_plan::schema();
    let good = json!({
        "vtax": 1, "name": "t", "baseline": "native", "environments": ["native", {"vm": {"memory": ["1GiB", "2GiB"]}}],
        "services": "http", "workload": {"http": {"target": "/"}}, "measure": ["capacity"], "repeat": 5
    });
    validate(&schema, &schema, &good).unwrap();
    for (pointer, bad) in [
        ("/environments/0", json!("nativ")),
        ("/environments/1", json!({"vm": {"memry": "1GiB"}})),
        ("/services", json!("command")),
        ("/services", json!({"http": {"port": "x"}})),
        ("/repeat", json!({"mn": 3})),
        ("/measure", json!([])),
        ("/workload", json!({"http": {"targets": "/"}})),
        ("/workload", json!({"http": {"requests": {"steps": [{"method": "GET"}]}}})),
    ] {
        let mut plan = good.clone();
        *plan.pointer_mut(pointer).unwrap() = bad.clone();
        assert!(validate(&schema, &schema, &plan).is_err(), "{pointer} = {bad} passes");
    }
}

/// The cut of a network test is a time; that of a fault is what is cut.
#[test]
fn each_kind_of_cut_has_a_schema_of_its_own() {
    let schema = vtax_plan::schema();
    let plan = |measure: Value| {
        json!({
            "vtax": 1, "name": "t", "baseline": "native", "environments": "native", "services": "peer",
            "workload": {"tcp": {}}, "measure": [measure]
        })
    };
    let network = |cut: Value| plan(json!({"network": {"cut": cut}}));
    let failover = |cut: Value| plan(json!({"failover": {"faults": [{"at": "2s", "cut": cut}]}}));
    for good in [
        network(json!({"at": "2s"})),
        network(json!({"at": "2s", "lasting": "1s"})),
        network(json!("2s")),
        failover(json!("path")),
    ] {
        validate(&schema, &schema, &good).unwrap_or_else(|error| panic!("{good}: {error}"));
    }
    for bad in [network(json!({"lasting": "1s"})), failover(json!("2s")), failover(json!({"at": "2s"}))] {
        assert!(validate(&schema, &schema, &bad).is_err(), "{bad} passes");
    }
}

/// Of two types that want the same name the second gets a number.
#[test]
fn no_two_types_share_a_name() {
    let schema = vtax_plan::schema();
    let definitions = schema["$defs"].as_object().unwrap();
    assert!(definitions.len() > 100, "{}", definitions.len());
    for name in definitions.keys() {
        let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
        assert!(base == name || !definitions.contains_key(base), "two types are called `{base}`");
    }
}

#[test]
fn every_key_is_described() {
    fn walk(at: &str, schema: &Value) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].is_string(), "{at}.{name} has no description");
        }
        for (name, inner) in schema.as_object().into_iter().flatten() {
            walk(&format!("{at}/{name}"), inner);
        }
    }
    walk("#", &vtax_plan::schema());
}
