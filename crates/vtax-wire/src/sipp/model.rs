//! A scenario as it is carried out.

use super::{Ere, Names, Part, Template};

/// A compiled scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// As the file names it.
    pub name: String,
    /// In the order of the file. A jump to their number, one more than there are, ends the call.
    pub commands: Vec<Command>,
    /// Variables and injection files.
    pub names: Names,
    /// Names of what is timed, in the order in which the file first mentions them.
    pub timers: Vec<String>,
    /// Names of counters.
    pub counters: Vec<String>,
    /// It begins with a request that comes: calls are answered.
    pub is_server: bool,
    /// Commands that receive what may come at any time after them.
    pub anytime: Vec<u16>,
}

/// A command.
#[derive(Debug, Clone)]
pub struct Command {
    /// Line of the file.
    pub line: u32,
    /// What is done.
    pub kind: Kind,
    /// What else happens, and what follows.
    pub flow: Flow,
}

/// What a command does.
#[derive(Debug, Clone)]
pub enum Kind {
    /// Sends a message.
    Send(Box<Sending>),
    /// Waits for a message.
    Receive(Box<Receiving>),
    /// Waits.
    Pause(Duration),
    /// Nothing but its actions.
    Nop(Vec<Action>),
    /// The call is over, but what is sent to it again is answered again for so long.
    TimeWait(Duration),
}

/// A message that is sent.
#[derive(Debug, Clone)]
pub struct Sending {
    /// The message.
    pub message: Template,
    /// Over UDP it is sent again after this time in milliseconds, doubled each time, until something comes.
    pub retransmit: Option<u32>,
    /// Share of the messages that are lost on purpose, 0 to 1.
    pub lost: f64,
}

/// A message that is waited for.
#[derive(Debug, Clone)]
pub struct Receiving {
    /// What it must be.
    pub expect: Expect,
    /// Whether it need not come.
    pub optional: Optional,
    /// How long it is waited for, in milliseconds, never 0; without it as long as the load says.
    pub timeout: Option<u32>,
    /// The command that follows where it doesn't come in time; without it the call has failed.
    pub on_timeout: Option<u16>,
    /// Its Record-Route and Contact are kept for `[routes]` and `[next_url]`.
    pub route_set: bool,
    /// Its challenge is kept for `[authentication]`.
    pub challenge: bool,
    /// Share of the messages that are taken for lost, 0 to 1.
    pub lost: f64,
    /// In order.
    pub actions: Vec<Action>,
}

/// Which message is waited for.
#[derive(Debug, Clone)]
pub enum Expect {
    /// A response with this status.
    Status(u16),
    /// A response whose status matches.
    StatusLike(Ere),
    /// A request with this method.
    Method(Vec<u8>),
    /// A request whose method matches.
    MethodLike(Ere),
}

/// Whether a message need not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Optional {
    /// It must.
    No,
    /// It may come before the next one that must.
    Yes,
    /// It may come at any time from here on.
    Anytime,
}

/// What all commands have.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    /// Which command follows, where it isn't the one behind it.
    pub next: Option<Next>,
    /// Timers that begin.
    pub start: Vec<u16>,
    /// Timers that end.
    pub stop: Vec<u16>,
    /// They may end more than once in a call.
    pub repeat: bool,
    /// A counter that goes up.
    pub counter: Option<u16>,
    /// The command is carried out only if this variable is set, or (`true`) isn't.
    pub condition: Option<(u16, bool)>,
}

/// A jump.
#[derive(Debug, Clone)]
pub struct Next {
    /// Number of the command.
    pub to: u16,
    /// Only if this variable is set.
    pub test: Option<u16>,
    /// Only so often, 0 to 1.
    pub chance: f64,
}

