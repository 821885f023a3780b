//! The pages that show plans: their examples are plans, and the reference has every key.

use std::path::Path;

use vtax_plan::parse;

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

/// docs/plan.md and the pages that families have of their own, named like them: docs/redis.md.
fn reference() -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let families = vtax_plan::schema().to_string();
    let mut pages = page("docs/plan.md");
    // Routed topologies are a kind of path with a page of its own.
    pages.push_str(&page("docs/labs.md"));
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
        if families.contains(&format!("`{name}` workload")) {
            pages.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
    pages
}

/// The YAML examples of a page.
fn examples(page: &str) -> Vec<&str> {
    page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// Top-level keys for examples that show a part only.
const REST: [(&str, &str); 7] = [
    ("vtax", "1"),
    ("name", "t"),
    ("baseline", "native"),
    ("environments", "[native, vm]"),
    ("services", "http"),
    ("workload", "{http: {target: /page/1}}"),
    ("measure", "[capacity, latency]"),
];

#[test]
fn every_example_is_a_plan_or_part_of_one() {
    let (reference, readme) = (page("docs/plan.md"), page("README.md"));
    let (labs, hosts) = (page("docs/labs.md"), page("docs/many-machines.md"));
    assert!(examples(&reference).len() >= 8 && examples(&hosts).len() >= 2);
    // Its commands run the first one as it stands.
    parse("roles", examples(&hosts)[0].as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"));
    for example in [&reference, &readme, &labs, &hosts].into_iter().flat_map(|page| examples(page)) {
        let mut text = match example.strip_prefix("ready: ") {
            Some(ready) => format!("services: {{command: {{run: [a], port: 1, ready: {}}}}}\n", ready.trim()),
            None => example.to_owned(),
        };
        for (key, value) in REST {
            if !text.lines().any(|line| line.starts_with(&format!("{key}:"))) {
                text.push_str(&format!("{key}: {value}\n"));
            }
        }
        if text.contains("path: direct") && !text.lines().any(|l| l.starts_with("paths:")) {
            text.push_str("paths: [direct, bridge]\n");
        }
        parse("example", text.as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{text}\n{e}"));
    }
}

#[test]
fn every_key_and_default_is_in_the_reference() {
    fn walk(schema: &serde_json::Value, page: &str) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let row = page.lines().any(|l| {
                l.starts_with('|') && (l.contains(&format!("`{name}`")) || l.contains(&format!(".{name}`")))
            });
            let kind = page.contains(&format!("`{name}`: HTTP/1.1"));
            let shorthand =
                ["log", "environment", "path", "limits", "exponential", "constant"].contains(&name.as_str());
            assert!(row || kind || shorthand, "docs has no row for `{name}`");
            if let Some(default) = property.get("default") {
                let default = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
                assert!(page.contains(&format!("`{default}`")), "docs lacks `{name}`'s default {default}");
            }
        }
        for inner in schema.as_object().into_iter().flatten().map(|(_, v)| v) {
            walk(inner, page);
        }
        for inner in schema.as_array().into_iter().flatten() {
            walk(inner, page);
        }
    }
    walk(&vtax_plan::schema(), &reference());
}
