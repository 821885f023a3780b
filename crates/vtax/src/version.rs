//! Which vtax this is.

use std::sync::LazyLock;

/// The commit that vtax was built from, set by `make build`; none where the source tree has no git.
pub(crate) fn commit() -> Option<&'static str> {
    option_env!("VTAX_COMMIT").filter(|commit| !commit.is_empty())
}

/// The version, with the commit where it is known.
pub(crate) fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| versioned(commit()));
    &VERSION
}

fn versioned(commit: Option<&str>) -> String {
    let commit = commit.map_or_else(String::new, |commit| format!(" ({commit})"));
    format!("{}{commit}", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_names_its_commit() {
        assert_eq!(versioned(Some("0123abc")), concat!(env!("CARGO_PKG_VERSION"), " (0123abc)"));
        assert_eq!(versioned(None), env!("CARGO_PKG_VERSION"));
    }
}
