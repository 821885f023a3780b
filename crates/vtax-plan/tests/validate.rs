//! Values against a JSON Schema. The tests of other crates have this file too.

use serde_json::Value;

/// Validates against the keywords that vtax's schemas use; any other keyword fails the test.
pub(crate) fn validate(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
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
            "enum" => wanted
                .as_array()
                .unwrap()
                .contains(value)
                .then_some(())
                .ok_or(format!("{value} is none of {wanted}")),
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
        "null" => value.is_null(),
        other => panic!("the test knows no type `{other}`"),
    }
}
