//! Names of plans, as arguments.

/// A name that a plan may have, for clap.
pub(super) fn plan_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if text.is_empty() || text.len() > 60 || !text.chars().all(fits) {
        return Err("a name is 1 to 60 letters, digits, `-` and `_`".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_plan_takes_for_a_name_is_taken_and_nothing_else() {
        for name in ["a", "first-2_b", &"n".repeat(60), "", "a b", "\u{e4}", "a.b", &"n".repeat(61)] {
            let plan = format!(
                "vtax: 1\nname: \"{name}\"\nbaseline: native\nenvironments: [native, container]\nservices: http\n\
                                workload: {{http: {{target: /page/1}}}}\nmeasure: throughput\n"
            );
            let taken = vtax_plan::parse("t.yaml", plan.as_bytes(), &[] as &[&str]).is_ok();
            assert_eq!(plan_name(name).is_ok(), taken, "`{name}`");
        }
        assert!(plan_name("first").is_ok() && plan_name("a b").is_err());
    }
}
