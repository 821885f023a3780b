//! Style and script, which are in the program.

use vtax_report::pages::STYLE;

/// What the pages have besides the style of reports.
const OWN: &str = include_str!("../assets/page.css");

/// The one script.
pub(crate) const SCRIPT: &str = include_str!("../assets/page.js");

/// The style.
pub(crate) fn style() -> String {
    format!("{STYLE}\n{OWN}")
}
