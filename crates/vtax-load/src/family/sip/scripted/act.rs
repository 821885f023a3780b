//! The actions of a scenario.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Exp, Gamma, LogNormal, Normal, Pareto, Poisson, Weibull};
use vtax_sys::clock::unix_time;
use vtax_wire::sip::{Credentials, Hex, Message, Name, ha1};
use vtax_wire::sipp::{Action, Arithmetic, Comparison, Duration, Matcher, Operand, Search, Stop};

use super::call::{Call, Variable};
use super::render::{self, Context};
use super::shared::Shared;
use crate::family::sip::token::TOKEN_BYTES;

/// Lines of the log that one worker keeps.
const LOG_MAX: usize = 1_000;
/// Longest line of the log.
const LOG_BYTES_MAX: usize = 2_000;

/// How a call goes on after actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acted {
    /// As the command says.
    On,
    /// With that command.
    Jump(u16),
    /// It has failed: what was to be checked isn't so.
    Unlike,
    /// Something is to be stopped.
    Stop(Stop),
}

/// The log of one worker.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) lines: Vec<String>,
    pub(super) left_out: u64,
}

/// What actions are carried out with, whichever call they are of.
#[derive(Debug)]
pub(super) struct Actor {
    pub(super) rng: Xoshiro256PlusPlus,
    pub(super) matcher: Matcher,
    scratch: Vec<u8>,
    pub(super) log: Log,
}

/// Of which call they are.
pub(super) struct Scene<'a> {
    pub(super) shared: &'a Shared,
    pub(super) token: [u8; TOKEN_BYTES],
    pub(super) command: u16,
    pub(super) local: std::net::SocketAddr,
    pub(super) elapsed: u64,
}

impl Scene<'_> {
    pub(super) fn context<'c>(&'c self, call: &'c Call) -> Context<'c> {
        let Self { shared, token, command, local, elapsed } = self;
        Context { shared, call, token, command: *command, local: *local, elapsed: *elapsed }
    }
}

impl Actor {
    pub(super) fn new(rng: Xoshiro256PlusPlus) -> Self {
        Self { rng, matcher: Matcher::default(), scratch: Vec::new(), log: Log::default() }
    }

    /// Carries actions out, in order, up to one that ends them.
    pub(super) fn act(&mut self, actions: &[Action], scene: &Scene<'_>, call: &mut Call) -> Acted {
        for action in actions {
            let acted = self.one(action, scene, call);
            if acted != Acted::On {
                return acted;
            }
        }
        Acted::On
    }

    fn one(&mut self, action: &Action, scene: &Scene<'_>, call: &mut Call) -> Acted {
        match action {
            Action::Ereg { ere, search, assign, check } => {
                let found = self.search(search, call, |matcher, text| ere.find(matcher, text));
                let Some((text, found)) = found else {
                    assign.iter().for_each(|to| clear(call, *to));
                    return if *check == Some(true) { Acted::Unlike } else { Acted::On };
                };
                self.scratch.clear();
                self.scratch.extend_from_slice(text);
                for (group, to) in assign.iter().enumerate() {
                    match found.get(group) {
                        Some(range) => {
                            if let Some(variable) = call.variables.get_mut(usize::from(*to)) {
                                variable.set_text(&self.scratch[range]);
                            }
                        }
                        None => clear(call, *to),
                    }
                }
                if *check == Some(false) { Acted::Unlike } else { Acted::On }
            }
            Action::Log(parts) | Action::Warning(parts) => {
                self.text(parts, scene, call);
                if self.log.lines.len() < LOG_MAX {
                    let text = &self.scratch[..self.scratch.len().min(LOG_BYTES_MAX)];
                    self.log.lines.push(String::from_utf8_lossy(text).into_owned());
                } else {
                    self.log.left_out += 1;
                }
                Acted::On
            }
            Action::AssignText(to, parts) => {
                self.text(parts, scene, call);
                with(call, *to, |variable| variable.set_text(&self.scratch))
            }
            Action::CompareText(to, variable, parts) => {
                self.text(parts, scene, call);
                let own = call.variables.get(usize::from(*variable)).map_or(&b""[..], Variable::as_text);
                let order = own.cmp(&self.scratch[..]) as i8;
                with(call, *to, |variable| variable.set_number(f64::from(order)))
            }
            Action::Sample(to, duration) => {
                let drawn = self.draw(*duration, call, 0.0);
                with(call, *to, |variable| variable.set_number(drawn))
            }
            Action::VerifyAuth { to, user, password } => {
                self.text(user, scene, call);
                let name = self.scratch.len();
                render::text(&mut self.scratch, password, scene.context(call));
                let (user, password) = self.scratch.split_at(name);
                let right = verify(&call.last, user, password);
                with(call, *to, |variable| variable.set_truth(right))
            }
            action => plain(action, call),
        }
    }

