//! From elements to commands.

use std::collections::HashMap;

use super::model::{Command, Duration, Expect, Flow, Kind, Next, Optional, Receiving, Scenario, Sending};
use super::template::{NAMES_MAX, Reading, number};
use super::xml::{Element, read};
use super::{Ere, Names, Part, Problem, Problems};

/// Most commands of a scenario.
const COMMANDS_MAX: usize = 5_000;
/// Longest pause or timeout, in milliseconds: a day.
const TIME_MAX: f64 = 86_400_000.0;
/// What every command may have. The last two are about SIPp's screens.
const COMMON: [&str; 11] = [
    "next",
    "test",
    "chance",
    "condexec",
    "condexec_inverse",
    "counter",
    "start_rtd",
    "rtd",
    "repeat_rtd",
    "crlf",
    "hide",
];
/// Of a distribution.
const DISTRIBUTION: [&str; 13] = [
    "distribution",
    "value",
    "min",
    "max",
    "mean",
    "stdev",
    "lambda",
    "k",
    "x_m",
    "theta",
    "p",
    "n",
    "sanity_check",
];
/// What `<sample>` may have.
pub(super) const SAMPLE: &[&str] = &[
    "assign_to",
    "distribution",
    "value",
    "min",
    "max",
    "mean",
    "stdev",
    "lambda",
    "k",
    "x_m",
    "theta",
    "p",
    "n",
];

/// What a scenario is compiled with.
pub(super) struct Compiler<'a> {
    names: Names,
    timers: Vec<String>,
    counters: Vec<String>,
    /// Labels and the commands behind them.
    labels: HashMap<String, u16>,
    keys: &'a [(String, String)],
    problems: Problems,
}

impl Scenario {
    /// Compiles a file. `keys` are keywords of the user's own and what they stand for.
    ///
    /// # Errors
    /// Everything that is wrong with it or isn't supported, each with its line, in their order.
    pub fn compile(file: &[u8], keys: &[(String, String)]) -> Result<Self, Vec<Problem>> {
        let root = read(file).map_err(|problem| vec![problem])?;
        let mut compiler = Compiler {
            names: Names::default(),
            timers: Vec::new(),
            counters: Vec::new(),
            labels: HashMap::new(),
            keys,
            problems: Problems::default(),
        };
        let scenario = compiler.scenario(&root);
        let mut problems = compiler.problems.0;
        if problems.is_empty() {
            return Ok(scenario);
        }
        problems.sort_by_key(|problem| problem.line);
        Err(problems)
    }
}

/// Elements that have no command behind them.
fn is_silent(element: &Element) -> bool {
    matches!(
        element.name.as_str(),
        "label" | "ResponseTimeRepartition" | "CallLengthRepartition" | "Reference"
    )
}

impl<'a> Compiler<'a> {
    pub(super) fn problem(&mut self, line: u32, what: impl Into<String>) {
        self.problems.add(line, what);
    }

    fn scenario(&mut self, root: &Element) -> Scenario {
        if root.name != "scenario" {
            self.problem(root.line, format!("<{}> is no <scenario>", root.name));
        }
        if root.children.iter().filter(|child| !is_silent(child)).count() > COMMANDS_MAX {
            self.problem(root.line, format!("more than {COMMANDS_MAX} commands"));
        }
        self.find_labels(root);
        let mut commands = Vec::new();
        for child in root.children.iter().filter(|child| !is_silent(child)).take(COMMANDS_MAX) {
            if let Some(kind) = self.kind(child) {
                let flow = self.flow(child);
                commands.push(Command { line: child.line, kind, flow });
            }
        }
        if commands.is_empty() {
            self.problem(root.line, "there is no command");
        }
        let first = commands.iter().find(|c| matches!(c.kind, Kind::Send(_) | Kind::Receive(_)));
        let is_server = first.is_some_and(|command| matches!(command.kind, Kind::Receive(_)));
        let anytime = |(number, command): (usize, &Command)| match &command.kind {
            Kind::Receive(receive) if receive.optional == Optional::Anytime => Some(number as u16),
            _ => None,
        };
        let anytime = commands.iter().enumerate().filter_map(anytime).collect();
        self.check(&commands, is_server, first.map_or(root.line, |command| command.line));
        Scenario {
            name: root.get("name").unwrap_or_default().to_owned(),
            commands,
            names: std::mem::take(&mut self.names),
            timers: std::mem::take(&mut self.timers),
            counters: std::mem::take(&mut self.counters),
            is_server,
            anytime,
        }
    }

