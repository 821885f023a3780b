//! Plain tables of the page.

use super::parts::{close_table, open_table};
use crate::markup::Markup;

/// A table whose cells are texts, whose rows are all alike and whose first column names the row. One with colours, links,
/// keys to sort by or cells that are joined is written with [`open_table`] instead.
#[derive(Debug)]
pub(crate) struct PlainTable {
    /// Which columns hold numbers.
    numbers: Vec<bool>,
    markup: Markup,
}

impl PlainTable {
    /// An empty table of that class, none where it is empty; columns are names, and whether they hold numbers.
    pub(crate) fn new(class: &str, columns: &[(&str, bool)]) -> Self {
        Self { numbers: columns.iter().map(|c| c.1).collect(), markup: open_table(class, columns) }
    }

    /// Adds a row: what it is about, then a cell for each other column.
    pub(crate) fn push(&mut self, head: &str, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        let classes = self.numbers.iter().map(|number| if *number { &[("class", "n")][..] } else { &[] });
        let mut classes = classes.fuse();
        let scope = [&[("scope", "row")], classes.next().unwrap_or_default()].concat();
        self.markup.open("tr", &[]).element("th", &scope, head);
        let mut count = 1;
        for cell in cells {
            self.markup.element("td", classes.next().unwrap_or_default(), cell.as_ref());
            count += 1;
        }
        debug_assert_eq!(count, self.numbers.len(), "{head}");
        self.markup.close("tr");
    }

    /// The whole table.
    pub(crate) fn finish(mut self) -> Markup {
        close_table(&mut self.markup);
        self.markup
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_the_class_of_their_column() {
        let mut table = PlainTable::new("", &[("Path", false), ("Bytes", true), ("Why", false)]);
        table.push("a", ["1", "<b>"]);
        let page = table.finish().into_string();
        let row = "<tr><th scope=\"row\">a</th><td class=\"n\">1</td><td>&lt;b&gt;</td></tr>";
        assert!(page.ends_with(&format!("<tbody>{row}</tbody></table>")), "{page}");
        let mut table = PlainTable::new("", &[("Trial", true)]);
        table.push("7", [""; 0]);
        assert!(table.finish().into_string().contains("<th scope=\"row\" class=\"n\">7</th>"));
    }
}
