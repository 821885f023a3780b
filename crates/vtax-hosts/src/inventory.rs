//! Ansible's inventories, INI and YAML, as lists of hosts: names, groups, and the few variables that say how ssh gets there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::list::{HostSpec, MAX_HOSTS};

/// Groups within groups, at most.
const MAX_DEPTH: usize = 16;
/// Groups of an inventory, at most.
const MAX_GROUPS: usize = 1_000;
/// How often groups may name hosts and other groups, all together.
const MAX_NAMED: usize = 10 * MAX_HOSTS;

/// The variables that are read. With `ssh_` inside they are called as long ago.
const READ: [&str; 6] = [
    "ansible_connection",
    "ansible_host",
    "ansible_port",
    "ansible_user",
    "ansible_private_key_file",
    "vtax_program",
];

/// The variables that are read, by name.
#[derive(Debug, Clone, Default)]
struct Vars(BTreeMap<&'static str, String>);

impl Vars {
    /// Keeps a variable if it is read; a later one replaces an earlier one.
    fn set(&mut self, name: &str, value: String) {
        let name = name.replacen("ansible_ssh_", "ansible_", 1);
        if let Some(known) = READ.into_iter().find(|known| *known == name) {
            self.0.insert(known, value);
        }
    }

    fn set_all(&mut self, others: &Self) {
        self.0.extend(others.0.iter().map(|(name, value)| (*name, value.clone())));
    }
}

/// The group that every host is in.
const ALL: &str = "all";
/// The group of hosts that are in no other.
const UNGROUPED: &str = "ungrouped";

/// Things by name, in the order in which they were first named. Each has a place by which it is known.
#[derive(Debug)]
struct Named<T> {
    all: Vec<(String, T)>,
    places: BTreeMap<String, usize>,
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self { all: Vec::new(), places: BTreeMap::new() }
    }
}

impl<T: Default> Named<T> {
    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.all.len();
        self.all.push((name.to_owned(), T::default()));
        self.places.insert(name.to_owned(), place);
        place
    }

    fn at(&self, place: usize) -> &T {
        &self.all[place].1
    }

    fn at_mut(&mut self, place: usize) -> &mut T {
        &mut self.all[place].1
    }
}

/// One group, and by their places the hosts and groups that it names and the groups that name it.
#[derive(Debug, Default)]
struct Group {
    hosts: Vec<usize>,
    children: Vec<usize>,
    parents: Vec<usize>,
    vars: Vars,
}

/// One host: what is said of it wherever it is named, and the groups that name it.
#[derive(Debug, Default)]
struct Host {
    vars: Vars,
    groups: Vec<usize>,
}

/// An inventory.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: Named<Group>,
    hosts: Named<Host>,
    /// How often groups named something.
    named: usize,
}

impl Groups {
    /// The hosts of a group and of the groups in it; of all groups where none is named. They come in the order in which they are first
    /// named there.
    pub(crate) fn hosts(&self, group: Option<&str>) -> Result<Vec<HostSpec>, String> {
        let depths = self.depths()?;
        let found = match group.filter(|name| *name != ALL) {
            None => (0..self.hosts.all.len()).collect(),
            Some(name) => match self.groups.places.get(name) {
                Some(place) => self.members(*place),
                None => {
                    let known = self.groups.places.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                    return Err(format!("there is no group `{}`; there are {known}", name.escape_debug()));
                }
            },
        };
        if found.len() > MAX_HOSTS {
            return Err(format!("it names {} hosts, and at most {MAX_HOSTS} are taken", found.len()));
        }
        found.into_iter().map(|host| spec(&self.hosts.all[host].0, &self.vars(host, &depths))).collect()
    }

    /// The hosts of a group, then those of the groups in it.
    fn members(&self, group: usize) -> Vec<usize> {
        let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
        let (mut open, mut visited) = (vec![group], BTreeSet::new());
        while let Some(group) = open.pop() {
            if visited.insert(group) {
                let Group { hosts, children, .. } = self.groups.at(group);
                let its = hosts.iter().filter(|host| self.groups_of(**host).contains(&group));
                found.extend(its.filter(|host| seen.insert(**host)));
                open.extend(children.iter().rev());
            }
        }
        found
    }

