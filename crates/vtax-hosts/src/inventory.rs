//! Ansible's inventories, INI and YAML, as lists of hosts: names, groups, and the few variables that say how ssh gets there.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::list::{HostSpec, MAX_HOSTS};

/// Groups within groups, at most.
const MAX_DEPTH: usize = 16;
/// Groups of an inventory, at most.
const MAX_GROUPS: usize = 1_000;

/// Variables by name.
type Vars = BTreeMap<String, String>;

/// The group that every host is in.
const ALL: &str = "all";
/// The group of hosts that are in no other.
const UNGROUPED: &str = "ungrouped";

/// One group.
#[derive(Debug, Default)]
struct Group {
    hosts: Vec<(String, Vars)>,
    children: Vec<String>,
    vars: Vars,
}

/// An inventory.
#[derive(Debug, Default)]
pub(crate) struct Groups(BTreeMap<String, Group>);

impl Groups {
    /// The hosts of a group and of the groups in it; of all groups where none is named.
    pub(crate) fn hosts(&self, group: Option<&str>) -> Result<Vec<HostSpec>, String> {
        let known = || self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let mut found: BTreeMap<String, Vars> = BTreeMap::new();
        match group {
            Some(name) if !self.0.contains_key(name) => {
                return Err(format!("there is no group `{}`; there are {}", name.escape_debug(), known()));
            }
            Some(name) => {
                let all = self.0.get(ALL).filter(|_| name != ALL).map(|all| all.vars.clone());
                self.collect(name, &all.unwrap_or_default(), &mut Vec::new(), &mut found)?;
            }
            None => self.collect_all(&mut found)?,
        }
        if found.len() > MAX_HOSTS {
            return Err(format!("it names {} hosts, and at most {MAX_HOSTS} are taken", found.len()));
        }
        found.into_iter().map(|(name, vars)| spec(name, &vars)).collect()
    }

    /// Groups that no other contains, then what is in them; `all` gives variables to each.
    fn collect_all(&self, found: &mut BTreeMap<String, Vars>) -> Result<(), String> {
        let all = self.0.get(ALL).map(|all| all.vars.clone()).unwrap_or_default();
        let inner: BTreeSet<&String> = self.0.values().flat_map(|g| &g.children).collect();
        let outer: Vec<&String> = self.0.keys().filter(|name| !inner.contains(name)).collect();
        if outer.is_empty() && !self.0.is_empty() {
            return Err("its groups contain each other".to_owned());
        }
        outer.into_iter().try_for_each(|name| self.collect(name, &all, &mut Vec::new(), found))
    }

    /// Outer variables first, then the group's, then the host's own: what is nearer to the host wins.
    fn collect<'a>(
        &'a self,
        name: &'a str,
        outer: &Vars,
        within: &mut Vec<&'a str>,
        found: &mut BTreeMap<String, Vars>,
    ) -> Result<(), String> {
        if within.contains(&name) || within.len() >= MAX_DEPTH {
            return Err(format!(
                "group `{}` contains itself, or groups are nested too deep",
                name.escape_debug()
            ));
        }
        let Some(group) = self.0.get(name) else { return Ok(()) };
        let mut vars = outer.clone();
        vars.extend(group.vars.clone());
        for (host, own) in &group.hosts {
            let known = found.entry(host.clone()).or_default();
            known.extend(vars.clone());
            known.extend(own.clone());
        }
        within.push(name);
        for child in &group.children {
            self.collect(child, &vars, within, found)?;
        }
        within.pop();
        Ok(())
    }

    fn group(&mut self, name: &str) -> Result<&mut Group, String> {
        if self.0.len() >= MAX_GROUPS && !self.0.contains_key(name) {
            return Err(format!("it has more than {MAX_GROUPS} groups"));
        }
        Ok(self.0.entry(name.to_owned()).or_default())
    }
}

