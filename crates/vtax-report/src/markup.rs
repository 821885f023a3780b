//! A writer of HTML and SVG that escapes everything.
//!
//! Service names, log lines and notes come from outside: text and attribute values can reach the
//! page only through methods that escape them. What is not escaped is `&'static str`.

use vtax_units::drives_terminal;

/// A piece of HTML or SVG.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Markup(String);

/// Attributes as name and value.
pub type Attributes<'a> = &'a [(&'static str, &'a str)];

/// Elements whose text is for reading.
const PROSE: [&str; 8] = ["p", "li", "td", "th", "dd", "figcaption", "caption", "h1"];

impl Markup {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens an element.
    pub fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) -> &mut Self {
        self.tag(tag, attributes, ">")
    }

    /// Closes an element.
    pub fn close(&mut self, tag: &'static str) -> &mut Self {
        for part in ["</", tag, ">"] {
            self.0.push_str(part);
        }
        self
    }

    /// An element without content.
    pub fn empty(&mut self, tag: &'static str, attributes: Attributes<'_>) -> &mut Self {
        self.tag(tag, attributes, "/>")
    }

    /// An element with text in it; what sentences have between backticks becomes code.
    pub fn element(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) -> &mut Self {
        self.open(tag, attributes);
        if PROSE.contains(&tag) {
            self.prose(text)
        } else {
            self.text(text)
        };
        self.close(tag)
    }

    /// Text for reading, as a terminal shows it as well: what stands between backticks is code.
    pub fn prose(&mut self, text: &str) -> &mut Self {
        let marks = text.matches('`').count();
        for (i, part) in text.split('`').enumerate() {
            match i % 2 {
                1 if i < marks => self.open("code", &[]).text(part).close("code"),
                // One without its partner.
                1 => self.text("`").text(part),
                _ => self.text(part),
            };
        }
        self
    }

    /// Text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        escape(text, &mut self.0);
        self
    }

    /// Another piece.
    pub fn add(&mut self, other: &Self) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }

    /// Markup that is part of this program: style, script, fixed sentences.
    pub fn fixed(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// True where nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The texts of its elements that begin and end so, without the elements inside of them.
    pub(crate) fn texts_of(&self, start: &str, end: &str) -> impl Iterator<Item = String> {
        self.0.split(start).skip(1).map(move |rest| plain(rest.split(end).next().unwrap_or_default()))
    }

    /// True where it begins so.
    pub(crate) fn begins_with(&self, start: &str) -> bool {
        self.0.starts_with(start)
    }

    /// Of a table: says at each cell (`data-label`) what its column is called. What a row begins with, a cell over several columns and one
    /// of a column without a name get none.
    pub(crate) fn label_cells(&mut self, columns: &[String]) {
        let Some((head, body)) = self.0.split_once("<tbody>") else { return };
        let mut out = format!("{head}<tbody>");
        // Before which row no other cell is in a column: one from above reaches to there.
        let mut free = vec![0; columns.len()];
        let (mut row, mut column) = (0, 0);
        // In texts and attributes there is none of these.
        for (i, part) in body.split('<').enumerate() {
            if i > 0 {
                out.push('<');
            }
            let tag = part.split([' ', '>']).next().unwrap_or_default();
            out.push_str(tag);
            match tag {
                "tr" => (row, column) = (row + 1, 0),
                "td" | "th" => {
                    while free.get(column).is_some_and(|free| *free > row) {
                        column += 1;
                    }
                    let (across, down) = (span(part, " colspan=\""), span(part, " rowspan=\""));
                    free.iter_mut().skip(column).take(across).for_each(|free| *free = row + down);
                    let name = columns.get(column).filter(|name| !name.is_empty());
                    if let Some(name) = name.filter(|_| tag == "td" && across == 1) {
                        out.push_str(" data-label=\"");
                        escape(name, &mut out);
                        out.push('"');
                    }
                    column += across;
                }
                _ => {}
            }
            out.push_str(&part[tag.len()..]);
        }
        self.0 = out;
    }

    /// The piece as text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    fn tag(&mut self, tag: &str, attributes: Attributes<'_>, end: &str) -> &mut Self {
        self.0.push('<');
        self.0.push_str(tag);
        for (name, value) in attributes {
            for part in [" ", name, "=\""] {
                self.0.push_str(part);
            }
            escape(value, &mut self.0);
            self.0.push('"');
        }
        self.0.push_str(end);
        self
    }
}