    /// The groups that name a host. One that another names as well isn't ungrouped, wherever its variables are.
    fn groups_of(&self, host: usize) -> Vec<usize> {
        let groups = &self.hosts.at(host).groups;
        let place = |name| self.groups.places.get(name).copied();
        let (all, ungrouped) = (place(ALL), place(UNGROUPED));
        let grouped = groups.iter().any(|group| ![all, ungrouped].contains(&Some(*group)));
        groups.iter().copied().filter(|group| !grouped || Some(*group) != ungrouped).collect()
    }

    /// What is said of a host: of the groups around it, the outermost first, so that what is nearer wins, and of itself last. Of groups that
    /// are equally deep the last by name wins, as in Ansible.
    fn vars(&self, host: usize, depths: &[usize]) -> Vars {
        let mut around = BTreeSet::new();
        let mut open = self.groups_of(host);
        open.extend(self.groups.places.get(ALL));
        while let Some(group) = open.pop() {
            if around.insert(group) {
                open.extend(&self.groups.at(group).parents);
            }
        }
        let mut around: Vec<usize> = around.into_iter().collect();
        around.sort_by_key(|group| (depths[*group], &self.groups.all[*group].0));
        let mut vars = Vars::default();
        around.into_iter().for_each(|group| vars.set_all(&self.groups.at(group).vars));
        vars.set_all(&self.hosts.at(host).vars);
        vars
    }

    /// How many groups are around each group on the longest way to it. `all` is around the others, whether it names them or not.
    fn depths(&self) -> Result<Vec<usize>, String> {
        let groups = &self.groups.all;
        let mut depths: Vec<usize> = groups.iter().map(|(name, _)| usize::from(name != ALL)).collect();
        let mut left: Vec<usize> = groups.iter().map(|(_, group)| group.parents.len()).collect();
        let mut open: Vec<usize> = (0..groups.len()).filter(|group| left[*group] == 0).collect();
        while let Some(group) = open.pop() {
            for child in &self.groups.at(group).children {
                depths[*child] = depths[*child].max(depths[group] + 1);
                left[*child] -= 1;
                if left[*child] == 0 {
                    open.push(*child);
                }
            }
        }
        match left.iter().position(|parents| *parents > 0) {
            None => Ok(depths),
            Some(group) => Err(format!(
                "group `{}` contains itself, or is in one that does",
                groups[group].0.escape_debug()
            )),
        }
    }

    fn group(&mut self, name: &str) -> Result<usize, String> {
        if self.groups.all.len() >= MAX_GROUPS && !self.groups.places.contains_key(name) {
            return Err(format!("it has more than {MAX_GROUPS} groups"));
        }
        Ok(self.groups.place(name))
    }

    /// A group names a host, and says this of it.
    fn add_host(&mut self, group: usize, name: &str, vars: &Vars) -> Result<(), String> {
        self.count()?;
        let place = self.hosts.place(name);
        let host = self.hosts.at_mut(place);
        host.vars.set_all(vars);
        if !host.groups.contains(&group) {
            host.groups.push(group);
            self.groups.at_mut(group).hosts.push(place);
        }
        Ok(())
    }

