//! Messages of a scenario: text with keywords in brackets.

use super::Problems;

/// Most parts of one message.
const PARTS_MAX: usize = 4_096;
/// Names of headers and files, and values of parameters, are no longer.
const WORD_MAX: usize = 512;

/// A message: what is sent, piece by piece.
///
/// Lines are without white space at their ends, as SIPp sends them, and end with CR LF.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Template {
    /// In order.
    pub parts: Vec<Part>,
    /// Method of a request; empty for a response.
    pub method: Vec<u8>,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Text as it is.
    Text(Vec<u8>),
    /// What stands for something else.
    Keyword(Keyword),
    /// A line with a keyword that may stand for nothing: it, and what follows it in the line, is then left out; a line of which nothing
    /// is left is none.
    Line(Vec<Part>),
    /// The head ends and the body begins.
    Body,
}

/// What a keyword stands for. A number behind a name is added to the value.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each is SIPp's keyword of that name")]
pub enum Keyword {
    Service,
    RemoteIp,
    RemotePort(i32),
    Transport,
    LocalIp,
    LocalIpType,
    LocalPort(i32),
    MediaIp,
    MediaIpType,
    MediaPort(i32),
    /// `[media_port]`, another for each call.
    AutoMediaPort(i32),
    Len(i32),
    CallNumber(i32),
    Cseq(i32),
    CallId,
    /// The branch of the message that many commands before.
    Branch(i32),
    Pid,
    Routes,
    NextUrl,
    MsgIndex,
    /// Milliseconds since the load began.
    ClockTick,
    PeerTag,
    /// A header of the message that came last.
    Last(Box<[u8]>),
    LastMessage,
    LastRequestUri,
    LastCseq(i32),
    /// A field of the call's line in an injection file: the number of the file and that of the field.
    Field(u16, u16),
    /// A variable of the call.
    Variable(u16),
    /// As many characters of a text as a variable says.
    Fill(u16, Box<[u8]>),
    /// Credentials for the last challenge: user and password, where they are given.
    Authentication(Vec<Part>, Vec<Part>),
}

impl Keyword {
    /// Whether it may stand for nothing, and its line for nothing then.
    const fn may_vanish(&self) -> bool {
        matches!(self, Self::Last(_) | Self::Routes | Self::Authentication(..) | Self::Field(..))
    }
}

/// The names of a scenario that become numbers: variables and injection files, in the order in which they are first met.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Names {
    /// Variables.
    pub variables: Vec<String>,
    /// Injection files; that of `[field0]` has no name.
    pub files: Vec<String>,
}

/// Most variables, files, timers or counters of a scenario.
pub(super) const NAMES_MAX: usize = 1_000;

impl Names {
    /// The number of a variable; `None` where there are too many.
    pub(super) fn variable(&mut self, name: &str) -> Option<u16> {
        number(&mut self.variables, name)
    }

    fn file(&mut self, name: &str) -> Option<u16> {
        number(&mut self.files, name)
    }
}

/// The number of a name in a list that grows with it.
pub(super) fn number(names: &mut Vec<String>, name: &str) -> Option<u16> {
    if let Some(found) = names.iter().position(|own| own == name) {
        return Some(found as u16);
    }
    (names.len() < NAMES_MAX).then(|| {
        names.push(name.to_owned());
        names.len() as u16 - 1
    })
}

/// What templates are read with.
pub(super) struct Reading<'a> {
    pub(super) names: &'a mut Names,
    /// Generic keywords and what they stand for.
    pub(super) keys: &'a [(String, String)],
    pub(super) problems: &'a mut Problems,
}