/// Over how many columns or rows the cell reaches whose tag this begins with, as that attribute says.
fn span(cell: &str, attribute: &str) -> usize {
    let attributes = cell.split('>').next().unwrap_or_default();
    let said = attributes.split_once(attribute).and_then(|(_, value)| value.split('"').next()?.parse().ok());
    said.unwrap_or(1)
}

/// The text of markup that begins within a tag.
fn plain(markup: &str) -> String {
    let text: String =
        markup.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    let signs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
    signs.into_iter().fold(text, |text, (escaped, sign)| text.replace(escaped, sign))
}

/// Escapes what HTML and XML give a meaning to, and replaces control characters, which XML forbids, and marks of
/// direction, by which a text would show another order than it has.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if drives_terminal(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nests() {
        let mut m = Markup::new();
        m.open("p", &[("class", "a")]).text("1 < 2").element("b", &[], "&").close("p").empty("br", &[]);
        assert_eq!(m.into_string(), "<p class=\"a\">1 &lt; 2<b>&amp;</b></p><br/>");
    }

    #[test]
    fn backticks_are_code_in_sentences() {
        let mut m = Markup::new();
        m.element("p", &[], "try `a <b>` or `c`, it's a `").element("pre", &[], "`d`");
        let expected = "<p>try <code>a &lt;b&gt;</code> or <code>c</code>, it&#39;s a `</p><pre>`d`</pre>";
        assert_eq!(m.into_string(), expected);
    }

    #[test]
    fn cells_say_what_their_columns_are_called() {
        let columns = ["Claim", "Verdict", "", "\"95 %\" <b>"].map(str::to_owned);
        let mut m = Markup::new();
        m.open("table", &[]).open("tbody", &[]).open("tr", &[]);
        m.element("th", &[("rowspan", "2")], "a").element("td", &[("class", "x"), ("rowspan", "2")], "held");
        m.element("td", &[], "1").element("td", &[], "td 2").close("tr").open("tr", &[]);
        m.element("td", &[], "3")
            .open("td", &[])
            .element("b", &[], "4")
            .close("td")
            .close("tr")
            .open("tr", &[]);
        m.element("th", &[], "b").element("td", &[("colspan", "3")], "none").close("tr");
        m.close("tbody").close("table").label_cells(&columns);
        let label = "data-label=\"&quot;95 %&quot; &lt;b&gt;\"";
        let expected = format!(
            "<table><tbody><tr><th rowspan=\"2\">a</th><td data-label=\"Verdict\" class=\"x\" rowspan=\"2\">held</td>\
             <td>1</td><td {label}>td 2</td></tr><tr><td>3</td><td {label}><b>4</b></td></tr>\
             <tr><th>b</th><td colspan=\"3\">none</td></tr></tbody></table>"
        );
        assert_eq!(m.into_string(), expected);
    }

    #[test]
    fn nothing_reorders_the_text_around_it() {
        let mut m = Markup::new();
        m.element("p", &[("title", "a\u{202e}b")], "c\u{2066}d\u{200f}e\n\tf");
        assert_eq!(m.into_string(), "<p title=\"a\u{fffd}b\">c\u{fffd}d\u{fffd}e\n\tf</p>");
    }

    proptest! {
        #[test]
        fn nothing_breaks_out(text in any::<String>()) {
            let mut m = Markup::new();
            m.element("p", &[("title", &text)], &text);
            let s = m.into_string().replace("<code>", "").replace("</code>", "");
            prop_assert_eq!(s.matches('<').count(), 2);
            prop_assert_eq!(s.matches('>').count(), 2);
            prop_assert_eq!(s.matches('"').count(), 2);
        }
    }
}
