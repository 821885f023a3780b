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

/// All that a bug report should say of this vtax.
pub(crate) fn bug_report_text() -> String {
    let formats = [
        ("plan", vtax_plan::model::PLAN_VERSION.to_string()),
        (
            "journal and run directory",
            format!("{}.{}", vtax_store::JOURNAL_VERSION, vtax_store::JOURNAL_MINOR),
        ),
        ("provenance", vtax_store::PROVENANCE_VERSION.to_string()),
        ("summary", vtax_store::summary::SUMMARY_VERSION.to_string()),
        ("calibration", vtax_store::CALIBRATION_VERSION.to_string()),
        ("samples", vtax_store::SAMPLES_VERSION.to_string()),
        ("probes", vtax_store::PROBES_VERSION.to_string()),
        ("study", vtax_study::STUDY_VERSION.to_string()),
    ];
    let linked = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
    let built = if cfg!(debug_assertions) { "for debugging" } else { "for release" };
    let mut text = format!(
        "vtax {}\ncommit: {}\nbuilt: {built}, {linked}, for {} on {}\nformats:\n",
        env!("CARGO_PKG_VERSION"),
        commit().unwrap_or("not known"),
        std::env::consts::OS,
        std::env::consts::ARCH,
    );
    for (format, version) in formats {
        text += &format!("  {format}: {version}\n");
    }
    text
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

    #[test]
    fn bug_reports_have_the_formats() {
        let text = bug_report_text();
        for part in
            ["\ncommit: ", "\n  journal and run directory: 3.", "\n  plan: 1\n", std::env::consts::ARCH]
        {
            assert!(text.contains(part), "{part:?} is missing in {text}");
        }
    }
}
