//! `vtax init`: a first plan from five answers.

mod ask;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use vtax_plan::PlanErrors;
use vtax_plan::draft::{Draft, Question, Subject, words};
use vtax_service::find_program;
use vtax_units::Nanos;

use self::ask::{Asking, NoAnswer};
use crate::cmd::files::write_new;
use crate::cmd::plan_name::plan_name;
use crate::cmd::run::shell_word;
use crate::exit::{Classify, Exit, Failure, Outcome};
use crate::out;

/// Write a first plan: on a terminal five questions are asked, of which each may be answered by an option instead.
///
/// The plan has comments that say what each key is for, and `vtax check` accepts it. Without a terminal nothing is asked: what no option
/// gives has its default.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file to write; `NAME.yaml` unless given. One that is there stays as it is.
    file: Option<PathBuf>,
    /// What is measured.
    #[arg(long, value_enum, value_name = "SERVICE")]
    service: Option<Service>,
    /// Measure a program of your own that answers HTTP requests: its command, such as 'python3 -m http.server {port}'.
    #[arg(long, value_name = "COMMAND", conflicts_with = "service", value_parser = command)]
    run: Option<Words>,
    /// The port that it listens on.
    #[arg(
        long,
        requires = "run",
        conflicts_with = "service",
        default_value_t = 8000,
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    port: u16,
    /// Where it is measured besides; natively it is always measured, and the others are compared with that.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ENVIRONMENT")]
    against: Vec<Environment>,
    /// What you want to know.
    #[arg(long, value_enum, value_name = "WHAT")]
    ask: Option<Wanted>,
    /// The longest time that 99 of 100 answers may take for a load to count as carried, such as 50ms (capacity of all but sip).
    #[arg(long, value_name = "TIME")]
    p99: Option<Nanos>,
    /// The time after which no trial beyond three of each is started, such as 10m.
    #[arg(long, value_name = "TIME")]
    time: Option<Nanos>,
    /// Name of the plan: letters, digits, - and _.
    #[arg(long, default_value = "first", value_parser = plan_name)]
    name: String,
    /// Ask nothing.
    #[arg(short, long)]
    yes: bool,
}

/// A command taken apart.
#[derive(Debug, Clone)]
struct Words(Vec<String>);

fn command(line: &str) -> Result<Words, String> {
    let words = words(line)?;
    match mistyped(&words) {
        Some(word) => Err(format!(
            "this host has no program `{word}`; give the full path of one that isn't installed yet"
        )),
        None => Ok(Words(words)),
    }
}

