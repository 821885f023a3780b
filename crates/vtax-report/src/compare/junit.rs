//! The comparison as JUnit XML: one test case per comparison, for what shows tests in CI.

use super::table::{doubt, interval_text, place, side_text, tax_text, value_text, verdict_word};
use super::{GateVerdict, Refusal, Row, RunComparison};
use crate::markup::Markup;
use crate::text::printable;

/// How a comparison ends as a test.
#[derive(Clone, Copy, PartialEq)]
enum Case {
    Passed,
    Failed,
    Skipped,
}

fn case(row: &Row, strict: bool) -> Case {
    match row.gate {
        Some(GateVerdict::Fail) => Case::Failed,
        Some(GateVerdict::CantTell) if strict => Case::Failed,
        Some(GateVerdict::CantTell) => Case::Skipped,
        Some(GateVerdict::Pass) | None => Case::Passed,
    }
}

/// Runs that aren't compared, as one test case with an error: a missing file would look like nothing that failed.
pub(super) fn refused(refusal: &Refusal) -> String {
    let counts = [("tests", "1"), ("failures", "0"), ("errors", "1"), ("skipped", "0"), ("time", "0")];
    let case = [("classname", "vtax compare"), ("name", "the runs can be compared"), ("time", "0")];
    let reasons = refusal.to_string();
    let lines: Vec<String> = reasons.lines().map(printable).collect();
    let message = refusal.reasons.first().map(|r| printable(&r.text)).unwrap_or_default();
    let mut xml = Markup::new();
    xml.fixed("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    xml.open("testsuites", &[&[("name", "vtax compare")], &counts[..]].concat()).fixed("\n");
    xml.open("testsuite", &[&[("name", "vtax compare")], &counts[..]].concat()).fixed("\n");
    xml.open("testcase", &case);
    xml.element("error", &[("type", "refused"), ("message", &message)], &lines.join("\n"));
    xml.close("testcase").fixed("\n");
    xml.close("testsuite").fixed("\n").close("testsuites").fixed("\n");
    xml.into_string()
}

pub(super) fn render(c: &RunComparison) -> String {
    let strict = c.gate.is_some_and(|g| g.strict);
    let count = |kind| c.rows.iter().filter(|r| case(r, strict) == kind).count();
    // What was asked for and isn't there is a test as well, of which nothing can be told.
    let missing: &[String] = if c.gate.is_some() { &c.missing } else { &[] };
    let count = |kind| {
        let missing =
            if kind == if strict { Case::Failed } else { Case::Skipped } { missing.len() } else { 0 };
        (count(kind) + missing).to_string()
    };
    let tests = (c.rows.len() + missing.len()).to_string();
    let (failures, skipped) = (count(Case::Failed), count(Case::Skipped));
    let counts = [
        ("tests", tests.as_str()),
        ("failures", &failures),
        ("errors", "0"),
        ("skipped", &skipped),
        ("time", "0"),
    ];
    let mut xml = Markup::new();
    xml.fixed("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    xml.open("testsuites", &[&[("name", "vtax compare")], &counts[..]].concat()).fixed("\n");
    let plan = printable(&c.plan);
    xml.open("testsuite", &[&[("name", plan.as_str())], &counts[..]].concat()).fixed("\n");
    for row in &c.rows {
        test_case(&mut xml, &plan, row, strict, c);
    }
    for text in missing {
        missing_case(&mut xml, &plan, &printable(text), strict);
    }
    let mut lines =
        vec![c.headline.clone(), format!("A {}", side_text(&c.a)), format!("B {}", side_text(&c.b))];
    lines.extend(c.warnings.iter().map(|w| format!("WARNING: {w}")));
    let lines: Vec<String> = lines.iter().map(|l| printable(l)).collect();
    xml.element("system-out", &[], &lines.join("\n")).fixed("\n");
    xml.close("testsuite").fixed("\n").close("testsuites").fixed("\n");
    xml.into_string()
}

fn test_case(xml: &mut Markup, plan: &str, row: &Row, strict: bool, c: &RunComparison) {
    let class = printable(&format!("{plan}.{}", row.comparison.cell));
    let name = printable(&format!("{} [{}]", row.comparison.metric, row.comparison.measure));
    let attributes = [("classname", class.as_str()), ("name", &name), ("time", "0")];
    let (kind, message) = (case(row, strict), printable(&message(row, c)));
    xml.open("testcase", &attributes);
    let figures = format!(
        "{}: A {}, B {}, tax {} {}, {}",
        place(row),
        value_text(row.a.as_ref()),
        value_text(row.b.as_ref()),
        tax_text(row),
        interval_text(row),
        verdict_word(row)
    );
    match kind {
        Case::Failed => {
            let what = if row.gate == Some(GateVerdict::Fail) { "max-tax" } else { "cant-tell" };
            xml.element("failure", &[("type", what), ("message", &message)], &printable(&figures));
        }
        Case::Skipped => {
            xml.empty("skipped", &[("message", &message)]);
        }
        Case::Passed => {
            xml.element("system-out", &[], &printable(&figures));
        }
    }
    xml.close("testcase").fixed("\n");
}

fn missing_case(xml: &mut Markup, plan: &str, text: &str, strict: bool) {
    // A name that stays: the reason has figures of these runs.
    let name = text.split(" is in neither run").next().unwrap_or(text);
    xml.open("testcase", &[("classname", plan), ("name", name), ("time", "0")]);
    match strict {
        true => xml.element("failure", &[("type", "cant-tell"), ("message", text)], text),
        false => xml.empty("skipped", &[("message", text)]),
    };
    xml.close("testcase").fixed("\n");
}

fn message(row: &Row, c: &RunComparison) -> String {
    let limit = c.gate.map(|g| g.max_tax.to_string()).unwrap_or_default();
    match row.gate {
        Some(GateVerdict::Fail) => {
            let found = format!("{} {}", tax_text(row), interval_text(row));
            format!("tax {} exceeds the limit of {limit}", found.trim_end())
        }
        _ => format!("can't tell whether the tax keeps to {limit}: {}", doubt(row, c)),
    }
}