    /// What must hold of all commands together.
    fn check(&mut self, commands: &[Command], is_server: bool, first: u32) {
        let mut jumps = Vec::new();
        for command in commands {
            let actions = match &command.kind {
                Kind::Receive(receive) => &receive.actions,
                Kind::Nop(actions) => actions,
                _ => continue,
            };
            for action in actions {
                if let super::Action::Jump(to) = action
                    && usize::from(*to) > commands.len()
                {
                    jumps.push((command.line, *to));
                }
            }
        }
        for (line, to) in jumps {
            self.problem(line, format!("there is no command {to} to jump to"));
        }
        if is_server {
            let begins = |command: &Command| match &command.kind {
                Kind::Receive(receive) => matches!(receive.expect, Expect::Method(_) | Expect::MethodLike(_)),
                _ => false,
            };
            let receives = commands.iter().find(|c| matches!(c.kind, Kind::Receive(_)));
            if !receives.is_some_and(begins) {
                self.problem(first, "a server's scenario begins with a request that comes");
            }
            return;
        }
        let sends = commands.iter().find_map(|command| match &command.kind {
            Kind::Send(send) => Some((command.line, send)),
            _ => None,
        });
        if let Some((line, send)) = sends {
            if send.message.method.is_empty() {
                self.problem(line, "a client's scenario begins with a request that is sent");
            }
            let has_call_id = |part: &Part| matches!(part, Part::Keyword(super::Keyword::CallId));
            let in_line = |part: &Part| match part {
                Part::Line(parts) => parts.iter().any(has_call_id),
                part => has_call_id(part),
            };
            if !send.message.parts.iter().any(in_line) {
                self.problem(line, "Call-ID needs [call_id]: answers are told apart by it");
            }
        } else if !commands.is_empty() {
            self.problem(first, "nothing is sent or received");
        }
    }

    fn find_labels(&mut self, root: &Element) {
        let mut position: u16 = 0;
        for child in &root.children {
            if child.name == "label" {
                if let Some(id) = self.required(child, "id")
                    && self.labels.insert(id.to_owned(), position).is_some()
                {
                    self.problem(child.line, format!("the label {id} is there twice"));
                }
                self.known(child, &["id"]);
            } else if !is_silent(child) {
                position = position.saturating_add(1);
            }
        }
    }

    fn kind(&mut self, element: &Element) -> Option<Kind> {
        Some(match element.name.as_str() {
            "send" => Kind::Send(Box::new(self.send(element)?)),
            "recv" => Kind::Receive(Box::new(self.receive(element)?)),
            "pause" => {
                self.known_command(element, &DISTRIBUTION, &["milliseconds", "variable"]);
                self.no_children(element);
                Kind::Pause(self.duration(element))
            }
            "nop" => {
                self.known_command(element, &[], &["display"]);
                Kind::Nop(self.actions(element))
            }
            "timewait" => {
                self.known_command(element, &DISTRIBUTION, &["milliseconds", "variable"]);
                self.no_children(element);
                Kind::TimeWait(self.duration(element))
            }
            "sendCmd" | "recvCmd" => {
                self.problem(element.line, format!("<{}> (3PCC) isn't supported", element.name));
                return None;
            }
            other => {
                self.problem(element.line, format!("<{other}> isn't supported"));
                return None;
            }
        })
    }

