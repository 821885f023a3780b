//! The XML of a scenario as elements with their lines.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::{Problem, SCENARIO_BYTES_MAX};

/// Deepest nesting: scenario, command, action, the action itself, and one to spare.
const DEPTH_MAX: usize = 5;
/// Most elements of a file.
const ELEMENTS_MAX: usize = 20_000;
/// Most attributes of an element.
const ATTRIBUTES_MAX: usize = 64;

/// An element.
#[derive(Debug, Default)]
pub(super) struct Element {
    pub(super) name: String,
    /// Where it begins, from 1.
    pub(super) line: u32,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) children: Vec<Element>,
    /// Its CDATA sections, as they are.
    pub(super) text: Vec<u8>,
    /// Where the first of them begins; 0 where there is none.
    pub(super) text_line: u32,
    /// It has text that is in no CDATA section.
    pub(super) loose_text: bool,
}

impl Element {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// Counts lines as far as one has read.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
}

impl Lines<'_> {
    /// The line of a place that isn't before the last one asked for.
    fn of(&mut self, position: u64) -> u32 {
        let to = usize::try_from(position).unwrap_or(usize::MAX).min(self.bytes.len());
        if to > self.at {
            self.line += memchr::memchr_iter(b'\n', &self.bytes[self.at..to]).count() as u32;
            self.at = to;
        }
        self.line
    }
}

/// Reads a file: its outermost element.
pub(super) fn read(bytes: &[u8]) -> Result<Element, Problem> {
    if bytes.len() > SCENARIO_BYTES_MAX {
        return Err(Problem { line: 1, what: format!("longer than {SCENARIO_BYTES_MAX} bytes") });
    }
    // Some editors put a byte order mark before everything.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut lines = Lines { bytes, at: 0, line: 1 };
    let mut reader = Reader::from_reader(bytes);
    // The elements that are open; the first holds the outermost one.
    let mut open = vec![Element::default()];
    let mut count = 0;
    loop {
        let line = lines.of(reader.buffer_position());
        let event = match reader.read_event() {
            Ok(event) => event,
            Err(error) => {
                let line = lines.of(reader.error_position());
                return Err(Problem { line, what: format!("no well-formed XML: {error}") });
            }
        };
        match event {
            Event::Start(start) => {
                count += 1;
                check(open.len(), count, line)?;
                open.push(element(&start, line)?);
            }
            Event::Empty(start) => {
                count += 1;
                check(open.len(), count, line)?;
                let element = element(&start, line)?;
                last(&mut open).children.push(element);
            }
            Event::End(_) => {
                // The reader has matched it with its beginning.
                if let Some(element) = open.pop()
                    && !open.is_empty()
                {
                    last(&mut open).children.push(element);
                }
            }
            Event::CData(text) => {
                let element = last(&mut open);
                if element.text_line == 0 {
                    element.text_line = line;
                }
                element.text.extend_from_slice(&text);
            }
            Event::Text(text) => {
                last(&mut open).loose_text |= text.iter().any(|byte| !byte.is_ascii_whitespace());
            }
            Event::GeneralRef(_) => last(&mut open).loose_text = true,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            Event::Eof => break,
        }
    }
    finish(open, lines.line)
}

/// The element that what comes next belongs to.
fn last(open: &mut Vec<Element>) -> &mut Element {
    if open.is_empty() {
        open.push(Element::default());
    }
    let at = open.len() - 1;
    &mut open[at]
}

fn check(depth: usize, count: usize, line: u32) -> Result<(), Problem> {
    if depth > DEPTH_MAX {
        return Err(Problem { line, what: format!("elements are nested deeper than {DEPTH_MAX}") });
    }
    if count > ELEMENTS_MAX {
        return Err(Problem { line, what: format!("more than {ELEMENTS_MAX} elements") });
    }
    Ok(())
}

fn finish(mut open: Vec<Element>, line: u32) -> Result<Element, Problem> {
    if open.len() != 1 {
        let unended = open.last().map(|e| e.name.as_str()).unwrap_or_default();
        return Err(Problem { line, what: format!("<{unended}> doesn't end") });
    }
    let mut found = open.remove(0).children;
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Problem { line: 1, what: "there is no element".to_owned() }),
        _ => Err(Problem { line: found[1].line, what: "more than one outermost element".to_owned() }),
    }
}

fn element(start: &BytesStart<'_>, line: u32) -> Result<Element, Problem> {
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute
            .map_err(|error| Problem { line, what: format!("no well-formed attribute: {error}") })?;
        if attributes.len() == ATTRIBUTES_MAX {
            return Err(Problem { line, what: format!("more than {ATTRIBUTES_MAX} attributes") });
        }
        let value = text(&attribute.value);
        // SIPp takes a `&` for itself where it begins no entity.
        let value = quick_xml::escape::unescape(&value).map(std::borrow::Cow::into_owned).unwrap_or(value);
        attributes.push((text(attribute.key.as_ref()), value));
    }
    let name = text(start.name().as_ref());
    Ok(Element { name, line, attributes, ..Element::default() })
}

/// Text of a file that says it is ISO-8859-1, as SIPp's do, or UTF-8, as most then are.
fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_know_their_lines() {
        let file = b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\" ?>\n<!DOCTYPE scenario SYSTEM \"sipp.dtd\">\n\
            <!-- a\n comment -->\n<scenario name=\"a &lt; b &amp; c\">\n  <send retrans=\"500\">\n    \
            <![CDATA[\n\n      INVITE <x>\n    ]]>\n  </send>\n  <recv response=\"200\"\n    rtd=\"true\"/>\n</scenario>\n";
        let root = read(file).unwrap();
        assert_eq!((root.name.as_str(), root.line, root.get("name")), ("scenario", 5, Some("a < b & c")));
        let [send, recv] = &root.children[..] else { panic!("{root:?}") };
        assert_eq!((send.line, send.text_line, send.get("retrans")), (6, 7, Some("500")));
        assert_eq!(send.text, b"\n\n      INVITE <x>\n    ");
        assert_eq!((recv.line, recv.get("rtd"), recv.get("nothing")), (12, Some("true"), None));
        assert!(!send.loose_text);
    }

    #[test]
    fn what_is_no_file_of_elements_is_refused_with_its_line() {
        for (file, line, what) in [
            ("", 1, "no element"),
            ("<a>\n<b>\n</a>", 3, "well-formed"),
            ("<a>\n<b>\n", 3, "doesn't end"),
            ("<a/>\n<b/>", 2, "more than one"),
            ("<a><b><c><d><e>\n<f/></e></d></c></b></a>", 2, "nested deeper"),
            ("<a x=\"1\" x=\"2\"/>", 1, "attribute"),
        ] {
            let problem = read(file.as_bytes()).unwrap_err();
            assert!(problem.line == line && problem.what.contains(what), "{file}: {problem}");
        }
        let long = vec![b' '; SCENARIO_BYTES_MAX + 1];
        assert!(read(&long).unwrap_err().what.contains("longer"));
    }

    #[test]
    fn latin_1_and_stray_ampersands_are_taken() {
        let root = read(b"<a name=\"J\xf6rg\" regexp=\"a & b\"><![CDATA[\xf6]]>\n&amp;</a>").unwrap();
        assert_eq!(root.get("name"), Some("J\u{f6}rg"));
        assert_eq!(root.get("regexp"), Some("a & b"));
        assert!(root.text == b"\xf6" && root.loose_text);
    }
}
