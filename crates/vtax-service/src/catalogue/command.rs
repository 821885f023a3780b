//! A service of the user's own.

use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};

use vtax_plan::model::{CommandService, Ready};

use super::entry::Entry;
use crate::documents::write_file;
use crate::error::ServiceError;
use crate::hidden::{Hidden, hidden};
use crate::packages::{EMPTY_COMMAND, Missing, find_program};
use crate::recipe::{Condition, EntryContext, Recipe};

pub(super) struct Own<'a>(pub(super) &'a CommandService);

impl Entry for Own<'_> {
    fn missing(&self) -> Option<Missing> {
        let program = self.0.command.first().map_or("", String::as_str);
        // A program in the private directory exists only once that is written.
        let written = program.contains("{dir}");
        (!written && find_program(program).is_none()).then(|| Missing {
            program: if program.is_empty() { EMPTY_COMMAND.into() } else { program.into() },
            package: None,
            install: None,
        })
    }

    fn hidden(&self) -> Vec<Hidden> {
        hidden(&self.0.command, |word| self.0.files.contains_key(word.trim_start_matches("./")))
    }

    fn installed_files(&self) -> Vec<PathBuf> {
        self.0.command.first().and_then(|program| find_program(program)).into_iter().collect()
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        prepare(context, self.0).map(|recipe| vec![recipe])
    }
}

/// Writes its files; replaces `{address}`, `{port}` and `{dir}` everywhere.
fn prepare(context: &EntryContext<'_>, own: &CommandService) -> Result<Recipe, ServiceError> {
    let fill = |text: &String| fill(text, context.address, context.directory);
    for (name, content) in &own.files {
        let path = inside(context, name)?;
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(context.file("making", parent))?;
        }
        write_file(&path, fill(content).as_bytes()).map_err(context.file("writing", &path))?;
    }
    let ready = match &own.ready {
        Ready::Port => Condition::Port,
        Ready::Log(text) => Condition::Log(text.clone()),
        Ready::Command(command) => Condition::Command(command.iter().map(fill).collect()),
    };
    let env = own.env.iter().map(|(name, value)| (name.clone(), fill(value))).collect();
    Ok(Recipe { env, ..context.recipe(own.command.iter().map(fill).collect(), ready) })
}

/// The place of one of the plan's files; it must lie below the private directory.
fn inside(context: &EntryContext<'_>, name: &str) -> Result<PathBuf, ServiceError> {
    let path = Path::new(name);
    // The directory was made empty a moment ago, so there are no links in it that could lead out.
    let ordinary = path.components().all(|c| matches!(c, Component::Normal(_)));
    if name.is_empty() || name.contains('\0') || name.ends_with('/') || !ordinary {
        return Err(ServiceError::PathOutside { service: context.service.to_owned(), path: name.to_owned() });
    }
    Ok(context.directory.join(path))
}

/// Replaces the placeholders in one pass, so that what was put in is never replaced again. Other
/// braces stay as they are: files may be JSON.
fn fill(text: &str, address: SocketAddr, directory: &Path) -> String {
    let values = [
        ("{address}", address.ip().to_string()),
        ("{port}", address.port().to_string()),
        ("{dir}", directory.to_string_lossy().into_owned()),
    ];
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(brace) = rest.find('{') {
        filled.push_str(&rest[..brace]);
        rest = &rest[brace..];
        if let Some((name, value)) = values.iter().find(|(name, _)| rest.starts_with(name)) {
            filled.push_str(value);
            rest = &rest[name.len()..];
        } else {
            filled.push('{');
            rest = &rest[1..];
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ADDRESS: &str = "10.0.0.2:8080";

    fn filled(text: &str) -> String {
        fill(text, ADDRESS.parse().expect("an address"), Path::new("/run/{port}"))
    }

    #[test]
    fn placeholders_are_replaced_once() {
        assert_eq!(
            filled("{\"at\": \"{address}:{port}\", {dir} {x} {"),
            "{\"at\": \"10.0.0.2:8080\", /run/{port} {x} {"
        );
    }

    fn place(name: &str) -> Result<PathBuf, ServiceError> {
        let address = ADDRESS.parse().expect("an address");
        let context = EntryContext { directory: Path::new("/run/own"), address, ..EntryContext::example() };
        inside(&context, name)
    }

    #[test]
    fn files_stay_below_the_private_directory() {
        assert_eq!(place("etc/a.conf").expect("inside"), Path::new("/run/own/etc/a.conf"));
        for name in ["", "/etc/passwd", "../x", "a/../../x", "a/..", ".", "a\0b", "x/"] {
            assert!(matches!(place(name), Err(ServiceError::PathOutside { .. })), "{name:?} was accepted");
        }
    }

    proptest! {
        #[test]
        fn no_name_leads_out(name in "(\\.|/|\\.\\.|[a-z]){0,12}") {
            if let Ok(path) = place(&name) {
                prop_assert!(path.starts_with("/run/own") && path != Path::new("/run/own"));
                prop_assert!(path.components().all(|c| c != Component::ParentDir));
            }
        }

        #[test]
        fn text_without_placeholders_stays(text in "[a-z{}\" ]{0,40}") {
            prop_assume!(!["{address}", "{port}", "{dir}"].iter().any(|p| text.contains(p)));
            prop_assert_eq!(filled(&text), text);
        }
    }
}
