//! A first plan from a few answers, with comments that say what each key is for.

use vtax_units::Nanos;

pub use crate::shell::words;

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// The web server that is part of vtax.
    Http,
    /// Apache.
    Apache,
    /// nginx.
    Nginx,
    /// Redis.
    Redis,
    /// The SIP registrar and proxy that is part of vtax.
    Sip,
    /// A program of the user's own that answers HTTP requests.
    Command {
        /// The command as words; `{address}`, `{port}` and `{dir}` are replaced.
        run: Vec<String>,
        /// The port that it listens on.
        port: u16,
    },
}

/// What is asked of each environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// How much it carries.
    Capacity,
    /// How long an answer takes.
    Latency,
    /// Both.
    Both,
}

/// The answers that make a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Name of the plan.
    pub name: String,
    /// What is measured.
    pub subject: Subject,
    /// Kinds of environment that are compared with native, as plans write them.
    pub against: Vec<String>,
    /// What is asked.
    pub question: Question,
    /// The longest 99th percentile of an answer's time that counts as carrying the load.
    pub p99: Nanos,
    /// Time after which no trial beyond three of each is started.
    pub time: Nanos,
}

/// A text as a scalar of YAML on one line: JSON's strings are some.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Draft {
    /// The plan as a file. It is one that [`crate::parse`] accepts, unless the name or the times are none that plans have.
    #[must_use]
    pub fn text(&self) -> String {
        [self.head(), self.environments(), self.service(), self.workload(), self.measures(), self.effort()]
            .join("\n")
    }

    /// Whether the plan has a limit of latency: the capacity of what isn't SIP, which has limits of its own.
    #[must_use]
    pub fn uses_p99(&self) -> bool {
        self.question != Question::Latency && self.subject != Subject::Sip
    }

    /// What the subject is called in sentences.
    fn called(&self) -> &str {
        match &self.subject {
            Subject::Http => "vtax's own web server",
            Subject::Apache => "Apache",
            Subject::Nginx => "nginx",
            Subject::Redis => "Redis",
            Subject::Sip => "vtax's own SIP server",
            Subject::Command { .. } => "my service",
        }
    }

    fn head(&self) -> String {
        let called = self.called();
        let of = |kind: &String| match kind.as_str() {
            "container" => "a container".to_owned(),
            "vm" => "a virtual machine".to_owned(),
            other => other.to_owned(),
        };
        let description = match self.against.iter().map(of).collect::<Vec<_>>().join(" and in ") {
            none if none.is_empty() => format!("How does {called} do natively?"),
            others => format!("What does it cost to run {called} in {others}?"),
        };
        format!(
            "# A plan of vtax (docs/plan.md has every key).\n#\n\
             #   vtax check FILE      what it would do, without doing it\n\
             #   vtax run FILE        measure, and write a report\n\
             vtax: 1\nname: {}\ndescription: {}\n",
            quoted(&self.name),
            quoted(&description),
        )
    }

    fn environments(&self) -> String {
        let all: Vec<&str> = ["native"].into_iter().chain(self.against.iter().map(String::as_str)).collect();
        format!(
            "# The same service runs in each of these; the others are compared with the baseline. A VM with more\n\
             # memory is `vm: {{memory: 2GiB}}`.\nbaseline: native\nenvironments: [{}]\n",
            all.join(", ")
        )
    }

    fn service(&self) -> String {
        let name = match &self.subject {
            Subject::Http => "http",
            Subject::Apache => "apache",
            Subject::Nginx => "nginx",
            Subject::Redis => "redis",
            Subject::Sip => "sip",
            Subject::Command { run, port } => return command(run, *port),
        };
        format!("# `vtax check` says what the service lacks on this host.\nservices: {name}\n")
    }

    fn workload(&self) -> String {
        let http = |what: &str, target: &str| {
            format!(
                "# {what}\nworkload:\n  http:\n    target: {target}\n    connections: 64\n    \
                 # An answer that takes longer has failed.\n    timeout: 2s\n"
            )
        };
        match &self.subject {
            Subject::Http => http("A page that takes the server some CPU time.", "/page/100"),
            Subject::Apache | Subject::Nginx => {
                http("A file of 10 KB; /100b and /1m are there, too. A list makes a cell of each.", "/10k")
            }
            Subject::Command { .. } => http("What is asked for, over so many connections.", "/"),
            Subject::Redis => "# GET and SET of so many keys.\nworkload:\n  redis: {keys: 10000, value: 100B, reads: 90%, \
                               connections: 32}\n"
                .to_owned(),
            Subject::Sip => "# Calls, messages and registrations of the IMS benchmark (docs/ims.md). They are short, so that a \
                             short\n# step holds many whole ones.\nworkload:\n  sip: {subscribers: 4000, registered: 10%, \
                             ring_time: 20ms, hold_time: 80ms, t1: 200ms}\n"
                .to_owned(),
        }
    }

    fn measures(&self) -> String {
        let mut text = "measure:\n".to_owned();
        if self.question != Question::Latency {
            text += &match &self.subject {
                Subject::Sip => "  # The highest rate at which at most a tenth of the calls, messages and registrations goes wrong.\n  - ims:\n      \
                                 registration_rate: 500/s\n      registration_ihs_limit: 10%\n      ramp: {search: {start: \
                                 50/s, max: 10000/s, precision: 20%, step: 2s}}\n      step: 4s\n      transient: 500ms\n"
                    .to_owned(),
                _ => format!(
                    "  # The highest rate at which 99 of 100 answers take no longer than this, and next to none fail.\n  \
                     - capacity: {{limits: {{p99: {}, errors: 1%}}}}\n",
                    self.p99
                ),
            };
        }
        if self.question != Question::Capacity {
            let (load, why) = match (self.question, &self.subject) {
                (Question::Latency, _) => ("100/s", "How long an answer takes at a rate that all can carry."),
                (_, Subject::Sip) => {
                    ("50% of lowest capacity", "How long an answer takes, at one rate for all.")
                }
                _ => (
                    "50% of lowest capacity",
                    "How long an answer takes, at one rate that all of them can carry.",
                ),
            };
            text += &format!("  # {why}\n  - latency: {{load: {load}, warmup: 1s, duration: 11s}}\n");
        }
        text
    }

    fn effort(&self) -> String {
        format!(
            "# Three trials of each, and more until a cost is known to within {until}; none is added after {time}.\n\
             repeat: {{min: 3, max: 10, until: {until}, budget: {time}}}\n\
             # A difference that is smaller doesn't matter.\nmargin: 5%\n",
            until = "3%",
            time = self.time
        )
    }
}