/// A host by what its variables say of ssh. What else there is belongs into ssh's own configuration.
fn spec(name: String, vars: &Vars) -> Result<HostSpec, String> {
    let first = |names: &[&str]| names.iter().find_map(|n| vars.get(*n)).cloned();
    let shown = name.escape_debug().to_string();
    if let Some(other) =
        first(&["ansible_connection"]).filter(|c| !["ssh", "smart", "paramiko"].contains(&c.as_str()))
    {
        return Err(format!(
            "{shown} is reached by `{}`, and vtax reaches hosts by ssh",
            other.escape_debug()
        ));
    }
    let port = first(&["ansible_port", "ansible_ssh_port"])
        .map(|p| p.parse::<u16>().map_err(|_| format!("{shown}: `{}` is no port", p.escape_debug())));
    Ok(HostSpec {
        address: first(&["ansible_host", "ansible_ssh_host"]).unwrap_or_else(|| name.clone()),
        name: name.replace(':', "_"),
        user: first(&["ansible_user", "ansible_ssh_user"]),
        port: port.transpose()?,
        key: first(&["ansible_ssh_private_key_file", "ansible_private_key_file"]),
        program: first(&["vtax_program"]),
        network: None,
    })
}

/// What a section of an INI inventory holds.
enum Section {
    Hosts(String),
    Children(String),
    Vars(String),
}

/// Reads an inventory in INI form.
pub(crate) fn ini(text: &str) -> Result<Groups, String> {
    let mut groups = Groups::default();
    let mut section = Section::Hosts(UNGROUPED.to_owned());
    let mut hosts = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let at = |reason: String| format!("line {number}: {reason}");
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(head) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = match head.split_once(':') {
                None => Section::Hosts(head.to_owned()),
                Some((name, "children")) => Section::Children(name.to_owned()),
                Some((name, "vars")) => Section::Vars(name.to_owned()),
                Some(_) => return Err(at(format!("`{}` is no section", head.escape_debug()))),
            };
            let (Section::Hosts(name) | Section::Children(name) | Section::Vars(name)) = &section;
            groups.group(name).map_err(at)?;
            continue;
        }
        match &section {
            Section::Hosts(group) => {
                let found = host_line(line).map_err(at)?;
                hosts += found.len();
                if hosts > 10 * MAX_HOSTS {
                    return Err(at("too many hosts".to_owned()));
                }
                groups.group(group).map_err(at)?.hosts.extend(found);
            }
            Section::Children(group) => {
                let child = words(line).map_err(at)?.into_iter().next().unwrap_or_default();
                groups.group(&child).map_err(at)?;
                groups.group(group).map_err(at)?.children.push(child);
            }
            Section::Vars(group) => {
                let (name, value) =
                    line.split_once('=').ok_or_else(|| at("a variable is written NAME=VALUE".to_owned()))?;
                let value = value.trim().trim_matches(['"', '\'']);
                groups.group(group).map_err(at)?.vars.insert(name.trim().to_owned(), value.to_owned());
            }
        }
    }
    Ok(groups)
}

/// Hosts of a line: a name or a range of names, then variables.
fn host_line(line: &str) -> Result<Vec<(String, Vars)>, String> {
    let mut words = words(line)?.into_iter();
    let pattern = words.next().unwrap_or_default();
    let mut vars = Vars::new();
    for word in words.take_while(|w| !w.starts_with('#')) {
        let (name, value) =
            word.split_once('=').ok_or_else(|| format!("`{}` is no variable", word.escape_debug()))?;
        vars.insert(name.to_owned(), value.to_owned());
    }
    let (pattern, port) = match pattern.rsplit_once(':') {
        Some((before, port))
            if !before.contains(':') && port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty() =>
        {
            (before.to_owned(), Some(port.to_owned()))
        }
        _ => (pattern.clone(), None),
    };
    if let Some(port) = port {
        vars.entry("ansible_port".to_owned()).or_insert(port);
    }
    Ok(expand(&pattern)?.into_iter().map(|name| (name, vars.clone())).collect())
}

/// Words between blanks; quotes hold blanks together.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(q), c) if c == q => quote = None,
            (None, c) if c.is_whitespace() => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            (_, c) => word.push(c),
        }
    }
    if quote.is_some() {
        return Err("a quote isn't closed".to_owned());
    }
    if !word.is_empty() {
        words.push(word);
    }
    Ok(words)
}