    fn send(&mut self, element: &Element) -> Option<Sending> {
        self.known_command(element, &["retrans", "lost"], &["display"]);
        self.no_children(element);
        if element.loose_text {
            self.problem(element.line, "the message must be in <![CDATA[ ]]>");
            return None;
        }
        let retransmit = self.milliseconds(element, "retrans");
        let lost = self.share(element, "lost", 100.0);
        let line = if element.text_line == 0 { element.line } else { element.text_line };
        let message = self.reading().message(&element.text, line);
        Some(Sending { message, retransmit: retransmit.filter(|time| *time > 0), lost })
    }

    fn receive(&mut self, element: &Element) -> Option<Receiving> {
        let own = [
            "response",
            "request",
            "regexp_match",
            "optional",
            "timeout",
            "ontimeout",
            "rrs",
            "auth",
            "lost",
        ];
        self.known_command(element, &own, &["ignoresdp", "display"]);
        let like = self.flag(element, "regexp_match");
        let expect = match (element.get("response"), element.get("request")) {
            (Some(status), None) if like => Expect::StatusLike(self.expression(element, status)?),
            (Some(status), None) => match status.trim().parse::<u16>() {
                Ok(code @ 100..=699) => Expect::Status(code),
                _ => {
                    self.problem(element.line, format!("response=\"{status}\" is no status"));
                    return None;
                }
            },
            (None, Some(method)) if like => Expect::MethodLike(self.expression(element, method)?),
            (None, Some(method)) => Expect::Method(method.trim().as_bytes().to_vec()),
            _ => {
                self.problem(element.line, "<recv> needs either `response` or `request`");
                return None;
            }
        };
        let optional = match element.get("optional") {
            None | Some("false") => Optional::No,
            Some("true") => Optional::Yes,
            Some("global") => Optional::Anytime,
            Some(other) => {
                self.problem(element.line, format!("optional=\"{other}\" isn't supported"));
                return None;
            }
        };
        let on_timeout = match element.get("ontimeout") {
            Some(label) => Some(self.label(label, element.line)?),
            None => None,
        };
        Some(Receiving {
            expect,
            optional,
            // SIPp takes 0 for none.
            timeout: self.milliseconds(element, "timeout").filter(|timeout| *timeout > 0),
            on_timeout,
            route_set: self.flag(element, "rrs"),
            challenge: self.flag(element, "auth"),
            lost: self.share(element, "lost", 100.0),
            actions: self.actions(element),
        })
    }

    fn expression(&mut self, element: &Element, text: &str) -> Option<Ere> {
        match Ere::compile(text.as_bytes(), false) {
            Ok(ere) => Some(ere),
            Err(error) => {
                self.problem(element.line, format!("`{text}`: {error}"));
                None
            }
        }
    }

    fn flow(&mut self, element: &Element) -> Flow {
        let test = element.get("test").and_then(|name| self.name_of_variable(name, element));
        let chance = if element.get("chance").is_some() { self.share(element, "chance", 1.0) } else { 1.0 };
        let next = element.get("next").and_then(|label| self.label(label, element.line));
        let condition = element.get("condexec").and_then(|name| self.name_of_variable(name, element));
        let inverse = self.flag(element, "condexec_inverse");
        let counter = element.get("counter").and_then(|name| {
            let found = number(&mut self.counters, name);
            if found.is_none() {
                self.problems.add(element.line, format!("more than {NAMES_MAX} counters"));
            }
            found
        });
        Flow {
            next: next.map(|to| Next { to, test, chance }),
            start: self.timers_of(element, "start_rtd"),
            stop: self.timers_of(element, "rtd"),
            repeat: self.flag(element, "repeat_rtd"),
            counter,
            condition: condition.map(|variable| (variable, inverse)),
        }
    }

    /// `true` is the timer 1, as in the days when there was one.
    fn timers_of(&mut self, element: &Element, name: &str) -> Vec<u16> {
        let Some(value) = element.get(name) else { return Vec::new() };
        let mut found = Vec::new();
        for timer in value.split(',').map(str::trim) {
            let timer = match timer {
                "false" | "" => continue,
                "true" => "1",
                timer => timer,
            };
            match number(&mut self.timers, timer) {
                Some(timer) => found.push(timer),
                None => self.problem(element.line, format!("more than {NAMES_MAX} timers")),
            }
        }
        found
    }

