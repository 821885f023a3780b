//! vtax's own user agent that answers calls, a process of its own so that its CPU time is its own too.

use vtax_plan::model::{UasOptions, VoiceLaw};

use super::entry::Entry;
use crate::documents::write_file;
use crate::error::ServiceError;
use crate::recipe::{Condition, EntryContext, Recipe};

pub(super) struct Uas<'a>(pub(super) &'a UasOptions);

impl Entry for Uas<'_> {
    fn is_own(&self) -> bool {
        true
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let listen = context.address.to_string();
        let arguments = ["load", "sip", "--uas", &listen, "--quiet"];
        // Written once calls can come.
        let mut recipe = context.own(&arguments, Condition::Log("answering calls at sip:".to_owned()));
        recipe.datagrams = true;
        if let Some(scenario) = &self.0.scenario {
            let path = context.directory.join("scenario.xml");
            write_file(&path, scenario.text.as_bytes()).map_err(context.file("writing", &path))?;
            recipe.command.push(format!("--scenario-file={}", path.display()));
        }
        if self.0.scenario.is_some() || self.0.media.is_some() {
            recipe.command.push(format!("--calls={}", self.0.calls));
        }
        if let Some(media) = &self.0.media {
            let codec = match media.law {
                VoiceLaw::Mu => "pcmu",
                VoiceLaw::A => "pcma",
            };
            recipe.command.extend([
                "--media".to_owned(),
                format!("--codec={codec}"),
                format!("--packet={}", media.packet),
                format!("--jitter-buffer={}", media.jitter_buffer),
            ]);
        }
        Ok(vec![recipe])
    }
}

#[cfg(test)]
mod tests {
    use vtax_plan::model::{MediaOptions, ScriptFile};
    use vtax_units::Nanos;

    use super::*;

    #[test]
    fn its_scenario_is_a_file_of_its_own() {
        let place = tempfile::tempdir().expect("a directory");
        let context = EntryContext { directory: place.path(), ..EntryContext::example() };
        let text = "<scenario/>".to_owned();
        let scenario = Some(ScriptFile { name: "deep/uas.xml".into(), text: text.clone() });
        let options = UasOptions { port: 5060, scenario, calls: 7, media: None };
        let [recipe] = &Uas(&options).recipes(&context).expect("a recipe")[..] else { panic!("one process") };
        assert!(recipe.datagrams);
        let file = recipe.command.iter().find_map(|word| word.strip_prefix("--scenario-file="));
        assert_eq!(std::fs::read_to_string(file.expect("a file")).expect("its text"), text);
        assert!(recipe.command.iter().any(|word| word == "--calls=7"), "{:?}", recipe.command);
        let plain = UasOptions { scenario: None, ..options };
        let recipes = Uas(&plain).recipes(&context).expect("a recipe");
        assert!(!recipes[0].command.iter().any(|word| word.contains("scenario") || word.contains("calls")));
        let (packet, jitter_buffer) = (Nanos::from_millis(20), Nanos::from_millis(60));
        let media = Some(MediaOptions { law: VoiceLaw::A, packet, jitter_buffer });
        let recipes = Uas(&UasOptions { media, ..plain }).recipes(&context).expect("a recipe");
        let expected = ["--calls=7", "--media", "--codec=pcma", "--packet=20ms", "--jitter-buffer=60ms"];
        assert!(recipes[0].command.ends_with(&expected.map(str::to_owned)), "{:?}", recipes[0].command);
    }
}
