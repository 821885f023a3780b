//! What a page defines. It reads the part of Markdown that the pages use, and nothing of it can fail: what isn't understood is text.

/// Longest text that stands below a heading's answer, in characters: the rest is on the page.
const SECTION: usize = 700;
/// Longest word that is looked up.
const TERM: usize = 60;

/// How something is defined; what comes first says more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A row of a table.
    Row,
    /// A paragraph or an item that begins with the word in bold.
    Lead,
    /// A heading with what follows it.
    Section,
}

/// A word and what a page says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) term: String,
    pub(crate) text: String,
    pub(crate) kind: Kind,
    /// Where on the page: a heading's anchor, empty above the first one.
    pub(crate) anchor: String,
}

/// Everything that a page defines, in its order.
pub(crate) fn entries(text: &str) -> Vec<Entry> {
    let mut page = Page::default();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            page.end_text();
            page.columns = None;
            fenced = !fenced;
        } else if !fenced {
            page.line(line);
        }
    }
    page.end_section();
    page.entries
}

#[derive(Debug, Default)]
struct Page {
    entries: Vec<Entry>,
    anchor: String,
    /// The heading that is being read, and the text below it so far.
    section: Option<(String, String)>,
    /// Lines of the paragraph or item that is being read.
    block: Vec<String>,
    /// Names of the columns of the table that is being read.
    columns: Option<Vec<String>>,
}

impl Page {
    /// A line outside of code.
    fn line(&mut self, line: &str) {
        if let Some(title) = heading(line) {
            self.end_section();
            self.section = Some((plain(title), String::new()));
            self.anchor = anchor(title);
        } else if line.starts_with('|') {
            self.end_text();
            self.row(line);
        } else if line.trim().is_empty() {
            self.end_text();
            self.columns = None;
        } else {
            let item = line.trim_start().strip_prefix("- ");
            if item.is_some() {
                self.end_text();
            }
            self.columns = None;
            self.block.push(item.unwrap_or(line).trim().to_owned());
        }
    }

    fn put(&mut self, term: &str, text: &str, kind: Kind) {
        let term = term.trim();
        if !term.is_empty() && term.chars().count() <= TERM && !text.trim().is_empty() {
            let (term, text) = (term.to_owned(), text.trim().to_owned());
            self.entries.push(Entry { term, text, kind, anchor: self.anchor.clone() });
        }
    }

    /// Ends the paragraph or item that is being read.
    fn end_text(&mut self) {
        let text = std::mem::take(&mut self.block).join(" ");
        if text.is_empty() {
            return;
        }
        if let Some((term, _)) = text.strip_prefix("**").and_then(|rest| rest.split_once("**")) {
            for term in terms(term) {
                self.put(&term, &plain(&text), Kind::Lead);
            }
        }
        if let Some((_, said)) = &mut self.section
            && said.chars().count() < SECTION
        {
            if !said.is_empty() {
                said.push('\n');
            }
            said.push_str(&plain(&text));
        }
    }

    fn end_section(&mut self) {
        self.end_text();
        self.columns = None;
        if let Some((title, said)) = self.section.take() {
            self.put(&title, &said, Kind::Section);
        }
    }

    fn row(&mut self, line: &str) {
        let cells = cells(line);
        let Some(columns) = self.columns.clone() else {
            self.columns = Some(cells.iter().map(|cell| plain(cell)).collect());
            return;
        };
        let Some((first, rest)) = cells.split_first() else { return };
        if first.chars().all(|c| "-: ".contains(c)) && !first.is_empty() {
            return;
        }
        let said: Vec<String> = rest
            .iter()
            .enumerate()
            .filter(|(_, cell)| !cell.is_empty())
            .map(|(at, cell)| match columns.get(at + 1).filter(|name| !name.is_empty() && rest.len() > 1) {
                Some(name) => format!("{name}: {}", plain(cell)),
                None => plain(cell),
            })
            .collect();
        let said = said.join("\n");
        let terms = terms(first);
        for term in &terms {
            self.put(term, &said, Kind::Row);
        }
        // What tables of reports and terminals call a metric.
        if columns.get(1).is_some_and(|name| name == "label")
            && let Some(label) = rest.first().map(|label| plain(label))
            && !label.starts_with('…')
            && !terms.contains(&label)
        {
            self.put(&label, &said, Kind::Row);
        }
    }
}

/// The title of a heading.
fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    ((1..=6).contains(&level) && title.starts_with(' ')).then(|| title.trim())
}

