//! The licences of what vtax is made of: allowed ones only, and all of them with their texts in the program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::place::root;
use crate::tasks::cargo_command;

/// Licences a dependency may have; each is compatible with Apache-2.0 OR MIT in a binary.
const LICENCES: &[&str] = &[
    "Apache-2.0",
    "MIT",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "0BSD",
    "Unlicense",
    "CC0-1.0",
    "MIT-0",
    "BSL-1.0",
    "LLVM-exception",
];

/// Refuses licences that aren't on the list, and a file in the program that isn't what it should be.
///
/// # Errors
///
/// With every package whose licence isn't on the list, or with the command that writes the file anew.
pub(crate) fn check() -> Result<()> {
    let metadata = metadata()?;
    let mut refused = Vec::new();
    for package in packages(&metadata)? {
        let licence = package["license"].as_str().unwrap_or("none");
        if !acceptable(licence) {
            refused.push(format!("{} {}: {licence}", package["name"], package["version"]));
        }
    }
    if !refused.is_empty() {
        bail!("licences that are not on the list:\n  {}", refused.join("\n  "));
    }
    let kept = std::fs::read_to_string(file()).unwrap_or_default();
    ensure!(kept == told(&metadata)?, "{} is out of date: cargo xtask licences", file().display());
    println!("licences: fine");
    Ok(())
}

/// Writes what `vtax licences` prints.
///
/// # Errors
///
/// Where cargo or the file system refuses.
pub(crate) fn write() -> Result<()> {
    std::fs::write(file(), told(&metadata()?)?).with_context(|| format!("writing {}", file().display()))
}

fn file() -> PathBuf {
    root().join("crates/vtax/licences.txt")
}

fn metadata() -> Result<Value> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let out = cargo_command()
        .args(["metadata", "--format-version", "1", "--filter-platform", &target])
        .current_dir(root())
        .output()
        .context("starting cargo metadata")?;
    ensure!(out.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&out.stderr));
    Ok(serde_json::from_slice(&out.stdout)?)
}

fn packages(metadata: &Value) -> Result<&Vec<Value>> {
    metadata["packages"].as_array().context("no packages in cargo metadata")
}

/// True where one alternative of an SPDX expression is made of known licences only.
fn acceptable(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    plain.split(" OR ").any(|alternative| {
        alternative
            .split(" AND ")
            .flat_map(|part| part.split(" WITH "))
            .all(|licence| LICENCES.contains(&licence.trim()))
    })
}

/// Ids of the packages that are linked into vtax: what it depends on, but neither for its tests nor for its build.
fn linked(metadata: &Value) -> Result<BTreeSet<&str>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("no graph in cargo metadata")?;
    let of: BTreeMap<&str, &Value> =
        nodes.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let vtax = packages(metadata)?.iter().find(|p| p["name"] == "vtax").context("there is no vtax")?;
    let mut open = vec![vtax["id"].as_str().context("vtax has no id")?];
    let mut linked = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !linked.insert(id) {
            continue;
        }
        let deps =
            of.get(id).and_then(|node| node["deps"].as_array()).context("a package isn't in the graph")?;
        let normal = deps.iter().filter(|dep| {
            dep["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        });
        open.extend(normal.filter_map(|dep| dep["pkg"].as_str()));
    }
    Ok(linked)
}

/// The file: a list of packages, then each text once, with the packages that have it.
fn told(metadata: &Value) -> Result<String> {
    let linked = linked(metadata)?;
    let mut list = BTreeSet::new();
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages(metadata)? {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        // Packages of this workspace have no source.
        if package["source"].is_null() || !linked.contains(text("id")) {
            continue;
        }
        let name = format!("{} {}", text("name"), text("version"));
        list.insert(format!("  {name}  {}", text("license")));
        let folder = Path::new(text("manifest_path")).parent().context("a package is nowhere")?;
        for licence in of_package(folder, text("license"))? {
            texts.entry(licence).or_default().insert(name.clone());
        }
    }
    let mut told = "vtax is licensed under Apache-2.0 or MIT, at your option. These packages are part of it, with their licences:\n\n"
        .to_owned();
    for line in list {
        told += &format!("{line}\n");
    }
    let mut texts: Vec<(String, String)> = texts
        .into_iter()
        .map(|(text, packages)| (packages.into_iter().collect::<Vec<_>>().join(", "), text))
        .collect();
    texts.sort();
    for (packages, text) in texts {
        told += &format!("\n==== {packages} ====\n\n{text}\n");
    }
    Ok(told)
}

/// The texts of a package's licence; where it may be MIT's, that one alone, as it is short.
fn of_package(folder: &Path, expression: &str) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let is_licence = |name: &str| {
        let name = name.to_ascii_uppercase();
        ["LICENSE", "LICENCE", "COPYING", "UNLICENSE", "NOTICE"].iter().any(|start| name.starts_with(start))
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file() && path.file_name().and_then(|n| n.to_str()).is_some_and(is_licence));
    files.sort();
    let choice = expression.replace('/', " OR ");
    if choice.split(" OR ").any(|licence| licence.trim() == "MIT") {
        let mit: Vec<PathBuf> = files
            .iter()
            .filter(|path| path.to_string_lossy().to_ascii_uppercase().ends_with("MIT"))
            .cloned()
            .collect();
        if !mit.is_empty() {
            files = mit;
        }
    }
    let read = |path: &PathBuf| -> Result<String> {
        let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
        let lines: Vec<&str> = text.trim().lines().map(str::trim_end).collect();
        Ok(lines.join("\n"))
    };
    files.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_linked_is_told_of() {
        let folder = std::env::temp_dir().join(format!("xtask-licences-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("LICENSE-MIT"), "Copyright X\r\n").unwrap();
        std::fs::write(folder.join("LICENSE-APACHE"), "long").unwrap();
        let package = |name: &str, source: Option<&str>| {
            let manifest = folder.join("Cargo.toml");
            json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT OR Apache-2.0", "source": source,
                   "manifest_path": manifest})
        };
        let dep = |name: &str, kind: Option<&str>| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("vtax", None), package("a", Some("r")), package("b", Some("r")), package("c", Some("r"))],
            "resolve": {"nodes": [
                {"id": "vtax", "deps": [dep("a", None), dep("c", Some("dev"))]},
                {"id": "a", "deps": [dep("b", None)]},
                {"id": "b", "deps": []},
                {"id": "c", "deps": []},
            ]},
        });
        let told = told(&metadata);
        std::fs::remove_dir_all(&folder).unwrap();
        let told = told.unwrap();
        assert!(told.contains("\n  a 1.0.0  MIT OR Apache-2.0\n  b 1.0.0  MIT OR Apache-2.0\n\n"), "{told}");
        assert!(told.ends_with("\n==== a 1.0.0, b 1.0.0 ====\n\nCopyright X\n"), "{told}");
        assert!(!told.contains("c 1.0.0") && !told.contains("long"), "{told}");
    }

    #[test]
    fn one_alternative_must_be_allowed() {
        assert!(acceptable("MIT OR GPL-3.0") && acceptable("(Apache-2.0 WITH LLVM-exception) AND MIT"));
        assert!(!acceptable("GPL-3.0") && !acceptable("MIT AND GPL-3.0") && !acceptable("none"));
    }
}
