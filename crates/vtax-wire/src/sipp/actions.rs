//! The actions of a command.

use super::compile::Compiler;
use super::model::{Action, Arithmetic, Comparison, Duration, Operand, Search, Stop};
use super::xml::Element;
use super::{Ere, Part};

impl Compiler<'_> {
    /// All actions of a command.
    pub(super) fn actions(&mut self, command: &Element) -> Vec<Action> {
        let mut found = Vec::new();
        for child in &command.children {
            if child.name != "action" {
                self.problem(
                    child.line,
                    format!("<{}> within <{}> isn't supported", child.name, command.name),
                );
                continue;
            }
            for action in &child.children {
                found.extend(self.action(action));
            }
        }
        found
    }

    fn action(&mut self, element: &Element) -> Option<Action> {
        let found = match element.name.as_str() {
            "ereg" => self.ereg(element)?,
            "log" => Action::Log(self.text(element, "message")?),
            "warning" => Action::Warning(self.text(element, "message")?),
            "assign" => Action::Assign(self.target(element)?, self.operand(element, "value", "variable")?),
            "assignstr" => Action::AssignText(self.target(element)?, self.text(element, "value")?),
            "add" => self.compute(element, Arithmetic::Add)?,
            "subtract" => self.compute(element, Arithmetic::Subtract)?,
            "multiply" => self.compute(element, Arithmetic::Multiply)?,
            "divide" => self.compute(element, Arithmetic::Divide)?,
            "test" => self.test(element)?,
            "strcmp" => {
                let (to, variable) = (self.target(element)?, self.variable_of(element, "variable")?);
                let other = match element.get("variable2") {
                    Some(name) => {
                        vec![Part::Keyword(super::Keyword::Variable(self.name_of_variable(name, element)?))]
                    }
                    None => self.text(element, "value")?,
                };
                Action::CompareText(to, variable, other)
            }
            "todouble" => Action::ToNumber(self.target(element)?, self.variable_of(element, "variable")?),
            "trim" => Action::Trim(self.target(element)?),
            "sample" => {
                let to = self.target(element)?;
                match self.duration(element) {
                    Duration::Default => {
                        self.problem(element.line, "<sample> needs `distribution`");
                        return None;
                    }
                    duration => Action::Sample(to, duration),
                }
            }
            "gettimeofday" => {
                let both = self.assigned(element)?;
                let [seconds, micros] = both[..] else {
                    self.problem(element.line, "`assign_to` of <gettimeofday> names two variables");
                    return None;
                };
                Action::TimeOfDay(seconds, micros)
            }
            "jump" => Action::Jump(self.index(element)?),
            "exec" => return self.exec(element),
            "verifyauth" => Action::VerifyAuth {
                to: self.target(element)?,
                user: self.text(element, "username")?,
                password: self.text(element, "password")?,
            },
            other => {
                self.problem(element.line, format!("the action <{other}> isn't supported"));
                return None;
            }
        };
        self.known(element, attributes_of(&element.name));
        Some(found)
    }

    fn ereg(&mut self, element: &Element) -> Option<Action> {
        let expression = self.required(element, "regexp")?;
        let any_case = self.flag(element, "case_indep");
        let ere = match Ere::compile(expression.as_bytes(), any_case) {
            Ok(ere) => ere,
            Err(error) => {
                self.problem(element.line, format!("regexp `{expression}`: {error}"));
                return None;
            }
        };
        let occurrence = element.get("occurrence").or(element.get("occurence"));
        let occurrence = match occurrence.map(str::parse::<u16>) {
            None => 1,
            Some(Ok(occurrence @ 1..)) => occurrence,
            Some(_) => {
                self.problem(element.line, "`occurrence` must be a number from 1 on");
                return None;
            }
        };
        let search = match element.get("search_in").unwrap_or("msg") {
            "msg" => Search::Message,
            "body" => Search::Body,
            "hdr" => {
                let header = self.required(element, "header")?;
                Search::Header(header.trim().trim_end_matches(':').trim().as_bytes().to_vec(), occurrence)
            }
            "var" => Search::Variable(self.variable_of(element, "variable")?),
            other => {
                self.problem(element.line, format!("search_in=\"{other}\" isn't supported"));
                return None;
            }
        };
        let check = match (self.flag(element, "check_it"), self.flag(element, "check_it_inverse")) {
            (false, false) => None,
            (true, false) => Some(true),
            (false, true) => Some(false),
            (true, true) => {
                self.problem(element.line, "`check_it` and `check_it_inverse` exclude each other");
                return None;
            }
        };
        let assign = if element.get("assign_to").is_some() { self.assigned(element)? } else { Vec::new() };
        if assign.len() > ere.groups().min(super::GROUPS_MAX) + 1 {
            self.problem(
                element.line,
                format!(
                    "`assign_to` names {} variables; the expression has {} groups",
                    assign.len(),
                    ere.groups()
                ),
            );
            return None;
        }
        if assign.is_empty() && check.is_none() {
            self.problem(element.line, "<ereg> needs `assign_to` or `check_it`");
            return None;
        }
        Some(Action::Ereg { ere, search, assign, check })
    }

    fn compute(&mut self, element: &Element, operation: Arithmetic) -> Option<Action> {
        let operand = self.operand(element, "value", "variable")?;
        if operation == Arithmetic::Divide && operand == Operand::Value(0.0) {
            self.problem(element.line, "a division by 0");
            return None;
        }
        Some(Action::Compute(self.target(element)?, operation, operand))
    }

    fn test(&mut self, element: &Element) -> Option<Action> {
        let (to, left) = (self.target(element)?, self.variable_of(element, "variable")?);
        let comparison = match self.required(element, "compare")? {
            "equal" => Comparison::Equal,
            "not_equal" => Comparison::NotEqual,
            "greater_than" => Comparison::Greater,
            "less_than" => Comparison::Less,
            "greater_than_equal" => Comparison::GreaterEqual,
            "less_than_equal" => Comparison::LessEqual,
            other => {
                self.problem(element.line, format!("compare=\"{other}\" isn't supported"));
                return None;
            }
        };
        let right = self.operand(element, "value", "variable2")?;
        Some(Action::Test(to, Operand::Variable(left), comparison, right))
    }

    fn exec(&mut self, element: &Element) -> Option<Action> {
        let stop = match element.get("int_cmd") {
            Some("stop_call") => Stop::Call,
            Some("stop_gracefully") => Stop::Gracefully,
            Some("stop_now") => Stop::Now,
            Some(other) => {
                self.problem(element.line, format!("int_cmd=\"{other}\" isn't supported"));
                return None;
            }
            None => {
                let what = element.attributes.first().map_or("nothing", |(name, _)| name.as_str());
                self.problem(element.line, format!("<exec {what}> isn't supported"));
                return None;
            }
        };
        self.known(element, &["int_cmd"]);
        Some(Action::Stop(stop))
    }

    fn index(&mut self, element: &Element) -> Option<u16> {
        let value = self.required(element, "value")?;
        let found = value.parse::<u16>().ok();
        if found.is_none() {
            self.problem(element.line, format!("value=\"{value}\" is no number of a command"));
        }
        found
    }

    fn text(&mut self, element: &Element, name: &str) -> Option<Vec<Part>> {
        let value = self.required(element, name)?;
        Some(self.parts(value, element.line))
    }

    fn operand(&mut self, element: &Element, value: &str, variable: &str) -> Option<Operand> {
        if let Some(name) = element.get(variable) {
            return self.name_of_variable(name, element).map(Operand::Variable);
        }
        let text = self.required(element, value)?;
        let found = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        if found.is_none() {
            self.problem(element.line, format!("{value}=\"{text}\" is no number"));
        }
        found.map(Operand::Value)
    }

    /// The one variable that is set.
    fn target(&mut self, element: &Element) -> Option<u16> {
        let all = self.assigned(element)?;
        if let [one] = all[..] {
            return Some(one);
        }
        self.problem(element.line, format!("`assign_to` of <{}> names one variable", element.name));
        None
    }

    fn assigned(&mut self, element: &Element) -> Option<Vec<u16>> {
        let names = self.required(element, "assign_to")?;
        names.split(',').map(|name| self.name_of_variable(name.trim(), element)).collect()
    }

    fn variable_of(&mut self, element: &Element, name: &str) -> Option<u16> {
        let variable = self.required(element, name)?;
        self.name_of_variable(variable, element)
    }
}

/// What an action may have.
fn attributes_of(action: &str) -> &'static [&'static str] {
    match action {
        "ereg" => &[
            "regexp",
            "search_in",
            "header",
            "variable",
            "occurrence",
            "occurence",
            "case_indep",
            "check_it",
            "check_it_inverse",
            "assign_to",
        ],
        "log" | "warning" => &["message"],
        "assignstr" => &["assign_to", "value"],
        "test" => &["assign_to", "variable", "compare", "value", "variable2"],
        "strcmp" => &["assign_to", "variable", "variable2", "value"],
        "sample" => super::compile::SAMPLE,
        "verifyauth" => &["assign_to", "username", "password"],
        "jump" => &["value"],
        _ => &["assign_to", "value", "variable"],
    }
}
