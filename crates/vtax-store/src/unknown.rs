//! What a journal holds that this vtax doesn't know, because a newer one wrote it.
//!
//! Such a journal is read as far as it is understood. What was left out is told in notes, which a report shows.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::record::JournalEntry;

/// Most kinds of unknown things that are told of one journal: a reader needs the gist.
const MOST: usize = 20;

/// Tells each kind of unknown thing once.
#[derive(Debug, Default)]
pub(crate) struct Unknown {
    told: BTreeSet<String>,
}

impl Unknown {
    /// The note in place of an entry that is not known at all; `None` where it was told before.
    pub(crate) fn event(&mut self, event: &str) -> Option<JournalEntry> {
        self.note(format!("entries of the kind `{event}`"))
    }

    /// Notes about those parts of an entry that got lost between `written` and `understood`.
    pub(crate) fn parts(&mut self, written: &Value, understood: &Value) -> Vec<JournalEntry> {
        let mut found = Vec::new();
        lost(written, understood, "", &mut found);
        found.into_iter().filter_map(|what| self.note(what)).collect()
    }

    fn note(&mut self, what: String) -> Option<JournalEntry> {
        if self.told.len() >= MOST || !self.told.insert(what.clone()) {
            return None;
        }
        let text = format!("A newer vtax wrote this run. This one does not know {what} and left that out.");
        Some(JournalEntry::Note { at_unix_ms: 0, cell: None, text, forecast_of: None })
    }
}

/// The parts of `written` that are not in `understood`, in words.
fn lost(written: &Value, understood: &Value, path: &str, found: &mut Vec<String>) {
    match (written, understood) {
        (Value::Object(written), Value::Object(understood)) => {
            // What an unknown kind holds is unknown with it.
            if understood.get("kind").and_then(Value::as_str) == Some("unknown") {
                let kind = written.get("kind").and_then(Value::as_str).unwrap_or_default();
                found.push(format!("`{path}` of the kind `{kind}`"));
                return;
            }
            for (name, value) in written {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match understood.get(name) {
                    Some(known) => lost(value, known, &path, found),
                    None if value.is_null() => {}
                    None => found.push(format!("the field `{path}`")),
                }
            }
        }
        (Value::Array(written), Value::Array(understood)) => {
            for (value, known) in written.iter().zip(understood) {
                lost(value, known, &format!("{path}[]"), found);
            }
        }
        (Value::String(written), Value::String(understood))
            if understood == "unknown" && written != understood =>
        {
            found.push(format!("the value `{written}` of `{path}`"));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_told_once() {
        let written = serde_json::json!({
            "event": "trial-ended", "new": 1, "empty": null, "facts": {"a": "b"},
            "validity": {"validity": "invalid", "reason": "meteorite"},
            "observations": [{"result": {"kind": "storage", "iops": 5}}, {"more": true}],
        });
        let understood = serde_json::json!({
            "event": "trial-ended", "facts": {"a": "b"},
            "validity": {"validity": "invalid", "reason": "unknown"},
            "observations": [{"result": {"kind": "unknown", "of": "storage"}}, {}],
        });
        let mut unknown = Unknown::default();
        let texts: Vec<String> = unknown
            .parts(&written, &understood)
            .into_iter()
            .map(|entry| match entry {
                JournalEntry::Note { text, .. } => text,
                other => panic!("{other:?}"),
            })
            .collect();
        let all = texts.join("\n");
        for part in [
            "the field `new`",
            "the value `meteorite` of `validity.reason`",
            "`observations[].result` of the kind `storage`",
            "the field `observations[].more`",
        ] {
            assert!(all.contains(part), "{part} is not in\n{all}");
        }
        assert_eq!(texts.len(), 4, "{all}");
        assert!(unknown.parts(&written, &understood).is_empty());
        assert!(unknown.event("x").is_some() && unknown.event("x").is_none());
    }
}
