//! Values that two runs don't have in common, in words.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use vtax_units::shortened;

/// What the two sides of a difference are called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) a: &'a str,
    pub(super) b: &'a str,
}

impl Sides<'static> {
    /// Two runs, of which everyone knows which is which.
    pub(super) const LETTERS: Self = Self { a: "A", b: "B" };
}

impl Sides<'_> {
    /// `2 in A, 7 in B`.
    pub(super) fn values(self, a: &str, b: &str) -> String {
        format!("{a} in {}, {b} in {}", self.a, self.b)
    }

    /// Facts of which the sides have other values: what each is called, and what it is on either side.
    pub(super) fn differing(self, facts: impl Iterator<Item = (String, String, String)>) -> Vec<String> {
        let different = facts.filter(|(_, x, y)| x != y);
        different.map(|(name, x, y)| format!("{name} is {}", self.values(&x, &y))).collect()
    }

    /// The same of facts by name; what a side lacks is `none`.
    pub(super) fn differing_maps(
        self,
        a: &BTreeMap<String, String>,
        b: &BTreeMap<String, String>,
    ) -> Vec<String> {
        let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        let of = |map: &BTreeMap<String, String>, name: &String| {
            map.get(name).map_or("none", String::as_str).to_owned()
        };
        self.differing(names.into_iter().map(|n| (n.clone(), of(a, n), of(b, n))))
    }
}

/// A path in a plan with its values on both sides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Difference {
    pub(super) path: String,
    pub(super) a: String,
    pub(super) b: String,
}

impl Difference {
    pub(super) fn text(&self, sides: Sides<'_>) -> String {
        format!("{} is {}", self.path, sides.values(&self.a, &self.b))
    }
}

/// Plans are made of strings, finite numbers and maps with string keys: this can't fail.
pub(super) fn value(part: &impl serde::Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

/// Adds to `found` what differs at `path` and below it.
pub(super) fn differences(a: &Value, b: &Value, path: &str, found: &mut Vec<Difference>) {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let keys: BTreeSet<&String> = x.keys().chain(y.keys()).collect();
            for key in keys {
                let of = |o: &Map<String, Value>| o.get(key).cloned().unwrap_or(Value::Null);
                differences(&of(x), &of(y), &format!("{path}.{key}"), found);
            }
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            for (i, (x, y)) in x.iter().zip(y).enumerate() {
                differences(x, y, &format!("{path}[{i}]"), found);
            }
        }
        _ if a == b => {}
        _ => found.push(Difference { path: path.to_owned(), a: short(a), b: short(b) }),
    }
}

fn short(value: &Value) -> String {
    const WIDTH: usize = 60;
    let text = match value {
        Value::Null => "not given".to_owned(),
        other => other.to_string(),
    };
    shortened(&text, WIDTH)
}