fn command(run: &[String], port: u16) -> String {
    let words: Vec<String> = run.iter().map(|word| quoted(word)).collect();
    format!(
        "# There is no shell. {{address}} and {{port}}, where it must listen, and {{dir}}, a private directory that holds\n\
         # the files named under `files`, are replaced.\nservices:\n  - command:\n      name: mine\n      run: [{}]\n      \
         port: {port}\n      # Ready when the port accepts a connection; `log: TEXT` waits for a line of output.\n      \
         ready: port\n",
        words.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    const NONE: &[&str] = &[];

    fn draft(subject: Subject, question: Question, against: &[&str]) -> Draft {
        Draft {
            name: "first".into(),
            subject,
            against: against.iter().map(|&kind| kind.to_owned()).collect(),
            question,
            p99: Nanos::from_millis(50),
            time: Nanos::from_secs(600),
        }
    }

    #[test]
    fn every_draft_is_a_plan() {
        let own = Subject::Command {
            run: ["sh", "-c", "echo \"a: b\" # {port}\n", "é"].map(str::to_owned).to_vec(),
            port: 8000,
        };
        let subjects = [Subject::Http, Subject::Apache, Subject::Nginx, Subject::Redis, Subject::Sip, own];
        for subject in subjects {
            for question in [Question::Capacity, Question::Latency, Question::Both] {
                for against in [&["container", "vm"][..], &["vm"], &[]] {
                    let draft = draft(subject.clone(), question, against);
                    let text = draft.text();
                    assert_eq!(draft.uses_p99(), text.contains("p99: 50ms"), "{text}");
                    let plan = parse("first.yaml", text.as_bytes(), NONE)
                        .unwrap_or_else(|e| panic!("{}\n{text}", e.to_text(false)));
                    assert_eq!(plan.cells.len(), 1 + against.len(), "{text}");
                    assert_eq!(plan.measures.len(), if question == Question::Both { 2 } else { 1 }, "{text}");
                    assert_eq!(plan.repeat.budget, Some(Nanos::from_secs(600)));
                    assert!(text.lines().filter(|line| line.trim_start().starts_with('#')).count() >= 8);
                    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
                }
            }
        }
    }

    #[test]
    fn a_command_keeps_its_words() {
        let run = words("python3 -m http.server '{port}' --title \"a \\\"b\\\"\" c\\ d ''").unwrap();
        assert_eq!(run, ["python3", "-m", "http.server", "{port}", "--title", "a \"b\"", "c d", ""]);
        let draft = draft(Subject::Command { run: run.clone(), port: 8000 }, Question::Both, &["vm"]);
        let plan = parse("first.yaml", draft.text().as_bytes(), NONE).unwrap();
        let json = serde_json::to_value(&plan.cells[0].service).unwrap().to_string();
        assert!(json.contains(&serde_json::to_string(&run).unwrap()), "{json}");
    }
}