/// `web[01:03]` as web01, web02, web03, and `[a:c]` as letters; several ranges give every combination.
fn expand(pattern: &str) -> Result<Vec<String>, String> {
    let mut found = vec![String::new()];
    let mut rest = pattern;
    while let Some((before, more)) = rest.split_once('[') {
        let (range, after) = more
            .split_once(']')
            .ok_or_else(|| format!("`{}`: a range isn't closed", pattern.escape_debug()))?;
        let values = values(range).ok_or_else(|| format!("`[{}]` is no range", range.escape_debug()))?;
        if found.len() * values.len() > MAX_HOSTS {
            return Err(format!("`{}` names more than {MAX_HOSTS} hosts", pattern.escape_debug()));
        }
        found = found
            .iter()
            .flat_map(|f| values.iter().map(move |value| format!("{f}{before}{value}")))
            .collect();
        rest = after;
    }
    for name in &mut found {
        name.push_str(rest);
    }
    Ok(found)
}

/// `1:9`, `01:20`, `1:9:2`, `a:f`; `None` where it is no range, or one of more than [`MAX_HOSTS`].
fn values(range: &str) -> Option<Vec<String>> {
    let mut parts = range.split(':');
    let (from, to) = (parts.next()?, parts.next()?);
    let step: usize = parts.next().map_or(Some(1), |s| s.parse().ok()).filter(|s| *s > 0)?;
    if parts.next().is_some() {
        return None;
    }
    let letter = |text: &str| match text.as_bytes() {
        [c] if c.is_ascii_lowercase() || c.is_ascii_uppercase() => Some(*c),
        _ => None,
    };
    if let (Some(from), Some(to)) = (letter(from), letter(to)) {
        return Some((from..=to).step_by(step).map(|c| char::from(c).to_string()).collect());
    }
    let number = |text: &str| text.parse::<u32>().ok().filter(|_| text.len() <= 9);
    let (first, last) = (number(from)?, number(to)?);
    if last < first || (last - first) as usize / step >= MAX_HOSTS {
        return None;
    }
    let width = if from.starts_with('0') { from.len() } else { 0 };
    Some((first..=last).step_by(step).map(|n| format!("{n:0width$}")).collect())
}

/// A group of a YAML inventory.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GroupRaw {
    hosts: Option<BTreeMap<String, Option<BTreeMap<String, Value>>>>,
    children: Option<BTreeMap<String, Option<GroupRaw>>>,
    vars: Option<BTreeMap<String, Value>>,
}

/// Reads an inventory in YAML form.
pub(crate) fn yaml(text: &str) -> Result<Groups, String> {
    let raw: BTreeMap<String, Option<GroupRaw>> =
        serde_saphyr::from_str(text).map_err(|e| format!("neither a list of hosts nor an inventory: {e}"))?;
    let mut groups = Groups::default();
    for (name, group) in raw {
        take(&mut groups, &name, group.unwrap_or_default(), 0)?;
    }
    Ok(groups)
}

fn take(groups: &mut Groups, name: &str, raw: GroupRaw, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("groups are nested too deep".to_owned());
    }
    let group = groups.group(name)?;
    group.vars.extend(plain(raw.vars.unwrap_or_default()));
    for (pattern, vars) in raw.hosts.unwrap_or_default() {
        let vars = plain(vars.unwrap_or_default());
        for host in expand(&pattern)? {
            group.hosts.push((host, vars.clone()));
        }
        if group.hosts.len() > 10 * MAX_HOSTS {
            return Err("too many hosts".to_owned());
        }
    }
    let children = raw.children.unwrap_or_default();
    group.children.extend(children.keys().cloned());
    for (child, raw) in children {
        take(groups, &child, raw.unwrap_or_default(), depth + 1)?;
    }
    Ok(())
}