    /// Writes a text into the scratch.
    fn text(&mut self, parts: &[vtax_wire::sipp::Part], scene: &Scene<'_>, call: &Call) {
        self.scratch.clear();
        render::text(&mut self.scratch, parts, scene.context(call));
    }

    /// The text that is looked at and what was found in it.
    fn search<'c, T>(
        &mut self,
        search: &Search,
        call: &'c Call,
        find: impl FnOnce(&mut Matcher, &[u8]) -> Option<T>,
    ) -> Option<(&'c [u8], T)> {
        let text: &'c [u8] = match search {
            Search::Message => &call.last,
            Search::Variable(variable) => call.variables.get(usize::from(*variable))?.as_text(),
            Search::Body => Message::parse(&call.last).ok()?.body(),
            Search::Header(name, occurrence) => {
                let message = Message::parse(&call.last).ok()?;
                let kind = Name::of(name);
                let mut lines = message.header_lines().filter(|(own, written, _)| {
                    *own == kind && (kind != Name::Other || written.eq_ignore_ascii_case(name))
                });
                lines.nth(usize::from(*occurrence) - 1)?.2
            }
        };
        find(&mut self.matcher, text).map(|found| (text, found))
    }

    /// Draws a length of time in milliseconds, or a number; never below 0.
    pub(super) fn draw(&mut self, duration: Duration, call: &Call, usual: f64) -> f64 {
        let rng = &mut self.rng;
        let drawn = match duration {
            Duration::Default => usual,
            Duration::Fixed(value) => value,
            Duration::Variable(variable) => {
                call.variables.get(usize::from(variable)).map_or(0.0, Variable::as_number)
            }
            Duration::Uniform(least, most) => least + (most - least) * rng.random::<f64>(),
            Duration::Normal(mean, deviation) => Normal::new(mean, deviation).map_or(mean, |d| d.sample(rng)),
            Duration::LogNormal(mean, deviation) => {
                LogNormal::new(mean, deviation).map_or(mean.exp(), |d| d.sample(rng))
            }
            Duration::Exponential(mean) if mean > 0.0 => Exp::new(1.0 / mean).map_or(mean, |d| d.sample(rng)),
            Duration::Exponential(_) => 0.0,
            Duration::Weibull(scale, shape) => Weibull::new(scale, shape).map_or(scale, |d| d.sample(rng)),
            Duration::Pareto(shape, least) => Pareto::new(least, shape).map_or(least, |d| d.sample(rng)),
            Duration::Gamma(shape, scale) => {
                Gamma::new(shape, scale).map_or(shape * scale, |d| d.sample(rng))
            }
            Duration::NegativeBinomial(chance, successes) => {
                // A Poisson distribution whose mean is drawn from a gamma distribution.
                let mean = Gamma::new(successes, (1.0 - chance) / chance.max(f64::MIN_POSITIVE))
                    .map_or(0.0, |d| d.sample(rng));
                if mean > 0.0 { Poisson::new(mean).map_or(mean, |d| d.sample(rng)) } else { 0.0 }
            }
        };
        if drawn.is_finite() { drawn.max(0.0) } else { 0.0 }
    }

    /// Whether something that happens so often happens.
    pub(super) fn happens(&mut self, share: f64) -> bool {
        share >= 1.0 || (share > 0.0 && self.rng.random::<f64>() < share)
    }
}