    fn label(&mut self, label: &str, line: u32) -> Option<u16> {
        let found = self.labels.get(label.trim()).copied();
        if found.is_none() {
            self.problem(line, format!("there is no label {label}"));
        }
        found
    }

    /// A length of time, or a number to be drawn.
    pub(super) fn duration(&mut self, element: &Element) -> Duration {
        if let Some(name) = element.get("variable") {
            return self.name_of_variable(name, element).map_or(Duration::Default, Duration::Variable);
        }
        if element.get("milliseconds").is_some() {
            return Duration::Fixed(f64::from(self.milliseconds(element, "milliseconds").unwrap_or(0)));
        }
        let Some(distribution) = element.get("distribution") else {
            if element.get("min").is_some() && element.get("max").is_some() {
                return self.uniform(element);
            }
            return Duration::Default;
        };
        let mut of = |name: &str| self.positive(element, name);
        match distribution {
            "fixed" => Duration::Fixed(of("value")),
            "uniform" => self.uniform(element),
            "normal" => Duration::Normal(of("mean"), of("stdev")),
            "lognormal" => Duration::LogNormal(of("mean"), of("stdev")),
            "exponential" => Duration::Exponential(of("mean")),
            "weibull" => Duration::Weibull(of("lambda"), of("k")),
            "pareto" => Duration::Pareto(of("k"), of("x_m")),
            "gamma" => Duration::Gamma(of("k"), of("theta")),
            "negbin" => Duration::NegativeBinomial(of("p").min(1.0), of("n")),
            other => {
                self.problem(element.line, format!("distribution=\"{other}\" isn't supported"));
                Duration::Default
            }
        }
    }

    fn uniform(&mut self, element: &Element) -> Duration {
        let (least, most) = (self.positive(element, "min"), self.positive(element, "max"));
        if least > most {
            self.problem(element.line, "`min` is above `max`");
        }
        Duration::Uniform(least, most.max(least))
    }

    /// A number of at least 0.
    fn positive(&mut self, element: &Element, name: &str) -> f64 {
        let Some(text) = self.required(element, name) else { return 0.0 };
        match text.trim().parse::<f64>() {
            Ok(number) if (0.0..=TIME_MAX).contains(&number) => number,
            _ => {
                self.problem(element.line, format!("{name}=\"{text}\" is no number from 0 to {TIME_MAX}"));
                0.0
            }
        }
    }

    fn milliseconds(&mut self, element: &Element, name: &str) -> Option<u32> {
        let text = element.get(name)?;
        let found = text.trim().parse::<u32>().ok().filter(|time| f64::from(*time) <= TIME_MAX);
        if found.is_none() {
            self.problem(
                element.line,
                format!("{name}=\"{text}\" is no number of milliseconds up to {TIME_MAX}"),
            );
        }
        found
    }

    /// A share of a whole that is written as that number.
    fn share(&mut self, element: &Element, name: &str, whole: f64) -> f64 {
        let Some(text) = element.get(name) else { return 0.0 };
        match text.trim().parse::<f64>() {
            Ok(share) if (0.0..=whole).contains(&share) => share / whole,
            _ => {
                self.problem(element.line, format!("{name}=\"{text}\" is no number from 0 to {whole}"));
                0.0
            }
        }
    }

    pub(super) fn flag(&mut self, element: &Element, name: &str) -> bool {
        match element.get(name) {
            None | Some("false" | "0") => false,
            Some("true" | "1") => true,
            Some(other) => {
                self.problem(element.line, format!("{name}=\"{other}\" is neither true nor false"));
                false
            }
        }
    }