impl Reading<'_> {
    /// A whole message, whose text begins in that line of the file.
    pub(super) fn message(&mut self, text: &[u8], line: u32) -> Template {
        let lines = lines(text, line);
        let is_said = |(_, text): &(u32, &[u8])| !text.is_empty();
        let begin = lines.iter().position(is_said).unwrap_or(lines.len());
        let end = lines.iter().rposition(is_said).map_or(begin, |last| last + 1);
        let lines = &lines[begin..end];
        let Some((first_line, first)) = lines.first().copied() else {
            self.problems.add(line, "the message is empty");
            return Template::default();
        };
        let method = self.method(first, first_line);
        let mut template = Template { parts: Vec::new(), method };
        let mut in_body = false;
        for &(line, text) in lines {
            if text.is_empty() && !in_body {
                in_body = true;
                template.push_text(b"\r\n");
                template.parts.push(Part::Body);
                continue;
            }
            let parts = self.parts(text, line);
            if parts.iter().any(|part| matches!(part, Part::Keyword(keyword) if keyword.may_vanish())) {
                template.parts.push(Part::Line(parts));
            } else {
                parts.into_iter().for_each(|part| template.push(part));
                template.push_text(b"\r\n");
            }
            if template.parts.len() > PARTS_MAX {
                self.problems.add(line, format!("a message of more than {PARTS_MAX} parts"));
                break;
            }
        }
        if !in_body {
            template.push_text(b"\r\n");
            template.parts.push(Part::Body);
        }
        template
    }

    fn method(&mut self, first: &[u8], line: u32) -> Vec<u8> {
        if first.starts_with(b"SIP/2.0 ") {
            return Vec::new();
        }
        let end = memchr::memchr(b' ', first).unwrap_or(first.len());
        if end == 0 || !first[..end].iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._!".contains(byte))
        {
            self.problems.add(line, "a message begins with a method, or with `SIP/2.0 ` and a status");
        }
        first[..end].to_vec()
    }

    /// A line, or the value of an attribute: its text and its keywords.
    pub(super) fn parts(&mut self, mut text: &[u8], line: u32) -> Vec<Part> {
        let mut found = Template::default();
        while let Some(open) = memchr::memchr(b'[', text) {
            if open > 0 && text[open - 1] == b'\\' {
                found.push_text(&text[..open - 1]);
                found.push_text(b"[");
                text = &text[open + 1..];
                continue;
            }
            found.push_text(&text[..open]);
            let inner = &text[open + 1..];
            let Some(end) = closing(inner) else {
                self.problems.add(line, "a keyword doesn't end: `]` is missing");
                return found.parts;
            };
            match self.keyword(&inner[..end], line) {
                Some(part) => found.push(part),
                None => found.push_text(&text[open..open + end + 2]),
            }
            text = &inner[end + 1..];
        }
        found.push_text(text);
        found.parts
    }

    /// What is in brackets. Where it is no keyword but an address of IPv6 it stays as it is.
    fn keyword(&mut self, text: &[u8], line: u32) -> Option<Part> {
        let Ok(text) = std::str::from_utf8(text) else {
            self.problems.add(line, "a keyword is no text");
            return None;
        };
        if text.len() > WORD_MAX {
            self.problems.add(line, format!("a keyword of more than {WORD_MAX} bytes"));
            return None;
        }
        if let Some((_, value)) = self.keys.iter().find(|(name, _)| name == text) {
            return Some(Part::Text(value.as_bytes().into()));
        }
        if text.parse::<std::net::Ipv6Addr>().is_ok() {
            return None;
        }
        let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
        let found = match name {
            "authentication" => self.authentication(rest, line),
            "fill" => self.fill(rest, line),
            _ => self.simple(text, line),
        };
        found.map(Part::Keyword)
    }

    fn simple(&mut self, text: &str, line: u32) -> Option<Keyword> {
        if let Some(name) = text.strip_prefix('$') {
            return self.variable(name, line).map(Keyword::Variable);
        }
        if let Some(rest) = text.strip_prefix("field") {
            return self.field(rest, line);
        }
        let (name, offset) = offset(text);
        Some(match name {
            "service" => Keyword::Service,
            "remote_ip" => Keyword::RemoteIp,
            "remote_port" => Keyword::RemotePort(offset),
            "transport" => Keyword::Transport,
            "local_ip" | "server_ip" => Keyword::LocalIp,
            "local_ip_type" => Keyword::LocalIpType,
            "local_port" => Keyword::LocalPort(offset),
            "media_ip" => Keyword::MediaIp,
            "media_ip_type" => Keyword::MediaIpType,
            "media_port" => Keyword::MediaPort(offset),
            "auto_media_port" => Keyword::AutoMediaPort(offset),
            "len" => Keyword::Len(offset),
            "call_number" => Keyword::CallNumber(offset),
            "cseq" => Keyword::Cseq(offset),
            "call_id" => Keyword::CallId,
            "branch" => Keyword::Branch(offset),
            "pid" => Keyword::Pid,
            "routes" => Keyword::Routes,
            "next_url" => Keyword::NextUrl,
            "msg_index" => Keyword::MsgIndex,
            "clock_tick" => Keyword::ClockTick,
            "peer_tag_param" => Keyword::PeerTag,
            "last_message" => Keyword::LastMessage,
            "last_Request_URI" => Keyword::LastRequestUri,
            "last_cseq_number" => Keyword::LastCseq(offset),
            _ => match text.strip_prefix("last_") {
                Some(header) if !header.is_empty() => {
                    Keyword::Last(header.trim_end_matches(':').as_bytes().into())
                }
                _ => {
                    self.problems.add(line, format!("the keyword [{text}] isn't supported"));
                    return None;
                }
            },
        })
    }

    pub(super) fn variable(&mut self, name: &str, line: u32) -> Option<u16> {
        if name.is_empty() || name.len() > WORD_MAX {
            self.problems.add(line, "a variable has no name");
            return None;
        }
        let found = self.names.variable(name);
        if found.is_none() {
            self.problems.add(line, format!("more than {NAMES_MAX} variables"));
        }
        found
    }

    /// `[field0]`, `[field1 file="x.csv"]`, without the word.
    fn field(&mut self, text: &str, line: u32) -> Option<Keyword> {
        let (number, rest) = text.split_once(' ').unwrap_or((text, ""));
        let Ok(number) = number.parse::<u16>() else {
            self.problems.add(line, format!("[field{text}] names no field"));
            return None;
        };
        let mut file = "";
        let parameters = parameters(rest);
        for (name, value) in &parameters {
            match name.as_str() {
                "file" => file = value,
                _ => {
                    self.problems.add(line, format!("`{name}` of [field{number}] isn't supported"));
                    return None;
                }
            }
        }
        let found = self.names.file(file);
        if found.is_none() {
            self.problems.add(line, format!("more than {NAMES_MAX} injection files"));
        }
        found.map(|file| Keyword::Field(file, number))
    }

    fn authentication(&mut self, text: &str, line: u32) -> Option<Keyword> {
        let (mut user, mut password) = (Vec::new(), Vec::new());
        for (name, value) in parameters(text) {
            match name.as_str() {
                "username" => user = self.parts(value.as_bytes(), line),
                "password" => password = self.parts(value.as_bytes(), line),
                _ => {
                    self.problems.add(line, format!("`{name}` of [authentication] isn't supported"));
                    return None;
                }
            }
        }
        Some(Keyword::Authentication(user, password))
    }

    fn fill(&mut self, text: &str, line: u32) -> Option<Keyword> {
        let (mut variable, mut filling) = (None, "X".to_owned());
        for (name, value) in parameters(text) {
            match name.as_str() {
                "variable" => variable = self.variable(&value, line),
                "text" if !value.is_empty() => filling = value,
                _ => {
                    self.problems.add(line, format!("`{name}` of [fill] isn't supported"));
                    return None;
                }
            }
        }
        if variable.is_none() {
            self.problems.add(line, "[fill] needs `variable`");
        }
        variable.map(|variable| Keyword::Fill(variable, filling.into_bytes().into()))
    }
}