    /// A group names another one in it.
    fn add_child(&mut self, group: usize, name: &str) -> Result<(), String> {
        self.count()?;
        let child = self.group(name)?;
        let parents = &mut self.groups.at_mut(child).parents;
        if !parents.contains(&group) {
            parents.push(group);
            self.groups.at_mut(group).children.push(child);
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(), String> {
        self.named += 1;
        if self.named > MAX_NAMED {
            return Err(format!("its groups name hosts and groups more than {MAX_NAMED} times"));
        }
        Ok(())
    }
}

/// A host by what its variables say of ssh. What else there is belongs into ssh's own configuration.
fn spec(name: &str, vars: &Vars) -> Result<HostSpec, String> {
    let read = |variable| vars.0.get(variable).cloned();
    let shown = name.escape_debug();
    if let Some(other) =
        read("ansible_connection").filter(|c| !["ssh", "smart", "paramiko"].contains(&c.as_str()))
    {
        return Err(format!(
            "{shown} is reached by `{}`, and vtax reaches hosts by ssh",
            other.escape_debug()
        ));
    }
    let port = read("ansible_port")
        .map(|p| p.parse::<u16>().map_err(|_| format!("{shown}: `{}` is no port", p.escape_debug())));
    Ok(HostSpec {
        address: read("ansible_host").unwrap_or_else(|| name.to_owned()),
        name: name.replace(':', "_"),
        user: read("ansible_user"),
        port: port.transpose()?,
        key: read("ansible_private_key_file"),
        program: read("vtax_program"),
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
                let group = groups.group(group).map_err(at)?;
                let (names, vars) = host_line(line).map_err(at)?;
                names.iter().try_for_each(|name| groups.add_host(group, name, &vars)).map_err(at)?;
            }
            Section::Children(group) => {
                let group = groups.group(group).map_err(at)?;
                let child = words(line).map_err(at)?.into_iter().next().unwrap_or_default();
                groups.add_child(group, &child).map_err(at)?;
            }
            Section::Vars(group) => {
                let group = groups.group(group).map_err(at)?;
                let (name, value) =
                    line.split_once('=').ok_or_else(|| at("a variable is written NAME=VALUE".to_owned()))?;
                let value = value.trim().trim_matches(['"', '\'']);
                groups.groups.at_mut(group).vars.set(name.trim(), value.to_owned());
            }
        }
    }
    Ok(groups)
}

/// Hosts of a line and what is said of them: a name or a range of names, then variables.
fn host_line(line: &str) -> Result<(Vec<String>, Vars), String> {
    let mut words = words(line)?.into_iter();
    let pattern = words.next().unwrap_or_default();
    let mut vars = Vars::default();
    for word in words.take_while(|w| !w.starts_with('#')) {
        let (name, value) =
            word.split_once('=').ok_or_else(|| format!("`{}` is no variable", word.escape_debug()))?;
        vars.set(name, value.to_owned());
    }
    let (pattern, port) = match pattern.rsplit_once(':') {
        Some((before, port))
            if !before.contains(':') && port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty() =>
        {
            (before, Some(port))
        }
        _ => (pattern.as_str(), None),
    };
    if let Some(port) = port {
        vars.0.entry("ansible_port").or_insert_with(|| port.to_owned());
    }
    Ok((expand(pattern)?, vars))
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

/// A mapping of YAML in the order in which it is written.
struct Ordered<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Ordered<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("names, and what is said of each")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// A group of a YAML inventory.
#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupRaw {
    hosts: Option<Ordered<Option<BTreeMap<String, Value>>>>,
    children: Option<Ordered<Option<GroupRaw>>>,
    vars: Option<BTreeMap<String, Value>>,
}

/// Reads an inventory in YAML form.
pub(crate) fn yaml(text: &str) -> Result<Groups, String> {
    let raw: Ordered<Option<GroupRaw>> =
        serde_saphyr::from_str(text).map_err(|e| format!("neither a list of hosts nor an inventory: {e}"))?;
    let mut groups = Groups::default();
    for (name, group) in raw.0 {
        take(&mut groups, &name, group.unwrap_or_default(), 0)?;
    }
    Ok(groups)
}

fn take(groups: &mut Groups, name: &str, raw: GroupRaw, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("groups are nested too deep".to_owned());
    }
    let group = groups.group(name)?;
    groups.groups.at_mut(group).vars.set_all(&plain(raw.vars.unwrap_or_default()));
    for (pattern, vars) in raw.hosts.unwrap_or_default().0 {
        let vars = plain(vars.unwrap_or_default());
        expand(&pattern)?.iter().try_for_each(|host| groups.add_host(group, host, &vars))?;
    }
    for (child, raw) in raw.children.unwrap_or_default().0 {
        groups.add_child(group, &child)?;
        take(groups, &child, raw.unwrap_or_default(), depth + 1)?;
    }
    Ok(())
}

