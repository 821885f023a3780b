//! What FRR's daemons answer, as far as it is looked at.
//!
//! Answers are JSON whose outer shape differs between commands, VRFs and versions; what tells is the same in all: an
//! object under the neighbour's name, or with it, that says in which state it is. So objects are looked for at any
//! depth. Answers come from other programs: their size is bounded where they are read, their depth by `serde_json`.

use std::net::Ipv4Addr;

use serde_json::Value;

use crate::address::Prefix;

/// Calls `each` with every object below a value, and the name under which it is.
fn objects<'a>(
    value: &'a Value,
    name: &'a str,
    each: &mut impl FnMut(&'a str, &'a serde_json::Map<String, Value>),
) {
    match value {
        Value::Object(map) => {
            each(name, map);
            for (name, inner) in map {
                objects(inner, name, each);
            }
        }
        Value::Array(items) => {
            for item in items {
                objects(item, name, each);
            }
        }
        _ => {}
    }
}

fn any(answer: &str, mut fits: impl FnMut(&str, &serde_json::Map<String, Value>) -> bool) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(answer) else { return false };
    let mut found = false;
    objects(&value, "", &mut |name, map| found |= fits(name, map));
    found
}

fn text<'a>(map: &'a serde_json::Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Whether an answer to `show ip ospf ... neighbor json` has this neighbour fully adjacent.
#[must_use]
pub fn is_adjacent(answer: &str, neighbour: Ipv4Addr) -> bool {
    let id = neighbour.to_string();
    // `converged` is of 8.4 on, where `nbrState` became `Full/-`; before, it was `state`.
    any(answer, |name, map| {
        name == id
            && (text(map, "converged") == "Full"
                || text(map, "nbrState").starts_with("Full")
                || text(map, "state").starts_with("Full"))
    })
}

/// Whether an answer to `show mpls ldp neighbor json` has a session with this neighbour.
#[must_use]
pub fn has_label_session(answer: &str, neighbour: Ipv4Addr) -> bool {
    let id = neighbour.to_string();
    any(answer, |_, map| text(map, "neighborId") == id && text(map, "state") == "OPERATIONAL")
}

/// Whether an answer to `show bgp summary json` has a session with this neighbour.
#[must_use]
pub fn has_peering(answer: &str, neighbour: Ipv4Addr) -> bool {
    let address = neighbour.to_string();
    any(answer, |name, map| name == address && text(map, "state") == "Established")
}

/// How many labels the route to a network puts onto packets, as an answer to `show ip route ... json` says; `None`
/// where the kernel has no such route.
#[must_use]
pub fn labels_of_route(answer: &str, destination: Prefix) -> Option<u32> {
    let Ok(value) = serde_json::from_str::<Value>(answer) else { return None };
    let network = destination.to_string();
    let mut most = None;
    objects(&value, "", &mut |name, map| {
        if name != network || map.get("installed") != Some(&Value::Bool(true)) {
            return;
        }
        let nexthops = map.get("nexthops").and_then(Value::as_array).into_iter().flatten();
        let used = nexthops.filter(|hop| hop.get("fib") == Some(&Value::Bool(true)));
        for hop in used {
            let labels = hop.get("labels").and_then(Value::as_array).map_or(0, Vec::len);
            most = most.max(Some(u32::try_from(labels).unwrap_or(u32::MAX)));
        }
    });
    most
}