    pub(super) fn required<'e>(&mut self, element: &'e Element, name: &str) -> Option<&'e str> {
        let found = element.get(name);
        if found.is_none() {
            self.problem(element.line, format!("<{}> needs `{name}`", element.name));
        }
        found
    }

    pub(super) fn name_of_variable(&mut self, name: &str, element: &Element) -> Option<u16> {
        // Written with and without the sign of a keyword.
        let name = name.trim().trim_start_matches('$').to_owned();
        self.reading().variable(&name, element.line)
    }

    pub(super) fn parts(&mut self, text: &str, line: u32) -> Vec<Part> {
        self.reading().parts(text.as_bytes(), line)
    }

    fn reading(&mut self) -> Reading<'_> {
        Reading { names: &mut self.names, keys: self.keys, problems: &mut self.problems }
    }

    /// Tells of attributes that an element hasn't.
    pub(super) fn known(&mut self, element: &Element, names: &[&str]) {
        for (name, _) in &element.attributes {
            if !names.contains(&name.as_str()) {
                self.problem(element.line, format!("`{name}` of <{}> isn't supported", element.name));
            }
        }
    }

    /// The same for a command.
    fn known_command(&mut self, element: &Element, own: &[&str], more: &[&str]) {
        for (name, _) in &element.attributes {
            let name = name.as_str();
            if !(COMMON.contains(&name) || own.contains(&name) || more.contains(&name)) {
                self.problem(element.line, format!("`{name}` of <{}> isn't supported", element.name));
            }
        }
    }

    fn no_children(&mut self, element: &Element) {
        if let Some(child) = element.children.first() {
            self.problem(child.line, format!("<{}> within <{}> isn't supported", child.name, element.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sipp::{Action, Keyword};

    const SEND: &str = "<send><![CDATA[\nMESSAGE sip:x SIP/2.0\nCall-ID: [call_id]\n]]></send>";

    fn compile(commands: &str) -> Result<Scenario, Vec<String>> {
        let file = format!("<scenario name=\"n\">\n{commands}\n</scenario>");
        let compiled = Scenario::compile(file.as_bytes(), &[]);
        compiled.map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    fn problems(commands: &str) -> Vec<String> {
        compile(commands).map(|scenario| scenario.name).unwrap_err()
    }

    #[test]
    fn commands_come_in_order_and_labels_are_places() {
        let scenario = compile(&format!(
            "{SEND}<recv response=\"200\" rtd=\"true\" next=\"a\" chance=\"0.25\" rrs=\"true\"/>\n<pause milliseconds=\"7\"/>\
             <label id=\"a\"/><ResponseTimeRepartition value=\"1\"/><nop test=\"v\" next=\"end\"><action><log message=\"[$v]\"/></action></nop>\
             <timewait distribution=\"uniform\" min=\"1\" max=\"3\"/><label id=\"end\"/>"
        ))
        .unwrap();
        assert!(!scenario.is_server && scenario.commands.len() == 5);
        assert_eq!(
            (&scenario.timers[..], &scenario.names.variables[..]),
            (&["1".to_owned()][..], &["v".to_owned()][..])
        );
        let lines: Vec<u32> = scenario.commands.iter().map(|command| command.line).collect();
        assert_eq!(lines, [2, 5, 6, 6, 6]);
        let next = scenario.commands[1].flow.next.as_ref().unwrap();
        assert_eq!((next.to, next.test, next.chance), (3, None, 0.25));
        let next = scenario.commands[3].flow.next.as_ref().unwrap();
        assert_eq!((next.to, next.test), (5, Some(0)));
        assert!(matches!(scenario.commands[2].kind, Kind::Pause(Duration::Fixed(7.0))));
        assert!(matches!(scenario.commands[4].kind, Kind::TimeWait(Duration::Uniform(1.0, 3.0))));
        let Kind::Nop(actions) = &scenario.commands[3].kind else { panic!("{scenario:?}") };
        assert!(
            matches!(&actions[..], [Action::Log(parts)] if parts[..] == [Part::Keyword(Keyword::Variable(0))])
        );
        let labels: Vec<String> = (0..6).map(|number| scenario.label(number)).collect();
        assert_eq!(labels, ["send MESSAGE", "recv 200", "pause", "nop", "timewait", ""]);
    }

    #[test]
    fn a_scenario_that_begins_with_a_request_that_comes_is_a_servers() {
        let scenario = compile(
            "<recv request=\"INVITE\" optional=\"global\"/><recv request=\".*\" regexp_match=\"true\"/>",
        )
        .unwrap();
        assert!(scenario.is_server);
        assert_eq!(scenario.anytime, [0]);
        assert_eq!(
            problems("<recv response=\"200\"/>"),
            ["line 2: a server's scenario begins with a request that comes"]
        );
    }

    #[test]
    fn a_timeout_of_0_is_none() {
        let scenario = compile(
            "<recv request=\"INVITE\" timeout=\"0\"/><recv request=\"ACK\" timeout=\"5\"/><recv request=\"BYE\"/>",
        )
        .unwrap();
        let timeouts = scenario.commands.iter().map(|command| {
            let Kind::Receive(receive) = &command.kind else { panic!("{command:?}") };
            receive.timeout
        });
        assert_eq!(timeouts.collect::<Vec<_>>(), [None, Some(5), None]);
    }

    #[test]
    fn everything_that_is_not_supported_is_told_with_its_line() {
        let told = problems(
            "<sendCmd/>\n<recv response=\"200\" ontimeout=\"9\" response_txn=\"a\"/>\n<pause distribution=\"zipf\"/>\n\
             <nop><action><exec command=\"rm\"/>\n<exec play_pcap_audio=\"a.pcap\"/><lookup/></action></nop>\n<Global variables=\"a\"/>\n\
             <send lost=\"110\">text</send><label id=\"1\"/><label id=\"1\"/>",
        );
        let expected = [
            "line 2: <sendCmd> (3PCC) isn't supported",
            "line 3: `response_txn` of <recv> isn't supported",
            "line 3: there is no label 9",
            "line 4: distribution=\"zipf\" isn't supported",
            "line 5: <exec command> isn't supported",
            "line 6: <exec play_pcap_audio> isn't supported",
            "line 6: the action <lookup> isn't supported",
            "line 7: <Global> isn't supported",
            "line 8: the label 1 is there twice",
            "line 8: the message must be in <![CDATA[ ]]>",
        ];
        for line in expected {
            assert!(told.iter().any(|own| own == line), "{line}: {told:#?}");
        }
    }

    #[test]
    fn what_is_malformed_is_told() {
        for (commands, what) in [
            ("", "there is no command"),
            ("<nop/>", "nothing is sent or received"),
            ("<send><![CDATA[\nMESSAGE sip:x SIP/2.0\n]]></send>", "Call-ID needs [call_id]"),
            (
                "<send><![CDATA[\nSIP/2.0 200 OK\nCall-ID: [call_id]\n]]></send>",
                "begins with a request that is sent",
            ),
            ("<recv request=\"A\"/><recv/>", "needs either"),
            ("<recv request=\"A\"/><recv response=\"20\"/>", "is no status"),
            ("<recv request=\"A\" timeout=\"-1\"/>", "is no number of milliseconds"),
            ("<recv request=\"A\" rrs=\"yes\"/>", "neither true nor false"),
            (
                "<recv request=\"A\"><action><ereg regexp=\"(\" assign_to=\"1\"/></action></recv>",
                "regexp `(`",
            ),
            (
                "<recv request=\"A\"><action><ereg regexp=\"a\" assign_to=\"1,2\"/></action></recv>",
                "has 0 groups",
            ),
            ("<recv request=\"A\"><action><ereg regexp=\"a\"/></action></recv>", "needs `assign_to` or"),
            (
                "<recv request=\"A\"><action><divide assign_to=\"1\" value=\"0\"/></action></recv>",
                "division by 0",
            ),
            ("<recv request=\"A\"/><nop><action><jump value=\"9\"/></action></nop>", "no command 9"),
            ("<recv request=\"A\" chance=\"2\"/>", "no number from 0 to 1"),
        ] {
            let told = problems(commands);
            assert!(told.iter().any(|line| line.contains(what)), "{commands}: {told:?}");
        }
        let many = "<x/>".repeat(200);
        assert_eq!(problems(&many).len(), crate::sipp::PROBLEMS_MAX);
        assert!(Scenario::compile(b"<plan/>", &[]).unwrap_err()[0].what.contains("is no <scenario>"));
    }
}