impl Template {
    /// Adds a part; text joins the text before it.
    fn push(&mut self, part: Part) {
        match part {
            Part::Text(text) => self.push_text(&text),
            part => self.parts.push(part),
        }
    }

    fn push_text(&mut self, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        if let Some(Part::Text(last)) = self.parts.last_mut() {
            last.extend_from_slice(text);
        } else {
            self.parts.push(Part::Text(text.into()));
        }
    }
}

/// The lines of a text with their numbers, without white space at their ends.
fn lines(text: &[u8], first: u32) -> Vec<(u32, &[u8])> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.enumerate().map(|(i, line)| (first + i as u32, line.trim_ascii())).collect()
}

/// Where what was opened by a bracket is closed; brackets within it are in pairs.
fn closing(text: &[u8]) -> Option<usize> {
    let mut depth = 0_u32;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 0 => return Some(at),
            b']' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// A name with a number behind it: `cseq+1`, `branch-3`.
fn offset(text: &str) -> (&str, i32) {
    let Some(sign) = text.rfind(['+', '-']) else { return (text, 0) };
    match text[sign..].parse::<i32>() {
        // More would be a typing error, and has no place in the numbers it is added to.
        Ok(offset) if offset.unsigned_abs() <= 65_535 => (&text[..sign], offset),
        _ => (text, 0),
    }
}

/// `name=value` pairs; values may be in quotes, and have brackets with spaces in them.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some((name, after)) = rest.split_once('=') {
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_at(value_length(after)),
        };
        found.push((name.trim().to_owned(), value.to_owned()));
        rest = next.trim_start();
    }
    if !rest.is_empty() {
        // Told by whoever doesn't know it.
        found.push((rest.to_owned(), String::new()));
    }
    found
}