/// What is wrong with a configuration, as FRR's own tool says when it hands it to the daemons: number of the line and
/// its words. What it says besides tells of progress, or remarks on what is there later.
#[must_use]
pub fn complaints(output: &str) -> Vec<(Option<usize>, String)> {
    let complaint = |line: &str| {
        let line = line.trim();
        // `line 7: % Unknown command[4]: ip osfp area 0`, which may follow a complaint about accounts (PAM) that has no end of line.
        let numbered = |(at, word): (usize, &str)| {
            let (number, words) = line[at + word.len()..].split_once(':')?;
            Some((number.trim().parse().ok()?, words.trim()))
        };
        match line.match_indices("line ").find_map(numbered) {
            Some((number, words)) => Some((Some(number), words.to_owned())),
            None if line.starts_with('%') => Some((None, line.to_owned())),
            None => None,
        }
    };
    output.lines().take(1_000).filter_map(complaint).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HERE: Ipv4Addr = Ipv4Addr::new(1, 1, 1, 1);
    const OTHER: Ipv4Addr = Ipv4Addr::new(2, 2, 2, 2);

    #[test]
    fn adjacencies_are_found_in_every_shape() {
        let shapes = [
            r#"{"neighbors":{"1.1.1.1":[{"nbrPriority":1,"nbrState":"Full\/-","converged":"Full","role":"DROther"}]}}"#,
            r#"{"vrfName":"customer","vrfId":5,"neighbors":{"1.1.1.1":[{"nbrState":"Full\/DR"}]}}"#,
            r#"{"1.1.1.1":[{"priority":1,"state":"Full\/DR"}]}"#,
        ];
        for shape in shapes {
            assert!(is_adjacent(shape, HERE), "{shape}");
            assert!(!is_adjacent(shape, OTHER), "{shape}");
            assert!(!is_adjacent(&shape.replace("Full", "Init"), HERE), "{shape}");
        }
    }

    #[test]
    fn sessions_are_found() {
        let ldp = r#"{"neighbors":[{"addressFamily":"ipv4","neighborId":"1.1.1.1","state":"OPERATIONAL"},
            {"addressFamily":"ipv4","neighborId":"2.2.2.2","state":"NON EXISTENT"}]}"#;
        assert!(has_label_session(ldp, HERE) && !has_label_session(ldp, OTHER));
        let bgp = r#"{"ipv4Vpn":{"routerId":"9.9.9.9","peers":{"1.1.1.1":{"state":"Established","pfxRcd":2},
            "2.2.2.2":{"state":"Active"}}}}"#;
        assert!(has_peering(bgp, HERE) && !has_peering(bgp, OTHER));
    }

    #[test]
    fn labels_of_installed_routes_are_counted() {
        let answer = r#"{"10.2.2.0/24":[
            {"prefix":"10.2.2.0/24","protocol":"ospf","distance":110,"nexthops":[{"ip":"192.168.1.2"}]},
            {"prefix":"10.2.2.0/24","protocol":"bgp","selected":true,"installed":true,"nexthops":[
                {"ip":"3.3.3.3","recursive":true},
                {"fib":true,"ip":"10.0.12.2","interfaceName":"p1","labels":[17,80]}]}]}"#;
        let destination = "10.2.2.0/24".parse().unwrap();
        assert_eq!(labels_of_route(answer, destination), Some(2));
        assert_eq!(labels_of_route(answer, "10.2.3.0/24".parse().unwrap()), None);
        assert_eq!(
            labels_of_route(&answer.replace("\"installed\":true", "\"installed\":false"), destination),
            None
        );
        assert_eq!(labels_of_route("{}", destination), None);
    }

    #[test]
    fn a_refused_line_is_named_and_progress_is_not() {
        let output = "[123|zebra] sending configuration\nline 7: % Unknown command[4]:  ip osfp area 0\n\
            Waiting for children to finish applying config...\n[123|zebra] done\n% something else\n\
            The route-map 'own' does not exist.\nConfiguration file[/etc/frr/r1/frr.conf] processing failure: 2\n";
        let found = complaints(output);
        assert_eq!(
            found,
            [
                (Some(7), "% Unknown command[4]:  ip osfp area 0".to_owned()),
                (None, "% something else".to_owned()),
            ]
        );
        // In a user namespace, on a host whose shadow file its user can't read.
        let output = "vtysh_pam: Failed in account validation: Authentication failure(7)line 11: % Unknown command[17]:  ip osfp";
        assert_eq!(complaints(output), [(Some(11), "% Unknown command[17]:  ip osfp".to_owned())]);
        assert_eq!(complaints("line by line: done, line : 7"), []);
    }

    proptest! {
        #[test]
        fn any_answer_is_looked_at(text in "\\PC*") {
            let _ = is_adjacent(&text, HERE) || has_label_session(&text, HERE) || has_peering(&text, HERE);
            let _ = (labels_of_route(&text, Prefix::host(HERE)), complaints(&text));
        }
    }
}
