//! Parts of the page that chapters share.

use vtax_store::summary::Verdict;

use crate::markup::Markup;
use crate::plot::series;
use crate::words::{sign, word};

/// A heading that can be pointed at: `title: label`, where there are several of its kind.
pub(crate) fn heading(m: &mut Markup, prefix: &str, part: &str, title: &str, label: &str) {
    m.element("h3", &[("id", &format!("{prefix}-{part}"))], &titled(title, label));
}

/// `title: label`, where there is one.
pub(crate) fn titled(title: &str, label: &str) -> String {
    if label.is_empty() { title.to_owned() } else { format!("{title}: {label}") }
}

/// A figure with its caption and a key of its series: class, label.
pub(crate) fn figure(caption: &str, keys: &[(&'static str, String)], picture: &Markup) -> Markup {
    let mut m = Markup::new();
    m.open("figure", &[]);
    if !caption.is_empty() {
        m.element("figcaption", &[], caption);
    }
    m.add(&key(keys)).add(picture).close("figure");
    m
}

/// The key of a figure; the page's script turns its entries into switches.
pub(crate) fn key(keys: &[(&'static str, String)]) -> Markup {
    let mut m = Markup::new();
    if keys.len() < 2 {
        return m;
    }
    m.open("ul", &[("class", "key")]);
    for (class, label) in keys {
        m.open("li", &[("class", class), ("data-series", class)]);
        m.fixed("<i></i>").text(label).close("li");
    }
    m.close("ul");
    m
}

/// A table that scrolls by itself where the page is too narrow for it.
pub(crate) fn scrolling(table: &Markup) -> Markup {
    scroll("scroll", table)
}

fn scroll(class: &str, table: &Markup) -> Markup {
    let mut m = Markup::new();
    // What a keyboard can reach has to say what it is.
    let name = about(table);
    let attributes = [("class", class), ("tabindex", "0"), ("role", "region"), ("aria-label", name.as_str())];
    m.open("div", &attributes).add(table).close("div");
    m
}

/// What a table is about: the names of its first columns.
fn about(table: &Markup) -> String {
    const MOST: usize = 4;
    let names: Vec<String> = names(table).filter(|name| !name.is_empty()).take(MOST).collect();
    if names.is_empty() { "Table".to_owned() } else { format!("Table: {}", names.join(", ")) }
}

/// Begins a table of that class, none where it is empty: its head, then its body, which rows follow.
pub(crate) fn open_table(class: &str, columns: &[(&str, bool)]) -> Markup {
    let mut table = Markup::new();
    let attributes = [("class", class)];
    table.open("table", if class.is_empty() { &[] } else { &attributes });
    head(&mut table, columns);
    table.open("tbody", &[]);
    table
}

/// Tables whose rows are stacked on narrow windows, without the head, and that don't say by themselves what their cells are.
const STACKED: [&str; 2] = ["<table class=\"stacked\">", "<table class=\"stacked told"];

/// Ends a table.
pub(crate) fn close_table(table: &mut Markup) {
    table.close("tbody").close("table");
    if STACKED.iter().any(|start| table.begins_with(start)) {
        let names: Vec<String> = names(table).collect();
        table.label_cells(&names);
    }
}

/// What the columns of a table are called.
fn names(table: &Markup) -> impl Iterator<Item = String> {
    table.texts_of("<th scope=\"col\"", "</th>")
}

/// The head of a table, with a class for columns of numbers.
pub(crate) fn head(m: &mut Markup, columns: &[(&str, bool)]) {
    m.open("thead", &[]).open("tr", &[]);
    for (name, number) in columns {
        m.element("th", &[("scope", "col"), ("class", if *number { "n" } else { "" })], name);
    }
    m.close("tr").close("thead");
}

/// The class of a table of many narrow columns, which has to fit the text's width: names of columns are broken, and
/// the first column stays where the rest is scrolled.
pub(crate) const FIGURES: &str = "figures";

/// A table that scrolls by itself; one of many columns may use all of a wide window.
pub(crate) fn wide(table: &Markup, columns: usize) -> Markup {
    if columns <= 6 {
        return scrolling(table);
    }
    scroll("scroll bleed", table)
}

/// A table that is shown on demand.
pub(crate) fn details(summary: &str, table: &Markup) -> Markup {
    let mut m = Markup::new();
    m.open("details", &[]).element("summary", &[], summary).add(&scrolling(table)).close("details");
    m
}

/// A verdict as word and sign: never colour alone.
pub(crate) fn badge(verdict: Verdict) -> Markup {
    let class = match verdict {
        Verdict::Better => "badge better",
        Verdict::Worse => "badge worse",
        Verdict::Equivalent => "badge equivalent",
        Verdict::Inconclusive => "badge unknown",
    };
    let mut m = Markup::new();
    m.open("span", &[("class", class)]);
    m.element("i", &[("aria-hidden", "true")], sign(verdict)).text(word(verdict)).close("span");
    m
}

/// A list of words with what they mean.
pub(crate) fn definitions(words: &[(&str, &str)]) -> Markup {
    let mut m = Markup::new();
    m.open("dl", &[("class", "words")]);
    for (word, meaning) in words {
        m.element("dt", &[], word).element("dd", &[], meaning);
    }
    m.close("dl");
    m
}

/// Opens a row with the name of a cell and the mark of its colour.
pub(crate) fn row_head(table: &mut Markup, label: &str, position: usize) {
    table.open("tr", &[]).open("th", &[("scope", "row"), ("class", series(position))]);
    table.fixed("<i class=\"dot\"></i>").text(label).close("th");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a phone there is no head that says which number is which.
    #[test]
    fn cells_of_stacked_tables_have_the_names_of_their_columns() {
        let drawn = |class: &str| {
            let mut table = open_table(class, &[("Where", false), ("A `b` & \"c\"", true)]);
            table.open("tr", &[]).element("th", &[("scope", "row")], "x");
            table.element("td", &[("class", "n")], "1").close("tr");
            close_table(&mut table);
            table.into_string()
        };
        for class in ["stacked", "stacked told", "stacked told claims"] {
            let row = "<tr><th scope=\"row\">x</th><td data-label=\"A b &amp; &quot;c&quot;\" class=\"n\">1</td></tr>";
            assert!(drawn(class).contains(row), "{}", drawn(class));
        }
        // They have a style of their own for that, or a head.
        for class in ["", "verdicts", "stacked runs", "sortable stacked trials"] {
            assert!(!drawn(class).contains("data-label"), "{class}");
        }
        let narrow = crate::pages::STYLE.split("@media (max-width: 640px)").nth(1).unwrap();
        let narrow = narrow.split("@media").next().unwrap();
        assert!(narrow.contains(".stacked td[data-label]::before { content: attr(data-label) \" \";"));
    }

    #[test]
    fn what_scrolls_says_what_it_is() {
        let mut table = open_table("", &[("`a` <b>", false), ("", false), ("5 & more", true)]);
        close_table(&mut table);
        let named = "tabindex=\"0\" role=\"region\" aria-label=\"Table: a &lt;b&gt;, 5 &amp; more\">";
        for markup in [scrolling(&table), wide(&table, 9), details("As a table", &table)] {
            let page = markup.into_string();
            assert!(page.contains(named), "{page}");
        }
        let bare = scrolling(&Markup::new()).into_string();
        assert!(bare.contains("aria-label=\"Table\""), "{bare}");
    }
}
