//! What tests of several kinds of report share.

/// Every element of a page that opens closes, in order.
pub(crate) fn balanced(page: &str) {
    const VOID: [&str; 2] = ["meta", "!doctype"];
    let script = page.find("<script>").unwrap();
    let mut open: Vec<&str> = Vec::new();
    for piece in page[..script].split('<').skip(1) {
        let (tag, _) = piece.split_once('>').unwrap_or_else(|| panic!("no end: {piece}"));
        let name = tag.split([' ', '/', '\n']).find(|n| !n.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "before </{name}>");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert_eq!(open, ["html", "body"]);
}
