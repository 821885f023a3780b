//! SIPp's scenarios: any bytes are refused with their lines or compiled, and what is compiled is sound.
//!
//! The first byte says what the rest is: a whole file, the commands of a scenario, a regular expression with a text, an injection file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_wire::sipp::{Ere, Injection, Kind, Matcher, Names, PROBLEMS_MAX, Scenario};

fn compile(file: &[u8]) {
    let scenario = match Scenario::compile(file, &[]) {
        Ok(scenario) => scenario,
        Err(problems) => {
            assert!(!problems.is_empty() && problems.len() <= PROBLEMS_MAX);
            assert!(problems.is_sorted_by_key(|problem| problem.line));
            return;
        }
    };
    let end = scenario.commands.len();
    assert!(end > 0);
    for (number, command) in scenario.commands.iter().enumerate() {
        assert!(command.line > 0 && !scenario.label(number).is_empty());
        assert!(command.flow.next.as_ref().is_none_or(|next| usize::from(next.to) <= end));
        let timers = command.flow.start.iter().chain(&command.flow.stop);
        assert!(timers.into_iter().all(|timer| usize::from(*timer) < scenario.timers.len()));
        if let Kind::Receive(receive) = &command.kind {
            assert!(receive.on_timeout.is_none_or(|to| usize::from(to) <= end));
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let [what, rest @ ..] = data else { return };
    match what % 4 {
        0 => compile(rest),
        1 => compile(&[b"<scenario name=\"x\">", rest, b"</scenario>"].concat()),
        2 => {
            let [length, rest @ ..] = rest else { return };
            let (expression, text) = rest.split_at(usize::from(*length).min(rest.len()));
            if let Ok(ere) = Ere::compile(expression, length % 2 == 0)
                && let Some(found) = ere.find(&mut Matcher::default(), text)
            {
                let whole = found.get(0).expect("a match is somewhere");
                for group in 1..=ere.groups().min(9) {
                    if let Some(range) = found.get(group) {
                        assert!(
                            range.start <= range.end && whole.start <= range.start && range.end <= whole.end
                        );
                    }
                }
            }
        }
        _ => {
            if let Ok(injection) = Injection::read(rest, &mut Names::default(), &[]) {
                assert!(injection.lines() > 0);
                for line in 0..injection.lines().min(50) {
                    assert!(injection.get(line, 0).is_some());
                }
            }
        }
    }
});
