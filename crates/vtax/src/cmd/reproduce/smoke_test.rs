//! `vtax reproduce --smoke-test`: each experiment's plan tried once and briefly.

use std::ffi::OsString;

use anyhow::Context;
use vtax_sys::clock::unix_ms;
use vtax_sys::signals::SignalFd;

use super::Job;
use super::child::{ChildExit, vtax};
use super::work::say;
use crate::cmd::run::shell_word;
use crate::exit::{Classify, Exit, Outcome};
use crate::front::ENDING;
use crate::out;
use crate::time::timestamp;

impl Job {
    /// Smoke tests of the experiments that are to be run; [`Exit::Failed`] where one of them fails.
    pub(super) fn smoke_test(&self) -> Outcome {
        self.check_plans()?;
        let signals = SignalFd::new(&ENDING).context("receive signals").host_cannot()?;
        let place = self.directory.join(format!("smoke-tests-{}", timestamp(unix_ms())));
        vtax_store::create_directory(&place)?;
        let (mut text, mut fails) = (String::from("\nsmoke tests\n"), false);
        for experiment in self.experiments() {
            let plan = self.write_plan(experiment)?;
            let directory = place.join(&experiment.id);
            say(&format!("{}: {}", experiment.id, experiment.title));
            let arguments = ["run".into(), plan.into(), "--smoke-test".into(), "--out".into()];
            let arguments: Vec<OsString> = arguments.into_iter().chain([directory.clone().into()]).collect();
            let ChildExit { exit, error } = vtax(&arguments, &signals)?;
            let came_of_it = match (exit, error) {
                (Some(Exit::Done), _) => "works".to_owned(),
                (Some(Exit::Interrupted), _) => return Ok(Exit::Interrupted),
                (Some(Exit::Failed), _) => format!("fails: {}/report.html", shell_word(&directory)),
                (_, error) => format!("fails: {}", error.unwrap_or_else(|| "its run was killed".to_owned())),
            };
            fails |= came_of_it != "works";
            text += &format!("  {}  {came_of_it}\n", experiment.id);
        }
        out::printable(&text)?;
        Ok(if fails { Exit::Failed } else { Exit::Done })
    }
}
