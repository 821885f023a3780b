//! What every page has around it.

use std::path::Path;

use vtax_report::markup::Markup;
use vtax_report::pages::quantity;

use crate::cost::Spent;

/// A page without a foot: of refusals, which say nothing of the server.
pub(crate) fn page(title: &str, here: &str, body: &Markup) -> String {
    with_foot(title, here, body, false, None)
}

/// A page; `here` is the way to it in the navigation, empty where it isn't there.
pub(crate) fn with_foot(
    title: &str,
    here: &str,
    body: &Markup,
    may_start: bool,
    foot: Option<(Spent, &Path)>,
) -> String {
    let mut page = Markup::new();
    page.fixed("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.fixed("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    page.element("title", &[], &format!("{title} · vtax"));
    page.fixed("<link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"/assets/page.css\">");
    page.fixed("<script src=\"/assets/page.js\" defer></script></head><body>");
    page.fixed("<a class=\"skip\" href=\"#main\">To the content</a><header><div class=\"title\">");
    page.fixed(
        "<p class=\"brand\">vtax</p><button id=\"theme\" type=\"button\" hidden>light / dark</button></div>",
    );
    page.open("nav", &[("aria-label", "Pages")]);
    let places = [("/", "Runs", true), ("/start", "Start", may_start)];
    for (place, name, _) in places.iter().filter(|place| place.2) {
        let current = if *place == here { "page" } else { "false" };
        page.element("a", &[("href", place), ("aria-current", current)], name);
    }
    page.fixed("</nav></header><main id=\"main\" tabindex=\"-1\">");
    page.add(body);
    page.fixed("</main>");
    if let Some((spent, root)) = foot {
        page.open("footer", &[]).open("p", &[("class", "small-print")]);
        page.text(&format!("Runs below {}. ", root.display()));
        page.text(&format!(
            "This server used {:.2} % of a core over the last {}, and has {} of memory.",
            spent.share * 100.0,
            quantity(spent.over.as_nanos() as f64, "ns"),
            quantity(spent.resident as f64, "B")
        ));
        page.close("p").close("footer");
    }
    page.fixed("<div id=\"tip\" role=\"status\" hidden></div></body></html>\n");
    page.into_string()
}

/// A field of a form with its label.
pub(crate) fn field(label: &str, name: &str, kind: &str, value: &str) -> Markup {
    let mut m = Markup::new();
    m.open("label", &[]).text(label).text(" ");
    m.empty("input", &[("type", kind), ("name", name), ("value", value)]).close("label");
    m
}

/// A choice of a form with its label; the first of `values` is the empty one, where any will do.
pub(crate) fn choice(label: &str, name: &str, values: &[(String, String)], chosen: &str) -> Markup {
    let mut m = Markup::new();
    m.open("label", &[]).text(label).text(" ").open("select", &[("name", name)]);
    for (value, text) in values {
        if value == chosen {
            m.element("option", &[("value", value), ("selected", "selected")], text);
        } else {
            m.element("option", &[("value", value)], text);
        }
    }
    m.close("select").close("label");
    m
}