fn value_length(text: &str) -> usize {
    let mut depth = 0_u32;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Template, Vec<String>, Names) {
        let (mut names, mut problems) = (Names::default(), Problems::default());
        let keys = [("extra".to_owned(), "x-value".to_owned())];
        let mut reading = Reading { names: &mut names, keys: &keys, problems: &mut problems };
        let template = reading.message(text.as_bytes(), 10);
        (template, problems.0.iter().map(ToString::to_string).collect(), names)
    }

    fn text(text: &str) -> Part {
        Part::Text(text.as_bytes().into())
    }

    #[test]
    fn a_message_is_text_and_keywords() {
        let (template, problems, _) = read(
            "\n\n   INVITE sip:[service]@[remote_ip]:[remote_port+1] SIP/2.0 \n   Content-Length: [len]\n\n   v=0\n  [extra]\n\n",
        );
        assert_eq!(problems, [""; 0]);
        assert_eq!(template.method, b"INVITE");
        let keyword = Part::Keyword;
        let expected = [
            text("INVITE sip:"),
            keyword(Keyword::Service),
            text("@"),
            keyword(Keyword::RemoteIp),
            text(":"),
            keyword(Keyword::RemotePort(1)),
            text(" SIP/2.0\r\nContent-Length: "),
            keyword(Keyword::Len(0)),
            text("\r\n\r\n"),
            Part::Body,
            text("v=0\r\nx-value\r\n"),
        ];
        assert_eq!(template.parts, expected);
    }

    #[test]
    fn a_message_without_body_ends_with_an_empty_line() {
        let (template, problems, _) = read("SIP/2.0 200 OK\n  [last_Via:]\n  [last_To:];tag=1");
        assert_eq!((problems, template.method.len()), (Vec::new(), 0));
        let last = |name: &str| Part::Keyword(Keyword::Last(name.as_bytes().into()));
        let expected = [
            text("SIP/2.0 200 OK\r\n"),
            Part::Line(vec![last("Via")]),
            Part::Line(vec![last("To"), text(";tag=1")]),
            text("\r\n"),
            Part::Body,
        ];
        assert_eq!(template.parts, expected);
    }

    #[test]
    fn parameters_may_have_keywords() {
        let (template, problems, names) = read(
            "REGISTER sip:x SIP/2.0\n[authentication username=[field0] password=\"a b\"]\n[field3 file=\"u.csv\"] [$who] [fill variable=n text=ab]",
        );
        assert_eq!(problems, [""; 0]);
        assert_eq!(names.variables, ["who", "n"]);
        assert_eq!(names.files, ["", "u.csv"]);
        let Part::Line(parts) = &template.parts[1] else { panic!("{template:?}") };
        let user = vec![Part::Keyword(Keyword::Field(0, 0))];
        assert_eq!(parts[..], [Part::Keyword(Keyword::Authentication(user, vec![text("a b")]))]);
        let Part::Line(parts) = &template.parts[2] else { panic!("{template:?}") };
        assert_eq!(parts[0], Part::Keyword(Keyword::Field(1, 3)));
        assert_eq!(parts[2], Part::Keyword(Keyword::Variable(0)));
        assert_eq!(parts[4], Part::Keyword(Keyword::Fill(1, Box::from(&b"ab"[..]))));
    }

    #[test]
    fn what_is_no_keyword_is_told_with_its_line() {
        for (line, told) in [
            ("X: [tdmmap]", "line 11: the keyword [tdmmap] isn't supported"),
            ("X: [field0 line=3]", "line 11: `line` of [field0] isn't supported"),
            ("X: [call_id", "line 11: a keyword doesn't end: `]` is missing"),
            ("X: [fill text=x]", "line 11: [fill] needs `variable`"),
            ("X: [authentication aka_K=1]", "line 11: `aka_K` of [authentication] isn't supported"),
        ] {
            let (_, problems, _) = read(&format!("ACK sip:x SIP/2.0\n{line}"));
            assert_eq!(problems, [told], "{line}");
        }
        assert!(read("\n \n").1[0].contains("empty"));
        assert!(read("[service] sip:x SIP/2.0").1[0].contains("begins with a method"));
        let (template, problems, _) = read("ACK sip:[::1]:5060 SIP/2.0\nX: \\[len]");
        assert_eq!(
            (problems, &template.parts[0]),
            (Vec::new(), &text("ACK sip:[::1]:5060 SIP/2.0\r\nX: [len]\r\n\r\n"))
        );
    }
}
