//! The page as a whole: what chapters add to it, in the reader's order.

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

    let mut page = Markup::new();
    page.fixed("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    page.fixed("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    // Nothing may be fetched: neither by this page nor by anything that slipped into it.
    page.fixed(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">",
    );
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