/// The variables that are a word or a number.
fn plain(vars: BTreeMap<String, Value>) -> Vars {
    let mut plain = Vars::default();
    for (name, value) in vars {
        match value {
            Value::String(text) => plain.set(&name, text),
            Value::Number(number) => plain.set(&name, number.to_string()),
            _ => {}
        }
    }
    plain
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
            "jump.example.org",
            "web01.example.org",
            "web02.example.org",
            "web03.example.org",
            "db.example.org",
        ];
        assert_eq!(names(&hosts), expected);
        // What is nearer to the host wins.
        assert_eq!((hosts[0].address.as_str(), hosts[0].user.as_deref()), ("10.0.0.9", None));
        assert_eq!((hosts[1].user.as_deref(), hosts[1].port), (Some("deploy"), Some(22)));
        assert_eq!((hosts[4].user.as_deref(), hosts[4].port), (Some("lab user"), Some(2222)));
        assert_eq!(groups.hosts(Some("dc")).unwrap().len(), 4);
        assert_eq!(groups.hosts(Some("web")).unwrap().len(), 4);
        assert!(groups.hosts(Some("nosuch")).unwrap_err().contains("there are dc, ungrouped, web"));
    }

    #[test]
    fn an_inventory_in_yaml_form() {
        let groups = yaml(YAML).unwrap();
        let hosts = groups.hosts(None).unwrap();
        assert_eq!(names(&hosts), ["jump", "web1", "web2", "db"]);
        assert_eq!((hosts[0].address.as_str(), hosts[0].user.as_deref()), ("10.0.0.9", Some("deploy")));
        assert_eq!((hosts[3].user.as_deref(), hosts[3].port), (Some("lab"), Some(2222)));
        assert_eq!(names(&groups.hosts(Some("web")).unwrap()), ["web1", "web2", "db"]);
        assert_eq!(groups.hosts(Some("web")).unwrap()[0].user.as_deref(), Some("deploy"));
    }

    #[test]
    fn a_hosts_own_variables_count_wherever_they_are_written() {
        let at_the_top = ini("web1 ansible_host=10.0.0.5 ansible_ssh_user=root\n[web]\nweb1\nweb2\n\
             [web:vars]\nansible_user=deploy\nansible_port=2222\n");
        let apart = yaml(
            "all: {hosts: {web1: {ansible_host: 10.0.0.5, ansible_user: root}}, children: {web: \
             {hosts: {web1: , web2: }, vars: {ansible_user: deploy, ansible_port: 2222}}}}",
        );
        for groups in [at_the_top.unwrap(), apart.unwrap()] {
            for hosts in [groups.hosts(None).unwrap(), groups.hosts(Some("web")).unwrap()] {
                assert_eq!(names(&hosts), ["web1", "web2"]);
                assert_eq!((hosts[0].address.as_str(), hosts[0].user.as_deref()), ("10.0.0.5", Some("root")));
                assert_eq!((hosts[1].address.as_str(), hosts[1].user.as_deref()), ("web2", Some("deploy")));
                assert_eq!((hosts[0].port, hosts[1].port), (Some(2222), Some(2222)));
            }
        }
        // What is named twice is said of one host, the later the last.
        let twice = ini("[b]\nh ansible_port=1 ansible_user=u\n[a]\nh ansible_port=2\n").unwrap();
        let host = &twice.hosts(Some("b")).unwrap()[0];
        assert_eq!((host.port, host.user.as_deref()), (Some(2), Some("u")));
    }

    #[test]
    fn groups_around_a_group_have_their_say_and_the_nearest_the_last() {
        let groups = ini("[all:vars]\nansible_user=a\nansible_port=1\nvtax_program=/a\n\
             [z]\nh\n[z:vars]\nvtax_program=/z\n\
             [dc:children]\nweb\n[dc:vars]\nansible_user=d\nansible_port=2\n\
             [web]\nh\n[web:vars]\nansible_port=3\n\
             [ungrouped:vars]\nansible_user=no\n")
        .unwrap();
        for group in [None, Some("web"), Some("dc"), Some("z"), Some("all")] {
            let host = &groups.hosts(group).unwrap()[0];
            let found = (host.user.as_deref(), host.port, host.program.as_deref());
            assert_eq!(found, (Some("d"), Some(3), Some("/z")), "{group:?}");
        }
        // Who is in a group isn't ungrouped, wherever its variables are.
        let groups = ini("h ansible_port=1\nalone\n[ungrouped:vars]\nansible_user=no\n[web]\nh").unwrap();
        assert_eq!(names(&groups.hosts(Some("ungrouped")).unwrap()), ["alone"]);
        let users: Vec<_> = groups.hosts(None).unwrap().into_iter().map(|host| host.user).collect();
        assert_eq!(users, [None, Some("no".to_owned())]);
    }

    #[test]
    fn hosts_keep_the_order_in_which_they_are_named() {
        let groups = ini("[b]\nz\na\n[a]\nm\nz\n[both:children]\na\nb\n").unwrap();
        assert_eq!(names(&groups.hosts(None).unwrap()), ["z", "a", "m"]);
        assert_eq!(names(&groups.hosts(Some("both")).unwrap()), ["m", "z", "a"]);
        let groups = yaml("b: {hosts: {z: , a: }}\na: {hosts: {m: }}\nboth: {children: {b: , a: }}").unwrap();
        assert_eq!(names(&groups.hosts(None).unwrap()), ["z", "a", "m"]);
        assert_eq!(names(&groups.hosts(Some("both")).unwrap()), ["z", "a", "m"]);
    }

    /// Whoever went every way through these would go for ever.
    #[test]
    fn groups_that_are_reached_on_many_ways_are_visited_once() {
        let mut text = String::new();
        for layer in 0..20 {
            for group in 0..10 {
                text += &format!("[g{layer}-{group}:children]\n");
                text.extend((0..10).map(|child| format!("g{}-{child}\n", layer + 1)));
                text += &format!("g{}-0\n", layer + 1);
            }
        }
        text += "[g20-9]\nh\n[g0-0:vars]\nansible_user=u\n";
        let groups = ini(&text).unwrap();
        for group in [None, Some("g0-0"), Some("g19-3")] {
            let hosts = groups.hosts(group).unwrap();
            assert_eq!((names(&hosts), hosts[0].user.as_deref()), (vec!["h"], Some("u")));
        }
        assert_eq!(names(&groups.hosts(Some("g20-0")).unwrap()), Vec::<&str>::new());
        let many = format!("[a]\n{}", "h[1:1000]\n".repeat(11));
        assert!(ini(&many).unwrap_err().contains("more than 10000 times"));
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
            ("[a:children]\nb\n[b:children]\na\n[c]\nh\n[a]\nx", "group `a` contains itself"),
            ("[a:children]\na\n", "group `a` contains itself"),
        ] {
            let found = ini(text).and_then(|groups| groups.hosts(None));
            assert!(found.clone().unwrap_err().contains(words), "{text}: {found:?}");
        }
        assert!(yaml("[1, 2]").unwrap_err().contains("neither a list of hosts nor an inventory"));
    }

    proptest! {
        #[test]
        fn hostile_text_never_panics(text in any::<String>(), lines in prop::collection::vec("[\\[\\]a-c:=' #0-9]{0,12}", 0..12)) {
            for text in [text, lines.join("\n")] {
                for groups in [ini(&text), yaml(&text)].into_iter().flatten() {
                    let _ = groups.hosts(None);
                    let _ = groups.hosts(Some("a"));
                }
            }
        }
    }
}
