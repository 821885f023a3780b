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
    // It repeats what marks are called, for those who point at them.
    page.fixed("<div id=\"tip\" aria-hidden=\"true\" hidden></div>");
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::pages::STYLE;

    /// Where the colours of themes are: light, dark as the system has it, dark as was chosen.
    const THEMES: [&str; 3] =
        [":root {", ":root:not([data-theme=\"light\"]) {", ":root[data-theme=\"dark\"] {"];

    /// The colours of a theme by name.
    fn colours(theme: &str) -> BTreeMap<&'static str, &'static str> {
        let (_, rest) = STYLE.split_once(theme).unwrap();
        let block = rest.split('}').next().unwrap();
        block.split(';').filter_map(|line| line.trim().strip_prefix("--")?.split_once(": ")).collect()
    }

    /// The relative luminance of `#rgb` or `#rrggbb` (WCAG 2.2).
    fn luminance(colour: &str) -> f64 {
        let digits = colour.trim_start_matches('#');
        let each = digits.len() / 3;
        let channel = |i: usize| {
            let value = digits[i * each..(i + 1) * each].repeat(2 / each);
            let share = f64::from(u8::from_str_radix(&value, 16).unwrap()) / 255.0;
            if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(0) + 0.7152 * channel(1) + 0.0722 * channel(2)
    }

    fn contrast(one: &str, other: &str) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn contrasts_are_those_of_the_standard() {
        assert!((contrast("#fff", "#000000") - 21.0).abs() < 1e-9);
        assert!((contrast("#777777", "#fff") - 4.48).abs() < 0.005);
    }

    #[test]
    fn texts_in_bars_can_be_read_and_bars_be_seen() {
        for theme in THEMES {
            let of = colours(theme);
            for n in 0..8 {
                let rule = format!(".l{n} {{ --c: var(--l{n}); --i: var(--i{n}); }}");
                assert!(STYLE.contains(&rule), "{rule}");
                let (bar, text) = (of[format!("l{n}").as_str()], of[format!("i{n}").as_str()]);
                assert!(contrast(bar, text) >= 4.5, "{theme} l{n}: {}", contrast(bar, text));
            }
            // Their outline.
            assert!(contrast(of["soft"], of["paper"]) >= 3.0, "{theme}");
        }
        assert!(STYLE.contains("text.inside { fill: var(--i);"));
        assert!(STYLE.contains(".layer { fill: var(--c); stroke: var(--soft);"));
    }

    /// A theme that was chosen is stronger than what is written for paper.
    #[test]
    fn dark_is_for_screens() {
        assert_eq!(colours(THEMES[1]), colours(THEMES[2]));
        for theme in &THEMES[1..] {
            let before = &STYLE[..STYLE.find(theme).unwrap()];
            let media = &before[before.rfind("@media").unwrap()..];
            assert!(media.starts_with("@media screen") && !media.contains('}'), "{theme}: {media}");
        }
    }
}