/// A command's only word where no program of this host has that name: rather a service's name, or a number, with a slip in it.
fn mistyped(words: &[String]) -> Option<&str> {
    match words {
        [word] if !word.contains('/') && find_program(word).is_none() => Some(word.as_str()),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Service {
    /// The web server that is part of vtax.
    Http,
    /// Apache.
    Apache,
    /// nginx.
    Nginx,
    /// Redis.
    Redis,
    /// The SIP server that is part of vtax.
    Sip,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Environment {
    /// An OCI container.
    Container,
    /// A virtual machine of QEMU.
    Vm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Wanted {
    /// How much each environment carries.
    Capacity,
    /// How long an answer takes.
    Latency,
    /// Both.
    Both,
}

impl Service {
    fn subject(self) -> Subject {
        match self {
            Self::Http => Subject::Http,
            Self::Apache => Subject::Apache,
            Self::Nginx => Subject::Nginx,
            Self::Redis => Subject::Redis,
            Self::Sip => Subject::Sip,
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let file = args.file.clone().unwrap_or_else(|| PathBuf::from(format!("{}.yaml", args.name)));
    // Before anything is asked: nobody answers five questions for nothing.
    if file.exists() {
        let error = anyhow::anyhow!("{} is there already; name another file", file.display());
        return Err(error).bad_input();
    }
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
    if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
        let (place, word) = (directory.display(), shell_word(directory));
        let error = anyhow::anyhow!("there is no directory {place}: `mkdir -p {word}` makes it");
        return Err(error).bad_input();
    }
    args.check_p99(&args.unasked())?;
    args.check_possible(&file)?;
    let ask = !args.yes && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let draft = if ask {
        let (mut answers, mut questions) = (std::io::stdin().lock(), std::io::stderr().lock());
        let asked = args.asked(&mut Asking::new(&mut answers, &mut questions));
        match asked {
            Ok(draft) => draft,
            Err(NoAnswer::Ended) => {
                let _ = writeln!(questions, "\nnothing was written");
                return Ok(Exit::Interrupted);
            }
            Err(NoAnswer::Wrong) => {
                let error = anyhow::anyhow!("none of these answers can be used; nothing was written");
                return Err(error).bad_input();
            }
        }
    } else {
        args.unasked()
    };
    // The answers may have made it a limit of nothing.
    args.check_p99(&draft)?;
    let text = draft.text();
    check_plan(&file, &text)?;
    write_new(&file, &text)?;
    let name = shell_word(&file);
    out::text(&format!(
        "{name} is written\n  vtax check {name}   what it would do, how long it takes\n  \
         vtax run {name}     measure, and write a report\n"
    ))?;
    Ok(Exit::Done)
}

/// Refuses what isn't a plan.
fn check_plan(file: &Path, text: &str) -> Result<(), PlanErrors> {
    vtax_plan::parse(&file.to_string_lossy(), text.as_bytes(), &[] as &[&str]).map(drop)
}

/// The limit of the 99th percentile where nothing is said.
const P99: Nanos = Nanos::from_millis(50);
/// The time that a run may take where nothing is said.
const TIME: Nanos = Nanos::from_secs(600);

impl Args {
    /// Refuses a limit that nothing has.
    fn check_p99(&self, draft: &Draft) -> Result<(), Failure> {
        if self.p99.is_none() || draft.uses_p99() {
            return Ok(());
        }
        let error = anyhow::anyhow!(
            "--p99 is for capacity, and not for sip: this plan has nothing to limit by it, so leave it out"
        );
        Err(error).bad_input()
    }

    /// Refuses options of which no answers make a plan, such as a time in which no trial ends.
    fn check_possible(&self, file: &Path) -> Result<(), PlanErrors> {
        let mut refused = None;
        for draft in self.possible() {
            match check_plan(file, &draft.text()) {
                Ok(()) => return Ok(()),
                Err(errors) => refused = Some(errors),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// What answers may make of the options, one of each kind that plans judge differently.
    fn possible(&self) -> Vec<Draft> {
        let draft = self.unasked();
        let is_asked = self.run.is_none() && self.service.is_none();
        let subjects = if is_asked {
            vec![Subject::Http, Subject::Redis, Subject::Sip]
        } else {
            vec![draft.subject.clone()]
        };
        let all = [Question::Both, Question::Capacity, Question::Latency];
        let questions = self.ask.map_or(all.to_vec(), |wanted| vec![question(wanted)]);
        let of = |subject: &Subject| -> Vec<Draft> {
            let one = |&question| Draft { subject: subject.clone(), question, ..draft.clone() };
            questions.iter().map(one).collect()
        };
        let mut possible: Vec<Draft> = subjects.iter().flat_map(of).collect();
        possible.retain(|draft| self.p99.is_none() || draft.uses_p99());
        possible
    }

    /// The plan of what was given, with defaults for the rest.
    fn unasked(&self) -> Draft {
        let subject = match (&self.run, self.service) {
            (Some(run), _) => Subject::Command { run: run.0.clone(), port: self.port },
            (None, service) => service.unwrap_or(Service::Http).subject(),
        };
        let both = [Environment::Container, Environment::Vm];
        let against = if self.against.is_empty() { &both[..] } else { &self.against };
        Draft {
            name: self.name.clone(),
            subject,
            against: kinds(against),
            question: question(self.ask.unwrap_or(Wanted::Both)),
            p99: self.p99.unwrap_or(P99),
            time: self.time.unwrap_or(TIME),
        }
    }

    /// The draft of a plan, for which what wasn't given is asked for.
    fn asked(&self, asking: &mut Asking<'_>) -> Result<Draft, NoAnswer> {
        let mut draft = self.unasked();
        if self.run.is_none() && self.service.is_none() {
            draft.subject = asking.ask(
                "What is to be measured? http, apache, nginx, redis, sip, or a command of your own",
                "http",
                |answer| match Service::from_str(answer, true) {
                    Ok(service) => Ok(service.subject()),
                    Err(_) => {
                        let run = words(answer)?;
                        match mistyped(&run) {
                            Some(word) => Err(format!("`{word}` is none of these, and no program here")),
                            None => Ok(Subject::Command { run, port: self.port }),
                        }
                    }
                },
            )?;
            if let Subject::Command { port, .. } = &mut draft.subject {
                let ask = "And on which port does it listen? ({port} in the command is replaced by it)";
                *port = asking.ask(ask, "8000", |answer| match answer.parse::<u16>() {
                    Ok(port) if port > 0 => Ok(port),
                    _ => Err("a port is a number from 1 to 65535".to_owned()),
                })?;
            }
        }
        if self.against.is_empty() {
            let ask = "Compared with native, in what? container, vm, or both with a comma";
            draft.against = asking.ask(ask, "container, vm", |answer| {
                let kind = |word: &str| {
                    let neither = |_| format!("`{word}` is neither container nor vm");
                    Environment::from_str(word, true).map_err(neither)
                };
                let kinds: Result<Vec<_>, String> = answer.split(',').map(|word| kind(word.trim())).collect();
                kinds.map(|kinds| self::kinds(&kinds))
            })?;
        }
        if self.ask.is_none() {
            let ask = "What do you want to know? capacity, latency, both";
            draft.question = asking.ask(ask, "both", |answer| {
                let none = |_| format!("`{answer}` is none of capacity, latency, both");
                Wanted::from_str(answer, true).map(question).map_err(none)
            })?;
        }
        if self.p99.is_none() && draft.uses_p99() {
            let ask = ("How long may 99 of 100 answers take for a load to count as carried?", "50ms");
            draft.p99 = limit(asking, ask, &draft, |p99, draft| Draft { p99, ..draft })?;
        }
        if self.time.is_none() {
            let ask = ("How long may it go on adding trials? (three of each are always made)", "10m");
            draft.time = limit(asking, ask, &draft, |time, draft| Draft { time, ..draft })?;
        }
        Ok(draft)
    }
}

/// Asks for a time; again where the plan would be refused with it, and isn't with what it has.
fn limit(
    asking: &mut Asking<'_>,
    (question, default): (&str, &str),
    draft: &Draft,
    with: impl Fn(Nanos, Draft) -> Draft,
) -> Result<Nanos, NoAnswer> {
    asking.ask(question, default, |answer| {
        let time = answer.parse::<Nanos>().map_err(|error| error.to_string())?;
        match refusal(&with(time, draft.clone())) {
            Some(why) if refusal(draft).is_none() => Err(why),
            _ => Ok(time),
        }
    })
}

/// The first reason for which a draft is no plan.
fn refusal(draft: &Draft) -> Option<String> {
    let Err(PlanErrors::Invalid(all)) = check_plan(Path::new("plan"), &draft.text()) else { return None };
    all.iter().next().map(|first| first.message.to_owned())
}

/// Environments as plans write them, each once.
fn kinds(chosen: &[Environment]) -> Vec<String> {
    let all = [(Environment::Container, "container"), (Environment::Vm, "vm")];
    all.into_iter().filter(|(kind, _)| chosen.contains(kind)).map(|(_, word)| word.to_owned()).collect()
}

fn question(wanted: Wanted) -> Question {
    match wanted {
        Wanted::Capacity => Question::Capacity,
        Wanted::Latency => Question::Latency,
        Wanted::Both => Question::Both,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cmd::test_args::ParseArgs;

    fn asked(arguments: &[&str], answers: &str) -> (Result<Draft, NoAnswer>, String) {
        let arguments = ["init"].iter().chain(arguments);
        let args = ParseArgs::<Args>::try_parse_from(arguments).unwrap().args;
        let (mut answers, mut said) = (answers.as_bytes(), Vec::new());
        let draft = args.asked(&mut Asking::new(&mut answers, &mut said));
        (draft, String::from_utf8(said).unwrap())
    }

    #[test]
    fn five_questions_make_a_plan() {
        let (draft, said) = asked(&[], "\n\n\n\n\n");
        let draft = draft.unwrap();
        assert_eq!(said.matches('?').count(), 5, "{said}");
        assert_eq!((draft.subject, draft.question), (Subject::Http, Question::Both));
        assert_eq!(draft.against, ["container", "vm"]);
        let (draft, said) = asked(&[], "./server --port {port}\n99999\n9000\nvm, vm\ncapacity\n20ms\n5m\n");
        let draft = draft.unwrap();
        assert!(said.contains("from 1 to 65535"), "a wrong answer is asked for again: {said}");
        let run = ["./server", "--port", "{port}"].map(str::to_owned).to_vec();
        assert_eq!(draft.subject, Subject::Command { run, port: 9000 });
        assert_eq!((draft.against.as_slice(), draft.p99), (&["vm".to_owned()][..], Nanos::from_millis(20)));
    }

    #[test]
    fn a_slip_in_an_answer_is_no_program() {
        let (draft, said) = asked(&[], "ngnix\n6\nnginx\nvm\nlatency\n5m\n");
        assert_eq!(draft.unwrap().subject, Subject::Nginx);
        for word in ["ngnix", "6"] {
            assert!(said.contains(&format!("`{word}` is none of these, and no program here")), "{said}");
        }
        assert!(asked(&["--ask", "latency"], "sh\n\nvm\n5m\n").0.is_ok(), "a program's name is a command");
        assert!(command("ngnix").is_err_and(|why| why.starts_with("this host has no program `ngnix`; ")));
        assert_eq!(command("ngnix --port {port}").unwrap().0.len(), 3, "what has arguments is meant");
        assert_eq!(command("/opt/ngnix").unwrap().0, ["/opt/ngnix"]);
    }

    #[test]
    fn what_would_be_ignored_is_refused() {
        let refused = |arguments: &[&str]| {
            let arguments = ["init"].iter().chain(arguments);
            ParseArgs::<Args>::try_parse_from(arguments).err().map(|error| error.to_string())
        };
        let port = refused(&["--service", "http", "--port", "80"]).unwrap();
        assert!(port.contains("cannot be used with"), "{port}");
        assert_eq!(refused(&["--run", "sh -c x", "--port", "80"]), None);
        assert_eq!(refused(&["--service", "http"]), None, "the default port isn't given");
    }

    #[test]
    fn what_no_answers_make_a_plan_of_is_refused_before_they_are_given() {
        let possible = |arguments: &[&str]| {
            let arguments = ["init"].iter().chain(arguments);
            ParseArgs::<Args>::try_parse_from(arguments).unwrap().args.check_possible(Path::new("t.yaml"))
        };
        assert!(possible(&[]).is_ok() && possible(&["--p99", "20ms", "--time", "10m"]).is_ok());
        assert!(possible(&["--p99", "0s"]).is_err() && possible(&["--time", "1ms"]).is_err());
        // A request of HTTP has failed before it takes so long; what else may be answered has no such end.
        assert!(possible(&["--service", "http", "--p99", "1h"]).is_err());
        assert!(possible(&["--p99", "1h"]).is_ok());
        for name in ["a b", ""] {
            let refused = ParseArgs::<Args>::try_parse_from(["init", "--name", name]).err();
            assert!(refused.is_some_and(|error| error.to_string().contains("1 to 60 letters")), "`{name}`");
        }
    }

    #[test]
    fn a_slip_is_told_in_the_question_s_words() {
        let (draft, said) = asked(&["--service", "http"], "vm, kvm\nvm\nspeed\nlatency\n5m\n");
        assert_eq!((draft.unwrap().question, said.contains("variant")), (Question::Latency, false), "{said}");
        assert!(said.contains("`kvm` is neither container nor vm\n"), "{said}");
        assert!(said.contains("`speed` is none of capacity, latency, both\n"), "{said}");
    }

    #[test]
    fn an_answer_that_makes_no_plan_is_asked_for_again() {
        let given = ["--service", "http", "--against", "vm", "--ask", "capacity"];
        let (draft, said) = asked(&given, "1h\n20ms\n1ms\n5m\n");
        let draft = draft.unwrap();
        assert_eq!((draft.p99, draft.time), (Nanos::from_millis(20), Nanos::from_secs(300)), "{said}");
        assert!(said.contains("is never exceeded, as requests fail after 2s\n"), "{said}");
        assert_eq!(said.matches('?').count(), 4, "{said}");
    }

    #[test]
    fn a_limit_that_nothing_has_is_not_asked_for() {
        for (answers, subject) in
            [("http\nvm\nlatency\n5m\n", Subject::Http), ("sip\nvm\nboth\n5m\n", Subject::Sip)]
        {
            let (draft, said) = asked(&[], answers);
            let draft = draft.unwrap();
            assert!(!said.contains("99 of 100"), "{said}");
            assert_eq!((draft.subject, draft.time), (subject, Nanos::from_secs(300)));
        }
    }

    #[test]
    fn what_was_given_is_not_asked() {
        let given =
            ["--service", "redis", "--against", "vm", "--ask", "capacity", "--p99", "5ms", "--time", "3m"];
        let (draft, said) = asked(&given, "");
        assert_eq!((draft.unwrap().subject, said.as_str()), (Subject::Redis, ""));
        assert_eq!(asked(&[], "http\n").0, Err(NoAnswer::Ended), "the answers ended");
    }

    #[test]
    fn answers_that_are_all_wrong_are_told_from_none() {
        let given = ["--service", "http"];
        let (draft, said) = asked(&given, &"x\n".repeat(5));
        assert_eq!((draft, said.matches("container, vm]").count()), (Err(NoAnswer::Wrong), 5));
        assert_eq!(asked(&given, &"x\n".repeat(4)).0, Err(NoAnswer::Ended));
    }
}