/// What needs nothing but the call.
fn plain(action: &Action, call: &mut Call) -> Acted {
    match action {
        Action::Assign(to, operand) => {
            let value = number(*operand, call);
            with(call, *to, |variable| variable.set_number(value))
        }
        Action::Compute(to, operation, operand) => {
            let (own, other) = (number(Operand::Variable(*to), call), number(*operand, call));
            let value = match operation {
                Arithmetic::Add => own + other,
                Arithmetic::Subtract => own - other,
                Arithmetic::Multiply => own * other,
                // SIPp warns and leaves the variable as it is.
                Arithmetic::Divide => {
                    if other == 0.0 {
                        own
                    } else {
                        own / other
                    }
                }
            };
            with(call, *to, |variable| variable.set_number(value))
        }
        Action::Test(to, left, comparison, right) => {
            let (left, right) = (number(*left, call), number(*right, call));
            let holds = match comparison {
                Comparison::Equal => left == right,
                Comparison::NotEqual => left != right,
                Comparison::Greater => left > right,
                Comparison::Less => left < right,
                Comparison::GreaterEqual => left >= right,
                Comparison::LessEqual => left <= right,
            };
            with(call, *to, |variable| variable.set_truth(holds))
        }
        Action::ToNumber(to, from) => {
            let value = number(Operand::Variable(*from), call);
            with(call, *to, |variable| variable.set_number(value))
        }
        Action::Trim(variable) => with(call, *variable, |variable| {
            let text = &mut variable.text;
            text.truncate(text.trim_ascii_end().len());
            let white = text.len() - text.trim_ascii_start().len();
            text.drain(..white);
        }),
        Action::TimeOfDay(seconds, micros) => {
            let now = unix_time().0;
            with(call, *seconds, |variable| variable.set_number((now / 1_000_000_000) as f64));
            with(call, *micros, |variable| variable.set_number((now / 1_000 % 1_000_000) as f64))
        }
        Action::Jump(to) => Acted::Jump(*to),
        Action::Stop(stop) => Acted::Stop(*stop),
        Action::Ereg { .. }
        | Action::Log(_)
        | Action::Warning(_)
        | Action::AssignText(..)
        | Action::CompareText(..)
        | Action::Sample(..)
        | Action::VerifyAuth { .. } => Acted::On,
    }
}

fn number(operand: Operand, call: &Call) -> f64 {
    match operand {
        Operand::Value(value) => value,
        Operand::Variable(variable) => {
            call.variables.get(usize::from(variable)).map_or(0.0, Variable::as_number)
        }
    }
}

fn with(call: &mut Call, variable: u16, change: impl FnOnce(&mut Variable)) -> Acted {
    if let Some(variable) = call.variables.get_mut(usize::from(variable)) {
        change(variable);
    }
    Acted::On
}

fn clear(call: &mut Call, variable: u16) {
    with(call, variable, |variable| variable.held = super::call::Held::Nothing);
}

/// Whether a request has the credentials of a user.
fn verify(request: &[u8], user: &[u8], password: &[u8]) -> bool {
    let Ok(message) = Message::parse(request) else { return false };
    let vtax_wire::sip::StartLine::Request { method_text, .. } = message.start() else { return false };
    let mut lines = message.lines(Name::Authorization).chain(message.lines(Name::ProxyAuthorization));
    lines.any(|line| {
        Credentials::parse(line).is_ok_and(|credentials| {
            let ha1: Hex = ha1(credentials.algorithm.unwrap_or_default(), user, credentials.realm, password);
            credentials.username == user && credentials.is_answer_of(&ha1, method_text)
        })
    })
}
