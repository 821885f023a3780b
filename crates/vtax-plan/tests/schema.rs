//! The JSON Schema: as checked in, and true to the plans of the repository.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

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
        ("/workload", json!({"http": {}})),
    ] {
        let mut plan = good.clone();
        *plan.pointer_mut(pointer).unwrap() = bad.clone();
        assert!(validate(&schema, &schema, &plan).is_err(), "{pointer} = {bad} passes");
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

/// Validates against the keywords the schema uses; any other keyword fails the test.
fn validate(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    for (keyword, wanted) in schema.as_object().expect("a schema is an object") {
        let holds = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "default" | "examples" | "format" => Ok(()),
            "$ref" => {
                let pointer = wanted.as_str().unwrap().strip_prefix('#').expect("a local reference");
                validate(root, root.pointer(pointer).expect("a known reference"), value)
            }
            "type" => match wanted {
                Value::Array(types) => types.iter().any(|t| has_type(value, t)),
                one => has_type(value, one),
            }
            .then_some(())
            .ok_or(format!("{value} is not {wanted}")),
            "const" => (value == wanted).then_some(()).ok_or(format!("{value} is not {wanted}")),
            "minimum" => bound(value, wanted, "below", |v, least| v >= least),
            "maximum" => bound(value, wanted, "above", |v, most| v <= most),
            "exclusiveMaximum" => bound(value, wanted, "not below", |v, limit| v < limit),
            "minItems" => value
                .as_array()
                .is_none_or(|v| v.len() as u64 >= wanted.as_u64().unwrap())
                .then_some(())
                .ok_or(format!("{value} has too few items")),
            "items" => value.as_array().into_iter().flatten().try_for_each(|v| validate(root, wanted, v)),
            "anyOf" => choices(root, wanted, value, |n| n >= 1),
            "oneOf" => choices(root, wanted, value, |n| n == 1),
            "properties" => wanted
                .as_object()
                .unwrap()
                .iter()
                .filter_map(|(name, schema)| value.get(name).map(|v| (schema, v)))
                .try_for_each(|(schema, v)| validate(root, schema, v)),
            "required" => wanted
                .as_array()
                .unwrap()
                .iter()
                .all(|name| !value.is_object() || value.get(name.as_str().unwrap()).is_some())
                .then_some(())
                .ok_or(format!("{value} lacks one of {wanted}")),
            "additionalProperties" => value
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, _)| schema["properties"].get(name.as_str()).is_none())
                .try_for_each(|(name, v)| match wanted {
                    Value::Bool(false) => Err(format!("`{name}` is not allowed")),
                    wanted => validate(root, wanted, v),
                }),
            other => panic!("the test knows no keyword `{other}`"),
        };
        holds?;
    }
    Ok(())
}

/// A value that is no number has no bounds.
fn bound(value: &Value, wanted: &Value, how: &str, holds: impl Fn(f64, f64) -> bool) -> Result<(), String> {
    let limit = wanted.as_f64().unwrap();
    value.as_f64().is_none_or(|v| holds(v, limit)).then_some(()).ok_or(format!("{value} is {how} {wanted}"))
}

fn choices(
    root: &Value,
    schemas: &Value,
    value: &Value,
    enough: impl Fn(usize) -> bool,
) -> Result<(), String> {
    let results: Vec<_> =
        schemas.as_array().unwrap().iter().map(|schema| validate(root, schema, value)).collect();
    match enough(results.iter().filter(|r| r.is_ok()).count()) {
        true => Ok(()),
        false => Err(format!("{value} fits {results:?}")),
    }
}

fn has_type(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        other => panic!("the test knows no type `{other}`"),
    }
}
