//! Run directories of somebody who means harm: every text and number that can be another is.

use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;
use vtax_plan::model::Plan;
use vtax_store::Provenance;
use vtax_store::record::JournalEntry;

/// A text that sets `document.title` to `pwned` wherever a page takes it for anything but text.
pub const EVIL: &str = "</script></title></style></svg><script>document.title='pwned'</script>\
     \"'><img src=x onerror=\"document.title='pwned'\">\u{1b}[2J\u{202e}{{7*7}}=1+1";

/// Texts that say what belongs to what. Where they are others, the rest isn't shown at all.
const KEYS: [&str; 8] = ["cell", "measure", "event", "run_id", "id", "baseline", "version", "minor"];

/// Puts [`EVIL`] behind every text of a run's journal, provenance and plan that a reader takes with it; how many those are.
///
/// # Errors
///
/// Where a file can't be read or written.
pub fn texts(run: &Path) -> io::Result<usize> {
    change(run, &mut |value| match value {
        Value::String(text) => Some(format!("{text}{EVIL}").into()),
        _ => None,
    })
}

/// Replaces every number that a reader takes so by this one; how many those are.
///
/// # Errors
///
/// As of [`texts`].
pub fn numbers(run: &Path, number: &Value) -> io::Result<usize> {
    change(run, &mut |value| value.is_number().then(|| number.clone()))
}

/// Changes what `other` gives something else for, one value at a time, wherever the whole can still be read.
fn change(run: &Path, other: &mut dyn FnMut(&Value) -> Option<Value>) -> io::Result<usize> {
    let mut changed = 0;
    let path = run.join("journal.jsonl");
    let mut lines = String::new();
    for line in std::fs::read_to_string(&path)?.lines() {
        let mut value: Value = serde_json::from_str(line)?;
        changed += values::<JournalEntry>(&mut value, other);
        lines += &format!("{value}\n");
    }
    std::fs::write(&path, lines)?;
    let path = run.join("provenance.json");
    let mut value: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    changed += values::<Provenance>(&mut value, other);
    std::fs::write(&path, value.to_string())?;
    // JSON is YAML.
    let path = run.join("plan.yaml");
    let plan = vtax_store::RunDir::open(run).and_then(|run| run.plan()).map_err(io::Error::other)?;
    let mut value = serde_json::to_value(plan)?;
    changed += values::<Plan>(&mut value, other);
    std::fs::write(&path, value.to_string())?;
    Ok(changed)
}

fn values<T: DeserializeOwned>(whole: &mut Value, other: &mut dyn FnMut(&Value) -> Option<Value>) -> usize {
    let mut places = Vec::new();
    leaves(whole, &mut String::new(), &mut places);
    let mut changed = 0;
    for place in places {
        let Some(value) = whole.pointer_mut(&place) else { continue };
        let Some(new) = other(value) else { continue };
        let old = std::mem::replace(value, new);
        if T::deserialize(&*whole).is_ok() {
            changed += 1;
        } else if let Some(value) = whole.pointer_mut(&place) {
            *value = old;
        }
    }
    changed
}

/// JSON pointers (RFC 6901) to all that is neither an object nor an array.
fn leaves(value: &Value, place: &mut String, into: &mut Vec<String>) {
    let mut below = |key: &str, value: &Value| {
        let length = place.len();
        *place += &format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        leaves(value, place, into);
        place.truncate(length);
    };
    match value {
        Value::Object(map) => {
            map.iter().filter(|(key, _)| !KEYS.contains(&key.as_str())).for_each(|(key, v)| below(key, v));
        }
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| below(&i.to_string(), v)),
        _ => into.push(place.clone()),
    }
}