/// The cells of a table's row; a bar in code or behind a backslash is none between cells.
fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|');
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let mut cells = vec![String::new()];
    let (mut code, mut escaped) = (false, false);
    for letter in inner.chars() {
        code ^= letter == '`';
        if letter == '|' && !code && !escaped {
            cells.push(String::new());
        } else if (letter != '\\' || escaped)
            && let Some(cell) = cells.last_mut()
        {
            cell.push(letter);
        }
        escaped = letter == '\\' && !escaped;
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// The words that the first cell of a row, or a text in bold, is about: each that is code, and the whole, without what stands in
/// parentheses behind it.
fn terms(cell: &str) -> Vec<String> {
    let mut terms: Vec<String> = Vec::new();
    for (i, part) in cell.split('`').enumerate() {
        if i % 2 == 1 {
            terms.push(part.to_owned());
        }
    }
    let whole = plain(cell).replace('`', "");
    let without = whole.split(" (").next().unwrap_or_default().to_owned();
    let parts = without.split(", ").map(str::to_owned).filter(|part| *part != without);
    terms.extend(parts.collect::<Vec<_>>());
    terms.extend([without, whole]);
    let mut seen = std::collections::BTreeSet::new();
    terms.retain(|term| seen.insert(normal(term)));
    terms
}

/// A word as it is compared: letters small, `_` and `-` as blanks, nothing but letters and digits at its ends.
pub(crate) fn normal(term: &str) -> String {
    let small = term.to_lowercase().replace(['_', '-', '`', '*'], " ");
    let words: Vec<&str> = small.split_whitespace().collect();
    words.join(" ").trim_matches(|c: char| !c.is_alphanumeric()).to_owned()
}

/// Markdown as a terminal shows it: links by their text, nothing in bold. Code keeps its marks.
pub(crate) fn plain(text: &str) -> String {
    let text = text.replace("**", "");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('[') {
        out.push_str(before);
        match after.split_once("](").and_then(|(label, to)| Some((label, to.split_once(')')?.1))) {
            Some((label, behind)) if !label.contains('[') => {
                out.push_str(label);
                rest = behind;
            }
            _ => {
                out.push('[');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out.trim().to_owned()
}

/// The anchor that a heading gets on the page.
fn anchor(title: &str) -> String {
    let kept = title.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: &str = "\
# Title

Above.

## Tax

The tax is [a ratio](x.md#y), **always**
above 1.

- **Why the median**: it holds.
- an item

| word | means |
|---|---|
| can't tell (`inconclusive`) | anything `a|b` else |
| `p50`, `p99` | a \\| b |

```sh
| not | a row |
```

| key | default | meaning |
|---|---|---|
| `until` | `3%` | stop |
";

    fn said(entries: &[Entry], term: &str) -> Vec<(String, Kind, String)> {
        let found = entries.iter().filter(|e| normal(&e.term) == normal(term));
        found.map(|e| (e.text.clone(), e.kind, e.anchor.clone())).collect()
    }

    #[test]
    fn tables_bold_words_and_headings_define() {
        let entries = entries(PAGE);
        let tax = said(&entries, "TAX");
        assert_eq!(tax.len(), 1, "{entries:#?}");
        assert!(
            tax[0].0.starts_with("The tax is a ratio, always above 1.\nWhy the median: it holds."),
            "{tax:?}"
        );
        assert_eq!((tax[0].1, tax[0].2.as_str()), (Kind::Section, "tax"));
        assert_eq!(said(&entries, "why the median")[0].1, Kind::Lead);
        for term in ["inconclusive", "can't tell"] {
            assert_eq!(said(&entries, term)[0], ("anything `a|b` else".into(), Kind::Row, "tax".into()));
        }
        for term in ["p50", "p99"] {
            assert_eq!(said(&entries, term)[0].0, "a | b");
        }
        assert_eq!(said(&entries, "until")[0].0, "default: `3%`\nmeaning: stop");
        assert!(said(&entries, "not").is_empty() && said(&entries, "word").is_empty(), "{entries:#?}");
    }

    #[test]
    fn anchors_are_those_of_the_page() {
        assert_eq!(anchor("Why `a` isn't B, or C_d"), "why-a-isnt-b-or-c_d");
        assert_eq!(plain("see [a](b) and [c] or [d](e"), "see a and [c] or [d](e");
    }

    proptest! {
        #[test]
        fn any_text_is_a_page(text in "([#|`*\\[\\]()\\\\ a-é\n-]|\\*\\*|```|\n){0,200}") {
            for entry in entries(&text) {
                prop_assert!(!entry.text.is_empty() && entry.term.chars().count() <= TERM);
            }
        }
    }
}