/// A length of time, or a number that is drawn, in milliseconds where it is a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Duration {
    /// The load's own (`-d` of SIPp).
    Default,
    /// Always the same.
    Fixed(f64),
    /// What a variable says.
    Variable(u16),
    /// Between two bounds.
    Uniform(f64, f64),
    /// Mean and standard deviation.
    Normal(f64, f64),
    /// Mean and standard deviation of its logarithm.
    LogNormal(f64, f64),
    /// Mean.
    Exponential(f64),
    /// Scale and shape.
    Weibull(f64, f64),
    /// Shape and least value.
    Pareto(f64, f64),
    /// Shape and scale.
    Gamma(f64, f64),
    /// Failures before so many successes, each of this probability.
    NegativeBinomial(f64, f64),
}

/// What is computed with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Operand {
    /// A number.
    Value(f64),
    /// A variable's.
    Variable(u16),
}

/// Where an expression is looked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Search {
    /// In all of the message.
    Message,
    /// In the value of a header, the how manieth of that name, from 1.
    Header(Vec<u8>, u16),
    /// In the body.
    Body,
    /// In a variable.
    Variable(u16),
}

/// An arithmetic operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the operation of its name")]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the comparison of its name")]
pub enum Comparison {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterEqual,
    LessEqual,
}

/// What ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The call, as failed.
    Call,
    /// The load; calls under way go on.
    Gracefully,
    /// The load and all calls.
    Now,
}

/// An action.
#[derive(Debug, Clone)]
pub enum Action {
    /// Looks for a regular expression.
    Ereg {
        /// The expression.
        ere: Ere,
        /// Where it is looked for.
        search: Search,
        /// Variables that are set to the match and to its groups, in order.
        assign: Vec<u16>,
        /// The call fails where there is no match (`true`), or where there is one (`false`).
        check: Option<bool>,
    },
    /// Writes a line of the log.
    Log(Vec<Part>),
    /// Writes a line of the log, as a warning.
    Warning(Vec<Part>),
    /// Sets a variable to a number.
    Assign(u16, Operand),
    /// Sets a variable to a text.
    AssignText(u16, Vec<Part>),
    /// Changes a variable's number.
    Compute(u16, Arithmetic, Operand),
    /// Sets a variable to whether a comparison holds.
    Test(u16, Operand, Comparison, Operand),
    /// Sets a variable to how a variable's text stands to another: below 0, 0, or above.
    CompareText(u16, u16, Vec<Part>),
    /// Sets a variable to the number that another's text begins with.
    ToNumber(u16, u16),
    /// Takes white space off the ends of a variable's text.
    Trim(u16),
    /// Sets a variable to a number that is drawn.
    Sample(u16, Duration),
    /// Sets variables to the seconds since 1970 and the microseconds of the second.
    TimeOfDay(u16, u16),
    /// Goes on with that command.
    Jump(u16),
    /// Ends something.
    Stop(Stop),
    /// Sets a variable to whether the message has this user's credentials.
    VerifyAuth {
        /// The variable.
        to: u16,
        /// The user's name.
        user: Vec<Part>,
        /// The password.
        password: Vec<Part>,
    },
}

impl Scenario {
    /// A command in a few words, for a table.
    #[must_use]
    pub fn label(&self, command: usize) -> String {
        let Some(command) = self.commands.get(command) else { return String::new() };
        match &command.kind {
            Kind::Send(send) if send.message.method.is_empty() => {
                let first = send.message.parts.first();
                let text = match first {
                    Some(Part::Text(text)) => String::from_utf8_lossy(text).into_owned(),
                    _ => String::new(),
                };
                let status = text.split_whitespace().nth(1).unwrap_or("response").to_owned();
                format!("send {status}")
            }
            Kind::Send(send) => format!("send {}", String::from_utf8_lossy(&send.message.method)),
            Kind::Receive(receive) => match &receive.expect {
                Expect::Status(code) => format!("recv {code}"),
                Expect::Method(method) => format!("recv {}", String::from_utf8_lossy(method)),
                Expect::StatusLike(_) => "recv a status".to_owned(),
                Expect::MethodLike(_) => "recv a request".to_owned(),
            },
            Kind::Pause(_) => "pause".to_owned(),
            Kind::Nop(_) => "nop".to_owned(),
            Kind::TimeWait(_) => "timewait".to_owned(),
        }
    }
}
