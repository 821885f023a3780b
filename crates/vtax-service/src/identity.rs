//! As which user a web server serves.
//!
//! Web servers start as root and then serve as a user without privileges. In a user namespace with
//! one user only, as a run without root has it, they can't: there is no other user, and Apache
//! refuses to serve as uid 0. There the server is started in a user namespace nested once more, in
//! which the same user appears under the web user's id, so that it neither has nor needs privileges.

use std::fs;

/// As which user a web server serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// As the user who starts it, who isn't root.
    Present,
    /// It drops to this user and group by itself.
    DropTo(Account),
    /// It is started in a nested user namespace in which it appears as this user.
    AppearAs(Account),
}

/// A user who owns nothing of value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) user: String,
    pub(crate) group: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Names of the web user by distribution; every system has `nobody`.
const WEB_USERS: &[&str] = &["www-data", "apache", "http", "nginx", "wwwrun", "nobody"];
/// CAP_SETGID and CAP_SETUID of capabilities(7).
const SETGID: u32 = 6;
const SETUID: u32 = 7;

/// What decides.
#[derive(Debug, Clone, Default)]
struct Facts {
    root: bool,
    may_change: bool,
    passwd: String,
    group: String,
    uid_map: String,
    gid_map: String,
    setgroups: String,
}

impl Identity {
    /// What works in this process's user namespace.
    pub(crate) fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self::decide(&Facts {
            root: rustix::process::geteuid().is_root(),
            may_change: vtax_sys::caps::has(SETGID) && vtax_sys::caps::has(SETUID),
            passwd: read("/etc/passwd"),
            group: read("/etc/group"),
            uid_map: read("/proc/self/uid_map"),
            gid_map: read("/proc/self/gid_map"),
            setgroups: read("/proc/self/setgroups"),
        })
    }

    fn decide(facts: &Facts) -> Self {
        if !facts.root {
            return Self::Present;
        }
        let account = web_account(&facts.passwd, &facts.group);
        let mapped = is_mapped(account.uid, &facts.uid_map) && is_mapped(account.gid, &facts.gid_map);
        if mapped && facts.may_change && facts.setgroups.trim() != "deny" {
            Self::DropTo(account)
        } else {
            Self::AppearAs(account)
        }
    }

    /// Uid and gid to appear as.
    pub(crate) fn appear_as(&self) -> Option<(u32, u32)> {
        match self {
            Self::AppearAs(account) => Some((account.uid, account.gid)),
            Self::Present | Self::DropTo(_) => None,
        }
    }
}

/// The first web user of passwd(5), else the kernel's overflow user.
fn web_account(passwd: &str, groups: &str) -> Account {
    let group_name = |gid: u32| {
        groups.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(gid)).then(|| name.to_owned())
        })
    };
    let account = |name: &str| {
        let line = passwd.lines().find(|l| l.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2);
        let (uid, gid) = (ids.next()?.parse().ok()?, ids.next()?.parse().ok()?);
        Some(Account { user: name.to_owned(), group: group_name(gid)?, uid, gid })
    };
    let nobody = || Account { user: "nobody".into(), group: "nogroup".into(), uid: 65534, gid: 65534 };
    WEB_USERS.iter().find_map(|name| account(name)).unwrap_or_else(nobody)
}

/// Whether `id` exists in a user namespace with this `uid_map` (`user_namespaces(7)`).
fn is_mapped(id: u32, map: &str) -> bool {
    map.lines().any(|line| {
        let mut fields = line.split_whitespace().map(|f| f.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (fields.next().unwrap_or(0), fields.next(), fields.next().unwrap_or(0));
        (first..first.saturating_add(count)).contains(&u64::from(id))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(uid_map: &str, setgroups: &str) -> Facts {
        Facts {
            root: true,
            may_change: true,
            passwd: "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n\
                     www-data:x:33:34:www:/var/www:/bin/false\n"
                .into(),
            group: "root:x:0:\nweb:x:34:\nnogroup:x:65534:\n".into(),
            uid_map: uid_map.into(),
            gid_map: uid_map.into(),
            setgroups: setgroups.into(),
        }
    }

    fn www() -> Account {
        Account { user: "www-data".into(), group: "web".into(), uid: 33, gid: 34 }
    }

    #[test]
    fn root_drops_where_the_web_user_exists() {
        let all = "         0          0 4294967295\n";
        assert_eq!(Identity::decide(&facts(all, "allow\n")), Identity::DropTo(www()));
        let weak = Facts { may_change: false, ..facts(all, "allow\n") };
        assert_eq!(Identity::decide(&weak), Identity::AppearAs(www()));
        let user = Facts { root: false, ..facts(all, "allow\n") };
        assert_eq!(Identity::decide(&user), Identity::Present);
    }

    #[test]
    fn the_only_user_there_is_appears_as_another() {
        assert_eq!(Identity::decide(&facts("0 1000 1\n", "deny\n")), Identity::AppearAs(www()));
        assert_eq!(
            Identity::decide(&facts("0 1000 1\n1 100000 65536\n", "deny\n")),
            Identity::AppearAs(www())
        );
        assert_eq!(
            Identity::decide(&facts("0 1000 1\n1 100000 65536\n", "allow\n")),
            Identity::DropTo(www())
        );
    }

    #[test]
    fn odd_account_files_are_no_obstacle() {
        let odd = Facts { passwd: "www-data:x:abc\n:::\nwww-data".into(), ..facts("", "") };
        let Identity::AppearAs(account) = Identity::decide(&odd) else { panic!("nobody is mapped") };
        assert_eq!(account.uid, 65534);
    }
}
