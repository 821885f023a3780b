//! Where a user's vtax keeps what is expensive to make again.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::OnceLock;

/// `$VTAX_CACHE`, else `$XDG_CACHE_HOME/vtax`, else `~/.cache/vtax` (XDG Base Directory
/// Specification). Where `HOME` isn't set, or is another user's (as in `sudo -E`, and in containers), the home is the one that
/// `/etc/passwd` knows; where there is none, the cache is `/var/tmp/vtax-` and the user's number.
#[must_use]
pub fn directory() -> PathBuf {
    named(["VTAX_CACHE", "XDG_CACHE_HOME", "HOME"].map(env::var_os)).unwrap_or_else(of_passwd)
}

/// Whether a file of that owner's is another user's. Root's is as good as one's own: root can change anything.
#[must_use]
pub const fn is_foreign(owner: u32, user: u32) -> bool {
    owner != user && owner != 0
}

/// The directory by the values of these variables: the cache itself, all caches, the home. An empty one is as good as none.
fn named(variables: [Option<OsString>; 3]) -> Option<PathBuf> {
    let set = |value: Option<OsString>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
    let [own, caches, home] = variables.map(set);
    own.or_else(|| own_below(caches?, "vtax")).or_else(|| own_below(home?, ".cache/vtax"))
}

/// A path below a directory that the environment names; `None` where a directory on the way is another user's, who could put
/// programs of his own in its place.
fn own_below(named: PathBuf, path: &str) -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let whole = named.join(path);
    let way = whole.ancestors().take_while(|dir| dir.starts_with(&named));
    let is_own = way.filter_map(|dir| fs::metadata(dir).ok()).all(|found| !is_foreign(found.uid(), user));
    is_own.then_some(whole)
}

/// The cache of a user for whom no variable of the environment names a home of his own. Found once: in a user namespace a controller is
/// another user, but it is a copy of the process that started it and has what that found.
fn of_passwd() -> PathBuf {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    let find = || {
        let user = rustix::process::geteuid().as_raw();
        let passwd = fs::read("/etc/passwd").unwrap_or_default();
        match home_in(&String::from_utf8_lossy(&passwd), user).filter(|home| home.is_dir()) {
            Some(home) => home.join(".cache/vtax"),
            None => PathBuf::from(format!("/var/tmp/vtax-{user}")),
        }
    };
    FOUND.get_or_init(find).clone()
}

/// A user's home by a text like that of `/etc/passwd` (passwd(5)).
fn home_in(passwd: &str, user: u32) -> Option<PathBuf> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        let is_its = fields.next()?.parse::<u32>().is_ok_and(|its| its == user);
        let home = fields.nth(2).filter(|home| is_its && home.starts_with('/'));
        home.map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_found_by_the_users_number() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\nshort:x:7\na:x:1000:100:A,,:/home/a:/bin/sh\nb:x:8:8::none:\n";
        assert_eq!(home_in(passwd, 1000), Some(PathBuf::from("/home/a")));
        assert_eq!(home_in(passwd, 0), Some(PathBuf::from("/root")));
        for user in [7, 8, 100] {
            assert_eq!(home_in(passwd, user), None);
        }
    }

    #[test]
    fn an_empty_variable_names_nothing() {
        let by = |values: [&str; 3]| named(values.map(|value| Some(OsString::from(value))));
        // What isn't there is nobody else's.
        assert_eq!(by(["/none/a", "/none/b", "/none/c"]), Some(PathBuf::from("/none/a")));
        assert_eq!(by(["", "/none/b", "/none/c"]), Some(PathBuf::from("/none/b/vtax")));
        assert_eq!(by(["", "", "/none/c"]), Some(PathBuf::from("/none/c/.cache/vtax")));
        assert_eq!(by(["", "", ""]), None);
        assert_eq!(named([None, None, None]), None);
    }

    #[test]
    fn a_home_of_another_user_is_none_to_keep_programs_in() {
        let home = env::temp_dir().join(format!("vtax-user-cache-{}", std::process::id()));
        let _ = fs::remove_dir(&home);
        fs::create_dir(&home).unwrap();
        let by_home = || named([None, None, Some(home.clone().into_os_string())]);
        let own = by_home();
        let is_root = rustix::process::geteuid().is_root();
        // Only root can make a directory another user's.
        if is_root {
            std::os::unix::fs::chown(&home, Some(1000), None).unwrap();
        }
        let of_another = by_home();
        fs::remove_dir(&home).unwrap();
        assert_eq!(own, Some(home.join(".cache/vtax")));
        assert_eq!(of_another, own.filter(|_| !is_root));
    }
}
