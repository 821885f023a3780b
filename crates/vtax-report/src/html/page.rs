//! The page as a whole: what chapters add to it, in the reader's order.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use super::parts::definitions;
use super::top;
use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::markup::Markup;

/// Makes the page; chapters read the trials' bulk files on the way.
pub(crate) fn page(context: &Context, chapters: &[Box<dyn Chapter>]) -> String {
    let mut all = Page::default();
    for chapter in chapters {
        all.append(chapter.page(context));
    }
    all.put(Rank::Origin, "words", "Words", definitions(&all.words));
    all.sections.sort_by_key(|section| section.rank);

    let script =
        [include_str!("script.js")].into_iter().chain(all.scripts.iter().copied()).collect::<String>();
    let mut page = start(Some(&script));
    page.element("title", &[], &format!("vtax: {}", context.data.plan.name));
    page.fixed("<style>").fixed(include_str!("style.css"));
    for style in &all.styles {
        page.fixed(style);
    }
    page.fixed("</style></head><body>");
    page.add(&top::header(context, &all.sections));
    page.open("main", &[]);
    page.add(&top::verdict(context, &all.damage));
    for section in &all.sections {
        page.open("section", &[("id", section.id)]).element("h2", &[], section.title);
        page.add(&section.body).close("section");
    }
    page.close("main");
    page.fixed("<div id=\"tip\" role=\"status\" hidden></div>");
    page.fixed("<script>").fixed(include_str!("script.js"));
    for script in &all.scripts {
        page.fixed(script);
    }
    page.fixed("</script></body></html>\n");
    page.into_string()
}

/// The start of every page, up to its title. Nothing may be fetched or sent: neither by the page nor by anything that
/// slipped into it; and of scripts only the page's own runs, which the policy names by its digest.
pub(crate) fn start(script: Option<&str>) -> Markup {
    let scripts = script.map_or_else(String::new, |text| {
        let digest = BASE64_STANDARD.encode(Sha256::digest(text));
        format!("; script-src 'sha256-{digest}'; img-src data:")
    });
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'{scripts}; base-uri 'none'; form-action 'none'"
    );
    let mut page = Markup::new();
    page.fixed("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.fixed("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    page.empty("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy)]);
    page
}