/// Those variables that are a word or a number.
fn plain(vars: BTreeMap<String, Value>) -> Vars {
    let text = |value| match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    vars.into_iter().filter_map(|(name, value)| Some((name, text(value)?))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INI: &str = "
# a lab
jump.example.org ansible_host=10.0.0.9   # by hand

[web]
web[01:03].example.org
db.example.org:2222 ansible_user='lab user'

[dc:children]
web

[web:vars]
ansible_user=deploy
ansible_port = 22
";

    const YAML: &str = "
all:
  vars: {ansible_user: deploy, some_list: [1, 2]}
  hosts: {jump: {ansible_host: 10.0.0.9}}
  children:
    web:
      hosts:
        'web[1:2]': {}
        db: {ansible_port: 2222, ansible_user: lab}
    empty:
";

    fn names(hosts: &[HostSpec]) -> Vec<&str> {
        hosts.iter().map(|h| h.name.as_str()).collect()
    }

    #[test]
    fn an_inventory_in_ini_form() {
        let groups = ini(INI).unwrap();
        let hosts = groups.hosts(None).unwrap();
        let expected = [
            "db.example.org",
            "jump.example.org",
            "web01.example.org",
            "web02.example.org",
            "web03.example.org",
        ];
        assert_eq!(names(&hosts), expected);
        // What is nearer to the host wins.
        assert_eq!((hosts[0].user.as_deref(), hosts[0].port), (Some("lab user"), Some(2222)));
        assert_eq!((hosts[1].address.as_str(), hosts[1].user.as_deref()), ("10.0.0.9", None));
        assert_eq!((hosts[2].user.as_deref(), hosts[2].port), (Some("deploy"), Some(22)));
        assert_eq!(groups.hosts(Some("dc")).unwrap().len(), 4);
        assert_eq!(groups.hosts(Some("web")).unwrap().len(), 4);
        assert!(groups.hosts(Some("nosuch")).unwrap_err().contains("there are dc, ungrouped, web"));
    }

    #[test]
    fn an_inventory_in_yaml_form() {
        let groups = yaml(YAML).unwrap();
        let hosts = groups.hosts(None).unwrap();
        assert_eq!(names(&hosts), ["db", "jump", "web1", "web2"]);
        assert_eq!((hosts[0].user.as_deref(), hosts[0].port), (Some("lab"), Some(2222)));
        assert_eq!((hosts[1].address.as_str(), hosts[1].user.as_deref()), ("10.0.0.9", Some("deploy")));
        assert_eq!(names(&groups.hosts(Some("web")).unwrap()), ["db", "web1", "web2"]);
        assert_eq!(groups.hosts(Some("web")).unwrap()[1].user.as_deref(), Some("deploy"));
    }

    #[test]
    fn ranges() {
        assert_eq!(expand("a[08:10]b").unwrap(), ["a08b", "a09b", "a10b"]);
        assert_eq!(expand("a[1:5:2]").unwrap(), ["a1", "a3", "a5"]);
        assert_eq!(expand("[a:b][1:2]").unwrap(), ["a1", "a2", "b1", "b2"]);
        for wrong in ["a[1:", "a[]", "a[x:9]", "a[2:1]", "a[1:2:0]", "a[1:99999]", "a[1:900][1:900]"] {
            assert!(expand(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_vtax_does_not_do_is_refused() {
        for (text, words) in [
            ("a ansible_connection=docker", "reached by `docker`"),
            ("a ansible_port=x", "no port"),
            ("[a:nosuch]\n", "line 1: `a:nosuch` is no section"),
            ("a b", "`b` is no variable"),
            ("a x='y", "line 1: a quote isn't closed"),
            ("[a:children]\nb\n[b:children]\na\n[c]\nh\n[a]\nx", ""),
        ] {
            let found = ini(text).and_then(|groups| groups.hosts(None));
            match words {
                // Groups in a circle are reached from nowhere: the others stand.
                "" => assert_eq!(names(&found.unwrap()), ["h"]),
                words => assert!(found.clone().unwrap_err().contains(words), "{text}: {found:?}"),
            }
        }
        let circle = ini("[a:children]\nb\n[b:children]\na").unwrap();
        assert!(circle.hosts(None).unwrap_err().contains("contain each other"));
        assert!(circle.hosts(Some("a")).unwrap_err().contains("contains itself"));
        assert!(yaml("[1, 2]").unwrap_err().contains("neither a list of hosts nor an inventory"));
    }

    proptest! {
        #[test]
        fn hostile_text_never_panics(text in any::<String>(), lines in prop::collection::vec("[\\[\\]a-c:=' #0-9]{0,12}", 0..12)) {
            for text in [text, lines.join("\n")] {
                for groups in [ini(&text), yaml(&text)].into_iter().flatten() {
                    let _ = groups.hosts(None);
                }
            }
        }
    }
}
